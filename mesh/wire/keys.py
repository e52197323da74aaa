"""Record keys as bytes and back: what compaction keeps apart. Spec: kafka.md 1, K12, K13.

Words are separated by one space. Names of nodes, zones, topics and endpoints have none; a filter
may, so it comes last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar, get_args

from mesh.errors import DecodeError, LocalProtocolError
from mesh.model.control import Scope
from mesh.model.facts import FactKey
from mesh.model.frames import MessageClass


@dataclass(frozen=True, slots=True)
class IdentityKey:
    """The writer of this control topic."""


@dataclass(frozen=True, slots=True)
class HeartbeatKey:
    """The node beats."""


@dataclass(frozen=True, slots=True)
class SubscribedKey:
    """How far the node's own subscriptions are known everywhere."""


@dataclass(frozen=True, slots=True)
class AdvertKey:
    """One entry of a scope's interest."""

    scope: Scope
    filter: str


@dataclass(frozen=True, slots=True)
class MarkKey:
    """The proof of a scope."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class AckKey:
    """How far the neighbour's scope is applied."""

    scope: Scope


@dataclass(frozen=True, slots=True)
class LinkKey:
    """What has been read of the neighbour."""


@dataclass(frozen=True, slots=True)
class RepairKey:
    """A gap: the sender's source, and the outbox partition and class where it shows."""

    topic_id: bytes
    partition: int
    outbox_partition: int
    message_class: MessageClass


@dataclass(frozen=True, slots=True)
class LearnedKey:
    """Last proven interest of a neighbour's scope, or one part of it."""

    neighbour: str
    scope: Scope
    part: int = 0


@dataclass(frozen=True, slots=True)
class StopKey:
    """A source that is read no further."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class AcceptKey:
    """An operator's consent, on `mesh.config`, to a loss at a node."""

    node: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class PauseKey:
    """An operator's record on `mesh.config`: a node reads nothing of a neighbour's messages.

    Attributes:
        node, neighbour: The reader, and the owner of the outbox.
        partition: Of the outbox; None for all.
    """

    node: str
    neighbour: str
    partition: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class DisableKey:
    """An operator's record on `mesh.config`: a link is disabled; the part of one of its ends.

    Attributes:
        node, neighbour: The end that the record is for, and the other one.
    """

    node: str
    neighbour: str


@dataclass(frozen=True, slots=True, order=True)
class SubjectPauseKey:
    """An operator's record on `mesh.config`: a node takes nothing published under a filter.

    Attributes:
        node: Where it is published.
        filter: Which subjects.
    """

    node: str
    filter: str


@dataclass(frozen=True, slots=True)
class ChangeKey:
    """A change of the topology, on `mesh.config`."""


@dataclass(frozen=True, slots=True)
class LinksKey:
    """Every link of the node with this uuid."""

    uuid: str


@dataclass(frozen=True, slots=True)
class StandbyKey:
    """A worker without lanes reports what it has heard, on `learned`."""

    worker: str


NodeKey = IdentityKey | LinksKey | HeartbeatKey | SubscribedKey | AdvertKey | MarkKey | StopKey
"""Every key of `.control`."""

NODE_KEYS: tuple[type[NodeKey], ...] = get_args(NodeKey)

NeighbourKey = AckKey | LinkKey | RepairKey
"""Every key of `.to.<neighbour>.c`."""

NEIGHBOUR_KEYS: tuple[type[NeighbourKey], ...] = get_args(NeighbourKey)

LearnedTopicKey = LearnedKey | StandbyKey
"""Every key of `.learned`."""

LEARNED_KEYS: tuple[type[LearnedTopicKey], ...] = get_args(LearnedTopicKey)

OperatorKey = AcceptKey | PauseKey | DisableKey | SubjectPauseKey | ChangeKey
"""Every key of `config` but that of the topology in force."""

OPERATOR_KEYS: tuple[type[OperatorKey], ...] = get_args(OperatorKey)

ControlKey = NodeKey | NeighbourKey | LearnedTopicKey | OperatorKey
"""Every key of a control topic."""

K = TypeVar("K", bound=ControlKey)


def identity_key() -> bytes:
    """Return the key of the identity record."""
    return b"identity"


