"""The server: loopback only, bodies bounded, mistakes answered in one line of JSON.

GET  /                 the page; /static/..., /plotly.js (from the installed plotly)
GET  /api/about        bounds, tasks, presets, guided scenes, versions
POST /api/forecast     {page, scene} -> curve, certificate, problem
POST /api/snapshots    {page, scene} -> the forecast network over time, equations, step size against curvature
POST /api/training     {page, scene} -> server-sent events: progress, done, failed
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neuralrace.errors import NeuralRaceError, RangeError
from neuralrace.explorer import answers
from neuralrace.explorer.presets import about
from neuralrace.explorer.scene import Scene, read_scene
from neuralrace.explorer.session import Session, SupersededError, Token

STATIC = Path(str(files("neuralrace.explorer") / "static"))
HEADERS = {
    "content-security-policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
MOST_BYTES = 1 << 16  # of a request
PATIENCE = 10.0  # seconds in which a request has to arrive


def make_app(session: Session, patience: float = PATIENCE) -> Starlette:
    """Return the application; it answers pages of its own host only. `state.busy` has the clients that it answers."""
    plotly = Path(str(files("plotly") / "package_data" / "plotly.min.js"))

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def script(_: Request) -> Response:
        return FileResponse(plotly, media_type="text/javascript", headers={"cache-control": "max-age=86400"})

    async def describe(_: Request) -> Response:
        return JSONResponse(about() | {"version": version("neuralrace")})

    def posted(kind: str, make: Callable[[Session, Scene], Any]) -> Route:
        """Answer from work in a thread, unless the page asks for something newer first."""

        async def answer(request: Request) -> Response:
            name, scene = await _read(request)
            token = session.token(name, kind)

            def work() -> Any:
                token.check()
                return make(session, scene)

            with session.serving():
                return JSONResponse(await asyncio.get_running_loop().run_in_executor(session.theory, work))

        return Route(f"/api/{kind}", answer, methods=["POST"])

    async def training(request: Request) -> Response:
        name, scene = await _read(request)
        token = session.token(name, "training")
        events = _events(session, token, lambda send: answers.training_events(session, scene, token, send))
        return StreamingResponse(events, media_type="text/event-stream")

    routes = [
        Route("/", page),
        Route("/plotly.js", script),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/api/about", describe),
        posted("forecast", answers.forecast_data),
        posted("snapshots", answers.snapshots_data),
        Route("/api/training", training, methods=["POST"]),
    ]
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    busy: set[tuple[str, int]] = set()
    bounded, guarded = Middleware(BoundedRequests, busy, patience), Middleware(BaseHTTPMiddleware, dispatch=_guard)
    handlers = dict.fromkeys((NeuralRaceError, Exception), _fail)
    app = Starlette(routes=routes, middleware=[bounded, hosts, guarded], exception_handlers=handlers)
    app.state.busy = busy
    return app


class BoundedRequests:
    """Read a request to its end before it is answered, and refuse one that is too long or too slow.

    The rest of a long one is read and dropped: a connection that is closed while data arrive is reset, and the answer
    lost.
    """

    def __init__(self, app: ASGIApp, busy: set[tuple[str, int]], patience: float) -> None:
        self.app, self.busy, self.patience = app, busy, patience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body, size = b"", 0
        message: Message = {"more_body": True}
        self.busy.add(scope["client"])
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.patience):
                    while message.get("more_body"):
                        message = await receive()
                        size += len(message.get("body", b""))
                        body = body + message.get("body", b"") if size <= MOST_BYTES else b""
            whole = iter([{"type": "http.request", "body": body}])

            async def again() -> Message:
                return next(whole, None) or await receive()

            answer: ASGIApp = self.app
            if size > MOST_BYTES:
                answer = _mistake(f"a request may have at most {MOST_BYTES:,} bytes; got more", 413)
            elif message.get("more_body"):
                answer = _mistake(f"a request must arrive within {self.patience:g} s; it did not", 408)
            await answer(scope, again, send)
        finally:
            self.busy.discard(scope["client"])


async def _guard(request: Request, answer: RequestResponseEndpoint) -> Response:
    """Refuse other origins; restrict what the page may load."""
    origin = request.headers.get("origin")
    if origin is not None and origin != f"http://{request.headers.get('host')}":
        return _mistake("the explorer answers its own page only; the request came from another one", 403)
    response = await answer(request)
    response.headers.update(HEADERS)
    response.headers.setdefault("cache-control", "no-cache")
    return response


def _mistake(message: str, status: int) -> JSONResponse:
    unread = {"connection": "close"} if status in (408, 413) else None
    return JSONResponse({"error": " ".join(message.split())}, status, unread)


def _fail(_: Request | None, error: Exception) -> JSONResponse:
    """Answer a visitor's mistake in one line, and a bug with the type of the exception; the server continues."""
    if isinstance(error, NeuralRaceError):
        return _mistake(str(error), 409 if isinstance(error, SupersededError) else 400)
    return _mistake(f"a bug: {type(error).__name__}: {error}", 500)


async def _read(request: Request) -> tuple[str, Scene]:
    """Return the page's name and the scene."""
    try:
        given = json.loads(await request.body())
    except (ValueError, RecursionError):
        raise RangeError("a request must be JSON; it was not") from None
    if not isinstance(given, dict):
        raise RangeError(f"a request must be an object with named values; it was {type(given).__name__}")
    page = given.get("page", "")
    if not isinstance(page, str) or len(page) > 64:
        raise RangeError("a page must name itself by at most 64 characters")
    return page, read_scene(given.get("scene", {}))


async def _events(session: Session, token: Token, run: Callable[[answers.Send], None]) -> AsyncIterator[str]:
    """Yield server-sent events from work in a thread, which is dropped when the page goes away."""
    loop, queue = asyncio.get_running_loop(), asyncio.Queue[str | None]()

    def put(text: str | None) -> None:
        with contextlib.suppress(RuntimeError):  # the server has stopped
            loop.call_soon_threadsafe(queue.put_nowait, text)

    def send(event: str, data: dict[str, Any]) -> None:
        put(f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n")

    def work() -> None:
        try:
            run(send)
        except Exception as error:
            answer = _fail(None, error)
            send("failed", {**json.loads(bytes(answer.body)), "status": answer.status_code})
        finally:
            put(None)

    try:
        with session.serving():
            session.training.submit(work)
            while (text := await queue.get()) is not None:
                yield text
    finally:
        token.set()
