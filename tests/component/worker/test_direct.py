"""Direct copies go ahead of their commit where an earlier one reserved that. Spec: K18, R6."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mesh.lane.batch import RESERVED_MS
from mesh.lane.handover import tell_position
from mesh.model.facts import SourceAt
from mesh.model.frames import MessageClass
from mesh.transport.headers import headers_of
from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from mesh.transport.port import TopicPartition
from mesh.wire.deliveries import decode_delivery
from mesh.wire.state import decode_fact, decode_ledger
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

INGRESS = "mesh.a.in.d"
OUTBOX = "mesh.a.to.b.d"


class Unanswered(MemoryFaults):
    """Has the lane of a not hear that its next commit came about."""

    def __init__(self) -> None:
        self._has_failed = False

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if call is not Call.COMMIT or what != "mesh.a.lane.0" or self._has_failed:
            return None
        self._has_failed = True
        return Outcome.UNKNOWN_COMMITTED


def publish(mesh: SmallMesh, *values: int) -> None:
    for value in values:
        mesh.write(INGRESS, b"%d" % value, headers=[subject("x")])


def delivered(mesh: SmallMesh, endpoint: str = "mesh.c.ep.s") -> list[int]:
    return [int(record.value()) for record in mesh.read(endpoint)]


def dropped(mesh: SmallMesh, node: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for ledger in mesh.read(mesh.names.ledger(node)):
        for drop in decode_ledger(ledger.value()).dropped:
            counts[drop.reason] += drop.messages
    return dict(counts)


def committed(mesh: SmallMesh) -> int:
    return mesh.world.workers["a"].lanes.owned[0].progress.next[TopicPartition(INGRESS, 0)]


def read_without_commit(mesh: SmallMesh) -> None:
    """Let a take one turn: it reads and routes, and would commit in a later one."""
    before = committed(mesh)
    mesh.world.workers["a"].turn(0)
    assert committed(mesh) == before


@pytest.fixture
def settled(mesh: SmallMesh) -> SmallMesh:
    """The chain, after a first direct message; a has reserved some offsets."""
    publish(mesh, 0)
    mesh.run(500)
    assert delivered(mesh) == [0]
    return mesh


def test_copies_go_before_the_commit_if_it_was_reserved(settled: SmallMesh) -> None:
    publish(settled, 1, 2)
    read_without_commit(settled)
    assert len(settled.read(OUTBOX)) == 2


def test_copies_beyond_what_was_reserved_wait_and_keep_their_order(settled: SmallMesh) -> None:
    publish(settled, *range(1, 101))
    read_without_commit(settled)
    assert len(settled.read(OUTBOX)) == 1
    settled.run()
    assert delivered(settled) == list(range(101))


def test_what_a_killed_worker_may_have_handed_on_is_skipped_and_counted(
    settled: SmallMesh,
) -> None:
    publish(settled, 1, 2)
    read_without_commit(settled)
    settled.world.kill("a")
    publish(settled, 3)
    settled.world.start("a")
    settled.run()
    publish(settled, 4)
    settled.run()
    assert delivered(settled) == [0, 1, 2, 4]
    # The first one waited for its commit, and no later one told that it was written.
    assert dropped(settled, "a") == {"takeover": 3, "unwritten": 1}


def commit_without_writing(mesh: SmallMesh, node: str = "a") -> None:
    """Let a node commit what it has read, and die before it writes direct copies of that."""
    lanes = mesh.world.workers[node].lanes
    lanes.direct._written_ms = mesh.world.clock.now_ms() + 100_000
    lane = lanes.owned[0]
    mesh.world.run_until(lambda: bool(lane.direct.ready) and lane.batch is None, 10_000)
    mesh.world.kill(node)
    mesh.world.start(node)
    mesh.run()


def test_copies_that_were_not_written_when_their_worker_died_are_counted(
    settled: SmallMesh,
) -> None:
    """Their position is committed, so nobody reads them again; and they are counted once. D2."""
    publish(settled, *range(1, 101))
    commit_without_writing(settled)
    assert delivered(settled) == [0]
    assert dropped(settled, "a") == {"unwritten": 100}
    settled.world.kill("a")
    settled.world.start("a")
    settled.run()
    assert dropped(settled, "a") == {"unwritten": 100}


def test_so_are_those_of_guaranteed_messages_at_a_direct_endpoint(mesh: SmallMesh) -> None:
    mesh.subscribe("a", "own", ">", b'{"class":"direct"}')
    mesh.run()
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    mesh.publish(b"2", [subject("x")])
    commit_without_writing(mesh)
    mesh.publish(b"3", [subject("x")])
    mesh.run()
    assert delivered(mesh, "mesh.a.ep.own") == [1, 3]
    assert delivered(mesh) == [1, 2, 3]
    assert dropped(mesh, "a") == {"unwritten": 1}


def test_what_was_written_before_a_worker_died_is_not_counted(settled: SmallMesh) -> None:
    publish(settled, 1)
    settled.run(2_000)
    settled.world.kill("a")
    settled.world.start("a")
    settled.run()
    assert delivered(settled) == [0, 1]
    assert dropped(settled, "a") == {}


def test_copies_of_a_commit_that_seemed_to_fail_are_counted(settled: SmallMesh) -> None:
    """It came about, and its worker takes the lane again without having written them."""
    publish(settled, *range(1, 101))
    read_without_commit(settled)
    settled.kafka.faults = Unanswered()
    settled.run()
    assert delivered(settled) == [0]
    assert dropped(settled, "a") == {"unwritten": 100}
    publish(settled, 101)
    settled.run()
    assert delivered(settled) == [0, 101]
    assert dropped(settled, "a") == {"unwritten": 100}


def test_copies_that_brokers_do_not_take_are_told_and_counted(
    said: Said, settled: SmallMesh
) -> None:
    settled.kafka.denied[OUTBOX] = "no right"
    publish(settled, 1, 2)
    settled.run()
    told = said.of("direct.lost")
    assert {one["log_level"] for one in told} == {"warning"}
    assert [one["records"] for one in told] == [1], "both were in one frame"
    assert dropped(settled, "a") == {"unwritten": 2}
    settled.kafka.denied.clear()
    settled.run(8_000)
    publish(settled, 3)
    settled.run(500)
    publish(settled, 4)
    settled.run(2_000)
    settled.world.kill("a")
    settled.world.start("a")
    settled.run()
    assert delivered(settled) == [0, 3, 4]
    assert dropped(settled, "a") == {"unwritten": 2}, "nothing is counted twice"


def test_so_are_those_that_failed_just_before_their_lane_was_handed_back(
    settled: SmallMesh,
) -> None:
    settled.kafka.denied[OUTBOX] = "no right"
    publish(settled, 1, 2)
    settled.world.run_until(lambda: committed(settled) == 3, 10_000)
    settled.world.stop("a")
    settled.kafka.denied.clear()
    settled.world.start("a")
    settled.run()
    assert delivered(settled) == [0]
    assert dropped(settled, "a") == {"unwritten": 2}


def test_a_stopped_worker_leaves_exact_positions(settled: SmallMesh) -> None:
    settled.world.stop("a")
    publish(settled, 1, 2)
    settled.world.start("a")
    settled.run()
    assert delivered(settled) == [0, 1, 2]
    assert dropped(settled, "a") == {}


def test_who_takes_its_lane_again_tells_how_far_it_had_read(settled: SmallMesh) -> None:
    """Nothing else may come on the link, and a change of the topology drains it. Spec: K18, K28."""
    publish(settled, 1, 2)
    read_without_commit(settled)
    settled.world.workers["a"].lanes.drop(0)
    settled.run()
    assert delivered(settled) == [0, 1, 2]
    told = [decode_fact(one.value()) for one in settled.read(settled.names.progress("a"))]
    read = [one for one in told if isinstance(one, SourceAt) and one.at.topic == INGRESS]
    assert read[-1].next == 3


def test_a_position_that_a_lane_tells_counts_once_it_is_committed(settled: SmallMesh) -> None:
    """Neighbours delete by it, and a successor begins where it was committed. Spec: K5."""
    lane, at = settled.world.workers["a"].lanes.owned[0], TopicPartition(INGRESS, 0)
    tell_position(lane, at, 3, settled.world.clock.now_ms())
    assert (lane.progress.next[at], lane.committed_position(at)) == (3, 1)
    settled.run()
    assert lane.committed_position(at) == 3


def test_after_a_pause_copies_wait_for_a_commit(settled: SmallMesh) -> None:
    """A successor may have taken the lane; only a commit tells."""
    settled.world.clock.ms += RESERVED_MS + 1
    publish(settled, 1)
    read_without_commit(settled)
    assert len(settled.read(OUTBOX)) == 1
    settled.run()
    assert delivered(settled) == [0, 1]


def test_deleted_records_are_passed_and_counted(settled: SmallMesh) -> None:
    """Direct topics are bounded by bytes: they may drop what nobody has read. Spec: K5."""
    settled.world.stop("a")
    publish(settled, 1, 2, 3)
    settled.kafka.admin().delete_before({TopicPartition(INGRESS, 0): 3})
    settled.world.start("a")
    settled.run()
    assert delivered(settled) == [0, 3]
    assert dropped(settled, "a") == {"retention": 2}


def test_deleted_records_are_passed_by_a_worker_that_is_late(
    said: Said, settled: SmallMesh
) -> None:
    publish(settled, 1, 2, 3)
    settled.kafka.admin().delete_before({TopicPartition(INGRESS, 0): 3})
    settled.run()
    assert delivered(settled) == [0, 3]
    assert dropped(settled, "a") == {"retention": 2}
    place = {"topic": INGRESS, "partition": 0, "reason": "retention", "first": 1, "next": 3}
    assert said.of("direct.skipped") == [{"log_level": "warning", **place}]


@pytest.mark.parametrize("seed", range(5))
def test_kills_at_any_turn_double_nothing_and_every_loss_is_counted(seed: int) -> None:
    """Spec: K18; promises D1 to D4 of reliability.md."""
    mesh = SmallMesh()
    mesh.subscribe("a", "own", ">", b'{"class":"direct"}')
    mesh.run()
    rng = random.Random(seed)
    published = 0
    for _ in range(25):
        count = rng.choice([1, 1, 2, 30])
        publish(mesh, *range(published, published + count))
        published += count
        for _ in range(rng.randint(0, 40)):
            mesh.world.advance()
        if rng.random() < 0.2:
            node = rng.choice("abc")
            mesh.world.kill(node)
            mesh.world.start(node)
    mesh.run(8_000)
    publish(mesh, published)
    mesh.run()
    for endpoint in ("mesh.a.ep.own", "mesh.c.ep.s"):
        found = delivered(mesh, endpoint)
        assert found == sorted(set(found))
        assert found[-1] == published
    # Of its own ingress a node counts messages; of a neighbour's outbox it skips whole frames.
    here = len(delivered(mesh, "mesh.a.ep.own"))
    assert published + 1 - here <= sum(dropped(mesh, "a").values())


def test_a_lane_that_is_handed_back_keeps_the_generation_of_its_sources(mesh: SmallMesh) -> None:
    """Else two messages at one offset would have one identity. Spec: K9."""
    mesh.subscribe("c", "d", ">", b'{"class": "direct"}')
    mesh.run()
    topic = mesh.names.ingress("a", MessageClass.DIRECT)

    def publish(value: bytes) -> None:
        mesh.write(topic, value, headers=[subject("x")])
        mesh.run(2_500)

    for number in range(4):
        publish(b"old%d" % number)
    mesh.kafka.truncate(TopicPartition(topic, 0), 2)
    mesh.run(8_000)
    publish(b"new2")
    mesh.world.stop("a")
    mesh.run(1_000)
    mesh.world.start("a")
    mesh.run(8_000)
    publish(b"new3")
    got = [
        (record.value(), header.generation, header.offset)
        for record in mesh.read(mesh.names.endpoint("c", "d"))
        for header in [decode_delivery(headers_of(record)[-1][1] or b"")]
    ]
    assert got[-2:] == [(b"new2", 1, 2), (b"new3", 1, 3)]


@pytest.mark.parametrize("message_class", MessageClass)
def test_what_a_reader_hands_out_once_more_is_not_delivered_once_more(
    mesh: SmallMesh, message_class: MessageClass
) -> None:
    """A client library did: asked where a log begins, it went there when the answer came late."""
    mesh.subscribe("a", "own", ">")
    mesh.run()
    topic = mesh.names.ingress("a", message_class)
    for value in range(4):
        mesh.write(topic, b"%d" % value, headers=[subject("x")])
    mesh.run()
    assert delivered(mesh, "mesh.a.ep.own") == [0, 1, 2, 3]
    [reader] = mesh.world.workers["a"].lanes.sources.readers.values()
    reader.assign({TopicPartition(topic, 0): 1})
    mesh.write(topic, b"4", headers=[subject("x")])
    mesh.run()
    assert delivered(mesh, "mesh.a.ep.own") == [0, 1, 2, 3, 4]
    assert delivered(mesh) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("message_class", MessageClass)
def test_not_even_where_that_is_one_fetch(mesh: SmallMesh, message_class: MessageClass) -> None:
    mesh.subscribe("a", "own", ">")
    mesh.run()
    at = TopicPartition(mesh.names.ingress("a", message_class), 0)
    mesh.write(at.topic, b"0", headers=[subject("x")])
    mesh.run()
    for value in range(1, 5):
        mesh.write(at.topic, b"%d" % value, headers=[subject("x")])
    lanes = mesh.world.workers["a"].lanes
    again = [one for one in mesh.read(at.topic) if one.offset() > 0]
    for _ in lanes.route({at: [*again, *again]}, mesh.world.clock.now_ms()):
        pass
    mesh.run()
    assert delivered(mesh, "mesh.a.ep.own") == [0, 1, 2, 3, 4]
