"""A topic that is recreated under its name is another one: its records are judged again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from mesh.errors import TransportUnavailableError
from mesh.model.control import Identity, Subscription
from mesh.model.facts import SourceAt
from mesh.model.findings import FindingKind
from mesh.model.frames import TopicPartition as Place
from mesh.model.state import Cut, Ledger
from mesh.model.topology import DeclaredKafka, Node, Topology
from mesh.wire.control import encode_identity, encode_subscription
from mesh.wire.state import encode_fact, encode_ledger
from streaming.audits.block_judgements import claims_of
from streaming.audits.cases import Case, CaseOutcome
from streaming.audits.claims import Span
from streaming.audits.interest import EndpointKey
from streaming.job.auditor import Auditor
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.snapshots import Snapshots
from streaming.tables.digest import Digest
from streaming.tables.rows import (
    DeliveryRow,
    IngressRow,
    MicroBatch,
    SmallRow,
    SourceKey,
    TopicPartition,
    UnwantedRow,
)

INGRESS = TopicPartition("mesh.a.in.g", 0)
TARGET = TopicPartition("mesh.a.ep.s", 0)
SMALL = {name: TopicPartition(f"mesh.a.{name}", 0) for name in ("clients", "control", "progress")}
LEDGER = TopicPartition("mesh.a.ledger", 0)


def id_of(number: int) -> bytes:
    return bytes(15) + bytes([number])


class Brokers:
    """One Kafka cluster, of which topics are recreated."""

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}
        self.kept_by_key: list[str] = []
        self.is_mute = False
        self.partitions: dict[str, int] = {}

    def beginnings(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        asked = list(places)
        if any(one.partition >= self.partitions.get(one.topic, 9) for one in asked):
            raise TransportUnavailableError("the client looks for a partition till it gives up")
        return dict.fromkeys(asked, 0)

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(places, 0)

    stable_ends = ends

    def topics(self) -> Iterable[str]:
        return ()

    def compacted(self, topics: Iterable[str]) -> Iterable[str]:
        if self.is_mute:
            raise TransportUnavailableError("no answer")
        return [one for one in topics if one in self.kept_by_key]

    def described(self, topics: list[str]) -> Mapping[str, tuple[str, int]]:
        return {one: (self.ids.get(one, id_of(1)).hex(), 1) for one in topics}


class Reader:
    """Reads again: everything that is asked for is lost."""

    def __init__(self, topology: Topology, kafka_clusters: AuditedKafkaClusters) -> None:
        self.topology, self.kafka_clusters = topology, kafka_clusters
        self.asked: list[Case] = []

    def can_read(self, _: object) -> bool:
        return True

    def cases(self, cases) -> list[CaseOutcome]:
        self.asked += cases
        return [
            CaseOutcome(1, 0, missing=1, missing_offsets=(case.last,))
            if case.is_passed
            else CaseOutcome(0, 0)
            for case in cases
        ]

    def deliveries(self, doubts, _) -> list[list]:
        return [[] for _ in doubts]

    def strange(self, doubts) -> list[None]:
        return [None for _ in doubts]


class Bench:
    """An auditor of one node, to which batches are given."""

    def __init__(self, folder: Path) -> None:
        nodes = {"a": Node(name="a", kafka="k1")}
        topology = Topology(
            name="m",
            kafka={"k1": DeclaredKafka(name="k1")},
            nodes=nodes,
            zones={},
            audit_kafka="k1",
        )
        self.now_s = 1000.0
        self.brokers = Brokers()
        self.read: dict[TopicPartition, int] = {}
        kafka_clusters = AuditedKafkaClusters(
            "mesh.", {"k1": self.brokers}, clock=lambda: self.now_s
        )
        self.written: list = []
        self.auditor = Auditor(
            topology=topology,
            rereader=Reader(topology, kafka_clusters),  # type: ignore[arg-type]
            kafka_clusters=kafka_clusters,
            snapshots=Snapshots(folder),
            write=self.written.extend,
            positions=lambda *_: dict(self.read),
            tasks=1,
            offsets_max=10**9,
            clock=lambda: self.now_s,
        )

    def take(self, batch: MicroBatch) -> None:
        number = self.auditor.state.batches.get("k1", -1) + 1
        self.auditor.absorb(batch, "k1", number)

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            self.auditor.judge()

    def found(self, kind: FindingKind) -> list[tuple[str, ...]]:
        findings = self.auditor.state.register.findings.values()
        return [one.ids for one in findings if one.kind is kind]

    def control(self, topic_id: bytes, position: int) -> MicroBatch:
        """Return what the node says of its ingress: who it is, from where on it owes, how far."""
        progress = SourceAt(Place(INGRESS.topic, 0), topic_id, position)
        told = Identity(node="a", uuid="u", epoch=1, cluster_id="x", lanes=1, topics=())
        cut = Cut(INGRESS.topic, topic_id, 0, 0, "u", 0)
        ledger = Ledger(node="a", lane=0, lane_epoch=1, cuts=[cut])
        return MicroBatch(
            small=[
                SmallRow(SMALL["clients"], 0, "s acme/>", encode_subscription(Subscription()), 0),
                SmallRow(SMALL["control"], 0, "identity", encode_identity(told), 0),
                SmallRow(SMALL["progress"], 0, "source x", encode_fact(progress), 0),
            ],
            ledgers=[SmallRow(LEDGER, 0, "", encode_ledger(ledger), 0)],
        )


def digest(first: int, last: int) -> Digest:
    return Digest(last - first + 1, last, last, last, last)


def published(first: int, last: int) -> IngressRow:
    return IngressRow(INGRESS, first // 4096, "acme/x", digest(first, last), first, last)


def delivered(first: int, last: int, topic_id: bytes) -> DeliveryRow:
    return DeliveryRow(
        place=TARGET,
        source=SourceKey(topic_id.hex(), 0),
        generation=0,
        path=("a",),
        block=first // 4096,
        digest=digest(first, last),
        first=first,
        last=last,
        record_first=0,
        record_last=9,
        late=0,
    )


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Two blocks are certified, and forgotten but for the end of the second."""
    made = Bench(tmp_path)
    made.read = {INGRESS: 5000, TARGET: 5000, **dict.fromkeys(SMALL.values(), 1), LEDGER: 1}
    rows = [published(0, 4095), published(4096, 4999)]
    came = [delivered(0, 4095, id_of(1)), delivered(4096, 4999, id_of(1))]
    told = made.control(id_of(1), 5000)
    made.take(MicroBatch(ingress=rows, deliveries=came, small=told.small, ledgers=told.ledgers))
    for _ in range(3):
        made.wait(30)
        made.take(MicroBatch())
    made.wait(1)
    assert made.auditor.state.register.findings == {}
    assert made.auditor.state.certifier.blocks.dropped == {INGRESS: 0}
    return made


