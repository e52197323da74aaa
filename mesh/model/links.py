"""A node's record of its links: it lets nodes that are configured apart see a loop.

Spec: K26, K27, EMS-13, EMS-15, EMS-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mesh.model.joins import Join


class Gate(StrEnum):
    """Whether data go over a link, as one of its ends sees it. Spec: K27.

    `open`: they do. `probing`: not yet, only control. `refused`: not while the cause lasts.
    """

    OPEN = "open"
    PROBING = "probing"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class HeldLink:
    """A link as one of its ends holds it: the link record of K27.

    Attributes:
        neighbour: Name of the other end.
        zone, kind: The zone of the link, and what that zone's links do.
        version: Number of the topology that created it here; 0 for one from a file.
        peer: The other end's uuid; empty until it is known.
        joins: Its one or two directions if it is a link of joins, sorted by zone.
    """

    neighbour: str
    zone: str
    kind: str
    version: int = 0
    peer: str = ""
    joins: tuple[Join, ...] = ()

    @property
    def facts(self) -> tuple[object, ...]:
        """What both ends must agree on, apart from their names."""
        return self.zone, self.kind, self.joins


@dataclass(frozen=True, slots=True)
class GateStatus:
    """What one end of a link lets through.

    Attributes:
        neighbour: Name of the other end.
        state: A `Gate`.
        reason: Why it is not open, in words: for a loop both walks.
        drains: It was open before: what the other end wrote until then is still read.
    """

    neighbour: str
    state: Gate
    reason: str = ""
    drains: bool = False


ABORT, ASK, HOLD, SWITCH, OPEN, JOIN, RUN = -1, 0, 1, 1_000_000, 1_000_001, 1_000_002, 1_000_003
"""Steps by which an open link gives way: who is there; sources hold; then drain probes, counted
from 2; the loser is shut; what waited for that is opened; its offers are known everywhere; all go
on. Or all go on as before."""


@dataclass(frozen=True, slots=True)
class YieldProposal:
    """What one end of an open link that gives way proposes to all nodes. Spec: K27, K28.

    Attributes:
        attempt: Rises whenever that node starts over.
        facts: Digest of the facts by which the link gives way.
        step: `ASK`, `HOLD`, a drain probe, `SWITCH`, `OPEN`, `JOIN`, `RUN` or `ABORT`.
    """

    attempt: int
    facts: str
    step: int

    @property
    def is_active(self) -> bool:
        """Whether nodes should reply."""
        return ASK <= self.step <= JOIN

    @property
    def has_switched(self) -> bool:
        """Whether nothing was on its way, so that links may be shut."""
        return self.step >= SWITCH

    @property
    def has_opened(self) -> bool:
        """Whether they are shut everywhere, so that others may be opened."""
        return self.step >= OPEN


@dataclass(frozen=True, slots=True)
class YieldReply:
    """How far a node follows such a proposal.

    Attributes:
        to: uuid of the node that proposed it; empty as long as none has.
        attempt: Of its proposal.
        number: Rises with every proposal that this node begins to follow: its lanes commit it.
        asked: The step that its workers are at; `ABORT` or `RUN`: its sources go on.
        done: The last step that all its lanes have committed, or `ABORT` for none.
        is_idle: Nothing had arrived between the probes `done - 1` and `done`.
    """

    to: str = ""
    attempt: int = 0
    number: int = 0
    asked: int = ABORT
    done: int = ABORT
    is_idle: bool = False

    @property
    def is_holding(self) -> bool:
        """Whether the node takes nothing from its clients."""
        return HOLD <= self.asked <= JOIN

    @property
    def is_following(self) -> bool:
        """Whether the node replies."""
        return ASK <= self.asked <= JOIN


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLinks:
    """Every link of one node, reported by itself and passed on unchanged by others.

    Attributes:
        node: Its name, which another node may also have.
        uuid: Its identity.
        cluster_id: Of its own Kafka cluster, as brokers report it.
        digest: Of all links of the topology that it works by.
        former: Digests of those that its mesh worked by before, as far as they came into force
            by changes of a running mesh; a node that still works by one is about to follow.
        number: Rises whenever `cluster_id`, `digest` or `links` change: version of these facts.
        sequence: Rises with every record: of two, the later one counts.
        seen: Digest of the facts of all nodes by which its gates are set in every lane; empty
            while all nodes work by one topology.
        gate_number: Rises whenever `gates` change.
        links: As it holds them, sorted by neighbour.
        gates: What it lets through, of each neighbour that it has heard of.
        proposal: Its proposal to all nodes for an open link to give way, the present or last one.
        reply: How far it follows such a proposal.
    """

    node: str
    uuid: str
    cluster_id: str
    digest: str
    number: int = 0
    sequence: int = 0
    seen: str = ""
    gate_number: int = 0
    links: Sequence[HeldLink] = field(default=())
    gates: Sequence[GateStatus] = field(default=())
    former: Sequence[str] = field(default=())
    proposal: YieldProposal | None = None
    reply: YieldReply = YieldReply()

    @property
    def facts(self) -> tuple[object, ...]:
        """What `number` is the version of."""
        return self.cluster_id, self.digest, tuple(self.links)

    @property
    def is_giving_way(self) -> bool:
        """Whether the node proposes that an open link gives way, or follows such a proposal."""
        return self.reply.is_following or bool(self.proposal and self.proposal.is_active)

    def link_to(self, neighbour: str) -> HeldLink | None:
        """Return the link to a neighbour, by its name here."""
        return next((link for link in self.links if link.neighbour == neighbour), None)

    def gate_to(self, neighbour: str) -> Gate | None:
        """Return whether data go to a neighbour, or None if nothing was heard of it."""
        return next((gate.state for gate in self.gates if gate.neighbour == neighbour), None)
