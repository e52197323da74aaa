"""A message among many is found by time: few records are read, and nothing is missed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError, TransportUnavailableError
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.operate.documents.messages import trace_document
from mesh.operate.messages.search import BEHIND_MAX
from mesh.operate.messages.trace import Tracer
from mesh.transport import reading
from mesh.transport.memory import MemoryKafka
from tests.component.in_memory_mesh import CHAIN, Mesh

MANY = 3_600
HEADERS = [(SUBJECT_HEADER, b"acme/x")]


@pytest.fixture(scope="module")
def busy() -> Iterator[Mesh]:
    """Thousands of messages over a minute, all on one partition; in the middle one is looked for."""
    mesh = Mesh(topology_from_mapping(CHAIN))
    mesh.subscribe("c", "e", "acme/>")
    writer = mesh.world.kafka["left"].writer("busy")
    for _ in range(12):
        for _ in range(MANY // 12):
            writer.produce("mesh.a.in.g", b"x", b"key", 0, headers=HEADERS)
        writer.flush()
        mesh.pause(5)
    yield mesh
    mesh.close()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many records were looked at, by topic."""
    counts: Counter[str] = Counter()
    original = reading.read_range

    def counted(kafka: MemoryKafka, *arguments: object, **named: object) -> Iterator[object]:
        for record in original(kafka, *arguments, **named):
            counts[record.topic()] += 1
            yield record

    monkeypatch.setattr("mesh.operate.messages.way.read_range", counted)
    return counts


def test_only_what_can_be_it_is_read(busy: Mesh, read: Counter[str]) -> None:
    """From its time on in endpoints; a little behind the first later message nothing more."""
    tracer = Tracer(busy.topology, busy.world.kafka)
    found = tracer.trace(tracer.find(f"mesh.a.in.g/0/{MANY // 2}"))
    assert [(one.source, one.target) for one in found.frames] == [("a", "b"), ("b", "c")]
    assert [one.endpoint for one in found.deliveries] == ["e"]
    assert found.unseen == []
    assert read["mesh.c.ep.e"] < MANY // 12 + BEHIND_MAX + 10
    assert read["mesh.c.ep.e"] > 0


def test_deliveries_have_the_time_of_their_batch(busy: Mesh, read: Counter[str]) -> None:
    """Their records have that of their publisher: the ledger tells it, by a few of its records."""
    tracer = Tracer(busy.topology, busy.world.kafka)
    for last in (None, 100_000):
        tracer = Tracer(busy.topology, busy.world.kafka, last=last)
        found = tracer.trace(tracer.find(f"mesh.a.in.g/0/{MANY // 2}"))
        (delivery,) = found.deliveries
        assert delivery.committed_ms is not None
        assert 0 <= delivery.committed_ms - found.frames[-1].appended_ms <= 1_000
        assert found.unseen == []
        if last is None:
            assert 1 <= read["mesh.c.ledger"] <= 3


def test_who_asks_for_the_newest_gets_all_copies(busy: Mesh) -> None:
    """A copy that was written long after is not looked for unasked, and named when asked."""
    right = busy.world.kafka["right"]
    tracer = Tracer(busy.topology, busy.world.kafka)
    place = tracer.trace(tracer.find("mesh.a.in.g/0/7")).deliveries[0]
    begin = place.offset
    (record,) = reading.read_range(right, {place.place: begin}, {place.place: begin + 1})
    writer = right.writer("again")
    at_ms = record.timestamp()[1]
    writer.produce(
        "mesh.c.ep.e", record.value(), record.key(), 0, timestamp=at_ms, headers=record.headers()
    )
    writer.flush()
    ingress = tracer.find("mesh.a.in.g/0/7")
    assert len(tracer.trace(ingress).deliveries) == 1
    newest = Tracer(busy.topology, busy.world.kafka, last=100_000)
    copies = newest.trace(ingress).deliveries
    assert len(copies) == 2
    assert {one.committed_ms for one in copies} == {None}  # nobody knows which is of the batch


def test_a_publisher_whose_clock_is_far_ahead_is_traced_all_the_same(busy: Mesh) -> None:
    """Nothing was written after its time: then the newest records are looked at."""
    writer = busy.world.kafka["left"].writer("ahead")
    ahead_ms = busy.now_ms() + 10 * 60_000
    writer.produce("mesh.a.in.g", b"x", b"key", 1, timestamp=ahead_ms, headers=HEADERS)
    writer.flush()
    busy.pause(3)
    tracer = Tracer(busy.topology, busy.world.kafka)
    found = tracer.trace(tracer.find("mesh.a.in.g/1/0"))
    assert len(found.frames) == 2
    assert len(found.deliveries) == 1


