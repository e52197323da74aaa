"""Which member of a queue gets a message: decided at the publishing node, by what is in force.

It never depends on who is alive: what was sent to a member waits for it, so that two looks at one
message give the same answer. Spec: DESIGN 6, EMS-12, UM-7.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mesh.core.interest_controls import controls_barring
from mesh.core.matcher import Shape, ShapeIndex
from mesh.core.walks import Walk, walks_from
from mesh.model.frames import MessageClass
from mesh.model.queues import Attraction, MemberKind
from mesh.model.topology import Topology

QUEUE_SHAPES_MAX = 64
"""Maximum number of wildcard shapes of one node's queue filters; others attract nothing."""


def shapes_within(wanted: Mapping[str, Collection[Shape]], most: int) -> frozenset[Shape]:
    """Return the wildcard shapes that count if a node's queues have more than allowed.

    Only the set of subscriptions decides, never their order: workers of one node, and one that
    restarts, read `clients` compacted to different degrees. The queues take turns, so a queue with
    many shapes cannot crowd out another.

    Args:
        wanted: By queue, the shapes of all its filters.
        most: How many count.
    """
    turns = sorted(
        (turn, queue, shape)
        for queue, shapes in wanted.items()
        for turn, shape in enumerate(sorted(shapes))
    )
    return frozenset(list(dict.fromkeys(shape for _, _, shape in turns))[:most])


@dataclass(slots=True)
class Attractions:
    """What attracts to queues, as an index: none of it matches a subject by itself.

    The choice must not depend on which filter arrived first, so none is widened: every shape is
    looked up, and each node accepts few of them for its queues (`QUEUE_SHAPES_MAX`).
    """

    _by_filter: dict[str, dict[Attraction, None]] = field(default_factory=dict)
    _index: ShapeIndex = field(default_factory=lambda: ShapeIndex(most=1 << 62))

    def __bool__(self) -> bool:
        return bool(self._by_filter)

    def add(self, one: Attraction) -> None:
        """Add an entry that was not there before."""
        if one.filter not in self._by_filter:
            self._by_filter[one.filter] = {}
            self._index.add(one.filter)
        self._by_filter[one.filter][one] = None

    def remove(self, one: Attraction) -> None:
        """Forget an entry that was there."""
        left = self._by_filter[one.filter]
        del left[one]
        if not left:
            del self._by_filter[one.filter]
            self._index.remove(one.filter)

    def matching(self, subject: str) -> Sequence[Attraction]:
        """Return what attracts a subject, sorted."""
        found, _ = self._index.match(subject, self._by_filter)
        return sorted(one for filter_ in found for one in self._by_filter[filter_])

    def all(self) -> Sequence[Attraction]:
        """Return every entry, sorted."""
        return sorted(one for several in self._by_filter.values() for one in several)


@dataclass(slots=True)
class Nearness:
    """Distances to other nodes: links of the one walk from a node, looked up once.

    Attributes:
        topology: The mesh; another one has another nearness.
        node: The node from which to measure.
    """

    topology: Topology
    node: str
    _walks: Mapping[str, Walk] | None = None

    def links_to(self, node: str) -> int:
        """Return how many links are between; 0 for the node itself, more than all if unreached."""
        walk = self._walk_to(node)
        if walk is None:
            return 0 if node == self.node else len(self.topology.nodes)
        return len(walk.links)

    def carries(self, node: str, message_class: MessageClass) -> bool:
        """Return whether messages of a class cross every link on the walk. Spec: DMR-11."""
        walk = self._walk_to(node)
        if walk is None or message_class is MessageClass.DIRECT:
            return True
        return not any(self.topology.zones[link.zone].direct_only for link in walk.links)

    def is_open(self, node: str, subject: str, message_class: MessageClass) -> bool:
        """Return whether nothing on the walk bars a subject or a class. Spec: EMS-11, DMR-11."""
        if not self.carries(node, message_class):
            return False
        walk = self._walk_to(node)
        steps = () if walk is None else pairwise(walk.nodes)
        return not any(any(controls_barring(self.topology, step, subject)) for step in steps)

    def _walk_to(self, node: str) -> Walk | None:
        if self._walks is None:
            found = walks_from(self.topology, self.node)
            self._walks = {other: walks[0] for other, walks in found.items()}
        return None if node == self.node else self._walks.get(node)


@dataclass(frozen=True, slots=True)
class Chosen:
    """The recipients of a message, among the queues that want it.

    Attributes:
        here: Queues of this node.
        members: Members elsewhere, one per queue.
        homeless: Queues of this node whose home cannot be reached from here.
    """

    here: tuple[str, ...] = ()
    members: tuple[Attraction, ...] = ()
    homeless: tuple[str, ...] = ()


def chosen_locally(found: Sequence[Attraction], node: str) -> tuple[str, ...]:
    """Return the `local` queues of a node among those that attract a message. Spec: UM-7."""
    return tuple(
        dict.fromkeys(
            one.queue for one in found if one.kind is MemberKind.LOCAL and one.node == node
        )
    )


def choose(
    found: Sequence[Attraction], near: Nearness, subject: str, message_class: MessageClass
) -> Chosen:
    """Return the recipients of a message that is published at a node.

    Each queue has one: the home, or for `any` the nearest member, by name among equals.

    Args:
        found: What attracts the message there.
        near: The distances to the members.
        subject: The client's: a node on the way that keeps it local excludes members behind it.
        message_class: Its class: members behind a direct-only link get no guaranteed ones.
    """
    candidates: dict[str, list[Attraction]] = {}
    proxies: dict[str, str] = {}
    for one in found:
        if one.kind in (MemberKind.ANY, MemberKind.HOME):
            if not near.is_open(one.node, subject, message_class):
                continue
            candidates.setdefault(one.name, []).append(one)
        elif one.kind is MemberKind.PROXY and one.node == near.node:
            proxies[one.name] = one.queue
    here = list(chosen_locally(found, near.node))
    members: list[Attraction] = []
    for several in candidates.values():
        best = min(several, key=lambda one: (near.links_to(one.node), one.node, one.queue))
        if best.node == near.node:
            here.append(best.queue)
        else:
            members.append(best)
    homeless = (queue for name, queue in proxies.items() if name not in candidates)
    return Chosen(tuple(here), tuple(members), tuple(homeless))
