"""The server: few endpoints, all thin. Loopback only, bodies bounded, mistakes answered in one line of JSON.

GET  /                 the page; /static/..., /plotly.js (from the installed plotly)
GET  /api/about        bounds, tasks, presets, guided scenes, versions
POST /api/forecast     {page, scene} -> curve, certificate, stage
POST /api/machine      {page, scene} -> the forecast network over time, equations, step size against curvature
POST /api/guess        {page, scene, guess: [[time, loss], ...]} -> distance of a drawn curve from the forecast
POST /api/python       {page, scene} -> {text}
POST /api/table        text of a .csv -> {table, rows, width}
POST /api/training     {page, scene} -> server-sent events: progress, done, failed
POST /api/map          {page, scene, map} -> server-sent events: cell, done, failed
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neuralrace.errors import NeuralRaceError, RangeError
from neuralrace.explorer import answers
from neuralrace.explorer.bounds import BODY_BYTES
from neuralrace.explorer.desk import Desk, SupersededError, Token
from neuralrace.explorer.presets import about
from neuralrace.explorer.python_text import python_text
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.tables import thumbnails

STATIC = Path(str(files("neuralrace.explorer") / "static"))
POLICY = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
MOST_NAME = 64  # characters of a page's own name
SENT = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}


class Guard:
    """Refuses other hosts and origins and bodies that are too long; says to the browser what the page may load."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        refusal = self._refusal(Headers(scope=scope))
        if refusal is not None:
            await refusal(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(SENT)
                headers.setdefault("cache-control", "no-cache")
            await send(message)

        await self.app(scope, receive, answer)

    def _refusal(self, headers: Headers) -> Response | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            return _mistake("the explorer answers on this machine only; the request named another host", 403)
        if origin is not None and origin not in {f"http://{name}" for name in self.hosts}:
            return _mistake("the explorer answers its own page only; the request came from another one", 403)
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > BODY_BYTES:
            return _mistake(f"a request may have {BODY_BYTES:,} bytes; more were announced", 413)
        return None


def make_app(desk: Desk, port: int) -> Guard:
    """The application for a port of this machine."""
    plotly = Path(str(files("plotly") / "package_data" / "plotly.min.js"))

    async def page(_: Request) -> Response:
        return FileResponse(STATIC / "index.html")

    async def script(_: Request) -> Response:
        return FileResponse(plotly, media_type="text/javascript", headers={"cache-control": "max-age=86400"})

    async def tell(_: Request) -> Response:
        loop = asyncio.get_running_loop()
        pictures = await loop.run_in_executor(desk.theory, thumbnails)
        return JSONResponse(about() | {"thumbnails": pictures, "version": version("neuralrace")})

    async def table(request: Request) -> Response:
        try:
            return JSONResponse(desk.tables.add((await _body(request)).decode("utf-8-sig")))
        except UnicodeDecodeError:
            raise RangeError("a table must be text in UTF-8; it was not") from None

    def posted(kind: str, make: Callable[[Scene, dict[str, Any]], Any]) -> Route:
        """Work on a request in a thread, unless its page asks for something newer first."""

        async def answer(request: Request) -> Response:
            page, scene, asked = await _asked(request)
            token = desk.token(page, kind)

            def work() -> Any:
                token.check()
                return make(scene, asked)

            with desk.serving():
                return JSONResponse(await asyncio.get_running_loop().run_in_executor(desk.theory, work))

        return Route(f"/api/{kind}", _told(answer), methods=["POST"])

    def streamed(kind: str, pool: Executor, run: Callable[..., None]) -> Route:
        """Server-sent events from work in a thread, which is dropped when the page goes away."""

        async def answer(request: Request) -> Response:
            page, scene, asked = await _asked(request)
            token = desk.token(page, kind)
            events = _events(desk, pool, token, lambda send: run(scene, asked, token, send))
            return StreamingResponse(events, media_type="text/event-stream")

        return Route(f"/api/{kind}", _told(answer), methods=["POST"])

    routes = [
        Route("/", page),
        Route("/plotly.js", script),
        Mount("/static", StaticFiles(directory=STATIC)),
        Route("/api/about", tell),
        Route("/api/table", _told(table), methods=["POST"]),
        posted("forecast", lambda scene, _: answers.forecast_data(desk, scene)),
        posted("machine", lambda scene, _: answers.machine_data(desk, scene)),
        posted("guess", lambda scene, asked: answers.guess_data(desk, scene, asked.get("guess"))),
        posted("python", lambda scene, _: {"text": python_text(desk, scene)}),
        streamed(
            "training", desk.training, lambda scene, _, token, send: answers.training_events(desk, scene, token, send)
        ),
        streamed(
            "map", desk.theory, lambda scene, asked, *rest: answers.map_events(desk, scene, asked.get("map"), *rest)
        ),
    ]
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
    return Guard(Starlette(routes=routes), hosts)


def _mistake(message: str, status: int) -> JSONResponse:
    return JSONResponse({"error": " ".join(message.split())}, status)


async def _body(request: Request) -> bytes:
    """The body, refused as soon as it is too long, whatever was announced."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES:
            raise RangeError(f"a request may have {BODY_BYTES:,} bytes; more came")
    return body


async def _asked(request: Request) -> tuple[str, Scene, dict[str, Any]]:
    """The page's name, the scene and all that was sent."""
    try:
        given = json.loads(await _body(request))
    except (ValueError, RecursionError):
        raise RangeError("a request must be JSON; it was not") from None
    if not isinstance(given, dict):
        raise RangeError(f"a request must be an object with named values; it was {type(given).__name__}")
    page = given.get("page", "")
    if not isinstance(page, str) or len(page) > MOST_NAME:
        raise RangeError(f"a page must name itself by at most {MOST_NAME} characters")
    return page, Scene.read(given.get("scene", {})), given


def _failure(error: Exception) -> JSONResponse:
    """A visitor's mistake in one line; a fault of ours by its kind, and the server goes on."""
    if isinstance(error, SupersededError):
        return _mistake(str(error), 409)
    if isinstance(error, NeuralRaceError):
        return _mistake(str(error), 400)
    return _mistake(f"a fault of ours: {type(error).__name__}: {error}", 500)


def _told(endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """The endpoint, whose failures are answers too."""

    async def answer(request: Request) -> Response:
        try:
            return await endpoint(request)
        except ClientDisconnect:
            return _mistake("the page went away", 499)
        except Exception as error:
            return _failure(error)

    return answer


async def _events(desk: Desk, pool: Executor, token: Token, run: Callable[[answers.Send], None]) -> AsyncIterator[str]:
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
            status = _failure(error)
            send("failed", {**json.loads(bytes(status.body)), "status": status.status_code})
        finally:
            put(None)

    try:
        with desk.serving():
            pool.submit(work)
            while (text := await queue.get()) is not None:
                yield text
    finally:
        token.set()
