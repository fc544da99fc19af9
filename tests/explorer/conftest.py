"""One server for all tests of the explorer, on a free port of this machine."""

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from explorer_scene import Served
from neuralrace.explorer.server import _listen, make_server
from neuralrace.explorer.session import Session


@contextlib.contextmanager
def serving(patience: float | None = None) -> Iterator[Served]:
    session, listening = Session(), _listen(0)
    port = listening.getsockname()[1]
    server = make_server(session, patience)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Served(f"http://127.0.0.1:{port}/", port, session)
    server.should_exit = True
    thread.join(10)
    session.close()
    listening.close()


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def impatient() -> Iterator[Served]:
    with serving(patience=0.3) as server:
        yield server
