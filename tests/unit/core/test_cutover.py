"""Who holds, and what drains first, when one topology follows another."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.cutover import cut_over
from mesh.core.lineage import links_made
from mesh.core.walks import Graph, Visit, Walk, walks_from
from mesh.model.topology import Topology
from tests.sim.meshes import random_legal_topology
from tests.sim.swarm.targets import next_topologies

Rounds = dict[int, set[tuple[str, ...]]]
Walks = Mapping[str, Sequence[Walk]]


def mesh(nodes: str, **zones: object) -> Topology:
    listed = {node: {"kafka": "k"} for node in nodes.split()}
    return topology_from_mapping({"kafka": {"k": None}, "nodes": listed, "zones": zones})


def multi(*links: str) -> dict[str, object]:
    return {"kind": "multi-hop", "links": [link.split("-") for link in links]}


def carries(before: Topology, walk: Walk, after: Topology) -> bool:
    """Whether the last step of a walk lets through what it did, over a link made of the same."""
    one, other = walk.nodes[-2:]
    ends = (min(one, other), max(one, other))
    is_same = before.joins.get((one, other)) == after.joins.get((one, other))
    return is_same and links_made(before)[ends] == links_made(after).get(ends)


def test_walks_that_only_begin_hold_nobody() -> None:
    """Spec: K28."""
    cut = cut_over(mesh("a b", Z=multi("a-b")), mesh("a b c", Z=multi("a-b", "b-c")))
    assert (cut.holding, cut.drain_waves, cut.taking_part) == ([], [], ["b", "c"])


def test_a_walk_that_begins_drains_nothing() -> None:
    """What is older than the topology in force crosses no link that is new. Spec: K10, K28."""
    before = mesh("a b c d", Z=multi("d-a", "a-b"))
    cut = cut_over(before, mesh("a b c d", Z=multi("d-a", "a-b", "b-c")))
    assert (cut.holding, cut.drain_waves) == ([], [])
    assert cut.taking_part == ["b", "c"]


def test_sources_of_a_walk_that_moves_hold_and_it_drains_hop_by_hop() -> None:
    """a-b-c becomes a-c, c-b: what went over b to c goes straight. Spec: K28."""
    cut = cut_over(mesh("a b c", Z=multi("a-b", "b-c")), mesh("a b c", Z=multi("a-c", "b-c")))
    assert cut.holding == ["a", "b", "c"]
    # a>b, a>b>c, b>a, c>b>a; b reaches a over c now, so b>c too
    assert cut.drain_waves == [
        [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")],
        [("b", "a"), ("b", "c")],
    ]
    cut = cut_over(
        mesh("a b c d", Z=multi("a-b", "b-c", "c-d")), mesh("a b c d", Z=multi("a-b", "b-c", "b-d"))
    )
    assert cut.holding == ["a", "b", "c", "d"]
    assert cut.taking_part == ["a", "b", "c", "d"]


def test_directions_that_walks_move_to_are_known() -> None:
    """q goes from b to a: what m sends it goes over a then, and what q sends m too. Spec: K28."""
    before = mesh("a b m q", Z=multi("a-m", "b-m", "b-q"))
    cut = cut_over(before, mesh("a b m q", Z=multi("a-m", "b-m", "a-q")))
    assert cut.rerouted == [
        *(("a", "m"), ("a", "q"), ("b", "m"), ("m", "a"), ("m", "b"), ("q", "a"))
    ]
    # Walks that only begin are owed to nobody yet.
    assert cut_over(mesh("a b", Z=multi()), mesh("a b", Z=multi("a-b"))).rerouted == []


def test_directions_of_walks_that_stay_over_links_that_become_others_are_known() -> None:
    """Their ends forget what they heard. What only begins is owed to nobody yet. Spec: K28."""
    one_hop = {"kind": "one-hop", "links": [["a", "b"]]}
    before = mesh("a b c", Z=multi("a-b"), Y=multi("b-c"))
    cut = cut_over(before, mesh("a b c", Z=one_hop, Y=multi("b-c")))
    assert (cut.rerouted, cut.remade) == ([], [("a", "b"), ("b", "a")])
    ways = [{"kind": "join", "from": one, "to": other} for one, other in ("ab", "ba")]
    assert cut_over(mesh("a b", J=ways[0]), mesh("a b", J=ways[1])).remade == []
    longer = {"kind": "join", "from": "b", "to": "c", "hops": 3}
    cut = cut_over(
        mesh("a b c", J=ways[0], I=longer), mesh("a b c", J=ways[0], I={**longer, "hops": 2})
    )
    assert cut.remade == [("a", "b"), ("b", "c")]


def test_what_waits_for_a_node_that_a_walk_moves_over_drains_too() -> None:
    """Else b would send it on to c, which had it straight from a. Spec: K28."""
    cut = cut_over(mesh("a b c", Z=multi("a-b", "a-c")), mesh("a b c", Z=multi("a-b", "b-c")))
    assert ("a", "b") in cut.drain_waves[0]


@pytest.mark.parametrize("changed", [{"filter": "x/>"}, {"hops": 3}])
def test_a_join_that_selects_other_messages_is_drained_by_those_who_send_over_it(
    changed: dict[str, object],
) -> None:
    """Else one that was on its way would end between two filters. Spec: K28, UM-5, UM-10."""
    join = {"kind": "join", "from": "b", "to": "c"}
    cut = cut_over(
        mesh("a b c", Z=multi("a-b"), J=join), mesh("a b c", Z=multi("a-b"), J=join | changed)
    )
    assert cut.holding == ["a", "b"]
    assert cut.drain_waves == [[("a", "b"), ("b", "c")], [("b", "c")]]


def test_where_a_queue_is_shared_out_otherwise_all_hold_and_drain() -> None:
    """What was sent to one member would meet members that all want it, or none. Spec: K28."""
    both = mesh("a b c", Z=multi("a-b"))
    cut = cut_over(both, both, is_shared_otherwise=True)
    assert (cut.holding, cut.taking_part) == (["a", "b"], ["a", "b"])
    assert cut.drain_waves == [[("a", "b"), ("b", "a")]]
    assert cut.heard == [("a", "b")]
    assert not cut_over(both, both).heard


def test_who_is_linked_only_now_holds_for_the_queues_as_well() -> None:
    """It would look for members of a queue before it can know of any. Spec: K28."""
    apart, linked = mesh("a b c d", Z=multi("a-b")), mesh("a b c d", Z=multi("a-b", "b-c"))
    assert cut_over(apart, linked, is_shared_otherwise=True).holding == ["a", "b", "c"]
    assert cut_over(linked, apart, is_shared_otherwise=True).holding == ["a", "b", "c"]
    assert not cut_over(apart, linked).holding


def test_who_sends_by_the_other_join_on_a_link_holds_as_well() -> None:
    """Its ends take the link for another one, and let nothing over before it is proven. K28."""
    there = {"kind": "join", "from": "a", "to": "b"}
    back = {"kind": "join", "from": "b", "to": "a", "hops": 3}
    one, two = mesh("a b c", J=there), mesh("a b c", J=there, K=back)
    for before, after in ((one, two), (two, one)):
        cut = cut_over(before, after)
        assert cut.holding == ["a", "b"]
        assert ("a", "b") in cut.drain_waves[0]


def test_who_sends_over_a_link_that_more_rows_of_joins_lead_back_over_holds() -> None:
    """Addresses come by them: the link is another one, though its own join is the same. K28."""
    first = {"kind": "join", "from": "a", "to": "b"}
    onward = {"kind": "join", "from": "b", "to": "c"}
    cut = cut_over(mesh("a b c d", J=first), mesh("a b c d", J=first, K=onward))
    assert cut.holding == ["a"]
    assert cut.drain_waves == [[("a", "b")]]


def test_those_whose_walks_stay_do_not_hold() -> None:
    """One-way: only d reaches c over b. Spec: K28, UM-5."""
    join = {"kind": "join", "from": "d", "to": "b"}
    before = mesh("b c d e", J=join, K={"kind": "join", "from": "b", "to": "c"}, E=multi("d-e"))
    after = mesh("b c d e", J=join, K={"kind": "join", "from": "d", "to": "c"}, E=multi("d-e"))
    cut = cut_over(before, after)
    assert cut.holding == ["b", "d", "e"]
    assert ("d", "e") not in cut.drain_waves[0]
    assert ("e", "d") in cut.drain_waves[0]


def test_the_zone_of_a_link_is_part_of_a_walk() -> None:
    cut = cut_over(mesh("a b", Z=multi("a-b")), mesh("a b", Y=multi("a-b")))
    assert (cut.holding, cut.drain_waves) == (["a", "b"], [[("a", "b"), ("b", "a")]])


def test_a_node_that_leaves_holds_and_is_read_to_its_end() -> None:
    before, after = mesh("a b c", Z=multi("a-b", "b-c")), mesh("a b", Z=multi("a-b"))
    cut = cut_over(before, after)
    assert (cut.leaving, cut.holding) == (["c"], ["a", "b", "c"])
    assert cut.drain_waves == [[("a", "b"), ("b", "c"), ("c", "b")], [("b", "a"), ("b", "c")]]
    gone = cut_over(before, after, given_up=["c"])
    assert gone.holding == ["a", "b"]
    assert gone.taking_part == ["a", "b"]
    assert gone.drain_waves == [[("a", "b"), ("c", "b")], [("b", "a")]]


def test_a_node_that_leaves_without_a_link_may_be_down() -> None:
    """Nothing waits for it, and nobody asks it: its links went with a change of their own."""
    cut = cut_over(mesh("a b c", Z=multi("a-b")), mesh("a b", Z=multi("a-b")))
    assert (cut.leaving, cut.holding, cut.taking_part) == (["c"], ["c"], [])
    cut = cut_over(mesh("a b c", Z=multi("a-b", "b-c")), mesh("a b", Z=multi("a-b")))
    assert "c" in cut.taking_part


def ends_that_change(before: Topology, after: Topology) -> set[str]:
    """Return who has a link that is gone or another one afterwards."""

    def described(topology: Topology) -> set[object]:
        return {
            (link, topology.kind_of(link), topology.joins.get(pair))
            for link in topology.links
            for pair in (link.ends, link.ends[::-1])
        }

    return {node for link, _, _ in described(before) - described(after) for node in link.ends}


def test_a_source_holds_whose_new_walk_leads_where_another_ends() -> None:
    """Else c would have what a sends over b as long as b does not know of the change. K28."""
    before = mesh("a b c d", Z=multi("b-c"), Y=multi("a-d"))
    cut = cut_over(before, mesh("a b c d", Z=multi("a-b"), Y=multi("a-d")))
    assert cut.holding == ["a", "b", "c", "d"]
    assert cut.drain_waves == [[("b", "c"), ("c", "b")]]
    assert cut.taking_part == ["a", "b", "c"]  # d may be down: nothing of it is on its way
    cut = cut_over(mesh("b c", Z=multi("b-c")), mesh("a b c", Z=multi("a-b")))
    assert (cut.arriving, cut.holding) == (["a"], ["a", "b", "c"])


def drain(wanted: Rounds, walk: Walk) -> None:
    for depth in range(len(walk.links)):
        wanted.setdefault(depth, set()).add(walk.nodes[depth : depth + 2])


def drain_on_the_way(wanted: Rounds, new: Iterable[Walk], old: Walks) -> None:
    """Want what waits for the nodes that new walks lead over."""
    for passed in (node for walk in new for node in walk.nodes[1:-1]):
        for waited in old.get(passed, ()):
            drain(wanted, waited)


def test_every_lost_or_other_walk_is_drained_and_what_it_leads_over() -> None:
    """By the listing of walks, on random pairs of topologies. Spec: K28."""
    rng = random.Random(5)
    moved = 0
    for _ in range(60):
        before = random_legal_topology(rng, nodes_max=6, joined=True)
        after = random_legal_topology(rng, nodes_max=6, joined=True)
        cut = cut_over(before, after)
        wanted: Rounds = {}
        holding = {node for node in before.nodes if node not in after.nodes}
        for source in before.nodes:
            new = walks_from(after, source) if source in after.nodes else {}
            old = walks_from(before, source)
            for node, [walk] in old.items():
                if [walk] == list(new.get(node, ())) and carries(before, walk, after):
                    continue
                holding.add(source)
                drain(wanted, walk)
                drain_on_the_way(wanted, new.get(node, ()), old)
                moved += 1
        assert holding <= set(cut.holding)
        ends = ends_that_change(before, after)
        for source in set(cut.holding) - holding:
            known = walks_from(before, source) if source in before.nodes else ()
            assert ends & {*walks_from(after, source)} - {*known}
        assert {depth: set(pairs) for depth, pairs in enumerate(cut.drain_waves)} == wanted
    assert moved > 50


def mixed_walks(
    graphs: tuple[Graph, Graph], source: str, switched: Collection[str]
) -> Iterator[Walk]:
    """Yield the walks of a message that finds some nodes at the new topology, others at the old."""
    todo = [Visit(source)]
    while todo:
        visit = todo.pop()
        graph = graphs[visit.node in switched]
        for step in graph.onward(visit) if visit.node in graph.exits else ():
            read_by = graphs[step.node in switched]
            if step.node in read_by.exits and read_by.has(step.link):
                yield step.walk()
                if not step.is_repeated():
                    todo.append(step)


def test_whoever_does_not_hold_sends_by_walks_of_one_topology_while_others_switch() -> None:
    """Whichever nodes have switched where its message comes: no way of neither, none twice. K28."""
    rng = random.Random(11)
    found = 0
    for _ in range(450):
        before = random_legal_topology(rng, nodes_max=5, joined=rng.random() < 0.5)
        for after in next_topologies(rng, before, 1, joined=True):
            found += judged(before, after)
    assert found > 10_000


def judged(before: Topology, after: Topology) -> int:
    """Judge one change; return how many walks were looked at."""
    graphs = Graph.of(before), Graph.of(after)
    nodes = sorted({**before.nodes, **after.nodes})
    holding = cut_over(before, after).holding
    found = 0
    for source in (node for node in nodes if node not in holding):
        legal = {
            walk
            for topology in (before, after)
            if source in topology.nodes
            for walks in walks_from(topology, source).values()
            for walk in walks
        }
        for states in itertools.product([False, True], repeat=len(nodes)):
            switched = list(itertools.compress(nodes, states))
            walks = list(mixed_walks(graphs, source, switched))
            ends = [walk.nodes[-1] for walk in walks]
            assert set(walks) <= legal, (source, switched, set(walks) - legal)
            assert len(set(ends)) == len(ends), (source, switched, walks)
            found += len(walks)
    return found


@pytest.mark.parametrize(
    ("key", "value", "holding"),
    [
        ("interest", [{"node": "c", "local": "x/>"}], ["b", "c"]),
        ("interest", [{"node": "c", "static": "x/>"}], []),
        ("selectors", [{"link": ["a", "b"], "from": "a", "when": "subject == 'x'"}], ["a"]),
        ("covering", True, []),
        ("queues", {"q": {"policy": "any"}}, []),
    ],
)
def test_where_links_carry_other_messages_sources_hold(
    key: str, value: object, holding: list[str]
) -> None:
    """So none is sent on by the one rule to end by the other. Spec: K28, EMS-11, EMS-14."""
    listed = {"kafka": {"k": None}, "nodes": {node: {} for node in "abc"}}
    zone = {"kind": "one-hop", "links": [["a", "b"], ["b", "c"]]}
    plain = topology_from_mapping({**listed, "zones": {"Z": zone}})
    other = topology_from_mapping({**listed, "zones": {"Z": zone}, key: value})
    for before, after in ((plain, other), (other, plain)):
        assert list(cut_over(before, after).holding) == holding
