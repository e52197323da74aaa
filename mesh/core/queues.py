"""Which member of a queue gets a message: decided where it is published, and by what is in force.

Never by who is alive: what was sent to a member waits for it, so that two looks at one message
give one answer. Spec: DESIGN 6, EMS-12, UM-7.
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
"""Most wildcard shapes among the filters of one node's queues; others attract nothing."""


def shapes_within(wanted: Mapping[str, Collection[Shape]], most: int) -> frozenset[Shape]:
    """Return the wildcard shapes that count, where a node has more than it may for its queues.

    Only the set of subscriptions decides, never their order: workers of one node, and one that
    restarts, read `clients` as far compacted as it is then. The queues take turns, so one with many
    shapes crowds out no other.

    Args:
        wanted: By queue, all that its filters have.
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
    looked up, and each node takes few of them for its queues (`QUEUE_SHAPES_MAX`).
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
    """How far other nodes are: links of the one walk from a node, looked up once.

    Attributes:
        topology: The mesh; another one has another nearness.
        node: From where.
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
    """Who gets a message of those that queues want.

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
    """Return who gets a message that is published at a node.

    Of each queue that is one member: the home, or of `any` the nearest, by name among equals.

    Args:
        found: What attracts the message there.
        near: How far the members are.
        subject: The client's: where a node on the way keeps it local, no member behind it is one.
        message_class: Its class: behind a direct-only link no member is one for guaranteed ones.
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
