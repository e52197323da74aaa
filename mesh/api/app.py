"""The application: API, probes and page, behind the guard."""

from __future__ import annotations

from importlib.metadata import version
from importlib.resources import files

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import PlainTextResponse

from mesh.api.details import first_document
from mesh.api.feed import Feed
from mesh.api.guard import Access, Guard
from mesh.api.lists import answer
from mesh.api.live import Live
from mesh.api.page_files import First, add_page
from mesh.api.problems import ProblemDocument, answer_errors
from mesh.api.routes import routes_of


def application(live: Live, feed: Feed, access: Access, *, has_page: bool) -> Guard:
    """Return the whole application.

    Args:
        live: The mesh.
        feed: Its changes.
        access: Who may ask.
        has_page: Whether the page is served too.
    """
    app = FastAPI(
        title="Trellis",
        summary="What a mesh does, why, and how far that is proven. Nothing can be changed here.",
        version=version("trellis-mesh"),
        docs_url=None,  # the bundled page loads its scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # it would lead out of the path that a proxy serves this below
    )
    answer_errors(app)
    # Of a router that is included, paths are made when somebody first asks: that one would wait,
    # and the filters of warnings, which all threads share, would change while others work.
    app.router.routes.extend(routes_of(live, feed).routes)
    _add_probes(app, live)
    _add_openapi(app, access)
    if has_page:
        folder = files("mesh.api").joinpath("page")
        add_page(app, folder, access.root_path, lambda: _first(live, feed))
    return Guard(app, access)


def _first(live: Live, feed: Feed) -> First | None:
    """Return what makes what the page shows first, and from which change on it follows."""
    if not live.is_begun:
        return None
    # The feed is looked at before the mesh: what comes between the two is told again.
    here, snapshot = feed.here, live.snapshot
    return lambda: {**first_document(snapshot), **here}


def _add_probes(app: FastAPI, live: Live) -> None:
    def verdict(holds: bool, text: str) -> Response:
        told = f"ok: {text}\n" if holds else f"not so: {text}\n"
        return PlainTextResponse(told, status_code=200 if holds else 503)

    @app.get("/livez", include_in_schema=False)
    async def livez() -> Response:
        """Return whether the loop goes round, whatever comes of it."""
        return verdict(live.is_live, f"the mesh was looked at {live.idle_s:.1f} s ago")

    @app.get("/startupz", include_in_schema=False)
    async def startupz() -> Response:
        """Return whether the mesh was read once."""
        return verdict(live.is_begun, "the mesh was read")

    @app.get("/readyz", include_in_schema=False)
    async def readyz() -> Response:
        """Return whether questions are answered from what was read just now."""
        is_ready = live.is_live and live.is_begun and live.is_fresh
        return verdict(is_ready, "questions are answered")


def _add_openapi(app: FastAPI, access: Access) -> None:
    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> Response:
        """Describe the API."""
        return answer(request, openapi_document(app, access.root_path))


def openapi_document(app: FastAPI, root_path: str) -> dict[str, object]:
    """Return the OpenAPI document, every error a problem document."""
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        routes=app.routes,
        servers=[{"url": root_path or "/"}],
    )
    schemas = document["components"]["schemas"]
    described = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= described.pop("$defs", {})
    schemas["ProblemDocument"] = described
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    return dict(document)
