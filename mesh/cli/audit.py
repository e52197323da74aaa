"""`mesh audit report` and `mesh audit status`: what the auditor says. Spec: DESIGN 7, lab.md 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli.render import Output, OutputOption, grid, in_utc, render_verdict
from mesh.cli.session import in_force_in, open_clusters
from mesh.cli.target import HERE, Target
from mesh.errors import wrong_input
from mesh.transport import clock

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.audit.latest import Audited
    from mesh.transport.port import KafkaCluster

SinceOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Only what was found and certified since: 2026-05-04T10:00:00 (local time, or with Z "
        "or an offset), or 15m for a quarter of an hour ago.",
    ),
]
UntilOption = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Only what was found until then.")
]


def report(
    limit: Annotated[int, typer.Option(min=1, help="Most findings that the table shows.")] = 50,
    from_time: SinceOption = None,
    to_time: UntilOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show findings and certificates.

    Exit code 10: a fault was found, a certificate differs, an endpoint has none, or the auditor
    has not been heard for 15 s.
    """
    from mesh.operate.documents.audit import audit_document
    from mesh.operate.moments import moment

    found, now_ms = audited(target), clock.wall_ms()
    if from_time is not None or to_time is not None:
        found = found.within(
            None if from_time is None else moment(from_time, now_ms, "--from"),
            None if to_time is None else moment(to_time, now_ms, "--to"),
        )
    data = audit_document(found, now_ms)
    render_verdict(data, lambda: _table(data, limit), output)


@contextmanager
def open_audit(target: Target) -> Iterator[tuple[Topology, KafkaCluster]]:
    """Open the Kafka cluster to which the auditor of a mesh writes.

    Raises:
        ConfigError: There is no mesh, or it names no Kafka cluster for the audit.
    """
    topology = in_force_in(target).topology
    if not topology.audit_kafka:
        text = "there is no Kafka cluster to read from; declare one in spec.kafka"
        raise wrong_input("spec.audit.kafka", text)
    with open_clusters(topology, topology.audit_kafka) as kafka:
        yield topology, kafka[topology.audit_kafka]


def audited(target: Target) -> Audited:
    """Return what the auditor of a mesh has written; raises as `open_audit` does.

    Raises:
        TransportError: Its Kafka cluster does not answer.
    """
    from mesh.operate.audit.trail import AuditTrail

    with open_audit(target) as (topology, kafka):
        return AuditTrail.read_once(topology, kafka, clock.now_ms).audited()


def status(
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how far the auditor is: what it reads, what waits and for whom, what is certified.

    Exit code 10: it has not been heard for 15 s, or a Kafka cluster is not read.
    """
    found = audited(target)
    age_s = found.age_s(clock.wall_ms())
    sources = found.sources()
    data: dict[str, Any] = {
        "ok": found.is_heard(clock.wall_ms())
        and not any(s.get("unread") for s in sources.values()),
        "heard_s_ago": None if age_s is None else round(age_s, 1),
        "sources": sources,
        "uncertified": found.status.get("uncertified", 0),
        "waiting": found.status.get("waiting", []),
        "coverage": {name: asdict(one) for name, one in found.coverage().items()},
        "canaries": sorted(found.canaries, key=lambda one: str(one.get("way"))),
    }
    render_verdict(data, lambda: _status_table(data), output)


def _status_table(data: Mapping[str, Any]) -> RenderableType:
    heard = data["heard_s_ago"]
    if heard is None:
        return "no auditor has said anything here"
    sources = [
        (name, one.get("batch"), "yes" if one.get("lagging") else "", one.get("unread") or "reads")
        for name, one in data["sources"].items()
    ]
    waiting = [
        (one.get("source"), one.get("block"), one.get("endpoint"), one.get("reason"))
        for one in data["waiting"]
    ]
    coverage = [
        (
            endpoint,
            one["messages"],
            one["certificates"],
            one["differing"] or "",
            in_utc(one["at_ms"]) if one["at_ms"] else "never",
        )
        for endpoint, one in data["coverage"].items()
    ]
    canaries = [
        (
            one.get("way"),
            ", ".join(one.get("for", [])),
            *(one.get(name, "") for name in ("latency_ms", "slowest_ms", "sent", "lost")),
        )
        for one in data["canaries"]
    ]
    return Group(
        f"the auditor was heard {heard} s ago",
        grid(("KAFKA", "BATCH", "LAGS", "STATE"), sources),
        grid(("ENDPOINT", "CERTIFIED", "CERTIFICATES", "DIFFER", "NEWEST"), coverage),
        *([grid(("CANARY", "FOR", "MS", "SLOWEST", "SENT", "LOST"), canaries)] if canaries else []),
        f"not certified yet: {data['uncertified']}",
        *([grid(("SOURCE", "BLOCK", "ENDPOINT", "WAITS FOR"), waiting)] if waiting else []),
    )


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
    if counts["unsure"]:
        certified += f"; {counts['unsure']} of the equal ones are no proof"
    kinds = ", ".join(f"{kind} {count}" for kind, count in counts["findings"].items())
    parts: list[RenderableType] = ["not ok: " + "; ".join(data["doubts"])] if data["doubts"] else []
    parts += [certified, kinds or "no findings"]
    if data["hours"]:
        closed, delivered = (
            sum(int(one.get(name, 0)) for one in data["hours"])
            for name in ("certificates", "delivered")
        )
        parts.append(f"blocks closed in {_hours(data)}: {closed}, with {delivered} deliveries")
    parts += [f"not certified yet: {data['uncertified']}"] if data["uncertified"] else []
    parts += [
        f"  {one.get('source')} block {one.get('block')} for {one.get('endpoint')}: "
        f"{one.get('reason')}"
        for one in data["waiting"][:limit]
    ]
    if findings:
        rows = [_finding_row(one) for one in findings[:limit]]
        parts.append(grid(("ID", "KIND", "WHERE", "FIRST", "LAST", "SEEN", "TEXT"), rows))
        if len(findings) > limit:
            parts.append(f"and {len(findings) - limit} more findings; see --limit")
        parts.append("`mesh audit explain ID` tells more of one")
    if unequal:
        columns = ("SOURCE", "BLOCK", "ENDPOINT", "EXPECTED", "DELIVERED", "PARTIAL")
        differing = [tuple(one.get(name.lower(), "") for name in columns) for one in unequal]
        parts += ["certificates that differ", grid(columns, differing[:limit])]
    return Group(*parts)


def _hours(data: Mapping[str, Any]) -> str:
    """Return of which time there are sums, for people."""
    first = min(one.get("from_ms", 0) for one in data["hours"])
    last = max(one.get("to_ms", 0) for one in data["hours"])
    return f"the hours from {in_utc(first)} to {in_utc(last)}"


def _finding_row(one: Mapping[str, Any]) -> tuple[object, ...]:
    where = one.get("link") or one.get("endpoint") or one.get("path") or ""
    first, last = one.get("first"), one.get("last")
    seen = one.get("first_seen_ms")
    return (
        one.get("id", ""),
        one.get("kind", ""),
        where,
        "" if first is None else first,
        "" if last is None else last,
        in_utc(seen) if isinstance(seen, int) else "",
        one.get("text", ""),
    )
