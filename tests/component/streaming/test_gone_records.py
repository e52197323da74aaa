"""What is gone before the auditor reads it, or belongs to what is gone, hides no loss."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.config.published import published_text
from mesh.model.facts import Held
from mesh.model.frames import SourcePartition
from mesh.model.frames import TopicPartition as Place
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from mesh.wire.control import encode_config
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_fact
from streaming.audits.interest import PRUNE_EVERY
from streaming.tables.rows import TopicPartition
from tests.component.streaming.plain_bench import PlainBench
from tests.streaming.conftest import kafka_of
from tests.streaming.planted import PARTITIONS, ROUTE, Plant

CLIENTS = "mesh.c.clients", 0
DIRECT = "mesh.a.to.b.d"


@pytest.fixture
def bench(plant: Plant, tmp_path: Path) -> PlainBench:
    return PlainBench(None, plant, tmp_path)


def missing(bench: PlainBench) -> list[tuple[str, Sequence[str]]]:
    found = bench.auditor.state.register.findings.values()
    return sorted((one.endpoint, one.ids) for one in found if one.kind == "missing")


def certified(bench: PlainBench, endpoint: str = "c/s1") -> list[tuple[bool, bool]]:
    """Return what certificates say of an endpoint: whether it is equal, and whether for sure."""
    issued = bench.certificates.items()
    return [(one.equal, one.sure) for (_, whose), one in issued if whose == endpoint]


def forget_ledgers(bench: PlainBench) -> None:
    """Have brokers delete what ledgers hold, as they do after a week."""
    for node in ROUTE:
        log = bench.plant.logs[f"mesh.{node}.ledger", 0]
        bench.begins[TopicPartition(f"mesh.{node}.ledger", 0)] = len(log)
        log[:] = [None] * len(log)


# -- cuts that have left the ledgers ---------------------------------------------------------


@pytest.mark.parametrize("lost", [[], [3]], ids=["nothing is lost", "one is"])
def test_a_loss_is_no_proof_where_the_cut_has_left_the_ledger(
    bench: PlainBench, plant: Plant, lost: Sequence[int]
) -> None:
    """An auditor that begins on an old mesh held all to be owed to nobody, and that for proven."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    forget_ledgers(bench)
    plant.carry(5, ["c/s1"], lost=lost)
    assert bench.settle() == []
    assert certified(bench) == [(True, not lost)]
    for _ in range(20):
        plant.beat()
        bench.take()
        bench.wait(4)
    found = bench.auditor.state.register.findings
    assert found == {}, "that the lane does not know of it nobody can tell either"


def test_what_comes_after_cuts_are_told_again_is_owed(bench: PlainBench, plant: Plant) -> None:
    subscribed = plant.subscribe("c", "s1", "acme/>")
    plant.cuts_everywhere("c", subscribed)
    forget_ledgers(bench)
    plant.carry(5, ["c/s1"])
    plant.cuts_everywhere("c", subscribed)
    plant.carry(5, ["c/s1"], lost=[1])
    assert bench.settle() == ["missing"]
    assert missing(bench) == [("c/s1", ("mesh.a.in.g/0/0/6",))]


def test_what_a_ledger_told_before_it_was_recreated_nobody_can_tell(
    bench: PlainBench, plant: Plant
) -> None:
    bench.settle()
    bench.clock_s += 60
    plant.subscribe("c", "s1", "acme/>")
    plant.logs["mesh.a.ledger", 0] = []
    plant.tell_read("a", "b.to.a.d", 0, 1, 1)
    bench.settle()
    bench.clock_s += 60
    bench.ids["mesh.a.ledger"] = "ab" * 16
    plant.carry(5, ["c/s1"], lost=[3])
    assert "missing" not in bench.settle()
    assert certified(bench) == [(True, False)]


# -- outboxes of direct messages, which brokers bound by bytes -------------------------------


def test_direct_frames_that_were_deleted_unread_are_told_once_a_partition(
    bench: PlainBench, plant: Plant
) -> None:
    """Copies of what was in them, and loops, passed for nothing."""

    def lose(end: int) -> None:
        while len(plant.logs.get((DIRECT, 0), ())) <= end:
            offsets = plant.publish("a", "acme/x", 1, letter="d")
            plant.frame("a->b", offsets, path=["a"], source="a.in.d", origin="a.in.d", letter="d")
        plant.logs[DIRECT, 0][:end] = [None] * end
        bench.begins[TopicPartition(DIRECT, 0)] = end

    lose(3)
    assert bench.settle() == ["unproven"]
    lose(9)
    bench.settle()
    (finding,) = bench.auditor.state.register.findings.values()
    assert (finding.link, finding.count) == ("a->b", 3 + 5)
    assert finding.evidence == (f"{DIRECT}/0@0-2", f"{DIRECT}/0@4-8")


