"""Start the server on this machine and open the page."""

import asyncio
import importlib.util
import os
import socket
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING, Any, cast

from neuralrace.errors import RangeError, ResourceError

if TYPE_CHECKING:
    import uvicorn

    from neuralrace.explorer.session import Session

PORT = 8642
GRACE, INTERRUPTED = 0.5, 130  # seconds for the last words, and the status of a command that was interrupted
NEEDED = ("starlette", "uvicorn", "plotly", "latex2mathml")


def serve(port: int | None = None, browser: bool = True) -> None:
    """Serve the explorer until the process is interrupted. port: 8642 unless given, or a free one if that is taken."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ResourceError(
            f"the explorer needs {', '.join(missing)}: install them with pip install 'neuralrace[explorer]'"
        )
    listening = _listen(port)
    from neuralrace.explorer.presets import compile_ahead
    from neuralrace.explorer.session import Session

    session, address = Session(), f"http://127.0.0.1:{listening.getsockname()[1]}/"
    print(f"explorer: {address} (stop with Ctrl-C)", file=sys.stderr, flush=True)
    threading.Thread(target=compile_ahead, args=(session,), name="compiling ahead").start()
    if browser:
        threading.Timer(0.5, webbrowser.open, (address,)).start()
    try:
        make_server(session).run(sockets=[listening])
    except KeyboardInterrupt:  # compiling cannot be stopped, and the process would wait for it
        end = threading.Timer(GRACE, os._exit, (INTERRUPTED,))
        end.daemon = True  # a process that has ended by then needs no help
        end.start()
        raise
    finally:
        session.close()
        listening.close()


def make_server(session: "Session", patience: float | None = None) -> "uvicorn.Server":
    """Return the server. patience: seconds in which a request has to arrive (10).

    uvicorn itself waits without end for the first request of a connection, and for the rest of one.
    """
    import uvicorn
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    from neuralrace.explorer.app import PATIENCE, make_app

    seconds = PATIENCE if patience is None else patience
    app, base = make_app(session, seconds), cast(Any, AutoHTTPProtocol)

    class Patient(base):  # type: ignore[misc, valid-type]
        """Close a connection over which nothing came for some seconds, unless its request is being answered."""

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.line, self.client_address = transport, transport.get_extra_info("peername")
            self.expect()

        def data_received(self, data: bytes) -> None:
            self.silence.cancel()
            self.expect()
            super().data_received(data)

        def connection_lost(self, error: Exception | None) -> None:
            self.silence.cancel()
            super().connection_lost(error)

        def expect(self) -> None:
            self.silence = asyncio.get_running_loop().call_later(seconds, self.give_up)

        def give_up(self) -> None:
            if self.client_address in app.state.busy:
                self.expect()
            else:
                self.line.close()

    # bugs are answered; uvicorn would also log the requests that Ctrl-C cuts off
    quiet: dict[str, Any] = {"log_level": "critical", "access_log": False, "lifespan": "off"}
    return uvicorn.Server(uvicorn.Config(app, http=Patient, timeout_graceful_shutdown=1, **quiet))


def _listen(port: int | None) -> socket.socket:
    """Return a listening socket of this machine alone; a port that is only bound looks free to other processes."""
    if port is not None and not 0 <= port < 65536:
        raise RangeError(f"port must be from 0 to 65535, 0 for a free one; it was {port}")
    try:
        return socket.create_server(("127.0.0.1", PORT if port is None else port))
    except OSError:
        if port is not None:
            raise RangeError(f"port {port} is taken: choose another one, or leave --port out") from None
        return socket.create_server(("127.0.0.1", 0))