@pytest.mark.parametrize(
    ("before", "unread", "block"),
    [(0, 0, 0), (4, 4, 1), (9000, 5000, 2)],
    ids=["empty when seen", "shorter when seen", "longer when seen"],
)
def test_what_is_lost_of_a_topic_that_was_recreated_is_found(
    bench: Bench, before: int, unread: int, block: int
) -> None:
    """An end below what was read, or another id, tells; what Spark skips is told as unproven.

    Args:
        before: Records of the new topic when the auditor sees it the first time.
        unread: Of these, the ones that Spark never reads.
        block: The first one of the new topic that can be judged.
    """
    bench.wait(60)  # brokers are asked once a minute
    new = id_of(2)
    bench.brokers.ids[INGRESS.topic] = new
    bench.read[INGRESS] = before
    bench.take(MicroBatch())
    where = f"{INGRESS}@0-{unread - 1}" if unread else str(INGRESS)
    assert bench.found(FindingKind.UNPROVEN) == [(where,)]
    first = max(block * 4096, before)
    bench.read[INGRESS] = first + 3
    told = bench.control(new, first + 3)
    bench.take(
        MicroBatch(ingress=[published(first, first + 2)], small=told.small, ledgers=told.ledgers)
    )
    bench.wait(30)
    assert bench.found(FindingKind.MISSING) == [(f"{INGRESS}/0/{first + 2}",)]
    assert bench.found(FindingKind.UNPROVEN) == [(where,)]


