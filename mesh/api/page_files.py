"""The page: files of the package, read once, served with a name for what is in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from importlib.resources.abc import Traversable

from fastapi import FastAPI, Request, Response

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
        if self.tag in request.headers.get("if-none-match", ""):
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


_NO_MODULES = ("feed.js", "main.js", "feed.worker.js")
"""The page itself asks for two of them, and the last is a script of its own."""


def add_page(app: FastAPI, folder: Traversable, root_path: str) -> None:
    """Serve the page at / and at the address of each view, its files under /static.

    Args:
        app: Gets the paths.
        folder: The files.
        root_path: Where a proxy serves all this; the page is told, for it makes addresses.
    """
    found = {
        one.name: page_file(one.name, one.read_bytes())
        for one in folder.iterdir()
        if one.name.rpartition(".")[2] in TYPES
    }
    text = found.pop("index.html").body.decode().replace("{modules}", _modules(found))
    index = page_file("index.html", text.replace("{root}", escape(root_path)).encode())

    async def page(request: Request) -> Response:
        return index.answer(request)

    async def static(request: Request, name: str) -> Response:
        if name not in found:
            return problem(404, f"there is no file {name[:80]!r}")
        return found[name].answer(request)

    for path in ("/", *(f"/{view}" for view in VIEWS)):
        app.add_api_route(path, page, include_in_schema=False)
    app.add_api_route("/static/{name}", static, include_in_schema=False)
