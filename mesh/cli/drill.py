"""`mesh drill`: a fault planted from outside, and how long the auditor takes to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, grid, render, say
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import wrong_input
from mesh.transport import clock

if TYPE_CHECKING:
    from mesh.operate.audit.drills import DrillKind, Planted
    from mesh.operate.audit.entries import Entry
    from mesh.view.mesh_view import RunningMesh


def drill(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Which one; all are listed without it.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", help="Node where its messages are published.")
    ] = None,
    to: Annotated[str | None, typer.Option(help="Node where its endpoint is created.")] = None,
    timeout: Annotated[
        float, typer.Option(min=0, help="Seconds to wait for the auditor to find it.")
    ] = 180.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Plant a fault in the records of a running mesh, and wait until the auditor finds it.

    Only where the topology in force says `drills: allowed`. Exit code 10: not found in time.
    """
    from mesh.config.nearest import nearest
    from mesh.operate.audit.drills import DrillKind, ends_of
    from mesh.operate.audit.planting import Planter

    if name is None:
        known = {one.value: {"finding": one.finding, "text": one.text} for one in DrillKind}
        render(known, _list, output)
        return
    if name not in list(DrillKind):
        raise wrong_input("NAME", f"no drill {name!r}{nearest(name, list(DrillKind))}")
    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        _refuse(seen, DrillKind(name))
        ends = ends_of(seen.topology, source, to)
        planter = Planter(seen)
        with _fresh_findings(seen) as fresh:
            try:
                planted = planter.plant(DrillKind(name), *ends)
                say(f"planted {planted.drill.text}, in {planted.endpoint}; waiting for the auditor")
                found = _await(fresh, planted, timeout)
                seconds = (clock.now_ms() - planted.at_ms) / 1000
            finally:
                planter.clear(DrillKind(name), ends[1])
    data: dict[str, Any] = {
        "drill": planted.drill.value,
        "endpoint": planted.endpoint,
        "message": planted.message,
        "records": list(planted.evidence),
        "expected": planted.drill.finding,
        "found": None if found is None else dict(found),
        "seconds": round(seconds, 2),
    }
    render(data, lambda: _told(data), output)
    raise typer.Exit(0 if found else EXIT_NOT_WELL)


def _refuse(seen: CommandSession, drill: DrillKind) -> None:
    """Refuse a drill where nothing in force allows it, or somebody would get what it publishes."""
    from mesh.operate.audit.drills import refuse_if_wanted, refuse_unless_allowed

    if seen.in_force.found is None:
        raise wrong_input(
            "spec.drills",
            "nobody has put a topology in force here, and a file alone allows nothing; "
            "`mesh apply` it with `drills: allowed`",
            code="NO_DRILLS",
        )
    refuse_unless_allowed(seen.topology)
    refuse_if_wanted(drill, seen.view)


@contextmanager
def _fresh_findings(mesh: RunningMesh) -> Iterator[Callable[[], Iterator[Entry]]]:
    """Follow what the auditor finds from now on."""
    from mesh.operate.audit.entries import entry_of
    from mesh.transport.following import Follower
    from mesh.transport.port import TopicPartition

    where = mesh.topology.audit_kafka
    if where not in mesh.kafka:
        raise wrong_input("spec.audit.kafka", "there is no Kafka cluster to read findings from")
    follower = Follower(mesh.kafka[where], "drill-findings", clock.now_ms)
    follower.add([TopicPartition(mesh.topology.names.audit("findings"), 0)])

    def fresh() -> Iterator[Entry]:
        for record in follower.poll():
            entry = entry_of("findings", record.value() or b"")
            if entry is not None:
                yield entry

    try:
        for _ in fresh():
            pass  # what was found before
        yield fresh
    finally:
        follower.close()


def _await(
    fresh: Callable[[], Iterator[Entry]], planted: Planted, timeout_s: float
) -> Entry | None:
    """Return the finding that reports a drill, or None if none comes in time."""
    told: list[Entry] = []

    def is_found() -> bool:
        told.extend(filter(planted.is_told_by, fresh()))
        return bool(told)

    clock.timekeeper().wait_until(is_found, timeout_s)
    return told[0] if told else None


def _list() -> RenderableType:
    from mesh.operate.audit.drills import DrillKind

    return grid(("DRILL", "PLANTS", "FOUND AS"), [(d.value, d.text, d.finding) for d in DrillKind])


def _told(data: Mapping[str, Any]) -> str:
    lines = [f"message {data['message']}", f"forged  {', '.join(data['records'])}"]
    if data["found"] is None:
        lines += [
            f"not found after {data['seconds']:.1f} s; does the auditor run? mesh audit status"
        ]
    else:
        found = data["found"]
        lines += [
            f"found after {data['seconds']:.1f} s: {found['kind']} {found['id']}",
            f"see mesh audit explain {found['id']}",
        ]
    return "\n".join(lines)
