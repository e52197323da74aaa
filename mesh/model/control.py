"""Values of the control plane, one per record on the wire. Bytes are made in `mesh.wire`.

Spec: K4, K12, K13, K21-K26, K32.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from mesh.model.demands import QueueDemand
from mesh.model.frames import NONE_OFFSET, MessageClass
from mesh.model.joins import NO_JOINS, JoinRow

NO_TOPIC = bytes(16)
"""Stands for the id of a topic that is not known."""

Version = tuple[int, int]
"""Epoch and number: order of the states of one writer."""

NEVER: Version = (-1, -1)
"""Older than every version."""


class Ownership(StrEnum):
    """Whether interest was learned without crossing an external link. Spec: K22."""

    OWN = "own"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True, order=True)
class Scope:
    """What a set of adverts and its marks belong to.

    Attributes:
        zone: Zone on which the interest is offered.
        neighbour: The one reader in a multi-hop zone or a join; empty in the other kinds.
        ownership: `own` or `foreign`, each with its own versions.
        row: Over joins: what has come by that many in a row, this one included. Each row has its
            own versions too: in one, a ring of joins that a hop limit opens never completes.

    Spec: K22.
    """

    zone: str
    neighbour: str
    ownership: Ownership
    row: JoinRow = NO_JOINS

    def __str__(self) -> str:
        """Return `zone:neighbour/own`, over joins `zone:neighbour/own/1.10`: as in record keys."""
        text = f"{self.zone}:{self.neighbour}/{self.ownership}"
        return f"{text}/{self.row}" if self.row.joins else text

    @classmethod
    def parse(cls, text: str) -> Scope:
        """Return the scope that ``str`` wrote.

        Raises:
            ValueError: The text is not a scope.
        """
        left, slash, right = text.partition("/")
        zone, colon, neighbour = left.partition(":")
        ownership, joined, row = right.partition("/")
        if not (slash and colon and zone):
            raise ValueError(f"not a scope: {text!r}")
        return cls(
            zone, neighbour, Ownership(ownership), JoinRow.parse(row) if joined else NO_JOINS
        )


@dataclass(frozen=True, slots=True)
class Interest:
    """What an advert entry requests; also what its hash covers.

    Attributes:
        durable: An endpoint behind it is guaranteed: guaranteed messages wait for it.
        live: An endpoint behind it is reachable: both classes are wanted now.
        static: Always forward.
        clients_offset: For a node's own address: the `clients` offset in force there.

    Spec: K22, K25, DESIGN 6.
    """

    durable: bool = True
    live: bool = True
    static: bool = False
    clients_offset: int | None = None


UNREADABLE_INTEREST = Interest(durable=False, live=False)
"""Stands for an unreadable value: interest in nothing, which is never offered."""


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Proof of a scope: what a reader must hold. Spec: K23.

    Attributes:
        epoch: Incarnation of the writer.
        number: Version of the scope within the epoch.
        count: Entries in force.
        digest: Sum of their hashes modulo 2^64.
        topic_id: Of the control topic that holds it, as its writer knows it.
    """

    epoch: int
    number: int
    count: int
    digest: int
    topic_id: bytes = field(default=NO_TOPIC, compare=False)


