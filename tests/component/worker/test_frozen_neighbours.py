"""News that a neighbour is not read waits for what it wanted last, and for nothing in vain."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.model.control import Ownership, Scope
from mesh.model.effects import Relinked
from mesh.model.inputs import (
    Input,
    LinkDisabled,
    LinkEnabled,
    NeighbourCaughtUp,
    NeighbourUnproven,
    Ticked,
)
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Record, TopicPartition
from mesh.wire.control import encode_learned
from mesh.wire.keys import learned_key
from mesh.worker.control.frozen_neighbours import RETRY_MS, FreezingNews, FrozenNeighbours
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.questions import Questions
from tests.component.worker.conftest import CHAIN
from tests.said import Said

LEARNED = TopicPartition("mesh.a.learned", 0)
SCOPE = Scope("Z", "", Ownership.OWN)
KEPT = {SCOPE: ["orders/>"]}, {SCOPE: (3, 7)}
LOST = NeighbourUnproven("b", *KEPT, is_reached=False)
SHUT = LinkDisabled("b", *KEPT)


def record() -> Record:
    key, value = learned_key("b", SCOPE), encode_learned(3, 7, ["orders/>"])
    return MemoryRecord(LEARNED.topic, 0, 0, key, value, None, (0, 0))


@dataclass
class Kept:
    """Stands for the recall of a worker: what `learned` says, or a Kafka cluster that is away."""

    is_away: bool = False
    asked: int = 0

    def decided(self, place: TopicPartition) -> list[Record]:
        assert place == LEARNED
        self.asked += 1
        if self.is_away:
            raise TransportUnavailableError("no broker answers")
        return [record()]


@dataclass
class Node:
    """A worker's news; each answer comes some looks late."""

    looks: int = 3
    kept: Kept = field(default_factory=Kept)
    now_ms: int = 0

    def __post_init__(self) -> None:
        self.questions = Questions(SteppedErrands(lambda: self.looks))
        self.frozen = FrozenNeighbours(LEARNED, self.kept, self.questions)  # type: ignore[arg-type]

    def turn(self, *news: Input) -> list[Input]:
        self.now_ms += 10
        return list(self.frozen.complete(news, self.now_ms))

    def turns(self, count: int = 100) -> list[Input]:
        return [one for _ in range(count) for one in self.turn()]


@pytest.mark.parametrize("told", [LOST, SHUT])
def test_the_news_waits_for_what_is_kept_and_other_news_do_not(told: FreezingNews) -> None:
    """Spec: K21."""
    node = Node()
    bare = replace(told, learned={}, versions={})
    assert node.turn(bare, Ticked(1)) == [Ticked(1)]
    assert node.turns() == [told]
    assert not node.questions.are_open


@pytest.mark.parametrize("news", [NeighbourCaughtUp("b"), LinkEnabled("b")])
def test_who_is_read_after_all_is_not_frozen_by_an_answer_that_comes_late(news: Input) -> None:
    node = Node()
    assert node.turn(NeighbourUnproven("b", is_reached=False)) == []
    assert node.turn(news) == [news]
    assert node.turns() == []
    assert not node.questions.are_open


def test_a_neighbour_that_is_removed_is_waited_for_no_more() -> None:
    """Spec: K28."""
    node = Node()
    assert node.turn(LinkDisabled("b")) == []
    node.frozen.relink(Relinked(topology_from_mapping(CHAIN), ("b",), ()), node.now_ms)
    assert node.turns() == []
    assert not node.questions.are_open


def test_who_is_told_twice_is_looked_up_as_of_the_second_time() -> None:
    """What was learned may be newer by then."""
    node = Node()
    assert node.turn(LinkDisabled("b")) == []
    assert node.turn(LinkDisabled("b")) == []
    assert node.turns() == [SHUT]


def test_an_own_kafka_cluster_that_is_away_is_asked_again(said: Said) -> None:
    """It ends no worker: it did so once."""
    node = Node(looks=0, kept=Kept(is_away=True))
    assert node.turn(LinkDisabled("b")) == []
    assert node.turns(count=RETRY_MS // 10 * 3) == []
    assert node.kept.asked == 4
    told = said.of("learned.not_read")
    assert [(one["log_level"], one["neighbour"]) for one in told] == [("warning", "b")] * 4
    assert {one["fault"] for one in told} == {"no broker answers"}
    node.kept.is_away = False
    assert node.turns() == [SHUT]


def test_who_has_just_taken_the_leadership_waits_for_nothing() -> None:
    """It has read that before its first word, which must say no less than the last one did."""
    node = Node()
    node.frozen.at_hand = [record()]
    assert node.turn(LinkDisabled("b")) == [SHUT]
    assert node.kept.asked == 0
    assert node.turn(LinkDisabled("b")) == []
