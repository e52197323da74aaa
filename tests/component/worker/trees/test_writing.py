"""What the tree layer cannot write is told, and costs what it is for."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import PartitionSuspected
from mesh.model.tree_frames import Bye, Frame
from mesh.transport.memory import MemoryKafka
from mesh.transport.node_topics import node_topics
from mesh.trees.applications.effects import Tell
from mesh.trees.outputs import Transmit
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.questions import Questions
from mesh.worker.trees.writing import TreeWriter
from tests.component.worker.conftest import CHAIN
from tests.said import Said

TOPOLOGY = topology_from_mapping(CHAIN)
NAMES = TopicNames()


@pytest.fixture
def kafka() -> MemoryKafka:
    found = MemoryKafka("k")
    found.admin().create(node_topics(TOPOLOGY, "a"))
    return found


@pytest.fixture
def writer(kafka: MemoryKafka) -> TreeWriter:
    return TreeWriter(TOPOLOGY, "a", kafka, Questions(SteppedErrands()), epoch=1)


def test_a_frame_that_fits_no_schema_is_left_out(said: Said, writer: TreeWriter) -> None:
    """Its number is missing then, and the neighbour takes the link for down. Spec: tree_layer 12."""
    writer.perform([Transmit("b", Frame(1 << 70, 1, Bye()))])
    [told] = said.of("trees.not_written")
    assert (told["log_level"], told["link"]) == ("warning", "b")
    assert "cannot be encoded" in told["fault"]
    assert not writer.frames


def test_records_that_brokers_do_not_take_are_counted(
    said: Said, kafka: MemoryKafka, writer: TreeWriter
) -> None:
    kafka.denied[NAMES.to_trees("a", "b")] = "no right"
    writer.perform([Transmit("b", Frame(1, number, Bye())) for number in (1, 2)])
    assert writer.count_lost() == writer.lost == 2
    assert said.of("trees.lost") == [{"log_level": "warning", "records": 2}]


def test_applications_for_which_no_topic_is_made_are_named(
    said: Said, kafka: MemoryKafka, writer: TreeWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.refused[NAMES.app("a", "bad")] = "policy"
    writer.perform([Tell("bad", PartitionSuspected("b"))])
    writer.see_to(0)
    monkeypatch.setattr("mesh.worker.trees.writing.TOPICS_MAX", 0)
    writer.see_to(60_000)
    refused, full = said.of("trees.no_topic")
    assert {(one["log_level"], *one["apps"]) for one in (refused, full)} == {("warning", "bad")}
    assert "policy" in refused["fault"]
    assert full["fault"] == "0 applications have topics here; see `mesh role clean`"
