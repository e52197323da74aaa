"""Whatever stands in the topics that the auditor reads, judging goes on. Spec: DESIGN 4.6.

Records are drawn from the schemas with numbers and texts that no node writes, whole or cut short;
rows of messages are those that the JVM may hand over.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from mesh.model.topology import Topology
from schemas import VERSION, parsed
from streaming.audits.cases import CaseOutcome
from streaming.audits.routed_blocks import RoutedBlocks
from streaming.connectors.sink import SinkRecord
from streaming.job.auditor import Auditor
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.plain import from_plain, to_plain
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import (
    BrokenLink,
    DeliveryRow,
    FramePlace,
    FrameRow,
    IngressRow,
    MicroBatch,
    SmallRow,
    SourceKey,
    StrayRow,
    TopicPartition,
    UnwantedRow,
)
from tests.streaming.planted import avro, chain_topology, topic_id

RECORD_MAX = 1_000_000
"""Bytes of a record that Kafka takes from the auditor."""

LONGS = [0, 1, -1, 2, 4095, 4096, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**63)]
INTS = [*(one for one in LONGS if abs(one) < 2**31), -(2**31)]
OFFSETS = [one for one in LONGS if one >= 0]
TOPICS = ["mesh.a.in.g", "mesh.a.in.d", "mesh.a.to.b.g", "mesh.a.to.b.d", "mesh.b.ep.s1"]
NAMES = ["a", "b", "c", "s1", "uuid-b", "$change", "guaranteed", "direct", "truncated", "Z"]
ODD = ["", "\0", "x" * 300_000, "mesh.", "mesh.a.in.g\n", "mesh.audit.findings", "$node/x", "\xe9"]
TEXTS = [*TOPICS, *NAMES, *ODD]
CHOSEN = {
    "kind": ["source", "source", "accepted", "held", "held", "sent", "stop", "eras", "x"],
    "topic": [*TOPICS, *TOPICS, *ODD, "mesh.a.ep." + "x" * 300_000],
    "reason": ["truncated", "truncated", "retention", "\0" * 300_000],
    "neighbour": ["b", "b", "c", "x" * 300_000],
}
"""What fields of these names hold mostly: else little would be read at all."""

IDS = [*map(topic_id, TOPICS), bytes(16)]
EXT = {
    "beat.endpoints": [b"[1", b"[" * 5000, b"[]"],
    "beat.trees": [b'{"refused": 1e999}', b'{"links": [], "refused": 1}'],
    "beat.colour": [b"\xff", b"x" * 300_000],
    "beat.queues": [b"[[1, 2, 3, 4, " + b"9" * 5000 + b"]]"],
}


def named_in(schema: Any) -> Iterator[tuple[str, Any]]:
    """Yield the named parts of a schema."""
    for one in schema if isinstance(schema, list) else [schema]:
        if isinstance(one, dict):
            if "name" in one and "type" in one:
                yield one["name"], one
            inner = [part["type"] for part in one.get("fields", ())]
            for part in (*inner, one.get("items"), one.get("type")):
                yield from named_in(part)


def value_of(random: Random, schema: Any, named: dict[str, Any], name: str = "") -> Any:
    """Return something that a schema allows."""
    if isinstance(schema, list):
        return value_of(random, random.choice(schema), named, name)
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind in named:
        return value_of(random, named[kind], named, name)
    match kind:
        case "record":
            fields = {
                one["name"]: value_of(random, one["type"], named, one["name"])
                for one in schema["fields"]
            }
            return {**fields, "version": VERSION} if "version" in fields else fields
        case "array":
            items = range(random.choice((0, 1, 3)))
            return [value_of(random, schema["items"], named, name) for _ in items]
        case "map":
            return {key: random.choice(EXT[key]) for key in EXT if random.random() < 0.1}
        case "enum":
            return random.choice(schema["symbols"])
        case "fixed":
            return random.choice(IDS)[-schema["size"] :]
        case "bytes":
            return random.choice(IDS)
        case "int":
            return random.choice(INTS)
        case "long":
            return random.choice(LONGS)
        case "boolean":
            return random.random() < 0.5
        case "null":
            return None
    return random.choice(CHOSEN.get(name, TEXTS))


def written(random: Random, schema: str) -> bytes | None:
    """Return a record of a schema, now and then cut short, or none."""
    whole = avro(schema, value_of(random, parsed(schema), dict(named_in(parsed(schema)))))
    return random.choice([whole] * 6 + [whole[: len(whole) // 2], b"\x02", None])


JSONS = [b"{}", b'{"kind": "queue"}', b"{" * 5000, b'{"lease_s": 1e999}', b'{"class": "direct"}']
SMALL = {
    ("mesh.a.progress", "source x"): "progress",
    ("mesh.b.progress", "held x"): "progress",
    ("mesh.a.control", "identity"): "identity",
    ("mesh.b.control", "heartbeat"): "heartbeat",
    ("mesh.a.control", "stop x"): "stop",
    ("mesh.b.to.a.c", "link"): "link_state",
    ("mesh.b.to.a.c", f"repair {'ab' * 16} 0 0 guaranteed"): "repair_request",
    ("mesh.b.clients", "s1 acme/>"): "subscription",
    ("mesh.b.clients", "heartbeat"): "heartbeat",
    ("mesh.config", "topology"): "config",
    ("mesh.config", "change"): "change",
}


def small_row(random: Random, topic: str, key: str, schema: str) -> SmallRow:
    value = written(random, schema)
    if schema == "subscription" and random.random() < 0.5:
        value = random.choice(JSONS)
    place = TopicPartition(topic, 0)
    return SmallRow(place, random.choice(OFFSETS), key, value, random.choice(LONGS))


def ledger_row(random: Random) -> SmallRow:
    return small_row(random, "mesh.a.ledger", "", "ledger")


def source(random: Random) -> SourceKey:
    return SourceKey(random.choice(IDS).hex(), random.choice((0, 0, 1, *INTS)))


def path(random: Random) -> tuple[str, ...]:
    return tuple(random.choice(["a", "b", "c", "x", "", "\0"]) for _ in range(random.randrange(4)))


def digest(random: Random) -> Digest:
    return Digest(random.choice((1, 2)), *(random.choice(LONGS) for _ in range(4)))


def delivery_row(random: Random) -> DeliveryRow:
    first = random.choice(OFFSETS)
    return DeliveryRow(
        place=TopicPartition(random.choice(["mesh.b.ep.s1", "mesh.x.ep.y"]), 0),
        source=source(random),
        generation=random.choice((0, 0, 1, 2**31 - 1)),
        path=path(random),
        block=first // 4096,
        digest=digest(random),
        first=first,
        last=first,
        record_first=0,
        record_last=3,
        late=random.randrange(2),
        is_moved=random.random() < 0.2,
        message_class=random.choice(["guaranteed", "direct"]),
    )


def frame_place(random: Random) -> FramePlace:
    return FramePlace(random.randrange(9), *(random.choice(LONGS) for _ in range(3)))


def frame_row(random: Random) -> FrameRow:
    head = frame_place(random)
    broken = BrokenLink(frame_place(random), random.choice(LONGS))
    return FrameRow(
        place=TopicPartition(random.choice(["mesh.a.to.b.g", "mesh.a.to.b.d"]), 0),
        is_repair=random.random() < 0.2,
        kind=random.choice(["data", "data", "gap"]),
        zone=random.choice(["Z", "", "x" * 65]),
        path=path(random),
        chain=source(random),
        source=source(random),
        generation=random.choice(INTS),
        frames=1,
        messages=random.choice(INTS),
        first=random.choice(LONGS),
        last=random.choice(LONGS),
        head=head,
        tail=head,
        broken=(broken,) if random.random() < 0.3 else (),
        late=random.randrange(2),
        is_moved=random.random() < 0.2,
        era=random.choice([None, *INTS]),
        most=random.choice(INTS),
    )


def ingress_row(random: Random) -> IngressRow:
    first = random.choice(OFFSETS)
    subject = random.choice([None, "acme/x", "acme/x", "", "a//b", "$node/x", "\0"])
    place = TopicPartition("mesh.a.in.g", random.randrange(2))
    return IngressRow(place, first // 4096, subject, digest(random), first, first)


def unwanted_row(random: Random) -> UnwantedRow:
    place = TopicPartition("mesh.b.ep.s1", 0)
    subjects = tuple(random.sample(["acme/x", "x" * 251, ""], random.randrange(3)))
    return UnwantedRow(place, source(random), 1, *random.choices(OFFSETS, k=4), subjects)


def batch_of(random: Random) -> MicroBatch:
    """Return small rows of every kind."""
    odd = StrayRow(TopicPartition("mesh.a.to.b.d", 0), 1, random.randrange(9), random.randrange(9))
    return MicroBatch(
        ingress=[ingress_row(random) for _ in range(random.randrange(3))],
        deliveries=[delivery_row(random) for _ in range(random.randrange(3))],
        frames=[frame_row(random) for _ in range(random.randrange(3))],
        small=[
            small_row(random, *place, schema)
            for place, schema in SMALL.items()
            if random.random() < 0.4
        ],
        ledgers=[ledger_row(random) for _ in range(random.randrange(3))],
        strays=[odd] if random.random() < 0.3 else [],
        unwanted=[unwanted_row(random)] if random.random() < 0.3 else [],
    )


class Brokers:
    """A Kafka cluster in which everything is there, and nothing ends where it should."""

    def beginnings(self, places: Any) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    ends = stable_ends = beginnings

    def topics(self) -> Sequence[str]:
        return TOPICS

    def compacted(self, topics: Sequence[str]) -> Sequence[str]:
        return topics[:1]

    def described(self, topics: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        return {topic: (topic_id(topic).hex(), 2) for topic in topics}


@dataclass
class Rereader:
    """Reads nothing of what is asked for, and says that it is not there."""

    topology: Topology
    kafka_clusters: AuditedKafkaClusters

    def can_read(self, _: Any) -> bool:
        return True

    def cases(self, cases: Sequence[Any]) -> Sequence[CaseOutcome]:
        return [CaseOutcome(1, 0, missing=1, missing_offsets=(one.first,)) for one in cases]

    def deliveries(self, doubts: Sequence[Any], begins: Sequence[int]) -> Sequence[Any]:
        return [[] for _ in zip(doubts, begins, strict=True)]

    def frames(self, doubts: Sequence[Any], _: Any) -> Sequence[Any]:
        return [[] for _ in doubts]

    def strange(self, doubts: Sequence[Any]) -> Sequence[Any]:
        return [None for _ in doubts]

    def ends(self, keys: Sequence[Any]) -> Sequence[Mapping[SourceKey, int]]:
        return [{} for _ in keys]

    def published(self, _: Any) -> Sequence[IngressRow]:
        return []


@dataclass
class Desk:
    """An auditor without Spark, and what it writes."""

    topology: Topology = field(default_factory=chain_topology)
    written: list[SinkRecord] = field(default_factory=list)
    now_s: float = 1000.0

    def __post_init__(self) -> None:
        kafka_clusters = AuditedKafkaClusters("mesh.", {"k1": Brokers(), "k2": Brokers()})  # type: ignore[dict-item]
        self.reached: dict[TopicPartition, int] = {}
        keeps = SimpleNamespace(load=lambda: None, save=self.save, folder=Path())
        keeps.told, keeps.note_told = tuple, lambda _: None
        self.auditor = Auditor(
            topology=self.topology,
            rereader=Rereader(self.topology, kafka_clusters),  # type: ignore[arg-type]
            kafka_clusters=kafka_clusters,
            snapshots=keeps,  # type: ignore[arg-type]
            write=self.written.extend,
            positions=lambda *_: self.reached,
            tasks=1,
            offsets_max=1_000,
            clock=lambda: self.now_s,
        )

    def save(self, _: int, state: State) -> None:
        """Keep a state as a snapshot does: it can be read again."""
        from_plain(State, json.loads(json.dumps(to_plain(state))))

    def take(self, batch: MicroBatch, kafka: str = "k1") -> None:
        rows = [row for name in batch.__slots__ for row in getattr(batch, name)]
        self.reached.update({row.place: 10 for row in rows})
        self.auditor.know(batch, kafka, self.auditor.state.batches.get(kafka, -1) + 1)
        for leap_s in (0.0, 5.0, 100.0, 700.0):
            self.now_s += leap_s
            self.auditor.judge()
        self.auditor.kafka_clusters.read[kafka] = self.now_s


@pytest.mark.parametrize("seeds", [range(first, first + 25) for first in range(0, 100, 25)])
def test_no_record_ends_a_judgement_and_all_that_is_said_fits_into_a_record(seeds) -> None:
    for seed in seeds:
        judge_odd_records(Random(seed))


def judge_odd_records(random: Random) -> None:
    """Have an auditor take three batches of odd records, and judge each several times."""
    desk = Desk()
    for _ in range(3):
        desk.take(batch_of(random))
    desk.auditor.judge(is_last=True)
    assert desk.written
    for output in desk.written:
        assert len(output.key.encode()) + len((output.value or "").encode()) < RECORD_MAX


@pytest.mark.parametrize("seed", range(20))
def test_no_ledger_record_ends_the_search_for_a_past_range(seed: int) -> None:
    random = Random(seed)
    ledgers = [ledger_row(random) for _ in range(9)]
    routed = RoutedBlocks("mesh.", -(2**63), 2**63)
    routed.take(ledgers)
    names = State.of(chain_topology()).names
    routed.untold({row.place: 1 for row in ledgers}, 2**62)
    routed.began_ms()
    routed.leave_out(names, {})
    routed.only(MicroBatch(), names)


@pytest.mark.parametrize("at_ms", [2**62, 253_402_300_800_000])
def test_a_ledger_from_beyond_the_calendar_is_told_by_its_number(at_ms: int) -> None:
    """Year 10,000: a traceback ended the command."""
    routed = RoutedBlocks("mesh.", 0, 2**63)
    row = SmallRow(TopicPartition("mesh.a.ledger", 0), 3, "", None, at_ms)
    routed.take([row])
    (told,) = routed.untold({row.place: 3}, 0)
    assert (
        told
        == f"what was routed before {at_ms} ms after 1970: mesh.a.ledger/0 does not go back further"
    )
