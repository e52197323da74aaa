"""Drills: faults planted in the records of a running mesh, from outside, for the auditor to find.

No worker takes part, and no application is touched: a drill publishes two messages that nobody
wants, makes an endpoint of its own, and writes there what a broken node would have written. Only
`loss` writes beside it, to a ledger. Spec: DESIGN 7; docs/audit.md says what finds each of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

from mesh.config.nearest import check_node
from mesh.core.ways import DeadEnd, way_between
from mesh.errors import wrong_input
from mesh.model.findings import FindingKind
from mesh.model.frames import SourcePartition
from mesh.model.subject import matches
from mesh.model.topology import Topology
from mesh.transport.port import Record, TopicPartition
from mesh.view.mesh_view import MeshView

STARTS_WITH = "drill-"
"""Prefix of the endpoints of drills."""


class DrillKind(StrEnum):
    """What a drill plants."""

    LOOP = "loop"
    DUPLICATE = "duplicate"
    LOSS = "loss"
    DISORDER = "disorder"
    UNPLANNED_PATH = "unplanned-path"
    WRONG_RECIPIENT = "wrong-recipient"
    FORGED_ORIGIN = "forged-origin"
    CORRUPT = "corrupt"

    @property
    def finding(self) -> FindingKind:
        """Kind of the finding that reports it."""
        match self:
            case DrillKind.LOSS:
                return FindingKind.MISSING
            case DrillKind.WRONG_RECIPIENT:
                return FindingKind.UNEXPECTED
            case (
                DrillKind.LOOP
                | DrillKind.DUPLICATE
                | DrillKind.DISORDER
                | DrillKind.UNPLANNED_PATH
                | DrillKind.FORGED_ORIGIN
                | DrillKind.CORRUPT
            ):
                return FindingKind[self.name]

    @property
    def text(self) -> str:
        """What it does, in one line."""
        return _TEXTS[self]

    @property
    def endpoint(self) -> str:
        """Name of its endpoint."""
        return f"{STARTS_WITH}{self.value}"

    def subject(self, number: int) -> str:
        """Return the subject of its messages, another for each drill."""
        return f"drill/{self.value}/{number}"


_TEXTS = {
    DrillKind.LOOP: "a message whose path leads through a node twice",
    DrillKind.DUPLICATE: "a message that an endpoint gets twice",
    DrillKind.LOSS: "a message that a lane says it knows to be wanted, and that does not come",
    DrillKind.DISORDER: "a message that comes after a later one of its publisher",
    DrillKind.UNPLANNED_PATH: "a message that came by a way that no zone allows",
    DrillKind.WRONG_RECIPIENT: "a message that an endpoint gets and did not ask for",
    DrillKind.FORGED_ORIGIN: "a message of a topic that does not exist (found after a minute)",
    DrillKind.CORRUPT: "a message with another payload than was published",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What a drill has written.

    Attributes:
        drill: The drill.
        endpoint: `node/name` of its endpoint.
        message: The message in question, as `mesh trace` takes it.
        records: The forged records: topic, partition and offset.
        at_ms: When the last one was acknowledged, by the monotonic clock.
    """

    drill: DrillKind
    endpoint: str
    message: str
    records: Sequence[tuple[TopicPartition, int]]
    at_ms: int

    @property
    def evidence(self) -> Sequence[str]:
        """The forged records, as findings spell them."""
        return [f"{at.topic}/{at.partition}@{offset}" for at, offset in self.records]

    def is_told_by(self, finding: Mapping[str, object]) -> bool:
        """Return whether a finding reports it, and not an earlier drill of its kind."""
        if finding.get("kind") != self.drill.finding or finding.get("endpoint") != self.endpoint:
            return False
        ids, evidence = finding.get("ids"), finding.get("evidence")
        is_named = isinstance(ids, list) and self.message in ids
        shown = [str(one) for one in evidence] if isinstance(evidence, list) else []
        return is_named or any(
            _covers(text, at, offset) for text in shown for at, offset in self.records
        )


