"""The state of the demo at one moment, as plain values for whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.lab.demo.endpoints import ENDPOINTS
from mesh.lab.demo.publisher import Publisher
from mesh.lab.demo.stage import Stage
from mesh.model.topology import Topology
from mesh.view.mesh_view import MeshView

_STEADY = 0.6
"""Share of the newest second in a shown rate: rates should not flicker."""


@dataclass(frozen=True, slots=True)
class LinkRow:
    """One direction of a link: total, per second, and how many filters the far end offers."""

    messages: int = 0
    rate: float = 0.0
    filters: int = 0


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """One endpoint: its filters, class, and what reached it."""

    name: str
    filters: Sequence[str]
    is_direct: bool
    delivered: int = 0
    rate: float = 0.0
    certified: int = 0


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything that is shown.

    Attributes:
        at_s: When, on the monotonic clock.
        elapsed_s: Since the start of the demo.
        traffic_s: Since the first message was published.
        links: Per direction, `a->b`.
        endpoints: In the order of the endpoints.
        news: The newest findings, one line each.
    """

    at_s: float
    elapsed_s: float
    published: int
    publish_rate: float
    delivered: int
    delivery_rate: float
    in_flight: int
    not_forwarded: Mapping[str, int]
    links: Mapping[str, LinkRow]
    endpoints: Sequence[EndpointRow]
    serving: int
    nodes: int
    restarts: int
    memory: int
    is_audited: bool
    is_audit_live: bool
    certificates: int
    unequal: int
    certified: int
    findings: int
    news: Sequence[str] = field(default=())
    fault: str = ""


def picture_of(
    stage: Stage,
    publisher: Publisher,
    last: Picture | None,
    *,
    now_s: float,
    started_s: float,
    memory: int,
) -> Picture:
    """Return the present picture; rates come from the difference to the last one."""
    accounts, verdicts = stage.accounts, stage.verdicts
    topology = stage.fleet.topology
    passed_s = now_s - last.at_s if last is not None else 0.0

    def rate(total: int, before: int, shown: float) -> float:
        if passed_s <= 0:
            return 0.0
        return _STEADY * (total - before) / passed_s + (1 - _STEADY) * shown

    offers = offered_filters(topology, stage.view)
    links: dict[str, LinkRow] = {}
    for name, account in accounts.links.items():
        old = last.links[name] if last is not None else LinkRow()
        links[name] = LinkRow(
            account.messages, rate(account.messages, old.messages, old.rate), offers[name]
        )
    certified = verdicts.certified()
    rows: list[EndpointRow] = []
    for index, endpoint in enumerate(ENDPOINTS):
        total = sum(n for (name, _), n in accounts.delivered.items() if name == endpoint.name)
        before = last.endpoints[index] if last is not None else None
        rows.append(
            EndpointRow(
                endpoint.name,
                endpoint.filters,
                endpoint.is_direct,
                total,
                rate(total, before.delivered, before.rate) if before is not None else 0.0,
                certified.get(endpoint.name, 0),
            )
        )
    delivered = accounts.total_delivered()
    live = list(verdicts.certificates.values())
    return Picture(
        at_s=now_s,
        elapsed_s=now_s - started_s,
        published=publisher.messages,
        publish_rate=rate(publisher.messages, last.published, last.publish_rate) if last else 0.0,
        delivered=delivered,
        delivery_rate=rate(delivered, last.delivered, last.delivery_rate) if last else 0.0,
        in_flight=max(0, accounts.in_flight),
        not_forwarded=dict(accounts.not_forwarded),
        links=links,
        endpoints=rows,
        serving=sum(seen.is_ready for seen in stage.view.nodes.values()),
        nodes=len(topology.nodes),
        restarts=stage.supervisor.restarts,
        memory=memory,
        is_audited=bool(stage.auditor),
        is_audit_live=verdicts.is_live,
        certificates=len(live),
        unequal=sum(not row["equal"] for row in live),
        certified=sum(certified.values()),
        findings=len(verdicts.findings),
        news=[str(finding.get("text", "")) for finding in list(verdicts.findings.values())[-3:]],
        fault=accounts.fault or verdicts.fault,
    )


def offered_filters(topology: Topology, view: MeshView) -> Mapping[str, int]:
    """Return, per direction `a->b`, how many filters b offers there: what may cross it."""
    counts: dict[str, int] = {}
    for node in topology.nodes:
        for link in topology.links_of(node):
            other = link.other(node)
            filters = {
                filter_: None
                for scope, entries in view.nodes[other].offers.items()
                if scope.zone == link.zone and scope.neighbour in ("", node)
                for filter_ in entries
                if not filter_.startswith("$")
            }
            counts[f"{node}->{other}"] = len(filters)
    return counts
