"""Parts of the mesh: from heartbeats and what neighbours have read of them. Spec: K24, K32."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from mesh.model.control import Heartbeat, LinkState
from mesh.model.findings import FindingKind
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from streaming.audits.finding_register import Finding
from streaming.audits.splits import Splits
from tests.unit.streaming.busy_mesh import BusyMesh


class Mesh:
    """Nodes in a row that beat once a second."""

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes
        self.links = list(pairwise(nodes))
        self.splits = Splits(nodes, self.links)
        self.now_s = 0.0
        self.beats = dict.fromkeys(nodes, 0)
        self.epochs = dict.fromkeys(nodes, 1)
        self.told: list[Finding] = []

    @property
    def found(self) -> list[tuple[str, tuple[str, ...]]]:
        return [(one.kind.value, one.ids) for one in self.told]

    def run(self, seconds: int, *, dead: str = "", cut: tuple[tuple[str, str], ...] = ()) -> None:
        for _ in range(seconds):
            self.now_s += 1
            alive = [node for node in self.nodes if node not in dead]
            for node in alive:
                self.beats[node] += 1
                beat = Heartbeat(self.epochs[node], self.beats[node], ready=True)
                self.splits.beat(node, beat, self.now_s)
            for one, other in self.links:
                for reader, neighbour in ((one, other), (other, one)):
                    if reader in alive and (one, other) not in cut:
                        state = LinkState(self.epochs[neighbour], self.beats[neighbour])
                        self.splits.acknowledge(reader, neighbour, state)
            self.splits.taken(self.nodes, is_whole=True)
            self.told += self.splits.judge(self.now_s)


def test_a_healthy_mesh_is_one_part():
    mesh = Mesh("a", "b", "c")
    mesh.run(30)
    assert mesh.found == []


def test_a_cut_is_a_split_after_ten_beats_and_its_end_a_heal():
    mesh = Mesh("a", "b", "c", "d")
    mesh.run(5)
    mesh.run(12, cut=(("b", "c"),))  # what was known two seconds ago counts
    assert mesh.found == []
    mesh.run(5, cut=(("b", "c"),))
    assert mesh.found == [("split", ("a,b", "c,d"))]
    mesh.run(3)
    assert mesh.found[1:] == [("heal", ("a,b,c,d",))]


def test_a_cut_that_leaves_the_parts_joined_is_none():
    mesh = Mesh("a", "b", "c")
    mesh.links.append(("a", "c"))
    mesh.splits.links = mesh.links
    mesh.run(5)
    mesh.run(30, cut=(("a", "b"),))
    mesh.run(5)
    assert mesh.found == []


def test_a_dead_node_is_no_split_also_in_the_middle():
    mesh = Mesh("a", "b", "c")
    mesh.run(5)
    mesh.run(60, dead="b")
    mesh.epochs["b"], mesh.beats["b"] = 2, 0
    mesh.run(30)
    assert mesh.found == []


def test_a_node_that_comes_late_is_not_late_at_once():
    """Its first acknowledgement counts from when both were first heard together."""
    mesh = Mesh("a", "b")
    mesh.run(100, dead="b")
    mesh.run(5)
    assert mesh.found == []


def test_the_death_of_a_part_is_no_heal():
    mesh = Mesh("a", "b", "c")
    mesh.run(5)
    mesh.run(20, cut=(("b", "c"),))
    mesh.run(20, cut=(("b", "c"),), dead="c")
    assert mesh.found == [("split", ("a,b", "c"))]
    mesh.run(5)
    assert mesh.found[1:] == [("heal", ("a,b,c",))]


def row(*nodes: str, links: Sequence[tuple[str, str]] = ()) -> Topology:
    """Return a topology of these nodes, in a row if nobody says otherwise."""
    return Topology(
        name="row",
        kafka={"k": DeclaredKafka(name="k")},
        nodes={name: Node(name=name, kafka="k") for name in nodes},
        zones={"Z": Zone.of_links("Z", ZoneKind.MULTI_HOP, links or [*pairwise(nodes)])},
    )


@pytest.mark.parametrize(
    ("topology", "parts"),
    [
        (row("a", "b"), ("a,b",)),
        (row("a", "b", "c", links=[("a", "b"), ("a", "c")]), ("a,b,c",)),
        (row("a", "b", "c", links=[("a", "b")]), ("a,b", "c")),
        (row("a", "b", "c", links=[("a", "b"), ("b", "c"), ("a", "c")]), ("a,b,c",)),
    ],
    ids=["a part", "a link, for another", "a link", "nothing, and another link comes"],
)
def test_a_split_ends_also_where_what_was_cut_is_taken_out(
    topology: Topology, parts: tuple[str, ...]
) -> None:
    """The topology joins no more than is joined; a later cut is a split again."""
    mesh = Mesh("a", "b", "c")
    mesh.run(5)
    mesh.run(20, cut=(("b", "c"),))
    assert mesh.found == [("split", ("a,b", "c"))]
    mesh.nodes = tuple(topology.nodes)
    mesh.links = [link.ends for link in topology.links]
    mesh.splits.follow([topology])
    mesh.run(20, cut=(("b", "c"),))
    assert mesh.found[1:] == [("heal", parts)]
    mesh.run(30, cut=(("a", "b"), ("a", "c"), ("b", "c")))
    assert [kind for kind, _ in mesh.found[2:]][:1] == ["split"]


def test_a_heal_of_some_parts_names_the_links_that_keep_others_apart() -> None:
    mesh = Mesh("a", "b", "c")
    mesh.run(5)
    mesh.run(20, cut=(("a", "b"), ("b", "c")))
    mesh.run(5, cut=(("b", "c"),))
    mesh.run(5)
    *_, some, all_ = mesh.told
    assert (some.kind, some.ids, some.link) == (FindingKind.HEAL, ("a,b", "c"), "b-c")
    assert (all_.kind, all_.ids, all_.link) == (FindingKind.HEAL, ("a,b,c",), "")


def test_a_heal_names_no_link_that_keeps_nobody_apart() -> None:
    """Nodes that the topology does not join are no part of a split."""
    mesh = Mesh("a", "b", "c", "d")
    mesh.links = mesh.splits.links = [("a", "b"), ("a", "c"), ("b", "c")]
    mesh.run(5)
    mesh.run(20, cut=(("a", "b"), ("b", "c")))
    mesh.run(5, cut=(("a", "b"),))
    *_, heal = mesh.told
    assert (heal.kind, heal.ids, heal.link) == (FindingKind.HEAL, ("a,b,c", "d"), "")


LASTS = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@settings(deadline=None, max_examples=25)
@given(st.tuples(LASTS, LASTS), st.sampled_from(["", "a", "b", "c", "d", "cd", "bc"]))
def test_however_long_micro_batches_take_a_cut_is_found_and_nothing_else(lasts, dead):
    mesh = BusyMesh(lasts)
    mesh.run(200)
    mesh.run(200, dead=dead)
    mesh.run(200)
    assert mesh.found == []
    mesh.run(200, is_cut=True)
    assert mesh.found == ["split"]
    mesh.run(200)
    assert mesh.found == ["split", "heal"]