def test_a_publisher_whose_clock_is_a_little_ahead_costs_no_long_search(
    busy: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Frames were written before its time: they are looked for up to a minute earlier."""
    writer = busy.world.kafka["left"].writer("a-little-ahead")
    ahead_ms = busy.now_ms() + 30_000
    writer.produce("mesh.a.in.g", b"x", b"key", 2, timestamp=ahead_ms, headers=HEADERS)
    writer.flush()
    busy.pause(3)
    tracer = Tracer(busy.topology, busy.world.kafka)
    ingress = tracer.find("mesh.a.in.g/2/0")
    monkeypatch.setattr("mesh.operate.messages.trace.SCANNED_MAX", None)  # nothing but by time
    found = tracer.trace(ingress)
    assert [(one.source, one.target) for one in found.frames] == [("a", "b"), ("b", "c")]
    assert len(found.deliveries) == 1


@pytest.mark.parametrize("away", ["left", "right"])
def test_a_message_is_found_whoever_else_does_not_answer(away: str) -> None:
    """By the name of its topic or by its id; only who could have it is asked."""
    mesh = Mesh(topology_from_mapping(CHAIN))
    kafka = mesh.world.kafka
    node = {"left": "c", "right": "a"}[away]
    topic = f"mesh.{node}.in.g"
    topic_id = kafka[mesh.topology.nodes[node].kafka].admin().describe([topic])[topic].topic_id
    kafka[away].available = False
    tracer = Tracer(mesh.topology, kafka)
    for text in (topic, topic_id.hex()):
        assert tracer.find(f"{text}/0/7").node == node
    with pytest.raises(TransportUnavailableError):
        tracer.find(f"{'0' * 32}/0/7")
    kafka[away].available = True
    with pytest.raises(ConfigError, match="not an ingress topic of this mesh"):
        tracer.find(f"{'0' * 32}/0/7")
    mesh.close()


def test_a_number_without_end_is_no_offset(busy: Mesh) -> None:
    with pytest.raises(ConfigError, match="is not a message"):
        Tracer(busy.topology, busy.world.kafka).find(f"mesh.a.in.g/0/{'9' * 5_000}")


def test_what_is_behind_a_kafka_cluster_that_does_not_answer_is_not_known() -> None:
    """The rest of its way is shown. DESIGN 4."""
    mesh = Mesh(topology_from_mapping(CHAIN))
    mesh.subscribe("c", "e", "acme/>")
    mesh.publish("a", "acme/x")
    mesh.pause(3)
    tracer = Tracer(mesh.topology, mesh.world.kafka)
    message = next(
        found
        for partition in range(4)
        if (found := tracer.find(f"mesh.a.in.g/{partition}/0")) and tracer.trace(found).is_there
    )
    mesh.world.kafka["right"].available = False
    told = trace_document(tracer.trace(message))
    assert [one["link"] for one in told["frames"]] == ["a->b"]
    assert (told["deliveries"], told["unknown"]) == ([], ["b"])
    mesh.world.kafka["left"].available = False
    with pytest.raises(TransportUnavailableError):
        tracer.trace(message)
    mesh.close()


def test_nodes_that_are_equally_far_are_asked_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace takes as long as its way, not as the mesh is large; nor is all progress read for it."""
    leaves = [f"n{number}" for number in range(6)]
    mesh = Mesh(
        topology_from_mapping(
            {
                "kafka": {"left": None, "right": None},
                "nodes": {
                    "hub": {"kafka": "left", "partitions": 1},
                    **{leaf: {"kafka": "right", "partitions": 1} for leaf in leaves},
                },
                "zones": {"Z": {"kind": "multi-hop", "links": [["hub", leaf] for leaf in leaves]}},
            }
        )
    )
    for leaf in leaves:
        mesh.subscribe(leaf, "e", "acme/>")
    mesh.publish("hub", "acme/x")
    mesh.pause(3)
    opened: list[tuple[str, str]] = []
    original = MemoryKafka.reader

    def counted(kafka: MemoryKafka, name: str, **named: object) -> object:
        opened.append((kafka.name, name))
        return original(kafka, name, **named)

    monkeypatch.setattr(MemoryKafka, "reader", counted)
    tracer = Tracer(mesh.topology, mesh.world.kafka)
    found = tracer.trace(tracer.find("mesh.hub.in.g/0/0"))
    assert [one.target for one in found.frames] == leaves
    assert [one.node for one in found.deliveries] == leaves
    assert opened == [("left", "trace"), ("left", "trace"), ("right", "trace")]
    mesh.close()
