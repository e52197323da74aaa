"""What strangers write ends no batch: each is told once with its place. Spec: DESIGN 4.6."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import functions as F

from mesh.model.control import Identity, Stop, TopicIdentity
from mesh.model.facts import Held
from mesh.model.frames import SourcePartition, TopicPartition
from mesh.model.state import Cut, Ledger
from mesh.wire.control import encode_identity, encode_stop
from mesh.wire.header import MAGIC
from mesh.wire.state import encode_fact, encode_ledger
from streaming.job import batches, intake
from streaming.job.outages import KafkaOutages
from streaming.job.queries import Queries, Query
from streaming.tables.columns import parsed
from tests.streaming.conftest import kafka_frame, kafka_of
from tests.streaming.planted import Plant

pytestmark = pytest.mark.spark

LONGEST = 2**31 - 9
"""The longest string that Avro's Java library takes by itself: more than any heap here."""

SOME = 3 * 2**28
"""Items that an array of Java may have, and no heap here."""


def number(value: int) -> bytes:
    """Return a number as Avro writes it."""
    value <<= 1
    parts = bytearray()
    while value > 0x7F:
        parts.append(0x80 | (value & 0x7F))
        value >>= 7
    return bytes([*parts, value])


def stray_delivery(plant: Plant, *parts: int) -> None:
    """Write a record to c/s1 whose last header begins like a delivery's."""
    data = b"".join(number(one) for one in parts).ljust(25, b"x")
    plant.put("c.ep.s1", 0, b"k", b"v", [("mesh-subject", b"acme/x"), ("mesh", data)])


def write_odd_records(plant: Plant) -> None:
    orders = [TopicIdentity("orders", bytes(16), 1)]
    told = Identity(node="b", uuid="odd", epoch=9, cluster_id="x", lanes=1, topics=orders)
    held = Held(TopicPartition("orders", 0), SourcePartition(bytes(16), -1), 1, 5)
    cuts = [Cut("orders", bytes(16), 0, 3, "uuid-c", 4)]
    plant.put(
        "a.control", 0, b"stop x 0", encode_stop(Stop("orders", 0, bytes(16), "truncated", 3))
    )
    plant.put("b.control", 0, b"identity", encode_identity(told))
    plant.put("a.progress", 0, b"held x", encode_fact(held))
    plant.put("a.ledger", 0, b"0", encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=cuts)))
    plant.frame("b->a", [0], path=[], source="b.in.g", origin="b.in.g", partition=1)
    for zone in (LONGEST, 2**40):
        plant.put("a.to.b.g", 1, MAGIC + number(1) + number(0) + number(zone), b"")
    stray_delivery(plant, 1, 0, 1, LONGEST)  # the first node of its path
    stray_delivery(plant, 1, 0, SOME)  # so many nodes
    plant.deliver("c/s1", [8], ["a", "b", "c"], moves=2**64 - 1)
    plant.deliver("c/s1", [9], ["a", "b", "c"], moves=2**64)
    plant.deliver("c/s1", [2**63 - 1], ["a", "b", "c"], partition=1)
    plant.deliver("c/s1", [-5], ["a", "b", "c"])
    plant.deliver("c/all", [0], ["a", "b", "c"], origin="a.in.d", subject="x/" * 100_000 + "x")
    plant.put("a.in.g", 1, b"k", b"v", [("mesh-subject", b"x/" * 100_000 + b"x")])


