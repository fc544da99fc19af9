"""Starting and stopping: what is missing is named, a taken port is told, Ctrl-C leaves no trace."""

import contextlib
import importlib.util
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import httpx
import pytest

from neuralrace.errors import NeuralRaceError
from neuralrace.explorer.server import PORT, serve
from neuralrace.report.section import EXPLORER


def test_what_is_missing_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        NeuralRaceError, match=r"needs starlette, uvicorn, plotly: .* pip install 'neuralrace\[explorer\]'"
    ):
        serve()


def test_a_port_that_is_taken_or_no_port_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(NeuralRaceError, match="is taken: choose another one"):
            serve(taken.getsockname()[1], browser=False)
    with pytest.raises(NeuralRaceError, match="port must be from 0 to 65535"):
        serve(70_000, browser=False)


def test_the_report_links_to_where_the_explorer_is() -> None:
    assert f"http://127.0.0.1:{PORT}/" == EXPLORER


# a process that was started in the background ignores Ctrl-C, and so would what it starts
LISTENING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("neuralrace", run_name="__main__")
"""


def _ask(address: str, scene: dict) -> None:
    with contextlib.suppress(httpx.HTTPError):  # the server stops before it has answered
        httpx.post(f"{address}api/forecast", json={"scene": scene}, timeout=60)


def test_ctrl_c_stops_the_server_without_a_trace() -> None:
    command = [sys.executable, "-c", LISTENING, "explore", "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        address = re.findall(r"http://127\.0\.0\.1:\d+/", server.stderr.readline())[0]
        for _ in range(100):
            try:
                assert httpx.get(address, timeout=60).status_code == 200
                break
            except httpx.ConnectError:
                pass
        # somebody waits for a network that takes seconds to compile
        asked = threading.Thread(target=_ask, args=(address, {"task": "routing", "depth": 4, "width": 64}))
        asked.start()
        asked.join(0.3)
        server.send_signal(signal.SIGINT)
        began = time.monotonic()
        said, told = server.communicate(timeout=120)
    assert time.monotonic() - began < 10  # it compiles ahead just then: seconds, which nobody waits for
    assert server.returncode == 130
    assert (said, told.strip()) == ("", "neuralrace: interrupted")
