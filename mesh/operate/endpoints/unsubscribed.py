"""Endpoints that nobody subscribes to any more: their topics stay until an operator deletes them.

What is in such a topic may still be read, so nothing deletes it automatically, and nothing is
deleted on a guess: without the right to see every consumer group it is refused. Spec: K5,
DESIGN 4.4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mesh.errors import Problem, TransportError
from mesh.model.counted import counted
from mesh.model.names import fold, name_fault
from mesh.operate.endpoints.waiting import Waiting, waiting_behind
from mesh.operate.interest.propagation import is_subscribed
from mesh.transport.port import Admin, KafkaCluster, TopicPartition
from mesh.view.mesh_view import MeshView, RunningMesh

SUBSCRIBED = "SUBSCRIBED"
NO_TOPIC = "NO_TOPIC"
NOT_KNOWN = "NOT_KNOWN"
IN_USE = "IN_USE"
UNREAD = "UNREAD"
"""Codes of the reasons why the topics of an endpoint are not deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsubscribed:
    """A left over endpoint.

    Attributes:
        node, endpoint: Its node, and its name.
        topics: Its own, and the one of its consumers' dead letters, if they exist.
        unread: What its slowest group has not read, or without a group everything in it; None if
            that cannot be known.
        doubt: Why it cannot be known; else empty.
        readers: Groups that have a position there.
        present: Those of them that have members now.
    """

    node: str
    endpoint: str
    topics: Sequence[str]
    unread: Waiting | None = None
    doubt: str = ""
    readers: Sequence[str] = ()
    present: Sequence[str] = ()


def unsubscribed_of(
    mesh: RunningMesh, node: str, only: str | None = None
) -> Sequence[Unsubscribed]:
    """Return the endpoints of a node that have a topic and no subscription, by name.

    Args:
        mesh: The mesh.
        node: Whose.
        only: The one endpoint in question; None for all.

    Raises:
        TransportError: Its Kafka cluster does not answer.
    """
    home, names = mesh.home_of(node), mesh.topology.names
    wanted = {fold(endpoint) for endpoint, _ in mesh.view.nodes[node].subscriptions}
    found: dict[str, list[str]] = {}
    for topic in sorted(home.admin().named(names.endpoint(node, ""))):
        name = names.endpoint_of(node, topic) or names.queue_of_letters(node, topic)
        if name_fault(name) is None and fold(name) not in wanted:
            found.setdefault(name, []).append(topic)
    left = [
        Unsubscribed(node=node, endpoint=name, topics=tuple(topics))
        for name, topics in found.items()
        if only is None or name == only
    ]
    if not left:
        return ()
    try:
        return list(_looked_at(home, left))
    except TransportError as error:
        return [replace(one, doubt=str(error)) for one in left]


def refusals(
    mesh: RunningMesh, node: str, endpoint: str, *, allow_unread: bool
) -> tuple[Unsubscribed | None, Sequence[Problem]]:
    """Return what would be deleted of an endpoint, and why it must not be.

    Raises:
        TransportError: Its Kafka cluster does not answer.
    """
    where = f"{node} {endpoint}"
    wanted = mesh.view.nodes[node].subscriptions
    if names := [name for name, _ in wanted if fold(name) == fold(endpoint)]:
        text = f"{names[0]} is subscribed: end that first by `mesh unsubscribe`"
        return None, [Problem(code=SUBSCRIBED, message=text, where=where)]
    one = next(iter(unsubscribed_of(mesh, node, endpoint)), None)
    if one is None:
        text = "has no topic; `mesh endpoint list` shows which endpoints do"
        return None, [Problem(code=NO_TOPIC, message=text, where=where)]
    found = list(_against(one, mesh.view, allow_unread=allow_unread))
    return one, [Problem(code=code, message=text, where=where) for code, text in found]


def _against(one: Unsubscribed, view: MeshView, *, allow_unread: bool) -> Iterator[tuple[str, str]]:
    if not is_subscribed(view, one.node):
        text = f"{one.node} has not taken in yet what its clients asked for last; wait until it has"
        yield NOT_KNOWN, text
    if one.doubt:
        yield NOT_KNOWN, f"who still reads it is not known: {one.doubt}"
    if one.present:
        yield IN_USE, f"consumers of group {', '.join(one.present)} read it now: end them first"
    if one.unread is not None and one.unread.count and not allow_unread:
        whose = f"for group {', '.join(one.readers)}" if one.readers else "and no group reads them"
        what = counted(one.unread.count, "record" if one.unread.is_counted else "offset")
        wait = "waits" if one.unread.count == 1 else "wait"
        yield UNREAD, f"{what} {wait} there, {whose}: read them, or delete them too by --unread"


def _looked_at(home: KafkaCluster, left: Sequence[Unsubscribed]) -> Iterator[Unsubscribed]:
    """Yield endpoints with their readers; groups are queried once for all of them.

    Raises:
        TransportError: Not all groups are visible, or brokers did not answer.
    """
    admin = home.admin()
    groups = admin.readers([topic for one in left for topic in one.topics])
    present = {group: None for group in sorted(groups) if admin.has_members(group)}
    for one in left:
        reading = {
            group: read
            for group, read in groups.items()
            if any(at.topic in one.topics for at in read)
        }
        yield replace(
            one,
            unread=_unread(home, admin, reading, one.topics),
            readers=sorted(reading),
            present=[group for group in present if group in reading],
        )


def _unread(
    home: KafkaCluster,
    admin: Admin,
    groups: Mapping[str, Mapping[TopicPartition, int]],
    topics: Sequence[str],
) -> Waiting:
    """Return what the slowest reader of each topic has not read."""
    parts: list[Waiting] = []
    for topic, info in admin.describe(topics).items():
        places = TopicPartition.all_of(topic, info.partitions)
        readers = [read for read in groups.values() if any(at in read for at in places)]
        passed = {at: min(read.get(at, 0) for read in readers) for at in places if readers}
        parts.append(waiting_behind(home, passed, places))
    return Waiting(sum(one.count for one in parts), all(one.is_counted for one in parts))
