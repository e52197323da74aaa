"""What differs on the own control topic is written again, and once, however late it is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mesh.model.control import NO_TOPIC, Mark, Ownership, Scope
from mesh.model.effects import RestartLeadership, WriteMark
from mesh.model.inputs import OwnMarkRead
from mesh.node.foreign_records import PATIENCE_MS, ForeignRecords
from tests.said import noted

SCOPE = Scope("Z", "", Ownership.OWN)
STEP_MS = 100


def mark(number: int) -> Mark:
    return Mark(1, number, 0, 0, NO_TOPIC)


class Topic:
    """A leader's control topic, of which it reads each record so long after it was written."""

    def __init__(self, late_ms: int, *written_ms: int) -> None:
        self.late_ms = late_ms
        self.newest = len(written_ms)
        self.unread = [(at_ms, number) for number, at_ms in enumerate(written_ms, start=1)]
        self.now_ms = 0
        self.restarts = 0
        self.effects: list[object] = []
        self.foreign = ForeignRecords(caught_up=True)
        self.leader: Any = SimpleNamespace(
            has_offered=True,
            marks=lambda: {SCOPE: mark(self.newest)},
            mark_again=lambda scopes: [WriteMark(scope, mark(self.newest + 1)) for scope in scopes],
        )

    def run(self, for_ms: int) -> int:
        """Return how often a mark was written again."""
        learner: Any = None
        before, until_ms = self.newest, self.now_ms + for_ms
        while self.now_ms < until_ms:
            self.now_ms += STEP_MS
            while self.unread and self.now_ms - self.unread[0][0] >= self.late_ms:
                said = OwnMarkRead(SCOPE, mark(self.unread.pop(0)[1]))
                self.foreign.read(self.leader, learner, said, self.now_ms)
            for effect in self.foreign.overwrite(self.leader, learner, self.now_ms):
                self.effects.append(effect)
                if isinstance(effect, WriteMark):
                    self.newest += 1
                    self.unread.append((self.now_ms, self.newest))
                elif isinstance(effect, RestartLeadership):
                    self.restarts += 1
                    self.foreign.forget()
        return self.newest - before


@pytest.mark.parametrize("late_ms", [5_000, 20_000, 50_000])
def test_what_is_read_late_is_not_taken_for_foreign_again_and_again(late_ms: int) -> None:
    """Spec: K16, R12."""
    topic = Topic(late_ms, 0, 3_000)
    assert topic.run(300_000) < 8
    assert topic.run(300_000) == 0


def test_a_record_that_took_the_place_of_the_newest_is_replaced_at_once_each_time() -> None:
    """Spec: R12."""
    topic = Topic(100, 0, 0)
    for _ in range(3):
        topic.unread.append((topic.now_ms, topic.newest - 1))
        assert topic.run(PATIENCE_MS.first + 500) == 1
    told = {"log_level": "warning", "what": "the offers of Z:/own", "text": "written again"}
    assert noted(topic.effects).of("control.foreign") == [told] * 3


def test_a_mark_that_is_newer_outlives_what_the_leader_writes_after_it() -> None:
    """Readers believe it and no mark of that leader any more, however many come. Spec: K16, R12."""
    topic = Topic(100, 0, 0)
    topic.unread.append((topic.now_ms, topic.newest + 1_000))
    while topic.now_ms < PATIENCE_MS.first + 500:
        topic.newest += 1
        topic.unread.append((topic.now_ms, topic.newest))
        topic.run(STEP_MS)
    assert topic.restarts == 1
    told = {"log_level": "warning", "what": "the mark of Z:/own", "text": "newer than the leader's"}
    assert noted(topic.effects).of("control.foreign") == [told]
