"""`mesh audit report`: what the auditor has found so far. Spec: DESIGN 7, lab.md 2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli import clock
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.session import open_clusters, running_mesh
from mesh.cli.target import HERE, Target

EXIT_FOUND = 10


def report(
    limit: Annotated[int, typer.Option(min=1, help="Findings shown in the table.")] = 50,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show findings and certificates.

    Exit code 10: a fault was found, a certificate differs, an endpoint has none, or the auditor
    has not been heard for 15 s.
    """
    from mesh.cli.faults import wrong_input
    from mesh.operate.auditing import read_audit
    from mesh.operate.documents.audit import audit_document

    topology = running_mesh(target).topology
    if not topology.audit_kafka:
        raise wrong_input("spec.audit.kafka", "there is no Kafka cluster to read from")
    with open_clusters(topology, topology.audit_kafka) as kafka:
        found = read_audit(topology, kafka[topology.audit_kafka])
    data = audit_document(found, clock.wall_ms())
    render(View(data=data, table=lambda: _table(data, limit)), output)
    raise typer.Exit(0 if data["ok"] else EXIT_FOUND)


def _table(data: Mapping[str, Any], limit: int) -> RenderableType:
    if not data["running"]:
        return "no auditor has written here yet"
    counts = data["counts"]
    findings = data["findings"]
    unequal = [one for one in data["certificates"] if not one.get("equal")]
    certified = (
        f"{counts['certificates']} certificates, {counts['equal']} equal: "
        f"{counts['delivered']} of {counts['expected']} expected deliveries"
    )
    kinds = ", ".join(f"{kind} {count}" for kind, count in counts["findings"].items())
    parts: list[RenderableType] = ["not ok: " + "; ".join(data["doubts"])] if data["doubts"] else []
    parts += [certified, kinds or "no findings"]
    parts += [f"not certified yet: {data['uncertified']}"] if data["uncertified"] else []
    parts += [
        f"  {one.get('source')} block {one.get('block')} for {one.get('endpoint')}: "
        f"{one.get('reason')}"
        for one in data["waiting"][:limit]
    ]
    if findings:
        rows = [_finding_row(one) for one in findings[:limit]]
        parts.append(grid(("KIND", "WHERE", "FIRST", "LAST", "TEXT"), rows))
        if len(findings) > limit:
            parts.append(f"and {len(findings) - limit} more findings; see --limit")
    if unequal:
        columns = ("SOURCE", "BLOCK", "ENDPOINT", "EXPECTED", "DELIVERED", "PARTIAL")
        differing = [tuple(one.get(name.lower(), "") for name in columns) for one in unequal]
        parts += ["certificates that differ", grid(columns, differing[:limit])]
    return Group(*parts)


def _finding_row(one: Mapping[str, Any]) -> tuple[object, ...]:
    where = one.get("link") or one.get("endpoint") or one.get("path") or ""
    first, last = one.get("first"), one.get("last")
    return (
        one.get("kind", ""),
        where,
        "" if first is None else first,
        "" if last is None else last,
        one.get("text", ""),
    )
