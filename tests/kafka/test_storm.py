"""A short storm of kills on real brokers, and the faults that need real brokers and files."""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.client import QueueConsumer, QueueMessage, connect
from mesh.client.role_messages import RoleMessage
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.play import run_step
from mesh.lab.real import RealBackend
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.schedule import storm_schedule
from mesh.lab.steps import (
    Clock,
    DeleteRecords,
    Drain,
    Heal,
    Kill,
    KillBroker,
    Pause,
    Publish,
    RecreateTopic,
    Resume,
    Settle,
    Slow,
    Start,
    StartBroker,
    Step,
    Stop,
    Storm,
    Subscribe,
    Truncate,
    Wait,
)
from mesh.lab.tally import Tally
from mesh.local.fleet import Fleet
from mesh.local.jars import KafkaSoftware
from mesh.model.control import StopReason
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.model.tree_frames import ReplyKind
from mesh.transport.kafka.settings import MESSAGE_TIMEOUT_MS
from mesh.transport.port import Record, TopicPartition
from mesh.view.mesh_view import MeshView
from mesh.wire.control import decode_stop
from tests.conftest import ClustersOf
from tests.kafka.fleets import EXAMPLES
from tests.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.kafka

KILLS = 50
INGRESS = "mesh.a.in.g"
STORM = Storm(
    seed=2,
    seconds=70,
    rate=100,
    every_s=0.9,
    faults=["kill", "kill", "kill", "kill", "kill", "kill", "kill", "kill", "cut", "slow"],
)


def planned(topology: Topology, storm: Storm, workers: Mapping[str, int]) -> Mapping[str, int]:
    """Return how many faults of each kind a storm is to have."""
    return Counter(fault.kind for fault in storm_schedule(topology, storm, workers))


def kills(topology: Topology, storm: Storm, workers: Mapping[str, int]) -> int:
    """Return how many worker processes a storm kills."""
    found = 0
    for fault in storm_schedule(topology, storm, workers):
        if isinstance(kill := fault.begin, Kill):
            found += workers.get(kill.node, 1) if kill.worker is None else 1
    return found


def test_fifty_kills_under_load(kafka_clusters: ClustersOf, tmp_path: Path) -> None:
    """Spec: DESIGN 6, K11, K16, K18, reliability.md 5 (row 1)."""
    calm = load_scenario(EXAMPLES / "storm.yaml")
    topology = replace(calm.topology, prefix=f"t{uuid.uuid4().hex[:8]}.")
    steps = [step for step in calm.steps if step.word != "storm"]
    steps.append(STORM.model_copy(update={"timeout": PATIENCE_S}))
    scenario = replace(calm, topology=topology, steps=tuple(steps))
    assert kills(topology, STORM, scenario.workers) >= KILLS
    write_topology(topology, tmp_path / "mesh.yaml")
    addresses = dict(zip(topology.kafka, kafka_clusters(3), strict=True))
    fleet = Fleet.start(topology, tmp_path / "mesh.yaml", tmp_path, addresses=addresses)
    try:
        backend = RealBackend(fleet)
        history = tmp_path / "history.jsonl"
        result = run_scenario(scenario, backend, backend_name="kafka", history=history)
        backend.close()
    finally:
        fleet.stop()
    found = result.get("checker", {}).get("anomalies")
    assert [step for step in result["steps"] if not step["ok"]] == [], found
    checker = result["checker"]
    assert checker["anomalies"] == []
    assert checker["ok"]
    assert checker["published"]["ok"] > 2_000
    assert checker["delivered"] >= checker["owed"] > 5_000
    assert checker["faults"] == planned(topology, STORM, scenario.workers)
    assert checker["workers_fallen"] == []


@pytest.fixture
def alone(tmp_path: Path, kafka_software: KafkaSoftware) -> Iterator[Fleet]:
    """Two nodes on an embedded Kafka cluster of their own, which may be maltreated."""
    topology = topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {"a": {"kafka": "k"}, "b": {"kafka": "k"}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}},
            "roles": {"pingEvery": "100ms", "pingsMissed": 100},
        }
    )
    write_topology(topology, tmp_path / "mesh.yaml")
    fleet = Fleet.start(topology, tmp_path / "mesh.yaml", tmp_path, software=kafka_software)
    try:
        yield fleet
    finally:
        fleet.stop()