def test_a_topic_that_was_gone_for_a_while_is_read_from_its_beginning(bench: Bench) -> None:
    """A change removes a node, and another one brings it back: nothing was certified of it.

    Spark finds its topics anew, and what it read of them was said to be unread.
    """
    del bench.read[INGRESS]
    bench.take(MicroBatch())
    bench.brokers.ids[INGRESS.topic] = id_of(2)
    bench.read[INGRESS] = 3
    told = bench.control(id_of(2), 3)
    rows, came = [published(0, 2)], [delivered(0, 2, id_of(2))]
    bench.take(MicroBatch(ingress=rows, deliveries=came, small=told.small, ledgers=told.ledgers))
    bench.wait(30)
    assert bench.found(FindingKind.UNPROVEN) == [(str(INGRESS),)], "it was recreated, and is read"
    (block,) = bench.auditor.state.certifier.blocks.open[INGRESS].values()
    assert [(one.first, one.expected, one.equal) for one in block.issued.values()] == [(0, 3, True)]


def test_what_comes_late_of_the_former_topic_is_not_taken_for_the_new_ones(bench: Bench) -> None:
    bench.brokers.ids[INGRESS.topic] = id_of(2)
    bench.read[INGRESS] = 0
    bench.take(MicroBatch())
    told = bench.control(id_of(2), 3)
    bench.read[INGRESS] = 3
    came = [delivered(1, 2, id_of(1)), delivered(0, 2, id_of(2))]
    rows = [published(0, 2)]
    bench.take(MicroBatch(ingress=rows, deliveries=came, small=told.small, ledgers=told.ledgers))
    bench.wait(30)
    assert [one.kind.value for one in bench.auditor.state.register.findings.values()] == [
        "unproven"
    ]
    blocks = bench.auditor.state.certifier.blocks.open[INGRESS]
    assert [one.equal for one in blocks[0].issued.values()] == [True]


def test_of_an_ingress_that_is_compacted_nothing_is_certified_where_offsets_are_lacking(
    bench: Bench,
) -> None:
    """All that lacks in both is told in one finding; what is whole again is certified."""
    bench.brokers.kept_by_key.append(INGRESS.topic)
    for end, gone in ((5010, 7), (5020, 1)):
        bench.read[INGRESS] = end
        first = end - 10 + gone
        rows, came = [published(first, end - 1)], [delivered(first, end - 1, id_of(1))]
        bench.take(MicroBatch(ingress=rows, deliveries=came))
    (found,) = bench.auditor.state.register.findings.values()
    assert (found.kind, found.count) == (FindingKind.UNPROVEN, 8)
    assert found.ids == (f"{INGRESS}@5000-5009", f"{INGRESS}@5010-5019")
    blocks = bench.auditor.state.certifier.blocks
    assert blocks.open[INGRESS] == {}
    bench.read |= {INGRESS: 8195, TARGET: 5100}
    rows, came = [published(5020, 8191), published(8192, 8194)], [delivered(8192, 8194, id_of(1))]
    told = bench.control(id_of(1), 8195).small[-1:]
    bench.take(MicroBatch(ingress=rows, deliveries=came, small=told))
    bench.wait(30)
    (block,) = blocks.open[INGRESS].values()
    assert [(one.first, one.expected, one.equal) for one in block.issued.values()] == [
        (8192, 3, True)
    ]


def test_a_batch_that_lacks_offsets_comes_again_where_nobody_tells_why(bench: Bench) -> None:
    bench.brokers.is_mute = True
    bench.read[INGRESS] = 5010
    with pytest.raises(TransportUnavailableError):
        bench.take(MicroBatch(ingress=[published(5001, 5009)]))
    bench.read[INGRESS] = 5019
    bench.take(MicroBatch(ingress=[published(5010, 5018)]))  # of one that is whole nobody is asked


