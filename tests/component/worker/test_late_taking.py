"""A lane moves on while it is being taken: whoever owns it in the end serves it. Spec: K16, K18."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from mesh.lab.world import kafka_of
from mesh.transport.memory_group import MemoryMembership
from mesh.transport.port import BEGINNING, TopicPartition
from mesh.worker.lanes.takeover_waits import WORKER_LEARNS_FIRST_MS
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.intake import PolledIntake
from mesh.worker.worker import Worker
from tests.component.worker.conftest import CHAIN, SmallMesh, subject

TWO_LANES = {**CHAIN, "nodes": {"a": {"lanes": 2, "partitions": 2}, "b": {}, "c": {}}}
FOREVER = 1_000_000


@dataclass
class Rests:
    """How many looks late the next step of a taking comes; the test turns it."""

    looks: int = 0

    def __call__(self) -> int:
        return self.looks


@dataclass
class Mates:
    """Node a with two lanes and up to two workers; the first runs and owns both.

    Attributes:
        rests: Of the takings of both.
    """

    mesh: SmallMesh
    rests: Rests = field(default_factory=Rests)
    workers: dict[str, Worker] = field(default_factory=dict)

    def start(self, name: str) -> Worker:
        world = self.mesh.world
        clusters = kafka_of(world.topology, "a", world.kafka)
        readers = {kafka: one.reader(f"mesh-a-{name}") for kafka, one in clusters.items()}
        worker = Worker(
            world.topology,
            "a",
            clusters,
            readers,
            PolledIntake(readers),
            world.clock,
            SteppedErrands(self.rests),
            lambda: "uuid-of-a",
        )
        self.workers[name] = worker
        return worker

    def run(self, ms: int) -> None:
        """Give everybody turns for so long."""
        end = self.mesh.world.clock.ms + ms
        while self.mesh.world.clock.ms < end:
            for worker in list(self.workers.values()):
                worker.turn(0)
            self.mesh.world.advance()

    def until(self, is_so: Callable[[], bool]) -> None:
        """Give everybody turns until something is so."""
        for _ in range(3_000):
            if is_so():
                return
            self.run(1)
        raise AssertionError("it never came to that")

    def owned(self, name: str) -> list[int]:
        lanes = self.workers[name].lanes
        return [] if lanes is None else sorted(lanes.owned)

    def taking(self, name: str) -> list[int]:
        lanes = self.workers[name].lanes
        return [] if lanes is None else sorted(lanes._takings)

    def leave(self, name: str) -> None:
        """Have the group take a worker for dead; it finds out at its next poll."""
        member = self.workers.pop(name).membership
        assert isinstance(member, MemoryMembership)
        member.crash()

    def publish(self, *numbers: int) -> None:
        """Publish each number to both lanes."""
        for partition in (0, 1):
            for number in numbers:
                text = b"%d" % number
                self.mesh.write("mesh.a.in.g", text, partition=partition, headers=[subject("x")])

    def delivered(self, lane: int) -> list[int]:
        reader = self.mesh.kafka.reader("test")
        reader.assign({TopicPartition("mesh.a.ep.own", lane): BEGINNING})
        return [int(record.value() or b"") for record in reader.read(0, 10_000)]


@pytest.fixture
def mates() -> Mates:
    mesh = SmallMesh(TWO_LANES)
    mesh.world.kill("a")
    made = Mates(mesh)
    made.start("first")
    mesh.subscribe("a", "own", ">")
    made.until(lambda: made.owned("first") == [0, 1])
    made.run(2_000)
    return made


def test_other_lanes_go_on_while_one_is_taken(mates: Mates) -> None:
    """Its records wait, theirs do not."""
    mates.start("second")
    mates.until(lambda: mates.owned("second") != [])
    [stays] = mates.owned("first")
    mates.publish(0)
    mates.run(2_000)  # whose the first records are is known: that is asked beside the loop too
    mates.rests.looks = FOREVER
    mates.leave("second")
    mates.until(lambda: mates.taking("first") == [1 - stays])
    mates.publish(1, 2)
    mates.run(2_000)
    assert mates.delivered(stays) == [0, 1, 2]
    assert mates.delivered(1 - stays) == [0]
    mates.leave("first")
    mates.rests.looks = 0
    mates.start("third")
    mates.until(lambda: mates.owned("third") == [0, 1])
    mates.run(2_000)
    assert mates.delivered(1 - stays) == [0, 1, 2]
    assert mates.delivered(stays) == [0, 1, 2]


def test_a_lane_that_moved_on_is_closed_and_never_routed(mates: Mates) -> None:
    """Its steps come late; the mate that has it is not fenced by those that never began."""
    mates.rests.looks = 40
    mates.start("second")
    mates.until(lambda: mates.taking("second") != [])
    [number] = mates.taking("second")
    second = mates.workers["second"]
    mates.leave("second")
    mates.rests.looks = 0
    mates.until(lambda: mates.owned("first") == [0, 1])
    mates.workers["second"] = second
    second.membership.lanes = frozenset
    second.membership.poll = lambda: None
    mates.publish(1)
    mates.until(lambda: mates.taking("second") == [])
    mates.publish(2)
    mates.run(2_000)
    assert mates.owned("second") == []
    assert mates.owned("first") == [0, 1]
    assert mates.delivered(number) == [1, 2]


def test_who_is_overtaken_between_two_steps_gets_nothing(
    mates: Mates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still believes that the lane is its own, but cannot raise the epoch. Spec: K16."""
    mates.start("second")
    mates.until(lambda: len(mates.owned("second")) == 1)
    [number] = mates.owned("second")
    second = mates.workers["second"]
    assigned = second.membership.lanes()
    second.lanes.drop(number)
    mates.rests.looks = 30
    mates.until(lambda: mates.taking("second") == [number])
    for _ in range(45):  # the first step is done, the second is not
        second.turn(0)
    mates.leave("second")
    mates.rests.looks = 0
    mates.until(lambda: mates.owned("first") == [0, 1])
    second.membership.lanes = lambda: assigned
    second.membership.poll = lambda: None
    told: list[str] = []
    monkeypatch.setattr(
        "mesh.worker.lanes.owned.log.warning", lambda event, **_: told.append(event)
    )
    mates.workers["second"] = second
    mates.until(lambda: "lane.not_taken" in told)
    del mates.workers["second"]
    mates.publish(1, 2)
    mates.run(2_000)
    assert mates.delivered(number) == [1, 2]


