"""A change of the topology through its records: what is written, when, and what ends it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.config.published import published_text
from mesh.errors import ConfigError, NotBegunError, NotInTimeError, TransportError
from mesh.model.control import Change, Stage
from mesh.model.facts import (
    ENDED,
    EraBegan,
    ErasBegun,
    Fact,
    Gap,
    Held,
    InForce,
    InterestInForce,
)
from mesh.model.frames import Era, SourcePartition, TopicPartition
from mesh.model.interest_inputs import CHANGE
from mesh.model.topology import Topology
from mesh.operate.changes.begin import PendingChange, abort_change, begin_change, read_begun
from mesh.operate.changes.driver import ChangeDriver
from mesh.operate.changes.founding import publish
from mesh.operate.changes.in_force import TopologyInForce, read_in_force
from mesh.view.change_records import write_change
from tests.component.operate.following import Following, mesh_of

MOVED = (mesh_of("a-b", "b-c"), mesh_of("a-c", "b-c"))


def found_in_force(nodes: Following) -> TopologyInForce:
    found, _ = read_in_force(nodes.kafka, "mesh.")
    assert found is not None
    return found


def begun(nodes: Following) -> PendingChange | None:
    known = found_in_force(nodes).topology.kafka
    return read_begun({name: nodes.kafka[name] for name in known}, "mesh.")


def change(nodes: Following, after: Topology | None = None) -> ChangeDriver:
    return begin_change(nodes.means(), nodes.reports(), after or nodes.after, begun(nodes))


def in_force(nodes: Following) -> tuple[int, Topology]:
    found, records = read_in_force(nodes.kafka, "mesh.")
    assert found is not None
    assert len(set(records.found.values())) == 1
    return found.number, found.topology


def test_a_walk_moves_stage_by_stage_and_those_who_hold_are_measured() -> None:
    """Spec: K28."""
    nodes = Following(*MOVED)
    outcome = change(nodes).run(60)
    assert in_force(nodes) == (2, nodes.after)
    assert (outcome.number, outcome.is_in_force) == (2, True)
    assert list(outcome.pauses) == ["a", "b", "c"]
    assert all(0 < ms <= outcome.ms for ms in outcome.pauses.values())
    order = [stage for node, stage in nodes.seen if node == "b"]
    assert order == [Stage.HOLD, Stage.SWITCH, Stage.RUN]
    found = begun(nodes)
    assert found is not None
    assert (found.is_open, found.change.holding) == (False, ("a", "b", "c"))
    assert found.change.topology == published_text(nodes.after)


def test_it_does_not_switch_before_what_was_sent_is_read_hop_by_hop() -> None:
    """Spec: K28."""
    nodes = Following(*MOVED)
    nodes.send("a", "b")
    nodes.read["a", "b"] = 0
    under_way = change(nodes)
    with pytest.raises(NotInTimeError, match=r"b has not read 1 record of a; .*--abort"):
        under_way.run(5)
    assert {stage for _, stage in nodes.seen} == {Stage.HOLD}
    del nodes.read["a", "b"]
    nodes.send("b", "c")  # what b made of it
    nodes.read["b", "c"] = 0
    with pytest.raises(NotInTimeError, match="c has not read 1 record of b"):
        change(nodes).run(5)
    assert {stage for _, stage in nodes.seen} == {Stage.HOLD}
    del nodes.read["b", "c"]
    assert change(nodes).run(60).number == 2
    assert in_force(nodes) == (2, nodes.after)


def test_it_does_not_switch_while_something_is_still_to_be_made_good() -> None:
    """A held target is written from its source, which nobody reads any more behind the switch."""
    nodes = Following(*MOVED)
    chain = TopicPartition("mesh.b.to.c.g", 0), SourcePartition(bytes(16), 0)
    held, gap = Held(*chain, 1, 3), Gap(*chain, 3, 0, is_open=True)
    done: list[Fact] = []
    for owed, paid in ((held, replace(held, next=ENDED)), (gap, replace(gap, is_open=False))):
        nodes.owed["b"] = [*done, owed]
        with pytest.raises(NotInTimeError, match=r"b is still writing what mesh.b.to.c.g lacks"):
            change(nodes).run(5)
        assert {stage for _, stage in nodes.seen} == {Stage.HOLD}
        done.append(paid)
    nodes.owed["b"] = done
    assert change(nodes).run(60).is_in_force


def test_a_change_that_was_left_is_gone_on_with_from_every_stage() -> None:
    nodes = Following(*MOVED)
    for stage in (Stage.HOLD, Stage.SWITCH):
        nodes.stuck = {"b": stage}
        with pytest.raises(NotInTimeError, match=r"^not .* within 3 s: b "):
            change(nodes).run(3)
        found = begun(nodes)
        assert found is not None
        assert (found.change.stage, found.is_open) == (stage, True)
        assert in_force(nodes) == (1, nodes.before)
    nodes.stuck = {}
    assert change(nodes).run(60).is_in_force
    assert in_force(nodes) == (2, nodes.after)


def test_a_writer_that_dies_between_two_kafka_clusters_is_followed_by_another() -> None:
    nodes = Following(*MOVED)
    nodes.stuck = {"b": Stage.SWITCH}
    with pytest.raises(NotInTimeError):
        change(nodes).run(5)
    nodes.stuck = {}
    under_way = change(nodes)
    nodes.kafka["right"].available = False
    with pytest.raises((TransportError, NotInTimeError)):
        under_way.run(3)
    nodes.kafka["right"].available = True
    assert change(nodes).run(60).number == 2
    assert in_force(nodes) == (2, nodes.after)
    found = begun(nodes)
    assert found is not None
    assert (found.lacking, found.change.stage) == ([], Stage.RUN)


def test_another_change_waits_its_turn_and_may_be_aborted_before_the_switch() -> None:
    nodes = Following(*MOVED)
    nodes.stuck = {"b": Stage.HOLD}
    with pytest.raises(NotInTimeError):
        change(nodes).run(3)
    with pytest.raises(ConfigError, match=r"to version 2, has come to stage hold: .*UNDER_WAY"):
        change(nodes, mesh_of("a-b", "a-c"))
    nodes.stuck = {}
    outcome = abort_change(nodes.means(), nodes.reports(), begun(nodes)).run(60)
    assert (outcome.is_in_force, in_force(nodes)) == (False, (1, nodes.before))
    with pytest.raises(ConfigError, match="NO_CHANGE"):
        abort_change(nodes.means(), nodes.reports(), begun(nodes))
    assert change(nodes).run(60).number == 3  # what nodes say of 2 must not count
    assert in_force(nodes) == (3, nodes.after)


def test_after_the_switch_there_is_no_way_back() -> None:
    nodes = Following(*MOVED)
    nodes.stuck = {"b": Stage.SWITCH}
    with pytest.raises(NotInTimeError, match=r"give the same command again to go on$"):
        change(nodes).run(3)
    with pytest.raises(ConfigError, match="TOO_LATE"):
        abort_change(nodes.means(), nodes.reports(), begun(nodes))


def test_a_node_that_must_take_part_is_waited_for_if_asked() -> None:
    nodes = Following(mesh_of("a-b"), mesh_of("a-b", "b-c"))
    nodes.down.add("c")
    with pytest.raises(NotBegunError, match="nothing was changed: node c must take part"):
        change(nodes).run(60)
    assert begun(nodes) is None
    under_way = change(nodes)
    lines = nodes.lines
    tell = lambda line: (lines.append(line), nodes.down.clear())[0]  # noqa: E731
    under_way.mesh = replace(under_way.mesh, tell=tell)
    outcome = under_way.run(60, patience_s=30)
    assert outcome.pauses == {}
    assert any("waiting: node c must take part" in line for line in lines)


def test_a_node_is_added_and_taken_away() -> None:
    two, three = mesh_of("a-b", nodes="a b"), mesh_of("a-b", "b-c")
    nodes = Following(two, three)
    nodes.down.add("c")
    with pytest.raises(NotBegunError, match="node c is new and sends no heartbeats"):
        change(nodes).run(60)
    nodes.down.clear()
    assert change(nodes).run(60).pauses == {}
    assert in_force(nodes) == (2, three)
    nodes.send("b", "c")
    nodes.read["b", "c"] = 0
    with pytest.raises(NotInTimeError, match="c has not read 1 record of b"):
        change(nodes, two).run(5)
    nodes.read.clear()
    assert list(change(nodes, two).run(60).pauses) == ["a", "b", "c"]
    assert in_force(nodes) == (3, two)


def test_a_node_that_is_down_goes_once_its_links_have_gone() -> None:
    """Its workload is often gone by then, as in an upgrade of the chart."""
    alone, less = mesh_of("a-b", nodes="a b c"), mesh_of("a-b", nodes="a b")
    nodes = Following(mesh_of("a-b", "b-c"), alone)
    nodes.down.add("c")
    with pytest.raises(
        NotBegunError, match="c leaves and sends no heartbeats: start it, or take its"
    ):
        change(nodes, less).run(60)
    nodes.down.clear()
    change(nodes).run(60)
    nodes.down.add("c")
    assert change(nodes, less).run(60).pauses == {}
    assert in_force(nodes) == (3, less)


def test_a_node_that_comes_holds_before_others_switch_if_what_it_sends_could_stray() -> None:
    """b may still send to c what comes from a by the new link. Spec: K28."""
    nodes = Following(mesh_of("b-c", nodes="b c"), mesh_of("a-b"))
    nodes.stuck = {"a": Stage.HOLD}
    with pytest.raises(NotInTimeError, match="a still commits what it has taken"):
        change(nodes).run(5)
    assert {stage for _, stage in nodes.seen} == {Stage.HOLD}
    nodes.stuck = {}
    assert sorted(change(nodes).run(60).pauses) == ["a", "b", "c"]
    assert in_force(nodes) == (2, nodes.after)


def test_a_kafka_cluster_that_a_change_adds_may_have_less_of_it_than_the_others() -> None:
    nodes = Following(mesh_of("a-a2", nodes="a a2"), mesh_of("a-a2", "a2-b", nodes="a a2 b"))
    assert list(nodes.before.kafka) == ["left"]
    nodes.stuck = {"a": Stage.HOLD}
    with pytest.raises(NotInTimeError):
        change(nodes).run(3)
    left = {"left": nodes.kafka["left"]}
    found = begun(nodes)
    assert found is not None
    write_change(replace(found.change, stage=Stage.SWITCH), left, "mesh.")  # and the writer dies
    nodes.stuck = {}
    assert change(nodes).run(60).number == 2
    assert in_force(nodes) == (2, nodes.after)


def test_the_way_back_needs_nothing_that_the_change_would_have_added() -> None:
    nodes = Following(mesh_of("a-a2", nodes="a a2"), mesh_of("a-a2", "a2-b", nodes="a a2 b"))
    nodes.stuck = {"a": Stage.HOLD}
    with pytest.raises(NotInTimeError):
        change(nodes).run(3)
    nodes.stuck = {}
    means = replace(nodes.means(), kafka={"left": nodes.kafka["left"]})
    reports = nodes.reports()
    nodes.kafka["right"].available = False
    assert not abort_change(means, reports, begun(nodes)).run(60).is_in_force
    nodes.kafka["right"].available = True
    assert change(nodes).run(60).number == 3
    assert in_force(nodes) == (3, nodes.after)


def test_two_who_drive_one_change_come_to_the_same_end() -> None:
    """Whoever is behind goes on from where the other has come to; who went back, wins."""
    nodes = Following(*MOVED)
    nodes.stuck = {"b": Stage.HOLD}
    first = change(nodes)
    with pytest.raises(NotInTimeError):
        first.run(3)
    second = change(nodes)
    nodes.stuck = {}
    assert second.run(60).number == 2
    assert first.run(60).number == 2
    nodes.stuck = {"b": Stage.HOLD}
    third = change(nodes, nodes.before)
    with pytest.raises(NotInTimeError):
        third.run(3)
    abort_change(nodes.means(), nodes.reports(), begun(nodes)).run(60)
    with pytest.raises(NotInTimeError, match="somebody else has brought change 3 to stage abort"):
        third.run(60)


def test_of_two_who_begin_at_the_same_time_the_later_one_stops() -> None:
    """Both have looked before either wrote: what one drives is never taken for the other's."""
    nodes = Following(*MOVED)
    late = change(nodes, mesh_of("a-b", "a-c"))
    nodes.stuck = {"b": Stage.SWITCH}
    with pytest.raises(NotInTimeError, match="b does not work"):
        change(nodes).run(3)
    with pytest.raises(NotBegunError, match="somebody else has begun another change, 2"):
        late.run(3)
    nodes.stuck = {}
    assert change(nodes).run(60).is_in_force
    assert in_force(nodes) == (2, nodes.after)