def test_a_log_that_only_became_shorter_is_the_same_topic(bench: Bench) -> None:
    """Its generation tells what came again."""
    bench.read[INGRESS] = 4990
    bench.take(MicroBatch())
    assert bench.found(FindingKind.UNPROVEN) == []
    assert bench.auditor.state.certifier.blocks.dropped == {INGRESS: 0}


def test_what_an_endpoint_had_got_before_it_was_recreated_is_not_missing(bench: Bench) -> None:
    """Whoever reads the block again finds a part of it alone, and knows that."""
    blocks = bench.auditor.state.certifier.blocks
    bench.brokers.ids[TARGET.topic] = id_of(3)
    bench.read[TARGET] = 0
    bench.take(MicroBatch())
    receipt = blocks.open[INGRESS][1].receipts[EndpointKey("a", "s")]
    assert (receipt.is_cut, receipt.records, receipt.digest.count) == (True, {}, 904)
    bench.read |= {INGRESS: 5003, TARGET: 3}
    rows, came = [published(5000, 5002)], [delivered(5000, 5001, id_of(1))]
    bench.take(
        MicroBatch(ingress=rows, deliveries=came, small=bench.control(id_of(1), 5003).small[-1:])
    )
    bench.wait(30)
    assert bench.auditor.rereader.asked[-1].is_cut
    assert not blocks.open[INGRESS][1].is_faultless


def test_of_endpoints_that_were_made_again_those_are_known_that_somebody_asks_for(
    bench: Bench,
) -> None:
    """Clients make new ones and delete old ones for ever."""
    state, other = bench.auditor.state, TopicPartition("mesh.a.ep.other", 0)
    for place in (TARGET, other):
        state.forget_recreated(place, "ef" * 16, 0)
    assert list(state.consumed.unbounded) == [EndpointKey("a", "s")]
    state.consumed.keep({})
    assert (state.consumed.unbounded, state.consumed.bounds) == ({}, {})


def test_what_a_node_lost_before_it_got_another_uuid_stays_lost(bench: Bench) -> None:
    """Nothing would be owed to it that lanes knew under the former one."""
    bench.read[INGRESS] = 5003
    told = bench.control(id_of(1), 5003)
    bench.take(MicroBatch(ingress=[published(5000, 5002)], small=told.small[-1:]))
    bench.wait(30)
    assert bench.found(FindingKind.MISSING) == [(f"{INGRESS}/0/5002",)]
    other = Identity(node="a", uuid="other", epoch=2, cluster_id="x", lanes=1, topics=())
    bench.take(
        MicroBatch(small=[SmallRow(SMALL["control"], 1, "identity", encode_identity(other), 0)])
    )
    world = bench.auditor.state.world(lambda _: {})
    (claim,) = claims_of(INGRESS, EndpointKey("a", "s"), world)
    assert claim.span == Span(0)
    bench.wait(30)
    assert bench.found(FindingKind.MISSING) == [(f"{INGRESS}/0/5002",)]


def test_who_reads_little_beside_much_of_nobody_lags(bench: Bench) -> None:
    """A topic of a node that nobody knows takes its share of what a batch may read."""
    bench.auditor.offsets_max = 1000
    stranger = TopicPartition("mesh.zz.in.g", 0)
    bench.read |= {stranger: 990, INGRESS: 5010}
    bench.take(MicroBatch())
    assert bench.auditor.lagging == {"k1": None}
    bench.read |= {stranger: 1000, INGRESS: 5020}
    bench.take(MicroBatch())
    assert bench.auditor.lagging == {}


def test_a_batch_that_lacks_a_fraction_of_a_record_per_partition_is_full(bench: Bench) -> None:
    """Small batches of many partitions: what had not been read counted as read, and excused none.

    Spark gives each partition its share of what a batch may read, rounded down.
    """
    bench.auditor.offsets_max = 1000
    others = [TopicPartition("mesh.a.ep.many", number) for number in range(501)]
    bench.read |= dict.fromkeys(others, 1)  # 1000 / 501 of each
    bench.take(MicroBatch())
    assert bench.auditor.lagging == {"k1": None}
    bench.read |= dict.fromkeys(others[:9], 2)
    bench.take(MicroBatch())
    assert bench.auditor.lagging == {}