def test_a_late_first_step_fences_the_owner_who_takes_its_lane_again(mates: Mates) -> None:
    """A thread that hung before it reached the brokers: nothing is lost or doubled. Spec: R7."""
    mates.publish(1)
    mates.run(500)
    names = mates.mesh.names
    writer = mates.mesh.kafka.writer("lane-1", names.lane_transactions("a", 1))
    mates.publish(2, 3)
    mates.run(2_000)
    writer.close()
    assert mates.owned("first") == [0, 1]
    assert [mates.delivered(lane) for lane in (0, 1)] == [[1, 2, 3]] * 2


def test_a_worker_that_stops_while_it_takes_leaves_the_lane_to_others(mates: Mates) -> None:
    """What it was about to take is called off before it leaves the group. Spec: K15."""
    mates.rests.looks = 5
    mates.start("second")
    mates.until(lambda: mates.taking("second") != [])
    second = mates.workers.pop("second")
    [errand] = second.lanes._takings.values()
    second.close()
    assert errand.is_off
    mates.rests.looks = 0
    mates.publish(1, 2)
    mates.until(lambda: mates.owned("first") == [0, 1])
    mates.run(2_000)
    assert [mates.delivered(lane) for lane in (0, 1)] == [[1, 2]] * 2


def test_who_joins_others_knows_the_interest_before(mates: Mates) -> None:
    """Else a lane that serves would pause until its new owner is ready. Spec: K15, DMR-7."""
    second = mates.start("second")
    seen: list[bool] = []

    def has_joined() -> bool:
        if second.membership is None:
            assert mates.owned("first") == [0, 1]
            seen.append(second.machine is not None)
        return second.membership is not None

    mates.until(has_joined)
    assert second.machine is not None
    assert second.machine.has_routed
    assert seen
    mates.until(lambda: len(mates.owned("second")) == 1)


def test_who_cannot_learn_the_interest_joins_at_last(mates: Mates) -> None:
    """A neighbour that cannot be read keeps nobody from helping for ever."""
    clock = mates.mesh.world.clock
    mates.mesh.kafka.blocked.add(("mesh-a-second", "mesh.b.control"))
    second = mates.start("second")
    began = clock.ms
    mates.until(lambda: second.membership is not None)
    assert WORKER_LEARNS_FIRST_MS <= clock.ms - began < WORKER_LEARNS_FIRST_MS + 1_000


def test_who_comes_to_a_node_that_nobody_serves_joins_at_once(mates: Mates) -> None:
    """Only the leader's identity record says who the node is: nobody else may ever write it."""
    mates.leave("first")
    worker = mates.start("next")
    worker.turn(0)
    assert worker.membership is not None
