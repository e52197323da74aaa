"""`mesh trace`: one message followed through the topics. Spec: K9."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, grid, in_utc, render, say
from mesh.cli.session import Heard, open_session
from mesh.cli.target import HERE, Target

if TYPE_CHECKING:
    from mesh.operate.messages.trace import Trace


def trace(
    message: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="TOPIC/PARTITION/OFFSET of the ingress record, or an id that subscribe prints.",
        ),
    ],
    last: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Look at this many of the newest records of each outbox and endpoint, instead of "
            "those from about its time.",
        ),
    ] = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Find a message in its ingress, the frames that carried it, and its deliveries.

    Exit code 10: it was not found.
    """
    from mesh.operate.documents.messages import trace_document
    from mesh.operate.messages.trace import Tracer, parts_of_id

    parts_of_id(message)  # refused before any Kafka cluster is asked
    with open_session(target, heard=Heard.NOBODY) as seen:
        tracer = Tracer(seen.topology, seen.kafka, last)
        found = tracer.trace(tracer.find(message))
    data = trace_document(found)
    if not found.is_found:
        say(f"{data['id']}: {_absence(found)}")
    if found.is_found or output is not Output.TABLE:
        render(data, lambda: table_of(found, data), output)
    raise typer.Exit(0 if found.is_found else EXIT_NOT_WELL)


def _absence(found: Trace) -> str:
    """Return in words why nothing was found of a message."""
    place, offset = found.ingress.place, found.ingress.identity.offset
    if offset >= found.end:
        newest = f"the newest there is {found.end - 1}" if found.end else "nothing was published"
        return (
            f"no such message: in partition {place.partition} of {place.topic} {newest}; check "
            "partition and offset"
        )
    if not found.is_routed:
        return "no such message: there is no record at that offset; check partition and offset"
    return (
        f"{found.ingress.node} has routed it, and nothing of it is left: its record is deleted, "
        "and no outbox or endpoint holds it"
    )


def table_of(found: Trace, data: dict[str, Any]) -> RenderableType:
    """Return what was found of a message, for people."""
    ingress = data["ingress"]
    state = "routed" if found.is_routed else "not routed yet"
    if not found.is_there:
        state += ", its record is gone" if found.is_routed else ", no such record"
    lines = [f"{data['id']}  {found.subject or ''}  published at {ingress['node']}, {state}"]
    if found.created_ms is not None:
        lines.append(f"created {_moment(found.created_ms)}, {found.size} bytes")
    if found.letter is not None:
        lines.append(f"refused: {found.letter.reason}: {found.letter.detail}")
    frames = [
        (
            one["link"],
            one["place"],
            f"{one['first']}..{one['last']}",
            one["messages"],
            "yes" if one["repair"] else "",
            _moment(one["appended_ms"]),
        )
        for one in data["frames"]
    ]
    deliveries = [
        (
            one["endpoint"],
            one["place"],
            ">".join(one["path"]),
            "" if one["committed_ms"] is None else _moment(one["committed_ms"]),
        )
        for one in data["deliveries"]
    ]
    if found.unseen:
        lines.append(f"there may be more in {', '.join(data['not_looked_at'])}; see --last")
    if found.unknown:
        nodes = ", ".join(found.unknown)
        lines.append(f"it came to {nodes}, and what became of it there is not known")
    return Group(
        *lines,
        grid(("LINK", "FRAME", "STRETCH", "MESSAGES", "REPAIR", "WRITTEN"), frames),
        grid(("ENDPOINT", "DELIVERY", "PATH", "WRITTEN"), deliveries),
    )


def _moment(ms: int) -> str:
    return in_utc(ms, "milliseconds")
