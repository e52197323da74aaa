"""Colours beside the auditor's own parts: what differs for long is found. Spec: tree_layer 13."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Heartbeat
from mesh.model.topics import TopicNames
from mesh.wire.control import encode_heartbeat
from streaming.audits.colours import LASTS_S, Colours
from streaming.audits.finding_register import Finding
from streaming.audits.splits import SILENT_S, Splits
from streaming.job.intake import take_batch
from streaming.job.plain import from_plain, to_plain
from streaming.job.state import State
from streaming.tables.rows import MicroBatch, SmallRow, TopicPartition

CHAIN = {
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}, "c": {}},
    "zones": {"Z": {"kind": "one-hop", "links": [["a", "b"], ["b", "c"]]}},
}


def test_colours_come_with_heartbeats_and_are_kept() -> None:
    """As records of the node's control topic, and in the auditor's snapshots."""
    state = State.of(topology_from_mapping(CHAIN))
    beat = encode_heartbeat(Heartbeat(1, 1, ready=True, colour="red"))
    place = TopicPartition(TopicNames().control("b"), 0)
    take_batch(state, MicroBatch(small=[SmallRow(place, 0, "heartbeat", beat, 0)]), 1.0)
    assert state.colours.of == {"b": "red"}
    state.colours.differs = ((("a", "b"), ("c",)), (("a", "b", "c"),))
    assert from_plain(State, to_plain(state)).colours == state.colours


class Mesh:
    """a-b-c: what the auditor and the nodes see of it, second by second."""

    def __init__(self) -> None:
        self.splits = Splits.of(topology_from_mapping(CHAIN))
        self.colours = Colours()
        self.now_s = 0.0
        self.number = 0

    def run(
        self, seconds: float, colours: str, *, cut: bool = False, living: str = "abc"
    ) -> Sequence[Finding]:
        """Let time pass; `colours` has one letter per node, a dot for none."""
        found: list[Finding] = []
        self.splits.cut = {("b", "c"): None} if cut else {}
        for _ in range(int(seconds)):
            self.now_s += 1
            self.number += 1
            for node, colour in zip("abc", colours, strict=True):
                if node in living:
                    beat = Heartbeat(1, self.number, ready=True)
                    self.splits.beat(node, beat, self.now_s)
                    self.colours.of[node] = colour.strip(".")
            found += self.colours.judge(self.splits, self.now_s)
        return found


def test_the_same_parts_are_no_finding() -> None:
    mesh = Mesh()
    assert mesh.run(100, "xxx") == []
    assert mesh.run(100, "xxy", cut=True) == []
    assert mesh.run(100, "zzz") == []


def test_a_difference_that_lasts_is_found_once() -> None:
    mesh = Mesh()
    assert mesh.run(LASTS_S, "xxy") == []
    (found,) = mesh.run(100, "xxy")
    assert (found.kind, found.ids) == ("colours-differ", ("a,b", "c"))
    assert found.text == ("the colours of the nodes say a,b | c; by who reads whom it is a,b,c")
    mesh.run(1, "xxx")
    (again,) = mesh.run(100, "xxx", cut=True)
    assert (again.ids, again.link) == (("a,b,c",), "b-c")
    assert again.id != found.id


def test_one_that_passes_is_none() -> None:
    """A cut is seen here some seconds earlier than there, and so is its end."""
    mesh = Mesh()
    mesh.run(10, "xxx")
    for _ in range(5):
        assert mesh.run(LASTS_S - 1, "xxx", cut=True) == []
        assert mesh.run(5, "xxy", cut=True) == []
        assert mesh.run(LASTS_S - 1, "xxy") == []
        assert mesh.run(5, "zzz") == []


def test_who_died_has_no_colour_and_is_no_split() -> None:
    """Nor is anything said before it has been up again for long enough."""
    mesh = Mesh()
    mesh.run(LASTS_S - SILENT_S, "xxy")
    assert mesh.run(200, "xxy", living="ab") == []
    assert mesh.run(LASTS_S, "xxy") == []
    assert len(mesh.run(5, "xxy")) == 1


def test_a_node_without_colours_is_not_compared() -> None:
    """It has no tree layer, or nothing that it could lose."""
    mesh = Mesh()
    assert mesh.run(200, "xx.") == []
    assert mesh.run(200, "...", cut=True) == []


def test_while_links_come_or_go_nothing_is_compared() -> None:
    mesh = Mesh()
    topology = topology_from_mapping(CHAIN)
    mesh.splits.follow([topology, topology])
    assert mesh.run(200, "xxy") == []
    mesh.splits.follow([topology])
    assert len(mesh.run(200, "xxy")) == 1


def test_a_clock_that_begins_anew_begins_the_wait_anew() -> None:
    """A restart on another host: nothing is found too soon, nor never."""
    mesh = Mesh()
    mesh.run(LASTS_S, "xxy")
    mesh.now_s = -1_000.0
    mesh.splits.beats.clear()
    assert mesh.run(LASTS_S, "xxy") == []
    assert len(mesh.run(5, "xxy")) == 1
