"""Queues as values: their policies, what a topology declares of them, their addresses.

A copy for one member of a queue travels under that member's address. Its frame may name the
client's subject and several addresses at once, so that it crosses each link once, no matter which
recipients are behind it. Spec: DESIGN 6, K13, K26.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from mesh.model.names import fold

QUEUE_PREFIX = "$queue/"

SUBJECT_EXT = "subject"
"""Key in a message's `ext`: the client's subject, where the frame's is an address."""

MOVED_EXT = "moved"
"""Key in a message's `ext`: how often it was moved to another member, big endian."""

MOVED_BYTES = 8
"""Size of that number. Movers write no longer ones: they mean 0."""

_BETWEEN = "\n"
"""Separates the addresses of one message; no subject has control characters."""


class QueuePolicy(StrEnum):
    """Which of a queue's messages cross links. Spec: DESIGN 6, DMR-9, EMS-12, UM-7.

    `every`: each queue of the name gets a copy. `local`: nothing, but what joins bring. `home`:
    one node has the queue, and its neighbours send there. `any`: one member gets the message, the
    nearest.
    """

    EVERY = "every"
    LOCAL = "local"
    HOME = "home"
    ANY = "any"

    @property
    def is_shared(self) -> bool:
        """Whether one member gets each message; otherwise each member has its own."""
        match self:
            case QueuePolicy.HOME | QueuePolicy.ANY:
                return True
            case QueuePolicy.EVERY | QueuePolicy.LOCAL:
                return False
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """What a topology declares of all queues of one name.

    Attributes:
        name: Name of the endpoints, in any case.
        policy: Policy of all of them.
        home: The node that has the queue, if the policy is `home`; None where it is subscribed.
        max_deliveries: How often a message may be delivered to consumers; None means no limit.
        max_age_s: How long a message may wait in it, in seconds; None means no limit.
    """

    name: str
    policy: QueuePolicy
    home: str | None = None
    max_deliveries: int | None = None
    max_age_s: float | None = None


def declared_queue(queues: Mapping[str, Queue], name: str) -> Queue | None:
    """Return the declaration of a queue, whatever the case of its name."""
    wanted = fold(name)
    return next((queue for key, queue in queues.items() if fold(key) == wanted), None)


def policy_in_force(
    queues: Mapping[str, Queue],
    name: str,
    said: str | None,
    unsaid: QueuePolicy = QueuePolicy.EVERY,
) -> QueuePolicy:
    """Return the policy of a queue at a node. Spec: K13.

    Args:
        queues: The declarations of queues.
        name: Name of the queue.
        said: The policy in its subscription, if any.
        unsaid: The policy if neither has one; see `Topology.unsaid_policy`.
    """
    queue = declared_queue(queues, name)
    return QueuePolicy(said or unsaid) if queue is None else queue.policy


def shared_by(
    queues: Mapping[str, Queue],
    name: str,
    said: str | None = None,
    unsaid: QueuePolicy = QueuePolicy.EVERY,
) -> tuple[QueuePolicy, str | None]:
    """Return what decides which members of a queue get a message: its policy and declared home."""
    queue = declared_queue(queues, name)
    return policy_in_force(queues, name, said, unsaid), None if queue is None else queue.home


class MemberKind(StrEnum):
    """A node's role for a queue of which not every member gets a copy.

    `proxy`: it has the queue, whose home is elsewhere; it attracts nothing.
    """

    LOCAL = "local"
    HOME = "home"
    PROXY = "proxy"
    ANY = "any"


def member_kind(policy: QueuePolicy) -> MemberKind | None:
    """Return a member's kind by the policy alone; None if every member gets a copy."""
    match policy:
        case QueuePolicy.EVERY:
            return None
        case QueuePolicy.LOCAL:
            return MemberKind.LOCAL
        case QueuePolicy.HOME:
            return MemberKind.HOME
        case QueuePolicy.ANY:
            return MemberKind.ANY


@dataclass(frozen=True, slots=True, order=True)
class Attraction:
    """An entry of interest: a node has a queue, for certain subjects.

    Attributes:
        queue: Name of the queue.
        node: The member.
        kind: The member's kind.
        filter: The subjects.
    """

    queue: str
    node: str
    kind: MemberKind
    filter: str

    def __str__(self) -> str:
        """Return `$queue/orders/ny1/any/acme/>`: the entry."""
        return f"{QUEUE_PREFIX}{self.queue}/{self.node}/{self.kind}/{self.filter}"

    @property
    def name(self) -> str:
        """The name that all members of the queue share, whatever its case."""
        return fold(self.queue)

    @property
    def address(self) -> str:
        """The subject under which copies for this member travel."""
        return queue_address(self.queue, self.node)

    @classmethod
    def parse(cls, entry: str) -> Attraction | None:
        """Parse an entry of interest; return None if it does not attract to a queue."""
        if not entry.startswith(QUEUE_PREFIX):
            return None
        parts = entry.split("/", 4)
        if len(parts) < 5 or parts[3] not in set(MemberKind):
            return None
        return cls(parts[1], parts[2], MemberKind(parts[3]), parts[4])


def queue_subject(queue: str) -> str:
    """Return the subject to publish to when a queue is meant by its name. Spec: DMR-9.

    It is a subject like any other: queues of that name that have subscribed to it get it, each by
    its policy. Case does not distinguish queues.
    """
    return f"queue/{fold(queue)}"


def queue_address(queue: str, node: str) -> str:
    """Return the subject that stands for one member of a queue.

    It contains the node's name: that is what paths contain, and copies that wait for a node are
    still its own when it starts over. Spec: DESIGN 6, K26.
    """
    return f"{QUEUE_PREFIX}{queue}/{node}"


def member_of(address: str) -> tuple[str, str]:
    """Return the queue and the node that an address stands for."""
    queue, _, node = address.removeprefix(QUEUE_PREFIX).partition("/")
    return queue, node


def is_of_queue(text: str) -> bool:
    """Return whether a subject is a member's address, or an entry attracts to a queue."""
    return text.startswith(QUEUE_PREFIX)


def addressed(subjects: Sequence[str]) -> str:
    """Return the subject of a frame's message for several: a client's subject, and addresses."""
    return _BETWEEN.join(subjects)


def addresses_of(subject: str) -> Sequence[str]:
    """Return what the subject of a frame's message names; usually that is the subject itself."""
    return subject.split(_BETWEEN)


def names_a_queue(subject: str) -> bool:
    """Return whether the subject of a frame's message names a member of a queue."""
    return is_of_queue(subject) or _BETWEEN in subject


def moves_of(ext: Mapping[str, bytes]) -> int:
    """Return how often a message was moved, by its `ext`, which anybody may have written."""
    written = ext.get(MOVED_EXT, b"")
    return int.from_bytes(written) if len(written) <= MOVED_BYTES else 0


def moved_once_more(ext: Mapping[str, bytes]) -> bytes:
    """Return the value of `MOVED_EXT` for a message that is moved again; it rises to its limit."""
    return min(moves_of(ext) + 1, (1 << 8 * MOVED_BYTES) - 1).to_bytes(MOVED_BYTES)
