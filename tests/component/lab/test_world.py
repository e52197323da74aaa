"""The simulator's faults: paused workers, brokers that are down, several workers per node."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import (
    Clock,
    DeleteRecords,
    Drain,
    Expect,
    Kill,
    KillBroker,
    Pause,
    Publish,
    RecreateTopic,
    Resume,
    Settle,
    Start,
    StartBroker,
    Step,
    Stop,
    Subscribe,
    Truncate,
)
from mesh.transport.memory_clients import MemoryWriter
from mesh.transport.port import MEMBER_TIMEOUT_MS, TopicPartition

CHAIN = {
    "kafka": {"k": {}, "l": {"brokers": 3}},
    "nodes": {"a": {"kafka": "k", "lanes": 2}, "b": {"kafka": "l"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}},
}
CALM = [
    Subscribe(node="b", endpoint="s", filter=">"),
    Settle(),
]


def publish(count: int = 10) -> Step:
    return Publish(node="a", subject="x", count=count, payload="m")


def expect(count: int) -> Step:
    return Expect(endpoint="b/s", count=count)


DRAIN, SETTLE = Drain(), Settle()


class Lab:
    """A small mesh that runs steps one by one."""

    def __init__(self, workers: int = 2) -> None:
        self.topology = topology_from_mapping(CHAIN)
        self.backend = SimulatedBackend(self.topology, 1)
        self.workers = {"a": workers}

    def run(self, steps: Sequence[Step]) -> Sequence[dict[str, object]]:
        scenario = Scenario(
            name="small",
            seed=1,
            audit=False,
            topology=self.topology,
            steps=(*CALM, *steps),
            workers=self.workers,
        )
        return run_scenario(scenario, self.backend, backend_name="sim")["steps"]

    def owned(self) -> dict[str, list[int]]:
        return {
            name: sorted(worker.lanes.owned) if worker.lanes is not None else []
            for name, worker in self.backend.workers.items()
        }

    def let_pass(self, ms: int) -> None:
        end = self.backend.now_ms() + ms
        while self.backend.now_ms() < end:
            self.backend.advance()


def all_ok(steps: Sequence[dict[str, object]]) -> bool:
    return [step for step in steps if not step["ok"]] == []


def test_two_workers_share_the_lanes_and_one_takes_over() -> None:
    """Spec: K14, K15."""
    lab = Lab()
    steps = [publish(), DRAIN, Kill(node="a", worker=1), publish(), DRAIN, expect(20)]
    assert all_ok(lab.run(steps))
    assert lab.owned() == {"a": [0, 1], "b": [0]}
    lab.backend.start("a", 1)
    lab.let_pass(2_000)
    owned = lab.owned()
    assert sorted(owned["a"] + owned["a#1"]) == [0, 1]
    assert len(owned["a"]) == 1


def test_a_paused_worker_loses_its_lanes_after_the_member_timeout() -> None:
    """Spec: K15, DMR-6."""
    lab = Lab()
    assert all_ok(lab.run([publish(), DRAIN]))
    world = lab.backend
    world._paused["a"] = world.clock.ms
    lab.let_pass(MEMBER_TIMEOUT_MS - 1_000)
    assert lab.owned()["a#1"] != [0, 1]
    lab.let_pass(3_000)
    assert lab.owned()["a#1"] == [0, 1]
    lab.backend.resume("a")
    lab.let_pass(3_000)
    owned = lab.owned()
    assert sorted(owned["a"] + owned["a#1"]) == [0, 1]


def test_what_waits_for_a_paused_node_is_no_failure() -> None:
    lab = Lab()
    pause, resume = Pause(node="a"), Resume(node="a")
    steps = lab.run([pause, publish(), SETTLE, DRAIN, expect(0), resume, DRAIN, expect(10)])
    assert all_ok(steps)
    assert sum(steps[5]["detail"]["waiting"].values()) == 10


@pytest.mark.parametrize(
    ("kinds", "error"),
    [
        ([Resume], "a is not paused"),
        ([Pause, Pause], "a is paused"),
        ([Pause, Stop], "a is paused"),
        ([Kill, Pause], "a does not run"),
        ([Pause, Kill, Start, Resume], "a is not paused"),
    ],
)
def test_a_step_that_does_not_fit_fails(
    kinds: list[type[Kill | Start | Stop | Pause | Resume]], error: str
) -> None:
    steps = Lab().run([kind(node="a") for kind in kinds])
    assert [step["ok"] for step in steps[2:]] == [True] * (len(kinds) - 1) + [False]
    assert steps[-1]["detail"] == {"error": error}


def test_a_worker_that_is_killed_twice_fails() -> None:
    kill = Kill(node="a", worker=1)
    steps = Lab().run([kill, kill])
    assert steps[-1]["detail"] == {"error": "worker 1 of a does not run"}


def test_a_dead_kafka_cluster_ends_workers_and_they_come_back() -> None:
    """Spec: DMR-6."""
    lab = Lab()
    kill = KillBroker(kafka="k")
    begin = StartBroker(kafka="k")
    steps = lab.run([publish(), DRAIN, kill, publish(), begin, SETTLE, publish(), DRAIN])
    assert [step["ok"] for step in steps] == [True] * 5 + [False] + [True] * 4
    steps = Lab().run([publish(), DRAIN, kill, begin, SETTLE, publish(), DRAIN, expect(20)])
    assert all_ok(steps)


def test_most_brokers_are_enough() -> None:
    lab = Lab()
    first, second = (KillBroker(kafka="l", broker=number) for number in (1, 2))
    assert all_ok(lab.run([first, publish(), DRAIN, expect(10)]))
    lab.backend.kill_broker("l", second.broker)
    assert not lab.backend.kafka["l"].available
    lab.backend.start_broker("l", first.broker)
    assert lab.backend.kafka["l"].available


def test_a_wall_clock_that_jumps_changes_nothing_but_stamps() -> None:
    """Spec: DESIGN 4.3."""
    steps = []
    for jump_s in (3_600, -7_200):
        steps += [Clock(node="a", jump_s=jump_s), publish(), DRAIN]
    lab = Lab()
    assert all_ok(lab.run([*steps, expect(20)]))
    kafka = lab.backend.kafka["k"]
    assert kafka.now_ms() == lab.backend.now_ms() - 3_600_000


def test_the_newest_records_are_gone_after_a_truncation() -> None:
    lab = Lab()
    place = TopicPartition("mesh.a.in.g", 1)
    publish_one = Publish(node="a", subject="x", key="k1", count=5)
    cut = [Truncate(topic="mesh.a.in.g", partition=number, records=2) for number in range(4)]
    steps = lab.run([publish_one, DRAIN, *cut, DRAIN])
    told = [step["detail"] for step in steps if step["step"] == "truncate"]
    assert [one["end"] for one in told if "end" in one] == [3]
    assert sum("has 0 records and cannot lose 2" in one.get("error", "") for one in told) == 3
    assert all_ok([steps[-1]])
    admin = lab.backend.kafka["k"].admin()
    assert sorted(admin.ends([TopicPartition("mesh.a.in.g", n) for n in range(4)]).values()) == [
        0, 0, 0, 3,
    ]  # fmt: skip
    assert place in admin.ends([place])


def test_a_truncation_takes_the_marker_with_the_record() -> None:
    lab = Lab()
    lab.backend.kafka["k"].admin()
    kafka = lab.backend.kafka["k"]
    assert all_ok(lab.run([]))
    writer: MemoryWriter = kafka.writer("t", "some-id")
    for _ in range(2):
        writer.begin()
        writer.produce("mesh.a.in.g", b"1", None, 0)
        writer.commit()
    assert lab.backend.truncate(TopicPartition("mesh.a.in.g", 0), "k", 1) == 2


def test_deleted_records_and_topics_recreated() -> None:
    lab = Lab()
    endpoint = "mesh.b.ep.s"
    steps = [
        Publish(node="a", subject="x", key="k1", count=5),
        DRAIN,
        DeleteRecords(topic="mesh.a.in.g", partition=0, before=99),
    ]
    assert "beyond the end" in str(lab.run(steps)[-1]["detail"])
    lab = Lab()
    begins = [DeleteRecords(topic=endpoint, partition=n, before=0) for n in range(4)]
    remade = RecreateTopic(topic=endpoint)
    assert all_ok(lab.run([publish(), DRAIN, *begins, remade, SETTLE, publish(), DRAIN]))
    info = lab.backend.kafka["l"].admin()
    assert info.settings([endpoint])[endpoint]["retention.ms"] == "-1"
    assert sum(info.ends([TopicPartition(endpoint, n) for n in range(4)]).values()) > 0


def test_an_ingress_recreated_is_not_drained_by_what_was_read_of_the_former_one() -> None:
    """Spec: K4, lab.md 1 (`drain`)."""
    lab = Lab()
    remade = RecreateTopic(topic="mesh.a.in.g")
    drain = Drain(timeout=5)
    steps = lab.run([publish(30), DRAIN, remade, publish(3), drain])
    assert [step["ok"] for step in steps[-3:]] == [True, True, False]
    assert "mesh.a.in.g" in str(steps[-1]["detail"])
