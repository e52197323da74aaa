"""The paths of the API. Each asks one question and gives the document that answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from sse_starlette import EventSourceResponse

from mesh.api import audit_details, details, items, proof_items, role_items
from mesh.api.feed import PING_S, Feed
from mesh.api.guard import BODY_BYTES_MAX
from mesh.api.lists import (
    LIMIT_DEFAULT,
    At,
    Cursor,
    ItemList,
    KnownList,
    Limit,
    Paged,
    RoleList,
    answer,
    name_of_list,
    page_of,
)
from mesh.api.live import Live, Snapshot
from mesh.api.problems import RESPONSES, RefusedError
from mesh.api.questions import Asked, check_link, explained, planned, routed, traced
from mesh.config.nearest import check_node, nearest
from mesh.errors import wrong_input
from mesh.model.frames import MessageClass
from mesh.model.subject import filter_fault
from mesh.operate.audit.heatmap import MINUTES_MAX
from mesh.operate.messages.way import SCANNED_MAX

LETTERS_MAX = 10_000

BODY_WITHIN_S = 30.0
"""Whoever sends nothing more takes the place of somebody else."""

REPEATED = ("header",)
"""Parameters that may be given more than once."""

NodeName = Annotated[str, Query(max_length=64, description="Only of this node.")]
EndpointName = Annotated[str, Query(max_length=200, description="Only of `node/name`.")]
From = Annotated[str, Query(alias="from", max_length=64, description="Only since then.")]
To = Annotated[str, Query(max_length=64, description="Only until then.")]


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
            str,
            Query(
                max_length=64,
                description="Like `Last-Event-ID`, for clients that cannot set headers.",
            ),
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
    known = list(_parameters(request.scope["route"].dependant))
    for name in request.query_params:
        if name == "at" and name not in known:
            raise wrong_input("at", "this is known for now only: the past is not on record")
        if name not in known:
            shown = name[:80]
            raise wrong_input(shown, f"is not a parameter of this path{nearest(shown, known)}")
        if len(request.query_params.getlist(name)) > 1 and name not in REPEATED:
            raise wrong_input(name, "is given more than once; give it once")


def _parameters(dependant: Dependant) -> Iterator[str]:
    """Yield what a path takes, itself and by what it depends on."""
    yield from (one.alias for one in dependant.query_params)
    for part in dependant.dependencies:
        yield from _parameters(part)


def _check_encoding(query: bytes) -> None:
    """Refuse what is no UTF-8: with letters replaced it would ask for something else."""
    for pair in query.split(b"&"):
        try:
            unquote_to_bytes(pair).decode()
        except UnicodeDecodeError:
            name = unquote_to_bytes(pair.partition(b"=")[0]).decode(errors="replace")
            text = "is not UTF-8; encode it as such, and then as %XX"
            raise wrong_input(name[:80], text) from None


def _selection(
    snapshot: Snapshot, endpoint: str, from_: str, to: str, at: str
) -> proof_items.ProofSelection:
    from_ms, to_ms = snapshot.moment(from_, "from"), snapshot.moment(to, "to")
    at_ms = snapshot.moment(at)
    if from_ms is not None and to_ms is not None and from_ms > to_ms:
        raise wrong_input("from", f"{from_} is later than {to}: no time lies between them")
    proof_items.check_endpoint(snapshot, endpoint, at_ms)
    return proof_items.ProofSelection(endpoint=endpoint, from_ms=from_ms, to_ms=to_ms, at_ms=at_ms)


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


def _add_parts(router: APIRouter, live: Live) -> None:
    @router.get("/nodes", response_model=ItemList)
    def nodes(page: Paged) -> Response:
        """Every node, as `mesh status` has it, with its place on the map and its rate."""
        snapshot = live.snapshot
        return page.listed(items.node_items(snapshot, page.at_ms(snapshot)))

    @router.get("/zones", response_model=ItemList)
    def zones(page: Paged) -> Response:
        """Every zone, as `mesh zone show` has it; of a moment gone by the states of its links."""
        snapshot = live.snapshot
        return page.listed(items.zone_items(snapshot, page.at_ms(snapshot)))

    @router.get("/links", response_model=ItemList)
    def links(page: Paged) -> Response:
        """Both directions of every link, as `mesh links` has them, with their rates."""
        snapshot = live.snapshot
        return page.listed(items.link_items(snapshot, page.at_ms(snapshot)))

    @router.get("/endpoints", response_model=ItemList)
    def endpoints(page: Paged, node: NodeName = "") -> Response:
        """Every endpoint: what it subscribes, what it gets, how far that is certified.

        Of a moment gone by those that have ended since are there where the auditor wrote of them.
        """
        snapshot = live.snapshot
        if node:
            check_node(snapshot.seen.topology, node, "node")
        return page.listed(items.endpoint_items(snapshot, node, page.at_ms(snapshot)))


def _add_waiting(router: APIRouter, live: Live) -> None:
    @router.get("/queues", response_model=ItemList)
    def queues(page: Paged) -> Response:
        """Every queue, as `mesh queue show` has it; of a moment gone by its members and filters.

        What waited there then and who consumed is not on record: these are null.
        """
        snapshot = live.snapshot
        return page.listed(items.queue_items(snapshot, page.at_ms(snapshot)))

    @router.get("/dead-letters", response_model=ItemList)
    def dead_letters(
        page: Paged,
        node: Annotated[str, Query(max_length=64, description="Whose.")],
        queue: Annotated[
            str,
            Query(
                max_length=64, description="Only those of this queue: what its consumers gave up."
            ),
        ] = "",
        most: Annotated[int, Query(ge=1, le=LETTERS_MAX)] = 1_000,
    ) -> Response:
        """Dead letters of a node, as `mesh dlq` has them: what is known of them, no payloads."""
        snapshot = live.snapshot
        check_node(snapshot.seen.topology, node, "node")
        found = items.letter_items(snapshot, node, queue, most, page.at_ms(snapshot))
        return page.listed(found)

    @router.get("/interest", response_model=KnownList)
    def interest(
        page: Paged,
        filter: Annotated[  # noqa: A002 - what users call it
            str, Query(max_length=1_000, description="Only what overlaps with it.")
        ] = "",
        node: NodeName = "",
    ) -> Response:
        """Who wants what, since when, as `mesh interest` has it; now, or at a moment gone by."""
        snapshot = live.snapshot
        if filter and (fault := filter_fault(filter)) is not None:
            raise wrong_input("filter", fault)
        if node:
            check_node(snapshot.seen.topology, node, "node")
        found, unknown = items.interest_items(snapshot, filter, node, page.at_ms(snapshot))
        return page.listed(found, {"unknown": unknown})


def _add_proofs(router: APIRouter, live: Live) -> None:
    @router.get("/findings", response_model=ItemList)
    def findings(
        page: Paged,
        kind: Annotated[str, Query(max_length=64, description="Only of this kind.")] = "",
        message: Annotated[
            str, Query(max_length=1_000, description="Only those that name this message.")
        ] = "",
        endpoint: EndpointName = "",
        from_: From = "",
        to: To = "",
    ) -> Response:
        """What the auditor found and did not take back, the newest first."""
        snapshot = live.snapshot
        wanted = _selection(snapshot, endpoint, from_, to, page.at)
        proof_items.check_kind(snapshot, kind)
        return page.listed(proof_items.finding_items(snapshot, wanted, kind=kind, message=message))

    @router.get("/certificates", response_model=ItemList)
    def certificates(
        page: Paged,
        endpoint: EndpointName = "",
        from_: From = "",
        to: To = "",
    ) -> Response:
        """Certificates that speak for a time; one that names none, for when it was issued."""
        snapshot = live.snapshot
        wanted = _selection(snapshot, endpoint, from_, to, page.at)
        return page.listed(proof_items.certificate_items(snapshot, wanted))


def _add_roles(router: APIRouter, live: Live) -> None:
    @router.get("/roles", response_model=RoleList)
    def roles(page: Paged) -> Response:
        """Who wants which role of the tree layer, as `mesh role list` has it.

        Of a moment gone by those that are known to have been wanted then: of those that were given
        up since, the nodes named in `ends_unknown` may tell nothing any more.
        """
        snapshot = live.snapshot
        found, more = role_items.role_items(snapshot, page.at_ms(snapshot))
        return page.listed(found, more)

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
        found, unknown = role_items.role_route_items(live.snapshot, tree, role, node)
        page = page_of(found, cursor, limit, name_of_list(request))
        return answer(request, {**page, "unknown": unknown})


def _add_details(router: APIRouter, live: Live) -> None:
    @router.get("/mesh", response_model=dict[str, Any])
    def mesh(request: Request, at: At = "") -> Response:
        """The mesh as a whole, and how far all is proven."""
        snapshot = live.snapshot
        return answer(request, details.mesh_document(snapshot, snapshot.moment(at)))

    @router.get("/nodes/{node}", response_model=dict[str, Any])
    def node(request: Request, node: str, at: At = "") -> Response:
        """One node, its links and its endpoints."""
        snapshot = live.snapshot
        check_node(snapshot.seen.topology, node, "node")
        return answer(request, details.node_document(snapshot, node, snapshot.moment(at)))

    @router.get("/links/{source}/{target}", response_model=dict[str, Any])
    def link(request: Request, source: str, target: str, at: At = "") -> Response:
        """One direction of a link: what it carries and for whom, what not and why."""
        snapshot = live.snapshot
        check_link(snapshot, source, target)
        return answer(request, details.link_document(snapshot, source, target, snapshot.moment(at)))

    @router.get("/audit", response_model=dict[str, Any])
    def audit(request: Request, at: At = "") -> Response:
        """How the audit stands, as `mesh audit report` says it."""
        snapshot = live.snapshot
        return answer(request, audit_details.audit_now(snapshot, snapshot.moment(at)))

    @router.get("/audit/heatmap", response_model=dict[str, Any])
    def heatmap(
        request: Request,
        minutes: Annotated[int, Query(ge=1, le=MINUTES_MAX)] = 60,
        at: At = "",
    ) -> Response:
        """The audit by endpoint and minute."""
        snapshot = live.snapshot
        return answer(
            request, audit_details.heatmap_document(snapshot, minutes, snapshot.moment(at))
        )


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
        snapshot = live.snapshot
        asked = Asked(subject, from_, class_, header or ())
        at_ms = snapshot.moment(at)
        return answer(request, explained(snapshot, asked, at_ms))

    @router.get("/route", response_model=dict[str, Any])
    def route(
        request: Request,
        from_: Annotated[str, Query(alias="from", max_length=64)],
        to: Annotated[str, Query(max_length=64)],
        at: At = "",
    ) -> Response:
        """The way from one node to another, or why there is none; `mesh route`."""
        snapshot = live.snapshot
        return answer(request, routed(snapshot, from_, to, snapshot.moment(at)))


def _add_trace_and_plan(router: APIRouter, live: Live) -> None:
    @router.get("/trace/{message:path}", response_model=dict[str, Any])
    def trace(
        request: Request,
        message: str,
        last: Annotated[
            int | None,
            Query(ge=1, le=SCANNED_MAX, description="Look at this many of the newest records."),
        ] = None,
        at: At = "",
    ) -> Response:
        """One message hop by hop; `mesh trace`.

        As of a moment gone by: what of it was written by then.
        """
        snapshot = live.snapshot
        return answer(request, traced(snapshot, message[:1_000], last, snapshot.moment(at)))

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
        made = await run_in_threadpool(planned, live.snapshot, body, allow_delete=allow_delete)
        return answer(request, made)
