"""A lane that is lost and taken again: nothing of a former fetch or owner is routed twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportError, TransportUnknownError
from mesh.lab.world import World, kafka_of
from mesh.lane.batch import Rows
from mesh.model.control import Change, Stage
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import BEGINNING, TopicPartition
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key, subscription_key
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.intake import PolledIntake
from mesh.worker.process.transactions import LaneTransactions
from mesh.worker.worker import Worker
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.gates import break_writer
from tests.said import Said

OWN = "mesh.a.ep.own"


def values(kafka: MemoryKafka, topic: str) -> list[int]:
    reader = kafka.reader("test")
    reader.assign(
        {TopicPartition(topic, n): BEGINNING for n in range(len(kafka.topics[topic].logs))}
    )
    return [int(record.value()) for record in reader.read(0, 10_000)]


def publish(mesh: SmallMesh, letter: str, *numbers: int) -> None:
    for number in numbers:
        mesh.write(f"mesh.a.in.{letter}", b"%d" % number, headers=[subject("x")])


def second_worker(world: World, node: str) -> Worker:
    """Return a worker that shares the node's lanes with the one that runs."""
    clusters = kafka_of(world.topology, node, world.kafka)
    readers = {name: kafka.reader(f"mesh-{node}-2") for name, kafka in clusters.items()}
    intake = PolledIntake(readers)
    errands = SteppedErrands()
    return Worker(
        world.topology, node, clusters, readers, intake, world.clock, errands, lambda: "unused"
    )


def test_a_fetch_from_before_the_lane_was_lost_is_not_routed(mesh: SmallMesh) -> None:
    """Its records come again: the lane goes on from what is committed. Spec: K16, R7."""
    mesh.subscribe("a", "own", ">")
    mesh.run()
    break_writer(mesh.world.workers["a"].lanes, 0)
    publish(mesh, "g", 1, 2)
    # In the same fetch: the cut that follows it finds the writer broken, before data are routed.
    mesh.subscribe("a", "other", "y")
    mesh.run()
    assert values(mesh.kafka, OWN) == [1, 2]


def test_nor_where_sources_hold_when_the_lane_is_taken_again(mesh: SmallMesh) -> None:
    """Nothing is read then, and what was fetched before comes again afterwards. Spec: K16, K28."""
    target = published_text(mesh.world.topology)
    mesh.subscribe("a", "own", ">")
    mesh.run()
    break_writer(mesh.world.workers["a"].lanes, 0)
    publish(mesh, "g", 1, 2)
    mesh.subscribe("a", "other", "y")
    hold = Change(1, Stage.HOLD, target, ("a",))
    mesh.write(mesh.names.config(), encode_change(hold), key=change_key())
    mesh.run()
    assert values(mesh.kafka, OWN) == []
    mesh.write(
        mesh.names.config(), encode_change(replace(hold, stage=Stage.ABORT)), key=change_key()
    )
    mesh.run()
    assert values(mesh.kafka, OWN) == [1, 2]


def test_a_neighbours_dead_kafka_does_not_hold_up_a_lane() -> None:
    """Where its direct log ends cannot be learnt; everything else goes on. Spec: K18."""
    three = {
        **CHAIN,
        "kafka": {"ka": {}, "kb": {}, "kc": {}},
        "nodes": {node: {"kafka": f"k{node}"} for node in "abc"},
    }
    world = World(topology_from_mapping(three), seed=1)

    def run(ms: int) -> None:
        end = world.clock.ms + ms
        world.run_until(lambda: world.clock.ms >= end, 2 * ms)

    def write(kafka: str, topic: str, value: bytes, key: bytes | None = None) -> None:
        headers = [] if key else [subject("x")]
        world.kafka[kafka].writer("client").produce(topic, value, key, 0, headers=headers)

    for node in "abc":
        world.start(node)
    write("kb", "mesh.b.clients", b"{}", subscription_key("s", ">"))
    run(4000)
    write("ka", "mesh.a.in.d", b"0")
    run(4000)
    world.kill("a")
    world.kafka["ka"].available = False
    break_writer(world.workers["b"].lanes, 0)
    epochs = len(world.kafka["kb"].topics["mesh.b.progress"].logs[0].entries)
    for number in (1, 2, 3):
        write("kb", "mesh.b.in.g", b"%d" % number)
    run(4000)
    assert values(world.kafka["kb"], "mesh.b.ep.s") == [0, 1, 2, 3]
    assert len(world.kafka["kb"].topics["mesh.b.progress"].logs[0].entries) < epochs + 40
    world.kafka["ka"].available = True
    world.start("a")
    run(4000)
    write("ka", "mesh.a.in.d", b"4")
    run(4000)
    assert values(world.kafka["kb"], "mesh.b.ep.s") == [0, 1, 2, 3, 4]


def test_a_worker_that_stops_writes_everything_before_it_leaves(mesh: SmallMesh) -> None:
    """Its successor's copies come behind. Spec: K15, K18."""
    mesh.subscribe("a", "own", ">", b'{"class":"direct"}')
    publish(mesh, "d", 0)
    mesh.run()
    successor = second_worker(mesh.world, "a")
    worker = mesh.world.workers.pop("a")
    publish(mesh, "d", *range(1, 101))
    worker.turn(0)
    on_leaving(worker, lambda: publish(mesh, "d", 101), successor, mesh)
    worker.close()
    mesh.world.workers["a"] = successor
    mesh.world._schedule("a")
    mesh.run()
    assert values(mesh.kafka, OWN) == list(range(102))
    assert values(mesh.kafka, "mesh.c.ep.s") == list(range(102))