def test_numbers_go_on_where_mesh_config_was_lost() -> None:
    """Nodes follow no change below one that they have followed. Spec: K28."""
    nodes = Following(*MOVED)
    assert change(nodes).run(60).number == 2
    means, reports = nodes.means(), nodes.reports()
    for kafka in nodes.kafka.values():
        kafka.recreate("mesh.config")
    by_file = TopologyInForce(number=0, topology=nodes.after)
    again = begin_change(replace(means, in_force=by_file), reports, nodes.before, None)
    assert again.way.target.number == 3
    assert again.run(60).is_in_force
    assert in_force(nodes) == (3, nodes.before)


def test_numbers_go_on_above_what_lanes_have_kept() -> None:
    """Of nodes that have started since `mesh.config` was lost, heartbeats say nothing of it."""
    nodes = Following(*MOVED)
    means, reports = nodes.means(), nodes.reports()
    for kafka in nodes.kafka.values():
        kafka.recreate("mesh.config")
    nodes.owed = {
        "b": [InterestInForce(0, [InForce(CHANGE, 6, 3)])],
        "c": [ErasBegun(TopicPartition("mesh.c.in.g", 0), 9, [EraBegan(0, Era(bytes(8), 7))])],
    }
    nodes.pause(1)
    by_file = TopologyInForce(number=0, topology=nodes.after)
    assert (
        begin_change(
            replace(means, in_force=by_file), reports, nodes.before, None
        ).way.target.number
        == 8
    )
    assert publish(nodes.after, nodes.kafka) == 8


def test_numbers_go_on_above_a_change_that_has_begun() -> None:
    """Its record stands there still, and nodes may have been told of it already."""
    nodes = Following(*MOVED)
    for kafka in nodes.kafka.values():
        kafka.recreate("mesh.config")
    write_change(Change(4, Stage.ABORT, published_text(nodes.after)), nodes.kafka, "mesh.")
    assert publish(nodes.before, nodes.kafka) == 5


def test_numbers_go_on_above_what_lanes_have_kept_where_mesh_config_lost_its_end() -> None:
    """What is in force stands there still, or again, and what came after it does not."""
    nodes = Following(*MOVED)
    nodes.owed = {"b": [InterestInForce(0, [InForce(CHANGE, 6, 3)])]}
    nodes.pause(1)
    assert in_force(nodes)[0] == 1
    under_way = change(nodes)
    assert under_way.way.target.number == 7
    assert under_way.run(60).is_in_force
