"""One server for all tests of the explorer, on a free port of this machine."""

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from explorer_scene import Served
from neuralrace.explorer.app import make_app
from neuralrace.explorer.server import _listen
from neuralrace.explorer.session import Session


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    session, listening = Session(), _listen(0)
    port = listening.getsockname()[1]
    settings = uvicorn.Config(make_app(session), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Served(f"http://127.0.0.1:{port}/", port, session)
    server.should_exit = True
    thread.join(10)
    session.close()
    listening.close()