def test_direct_messages_that_their_node_has_read_and_nobody_else_are_no_news(
    bench: PlainBench, plant: Plant
) -> None:
    """What is in their ingress is compared with nothing."""
    plant.publish("a", "acme/x", 3, letter="d")
    plant.logs["mesh.a.in.d", 0][:2] = [None] * 2
    bench.begins[TopicPartition("mesh.a.in.d", 0)] = 2
    assert bench.settle() == []


def test_direct_deliveries_that_were_deleted_unread_are_told_once_a_partition(
    bench: PlainBench, plant: Plant
) -> None:
    """Copies in them, and what nobody had requested, passed for nothing."""
    topic = "mesh.c.ep.all"

    def lose(end: int) -> None:
        while len(plant.logs.get((topic, 0), ())) <= end:
            offsets = plant.publish("a", "acme/x", 1, letter="d")
            plant.deliver("c/all", offsets, ["a", "b", "c"], origin="a.in.d")
        plant.logs[topic, 0][:end] = [None] * end
        bench.begins[TopicPartition(topic, 0)] = end

    lose(3)
    assert bench.settle() == ["unproven"]
    lose(9)
    bench.settle()
    (finding,) = bench.auditor.state.register.findings.values()
    assert (finding.endpoint, finding.count) == ("c/all", 3 + 5)
    assert finding.ids == (f"{topic}/0@0-2", f"{topic}/0@4-8")


# -- a `clients` topic that was recreated ----------------------------------------------------


@pytest.mark.parametrize("before", [1, 9], ids=["longer", "shorter"])
def test_subscriptions_of_a_clients_topic_that_was_recreated_are_read_from_its_beginning(
    bench: PlainBench, plant: Plant, before: int
) -> None:
    """Spark goes on where it was; what is asked for again is news, and the rest has ended."""
    for number in range(before):
        last = plant.subscribe("c", "gone", f"acme/{number}")
    last = plant.subscribe("c", "s1", "acme/>")
    plant.cuts_everywhere("c", last)
    plant.carry(5, ["c/s1", "c/gone"])
    bench.settle()
    bench.clock_s += 60
    plant.logs[CLIENTS] = []
    bench.ids["mesh.c.clients"] = "ab" * 16
    plant.subscribe("c", "all", ">", b'{"class": "direct"}')
    plant.subscribe("c", "s2", "other")
    plant.subscribe("c", "s1", "acme/>")
    last = plant.subscribe("c", "s3", "acme/>")
    plant.beat()
    bench.take()
    plant.cuts_everywhere("c", last)
    plant.carry(5, ["c/s1", "c/s3"], lost=[2])
    bench.settle()
    lost = ("mesh.a.in.g/0/0/7",)
    assert missing(bench) == [("c/s1", lost), ("c/s3", lost)]


# -- subscriptions that have ended in a Kafka cluster that is not read -------------------------


