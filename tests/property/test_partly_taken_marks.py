"""Marks of frames that were not taken whole, against one mark per frame of a log kept by hand."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mesh.lane.partly_taken_marks import BLOCK, NOT_TAKEN, PartlyTakenMarks
from mesh.model.facts import PartlyTaken
from mesh.model.frames import TopicPartition
from tests.property.effort import examples

AT = TopicPartition("mesh.a.to.b.g", 0)
OFFSETS = st.sampled_from(
    [at for edge in (0, BLOCK, 2 * BLOCK, 9 * BLOCK) for at in (edge - 1, edge, edge + 1)][1:]
)
AFTERS = st.sampled_from([NOT_TAKEN, 0, 7, 10**15])


class MarksAgainstFrames(RuleBasedStateMachine):
    """An outbox is read, deleted from, cut off and recreated; the lane's owner changes.

    The model has each frame's mark by itself, and the records of `progress` as a compacted topic
    keeps them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.marks = PartlyTakenMarks()
        self.topic_id = bytes(16)
        self.known: dict[int, int] = {}
        self.progress: dict[int, PartlyTaken] = {}

    @rule(offset=OFFSETS, after=AFTERS)
    def mark(self, offset: int, after: int) -> None:
        self.known[offset] = after
        self._keep(self.marks.marked(AT, self.topic_id, offset, after))

    @rule(offset=OFFSETS, after=AFTERS)
    def fail(self, offset: int, after: int) -> None:
        """What is to be kept counts when it is applied, not before."""
        self.marks.marked(AT, self.topic_id, offset, after)

    def _keep(self, fact: PartlyTaken) -> None:
        self.progress.pop(fact.block, None)
        self.progress[fact.block] = fact
        self.marks.apply(fact)

    @rule(start=OFFSETS)
    def delete(self, start: int) -> None:
        """Kafka has the offsets below one no longer; blocks that still have others stay whole."""
        self._forget(start)
        self.known = {
            at: after for at, after in self.known.items() if at - at % BLOCK + BLOCK > start
        }

    @rule(is_read_anew=st.booleans())
    def recreate(self, is_read_anew: bool) -> None:
        """Offsets are those of other frames; who begins to read forgets what was kept of others."""
        self.topic_id = (int.from_bytes(self.topic_id) + 1).to_bytes(16)
        self.known.clear()
        if is_read_anew:
            self._forget(0)
            assert self.marks == PartlyTakenMarks(self.marks.topic_id)

    def _forget(self, start: int) -> None:
        for block in [*self.marks.forget(self.topic_id, start)]:
            del self.progress[block]

    @rule(end=OFFSETS)
    def cut_off(self, end: int) -> None:
        """The log lost its end, which was accepted: these offsets come again as other frames."""
        for fact in [*self.marks.cut_off(AT, end)]:
            self._keep(fact)
        self.known = {at: after for at, after in self.known.items() if at < end}

    @rule()
    def hand_over(self) -> None:
        """Who takes the lane folds what is kept, in the order of its topic."""
        self.marks = PartlyTakenMarks()
        for fact in self.progress.values():
            self.marks.apply(fact)

    @invariant()
    def each_frame_has_its_own_mark(self) -> None:
        """And none of another log's, nor a neighbour's. Spec: K11, K20."""
        offsets = {at + step for at in [0, BLOCK, 2 * BLOCK, 9 * BLOCK] for step in (-1, 0, 1)}
        other = bytes([255]) * 16
        for offset in sorted(offsets | {*self.known}):
            assert self.marks.after(self.topic_id, offset) == self.known.get(offset)
            assert self.marks.after(other, offset) is None

    @invariant()
    def records_say_exactly_that(self) -> None:
        """Nothing is kept of frames that were taken whole."""
        own = [one for one in self.progress.values() if one.topic_id == self.topic_id]
        frames = [frame for fact in own for frame in fact.frames]
        assert {frame.offset: frame.after for frame in frames} == self.known
        assert len(frames) == len(self.known)


TestMarksAgainstFrames = MarksAgainstFrames.TestCase
TestMarksAgainstFrames.settings = examples(40)
