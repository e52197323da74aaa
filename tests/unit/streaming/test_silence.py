"""A Kafka cluster that is silent, or that nobody needs, holds up what concerns it alone."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from mesh.errors import TransportUnavailableError
from streaming.audits.cases import Case, CaseOutcome
from streaming.audits.interest import EndpointKey
from streaming.audits.order import DeliverySuspicion, OrderKey
from streaming.job.auditor import Auditor
from streaming.job.doubts import Doubts
from streaming.job.judge import Judge
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.outages import KafkaOutages
from streaming.job.queries import Queries, Query, _has_taken
from streaming.job.reread_answers import Repeats
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from streaming.tables.rows import SourceKey, TopicPartition
from tests.streaming.planted import chain_topology

SOURCE = SourceKey("aa", 0)


class Reader:
    """Reads again, but for what is at c: its Kafka cluster fails in the middle of it."""

    def __init__(self) -> None:
        self.topology = chain_topology()
        self.kafka_clusters = SimpleNamespace(can_read=lambda _: True, beginnings=lambda _: {})

    def can_read(self, _: Case) -> bool:
        return True

    def deliveries(self, doubts: list[DeliverySuspicion], _: object) -> list[list[Repeats]]:
        if any(".c." in one.key.endpoint.topic for one in doubts):
            raise TransportUnavailableError("away")
        return [[Repeats(0, 1, (7,), 0, ())] for _ in doubts]

    def cases(self, cases: list[Case]) -> list[CaseOutcome]:
        if any(one.endpoint.node == "c" for one in cases):
            raise TransportUnavailableError("away")
        return [CaseOutcome(1, 1) for _ in cases]


def doubt(topic: str) -> DeliverySuspicion:
    return DeliverySuspicion(OrderKey(TopicPartition(topic, 0), SOURCE, 0), 3, 4)


def auditor(tmp_path: Path, kafka_clusters: AuditedKafkaClusters) -> Auditor:
    reader: Any = Reader()
    return Auditor(
        topology=chain_topology(),
        rereader=reader,
        kafka_clusters=kafka_clusters,
        snapshots=Snapshots(tmp_path),
        write=lambda _: None,
        positions=lambda *_: {},
        tasks=1,
        offsets_max=10,
    )


def test_doubts_that_can_be_read_are_settled_beside_one_that_cannot() -> None:
    state, reader = State.of(chain_topology()), Reader()
    topics = ("mesh.a.ep.s", "mesh.c.ep.s", "mesh.b.ep.s")
    state.delivery_doubts = [doubt(topic) for topic in topics]
    Doubts(reader, state).settle()  # type: ignore[arg-type]
    assert state.delivery_doubts == [doubt("mesh.c.ep.s")]
    found = sorted(one.endpoint for one in state.register.findings.values())
    assert found == ["a/s", "b/s"]


def test_cases_that_can_be_read_are_settled_beside_one_that_cannot(tmp_path: Path) -> None:
    place = TopicPartition("mesh.a.in.g", 0)
    cases = [
        Case(
            place=place,
            source=SOURCE,
            block=0,
            endpoint=EndpointKey(node, "s"),
            first=0,
            last=1,
            delivered_last=1,
            wants=(),
            records={},
            is_passed=True,
            generation=0,
        )
        for node in ("a", "c", "b")
    ]
    made = auditor(tmp_path, AuditedKafkaClusters("mesh."))
    world = made.state.world(lambda _: None)
    assert Judge(made.rereader, made.state, world, 0.0).outcomes(cases) == [
        CaseOutcome(1, 1),
        None,
        CaseOutcome(1, 1),
    ]


def test_a_spare_kafka_cluster_that_is_down_makes_nobody_blind(tmp_path: Path) -> None:
    made = auditor(tmp_path, AuditedKafkaClusters("mesh.", dict.fromkeys(("k1", "k2", "spare"))))  # type: ignore[arg-type]
    made.kafka_clusters.unread["spare"] = "nobody answers"
    made.lagging["spare"] = None
    assert not made.is_behind
    assert list(made.publisher._told_of_sources(made.state, made.lagging)) == ["k1", "k2"]
    made.kafka_clusters.unread["k2"] = "nobody answers"
    assert made.is_behind


class Stream:
    is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


class Resting:
    """A query of which PySpark would take apart what it says of its progress."""

    def __init__(self, progress: object) -> None:
        self._jsq = SimpleNamespace(lastProgress=lambda: progress)

    @property
    def lastProgress(self) -> object:
        raise AssertionError("four fifths of a resting auditor's processor time")


def test_that_a_query_has_looked_is_asked_without_taking_apart_what_it_found() -> None:
    assert [_has_taken(Resting(one)) for one in (None, object())] == [False, True]


def test_what_no_node_uses_any_more_is_not_read_on(tmp_path: Path) -> None:
    """Its query ends, and that it does not answer is nobody's trouble."""
    kafka_clusters = AuditedKafkaClusters("mesh.", needed={"k1": None})
    kafka_clusters.unread["k3"] = "switched off"
    told: list[str] = []
    one: Any = SimpleNamespace(kafka_clusters=kafka_clusters)
    session: Any = None
    queries = Queries(session, one, {}, tmp_path, 1.0, KafkaOutages(told.append), threading.Lock())
    streams = {name: Stream() for name in ("k1", "k3")}
    queries.by_kafka = {name: Query(stream) for name, stream in streams.items()}
    queries._leave_others()
    assert list(queries.by_kafka) == ["k1"]
    assert (streams["k1"].is_stopped, streams["k3"].is_stopped) == (False, True)
    assert kafka_clusters.unread == {}
    assert told == ["k3 is not read any more: no node is there"]
