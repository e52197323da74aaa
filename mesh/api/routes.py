"""The paths of the API. Each asks one question and gives the document that answers it."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse

from mesh.api import audit_details, details, items, proof_items, role_items
from mesh.api.feed import PING_S, Feed
from mesh.api.guard import BODY_BYTES_MAX
from mesh.api.lists import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    ItemList,
    KnownList,
    RoleList,
    answer,
    name_of_list,
    page_of,
)
from mesh.api.live import Live, Still
from mesh.api.problems import RESPONSES, RefusedError
from mesh.api.questions import Asked, check_link, explained, planned, routed, traced
from mesh.config.nearest import check_node, nearest
from mesh.errors import wrong_input
from mesh.model.frames import MessageClass
from mesh.model.subject import filter_fault
from mesh.operate.audit.wall import MINUTES_MAX
from mesh.operate.messages.way import SCANNED_MAX

LETTERS_MAX = 10_000

BODY_WITHIN_S = 30.0
"""Whoever sends nothing more takes the place of somebody else."""

REPEATED = ("header",)
"""Parameters that may be given more than once."""

At = Annotated[
    str,
    Query(
        max_length=64,
        description="A moment gone by: 2026-05-04T10:00:00Z, or 15m for a quarter of an hour ago.",
    ),
]
Cursor = Annotated[str, Query(max_length=8_000, description="`next` of the page before.")]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX)]
NodeName = Annotated[str, Query(max_length=64, description="Only of this node.")]
EndpointName = Annotated[str, Query(max_length=200, description="Only of `node/name`.")]
From = Annotated[str, Query(alias="from", max_length=64, description="Only of since then.")]
To = Annotated[str, Query(max_length=64, description="Only of until then.")]


def routes_of(live: Live, feed: Feed) -> APIRouter:
    """Return all paths under /api/v1.

    Args:
        live: The mesh.
        feed: Its changes.
    """

    def begun() -> None:
        if not live.is_begun:
            raise RefusedError(
                HTTPStatus.SERVICE_UNAVAILABLE, "the mesh is being read; ask again", "STARTING"
            )

    checks = [Depends(begun), Depends(only_known_parameters)]
    router = APIRouter(prefix="/api/v1", responses=RESPONSES, dependencies=checks)
    _add_parts(router, live)
    _add_waiting(router, live)
    _add_proofs(router, live)
    _add_roles(router, live)
    _add_details(router, live)
    _add_questions(router, live)
    _add_trace_and_plan(router, live)

    @router.get("/events", response_class=EventSourceResponse)
    async def events(
        request: Request,
        after: Annotated[
            str, Query(max_length=64, description="As `Last-Event-ID`, for who cannot set headers.")
        ] = "",
    ) -> Response:
        """Follow changes (server-sent events): `here` at once, then `change`; or `reset`.

        `ping` comes every `ping_s` seconds, as `here` and `reset` say, with how long ago this
        server looked at the mesh last (`idle_s`).
        """
        last_id = request.headers.get("last-event-id", after)[:64]
        return EventSourceResponse(
            feed.follow(last_id),
            ping=PING_S,
            ping_message_factory=lambda: feed.ping(live.idle_s),
            headers={"Cache-Control": "no-store"},
        )

    return router


def only_known_parameters(request: Request) -> None:
    """Refuse what a path does not take, or somebody would believe that it was followed.

    Raises:
        ConfigError: One of the parameters is none of this path.
    """
    _check_encoding(request.scope["query_string"])
    known = [one.alias for one in request.scope["route"].dependant.query_params]
    for name in request.query_params:
        if name == "at" and name not in known:
            raise wrong_input("at", "this is told of now only: how it was is not on record")
        if name not in known:
            shown = name[:80]
            raise wrong_input(shown, f"is not a parameter of this path{nearest(shown, known)}")
        if len(request.query_params.getlist(name)) > 1 and name not in REPEATED:
            raise wrong_input(name, "is given more than once; give it once")


def _check_encoding(query: bytes) -> None:
    """Refuse what is no UTF-8: with letters replaced it would ask for something else."""
    for pair in query.split(b"&"):
        try:
            unquote_to_bytes(pair).decode()
        except UnicodeDecodeError:
            name = unquote_to_bytes(pair.partition(b"=")[0]).decode(errors="replace")
            text = "is not UTF-8; encode it as such, and then as %XX"
            raise wrong_input(name[:80], text) from None


def _wanted(still: Still, endpoint: str, from_: str, to: str, at: str) -> proof_items.Wanted:
    from_ms, to_ms, at_ms = still.moment(from_, "from"), still.moment(to, "to"), still.moment(at)
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise wrong_input("from", f"{from_} is later than {to}: no time lies between them")
    proof_items.check_endpoint(still, endpoint, at_ms)
    return proof_items.Wanted(endpoint=endpoint, from_ms=from_ms, to_ms=to_ms, at_ms=at_ms)


async def _body_of(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_WITHIN_S):
            async for part in request.stream():
                body += part
                if len(body) > BODY_BYTES_MAX:
                    text = f"at most {BODY_BYTES_MAX} bytes are read"
                    raise RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, text, "TOO_LARGE")
    except TimeoutError:
        text = f"the body did not come within {BODY_WITHIN_S:g} s"
        raise RefusedError(HTTPStatus.REQUEST_TIMEOUT, text) from None
    return bytes(body)


def _listed(request: Request, found: items.Items, cursor: str, limit: int) -> Response:
    return answer(request, page_of(found, cursor, limit, name_of_list(request)))


def _add_parts(router: APIRouter, live: Live) -> None:
    @router.get("/nodes", response_model=ItemList)
    def nodes(
        request: Request, at: At = "", cursor: Cursor = "", limit: Limit = LIMIT_DEFAULT
    ) -> Response:
        """Every node, as `mesh status` has it, with its place on the map and its rate."""
        still = live.still
        return _listed(request, items.node_items(still, still.moment(at)), cursor, limit)

    @router.get("/zones", response_model=ItemList)
    def zones(
        request: Request, at: At = "", cursor: Cursor = "", limit: Limit = LIMIT_DEFAULT
    ) -> Response:
        """Every zone, as `mesh zone show` has it; of a moment gone by the states of its links."""
        still = live.still
        return _listed(request, items.zone_items(still, still.moment(at)), cursor, limit)

    @router.get("/links", response_model=ItemList)
    def links(
        request: Request, at: At = "", cursor: Cursor = "", limit: Limit = LIMIT_DEFAULT
    ) -> Response:
        """Both directions of every link, as `mesh links` has them, with their rates."""
        still = live.still
        return _listed(request, items.link_items(still, still.moment(at)), cursor, limit)

    @router.get("/endpoints", response_model=ItemList)
    def endpoints(
        request: Request,
        node: NodeName = "",
        at: At = "",
        cursor: Cursor = "",
        limit: Limit = LIMIT_DEFAULT,
    ) -> Response:
        """Every endpoint: what it subscribes, what it gets, how far that is certified.

        Of a moment gone by those that have ended since are there where the auditor wrote of them.
        """
        still = live.still
        if node:
            check_node(still.seen.topology, node, "node")
        return _listed(request, items.endpoint_items(still, node, still.moment(at)), cursor, limit)


def _add_waiting(router: APIRouter, live: Live) -> None:
    @router.get("/queues", response_model=ItemList)
    def queues(
        request: Request, at: At = "", cursor: Cursor = "", limit: Limit = LIMIT_DEFAULT
    ) -> Response:
        """Every queue, as `mesh queue show` has it; of a moment gone by its members and filters.

        What waited there then and who consumed is not on record: these are null.
        """
        still = live.still
        return _listed(request, items.queue_items(still, still.moment(at)), cursor, limit)

    @router.get("/dead-letters", response_model=ItemList)
    def dead_letters(
        request: Request,
        node: Annotated[str, Query(max_length=64, description="Whose.")],
        queue: Annotated[
            str, Query(max_length=64, description="Of this queue: what its consumers gave up.")
        ] = "",
        most: Annotated[int, Query(ge=1, le=LETTERS_MAX)] = 1_000,
        at: At = "",
        cursor: Cursor = "",
        limit: Limit = LIMIT_DEFAULT,
    ) -> Response:
        """Dead letters of a node, as `mesh dlq` has them: what is known of them, no payloads."""
        still = live.still
        check_node(still.seen.topology, node, "node")
        found = items.letter_items(still, node, queue, most, still.moment(at))
        return _listed(request, found, cursor, limit)

    @router.get("/interest", response_model=KnownList)
    def interest(
        request: Request,
        filter: Annotated[  # noqa: A002 - what users call it
            str, Query(max_length=1_000, description="Only what overlaps with it.")
        ] = "",
        node: NodeName = "",
        at: At = "",
        cursor: Cursor = "",
        limit: Limit = LIMIT_DEFAULT,
    ) -> Response:
        """Who wants what, since when, as `mesh interest` has it; now, or at a moment gone by."""
        still = live.still
        if filter and (fault := filter_fault(filter)) is not None:
            raise wrong_input("filter", fault)
        if node:
            check_node(still.seen.topology, node, "node")
        found, unknown = items.interest_items(still, filter, node, still.moment(at))
        page = page_of(found, cursor, limit, name_of_list(request))
        return answer(request, {**page, "unknown": unknown})


def _add_proofs(router: APIRouter, live: Live) -> None:
    @router.get("/findings", response_model=ItemList)
    def findings(
        request: Request,
        kind: Annotated[str, Query(max_length=64, description="Only of this kind.")] = "",
        message: Annotated[
            str, Query(max_length=1_000, description="Only those that name this message.")
        ] = "",
        endpoint: EndpointName = "",
        from_: From = "",
        to: To = "",
        at: At = "",
        cursor: Cursor = "",
        limit: Limit = LIMIT_DEFAULT,
    ) -> Response:
        """What the auditor found and did not take back, the newest first."""
        still = live.still
        wanted = _wanted(still, endpoint, from_, to, at)
        proof_items.check_kind(still, kind)
        return _listed(
            request,
            proof_items.finding_items(still, wanted, kind=kind, message=message),
            cursor,
            limit,
        )

    @router.get("/certificates", response_model=ItemList)
    def certificates(
        request: Request,
        endpoint: EndpointName = "",
        from_: From = "",
        to: To = "",
        at: At = "",
        cursor: Cursor = "",
        limit: Limit = LIMIT_DEFAULT,
    ) -> Response:
        """Certificates that speak for a time; one that names none, for when it was issued."""
        still = live.still
        wanted = _wanted(still, endpoint, from_, to, at)
        return _listed(request, proof_items.certificate_items(still, wanted), cursor, limit)


def _add_roles(router: APIRouter, live: Live) -> None:
    @router.get("/roles", response_model=RoleList)
    def roles(
        request: Request, at: At = "", cursor: Cursor = "", limit: Limit = LIMIT_DEFAULT
    ) -> Response:
        """Who wants which role of the tree layer, as `mesh role list` has it.

        Of a moment gone by those that are known to have been wanted then: of those that were given
        up since, the nodes named in `ends_unknown` may tell nothing any more.
        """
        still = live.still
        found, more = role_items.role_items(still, still.moment(at))
        return answer(request, {**page_of(found, cursor, limit, name_of_list(request)), **more})

    @router.get("/roles/routes", response_model=RoleList)
    def role_routes(
        request: Request,
        tree: Annotated[str, Query(max_length=200, description="Only of this tree.")] = "",
        role: Annotated[str, Query(max_length=200, description="Only to this role.")] = "",
        node: NodeName = "",
        cursor: Cursor = "",
        limit: Limit = LIMIT_DEFAULT,
    ) -> Response:
        """Every route to a role at every node: where it leads, how old it is, what it came by.

        As nodes have told it, at most some seconds ago; `mesh role route` asks them.
        """
        found, unknown = role_items.role_route_items(live.still, tree, role, node)
        page = page_of(found, cursor, limit, name_of_list(request))
        return answer(request, {**page, "unknown": unknown})


def _add_details(router: APIRouter, live: Live) -> None:
    @router.get("/mesh", response_model=dict[str, Any])
    def mesh(request: Request, at: At = "") -> Response:
        """The mesh as a whole, and how far all is proven."""
        still = live.still
        return answer(request, details.mesh_document(still, still.moment(at)))

    @router.get("/nodes/{node}", response_model=dict[str, Any])
    def node(request: Request, node: str, at: At = "") -> Response:
        """One node, its links and its endpoints."""
        still = live.still
        check_node(still.seen.topology, node, "node")
        return answer(request, details.node_document(still, node, still.moment(at)))

    @router.get("/links/{source}/{target}", response_model=dict[str, Any])
    def link(request: Request, source: str, target: str, at: At = "") -> Response:
        """One direction of a link: what it carries and for whom, what not and why."""
        still = live.still
        check_link(still, source, target)
        return answer(request, details.link_document(still, source, target, still.moment(at)))

    @router.get("/audit", response_model=dict[str, Any])
    def audit(request: Request, at: At = "") -> Response:
        """How the audit stands, as `mesh audit report` says it."""
        still = live.still
        return answer(request, audit_details.audit_now(still, still.moment(at)))

    @router.get("/audit/wall", response_model=dict[str, Any])
    def wall(
        request: Request,
        minutes: Annotated[int, Query(ge=1, le=MINUTES_MAX)] = 60,
        at: At = "",
    ) -> Response:
        """The audit by endpoint and minute."""
        still = live.still
        return answer(request, audit_details.wall_document(still, minutes, still.moment(at)))


def _add_questions(router: APIRouter, live: Live) -> None:
    @router.get("/explain", response_model=dict[str, Any])
    def explain(
        request: Request,
        subject: Annotated[str, Query(max_length=1_000)],
        from_: Annotated[str, Query(alias="from", max_length=64)],
        class_: Annotated[MessageClass, Query(alias="class")] = MessageClass.GUARANTEED,
        header: Annotated[list[str] | None, Query(max_length=64)] = None,
        at: At = "",
    ) -> Response:
        """Who would get a message now, over which links, and why nobody else; `mesh explain`.

        Of a moment gone by: by what was wanted then, on the topology in force since before.
        """
        still = live.still
        asked = Asked(subject, from_, class_, header or ())
        at_ms = still.moment(at)
        return answer(request, explained(still, asked, at_ms))

    @router.get("/route", response_model=dict[str, Any])
    def route(
        request: Request,
        from_: Annotated[str, Query(alias="from", max_length=64)],
        to: Annotated[str, Query(max_length=64)],
        at: At = "",
    ) -> Response:
        """The way from one node to another, or why there is none; `mesh route`."""
        still = live.still
        return answer(request, routed(still, from_, to, still.moment(at)))


def _add_trace_and_plan(router: APIRouter, live: Live) -> None:
    @router.get("/trace/{message:path}", response_model=dict[str, Any])
    def trace(
        request: Request,
        message: str,
        last: Annotated[
            int | None,
            Query(ge=1, le=SCANNED_MAX, description="Look at so many of the newest records."),
        ] = None,
        at: At = "",
    ) -> Response:
        """One message hop by hop; `mesh trace`.

        As of a moment gone by: what of it was written by then.
        """
        still = live.still
        return answer(request, traced(still, message[:1_000], last, still.moment(at)))

    @router.post(
        "/plan",
        response_model=dict[str, Any],
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/yaml": {"schema": {"type": "string"}}},
            }
        },
    )
    async def plan(
        request: Request,
        allow_delete: Annotated[
            bool, Query(description="Accept that unread messages are lost with their topics.")
        ] = False,
    ) -> Response:
        """What the topology file in the body would change; nothing is changed; `mesh plan`."""
        body = await _body_of(request)
        made = await run_in_threadpool(planned, live.still, body, allow_delete=allow_delete)
        return answer(request, made)