def _covers(evidence: str, at: TopicPartition, offset: int) -> bool:
    """Return whether evidence, `topic/partition@first-last`, names a record."""
    place, _, span = evidence.rpartition("@")
    first, _, last = span.partition("-")
    is_there = place == f"{at.topic}/{at.partition}"
    if not is_there or not (first.isdecimal() and (last or first).isdecimal()):
        return False
    return int(first) <= offset <= int(last or first)


def is_of_drill(finding: Mapping[str, object]) -> bool:
    """Return whether a finding reports a drill."""
    return str(finding.get("endpoint") or "").partition("/")[2].startswith(STARTS_WITH)


def refuse_unless_allowed(topology: Topology) -> None:
    """Refuse drills where the topology in force does not allow them.

    Raises:
        ConfigError: It does not.
    """
    if not topology.allows_drills:
        message = (
            "this mesh allows no drills; put `drills: allowed` under spec in force, on a mesh that "
            "nobody depends on"
        )
        raise wrong_input("spec.drills", message, code="NO_DRILLS")


def refuse_if_wanted(drill: DrillKind, view: MeshView) -> None:
    """Refuse a drill whose messages an application would get.

    Raises:
        ConfigError: An endpoint wants them.
    """
    for node, seen in view.nodes.items():
        for endpoint, filter_ in seen.subscriptions:
            if not endpoint.startswith(STARTS_WITH) and matches(filter_, drill.subject(0)):
                message = (
                    f"{node}/{endpoint} wants {filter_!r}, so it would get what the drill "
                    "publishes; drill where nobody wants drill/>"
                )
                raise wrong_input("NAME", message, code="WANTED")


def ends_of(topology: Topology, source: str | None, target: str | None) -> tuple[str, str]:
    """Return where a drill publishes and where its endpoint is; by default a neighbour.

    Raises:
        ConfigError: A node is unknown, or nothing gets from one to the other.
    """
    for where, node in (("--from", source), ("--to", target)):
        if node is not None:
            check_node(topology, node, where)
    pairs = [
        (one, other)
        for one in ([source] if source else sorted(topology.nodes))
        for other in ([target] if target else topology.neighbours(one))
        if one != other and not isinstance(way_between(topology, one, other), DeadEnd)
    ]
    if not pairs:
        text = "a drill needs two nodes that messages get between"
        raise wrong_input("--from, --to", text, code="NO_WAY")
    return pairs[0]


@dataclass(frozen=True, slots=True)
class Spare:
    """A message that was published and routed to nobody.

    Attributes:
        place, offset: Its position.
        source: The same by the broker's id of the topic.
        subject: What it was published to.
        record: As the broker gives it.
    """

    place: TopicPartition
    offset: int
    source: SourcePartition
    subject: str
    record: Record


@dataclass(frozen=True, slots=True)
class Forged:
    """A delivery to write: its message, its path, and how it differs from the message."""

    spare: Spare
    path: tuple[str, ...]
    payload: bytes | None = None
    source: SourcePartition | None = None


def forgeries(
    drill: DrillKind, spares: Sequence[Spare], path: tuple[str, ...], mark: str
) -> Sequence[Forged]:
    """Return the deliveries that a drill writes, in order; none for `loss`.

    Args:
        drill: Which one.
        spares: Two messages, in the order in which they were published.
        path: The way from where they were published to the endpoint.
        mark: Differs from drill to drill.
    """
    first, second = spares
    match drill:
        case DrillKind.LOSS:
            return ()
        case DrillKind.DUPLICATE:
            return Forged(first, path), Forged(first, path)
        case DrillKind.DISORDER:
            return Forged(second, path), Forged(first, path)
        case DrillKind.LOOP:
            return (Forged(first, (*path, *path[-2:])),)
        case DrillKind.UNPLANNED_PATH:
            return (Forged(first, path[-1:]),)
        case DrillKind.CORRUPT:
            return (Forged(first, path, payload=b"swapped by a drill"),)
        case DrillKind.FORGED_ORIGIN:
            topic_id = blake2b(mark.encode(), digest_size=16).digest()
            source = SourcePartition(topic_id, first.source.partition)
            return (Forged(first, path, source=source),)
        case DrillKind.WRONG_RECIPIENT:
            return (Forged(first, path),)
