"""The server as a page meets it: what it answers, what it refuses, and that one visitor's mistake stops nobody."""

import json
import threading
import time
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

import neuralrace as nr
from explorer_scene import SMALL, Served
from neuralrace.explorer.answers import Send, training_events
from neuralrace.explorer.bounds import BODY_BYTES
from neuralrace.explorer.desk import Desk, SupersededError, Token
from neuralrace.explorer.scene import Scene


@pytest.fixture(scope="module")
def page(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.address, timeout=120) as client:
        yield client


def events(answer: httpx.Response) -> list[tuple[str, dict]]:
    parts = [part.split("\n") for part in answer.text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


def trained(page: httpx.Client, **changes: object) -> list[tuple[str, dict]]:
    return events(page.post("api/training", json={"page": "p", "scene": SMALL | changes}))


def test_the_curve_is_that_of_predict_and_the_training_that_of_train(page: httpx.Client) -> None:
    answer = page.post("api/forecast", json={"page": "p", "scene": SMALL}).json()
    problem, law = nr.tasks.xor(delta=0.5).problem("xor", hidden=4), nr.initial.gaussian(0.005)
    time = np.array(answer["time"])
    assert np.allclose(
        nr.predict(problem, law, time, key=0, draws=2, rtol=1e-4).loss, answer["loss"], rtol=1e-5
    )  # six digits
    assert answer["certificate"]["ladder"][0] == {"name": "closed_form", "state": "taken", "failed": None}
    said = trained(page)
    assert [name for name, _ in said][-1] == "done"
    seen = np.concatenate([np.array(data["loss"]) for name, data in said if name == "progress"], axis=1)
    steps = np.rint(time / 0.4).astype(int)
    run = nr.train(problem, law, 0.4, 60, seeds=2, key=0, progress=False)
    assert np.allclose(run.loss[:, steps], seen, rtol=1e-5)
    done = said[-1][1]
    assert np.allclose(done["gap"], seen.mean(axis=0) - answer["loss"], atol=1e-5)
    assert done["agreement"]["max_gap"] < 0.2  # two networks of four neurons each
    assert trained(page)[-1] == said[-1]  # kept


def test_the_machine_of_theory(page: httpx.Client) -> None:
    found = page.post("api/machine", json={"page": "p", "scene": SMALL}).json()
    assert [lane["label"] for lane in found["lanes"]["lanes"]] == ["h0", "h1", "h2", "h3"]
    assert "<math" in found["equations"]["equations"][0]
    assert found["regime"][0]["name"] == "flow regime"
    assert found["similarity"]["size"] == 4
    assert len(found["units"]["places"]) == len(found["time"])


def test_a_guess_is_measured_against_the_forecast(page: httpx.Client) -> None:
    answer = page.post("api/forecast", json={"page": "p", "scene": SMALL}).json()
    drawn = [[t, 2 * loss] for t, loss in zip(answer["time"], answer["loss"], strict=True)]
    found = page.post("api/guess", json={"page": "p", "scene": SMALL, "guess": drawn}).json()
    assert found["normalized_l1"] == pytest.approx(1, abs=0.01)
    assert page.post("api/guess", json={"page": "p", "scene": SMALL, "guess": "high"}).status_code == 400


def test_a_map_opens_the_run_of_each_cell(page: httpx.Client) -> None:
    plan = {"across": {"name": "scale", "values": [0.002, 0.02]}, "measure": "time to half"}
    said = events(page.post("api/map", json={"page": "p", "scene": SMALL, "map": plan}))
    cells = [data for name, data in said if name == "cell"]
    assert [cell["scene"]["scale"] for cell in cells] == [0.002, 0.02]
    assert cells[0]["value"] is None or cells[0]["value"] > cells[1]["value"]  # smaller weights take longer
    for plan, word in [
        ({"across": {"name": "width", "values": [4]}}, "a map goes over values of"),
        ({"across": {"name": "scale", "values": [1e-3] * 65}}, "64 cells"),
        ({"across": {"name": "scale", "values": [1e-3]}, "measure": "luck"}, "a map shows"),
        (None, "a map goes over"),
    ]:
        name, data = events(page.post("api/map", json={"page": "p", "scene": SMALL, "map": plan}))[-1]
        assert name == "failed"
        assert word in data["error"]


def test_a_mistake_or_a_divergence_stops_nobody(page: httpx.Client) -> None:
    bad = page.post("api/forecast", json={"page": "p", "scene": {"width": 10**6}})
    assert bad.status_code == 400
    assert "at most 256" in bad.json()["error"]
    said = trained(page, rate=10.0)
    assert said[-1][0] == "done", said[-1]
    assert "diverged" in said[-1][1]["status"]
    assert said[-1][1]["agreement"] is None
    assert page.post("api/forecast", json={"page": "p", "scene": SMALL}).status_code == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[" * 100_000, b'{"page": 3}', b'{"scene": []}'])
def test_what_is_no_request_is_refused_in_one_line(page: httpx.Client, body: bytes) -> None:
    answer = page.post("api/forecast", content=body)
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert "\n" not in answer.json()["error"]


def test_other_hosts_origins_and_long_bodies_are_refused(page: httpx.Client, served: Served) -> None:
    assert page.get("/", headers={"host": "example.org"}).status_code == 403
    assert page.get("/", headers={"host": f"127.0.0.1:{served.port + 1}"}).status_code == 403
    other = page.post("api/forecast", json={"scene": SMALL}, headers={"origin": "http://example.org"})
    assert other.status_code == 403
    own = page.get("api/about", headers={"origin": served.address.rstrip("/")})
    assert own.status_code == 200
    assert own.headers["content-security-policy"].startswith("default-src 'self'")
    assert page.post("api/table", content=b"1" * (BODY_BYTES + 1)).status_code == 413
    long = page.post("api/forecast", content=iter([b" " * BODY_BYTES, b"  "]))  # nothing announced
    assert long.status_code == 400
    assert f"{BODY_BYTES:,} bytes" in long.json()["error"]


def test_files_of_the_page_and_nothing_beside_them(page: httpx.Client) -> None:
    assert "neuralrace explorer" in page.get("/").text
    assert "plotly.js v" in page.get("plotly.js").text[:400]
    assert page.get("static/main.js").status_code == 200
    for path in ("static/../app.py", "static/%2e%2e/app.py", "static/", "etc/passwd"):
        assert page.get(path).status_code == 404


def test_a_table_is_read_and_refused(page: httpx.Client) -> None:
    assert page.post("api/table", content="a,b\n1,2\n").json()["rows"] == 1
    assert "UTF-8" in page.post("api/table", content=b"\xff\xfe\xff").json()["error"]


def test_a_page_that_goes_away_is_noticed(page: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = threading.Event()

    def endless(desk: Desk, scene: Scene, token: Token, send: Send) -> None:
        send("progress", {})
        for _ in range(3000):
            if token.is_set():
                noticed.set()
                return
            time.sleep(0.01)

    monkeypatch.setattr("neuralrace.explorer.answers.training_events", endless)
    with page.stream("POST", "api/training", json={"page": "leaver", "scene": SMALL}) as answer:
        assert next(answer.iter_lines()) == "event: progress"
        assert not noticed.is_set()
    assert noticed.wait(20)


def test_a_training_that_nobody_waits_for_stops_at_its_next_look(served: Served) -> None:
    token, said = Token(), []

    def send(event: str, data: dict) -> None:
        said.append((event, data["step"]))
        token.set()

    with pytest.raises(SupersededError):
        training_events(served.desk, Scene.read(SMALL | {"steps": 20_000, "rate": 0.001}), token, send)
    assert said[0][0] == "progress"
    assert said[-1][1] < 20_000  # one more look after the stop, and no end
    assert "done" not in dict(said)


def test_an_older_request_of_a_page_is_dropped_and_memory_is_bounded() -> None:
    desk = Desk()
    first, second = desk.token("p", "forecast"), desk.token("p", "forecast")
    assert first.is_set()
    assert not second.is_set()
    assert not desk.token("q", "forecast").is_set()
    for number in range(1000):
        desk.forecasts.keep(number, object())
        desk.token(f"page {number}", "forecast")
    for number in range(10):
        desk.tables.add(f"{number},1\n")
    assert len(desk.forecasts) == 32
    assert len(desk._tokens) == 256
    assert len(desk.tables) == 8
    desk.close()
    assert desk.token("page 999", "forecast") is not None
