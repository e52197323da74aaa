"""How one node's messages come to another, and what stands between: joins, selectors and so on.

What meets a selector may come, or may not: what conditions say is not judged here a second time.
Spec: DESIGN 3, K31.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.model.topology import Topology
from streaming.audits.walks import START, Crossing, Pair, Trail, crossed, crossings_of, receivers_of


@dataclass(frozen=True, slots=True)
class Between:
    """What stands between the node of an ingress and a reader.

    Attributes:
        joins: Filters of the joins on the way, in order: what they do not select does not come.
        kept: Filters of what nodes on the way keep local: what they select does not come. EMS-11.
        ends_with_join: Whether the reader gets it over a join.
        is_sure: Whether no selector stands on the way, which may refuse a message. EMS-14.
        is_direct_only: Whether a link on the way is in a direct-only zone: guaranteed messages do
            not come. DMR-11.
    """

    joins: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    ends_with_join: bool = False
    is_sure: bool = True
    is_direct_only: bool = False


NOTHING_BETWEEN = Between()


@dataclass(frozen=True, slots=True)
class _Walk:
    """How far a message has come, or how it comes to a reader.

    Attributes:
        nodes: That it has visited, origin first.
        trail: What it carries on.
        between: What stood on the way so far.
    """

    nodes: tuple[str, ...]
    trail: Trail = START
    between: Between = NOTHING_BETWEEN


@dataclass(slots=True)
class Ways:
    """What stands between the nodes of a topology, found for each origin when it is asked for.

    Attributes:
        topology: The topology.
        crossings: Its links.
        receivers: Node -> to whom its links lead.
        local: Node -> filters of what it keeps local.
        found: Origin -> reader -> how it comes there.
    """

    topology: Topology
    crossings: Mapping[Pair, Sequence[Crossing]] = field(init=False)
    receivers: Mapping[str, Sequence[str]] = field(init=False)
    local: Mapping[str, Sequence[str]] = field(init=False)
    found: dict[str, Mapping[str, _Walk]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Know the links and what nodes keep local."""
        self.crossings = crossings_of(self.topology)
        self.receivers = receivers_of(self.crossings)
        local: dict[str, list[str]] = {}
        for control in self.topology.interest:
            if control.kind.value == "local":
                local.setdefault(control.node, []).append(control.filter)
        self.local = local

    def between(self, origin: str, reader: str) -> Between | None:
        """Return what stands between two nodes; None if no walk joins them."""
        walk = self._walk(origin, reader)
        return None if walk is None else walk.between

    def nodes(self, origin: str, reader: str) -> Sequence[str]:
        """Return the nodes that messages of one visit on their way to another, both included.

        There are none where no walk joins them.
        """
        walk = self._walk(origin, reader)
        return () if walk is None else walk.nodes

    def _walk(self, origin: str, reader: str) -> _Walk | None:
        if origin not in self.found:
            is_known = origin in self.topology.nodes
            self.found[origin] = self._from(origin) if is_known else {}
        return self.found[origin].get(reader)

    def _from(self, origin: str) -> Mapping[str, _Walk]:
        """Return the nodes that a node's messages can reach, with what filters them on the way."""
        walks = [_Walk((origin,))]
        found = {origin: walks[0]}
        for walk in walks:
            kept = tuple(one for node in walk.nodes for one in self.local.get(node, ()))
            between = replace(walk.between, kept=kept)
            found.setdefault(walk.nodes[-1], replace(walk, between=between))
            walks += self._onward(walk)
        return found

    def _onward(self, walk: _Walk) -> Iterator[_Walk]:
        """Yield where a message can be one link later."""
        here = walk.nodes[-1]
        for there in self.receivers.get(here, ()):
            for crossing in self.crossings[here, there] if there not in walk.nodes else ():
                trail = crossed(walk.trail, crossing, is_guaranteed=False)
                if isinstance(trail, Trail):
                    between = self._and_over(walk.between, (here, there), crossing)
                    yield _Walk((*walk.nodes, there), trail, between)

    def _and_over(self, before: Between, pair: Pair, crossing: Crossing) -> Between:
        """Return what stands on a way that goes on over a link."""
        joins = before.joins
        if crossing.is_join:
            joins = (*joins, self.topology.joins[pair].filter)
        return Between(
            joins=joins,
            ends_with_join=crossing.is_join,
            is_sure=before.is_sure and pair not in self.topology.conditions,
            is_direct_only=before.is_direct_only or crossing.is_direct_only,
        )
