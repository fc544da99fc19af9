"""The server as a page meets it: its answers, what it refuses, bounded memory, start and stop."""

import contextlib
import importlib.util
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from importlib.resources import files

import httpx
import numpy as np
import pytest

import neuralrace as nr
from explorer_scene import SMALL, Served
from neuralrace.errors import NeuralRaceError
from neuralrace.explorer import presets
from neuralrace.explorer.answers import Send, training_events
from neuralrace.explorer.app import MOST_BYTES
from neuralrace.explorer.scene import name_of, read_scene
from neuralrace.explorer.server import PORT, serve
from neuralrace.explorer.session import Cache, Session, SupersededError, Token


@pytest.fixture(scope="module")
def page(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.address, timeout=120) as client:
        yield client


def events(answer: httpx.Response) -> list[tuple[str, dict]]:
    parts = [part.split("\n") for part in answer.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


def trained(page: httpx.Client, **changes: object) -> list[tuple[str, dict]]:
    return events(page.post("api/training", json={"page": "p", "scene": SMALL | changes}))


def test_the_curves_are_those_of_predict_and_train(page: httpx.Client) -> None:
    answer = page.post("api/forecast", json={"page": "p", "scene": SMALL}).json()
    problem, initial = nr.tasks.xor(delta=0.5).problem("xor", hidden=4), nr.initial.gaussian(0.005)
    forecast = nr.predict(problem, initial, np.array(answer["time"]), key=0, draws=2, rtol=1e-4)
    assert np.allclose(forecast.loss, answer["loss"], rtol=1e-5)  # six digits
    assert answer["certificate"]["ladder"][0] == {"name": "closed_form", "state": "taken", "failed": None}
    told = trained(page)
    seen = np.concatenate([np.array(data["loss"]) for name, data in told if name == "progress"], axis=1)
    run = nr.train(problem, initial, 0.4, 60, seeds=2, key=0, progress=False)
    steps = np.rint(np.array(answer["time"]) / 0.4).astype(int)
    assert np.allclose(run.loss[:, steps], seen, rtol=1e-5)
    name, done = told[-1]
    assert name == "done"
    assert np.allclose(done["gap"], seen.mean(axis=0) - answer["loss"], atol=1e-5)
    assert done["agreement"]["max_gap"] < 0.2  # two networks of four neurons each
    assert trained(page)[-1] == told[-1]  # kept
    found = page.post("api/snapshots", json={"page": "p", "scene": SMALL}).json()
    assert [lane["label"] for lane in found["lanes"]["lanes"]] == ["h0", "h1", "h2", "h3"]
    assert found["regime"][0]["name"] == "flow regime"


def test_a_mistake_or_a_divergence_stops_no_other(page: httpx.Client) -> None:
    bad = page.post("api/forecast", json={"page": "p", "scene": {"width": 10**6}})
    assert bad.status_code == 400
    assert "at most 256" in bad.json()["error"]
    name, done = trained(page, rate=10.0)[-1]
    assert name == "done", done
    assert "diverged" in done["status"]
    assert done["agreement"] is None
    assert page.post("api/forecast", json={"page": "p", "scene": SMALL}).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 50_000, b'{"page": 3}', b'{"scene": []}'])
def test_a_bad_request_is_refused_in_one_line(page: httpx.Client, body: bytes) -> None:
    answer = page.post("api/forecast", content=body)
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]


def test_other_hosts_origins_and_long_bodies_are_refused(page: httpx.Client, served: Served) -> None:
    assert page.get("/", headers={"host": "example.org"}).status_code == 400
    for origin in ("http://example.org", f"http://127.0.0.1:{served.port + 1}", "null"):
        assert page.post("api/forecast", json={"scene": SMALL}, headers={"origin": origin}).status_code == 403
    own = page.get("api/about", headers={"origin": served.address.rstrip("/")})
    assert own.status_code == 200
    assert own.headers["content-security-policy"].startswith("default-src 'self'")
    for body in (b" " * (MOST_BYTES + 1), iter([b" " * MOST_BYTES, b"  "])):  # announced or not
        long = page.post("api/forecast", content=body)
        assert long.status_code == 413
        assert f"{MOST_BYTES:,} bytes" in long.json()["error"]


def talk(served: Served, *parts: bytes) -> tuple[bytes, float]:
    """What the server says until it closes the connection, and when that is."""
    with socket.create_connection(("127.0.0.1", served.port), timeout=20) as line:
        began, said = time.monotonic(), []
        for part in parts:
            line.sendall(part)
        while part := line.recv(1 << 16):  # a reset raises an error
            said.append(part)
        return b"".join(said), time.monotonic() - began


HEAD = b"POST /api/forecast HTTP/1.1\r\nhost: localhost\r\n"


def test_a_silent_connection_is_closed(impatient: Served) -> None:
    for parts in ((), (b"GET / HT",), (b"GET /api/about HTTP/1.1\r\nhost: localhost\r\n\r\n", b"GET")):
        said, seconds = talk(impatient, *parts)
        assert (b"200 OK" in said) == (len(parts) == 2)
        assert 0.2 < seconds < 5
    said, _ = talk(impatient, HEAD + b"content-length: 9\r\n\r\n{")
    assert b"408 Request Timeout" in said
    assert b"must arrive within 0.3 s" in said


def test_an_answer_may_take_longer_than_a_request(impatient: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "neuralrace.explorer.answers.training_events",
        lambda session, scene, token, send: (time.sleep(1.0), send("done", {})),
    )
    said = httpx.post(f"{impatient.address}api/training", json={"page": "p", "scene": SMALL}, timeout=20)
    assert "event: done" in said.text


