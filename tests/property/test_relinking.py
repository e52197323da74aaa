"""A node that follows changes of the topology is as one that starts on the last of them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mesh.core.digest import entry_digest
from mesh.core.local_links import local_links
from mesh.core.routes import PUBLISHED_HERE, Arrival
from mesh.model.control import Interest, Mark, Scope, Stage, Subscription, node_address
from mesh.model.effects import Effect, WriteAdvert, WriteMark
from mesh.model.frames import MessageClass
from mesh.model.inputs import (
    AdvertRead,
    ChangeRead,
    ClientsCaughtUp,
    Input,
    LaneApplied,
    LeadershipTaken,
    MarkRead,
    NeighbourCaughtUp,
    SubscriptionRead,
    Ticked,
)
from mesh.model.topology import Node, Topology
from mesh.node.machine import NodeMachine
from mesh.node.offers import readers_of, scopes_of
from mesh.node.relinking import link_changes
from tests.property.effort import examples
from tests.sim.meshes import random_legal_topology

NODES = [f"n{number}" for number in range(6)]
SUBJECTS = ["a", "a/b", "b/a", "b/b/c"]
FILTERS = ["a", "a/*", "*/b", "b/>", ">"]


def with_all_nodes(topology: Topology) -> Topology:
    """The same links; every node is there, so that any of them may gain and lose all its links."""
    spare = next(iter(topology.kafka))
    nodes = {name: topology.nodes.get(name, Node(name=name, kafka=spare)) for name in NODES}
    return replace(topology, nodes=nodes)


@dataclass
class Driven:
    """A machine that leads, and what its control topic says."""

    machine: NodeMachine
    now_ms: int = 0
    adverts: dict[tuple[Scope, str], Interest] = field(default_factory=dict)
    marks: dict[Scope, Mark] = field(default_factory=dict)

    def feed(self, *inputs: Input) -> None:
        for input_ in inputs:
            self.follow(self.machine.step(input_))

    def follow(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case WriteAdvert(scope, filter_, None):
                    del self.adverts[scope, filter_]
                case WriteAdvert(scope, filter_, interest):
                    self.adverts[scope, filter_] = interest
                case WriteMark(scope, None):
                    del self.marks[scope]
                case WriteMark(scope, mark):
                    assert mark.number > self.numbers.get(scope, 0), "versions of an epoch rise"
                    self.numbers[scope] = mark.number
                    self.marks[scope] = mark
                case _:
                    pass

    numbers: dict[Scope, int] = field(default_factory=dict)

    def settle(self) -> None:
        for _ in range(8):
            self.now_ms += 100
            self.feed(Ticked(self.now_ms), LaneApplied(0, self.machine.in_force))

    def hear(self, topology: Topology, neighbours: Sequence[str]) -> None:
        """Have these neighbours offer all that they would on this topology, and prove it."""
        for name in neighbours:
            links = local_links(topology, name)
            for scope in scopes_of(links):
                if self.machine.node not in readers_of(links, scope):
                    continue
                offers = offers_of(name, scope)
                self.feed(
                    *(AdvertRead(name, scope, key, interest) for key, interest in offers.items())
                )
                digest = sum(entry_digest(key, interest) for key, interest in offers.items())
                self.feed(MarkRead(name, scope, Mark(5, 1, len(offers), digest % (1 << 64))))
            self.feed(NeighbourCaughtUp(name))


def offers_of(name: str, scope: Scope) -> Mapping[str, Interest]:
    """What a neighbour wants over one link: always the same."""
    rng = random.Random(f"{name} {scope}")
    offers = {
        node_address(f"u-{name}-{scope.ownership}"): Interest(clients_offset=rng.randint(0, 9))
    }
    if not scope.row.joins:
        offers |= {
            key: Interest(durable=rng.random() < 0.5) for key in FILTERS if rng.random() < 0.5
        }
    return offers


def begin(topology: Topology, node: str) -> Driven:
    driven = Driven(NodeMachine(topology, node, f"u-{node}"))
    driven.feed(Ticked(0), LeadershipTaken(3, {}), SubscriptionRead(0, "s", "b/*", Subscription()))
    driven.feed(ClientsCaughtUp())
    driven.hear(topology, topology.neighbours(node))
    driven.settle()
    assert driven.machine.is_ready
    return driven


def arrivals(topology: Topology, node: str) -> list[Arrival]:
    links = local_links(topology, node)
    return [
        PUBLISHED_HERE,
        *(Arrival(one.zone, one.neighbour, crossed) for one in links for crossed in (False, True)),
    ]


@examples(150)
@given(seed=st.integers(0, 1 << 32), joined=st.booleans())
def test_who_followed_equals_who_starts_afresh(seed: int, joined: bool) -> None:
    """Spec: K22, K23, K27, K28."""
    rng = random.Random(seed)
    topologies = [
        with_all_nodes(random_legal_topology(rng, nodes_max=6, joined=joined)) for _ in range(4)
    ]
    node = rng.choice(NODES)
    followed = begin(topologies[0], node)
    for number, (before, topology) in enumerate(pairwise(topologies)):
        followed.feed(ChangeRead(number, Stage.SWITCH, topology))
        if rng.random() < 0.5:
            followed.settle()  # else the round is under way when neighbours are heard
        else:
            followed.now_ms += 100
            followed.feed(Ticked(followed.now_ms))
        changes = link_changes(before, topology, node)
        followed.hear(topology, changes.added)
        followed.hear(before, changes.gone)  # what was on its way still
        followed.hear(topology, [name for name in changes.gone if name in changes.added])
        followed.settle()
        fresh = begin(topology, node)
        assert followed.machine.is_ready
        ours, theirs = followed.machine.router, fresh.machine.router
        assert ours.table.entries == theirs.table.entries
        assert ours.links == theirs.links
        assert followed.adverts == fresh.adverts
        proofs = [
            {scope: (mark.count, mark.digest) for scope, mark in one.marks.items()}
            for one in (followed, fresh)
        ]
        assert proofs[0] == proofs[1]
        for arrival in arrivals(topology, node):
            for subject in SUBJECTS:
                for message_class in MessageClass:
                    routes = [one.route(subject, arrival, message_class) for one in (ours, theirs)]
                    assert len({(r.neighbours, r.endpoints, r.refused) for r in routes}) == 1
