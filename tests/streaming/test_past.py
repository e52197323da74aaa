"""A past range, judged in batch as the live auditor judges. Spec: K5, K29-K31."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mesh.errors import ConfigError
from mesh.model.topics import TopicNames
from streaming.audits.routed_blocks import RoutedBlocks
from streaming.config import AuditSettings
from streaming.job.extent import PastRange
from streaming.job.past import HOP_STILL_S, LeapingClock, Past
from streaming.job.past_run import PastReport, past_of
from streaming.tables.digest import BLOCK_OFFSETS
from streaming.tables.rows import TopicPartition
from tests.streaming.planted import NEW_YEAR_MS, Plant

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000


def past(bench, span: tuple[int, int], batch: int = 1_000_000) -> tuple[Past, PastReport]:
    """Return what judges a range of a plant, and where it tells."""
    report = PastReport(TopicNames("mesh."))
    settings = AuditSettings(
        topology=bench.topology,
        kafka={},
        checkpoint=bench.folder,
        cache=bench.folder,
        offsets_max=batch,
    )
    clock, extent = LeapingClock(), PastRange(RoutedBlocks("mesh.", *span))
    kafka_clusters = replace(bench.kafka_clusters(), clock=clock.now_s, extent=extent)
    made = past_of(settings, extent, clock, bench.reader(kafka_clusters), report.take)
    made.pause = lambda _: None
    return made, report


def judged(bench, *span: int, batch: int = 1_000_000) -> PastReport:
    made, report = past(bench, (span[0], span[1]), batch)
    report.conclude(made)
    return report


def told(report: PastReport) -> list[tuple[str, list[str]]]:
    return sorted((one["kind"], one["ids"]) for one in report.findings.values())


def carry(plant: Plant, lost: list[int]) -> None:
    """Take five messages from a to c, and tell in the ledger of a that they were routed."""
    offsets = plant.carry(5, ["c/s1"], lost=lost)
    plant.tell_read("a", "a.in.g", offsets[0], offsets[-1] + 1, 5)


def hours_of(plant: Plant, first: list[int], second: list[int]) -> None:
    """Carry in two hours, in a block each, what lacks some messages."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    carry(plant, first)
    ingress = plant.logs["mesh.a.in.g", 0]
    ingress += [None] * (BLOCK_OFFSETS - len(ingress))  # markers of transactions stand there
    plant.at_ms += HOUR_MS
    carry(plant, second)


@pytest.fixture
def two_hours(plant: Plant) -> Plant:
    """A loss in each of two hours."""
    hours_of(plant, [3], [2])
    return plant


def test_of_a_range_its_own_messages_are_judged_and_no_others(bench, two_hours: Plant) -> None:
    """What was delivered before is neither strange nor missing; several batches do."""
    second = (NEW_YEAR_MS + HOUR_MS, NEW_YEAR_MS + 2 * HOUR_MS)
    report = judged(bench, *second, batch=BLOCK_OFFSETS)
    assert told(report) == [("missing", [f"mesh.a.in.g/0/0/{BLOCK_OFFSETS + 2}"])]
    (one,) = report.certificates.values()
    assert (one["block"], one["endpoint"]) == (1, "c/s1")
    assert (one["expected"], one["delivered"], one["equal"]) == (5, 4, False)
    assert not report.summary["ok"]


def test_a_healthy_range_is_proven_beside_one_that_is_not(bench, plant: Plant) -> None:
    """What comes after it is left out as well."""
    hours_of(plant, [], [2])
    report = judged(bench, NEW_YEAR_MS, NEW_YEAR_MS + HOUR_MS)
    assert report.summary["ok"]
    assert list(report.lines()) == [
        "1 certificates, 1 of them proofs: 5 of 5 expected deliveries; faults: 0, unproven: 0"
    ]
    certificate, summary = map(json.loads, report.json_lines())
    assert (certificate["endpoint"], certificate["from"]) == ("c/s1", 0)
    assert summary["delivered"] == 5


def test_a_range_without_a_message_proves_nothing(bench, two_hours: Plant) -> None:
    report = judged(bench, NEW_YEAR_MS + 5 * HOUR_MS, NEW_YEAR_MS + 6 * HOUR_MS)
    assert not report.summary["ok"]
    assert list(report.lines())[-1] == "nothing of that time is certified"


