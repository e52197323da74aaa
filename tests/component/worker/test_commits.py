"""Commits of lanes go side by side, and the loop waits for none that takes long.

Spec: K17, DESIGN 4.2.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial

import pytest

from mesh.errors import TransportError
from mesh.lab.world import VirtualClock
from mesh.model.control import BEAT_MS
from mesh.model.frames import MessageClass
from mesh.transport.memory_clients import MemoryWriter
from mesh.transport.port import TopicPartition
from mesh.worker.lanes import committing, owned
from mesh.worker.main import TURN_S
from mesh.worker.process.commits import ThreadedCommits
from mesh.worker.process.errands import LOOK_S
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said
from tests.sim.late_commits import LateCommits

TWO = {**CHAIN, "nodes": {node: {"lanes": 2, "partitions": 4} for node in "abc"}}
LONG = 1 << 30
ZERO, ONE, CONTROL = "mesh.a.lane.0", "mesh.a.lane.1", "mesh.a.control"
HELD = "mesh.c.lane.1.held"


class Slow:
    """Commits of which those of some writers take as long as somebody says."""

    def __init__(self) -> None:
        self.looks = {ZERO: 0, ONE: 0, CONTROL: 0}
        self.fails = False
        self.under_way: list[Future[None]] = []
        self.most = 0
        self.awaited: dict[str, None] = {}
        self.clock: VirtualClock | None = None

    def begin(self, commit: Callable[[], None]) -> Future[None]:
        name = _writer_of(commit).transactional_id or ""
        looks = self.looks.get(name, 0)
        late = LateCommits(lambda: looks, lambda: False, lambda: self.awaited.update({name: None}))
        if looks and self.fails:
            self.fails = False
            commit = _refuse
        self.under_way = [one for one in self.under_way if not Future.done(one)]
        begun = late.begin(commit)
        self.under_way.append(begun)
        self.most = max(self.most, len(self.under_way))
        return begun

    def wait(self, begun: Sequence[Future[None]], within_s: float) -> None:
        """Let the time pass, if there is anything to wait for and a clock to show it."""
        if begun and self.clock is not None:
            self.clock.ms += round(within_s * 1000)

    def close(self) -> None:
        """Do nothing."""


def _writer_of(commit: Callable[[], None]) -> MemoryWriter:
    """Return who writes what is committed: alone, or with the rows before."""
    bound = commit.args[0] if isinstance(commit, partial) else commit.__self__  # type: ignore[attr-defined]
    assert isinstance(bound, MemoryWriter)
    return bound


def _refuse() -> None:
    raise TransportError("the commit failed")


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def mesh(slow: Slow) -> SmallMesh:
    return SmallMesh(TWO, commits=lambda: slow)


def publish(mesh: SmallMesh, *numbers: int) -> None:
    """Publish each number in the partition of its parity: lane 0 has the even ones."""
    for number in numbers:
        mesh.publish(b"%d" % number, [subject("x")], partition=number % 2)


def came(mesh: SmallMesh, parity: int) -> list[int]:
    numbers = [int(record.value() or b"") for record in mesh.delivered()]
    return [number for number in numbers if number % 2 == parity]


def test_commits_of_two_lanes_are_under_way_together(mesh: SmallMesh, slow: Slow) -> None:
    slow.looks = {ZERO: 3, ONE: 3}
    publish(mesh, *range(10))
    mesh.run()
    assert slow.most == 2
    assert (came(mesh, 0), came(mesh, 1)) == ([0, 2, 4, 6, 8], [1, 3, 5, 7, 9])
    assert not slow.awaited


def test_a_commit_that_takes_long_keeps_nobody_else_waiting(mesh: SmallMesh, slow: Slow) -> None:
    """Its lane reads nothing meanwhile, and goes on where it stood."""
    slow.looks[ONE] = LONG
    for number in range(10):
        publish(mesh, number)
        mesh.run(1_000)
    assert (came(mesh, 0), came(mesh, 1)) == ([0, 2, 4, 6, 8], [])
    assert not slow.awaited
    slow.looks[ONE] = 0
    for late in slow.under_way:
        late._looks = 0
    mesh.run()
    assert came(mesh, 1) == [1, 3, 5, 7, 9]


def test_a_batch_that_is_full_keeps_nobody_else_waiting(
    mesh: SmallMesh, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What of its lane was fetched behind it is fetched again."""
    monkeypatch.setattr(owned, "BATCH_RECORDS", 3)
    slow.looks[ONE] = LONG
    publish(mesh, *range(20))
    mesh.run(1_000)
    publish(mesh, *range(20, 30))
    mesh.run(1_000)
    assert (came(mesh, 0), came(mesh, 1)) == ([*range(0, 30, 2)], [])
    assert not slow.awaited
    slow.looks[ONE] = 0
    for late in slow.under_way:
        late._looks = 0
    mesh.run()
    assert came(mesh, 1) == [*range(1, 30, 2)]


