"""The pages over HTTP: a list of studies, the report of one of them, and events when either changes.

/TOKEN/          the frame: list on the left, report on the right          ?study=NAME&page=N
/TOKEN/list      the list alone                                            ?study=NAME&page=N
/TOKEN/report    the report, the same file that a study writes             ?study=NAME&version=N
/TOKEN/events    server-sent events: `study` and `list`, with a version    ?study=NAME&page=N

Whoever has not the token learns nothing: every other address is the same 404. A name is looked up among the studies
that were found, and never becomes a path. Reports run in a sandbox without an origin: they reach nothing here.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

import anyio
from jinja2 import Environment, PackageLoader, StrictUndefined
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paceline.serve.folders import Found, studies_under
from paceline.serve.listing import Listing, listing
from paceline.serve.pages import Pages, Renderers
from paceline.serve.standing import Watches

__all__ = ["live_app"]

_FIRST_PAGE_S = 2.0
_POLL_S = 0.5
_GRACE_S = 2.0  # in which open streams end by themselves when the server does
_LIST_S = 2.0  # how long a look at the folder is good for
_FRAME_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts allow-downloads"
)
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "content-security-policy": _FRAME_POLICY,
}


class _Server:
    """The studies of one folder, their pages, and the answers to requests."""

    def __init__(self, root: Path, *, token: str, renderers: Renderers) -> None:
        self._root = root
        self._token = token
        self._watches = Watches()
        self._pages = Pages(root, renderers, self._watches)
        self._found: tuple[float, tuple[Found, ...]] | None = None
        self._templates = Environment(
            loader=PackageLoader("paceline.serve"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
        )

    def app(self) -> ASGIApp:
        routes = [
            Route("/{token}/", self.frame),
            Route("/{token}/list", self.list),
            Route("/{token}/report", self.report),
            Route("/{token}/events", self.events),
            Route("/{token}/{name}", self.file),
        ]
        handlers = {404: _nothing, 405: _nothing}
        return _with_headers(Starlette(routes=routes, lifespan=self._life, exception_handlers=handlers))

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        self._pages.open()
        try:
            yield
        finally:
            self._pages.close()

    async def frame(self, request: Request) -> Response:
        if not self._allowed(request):
            return await _nothing(request)
        shown = await self._listing(request)
        study = next((study for study in await self._studies() if study.name == shown.chosen), None)
        version = 0 if study is None else self._pages.version(study)
        frame = self._templates.get_template("frame.html")
        return HTMLResponse(frame.render(shown=shown, root=self._root.resolve().name, version=version))

    async def list(self, request: Request) -> Response:
        if not self._allowed(request):
            return await _nothing(request)
        shown = await self._listing(request)
        return HTMLResponse(self._templates.get_template("list.html").render(shown=shown))

    async def report(self, request: Request) -> Response:
        study = await self._asked(request)
        if study is None:
            return await _nothing(request)
        framed = (
            request.query_params.get("version") == "0"
        )  # before the first page: its frame says when to ask again
        html = None if framed else await self._pages.page(study, wait_s=_FIRST_PAGE_S)
        if html is None:
            standing = await asyncio.to_thread(self._watches.standing, study)
            wait = self._templates.get_template("wait.html")
            html = wait.render(name=study.name, standing=standing.text, framed=framed)
        return HTMLResponse(html, headers={"content-security-policy": _REPORT_POLICY})

    async def events(self, request: Request) -> Response:
        study = await self._asked(request)
        if study is None and (not self._allowed(request) or request.query_params.get("study")):
            return await _nothing(request)
        ending = anyio.Event()
        return EventSourceResponse(
            self._changes(request, study, ending),
            ping=15,
            shutdown_event=ending,
            shutdown_grace_period=_GRACE_S,
        )

    async def file(self, request: Request) -> Response:
        kinds = {"frame.css": "text/css", "frame.js": "text/javascript"}
        name = request.path_params["name"]
        if not self._allowed(request) or name not in kinds:
            return await _nothing(request)
        text = files("paceline.serve").joinpath("templates", name).read_text(encoding="utf-8")
        return Response(text, media_type=kinds[name])

    async def _changes(
        self, request: Request, study: Found | None, ending: anyio.Event
    ) -> AsyncIterator[dict[str, str]]:
        """What has changed since the last event; the first ones say where things stand."""
        version, mark = -1, ""
        while not ending.is_set():  # when the reader leaves, the response cancels this
            if study is not None and (now := self._pages.version(study)) != version:
                version = now
                yield {"event": "study", "data": json.dumps({"version": version})}
            shown = await self._listing(request)
            text = self._templates.get_template("list.html").render(shown=shown)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            if digest != mark:
                mark = digest
                yield {"event": "list", "data": json.dumps({"version": mark})}
            await asyncio.sleep(_POLL_S)

    async def _listing(self, request: Request) -> Listing:
        studies = await self._studies()
        name = request.query_params.get("study") or (studies[0].name if studies else "")
        page = request.query_params.get("page", "1")
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
        return await asyncio.to_thread(listing, studies, self._watches, chosen=name, page=number)

    async def _asked(self, request: Request) -> Found | None:
        """The study of this request, or None where the token or the name is wrong."""
        if not self._allowed(request):
            return None
        name = request.query_params.get("study", "")
        return next((study for study in await self._studies() if study.name == name), None)

    async def _studies(self) -> tuple[Found, ...]:
        if self._found is None or time.monotonic() - self._found[0] > _LIST_S:
            self._found = (time.monotonic(), await asyncio.to_thread(studies_under, self._root))
        return self._found[1]

    def _allowed(self, request: Request) -> bool:
        given = str(request.path_params.get("token", ""))
        return secrets.compare_digest(given.encode(), self._token.encode())


def live_app(root: Path, *, token: str, renderers: Renderers) -> ASGIApp:
    """The application that serves the studies under `root` to whoever has the token."""
    return _Server(root, token=token, renderers=renderers).app()


async def _nothing(request: Request, problem: Exception | None = None) -> Response:
    return PlainTextResponse("There is nothing here.\n", status_code=404)


def _with_headers(app: ASGIApp) -> ASGIApp:
    """Every answer carries the headers, unless it brought its own."""

    async def wrapped(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in _HEADERS.items() if k.encode() not in own]
                kept = [(k, v) for k, v in message["headers"] if k.lower() != b"cache-control"]
                message = {**message, "headers": [*kept, *more]}
                if b"cache-control" in own:
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        await app(scope, receive, sent)

    return wrapped