@dataclass(frozen=True, slots=True)
class TopicIdentity:
    """A data topic of a node: name, the broker's 16-byte id, partitions."""

    name: str
    topic_id: bytes
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The writer of a control topic. Spec: K4."""

    node: str
    uuid: str
    epoch: int
    cluster_id: str
    lanes: int
    topics: Sequence[TopicIdentity] = ()


@dataclass(frozen=True, slots=True)
class LinkStatus:
    """How a node sees a link.

    `state` is a `LinkWord`, or what a node of a later release says.
    """

    neighbour: str
    zone: str
    state: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class EndpointStatus:
    """An endpoint of a node that has something to report.

    Attributes:
        endpoint: Its name.
        state: An `EndpointWord`, or what a node of a later release says.
        reason: Why, for people.
    """

    endpoint: str
    state: str
    reason: str


class Stage(StrEnum):
    """How far a change of the topology is; each stage is newer than those before it. Spec: K28.

    `hold`: the nodes that hold take nothing more from their clients. `switch`: every node works by
    the target. `run`: the target is in force, and all take again. `abort`, only before `switch`:
    nothing changes, and all take again. A change that somebody may have switched to is not
    aborted: an `abort` written all the same is older than the `switch` before it.
    """

    HOLD = "hold"
    ABORT = "abort"
    SWITCH = "switch"
    RUN = "run"

    @property
    def holds_sources(self) -> bool:
        """Whether the nodes that hold take nothing from their clients."""
        return self in (Stage.HOLD, Stage.SWITCH)

    @property
    def has_switched(self) -> bool:
        """Whether nodes work by the target."""
        return self in (Stage.SWITCH, Stage.RUN)

    @property
    def is_over(self) -> bool:
        """Whether the change has ended, one way or the other."""
        return self in (Stage.RUN, Stage.ABORT)


def change_version(number: int, stage: Stage) -> Version:
    """Return a version that is greater for the newer of two stages, of any changes."""
    return number, list(Stage).index(stage)


class LinkNumbers(NamedTuple):
    """A link that a change made. Spec: K10.

    Attributes:
        one, other: Its ends, sorted.
        number: Of the topology that made it.
        before: Of the topology in force until then: messages taken under an older one never cross
            the link.
    """

    one: str
    other: str
    number: int
    before: int


@dataclass(frozen=True, slots=True, order=True)
class Lineage:
    """What a topology keeps of its predecessors in a series of changes. Spec: K10.

    Attributes:
        domain: Digest of the first one, 8 bytes: nodes configured apart count separately.
        links: Each link that a change made, sorted; both numbers of the others are 0.
    """

    domain: bytes = bytes(8)
    links: Sequence[LinkNumbers] = ()

    def of(self, node: str, neighbour: str) -> LinkNumbers:
        """Return the numbers of a link."""
        one, other = sorted((node, neighbour))
        found = (link for link in self.links if (link.one, link.other) == (one, other))
        return next(found, LinkNumbers(one, other, 0, 0))


UNKNOWN_LINEAGE = Lineage()
"""The lineage of a topology about which nothing is recorded."""


@dataclass(frozen=True, slots=True)
class Change:
    """A topology is being put in force on a running mesh. Spec: K27, K28.

    Attributes:
        number: Of the target topology; higher than the one in force.
        stage: How far the change is.
        topology: The target as JSON text, as the record of the topology in force has it.
        holding: Nodes that take nothing from their own clients until `run` or `abort`.
        lineage: Of the target.
    """

    number: int
    stage: Stage
    topology: str
    holding: Sequence[str] = ()
    lineage: Lineage = UNKNOWN_LINEAGE

    @property
    def version(self) -> Version:
        """A value that is greater for the newer of two records."""
        return change_version(self.number, self.stage)

    @staticmethod
    def newest(changes: Iterable[Change | None]) -> Change | None:
        """Return the newest record; a writer that died leaves older ones in some Kafka clusters."""
        known = [one for one in changes if one is not None]
        return max(known, key=lambda one: one.version, default=None)


@dataclass(frozen=True, slots=True)
class ChangeStatus:
    """How far a node follows a change.

    Attributes:
        number, stage: The newest stage that it has read.
        is_done: Whether every lane of every worker has done what the stage requires.
        open_links: Links (from, to) that have not acknowledged what new links brought, if nothing
            else is waited for. Spec: K24.
    """

    number: int
    stage: Stage
    is_done: bool
    open_links: Sequence[tuple[str, str]] = ()

    @property
    def version(self) -> Version:
        """A value that is greater for the newer of two reports."""
        return change_version(self.number, self.stage)


@dataclass(frozen=True, slots=True)
class TreeStatus:
    """The state of a node's tree layer.

    Attributes:
        links: Neighbours with whom it exchanges frames.
        refused: Frames since the node's leader began that were unreadable, or that no neighbour
            of these links can have meant.
        realm_colour: Label of its part of its realm; "" without one.
    """

    links: Sequence[str]
    refused: int
    realm_colour: str = ""


BEAT_MS = 1_000
"""Time between heartbeats. Spec: K32."""

DOWN_AFTER_MS = 10 * BEAT_MS
"""A node is down after ten missed heartbeats. Spec: K32."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The node beats. Spec: K32.

    Attributes:
        epoch: Incarnation of the node.
        beat: Rises by one each second.
        ready: Whether it serves.
        links: As it sees them.
        endpoints: Those with something to report.
        change: How far it follows the newest change of the topology; None if it knows of none.
        queues: What is known of consumers of queues, of this node and others.
        colour: Label of its part of the mesh, as the tree layer has it; "" without one.
        trees: The state of its tree layer; None for a node without one.
        lost_topology: Number of the topology that its lanes have worked by and that `mesh.config`
            no longer holds: they read nothing. 0 for none.
    """

    epoch: int
    beat: int
    ready: bool
    links: Sequence[LinkStatus] = ()
    endpoints: Sequence[EndpointStatus] = ()
    change: ChangeStatus | None = None
    queues: Sequence[QueueDemand] = ()
    colour: str = ""
    trees: TreeStatus | None = None
    lost_topology: int = 0


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """How far a reader has applied a scope; of `clients`, `topic_id` is that topic's. K24."""

    epoch: int
    applied: int
    complete: int
    open_links: Sequence[tuple[str, str]] = ()
    topic_id: bytes | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class OutboxPosition:
    """How far a node has come in a partition of a neighbour's outbox. Spec: K5, K24.

    Attributes:
        topic, partition: The outbox.
        topic_id: Its id; about a recreated topic this says nothing.
        read: Next offset to be read.
        needed: Lowest offset that is still needed: what lies below may be deleted.
    """

    topic: str
    topic_id: bytes
    partition: int
    read: int
    needed: int


