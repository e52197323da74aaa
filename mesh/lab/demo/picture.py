"""The state of the demo at one moment, as plain values for whoever shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.lab.demo.endpoints import ENDPOINTS
from mesh.lab.demo.publisher import FlightPublisher
from mesh.lab.demo.stage import DemoStage
from mesh.model.topology import Topology
from mesh.operate.links.flows import wanted_over
from mesh.operate.links.traffic import Flow
from mesh.view.mesh_view import MeshView


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
        unproven_s: How long ago that was published from which on not all is proven.
        news: The newest findings, one line each.
    """

    at_s: float
    elapsed_s: float
    published: int
    publish_rate: float
    delivered: int
    delivery_rate: float
    in_flight: int
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
    unproven_s: float
    news: Sequence[str] = field(default=())
    fault: str = ""


def picture_of(
    stage: DemoStage,
    publisher: FlightPublisher,
    *,
    now_s: float,
    started_s: float,
    memory: int,
    unproven_s: float,
) -> Picture:
    """Return the present picture."""
    topology, traffic, audit = stage.fleet.topology, stage.traffic, stage.audit
    certificates, findings = audit.certificates, audit.findings
    silent = next(iter(stage.view.unreachable.values()), "")
    endpoints = _endpoints(stage)
    return Picture(
        at_s=now_s,
        elapsed_s=now_s - started_s,
        published=publisher.messages,
        publish_rate=sum(sum(flow.rates) for flow in traffic.taken.values()),
        delivered=sum(one.delivered for one in endpoints),
        delivery_rate=sum(one.rate for one in endpoints),
        in_flight=max(0, traffic.in_flight),
        links=_links(stage),
        endpoints=endpoints,
        serving=sum(seen.is_ready for seen in stage.view.nodes.values()),
        nodes=len(topology.nodes),
        restarts=stage.supervisor.restarts,
        memory=memory,
        is_audited=bool(stage.auditor),
        is_audit_live=audit.is_live,
        certificates=len(certificates),
        unequal=sum(not row["equal"] for row in certificates),
        certified=sum(one.certified for one in endpoints),
        findings=len(findings),
        unproven_s=unproven_s,
        news=[str(finding.get("text", "")) for finding in findings[-3:]],
        fault=silent or audit.fault,
    )


def _links(stage: DemoStage) -> Mapping[str, LinkRow]:
    found: dict[str, LinkRow] = {}
    for (node, other), filters in offered_filters(stage.fleet.topology, stage.view).items():
        flow = stage.traffic.links.get((node, other), Flow())
        found[f"{node}->{other}"] = LinkRow(flow.total, sum(flow.rates), filters)
    return found


def _endpoints(stage: DemoStage) -> Sequence[EndpointRow]:
    certified = stage.audit.certified()
    rows: list[EndpointRow] = []
    for one in ENDPOINTS:
        flow = stage.traffic.delivered.get((one.node, one.endpoint), Flow())
        rows.append(
            EndpointRow(
                one.name,
                one.filters,
                one.is_direct,
                flow.total,
                sum(flow.rates),
                certified.get(one.name, 0),
            )
        )
    return rows


def offered_filters(topology: Topology, view: MeshView) -> Mapping[tuple[str, str], int]:
    """Return, per direction (a, b), how many filters b offers there: what may cross it."""
    return {
        (node, other): len({one for _, one, _ in wanted_over(view, other, node, link.zone)})
        for node in topology.nodes
        for link in topology.links_of(node)
        for other in (link.other(node),)
    }