def test_what_ended_is_known_as_long_as_its_kafka_cluster_is_not_read(
    bench: PlainBench, plant: Plant
) -> None:
    """It was forgotten once enough had changed elsewhere: what had come by it was unexpected."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>", None))
    bench.take("mesh.c.ep.s1")
    interest, kafka_clusters = bench.auditor.state.interest, bench.auditor.kafka_clusters
    kafka_clusters.unread["k2"] = "nobody answers"
    interest.changes += PRUNE_EVERY
    bench.wait(3)
    assert not interest.is_full
    del kafka_clusters.unread["k2"]
    assert bench.settle() == []
    assert certified(bench) == [(True, True)]


# -- nodes that are gone ---------------------------------------------------------------------


def branched(*others: tuple[str, str]) -> Topology:
    """The chain, and nodes that hang on it."""
    nodes = dict.fromkeys(("a", "b", *(name for name, _ in others)), "k1") | {"c": "k2"}
    links = [("a", "b"), ("b", "c"), *others]
    return Topology(
        name="planted",
        kafka={"k1": DeclaredKafka(name="k1"), "k2": DeclaredKafka(name="k2")},
        nodes={one: Node(name=one, kafka=at, partitions=PARTITIONS) for one, at in nodes.items()},
        zones={"Z": Zone.of_links("Z", ZoneKind.MULTI_HOP, links)},
        audit_kafka="k1",
    )


def put_in_force(plant: Plant, number: int, topology: Topology) -> None:
    plant.put("config", 0, b"topology", encode_config(number, published_text(topology)))


def test_a_loss_is_told_after_a_node_was_given_up_that_has_left_things_unread(
    bench: PlainBench, plant: Plant
) -> None:
    """What waits there for ever kept every loss of what its neighbours send from being told."""
    put_in_force(plant, 1, branched(("r", "a"), ("x", "r")))
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    offsets = plant.carry(3, ["c/s1"])
    plant.frame("a->r", offsets, path=["a"], source="a.in.g")
    bench.settle()
    for number, one in enumerate([branched(), branched(("y", "a"))], 2):
        put_in_force(plant, number, one)
        bench.take()
        bench.wait(15)
    plant.carry(5, ["c/s1"], lost=[3])
    assert "missing" in bench.settle()
    assert missing(bench) == [("c/s1", ("mesh.a.in.g/0/0/6",))]


# -- holds of targets that are gone ----------------------------------------------------------


def test_a_hold_is_over_whose_target_was_deleted(bench: PlainBench, plant: Plant) -> None:
    """Its lane keeps nothing of it any more; the word of its catch-up stays for ever."""
    target, source = Place("mesh.c.ep.s1", 0), SourcePartition(plant.id_of("mesh.b.to.c.g"), 0)
    own, beside = Held(target, source, 1, 4), Held(target, source, 1, 6)
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.keep("c", own)
    plant.carry(5, ["c/s1"], lost=[3])
    assert bench.settle() == []
    plant.put("c.progress", 0, fact_key(own.key), None)
    plant.put("c.progress", 1, fact_key(beside.key), encode_fact(beside))
    assert bench.settle() == ["missing"]


def test_a_hold_is_not_over_by_the_word_of_another_node(bench: PlainBench, plant: Plant) -> None:
    """What waits would be told as lost. Spec: DESIGN 4.6."""
    target, source = Place("mesh.c.ep.s1", 0), SourcePartition(plant.id_of("mesh.b.to.c.g"), 0)
    own = Held(target, source, 1, 4)
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.keep("c", own)
    plant.carry(5, ["c/s1"], lost=[3])
    assert bench.settle() == []
    plant.put("b.progress", 0, fact_key(own.key), None)
    assert bench.settle() == []


def test_a_loss_at_one_endpoint_is_told_while_another_one_is_held(
    bench: PlainBench, plant: Plant
) -> None:
    """It waited with all that the node had in hand, for as long as the other one was refused."""
    source = SourcePartition(plant.id_of("mesh.b.to.c.g"), 0)
    hold = Held(Place("mesh.c.ep.s2", 0), source, 1, 4)
    for endpoint in ("s1", "s2"):
        plant.cuts_everywhere("c", plant.subscribe("c", endpoint, "acme/>"))
    plant.keep("c", hold)
    plant.carry(5, ["c/s1"], lost=[3])
    assert bench.settle() == ["missing"]
    assert missing(bench) == [("c/s1", ("mesh.a.in.g/0/0/3",))]
    plant.keep("c", replace(hold, next=-1))
    assert bench.settle() == ["missing", "missing"]


# -- endpoints that are deleted and made again -------------------------------------------------

ENDPOINT = "mesh.c.ep.s1"


def test_what_an_endpoint_had_got_before_it_was_made_again_is_not_missing(
    bench: PlainBench, plant: Plant
) -> None:
    """It had come, and was deleted before the auditor read it: it was told as a loss."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], partition=1)
    bench.settle()
    bench.clock_s += 60
    plant.carry(5, ["c/s1"])
    plant.logs[ENDPOINT, 0] = []
    plant.logs[ENDPOINT, 1] = []
    bench.ids[ENDPOINT] = "ab" * 16
    assert "missing" not in bench.settle()
    assert certified(bench) == [(True, True)]  # of the other partition
    plant.carry(9, ["c/s1"], lost=[7])
    bench.settle()
    assert missing(bench) == [("c/s1", ("mesh.a.in.g/0/0/12",))]


def test_a_copy_in_an_endpoint_that_was_recreated_is_not_certified(
    bench: PlainBench, plant: Plant
) -> None:
    """The first one is gone with the former topic: who reads again finds one alone."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    bench.settle()
    bench.clock_s += 60
    bench.ids[ENDPOINT] = "ab" * 16
    plant.logs[ENDPOINT, 0] = []
    bench.settle()
    assert missing(bench) == []
    plant.deliver("c/s1", [2], ["a", "b", "c"])
    bench.settle()
    assert missing(bench) == []
    assert [one for one in certified(bench) if one[0]] == []


# -- findings that are told before they are saved --------------------------------------------


def test_what_is_not_found_again_after_a_crash_is_taken_back(
    bench: PlainBench, plant: Plant
) -> None:
    """Another Kafka cluster is read first then, and excuses it."""
    bench.home = lambda topic: "k2" if topic == "mesh.config" else kafka_of(topic)
    bench.restart()
    offsets = plant.publish("a", "acme/x", 1)
    plant.frame("a->c", offsets, path=["a"], source="a.in.g")
    put_in_force(plant, 1, branched(("a", "c")))
    with pytest.raises(KeyboardInterrupt):
        bench.crash_after_writing("mesh.audit.findings")
    (told,) = [one for one in bench.outputs if one.topic == "mesh.audit.findings"]
    assert json.loads(told.value or "")["kind"] == "unplanned-path"
    bench.kafkas, bench.taken = ("k2", "k1"), {}
    bench.restart()
    assert bench.settle() == []
    written = {one.key: one.value for one in bench.outputs if one.topic == "mesh.audit.findings"}
    assert written == {told.key: None}