def test_a_link_that_is_full_is_held_amid_what_a_lane_decides(slow: Slow) -> None:
    """What the open batch has read it has written; the hold begins behind that. Spec: K20, R14."""
    limits = [{"link": ["a", "b"], "outboxBytes": 1_000, "whenFull": "stop"}]
    mesh = SmallMesh({**TWO, "limits": limits}, commits=lambda: slow)
    mesh.subscribe("a", "own", ">")
    mesh.run()
    mesh.world.workers["b"].isolate(["a"])
    slow.looks[ONE] = 2
    for number in range(60):
        publish(mesh, number)
        mesh.run(50)
    assert mesh.world.workers["a"].lanes.owned[1].holds_target("mesh.a.to.b.g")
    assert not slow.awaited
    mesh.world.workers["b"].isolate([])
    slow.looks[ONE] = 0
    mesh.run(20_000)
    assert (came(mesh, 0), came(mesh, 1)) == ([*range(0, 60, 2)], [*range(1, 60, 2)])
    assert len(mesh.read(mesh.names.endpoint("a", "own"))) == 60
    assert not slow.awaited


def test_all_commits_of_a_turn_are_waited_for_together(
    mesh: SmallMesh, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many batches are full: no turn is longer than one of them would make it."""
    monkeypatch.setattr(owned, "BATCH_RECORDS", 3)
    slow.looks[ZERO] = slow.looks[ONE] = LONG
    slow.clock = clock = mesh.world.clock
    publish(mesh, *range(20))
    turns = []
    for _ in range(20):
        before_ms = clock.ms
        mesh.world.workers["a"].turn(0)
        turns.append(clock.ms - before_ms)
    assert sum(not Future.done(one) for one in slow.under_way) == 2
    assert max(turns) == committing.MOMENT_S * 1000


def test_lanes_that_are_handed_back_are_waited_for_together(mesh: SmallMesh, slow: Slow) -> None:
    """Also where one of them has yet to begin its last commit when the other's takes too long."""
    slow.looks[ZERO] = slow.looks[ONE] = LONG
    publish(mesh, 1)
    mesh.run(1_000)
    slow.clock = clock = mesh.world.clock
    lanes, before_ms = mesh.world.workers["a"].lanes, clock.ms
    lanes.owned[0].open(clock.ms)
    lanes.hand_back([0, 1])
    assert len(slow.under_way) == 2
    assert clock.ms - before_ms == committing.LAST_S * 1000


def test_lanes_that_are_handed_back_wait_for_no_broker_that_does_not_answer(
    said: Said, mesh: SmallMesh, slow: Slow
) -> None:
    """Whoever takes them finds in the log what came of it. Spec: K12, K16."""
    slow.looks[ONE] = LONG
    publish(mesh, *range(6))
    mesh.run(1_000)
    publish(mesh, *range(6, 8))
    lanes = mesh.world.workers["a"].lanes
    lanes.hand_back([0, 1])
    assert not slow.awaited
    assert not lanes.owned
    fault = "brokers do not answer"
    assert said.of("lane.not_committed") == [{"log_level": "info", "lane": 1, "fault": fault}]
    slow.looks[ONE] = 0
    mesh.run()
    assert (came(mesh, 0), came(mesh, 1)) == ([0, 2, 4, 6], [1, 3, 5, 7])


def test_one_that_fails_late_has_its_lane_taken_anew(
    said: Said, mesh: SmallMesh, slow: Slow
) -> None:
    """What was read meanwhile was read by nobody. Spec: K12."""
    slow.looks[ONE], slow.fails = 20, True
    publish(mesh, *range(10))
    mesh.run()
    publish(mesh, *range(10, 14))
    mesh.run()
    assert (came(mesh, 0), came(mesh, 1)) == ([*range(0, 14, 2)], [*range(1, 14, 2)])
    assert not slow.fails
    [told] = said.of("lane.failed")
    assert (told["log_level"], told["lane"]) == ("warning", 1)
    assert told["fault"]


def test_what_is_decided_behind_a_commit_that_fails_is_written_by_nobody(
    mesh: SmallMesh, slow: Slow
) -> None:
    """The lane is ahead of its log then, and all of it is thrown away. Spec: K12."""
    slow.looks[ONE], slow.fails = LONG, True
    publish(mesh, 1)
    mesh.run(1_000)
    mesh.subscribe("a", "own", ">")
    mesh.run(1_000)
    lane = mesh.world.workers["a"].lanes.owned[1]
    assert lane.closing is not None
    assert lane.batch is not None
    assert not slow.awaited
    slow.looks[ONE] = slow.under_way[0]._looks = 0
    mesh.run()
    assert mesh.world.workers["a"].lanes.owned[1] is not lane
    publish(mesh, 3)
    mesh.run()
    assert came(mesh, 1) == [1, 3]


def test_nobody_is_told_of_positions_before_they_are_committed(mesh: SmallMesh, slow: Slow) -> None:
    """Who hears of them deletes what lies below; a successor would look for it there. Spec: K5."""
    slow.looks[ONE] = LONG
    publish(mesh, 1)
    mesh.run(1_000)
    lanes = mesh.world.workers["a"].lanes
    at = TopicPartition("mesh.a.in.g", 1)
    assert lanes.owned[1].closing is not None
    assert (lanes.read_positions(None)[at].read, lanes.read_positions(None)[at].needed) == (0, 0)
    slow.looks[ONE] = slow.under_way[0]._looks = 0
    mesh.run()
    assert (lanes.read_positions(None)[at].read, lanes.read_positions(None)[at].needed) == (1, 1)


def test_interest_that_changes_meanwhile_is_cut_behind_it(mesh: SmallMesh, slow: Slow) -> None:
    """The lane reads nothing before, so nothing goes by the new routing uncut. Spec: K25."""
    slow.looks[ONE] = 100
    publish(mesh, 1)
    mesh.run(200)
    mesh.subscribe("c", "late", ">")
    mesh.run(500)
    publish(mesh, 3)
    mesh.run(10_000)
    assert came(mesh, 1) == [1, 3]
    late = [record.value() for record in mesh.read(mesh.names.endpoint("c", "late"))]
    assert late in ([b"1", b"3"], [b"3"])  # where c had the endpoint before it got the first
    assert not slow.awaited


@pytest.mark.parametrize("comes_about", [False, True])
def test_who_loses_a_lane_meanwhile_waits_for_nobody(
    mesh: SmallMesh, slow: Slow, comes_about: bool
) -> None:
    """Brokers may not answer; the lane is taken from what is in the log. Spec: K12, K16."""
    slow.looks[ONE] = LONG
    publish(mesh, *range(4))
    mesh.run(1_000)
    lanes = mesh.world.workers["a"].lanes
    if comes_about:
        slow.under_way[0].commit()
    lanes.drop(1)
    assert not slow.awaited
    slow.looks[ONE] = 0
    mesh.run()
    publish(mesh, *range(4, 8))
    mesh.run()
    assert (came(mesh, 0), came(mesh, 1)) == ([0, 2, 4, 6], [1, 3, 5, 7])


def test_who_dies_meanwhile_has_committed_nothing(mesh: SmallMesh, slow: Slow) -> None:
    slow.looks[ONE] = LONG
    publish(mesh, *range(6))
    mesh.run(1_000)
    mesh.world.kill("a")
    slow.looks[ONE] = 0
    mesh.world.start("a")
    mesh.run()
    assert (came(mesh, 0), came(mesh, 1)) == ([0, 2, 4], [1, 3, 5])


def test_what_a_node_says_of_itself_keeps_no_lane_waiting(mesh: SmallMesh, slow: Slow) -> None:
    """What is to be said meanwhile is said afterwards, all of it. Spec: K23."""
    slow.looks[CONTROL] = LONG
    mesh.run(2_000)
    mesh.subscribe("a", "own", ">")
    publish(mesh, *range(4))
    mesh.run(1_500)
    assert (came(mesh, 0), came(mesh, 1)) == ([0, 2], [1, 3])
    own = mesh.read(mesh.names.endpoint("a", "own"))
    assert not slow.awaited
    before = len(mesh.read("mesh.a.control"))
    slow.looks[CONTROL] = 0
    for late in slow.under_way:
        late._looks = 0
    mesh.run()
    assert len(mesh.read("mesh.a.control")) > before
    publish(mesh, 4)
    mesh.run()
    assert len(mesh.read(mesh.names.endpoint("a", "own"))) == len(own) + 1
    assert not slow.awaited


def test_the_end_of_what_a_node_says_is_looked_for_soon_only_where_more_is_to_be_said(
    mesh: SmallMesh, slow: Slow
) -> None:
    """Else each heartbeat costs a turn every few milliseconds, as long as its commit takes."""
    worker = mesh.world.workers["a"]
    slow.looks[CONTROL] = LONG
    for _ in range(2_000):
        if worker._leadership._pending.is_any:
            break
        mesh.run(1)
    assert worker.patience(TURN_S) == TURN_S
    mesh.run(2 * BEAT_MS)
    assert worker.patience(TURN_S) == LOOK_S


def test_a_node_whose_words_were_not_committed_says_them_again(mesh: SmallMesh, slow: Slow) -> None:
    """Who leads anew compares what is written with what should be. Spec: K16, K23."""
    leadership = mesh.world.workers["a"]._leadership
    epoch = leadership.incarnation.epoch
    slow.looks[CONTROL], slow.fails = 20, True
    mesh.subscribe("a", "own", "y/>")
    mesh.run()
    assert not slow.fails
    assert leadership.incarnation.epoch == epoch + 1
    mesh.write(mesh.names.ingress("c", MessageClass.GUARANTEED), b"1", headers=[subject("y/1")])
    mesh.run()
    assert [one.value() for one in mesh.read(mesh.names.endpoint("a", "own"))] == [b"1"]


@pytest.mark.parametrize("fails", [False, True])
def test_a_target_that_is_caught_up_keeps_nobody_waiting(
    mesh: SmallMesh, slow: Slow, fails: bool
) -> None:
    """With the last of it its lane stands still, or it would be ahead again. Spec: K20."""
    mesh.subscribe("c", "t", ">")
    mesh.run()
    mesh.kafka.denied["mesh.c.ep.s"] = "no right"
    publish(mesh, *range(6))
    mesh.run(10_000)
    del mesh.kafka.denied["mesh.c.ep.s"]
    slow.looks[HELD], slow.fails, stood_still = 60, fails, 0
    for number in range(6, 60):
        publish(mesh, number)
        mesh.run(500)
        meeting = mesh.world.workers["c"].lanes.sources.gate.meeting
        stood_still += 1 in meeting
        others = [int(one.value() or b"") for one in mesh.read(mesh.names.endpoint("c", "t"))]
        assert {one for one in others if one % 2 == 0} >= set(range(0, number - 1, 2))
    mesh.run(20_000)
    assert stood_still
    assert (came(mesh, 0), came(mesh, 1)) == ([*range(0, 60, 2)], [*range(1, 60, 2)])
    assert HELD not in slow.awaited
    assert not slow.fails


def test_threads_wait_side_by_side() -> None:
    threads, gates = ThreadedCommits(), [threading.Event(), threading.Event()]
    begun = [threads.begin(lambda gate=gate: gate.wait(20) and None) for gate in gates]
    gates[1].set()
    begun[1].result(20)
    threads.wait(begun, 0.01)
    assert not begun[0].done()
    gates[0].set()
    assert begun[0].result(20) is None
    threads.close()


@pytest.mark.parametrize("looks", [1, 2, 3, 4])
def test_what_is_at_hand_of_a_lane_whose_commit_ends_amid_a_turn_comes_once(
    monkeypatch: pytest.MonkeyPatch, looks: int
) -> None:
    """Its sources are read on from where they stood: what this turn had fetched comes again."""
    slow = Slow()
    mesh = SmallMesh(TWO, commits=lambda: slow)
    mesh.subscribe("a", "own", "x")
    mesh.run()
    for partition in range(4):
        mesh.publish(b"warm", [subject("x")], partition=partition)
    mesh.run()
    monkeypatch.setattr(owned, "BATCH_RECORDS", 4)
    slow.looks = {ZERO: looks, ONE: looks}
    sent = [
        (partition, number) for partition in range(4) for number in range(4 - partition // 2 * 3)
    ]
    for partition, number in sent:
        mesh.publish(b"%d-%d" % (partition, number), [subject("x")], partition=partition)
    mesh.run()
    slow.looks = {ZERO: 0, ONE: 0}
    mesh.run()
    values = [one.value() for one in mesh.read(mesh.names.endpoint("a", "own"))]
    come = sorted(value for value in values if value != b"warm")
    assert come == sorted(b"%d-%d" % one for one in sent)
