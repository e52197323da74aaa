"""The page: files of the package, read once, served with a name for what is in them.

What it shows first stands in the page itself: a browser that has to ask for it asks behind all
scripts, and is answered by a server that has as much to do as everybody else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from importlib.resources.abc import Traversable
from json import dumps
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool

from mesh.api.lists import is_known
from mesh.api.problems import problem

TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}

VIEWS = (
    "map",
    "interest",
    "trace",
    "audit",
    "findings",
    "plan",
    "queues",
    "roles",
    "nodes",
)
"""Each is an address of its own, so that a link shows a colleague the same."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file."""

    body: bytes
    media_type: str
    tag: str

    def answer(self, request: Request) -> Response:
        """Return it, or that what the browser has is the same."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache"}
        if is_known(self.tag, request):
            return Response(status_code=304, headers=headers)
        return Response(self.body, media_type=self.media_type, headers=headers)


def page_file(name: str, body: bytes) -> PageFile:
    """Return a file by its name and contents."""
    media_type = TYPES[name.rpartition(".")[2]]
    return PageFile(body, media_type, f'"{blake2b(body, digest_size=12).hexdigest()}"')


def _modules(names: Iterable[str]) -> str:
    """Return links to all modules: a browser finds imports of imports only one after another."""
    modules = [one for one in sorted(names) if one.endswith(".js") and one not in _NO_MODULES]
    return "\n".join(f'<link rel="modulepreload" href="{{root}}/static/{one}">' for one in modules)


_NO_MODULES = ("boot.js", "feed.js", "main.js", "feed.worker.js")
"""The page itself asks for three of them, and the last is a script of its own."""


First = Callable[[], Mapping[str, Any]]


def _data(value: object) -> str:
    """Return a value as the text of a data block: no name in it can end that, or begin markup."""
    text = dumps(value, ensure_ascii=True, separators=(",", ":"), default=str)
    return text.replace("<", "\\u003c")


def add_page(
    app: FastAPI,
    folder: Traversable,
    root_path: str,
    first: Callable[[], First | None],
) -> None:
    """Serve the page at / and at the address of each view, its files under /static.

    Args:
        app: Gets the paths.
        folder: The files.
        root_path: Where a proxy serves all this; the page is told, for it makes addresses.
        first: Returns, called in the event loop, what makes what the page shows first, or None
            while there is nothing.
    """
    found = {
        one.name: page_file(one.name, one.read_bytes())
        for one in folder.iterdir()
        if one.name.rpartition(".")[2] in TYPES
    }
    text = found.pop("index.html").body.decode().replace("{modules}", _modules(found))
    before, after = text.replace("{root}", escape(root_path)).split("{first}")

    def made(document: First | None) -> bytes:
        data = _data(None if document is None else document())
        return f"{before}{data}{after}".encode()

    async def page() -> Response:
        body = await run_in_threadpool(made, first())
        headers = {"Cache-Control": "no-store"}  # it tells of this moment
        return Response(body, media_type=TYPES["html"], headers=headers)

    async def static(request: Request, name: str) -> Response:
        if name not in found:
            return problem(404, f"there is no file {name[:80]!r}")
        return found[name].answer(request)

    for path in ("/", *(f"/{view}" for view in VIEWS)):
        app.add_api_route(path, page, include_in_schema=False)
    app.add_api_route("/static/{name}", static, include_in_schema=False)
