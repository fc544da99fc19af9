"""The picture of the explorer on its page: python -m docs.screenshot, with a Chromium and its driver."""

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from selenium import webdriver

PICTURE = Path(__file__).parent / "records" / "explorer.png"
SCENE = "task=contextual&gating=common+%2B+all-but-one&steps=900&t=0.35&tab=similarity"


def main() -> None:
    """Open a scene, let it train, look at it."""
    command = [sys.executable, "-m", "neuralrace", "explore", "--no-browser", "--port", "0"]
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium") or shutil.which("google-chrome"))
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(flag)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = re.findall(r"http://\S+", server.stderr.readline())[0]
        page = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))
        try:
            size = {"width": 1280, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
            page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            page.get(f"{address}#{SCENE}")
            while page.execute_script("return document.body.dataset.training") != "done":
                time.sleep(0.2)
            time.sleep(1)
            page.save_screenshot(str(PICTURE))
        finally:
            page.quit()
            server.terminate()


if __name__ == "__main__":
    main()
