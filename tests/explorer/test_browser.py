"""The page in a real browser, where a Chromium is found: controls, links, a guess, a training to its end, stories."""

import csv
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import stories

import neuralrace as nr
from explorer_scene import LINK, Served

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")

pytestmark = pytest.mark.skipif(CHROMIUM is None or DRIVER is None, reason="no Chromium with its driver was found")


class Page:
    """A browser at the explorer, and what the tests do with it."""

    def __init__(self, driver: Any, address: str, saved: Path) -> None:
        self.driver, self.address, self.saved = driver, address, saved
        self.js, self.find = driver.execute_script, partial(driver.find_element, "id")

    def open(self, fragment: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}#{fragment}")

    def wait(self, script: str, seconds: float = 90) -> Any:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := self.js(f"return {script}"):
                return found
            time.sleep(0.03)
        raise AssertionError(f"waited {seconds} s for {script}; the message is {self.text('message')!r}")

    def ready(self) -> None:
        self.wait("Number(document.body.dataset.forecasts ?? 0) > 0")

    def changes(self, act: Callable[[], Any]) -> None:
        """Do something that asks for a new forecast, and wait for its curve."""
        before = int(self.js("return document.body.dataset.forecasts ?? 0"))
        act()
        self.wait(f"Number(document.body.dataset.forecasts ?? 0) > {before}")

    def text(self, name: str) -> str:
        return str(self.js("return document.getElementById(arguments[0]).textContent", name))

    def put(self, name: str, value: Any, event: str = "change") -> None:
        """Give a control a value, as a visitor does."""
        script = """const control = document.getElementById(arguments[0]); control.value = arguments[1];
        control.dispatchEvent(new Event(arguments[2], {bubbles: true}))"""
        self.js(script, name, value, event)

    def slide(self, name: str, place: int) -> None:
        self.put(name, place, "input")

    def curves(self) -> dict[str, list[float]]:
        """The curves in the legend."""
        script = """return Object.fromEntries(document.getElementById('plot').data
            .filter((trace) => trace.showlegend !== false).map((trace) => [trace.name, [...trace.y]]))"""
        return self.js(script)

    def export(self, kind: str) -> bytes:
        file = self.saved / f"neuralrace-xor.{kind}"
        self.put("export", kind)
        until = time.monotonic() + 30
        while not file.exists() and time.monotonic() < until:
            time.sleep(0.03)
        return file.read_bytes()


@pytest.fixture(scope="module")
def browser(served: Served, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    from selenium import webdriver

    options, saved = webdriver.ChromeOptions(), tmp_path_factory.mktemp("saved")
    options.binary_location = str(CHROMIUM)
    for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "window-size=1280,900"):
        options.add_argument(f"--{flag}")
    several = {"profile.default_content_setting_values.automatic_downloads": 1}
    options.add_experimental_option("prefs", {"download.default_directory": str(saved)} | several)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(str(DRIVER)))
    yield Page(driver, served.address, saved)
    driver.quit()


