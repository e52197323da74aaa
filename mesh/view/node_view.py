"""One node of a mesh, as its control topic shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mesh.model.control import (
    Acknowledgement,
    EndpointStatus,
    Heartbeat,
    Identity,
    Interest,
    LinkState,
    LinkStatus,
    Mark,
    Scope,
    Stop,
    Subscription,
    TreeStatus,
)
from mesh.model.words import LinkWord
from mesh.transport.port import TopicPartition
from mesh.wire.operator_records import RecordsOfOperators


@dataclass(slots=True)
class NodeView(RecordsOfOperators):
    """One node by its own records, and what operators want of it.

    Attributes:
        identity: Who it is, or None if it never ran.
        heartbeat: Its newest one.
        heard_ms: When this view first saw that heartbeat.
        beat_ms: When it was appended, by the clock of the node's Kafka cluster.
        marks: Newest mark per scope.
        offers: Entries offered per scope.
        subscribed: How far its own subscriptions are known everywhere.
        acks: What it acknowledges, per (neighbour, scope of the neighbour).
        link_states: What it says it has read of each neighbour.
        offered_ms: Since when it offers an entry, by the clock of its Kafka cluster.
        subscriptions: Its clients' interests, per (endpoint, filter).
        subscribed_ms: Since when they hold, by the same clock.
        clients_offset: Offset of the newest record on `clients`, or -1.
        stops: Sources that it reads no further until somebody accepts the loss.
    """

    identity: Identity | None = None
    heartbeat: Heartbeat | None = None
    heard_ms: int = -1
    beat_ms: int = -1
    marks: dict[Scope, Mark] = field(default_factory=dict)
    offers: dict[Scope, dict[str, Interest]] = field(default_factory=dict)
    offered_ms: dict[tuple[Scope, str], int] = field(default_factory=dict)
    subscribed: Acknowledgement | None = None
    acks: dict[tuple[str, Scope], Acknowledgement] = field(default_factory=dict)
    link_states: dict[str, LinkState] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], Subscription] = field(default_factory=dict)
    subscribed_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    clients_offset: int = -1
    stops: dict[TopicPartition, Stop] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """Its present incarnation; 0 before the first."""
        return self.identity.epoch if self.identity is not None else 0

    @property
    def uuid(self) -> str:
        """Its intrinsic identity; "" if it never ran."""
        return self.identity.uuid if self.identity is not None else ""

    @property
    def links(self) -> Sequence[LinkStatus]:
        """Its links, as its last heartbeat described them."""
        return self.heartbeat.links if self.heartbeat is not None else ()

    @property
    def endpoints(self) -> Sequence[EndpointStatus]:
        """Its endpoints about which its last heartbeat had something to report."""
        return self.heartbeat.endpoints if self.heartbeat is not None else ()

    @property
    def trees(self) -> TreeStatus | None:
        """Its tree layer, as its last heartbeat described it; None without one."""
        return self.heartbeat.trees if self.heartbeat is not None else None

    @property
    def is_ready(self) -> bool:
        """Whether its last heartbeat said that it serves."""
        beat = self.heartbeat
        return beat is not None and beat.ready and beat.epoch == self.epoch

    def says_disabled(self, neighbour: str) -> bool:
        """Return whether the node itself says that a link is disabled; it may be full too.

        Until it says so its workers may still read, and once it says otherwise some may not read
        yet.
        """
        return any(
            link.neighbour == neighbour
            and LinkWord.DISABLED in (link.state, *link.reason.split("; "))
            for link in self.links
        )