def heartbeat_key() -> bytes:
    """Return the key of the heartbeat."""
    return b"heartbeat"


def subscribed_key() -> bytes:
    """Return the key on `.control` of the acknowledgement of the own subscriptions. Spec: K24."""
    return b"subscribed"


def advert_key(scope: Scope, filter_: str) -> bytes:
    """Return the key of one advert entry."""
    return f"advert {scope} {filter_}".encode()


def mark_key(scope: Scope) -> bytes:
    """Return the key of a scope's mark."""
    return f"mark {scope}".encode()


def ack_key(scope: Scope) -> bytes:
    """Return the key of the acknowledgement of a neighbour's scope."""
    return f"ack {scope}".encode()


def link_key() -> bytes:
    """Return the key of the link state on `.to.<neighbour>.c`."""
    return b"link"


def repair_key(
    topic_id: bytes, partition: int, outbox_partition: int, message_class: MessageClass
) -> bytes:
    """Return the key of a repair request.

    Args:
        topic_id: 16 bytes: the topic of the sender's source.
        partition: Partition of that source.
        outbox_partition: Partition of the outbox that is read.
        message_class: Class of the outbox.

    Spec: K11.
    """
    words = (topic_id.hex(), str(partition), str(outbox_partition), message_class.value)
    return f"repair {' '.join(words)}".encode()


def learned_key(neighbour: str, scope: Scope, part: int = 0) -> bytes:
    """Return the key on `.learned`: a scope that a neighbour offers, in parts if large. K21."""
    text = f"learned {neighbour} {scope}"
    return f"{text} {part}".encode() if part else text.encode()


def stop_key(topic: str, partition: int) -> bytes:
    """Return the key on `.control` of a source that is read no further. Spec: R6."""
    return f"stop {topic} {partition}".encode()


def accept_key(node: str, topic: str, partition: int) -> bytes:
    """Return the key on `mesh.config` of an operator's consent to a loss at a node. Spec: R6."""
    return f"accept {node} {topic} {partition}".encode()


def pause_key(key: PauseKey) -> bytes:
    """Return the key on `mesh.config` of a link, or a partition of it, that is not to be read."""
    partition = "*" if key.partition is None else key.partition
    return f"pause {key.node} {key.neighbour} {partition}".encode()


def disable_key(key: DisableKey) -> bytes:
    """Return the key on `mesh.config` by which one end of a disabled link learns of it."""
    return f"disable {key.node} {key.neighbour}".encode()


def subject_pause_key(key: SubjectPauseKey) -> bytes:
    """Return the key on `mesh.config` of subjects that are not to be taken at a node."""
    return f"pause-subject {key.node} {key.filter}".encode()


def links_key(uuid: str) -> bytes:
    """Return the key on `.control` of a node's record of its links. Spec: K27."""
    return f"links {uuid}".encode()


def config_key() -> bytes:
    """Return the key on `mesh.config` of the topology in force."""
    return b"topology"


def change_key() -> bytes:
    """Return the key on `mesh.config` of the change under way. Spec: K28."""
    return b"change"


def standby_key(worker: str) -> bytes:
    """Return the key on `learned` of what a worker without lanes has heard. Spec: K21."""
    return f"standby {worker}".encode()


def parse_key(key: bytes, kinds: tuple[type[K], ...]) -> K:
    """Parse a key of one kind of control topic.

    Args:
        key: The key in the topic.
        kinds: What is allowed there: `NODE_KEYS`, `NEIGHBOUR_KEYS`, `LEARNED_KEYS`,
            `OPERATOR_KEYS`.

    Raises:
        DecodeError: It does not belong there.
    """
    if isinstance(parsed := parse_control_key(key), kinds):
        return parsed
    raise _stray(key)


def parse_control_key(key: bytes) -> ControlKey:
    """Parse a key of any control topic.

    Raises:
        DecodeError: It is not a known key.
    """
    try:
        kind, *rest = key.decode().split(" ", 1)
        return _parse(kind, *rest)
    except ValueError as error:
        raise _stray(key) from error


def _stray(key: bytes) -> DecodeError:
    return DecodeError(f"not a control key: {key[:300]!r}")


