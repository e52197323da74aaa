"""`mesh top`: rates, what waits, what is not up, and findings, once a second, on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.interrupt import interruptible
from mesh.cli.render import Output, OutputOption, console, grid, render
from mesh.cli.session import in_force_in, quiet_client_library
from mesh.cli.target import HERE, Target
from mesh.model.words import LinkWord, NodeWord
from mesh.transport import clock

if TYPE_CHECKING:
    from mesh.operate.watch import Watch

LOOK_S = 1.0
WAITING_LOOKS = 5
"""What waits is asked of brokers, so not at every look."""

FINDINGS_SHOWN = 5
ONCE = 3
"""Looks that make a rate, where nobody looks on: the first ones only begin to count."""


def top(
    count: Annotated[
        int,
        typer.Option(
            min=0,
            help="Stop after this many refreshes, one a second; 0: run until Ctrl-C (a few if not "
            "on a terminal).",
        ),
    ] = 0,
    lines: Annotated[
        int, typer.Option(min=1, help="Links shown, first those not up, then the busiest.")
    ] = 20,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what links carry, what waits, what is not up, and findings, as `mesh dashboard` does.

    On a terminal until Ctrl-C; elsewhere, and with -o json, the last look is printed.
    """
    from mesh.operate.watch import Watch
    from mesh.view.connection import open_kafka

    topology = in_force_in(target).topology
    quiet_client_library()
    watch = Watch(
        topology,
        lambda of, names: open_kafka(of, names, client_prefix="mesh-top"),
        clock.now_ms,
        clock.wall_ms,
    )
    is_live = sys.stdout is not None and sys.stdout.isatty() and output is Output.TABLE
    try:
        data = _look_on(watch, count or (0 if is_live else ONCE), lines, is_live=is_live)
    finally:
        watch.close()
    if not is_live:
        render(data, lambda: _table(data, lines), output)


def _look_on(watch: Watch, count: int, lines: int, *, is_live: bool) -> Mapping[str, Any]:
    """Look as often as asked, or until Ctrl-C; return what was seen last."""
    from rich.live import Live

    watch.begin(clock.pause)
    waiting = waiting_on_links(watch)
    data = top_document(watch, waiting)
    screen = None
    if is_live:
        screen = Live(_table(data, lines), console=console(), auto_refresh=False, screen=True)
    with interruptible() as is_interrupted, screen or nullcontext():
        number = 1
        while not is_interrupted() and (not count or number < count):
            clock.pause(LOOK_S)
            watch.look()
            number += 1
            if number % WAITING_LOOKS == 0 or number == count:
                waiting = waiting_on_links(watch)
            data = top_document(watch, waiting)
            if screen is not None:
                screen.update(_table(data, lines), refresh=True)
    return data


def waiting_on_links(watch: Watch) -> Mapping[str, int | None]:
    """Return how many messages wait on each direction of a link; None where nobody knows."""
    from mesh.operate.documents.links import links_document

    seen = watch.seen
    document = links_document(seen)
    return {one["link"]: one["backlog_messages"] for one in document["links"]}


def top_document(watch: Watch, waiting: Mapping[str, int | None]) -> dict[str, Any]:
    """Return the mesh at this moment: nodes that are not up, links, findings.

    Links that are not up come first, for they carry nothing; the others by rate.
    """
    from mesh.model.findings import NEWS
    from mesh.operate.audit.proof import proof_of

    seen, traffic = watch.seen, watch.traffic
    links: list[dict[str, Any]] = []
    for one in seen.flows:
        name = f"{one.source}->{one.target}"
        rates = seen.rates_on(one, traffic)
        links.append(
            {
                "link": name,
                "zone": one.zone,
                "state": one.state,
                "guaranteed_per_s": None if rates is None else round(rates[0], 1),
                "direct_per_s": None if rates is None else round(rates[1], 1),
                "waiting": waiting.get(name),
            }
        )
    links.sort(key=_urgency)
    proof = proof_of(watch.trail, seen.at_ms)
    findings = [one for one in watch.trail.audited().findings if str(one.get("kind")) not in NEWS]
    return {
        "mesh": seen.topology.name,
        "at_ms": seen.at_ms,
        "proof": {"state": str(proof.state), "text": proof.text, "until_ms": proof.until_ms},
        "nodes": {one.node: one.state for one in seen.nodes},
        "links": links,
        "silent": dict(seen.faults),
        "findings_open": len(findings),
        "findings": findings[-FINDINGS_SHOWN:],
    }


def _urgency(link: Mapping[str, Any]) -> tuple[bool, float, str]:
    carried = (link["guaranteed_per_s"] or 0.0) + (link["direct_per_s"] or 0.0)
    return link["state"] == LinkWord.UP, -carried, link["link"]


def _table(data: Mapping[str, Any], lines: int) -> RenderableType:
    wrong = [f"{name} {state}" for name, state in data["nodes"].items() if state != NodeWord.UP]
    up = len(data["nodes"]) - len(wrong)
    heading = [f"{data['mesh']}: {data['proof']['text']}{_age(data)}"]
    heading.append("; ".join([f"{up} nodes up", ", ".join(wrong)]).removesuffix("; "))
    heading += [f"Kafka cluster {name}: {fault}" for name, fault in data["silent"].items()]
    rows = [_row(one) for one in data["links"][:lines]]
    left = len(data["links"]) - len(rows)
    parts: list[RenderableType] = [
        *heading,
        grid(("LINK", "ZONE", "STATE", "GUARANTEED/S", "DIRECT/S", "WAITING"), rows),
    ]
    if left:
        parts.append(f"and {left} more links; --lines shows more")
    if data["findings"]:
        found = [(str(one.get("kind")), str(one.get("text"))) for one in data["findings"]]
        parts.append(grid(("FOUND", "WHAT"), found))
    return Group(*parts)


def _row(link: Mapping[str, Any]) -> tuple[object, ...]:
    keys = ("link", "zone", "state", "guaranteed_per_s", "direct_per_s", "waiting")
    return tuple(link[key] for key in keys)


def _age(data: Mapping[str, Any]) -> str:
    """Return up to when all is proven, or nothing."""
    until_ms = data["proof"]["until_ms"]
    if until_ms is None:
        return ""
    return f", until {max(0, data['at_ms'] - until_ms) / 1000:.0f} s ago"