def test_odd_records_are_told_with_their_places_and_all_else_is_judged(bench, plant):
    for node in ("b", "c"):
        plant.cuts_everywhere(node, plant.subscribe(node, "s1", "acme/>"))
    plant.carry(10, ["b/s1", "c/s1"])
    assert bench.settle() == []
    write_odd_records(plant)
    bench.settle()
    register = bench.auditor.state.register
    found = sorted(
        (one.kind.value, one.link or one.endpoint or one.source, one.ids, one.count)
        for one in register.findings.values()
    )
    assert found == [
        ("duplicate", "c/s1", ("mesh.a.in.g/0/0/8", "mesh.a.in.g/0/0/9"), 2),
        ("unexpected", "a->b", ("mesh.a.to.b.g/1@0",), 2),
        ("unexpected", "c/all", ("mesh.a.in.d/0/0/0",), 1),
        ("unexpected", "c/s1", (f"mesh.a.in.g/1/0/{2**63 - 1}",), 1),
        ("unexpected", "c/s1", ("mesh.c.ep.s1/0@10",), 3),
        ("unexpected", "mesh.a.control/0", ("mesh.a.control/0@1",), 1),
        ("unexpected", "mesh.a.ledger/0", (f"mesh.a.ledger/0@{len(ledger(plant)) - 1}",), 1),
        ("unexpected", "mesh.a.progress/0", (f"mesh.a.progress/0@{len(progress(plant)) - 1}",), 1),
        ("unexpected", "mesh.b.control/0", ("mesh.b.control/0@1",), 1),
        ("unplanned-path", "b->a", ("mesh.b.in.g/1/0/0",), 1),
    ]
    register.take_unpublished()
    plant.carry(30, ["b/s1", "c/s1"], subject="acme/more", lost=[29])
    kinds = bench.settle()
    assert kinds.count("missing") == 2
    assert len(kinds) == len(found) + 2
    assert bench.certificates["mesh.a.in.g/0", "b/s1"].expected == 40


def ledger(plant: Plant) -> list:
    return plant.logs["mesh.a.ledger", 0]


def progress(plant: Plant) -> list:
    return plant.logs["mesh.a.progress", 0]


def break_on_odd_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Spark fail on a message whose key is `odd`, and Python on a stop that `x` made."""

    def odd_parsed(raw, prefix, message_bytes_max):
        odd = F.raise_error(F.concat(F.lit("odd at "), F.col("offset"))).cast("binary")
        value = F.when(F.col("key") == F.lit(b"odd"), odd).otherwise(F.col("value"))
        return parsed(raw.withColumn("value", value), prefix, message_bytes_max)

    def odd_stop(prefix, node, stop):
        raise ZeroDivisionError(str(stop))

    monkeypatch.setattr(batches, "parsed", odd_parsed)
    monkeypatch.setattr(intake, "_stop_finding", odd_stop)


def test_what_spoils_a_batch_is_left_out_and_told_after_it_has_failed_twice(
    bench, plant, spark, tmp_path: Path, monkeypatch
):
    """What nobody has thought of costs its own record, not the Kafka cluster's."""
    break_on_odd_records(monkeypatch)
    plant.cut("a", "a.in.g", 0, "b", plant.subscribe("b", "s1", "acme/>"))
    plant.carry(6, ["b/s1"], lost=[4])
    plant.publish("a", "acme/x", 1, partition=1)
    plant.put("a.in.g", 1, b"odd", b"payload", [("mesh-subject", b"acme/x")])
    plant.put("a.control", 0, b"stop x 0", encode_stop(Stop("mesh.a.in.g", 0, bytes(16), "x", 3)))
    told: list[str] = []
    queries = Queries(spark, bench.auditor, {}, tmp_path, 1.0, KafkaOutages(told.append))
    queries.by_kafka["k1"] = Query()
    bench.ends = {place: len(log) for place, log in plant.logs.items()}
    here = [place for place in bench.ends if kafka_of(place[0]) == "k1"]
    take, frame = queries._taker("k1"), kafka_frame(spark, plant, places=here)
    for _ in range(2):
        with pytest.raises(Exception, match="odd at"):
            take(frame, 0)
    take(frame, 0)
    assert told == ["k1: batch 0 is spoiled, and read again in parts"]
    bench.taken = {place: end for place, end in bench.ends.items() if place in here}
    assert bench.settle() == ["missing", "unproven", "unproven"]
    found = bench.auditor.state.register.findings.values()
    assert sorted(one.ids for one in found if one.kind == "unproven") == [
        ("mesh.a.control/0@1",),
        ("mesh.a.in.g/1@1",),
    ]
    assert [one.ids for one in found if one.kind == "missing"] == [("mesh.a.in.g/0/0/4",)]
    take(frame, 0)  # a batch that Spark runs again is no news
    assert queries.by_kafka["k1"] == Query()