class Bench:
    """A driver on the fleet, and what it has run so far."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.backend = RealBackend(fleet)
        topology = fleet.topology
        self.tally = Tally(topology, self.backend.kafka, self.backend.now_ms)
        view = MeshView(topology, self.backend.kafka, self.backend.now_ms)
        self.driver = Driver(topology, self.backend, self.tally, view)
        self.admin = self.backend.kafka["k"].admin()
        self.number = 0

    def run(self, step: Step) -> Mapping[str, object]:
        self.number += 1
        return run_step(self.driver, self.number, step)

    def publish(self, count: int) -> None:
        self.run(Publish(node="a", subject="x", key="k", count=count))

    def settle(self) -> None:
        self.run(Settle(timeout=PATIENCE_S))

    def drain(self) -> Mapping[str, int]:
        return self.run(Drain(timeout=PATIENCE_S))["waiting"]

    def holds(self, count: int) -> bool:
        endpoint = self.tally.endpoints["b/s"]
        return (endpoint.count, endpoint.distinct, endpoint.disordered) == (count, count, 0)

    def ends(self) -> dict[int, int]:
        places = [TopicPartition(INGRESS, number) for number in range(4)]
        return {place.partition: end for place, end in self.admin.ends(places).items()}

    def close(self) -> None:
        self.driver.close()
        self.backend.close()


@pytest.fixture
def bench(alone: Fleet) -> Iterator[Bench]:
    made = Bench(alone)
    try:
        made.run(Subscribe(node="b", endpoint="s", filter=">"))
        made.settle()
        made.publish(20)
        made.drain()
        assert made.holds(20)
        yield made
    finally:
        made.close()


def test_faults_of_workers_and_links(bench: Bench) -> None:
    """Spec: DMR-6, DESIGN 4.3, reliability.md 5 (rows 4, 15, 47)."""
    bench.backend.guard()
    [fallen] = bench.fleet.workers["b"]
    fallen.kill()  # by nobody whom the lab knows of
    wait_until("it is noticed", lambda: bench.backend.advance() or bench.backend.guarded())
    assert [told.partition(":")[0] for told in bench.backend.guarded()] == [fallen.name]
    bench.run(Pause(node="b"))
    bench.publish(20)
    assert sum(bench.drain().values()) > 0
    assert bench.holds(20)
    bench.run(Resume(node="b"))
    bench.drain()
    assert bench.holds(40)
    bench.run(Slow(link=["b", "a"], delay_ms=1_500, loss=0.2))
    bench.run(Clock(node="a", jump_s=-3_600))
    began = time.monotonic()
    bench.publish(20)
    bench.drain()
    assert time.monotonic() - began > 1.4
    assert bench.holds(60)
    bench.run(Heal(link=["a", "b"]))
    bench.publish(20)
    bench.drain()
    assert bench.holds(80)


class Speakers:
    """An application at b that has a role, and one at a that asks it."""

    def __init__(self, fleet: Fleet, ends: ExitStack) -> None:
        self.told: list[object] = []
        self.asker, self.host = (
            ends.enter_context(connect(fleet.topology, node)).roles("app").open(PATIENCE_S)
            for node in "ab"
        )
        self.asker.listener = self.host.listener = self.told.append
        self.iid = self.host.add("desk", "pricing", timeout_s=PATIENCE_S)

    def until(self, what: str, condition: Callable[[], bool]) -> None:
        """Let the two live until a condition holds."""

        def holds() -> bool:
            for one in (self.asker, self.host):
                one.step(0.05)
            return condition()

        wait_until(what, holds, pace_s=0)


def restart_broker(bench: Bench) -> None:
    """Take the broker away for longer than records of transactions wait for one.

    Frames under way are lost then, unless they wait for as long as their incarnation does.
    """
    bench.run(KillBroker(kafka="k"))
    bench.run(Wait(seconds=MESSAGE_TIMEOUT_MS / 1000 + 1.5))
    bench.run(StartBroker(kafka="k"))
    bench.settle()


def test_faults_of_brokers_and_logs(bench: Bench) -> None:
    """Spec: DMR-6, reliability.md 5 (rows 17, 23, 27, 30); roles go on: tree_layer 12 (b)."""
    with ExitStack() as ends:
        speakers = Speakers(bench.fleet, ends)
        call = speakers.asker.send("desk", "pricing", b"?")
        messages: list[RoleMessage] = []
        speakers.until(
            "the message", lambda: bool(messages.extend(speakers.host.taken()) or messages)
        )
        speakers.told.clear()
        with ThreadPoolExecutor(1) as pool:
            restarted = pool.submit(restart_broker, bench)
            speakers.until("the broker is back", restarted.done)
        restarted.result()
        messages[0].answer(b"still here")
        speakers.until("the answer", lambda: call.is_done)
        answers = [
            (one.payload, one.cause) for one in call.replies if one.kind is not ReplyKind.END
        ]
        assert answers == [(b"still here", None)]
        assert list(speakers.host.held.values()) == [speakers.iid]
        assert not speakers.told
    bench.publish(20)
    bench.drain()
    assert bench.holds(40)
    bench.run(Stop(node="a"))
    bench.publish(20)
    before = bench.ends()
    [partition] = [number for number, end in before.items() if end]
    # A batch goes as a whole: the client library wrote these twenty in one or a few.
    cut = Truncate(topic=INGRESS, partition=partition, records=5)
    end = bench.run(cut)["end"]
    assert 40 <= end <= 55
    assert bench.ends() == {**before, partition: end}
    bench.publish(1)
    assert bench.ends()[partition] == end + 1
    with pytest.raises(StepFailedError, match="cannot lose 1000"):
        bench.run(Truncate(topic=INGRESS, partition=partition, records=1_000))
    bench.run(DeleteRecords(topic=INGRESS, partition=partition, before=3))
    assert (
        bench.admin.starts([TopicPartition(INGRESS, partition)])[TopicPartition(INGRESS, partition)]
        == 3
    )
    former = bench.admin.describe([INGRESS])[INGRESS]
    bench.run(RecreateTopic(topic=INGRESS))
    recreated = bench.admin.describe([INGRESS])[INGRESS]
    assert recreated.topic_id != former.topic_id
    assert set(bench.ends().values()) == {0}
    assert bench.admin.settings([INGRESS])[INGRESS]["retention.ms"] == "-1"


def test_an_ingress_that_has_grown_again_over_what_it_lost_stops(bench: Bench) -> None:
    """The offsets of what was lost are other records: they have a later leader. Spec: R6."""
    bench.publish(10)
    bench.drain()
    bench.run(Stop(node="a"))
    [(partition, read)] = [(number, end) for number, end in bench.ends().items() if end]
    place = TopicPartition(INGRESS, partition)
    cut = Truncate(topic=INGRESS, partition=partition, records=5)
    end = int(str(bench.run(cut)["end"]))
    assert end < read
    bench.publish(30)
    assert bench.ends()[partition] > read
    [before, *_] = take_from(bench, place, end - 1, 1)
    assert bench.admin.agrees_until(place, before.leader_epoch() or 0, read) == end
    bench.run(Start(node="a"))
    control = TopicPartition(TopicNames().control("a"), 0)
    told: list[bytes | None] = []

    def is_told() -> bool:
        bench.backend.advance()
        records = take_from(bench, control, 0, bench.admin.ends([control])[control])
        told[:] = [one.value() for one in records if (one.key() or b"").startswith(b"stop ")]
        return bool(told)

    wait_until("a tells of its stop", is_told)
    stop = decode_stop(told[-1] or b"")
    assert (stop.reason, stop.first, stop.next) == (StopReason.TRUNCATED, end, read)


@pytest.mark.parametrize("stays", [True, False])
def test_what_comes_where_a_queue_lost_its_end_is_consumed(bench: Bench, *, stays: bool) -> None:
    """Others stand at these offsets now, than the group had passed or was about to. Spec: R6."""
    bench.run(Subscribe(node="b", endpoint="q", filter=">", kind="queue"))
    bench.settle()
    with connect(bench.fleet.topology, "b") as client:
        consumer = client.consume("q")
        consumer.read(0.1)
        bench.publish(10)
        assert len(consumed(consumer, 10)) == 10
        if not stays:
            consumer.close()
        [(at, passed)] = bench.admin.passed("mesh.b.ep.q", places("mesh.b.ep.q")).items()
        cut = Truncate(topic=at.topic, partition=at.partition, records=5)
        end = int(str(bench.run(cut)["end"]))
        assert end < passed.offset
        bench.publish(30)
        bench.drain()
        assert bench.admin.ends([at])[at] > passed.offset
        found = consumed(consumer if stays else client.consume("q"), 30)
        wanted = [one.value() for one in take_from(bench, at, end, bench.admin.ends([at])[at])]
        assert [one.message.payload for one in found] == wanted
        assert len(wanted) >= 30


def places(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in range(4)]


def consumed(consumer: QueueConsumer, count: int) -> list[QueueMessage]:
    """Return what is handed out, and acknowledge it; a moment longer than it takes."""
    found: list[QueueMessage] = []

    def all_there() -> bool:
        found.extend(consumer.read(0.5))
        return len(found) >= count

    wait_until(f"{count} messages", all_there, so_far=lambda: len(found))
    for one in [*found, *consumer.read(1.0)]:
        assert consumer.ack(one)
    consumer.commit()
    return found


def take_from(bench: Bench, place: TopicPartition, begin: int, end: int) -> list[Record]:
    """Return what stands in a partition from one offset up to another one, at least a record."""
    reader = bench.backend.kafka["k"].reader("test")
    reader.assign({place: begin})
    found: list[Record] = []

    def is_read() -> bool:
        found.extend(reader.read(0.2, 10_000))
        return bool(found) and reader.position(place) >= end

    wait_until(f"{place} is read to {end}", is_read)
    reader.close()
    return found
