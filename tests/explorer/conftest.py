"""One server for all tests of the explorer, on a free port of this machine."""

import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn

from explorer_scene import Served
from neuralrace.explorer.app import make_app
from neuralrace.explorer.desk import Desk
from neuralrace.explorer.server import _listen


@pytest.fixture(scope="session")
def served() -> Iterator[Served]:
    desk, listening = Desk(), _listen(0)
    port = listening.getsockname()[1]
    settings = uvicorn.Config(make_app(desk, port), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield Served(f"http://127.0.0.1:{port}/", port, desk)
    server.should_exit = True
    thread.join(10)
    desk.close()
    listening.close()
