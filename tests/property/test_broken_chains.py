"""A lane that reads a neighbour's frames, against the messages that were sent there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh.lane.broken_chains import REPAIR_MS
from mesh.lane.faults import ask_due, recovered
from mesh.lane.target_holds import hold, release
from mesh.model.facts import Fact, FactKey
from mesh.model.frames import NONE_OFFSET, FrameFlags
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import Row
from mesh.wire.announcements import decode_announcement
from tests.property.effort import examples
from tests.unit.lane.steps import ENDPOINT, FROM_A, NOW_MS, OF_A, TO_C, Alone, frame

CHAIN = FROM_A, OF_A
NEIGHBOURS = {FROM_A.topic: "a"}
NO_REPAIR = 0
ROUNDS_MAX = 8


def runs(messages: Sequence[int], most: int) -> Iterator[list[int]]:
    """Yield the messages of each frame: consecutive ones, and not more than so many."""
    some: list[int] = []
    for one in messages:
        if some and (one != some[-1] + 1 or len(some) == most):
            yield some
            some = []
        some.append(one)
    if some:
        yield some


class LaneAgainstMessages(RuleBasedStateMachine):
    """Frames vanish, or are garbage however often they are sent; so may their repairs.

    Lanes change owners, targets are left out, and wishes end before what was sent has come. The
    model knows messages alone: which were sent, which of them nobody can read or wants, and what
    the endpoint got or was told of.
    """

    def __init__(self) -> None:
        super().__init__()
        self.one = Alone()
        self.one.read(FROM_A)
        self.now_ms, self.epoch = NOW_MS, 8
        self.kept: dict[FactKey, Fact] = {}
        self.came: list[Row] = []
        self.log: list[tuple[MemoryRecord, int]] = []
        self.offset = self.repairs = self.position = 0
        self.sent: list[int] = []
        self.spoilt: set[int] = set()
        self.unwanted: set[int] = set()
        self.asked: int | None = None
        self.requests: list[int] = []

    # -- the sender ---------------------------------------------------------------------------

    @rule(
        count=st.integers(1, 3),
        unused=st.sampled_from([0, 0, 2]),
        is_spoilt=st.sampled_from([False, False, True]),
    )
    def send(self, count: int, unused: int, is_spoilt: bool) -> None:
        """Write a frame; what nobody wants is in none."""
        begin = self.position + unused
        self.position = begin + count
        if is_spoilt:
            self.spoilt.add(begin)
        self._write(self._last_sent, range(begin, begin + count))
        self.sent += range(begin, begin + count)

    @property
    def _last_sent(self) -> int:
        return self.sent[-1] if self.sent else NONE_OFFSET

    def _write(self, previous: int, messages: Sequence[int], repair: int = NO_REPAIR) -> None:
        flags = FrameFlags.REPAIR if repair else FrameFlags.NONE
        record = frame(self.offset, previous, messages[0], messages[-1], flags=flags)
        if self.spoilt.intersection(messages):
            record = MemoryRecord(FROM_A.topic, 0, self.offset, b"garbage", b"", None, (1, NOW_MS))
        self._append(record, repair)

    def _append(self, record: MemoryRecord, repair: int) -> None:
        self.log.append((record, repair))
        self.offset += 1

    @precondition(lambda self: self.asked is not None)
    @rule(most=st.integers(1, 3))
    def repair(self, most: int) -> None:
        assert self.asked is not None
        self._repair(self.asked, most)

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def repair_once_more(self, data: st.DataObject) -> None:
        """A request outlives its gap if its end is written late, or by nobody."""
        self._repair(data.draw(st.sampled_from(self.requests)), 1)

    def _repair(self, last: int, most: int) -> None:
        """Send again all that is wanted still, and then how far the lane itself has sent."""
        self.repairs += 1
        previous, end = last, self._last_sent
        wanted = [one for one in self.sent if one > last and one not in self.unwanted]
        for messages in runs(wanted, most):
            self._write(previous, messages, self.repairs)
            previous = messages[-1]
        previous = min(previous, end)
        repair = FrameFlags.REPAIR
        record = frame(self.offset, previous, end, end, flags=repair, is_empty=True)
        self._append(record, self.repairs)

    @rule()
    def want_nothing_of_it(self) -> None:
        """What was sent and has not come is wanted by nobody any more: repairs leave it out."""
        self.unwanted.update(one for one in self.sent if one > self._accepted)

    # -- the outbox ---------------------------------------------------------------------------

    @property
    def _unread(self) -> list[MemoryRecord]:
        position = self.one.lane.position(FROM_A)
        return [record for record, _ in self.log if record.offset() >= position]

    @precondition(lambda self: self._unread)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """A frame vanishes, or a repair from its beginning to its end."""
        lost = data.draw(st.integers(len(self.log) - len(self._unread), len(self.log) - 1))
        _, repair = self.log[lost]
        if repair == NO_REPAIR:
            del self.log[lost]
            return
        of_it = [one for one in self.log if one[1] == repair]
        if of_it[0][0].offset() >= self.one.lane.committed_position(FROM_A):
            self.log = [one for one in self.log if one[1] != repair]

    # -- the lane -----------------------------------------------------------------------------

    @rule(most=st.sampled_from([1, 4, 1_000]))
    def read(self, most: int) -> None:
        """While a target is left out nothing is told as lost: it would not hear of it. K20."""
        if some := self._unread[:most]:
            before = self._losses
            self.one.step(FROM_A, *some, now_ms=self.now_ms)
            assert self._losses == before or not self.one.lane.holds_any

    @rule()
    def commit(self) -> None:
        self.came += self.one.rows(ENDPOINT)
        for key, fact in self.one.commit(self.now_ms).items():
            self.kept.pop(key, None)
            if fact is not None:
                self.kept[key] = fact
        gap = self.one.lane.progress.gaps.get(CHAIN)
        self.asked = None if gap is None else gap[0]
        if self.asked is not None:
            self.requests.append(self.asked)

    @rule(most=st.integers(1, 3))
    def have_it_repaired(self, most: int) -> None:
        """As long as a chain is broken repairs come, mostly."""
        self.read(1_000)
        self.commit()
        if self.asked is not None:
            self._repair(self.asked, most)
            self.read(1_000)
            self.commit()

    @rule()
    def take_over(self) -> None:
        """What is not committed never happened."""
        self.epoch += 1
        self.one = self.one.recovered(*self.kept.values(), epoch=self.epoch)
        self.one.read(FROM_A)
        recovered(self.one.lane, NEIGHBOURS, self.now_ms)

    @rule(ms=st.sampled_from([1_000, REPAIR_MS.first, REPAIR_MS.most]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        ask_due(self.one.lane, self.now_ms)

    @rule()
    def leave_out(self) -> None:
        """Or write again: another target than the one that is looked at here."""
        if not self.one.lane.holds_any:
            hold(self.one.lane, TO_C.topic, self.now_ms)
        else:
            release(self.one.lane, TO_C.topic, self.now_ms)

    @rule()
    def mend(self) -> None:
        """From now on all that can be read comes: then nothing is missing. Spec: K11."""
        if self.one.lane.holds_any:
            release(self.one.lane, TO_C.topic, self.now_ms)
        self.send(1, 0, is_spoilt=False)
        for _ in range(ROUNDS_MAX):
            self.have_it_repaired(1)
            if self.asked is None:
                break
            self.wait(REPAIR_MS.most)
        assert self.asked is None
        assert self._accepted == self._last_sent

    # -- always -------------------------------------------------------------------------------

    @property
    def _accepted(self) -> int:
        return self.one.lane.progress.accepted.get(CHAIN, NONE_OFFSET)

    def _told(self) -> Iterator[tuple[range, bool]]:
        """Yield what the endpoint got, in order: which messages, and whether they are lost."""
        for value, _, _, headers in [*self.came, *self.one.rows(ENDPOINT)]:
            if value is not None:
                yield range(int(value), int(value) + 1), False
            else:
                loss = decode_announcement(headers or ())
                assert loss.last is not None
                yield range(loss.first, loss.last + 1), True

    @property
    def _losses(self) -> int:
        return sum(is_lost for _, is_lost in self._told())

    @invariant()
    def each_comes_once_and_in_order_or_is_told_as_lost(self) -> None:
        """Spec: K11, DESIGN 6."""
        known: set[int] = set()
        before = NONE_OFFSET
        for messages, _ in self._told():
            assert before < messages[0]
            before = messages[-1]
            known.update(messages)
        passed = {one for one in self.sent if one <= self._accepted}
        assert passed - known <= self.unwanted

    @invariant()
    def only_what_nobody_can_read_is_lost(self) -> None:
        """And what stands between that and the next frame that can be read. Spec: K20."""
        for messages, is_lost in self._told():
            assert is_lost == bool(self.spoilt.intersection(messages))


TestLaneAgainstMessages = LaneAgainstMessages.TestCase
TestLaneAgainstMessages.settings = examples(60)