def test_what_a_hop_has_not_passed_is_no_loss(bench, plant: Plant) -> None:
    """K30: it is told as waiting, with the hop, once that stands still.

    What is routed meanwhile is not of the range, whatever the broker's clock says.
    """
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    offsets = plant.publish("a", "acme/x", 3)
    plant.frame("a->b", offsets, path=["a"], source="a.in.g")
    plant.progress("a", "a.in.g", 0, 3)
    plant.tell_read("a", "a.in.g", 0, 3, 3)
    made, report = past(bench, (NEW_YEAR_MS, NEW_YEAR_MS + HOUR_MS))
    waited: list[float] = []
    said: list[str] = []

    def pause(seconds: float) -> None:
        if not waited:
            plant.tell_read("a", "a.in.g", BLOCK_OFFSETS, BLOCK_OFFSETS + 1, 1)
        waited.append(seconds)

    made.pause, made.say = pause, said.append
    report.conclude(made)
    assert said == ["3 offsets of 1 ingress partitions are of that time"]
    assert list(made.extent.routed.spans.values()) == [(0, 0)]
    assert report.findings == {}
    assert HOP_STILL_S <= sum(waited) < HOP_STILL_S + 2
    (line, *_) = [one for one in report.lines() if one.startswith("not certified")]
    assert line.endswith("block 0 for c/s1: b at mesh.a.to.b.g/0: read up to 0 of 1")
    assert "not judged to the end: nothing more has come for 30 s" in report.lines()
    assert not report.summary["ok"]


def test_what_was_consumed_of_a_range_is_neither_missing_nor_proven(bench, plant: Plant) -> None:
    """A group has read it and its node has deleted it; what was published is there still."""
    hours_of(plant, [], [])
    bench.begins[TopicPartition("mesh.c.ep.s1", 0)] = 3
    plant.logs["mesh.c.ep.s1", 0][:3] = [None] * 3
    report = judged(bench, NEW_YEAR_MS, NEW_YEAR_MS + HOUR_MS)
    assert told(report) == [("unproven", ["mesh.c.ep.s1/0@0-2"])]
    assert (report.summary["proofs"], report.summary["ok"]) == (0, False)


def test_a_loss_is_not_proven_away_where_no_ledger_tells_of_the_subscription_any_more(
    bench, plant: Plant
) -> None:
    """Two weeks without a change of interest: its cut was deleted, and the loss was certified."""
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    told = plant.logs["mesh.a.ledger", 0]
    bench.begins[TopicPartition("mesh.a.ledger", 0)] = len(told)
    told[:] = [None] * len(told)
    plant.tell_read("a", "b.to.a.d", 0, 1, 1)  # before the range: it is told of all of that
    plant.at_ms += HOUR_MS
    carry(plant, [3])
    account = judged(bench, NEW_YEAR_MS + HOUR_MS, NEW_YEAR_MS + 2 * HOUR_MS)
    assert account.findings == {}
    assert account.not_judged == []
    assert (account.summary["equal"], account.summary["proofs"]) == (1, 0)
    assert "c/s1: mesh.a.in.g/0 0..4, 4 of 4, no proof" in account.lines()
    assert not account.summary["ok"]


def test_a_topic_that_was_recreated_is_told_and_nobody_is_blamed(bench, plant: Plant) -> None:
    """What was delivered of the former one is of a topic that no Kafka cluster has any more."""
    hours_of(plant, [], [])
    plant.publish("b", None)
    plant.tell_read("b", "b.in.g", 0, 1, 1)  # something else is of the range
    bench.ids["mesh.a.in.g"] = "ab" * 16
    report = judged(bench, NEW_YEAR_MS, NEW_YEAR_MS + 2 * HOUR_MS)
    assert report.findings == {}
    assert not report.summary["ok"]
    (line,) = [one for one in report.lines() if one.startswith("not judged")]
    assert line.startswith("not judged: mesh.a.in.g/0@0-8191: the topic was deleted, or recreated")


def test_a_kafka_cluster_that_the_file_does_not_tell_of_is_named(bench, plant: Plant) -> None:
    """What happened there would be taken for lost."""
    carry(plant, [])
    made, _ = past(bench, (NEW_YEAR_MS, NEW_YEAR_MS + HOUR_MS))
    del made.auditor.kafka_clusters.brokers["k2"]
    with pytest.raises(ConfigError, match=r"k2: has nodes of this mesh, and the file has not"):
        made.judge()