def test_of_a_suspicion_nothing_is_told_before_all_is_read_that_may_excuse_it(
    bench: Bench,
) -> None:
    """Another Kafka cluster may be late by minutes, though nothing is wrong with it."""
    auditor = bench.auditor
    row = UnwantedRow(TARGET, SourceKey(id_of(1).hex(), 0), 1, 3, 3, 3, 3, ("other/x",))
    bench.take(MicroBatch(unwanted=[row]))
    auditor.kafka_clusters.read["k1"] = bench.now_s - 1
    bench.wait(90)
    assert bench.found(FindingKind.UNEXPECTED) == []
    auditor.kafka_clusters.read["k1"] = bench.now_s - 1
    bench.wait(1)
    assert len(bench.found(FindingKind.UNEXPECTED)) == 1


@pytest.mark.parametrize("topic", [TARGET.topic, INGRESS.topic])
def test_a_topic_that_has_lost_partitions_holds_up_nobody(bench: Bench, topic: str) -> None:
    """Of a partition that its topic has not the client says nothing, and the whole call fails."""
    more = [TopicPartition(topic, number) for number in range(1, 4)]
    bench.read |= dict.fromkeys(more, 7)
    bench.take(MicroBatch())
    kafka_clusters, state = bench.auditor.kafka_clusters, bench.auditor.state
    bench.brokers.partitions[topic] = 2
    bench.brokers.ids[topic] = id_of(2)
    for place in more[1:]:
        del bench.read[place]
    for _ in range(2):
        bench.read[TopicPartition(topic, 0)] += 10
        bench.take(MicroBatch(deliveries=[delivered(5000, 5001, id_of(1))]))
        bench.wait(1)
        assert kafka_clusters.silent == {}
    assert [place for place in state.read if place.topic == topic] == [
        TopicPartition(topic, 0),
        more[0],
    ]
    told = {ids[0].partition("@")[0] for ids in bench.found(FindingKind.UNPROVEN)}
    assert told >= {f"{topic}/{number}" for number in range(4)}


def test_endpoints_that_are_deleted_are_forgotten(bench: Bench) -> None:
    """Clients make new ones and delete old ones for ever; those that come again are others."""
    state, dead = (
        bench.auditor.state,
        [TopicPartition(f"mesh.a.ep.e{one}", 0) for one in range(250)],
    )
    ids = dict(state.ids)
    bench.read |= dict.fromkeys(dead, 7)
    bench.take(MicroBatch(deliveries=[delivered(5000, 5001, id_of(1))._replace(place=dead[0])]))
    assert len(state.read) == len(bench.read)
    before = bench.read = {place: end for place, end in bench.read.items() if place not in dead}
    for _ in range(3):
        bench.take(MicroBatch())
    assert (state.read, state.ids) == (before, ids)
    assert dead[0] not in state.order.reached
    bench.read[dead[0]] = 2
    bench.take(MicroBatch(deliveries=[delivered(5000, 5001, id_of(1))._replace(place=dead[0])]))
    assert state.delivery_doubts == []


def test_of_what_a_run_told_that_left_no_state_what_has_ended_is_taken_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    auditor, stale, missing = bench.auditor, "0" * 16, "1" * 16
    auditor.former = {stale: "stale-interest", missing: "missing"}
    auditor.restore()
    bench.read = {INGRESS: 0}
    bench.take(MicroBatch())
    for _ in range(200):
        auditor.kafka_clusters.read["k1"] = bench.now_s
        bench.wait(1)
    told = [(one.key, one.value) for one in bench.written if one.topic == "mesh.audit.findings"]
    assert told == [(stale, None)]
    assert auditor.state.register.former == {missing: "missing"}
