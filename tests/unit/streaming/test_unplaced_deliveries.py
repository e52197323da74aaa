"""Deliveries that belong to no block: their source is not named yet, is no ingress, or none at all."""

from __future__ import annotations

import pytest

from mesh.model.findings import FindingKind
from streaming.audits.unplaced_deliveries import CLASSES
from streaming.tables.rows import SourceKey
from tests.unit.streaming.certified import (
    ENDPOINT,
    PLACE,
)
from tests.unit.streaming.certified import table as table  # noqa: PLC0414 - a fixture


def test_a_delivery_of_a_source_that_nobody_named_is_parked(table):
    stranger = SourceKey("bb", 0)
    table.deliver(0, source=stranger)
    assert len(table.certifier.blocks.unplaced.parked) == 1
    assert list(table.certifier.blocks.unplaced.forged("mesh.", table.at_s + 59.0)) == []
    table.world.names.topics["bb"] = PLACE.topic
    table.publish(0)
    table.certifier.blocks.deliver([], table.world.names, table.at_s)
    table.judge()
    assert table.issued() == [(1, 1, True, True)]


def test_what_is_parked_grows_with_blocks_and_not_with_batches(table):
    """A Kafka cluster that cannot be read names none of its topics, however long that takes."""
    for offset in (*range(100), 4096):
        table.deliver(offset, source=SourceKey("bb", 0))
    parked = table.certifier.blocks.unplaced.parked
    assert [len(rows) for _, rows in parked.values()] == [2]
    table.world.names.tell(PLACE.topic, "bb")
    table.deliver(4097, source=SourceKey("bb", 0))
    blocks = table.certifier.blocks.open[PLACE]
    assert [one.receipts[ENDPOINT].digest.count for one in blocks.values()] == [100, 2]


def test_deliveries_of_a_source_that_no_kafka_cluster_has_are_forged(table):
    """They used to pile up without a word."""
    table.deliver(0, 3, source=SourceKey("bb", 0))
    table.deliver(7, source=SourceKey("bb", 0))
    (finding,) = table.certifier.blocks.unplaced.forged("mesh.", table.at_s + 61.0)
    assert (finding.kind, finding.endpoint, finding.count) == ("forged-origin", "a/s1", 3)
    assert finding.ids == ("bb/0/0/0-7",)
    assert table.certifier.blocks.unplaced.parked == {}


def test_direct_messages_are_not_certified(table):
    table.world.names.topics["dd"] = "mesh.a.in.d"
    table.deliver(0, source=SourceKey("dd", 0))
    assert table.certifier.blocks.open == {}


@pytest.mark.parametrize(("source", "said"), [("g", "direct"), ("d", "guaranteed")])
def test_the_ingress_tells_the_class_and_another_label_is_unexpected(table, source, said):
    """A direct message labelled guaranteed was judged by no audit at all."""
    table.world.names.topics["dd"] = f"mesh.a.in.{source}"
    table.deliver(0, source=SourceKey("dd", 0), message_class=CLASSES[source])
    assert table.certifier.blocks.unplaced.take_findings() == []
    table.deliver(3, source=SourceKey("dd", 0), message_class=said)
    table.judge(0.0)
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.endpoint, finding.first) == ("unexpected", "a/s1", 3)
    assert finding.text.endswith(f"say they are {said}")


@pytest.mark.parametrize(("letter", "message_class"), [("g", "guaranteed"), ("d", "direct")])
def test_what_says_it_comes_from_no_ingress_is_forged(table, letter: str, message_class: str):
    """Brokers know the topic, and the class is right: so nothing else is said of direct ones."""
    table.world.names.topics["bb"] = f"mesh.a.to.b.{letter}"
    table.deliver(3, 4, source=SourceKey("bb", 0), message_class=message_class)
    table.judge()
    (finding,) = table.world.register.findings.values()
    assert finding.kind is FindingKind.FORGED_ORIGIN
    assert (finding.endpoint, finding.source) == ("a/s1", f"mesh.a.to.b.{letter}/0")
    assert (finding.ids, finding.count) == ((f"mesh.a.to.b.{letter}/0/0/3-4",), 2)
    assert not table.certifier.blocks.open
