"""The account that the demo gives at its end: JSON for scripts, tables for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from mesh.lab.demo.endpoints import ENDPOINTS
from mesh.lab.demo.harvest import EndpointHarvest
from mesh.lab.demo.publisher import FlightPublisher
from mesh.lab.demo.stage import DemoStage
from mesh.model.frames import MessageClass
from mesh.operate.audit.drills import is_of_drill
from mesh.operate.links.traffic import Flow

EXIT_OK = 0
EXIT_UNHEALTHY = 10
_MB = 1_000_000
_GUARANTEED, _DIRECT = MessageClass.GUARANTEED, MessageClass.DIRECT

Expected = Mapping[str, Mapping[MessageClass, int]]


@dataclass(slots=True)
class Times:
    """How long things took, in seconds; None: they have not come yet.

    Attributes:
        first_delivery_s: From the start of the demo to the first delivery.
        first_certificate_s: From the first message to the first certificate.
        last_certificate_s: From the last delivery to the last certificate.
    """

    first_delivery_s: float | None = None
    first_certificate_s: float | None = None
    last_certificate_s: float | None = None

    def document(self) -> Mapping[str, float | None]:
        """Return them by name, rounded."""
        return {
            name: None if seconds is None else round(seconds, 1)
            for name, seconds in asdict(self).items()
        }


@dataclass(frozen=True, slots=True)
class Report:
    """What happened.

    Attributes:
        data: Everything, as scripts read it.
        faults: What is wrong, one line each; empty means all is well.
    """

    data: Mapping[str, object]
    faults: Sequence[str]

    @property
    def exit_code(self) -> int:
        """Return 0 if all is well, else 10."""
        return EXIT_UNHEALTHY if self.faults else EXIT_OK

    @classmethod
    def of(
        cls,
        stage: DemoStage,
        publisher: FlightPublisher,
        expected: Expected,
        harvested: Mapping[str, EndpointHarvest],
        *,
        duration_s: float,
        times: Times,
        is_audited: bool,
        is_drained: bool,
    ) -> Report:
        """Put the account together."""
        endpoints = {one.name: _endpoint(one.name, expected, harvested) for one in ENDPOINTS}
        findings = list(stage.audit.findings)
        owed = {name: counts[_GUARANTEED] for name, counts in expected.items()}
        faults = [
            *(["not everything was delivered in time"] if not is_drained else []),
            *([f"{publisher.failed} messages were refused"] if publisher.failed else []),
            *_endpoint_faults(endpoints),
            *(str(finding.get("text")) for finding in findings if not is_of_drill(finding)),
        ]
        if is_audited and not stage.audit.covers(owed):
            faults.append(f"not every delivery is certified: {stage.audit.stands()}")
        published = publisher.counts()
        data = {
            "ok": not faults,
            "duration_s": duration_s,
            "rate": publisher.pace.rate,
            "published": publisher.messages,
            "published_by_class": _by_class(published),
            "delivered": sum(_number(row, "delivered") for row in endpoints.values()),
            "delivered_by_class": {
                cls.value: sum(one.distinct[cls] for one in harvested.values())
                for cls in MessageClass
            },
            "flights": publisher.flights,
            "endpoints": endpoints,
            "links": _links(stage, duration_s),
            "not_forwarded": _not_forwarded(stage),
            "certificates": len(stage.audit.certificates),
            "certified": sum(stage.audit.certified().values()),
            "findings": findings,
            "faults": faults,
            **times.document(),
            "memory_mb": stage.memory_max // _MB,
            "restarts": stage.supervisor.restarts,
            "publisher_cpu_s": round(publisher.cpu_s, 2),
        }
        return cls(data, faults)


def _by_class(published: Mapping[tuple[str, MessageClass, str], int]) -> Mapping[str, int]:
    return {
        cls.value: sum(n for (_, of, _), n in published.items() if of is cls)
        for cls in MessageClass
    }


def _endpoint(
    name: str, expected: Expected, harvested: Mapping[str, EndpointHarvest]
) -> Mapping[str, object]:
    """Return one endpoint; `missing` of a direct one is what was lost on the way, as it may be."""
    owed, got = expected[name], harvested[name]
    wanted = sum(owed.values())
    delivered = sum(got.distinct.values())
    is_direct = next(endpoint.is_direct for endpoint in ENDPOINTS if endpoint.name == name)
    return {
        "class": (_DIRECT if is_direct else _GUARANTEED).value,
        "expected": wanted,
        "delivered": delivered,
        "missing": max(0, wanted - delivered),
        "duplicates": got.duplicates + max(0, delivered - wanted),
    }


def _endpoint_faults(endpoints: Mapping[str, Mapping[str, object]]) -> Sequence[str]:
    faults: list[str] = []
    for name, row in endpoints.items():
        missing, duplicates = _number(row, "missing"), _number(row, "duplicates")
        if missing and row["class"] == _GUARANTEED.value:
            faults.append(f"{name} lacks {missing} messages")
        if duplicates:
            faults.append(f"{name} has {duplicates} messages too many")
    return faults


def _links(stage: DemoStage, duration_s: float) -> Mapping[str, Mapping[str, object]]:
    topology, flows = stage.fleet.topology, stage.traffic.links
    ways = [(node, other) for node in topology.nodes for other in topology.neighbours(node)]
    found: dict[str, Mapping[str, object]] = {}
    for source, target in sorted(ways):
        flow = flows.get((source, target), Flow())
        found[f"{source}->{target}"] = {
            "messages": flow.total,
            "frames": flow.frames,
            "direct": flow.counts[_DIRECT],
            "rate": round(flow.total / duration_s, 1) if duration_s else 0.0,
        }
    return found


def _not_forwarded(stage: DemoStage) -> Mapping[str, int]:
    """Return messages per reason, of all directions."""
    return dict(sorted(sum(stage.traffic.not_forwarded.values(), Counter[str]()).items()))


def _number(row: Mapping[str, object], name: str) -> int:
    value = row[name]
    return value if isinstance(value, int) else 0