def test_a_long_body_is_answered_before_the_connection_is_closed(served: Served) -> None:
    whole = 40_000_000
    for length in (b"content-length: %d\r\n\r\n" % whole, b"transfer-encoding: chunked\r\n\r\n%x\r\n" % whole):
        end = b"" if length.startswith(b"content") else b"\r\n0\r\n\r\n"
        said, _ = talk(served, HEAD + length, b" " * whole, end)
        assert b"413 " in said
        assert b"65,536 bytes" in said


def test_files_of_the_page_and_no_others(page: httpx.Client) -> None:
    assert "neuralrace explorer" in page.get("/").text
    assert "plotly.js v" in page.get("plotly.js").text[:400]
    assert page.get("static/main.js").status_code == 200
    for path in ("static/../app.py", "static/%2e%2e/app.py", "static/", "etc/passwd"):
        assert page.get(path).status_code == 404


def test_a_page_that_goes_away_is_noticed(page: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = threading.Event()

    def silent(session: Session, scene: dict, token: Token, send: Send) -> None:
        send("progress", {})
        if token.wait(30):
            noticed.set()

    monkeypatch.setattr("neuralrace.explorer.answers.training_events", silent)
    with page.stream("POST", "api/training", json={"page": "leaver", "scene": SMALL}) as answer:
        lines = answer.iter_lines()  # kept: the answer is closed with its iterator
        assert next(lines) == "event: progress"
        assert not noticed.is_set()
    assert noticed.wait(20)


def test_a_dropped_training_stops_at_its_next_callback(served: Served) -> None:
    token, told = Token(), []

    def send(event: str, data: dict) -> None:
        told.append((event, data["step"]))
        token.set()

    with pytest.raises(SupersededError):
        training_events(served.session, read_scene(SMALL | {"steps": 20_000, "rate": 0.001}), token, send)
    assert told[0][0] == "progress"
    assert told[-1][1] < 20_000
    assert "done" not in dict(told)


def test_memory_is_bounded_and_older_requests_are_dropped() -> None:
    session = Session()
    first, second = session.token("p", "forecast"), session.token("p", "forecast")
    assert (first.is_set(), second.is_set()) == (True, False)
    for number in range(1000):
        session.forecasts.get(number, object)
        session.token(f"page {number}", "forecast")
    assert (len(session.forecasts), len(session.tokens)) == (32, 256)
    session.close()


def test_a_result_is_made_once_and_a_failure_is_not_kept() -> None:
    cache, made, start, found = Cache(2), [], threading.Event(), []

    def make() -> object:
        made.append(start.wait(20))
        return object()

    threads = [threading.Thread(target=lambda: found.append(cache.get("scene", make))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert cache.get("another", object) is not None  # does not wait for the first
    start.set()
    for thread in threads:
        thread.join(20)
    assert len(made) == 1
    assert len(set(map(id, found))) == 1
    with pytest.raises(ZeroDivisionError):
        cache.get("failing", lambda: 1 / 0)
    assert cache.find("failing") is None
    assert cache.get("failing", lambda: 1) == 1


def test_first_scenes_are_compiled_while_no_page_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    session, small = Session(), read_scene(SMALL)
    monkeypatch.setattr("neuralrace.explorer.session.QUIET", 0.1)
    monkeypatch.setattr(presets, "SCENES", {"starts": {"xor": SMALL}})
    with session.serving():
        thread = threading.Thread(target=presets.compile_ahead, args=(session,))
        thread.start()
        thread.join(3 * presets.PAUSE)
        assert thread.is_alive()
        assert len(session.forecasts) == 0
    thread.join(120)
    assert session.snapshots.find(name_of(small)) is not None
    assert session.trainings.find(name_of(small)) is not None
    session.close()


def test_missing_packages_and_bad_ports_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    template = files("neuralrace.report") / "section.html"
    assert f"http://127.0.0.1:{PORT}/#preset=" in template.read_text(encoding="utf-8")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(NeuralRaceError, match="is taken: choose another one"):
            serve(taken.getsockname()[1], browser=False)
    with pytest.raises(NeuralRaceError, match="port must be from 0 to 65535"):
        serve(70_000, browser=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NeuralRaceError, match=r"needs starlette, .* pip install 'neuralrace\[explorer\]'"):
        serve()


# a process that was started in the background ignores Ctrl-C, and so would its children
LISTENING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("neuralrace", run_name="__main__")
"""


def test_ctrl_c_stops_the_server_without_a_trace() -> None:
    command = [sys.executable, "-c", LISTENING, "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = re.findall(r"http://127\.0\.0\.1:\d+/", server.stderr.readline())[0]
        for _ in range(100):
            with contextlib.suppress(httpx.ConnectError):
                assert httpx.get(address, timeout=60).status_code == 200
                break

        def ask() -> None:  # a network that takes seconds to compile
            with contextlib.suppress(httpx.HTTPError):  # the server stops before it has answered
                scene = {"task": "routing", "depth": 4, "width": 64}
                httpx.post(f"{address}api/forecast", json={"scene": scene}, timeout=60)

        asked = threading.Thread(target=ask)
        asked.start()
        asked.join(0.3)
        server.send_signal(signal.SIGINT)
        began = time.monotonic()
        out, told = server.communicate(timeout=120)
    assert time.monotonic() - began < 10  # although it is compiling
    assert server.returncode == 130
    assert (out, told.strip()) == ("", "neuralrace: interrupted")