def _parse(kind: str, rest: str | None = None) -> ControlKey:
    match kind, rest:
        case "identity", None:
            return IdentityKey()
        case "heartbeat", None:
            return HeartbeatKey()
        case "subscribed", None:
            return SubscribedKey()
        case "link", None:
            return LinkKey()
        case "change", None:
            return ChangeKey()
        case "advert", str():
            scope, space, filter_ = rest.partition(" ")
            if not (space and filter_):
                raise ValueError(rest)
            return AdvertKey(_scope(scope), filter_)
        case "mark", str():
            return MarkKey(_scope(rest))
        case "ack", str():
            return AckKey(_scope(rest))
        case "links", str() if rest and " " not in rest:
            return LinksKey(rest)
        case "standby", str() if rest and " " not in rest:
            return StandbyKey(rest)
        case "learned", str():
            neighbour, scope, *part = rest.split(" ")
            if not neighbour or len(part) > 1:
                raise ValueError(rest)
            parsed = LearnedKey(neighbour, _scope(scope), *map(_number, part))
            if part and not parsed.part:
                raise ValueError(rest)  # the first part is written without its number
            return parsed
        case "repair", str():
            return _repair(rest)
        case "stop", str():
            topic, partition = rest.split(" ")
            return StopKey(topic, _number(partition))
        case "accept", str():
            node, topic, partition = rest.split(" ")
            return AcceptKey(node, topic, _number(partition))
        case "pause", str():
            node, neighbour, partition = rest.split(" ")
            return PauseKey(node, neighbour, None if partition == "*" else _number(partition))
        case "disable", str():
            node, neighbour = rest.split(" ")
            return DisableKey(node, neighbour)
        case "pause-subject", str():
            node, space, filter_ = rest.partition(" ")
            if not (node and filter_):
                raise ValueError(rest)
            return SubjectPauseKey(node, filter_)
        case _:
            raise ValueError(kind)


@lru_cache(maxsize=4_096)
def _scope(text: str) -> Scope:
    """Return a scope; hundreds of thousands of entries share the same few."""
    scope = Scope.parse(text)
    # A scope that would be written back differently would give one thing two keys.
    if str(scope) != text or " " in text:
        raise ValueError(text)
    return scope


def _repair(rest: str) -> RepairKey:
    topic, partition, outbox_partition, message_class = rest.split(" ")
    topic_id = bytes.fromhex(topic)
    if len(topic_id) != 16 or topic_id.hex() != topic:
        raise ValueError(rest)
    numbers = _number(partition), _number(outbox_partition)
    return RepairKey(topic_id, *numbers, MessageClass(message_class))


def _number(text: str) -> int:
    """Return a number of a key; `00`, or a 0 with a tab, would be a second key for 0.

    Raises:
        ValueError: It is none, is negative, or would be written back differently.
    """
    if not text.isdecimal() or str(number := int(text)) != text:
        raise ValueError(text)
    return number


def subscription_key(endpoint: str, filter_: str) -> bytes:
    """Return the key of a subscription on `clients`.

    Raises:
        LocalProtocolError: The endpoint is empty or contains a space, or the filter is empty.

    Spec: K13.
    """
    if not endpoint or " " in endpoint or not filter_:
        raise LocalProtocolError(f"no subscription key: endpoint {endpoint!r}, filter {filter_!r}")
    return f"{endpoint} {filter_}".encode()


def parse_subscription_key(key: bytes) -> tuple[str, str]:
    """Return endpoint and filter of a key on `clients`; the filter follows the first space.

    Raises:
        DecodeError: Not UTF-8, or one of the two is missing.

    Spec: K13.
    """
    try:
        endpoint, _, filter_ = key.decode().partition(" ")
    except UnicodeDecodeError as error:
        raise DecodeError(f"a subscription's key is not UTF-8: {key[:300]!r}") from error
    if not (endpoint and filter_):
        raise DecodeError(f"a subscription's key is `<endpoint> <filter>`, not {key[:300]!r}")
    return endpoint, filter_


def fact_key(key: FactKey) -> bytes:
    """Return the bytes of the key under which a lane records a fact. Spec: K12."""
    if len(key) != 5:  # a source is named by its topic id, and only there
        return " ".join(map(str, key)).encode()
    word, topic, partition, topic_id, source_partition = key
    return f"{word} {topic} {partition} {topic_id.hex()} {source_partition}".encode()
