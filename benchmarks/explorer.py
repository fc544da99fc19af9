"""How quickly the explorer answers a slider, first paint, and memory over a thousand changes.

Run alone: python -m benchmarks.explorer. Needs a Chromium with its driver.
"""

import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import httpx
from selenium import webdriver

SCENES = {
    "xor": "task=xor&s.delta=0.5&gating=xor&width=32&scale=0.0002&steps=400",
    "contextual": "task=contextual&gating=common+%2B+all-but-one&scale=0.001&steps=900",
}
CHANGES, MANY = 40, 1000


def memory(process: int) -> float:
    """Resident megabytes."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium") or shutil.which("google-chrome"))
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1280,900",
    ):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(str(shutil.which("chromedriver"))))


def forecasts(page: webdriver.Chrome) -> int:
    return int(page.execute_script("return document.body.dataset.forecasts ?? 0"))


def wait_for(page: webdriver.Chrome, count: int) -> None:
    while forecasts(page) < count:
        time.sleep(0.005)


def slid(page: webdriver.Chrome, place: int) -> float:
    """Milliseconds from a slider's event to the new curve on the screen."""
    before = forecasts(page)
    page.execute_script(
        "const i = document.getElementById('control-scale'); i.value = arguments[0];"
        "i.dispatchEvent(new Event('input'))",
        place,
    )
    wait_for(page, before + 1)
    return float(page.execute_script("return document.body.dataset.milliseconds"))


def answer_times(page: webdriver.Chrome, address: str) -> None:
    for name, scene in SCENES.items():
        page.get("about:blank")
        page.get(f"{address}#{scene}")
        wait_for(page, 1)
        paint = page.execute_script("return performance.getEntriesByName('first-contentful-paint')[0].startTime")
        page.execute_script("document.getElementById('auto').checked = false")
        time.sleep(2)
        for place in range(60, 66):  # warm
            slid(page, place)
        found = [slid(page, place) for place in range(70, 70 + CHANGES)]
        low, middle, high = (
            statistics.quantiles(found, n=10)[0],
            statistics.median(found),
            statistics.quantiles(found, n=10)[8],
        )
        print(f"{name}: slider to curve {middle:.0f} ms (tenths {low:.0f} to {high:.0f}), first paint {paint:.0f} ms")


def memory_over_changes(process: int, address: str) -> None:
    scene = {"task": "xor", "settings": {"delta": 0.5}, "gating": "xor", "width": 32, "steps": 400}
    with httpx.Client(base_url=address, timeout=60) as client:
        for number in range(MANY + 1):
            if number % 250 == 0:
                print(f"after {number} changes: {memory(process):.0f} MB", flush=True)
            changed = scene | {"scale": 1e-4 * 1.003**number}
            client.post("api/forecast", json={"page": "many", "scene": changed}).raise_for_status()
            if number % 10 == 0:
                client.post("api/snapshots", json={"page": "many", "scene": changed}).raise_for_status()


def main() -> None:
    command = [sys.executable, "-m", "neuralrace", "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = re.findall(r"http://\S+", server.stderr.readline())[0]
        page = browser()
        try:
            answer_times(page, address)
            memory_over_changes(server.pid, address)
        finally:
            page.quit()
            server.terminate()


if __name__ == "__main__":
    main()