@pytest.fixture(autouse=True)
def quiet(browser: Page) -> Iterator[None]:
    """No test leaves an error in the console except refused requests, or loads anything from another host."""
    yield
    errors = [entry["message"] for entry in browser.driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert [message for message in errors if "status of 400" not in message] == []
    for entry in browser.driver.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            address = message["params"]["request"]["url"]
            assert address.startswith(("http://127.0.0.1:", "data:", "blob:", "about:")), address


@pytest.fixture
def page(browser: Page) -> Page:
    """The page with a small scene, which is not trained."""
    browser.open(LINK)
    browser.ready()
    browser.js("document.getElementById('auto').checked = false")
    return browser


def test_a_link_is_forecast_and_trained_and_exported(browser: Page) -> None:
    link = LINK + "&log=1&tab=equations&t=0.500"
    browser.open(link)
    browser.ready()
    assert browser.find("log").is_selected()
    browser.wait("document.body.dataset.training === 'done'")
    assert "apart by" in browser.text("readout")
    assert browser.js("return document.querySelectorAll('#race circle').length") == 8  # four lanes, theory and training
    assert browser.js("return document.querySelectorAll('#panel math').length") >= 1
    assert browser.js("return document.querySelectorAll('#chips button').length") >= 5
    assert sorted(browser.js("return location.hash.slice(1)").split("&")) == sorted(link.split("&"))
    nameless = browser.js("""
        const named = (e) => e.getAttribute("aria-label") || e.labels?.[0]?.textContent.trim() || e.textContent.trim();
        const all = [...document.querySelectorAll("button, input, select, summary, [role=img]")];
        return all.filter((e) => !named(e)).map((e) => e.outerHTML)
    """)
    assert nameless == []
    theory = [float(value) for value in browser.curves()["theory"]]
    rows = list(csv.DictReader(browser.export("csv").decode().splitlines()))
    assert [float(row["theory"]) for row in rows] == theory
    words = {element.text for element in ElementTree.fromstring(browser.export("svg")).iter()}
    assert {"theory", "training, mean of 2"} <= words


def test_controls_draw_another_curve(page: Page) -> None:
    for name, place in (("control-delta", 60), ("control-scale", 90), ("control-rate", 120)):
        before = page.curves()["theory"]
        page.changes(lambda name=name, place=place: page.slide(name, place))
        assert page.curves()["theory"] != before, name
    page.changes(lambda: page.put("gating", "linear"))
    page.changes(lambda: page.js("document.querySelector('#network input[value=relu]').click()"))
    assert page.js("return document.getElementById('gating-box').hidden")
    page.changes(lambda: page.slide("control-seeds", 0))
    assert "seeds=1" in page.js("return location.hash")


def test_a_gate_is_toggled(page: Page) -> None:
    gate = "document.querySelector('[data-place=\"0.1\"]')"
    assert page.js(f"return {gate}.getAttribute('aria-checked')") == "false"
    page.changes(lambda: page.js(f"{gate}.click()"))
    assert page.js(f"return {gate}.getAttribute('aria-checked')") == "true"
    assert "flips=0.1" in page.js("return location.hash")
    page.changes(lambda: page.js(f"{gate}.click()"))
    assert "flips" not in page.js("return location.hash")


def test_guess_first(page: Page) -> None:
    from selenium.webdriver import ActionChains

    page.find("guess").click()
    page.wait("!document.getElementById('plot').data.some((t) => t.name === 'theory')")
    pull = ActionChains(page.driver).move_to_element_with_offset(page.find("overlay"), -150, -120).click_and_hold()
    pull.move_by_offset(100, 40).move_by_offset(100, 60).release().perform()
    assert len(page.js("return document.getElementById('guess-line').getAttribute('points')").split()) == 60
    assert "you expect" in page.text("guess-told")
    page.find("reveal").click()
    page.wait("document.getElementById('guess-told').textContent.includes('of the area away')")
    assert page.curves()["theory"]
    page.wait("document.body.dataset.training === 'done'")


def test_pins_python_and_map(page: Page) -> None:
    page.find("pin").click()
    page.wait("document.querySelectorAll('#pins li').length === 1")
    assert "pin=" in page.js("return location.hash")
    page.changes(lambda: page.slide("control-scale", 80))
    assert "pinned 1, theory" in page.curves()
    page.js("document.querySelectorAll('#pins button')[1].click()")
    page.wait("document.querySelectorAll('#pins li').length === 0")
    page.find("python").click()
    program, found = page.wait("document.body.dataset.python"), {}
    exec(compile(program.partition("run = ")[0], "copied.py", "exec"), found)
    assert found["problem"].task.inputs["x"].tolist() == nr.tasks.xor(delta=0.5).task.inputs["x"].tolist()
    assert found["initial"] == nr.initial.gaussian(
        float(re.findall("scale=([^&]*)", page.js("return location.hash"))[0])
    )
    assert "forecast = nr.predict(problem, initial, run.time, key=0, draws=2, rtol=1e-4)" in program
    page.js("document.getElementById('map-box').open = true")
    page.put("across", "scale")
    page.find("sweep").click()
    page.wait("document.querySelectorAll('#map button:not([disabled])').length === 8")
    before = page.js("return location.hash")
    page.changes(lambda: page.js("document.querySelectorAll('#map button')[6].click()"))
    assert page.js("return location.hash") != before  # the scene is that of the cell


def test_stories_and_presets(page: Page) -> None:
    page.changes(lambda: page.put("guided", "plateaus"))
    page.changes(lambda: page.find("tour-next").click())
    assert page.text("tour-place") == "2 of 3"
    page.find("tour-end").click()
    page.changes(lambda: page.put("preset", "saxe2022-contextual"))
    page.wait("location.hash.includes('task=contextual_classification')")
    page.changes(lambda: page.find("task-hierarchy").click())
    assert "task=hierarchy" in page.js("return location.hash")


def test_a_bad_link_names_the_bound_and_the_page_continues(page: Page) -> None:
    for link, words in (
        ("task=xor&width=9999", "at most 256"),
        ("task=xor&scale=small", "scale must be"),
        ("preset=saxe2022-fig99", "no scene for a figure saxe2022-fig99"),
    ):
        page.open(link)
        page.wait(f"document.getElementById('message').textContent.includes('{words}')")
    page.open(LINK)
    page.ready()
    assert page.js("return document.getElementById('message').hidden")


def test_a_phone_shows_everything_in_one_column(page: Page) -> None:
    small = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", small)
    page.open(LINK)
    page.ready()
    assert page.js("return document.documentElement.scrollWidth") <= 390
    script = "return ['left', 'center', 'right'].map((n) => document.getElementById(n).getBoundingClientRect().left)"
    assert page.js(script) == [0, 0, 0]
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def test_stories_play_recorded_runs_without_a_server(page: Page, tmp_path: Path) -> None:
    stories.install(tmp_path)
    shutil.copytree(stories.RECORDS, tmp_path / "records" / "explorer")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=tmp_path)) as files:
        threading.Thread(target=files.serve_forever, daemon=True).start()
        shown = Page(page.driver, f"http://127.0.0.1:{files.server_port}/stories/", page.saved)
        shown.open("guided=losers.2")
        shown.wait("document.body.dataset.training === 'done'")
        assert "apart by" in shown.text("readout")
        assert shown.js("return document.querySelectorAll('#race circle').length") == 6
        shown.open("guided=lazy.1")
        shown.wait("document.body.dataset.training === 'done'")
        assert {"theory, untrained routes", "training, untrained routes"} <= set(shown.curves())
        assert shown.js("return document.getElementById('control-scale').disabled")
        files.shutdown()