def on_leaving(worker: Worker, do: Callable[[], None], successor: Worker, mesh: SmallMesh) -> None:
    """Have the successor take the lane while the worker is still leaving."""
    leave = worker.membership.close

    def close() -> None:
        leave()
        do()
        for _ in range(300):
            successor.turn(0)
            mesh.world.clock.ms += 10

    worker.membership.close = close


@pytest.mark.parametrize("again", [1, 2])
def test_a_worker_that_takes_its_own_lane_again_knows_how_far_direct_went(
    mesh: SmallMesh, again: int
) -> None:
    """Nothing is skipped and nothing goes twice. Spec: K18."""
    mesh.subscribe("a", "own", ">", b'{"class":"direct"}')
    publish(mesh, "d", 0)
    mesh.run(1500)
    publish(mesh, "d", 1)
    mesh.run(600)
    worker = mesh.world.workers["a"]
    for round_ in range(again):
        publish(mesh, "d", 10 + round_)
        worker.turn(0)  # handed on, not committed
        worker.lanes._give_up(worker.lanes.owned[0], TransportError("lost"))
        publish(mesh, "d", 20 + round_)
        worker.turn(0)
    mesh.run()
    expected = [0, 1] + [n for round_ in range(again) for n in (10 + round_, 20 + round_)]
    assert values(mesh.kafka, OWN) == expected
    assert values(mesh.kafka, "mesh.c.ep.s") == expected


def test_a_zombie_hands_nothing_on_when_its_successor_has_looked(mesh: SmallMesh) -> None:
    """It has not heard that its lane is gone, and only its commit will tell. Spec: K18, K-7, R2."""
    mesh.subscribe("a", "own", ">", b'{"class":"direct"}')
    publish(mesh, "d", 0)
    mesh.run(500)
    zombie = mesh.world.workers["a"]
    lanes = zombie.membership.lanes()
    successor = second_worker(mesh.world, "a")
    zombie.membership.crash()
    zombie.membership.lanes = lambda: lanes
    zombie.membership.poll = lambda: None
    writer = zombie.lanes.transactions[0].writer
    writer.begin = writer.produce = writer.produce_all = lambda *_args, **_options: None
    for number in range(1, 60):
        publish(mesh, "d", number)
        for _ in range(3):
            successor.turn(0)
            zombie.turn(0)
            mesh.world.clock.ms += 20
    del mesh.world.workers["a"]
    mesh.world.workers["a"] = successor
    mesh.world._schedule("a")
    mesh.run()
    found = values(mesh.kafka, OWN)
    assert found == sorted(set(found))
    assert found[-1] == 59


def test_a_lane_that_cannot_begin_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first transaction after it was taken fails, as while brokers restart one by one. R3."""
    mesh = SmallMesh({**CHAIN, "nodes": {"a": {"lanes": 2}, "b": {}, "c": {}}})
    worker = mesh.world.workers["a"]
    zero, epoch = worker.lanes.owned[0], worker.lanes.owned[1].progress.epoch
    write, failed = LaneTransactions.write, []

    def fails_once(one: LaneTransactions, rows: Rows) -> None:
        if one is worker.lanes.transactions.get(1) and not failed:
            failed.append(worker.lanes.owned[1].progress.epoch)
            raise TransportUnknownError("a request may have been sent twice")
        write(one, rows)

    worker.lanes._give_up(worker.lanes.owned[1], TransportError("a connection was lost"))
    monkeypatch.setattr(LaneTransactions, "write", fails_once)
    mesh.run(6_000)
    assert failed == [epoch + 1]
    assert mesh.world.workers["a"] is worker
    assert worker.lanes.owned[0] is zero
    assert worker.lanes.owned[1].progress.epoch == epoch + 2


@pytest.mark.parametrize("topic", ["mesh.a.ledger", "mesh.a.progress"])
def test_a_lane_that_can_write_nothing_rests_between_takings(
    said: Said, mesh: SmallMesh, topic: str
) -> None:
    """Each is a new epoch and a reading of all that it keeps; none of them helps. Spec: K16."""
    mesh.kafka.denied[topic] = "no right"
    publish(mesh, "g", 1)
    mesh.run(5_000)
    lanes = mesh.world.workers["a"].lanes
    before, begun = lanes.taken, mesh.kafka._transactions_begun
    mesh.run(60_000)
    assert lanes.taken - before <= 61
    not_taken = said.of("lane.not_taken")
    assert bool(not_taken) is (topic == "mesh.a.progress")  # an epoch is written at each taking
    told = said.of("lane.failed") + not_taken
    assert {(one["log_level"], one["lane"]) for one in told} == {("warning", 0)}
    assert all("no right" in one["fault"] for one in told)
    others = 60 * 3  # a heartbeat a second of each node
    assert mesh.kafka._transactions_begun - begun <= others + 2 * 61
    del mesh.kafka.denied[topic]
    mesh.run(2_000)
    assert [int(record.value()) for record in mesh.delivered()] == [1]