@dataclass(frozen=True, slots=True)
class LinkState:
    """What a node has read of a neighbour: its last heartbeat and its outboxes. Spec: K24.

    A leader that has just begun knows few partitions, or none. That says nothing about the
    others: the last report about them holds, see `after`.
    """

    epoch: int
    beat: int
    positions: Sequence[OutboxPosition] = ()

    def after(self, former: LinkState | None) -> LinkState:
        """Return this extended by the former report on partitions that it does not name.

        Args:
            former: What was known until now. What it says about a topic that now has another id
                is left out.
        """
        named = {(one.topic, one.partition) for one in self.positions}
        topic_ids = {one.topic: one.topic_id for one in self.positions}
        kept = [
            one
            for one in (former.positions if former is not None else ())
            if (one.topic, one.partition) not in named
            and topic_ids.get(one.topic, one.topic_id) == one.topic_id
        ]
        return replace(self, positions=(*self.positions, *kept)) if kept else self


@dataclass(frozen=True, slots=True)
class RepairRequest:
    """A gap was found: re-send everything of that source after ``last``. Spec: K11, K20.

    `attempt` says how often the same was requested before: repairs may be lost as well.
    """

    outbox: str
    outbox_partition: int
    topic_id: bytes
    partition: int
    last: int
    attempt: int = 0


class StopReason(StrEnum):
    """Why a guaranteed source is read no further. Spec: R6, K10."""

    RETENTION = "retention"
    TRUNCATED = "truncated"
    RECREATED = "recreated"
    VERSION = "version"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Stop:
    """A guaranteed source that is read no further until an operator accepts the loss.

    Or a whole lane: then it names the record of `progress` that hides the lane's position.

    Attributes:
        topic, partition: The ingress or outbox; a lane's progress.
        topic_id: Its id when it was last read.
        reason: A `StopReason`; `retention`: the range was deleted before it was read;
            `truncated`: the log ends at `first`, although it was read up to `next`; `recreated`:
            the topic is another one, and what the former one had from `first` on was not read;
            `version`: the record at `first` is of a version that this program cannot read;
            `unreadable`: nothing reads it, and it is where a lane kept its position.
        first: First offset of the range.
        next: First offset after it, or -1 if that cannot be known.
        generation: Of the offsets: the same ones may be lost again, which is another loss.

    Spec: R6, DESIGN 6.
    """

    topic: str
    partition: int
    topic_id: bytes
    reason: str
    first: int
    next: int = NONE_OFFSET
    generation: int = 0

    @property
    def range(self) -> str:
        """Return `topic[partition] 5 to 9`, as people see it."""
        end = "an unknown end" if self.next == NONE_OFFSET else str(self.next - 1)
        return f"{self.topic}[{self.partition}] {self.first} to {end}"

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{self.reason}: {self.range}"


@dataclass(frozen=True, slots=True)
class Pause:
    """Messages of a link, or of some subjects, are not read, because an operator wants that.

    They wait where they are. A disabled link has such a record at each of its ends.

    Attributes:
        why: What the operator said, for people; may be empty.
    """

    why: str = ""


class EndpointKind(StrEnum):
    """Channel: every subscriber's endpoint gets a copy; queue: see the policies of DESIGN 6."""

    CHANNEL = "channel"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One endpoint's interest, as a client wrote it on `clients`.

    Attributes:
        kind: Kind of the endpoint.
        message_class: Class of the endpoint.
        policy: Policy of a queue.
        lease_s: Seconds after which it ends unless it is renewed, or None.
        noexport: It attracts nothing from other nodes; what comes to this one is delivered.

    Spec: K13, DMR-12.
    """

    kind: EndpointKind = EndpointKind.CHANNEL
    message_class: MessageClass = MessageClass.GUARANTEED
    policy: str | None = None
    lease_s: int | None = None
    noexport: bool = False


def node_address(uuid: str) -> str:
    """Return the subject that stands for a node in the interest tables. Spec: K26."""
    return f"$node/{uuid}"


def is_address(filter_: str) -> bool:
    """Return whether an entry of interest is a node's address. Spec: K26."""
    return filter_.startswith("$node/")
