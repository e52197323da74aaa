"""What a node says of the links that it holds: how nodes that are configured apart see a loop.

Spec: K26, K27, EMS-13, EMS-15, EMS-16.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from mesh.model.joins import Join


class Gate(StrEnum):
    """Whether data go over a link, as one of its ends sees it. Spec: K27.

    `open`: they do. `probing`: not yet, control only. `refused`: not as long as the cause lasts.
    """

    OPEN = "open"
    PROBING = "probing"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class HeldLink:
    """A link as one of its ends holds it: the link record of K27.

    Attributes:
        neighbour: Name of the other end.
        zone, kind: Where the link is, and what that zone's links do.
        version: Number of the topology that created it here; 0 for one of a file.
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
        """What both ends must agree on, their names apart."""
        return self.zone, self.kind, self.joins


@dataclass(frozen=True, slots=True)
class GateStatus:
    """What one end of a link lets through.

    Attributes:
        neighbour: Name of the other end.
        state: A `Gate`.
        reason: Why it is not open, in words: of a loop both walks.
        drains: It was open before: what the other end wrote until then is still read.
    """

    neighbour: str
    state: Gate
    reason: str = ""
    drains: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLinks:
    """Every link of one node, told by itself and handed on by others as it is.

    Attributes:
        node: Its name, which another node may have as well.
        uuid: Its identity.
        cluster_id: Of its own Kafka cluster, as brokers report it.
        digest: Of all links of the topology that it works by.
        former: Digests of those that its mesh worked by before, as far as they came into force
            by changes of a living mesh; who still works by one is about to follow.
        number: Rises whenever `cluster_id`, `digest` or `links` change: version of these facts.
        sequence: Rises with every record: of two, the later one is good.
        seen: Digest of the facts of all nodes by which its gates are set in every lane; empty
            as long as all nodes work by one topology.
        gate_number: Rises whenever `gates` change.
        links: As it holds them, sorted by neighbour.
        gates: What it lets through, of each neighbour that it has heard of.
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

    @property
    def facts(self) -> tuple[object, ...]:
        """What `number` is the version of."""
        return self.cluster_id, self.digest, tuple(self.links)

    def link_to(self, neighbour: str) -> HeldLink | None:
        """Return the link to a neighbour, by its name here."""
        return next((link for link in self.links if link.neighbour == neighbour), None)
