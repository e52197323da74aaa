"""What a queue's consumers remember of a partition, against a count and a fate per message."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mesh.core.redelivery import TIMES_MAX, WINDOW, Share
from tests.property.effort import examples

MESSAGE, STRAY, HOLE = "message", "stray", "hole"
"""What stands at an offset: a hole is no record, and nobody is given a stray one."""

REMARK_MAX = 4_096
"""Bytes that stock brokers keep beside an offset."""

READS = st.sampled_from([3, 1_000, 1_000])
TIMES = st.sampled_from([1, 1, 1, 70])
KINDS = st.lists(st.sampled_from([MESSAGE, MESSAGE, STRAY, HOLE]), min_size=1, max_size=5)


@dataclass
class Memory:
    """What is to be remembered of each message by its offset, in words as plain as they come.

    Attributes:
        times: How often it was handed out; 0 also where nobody has seen it after all.
        done: Those that nobody should see again.
        leader_epoch: Of the newest record that was read; while it is unknown, no loss shows.
    """

    times: dict[int, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    leader_epoch: int | None = None

    def forget_from(self, offset: int) -> None:
        self.times = {at: n for at, n in self.times.items() if at < offset}
        self.done = {at for at in self.done if at < offset}


class SharesAgainstMemory(RuleBasedStateMachine):
    """Messages are handed out, taken back and done; consumers die, and a log may lose its end."""

    def __init__(self) -> None:
        super().__init__()
        self.log: dict[int, tuple[str, int]] = {}
        self.start = self.log_end = self.end = 0
        self.epoch = 0
        self.memory = Memory()
        self.share = Share(0, 0)
        self.open: dict[int, str] = {}
        self.commit()

    @initialize(base=st.sampled_from([0, 7, (1 << 63) - 10_000]), kinds=KINDS, times=TIMES)
    def begin(self, base: int, kinds: list[str], times: int) -> None:
        self.start = self.log_end = self.end = base
        self.share = Share.parse(base, "")
        self.write(kinds, times, is_elected=False)
        self.read(1_000)
        self.commit()

    # -- the log ------------------------------------------------------------------------------

    @rule(kinds=KINDS, times=TIMES, is_elected=st.booleans())
    def write(self, kinds: list[str], times: int, is_elected: bool) -> None:
        """Perhaps under a new leader, which has all that the one before had."""
        self.epoch += is_elected
        for kind in kinds * times:
            self.log[self.log_end] = (kind, self.epoch)
            self.log_end += 1

    @precondition(lambda self: self.memory.leader_epoch is not None)
    @rule(data=st.data(), kinds=KINDS)
    def lose_the_end(self, data: st.DataObject, kinds: list[str]) -> None:
        """Others take the place of what was lost; whoever reads is set back to where that began."""
        known = [at for at in sorted(self.memory.times) if self.start <= at < self.log_end]
        first = data.draw(st.sampled_from([max(self.start, self.end - 4), self.log_end, *known]))
        self.log = {at: one for at, one in self.log.items() if at < first}
        self.log_end, self.end = first, min(self.end, first)
        self.write([MESSAGE, *kinds], 1, is_elected=True)
        self.read(self.log_end - self.end)
        self.commit()

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Brokers delete what is old; whoever has read it has it still."""
        last = max(self.start, min(self._base + 5, self.log_end))
        self.start = data.draw(st.integers(self.start, last))
        self.log = {at: one for at, one in self.log.items() if at >= self.start}

    # -- a consumer ---------------------------------------------------------------------------

    @rule(most=READS)
    def read(self, most: int) -> None:
        for offset in range(self.end, min(self.end + most, self.log_end)):
            kind, epoch = self.log.get(offset, (HOLE, 0))
            if kind != HOLE:
                self._take(offset, kind, epoch)
            self.end = offset + 1
        self.share.skip(self.open, self.end)

    def _take(self, offset: int, kind: str, epoch: int) -> None:
        known = self.memory.leader_epoch
        is_later = known is not None and epoch > known
        assert self.share.meet(offset, epoch) == is_later
        self.memory.leader_epoch = epoch if known is None else max(known, epoch)
        if is_later:
            self.memory.forget_from(offset)
            self.open = {at: one for at, one in self.open.items() if at < offset}
        if kind == MESSAGE:
            assert self.share.is_done(offset) == (offset in self.memory.done)
        if not self.share.is_done(offset):
            self.open[offset] = kind

    @precondition(lambda self: self._next)
    @rule(data=st.data(), is_seen=st.booleans())
    def hand_out(self, data: st.DataObject, is_seen: bool) -> None:
        """What the group refuses to note is taken back: nobody has seen it."""
        offset = data.draw(st.sampled_from(self._next))
        self._hand_out(offset)
        if not is_seen:
            self.memory.times[offset] -= 1
            self.share.take_back(offset)

    @rule()
    def hand_out_all(self) -> None:
        """As far as the window reaches."""
        known = self.memory.times
        for offset in [at for at, kind in self.open.items() if kind == MESSAGE and at not in known]:
            if offset < self._base + WINDOW:
                self._hand_out(offset)

    def _hand_out(self, offset: int) -> None:
        self.memory.times[offset] = self.memory.times.get(offset, 0) + 1
        assert self.share.hand_out(offset) == self.memory.times[offset]

    @precondition(lambda self: self._ready)
    @rule(data=st.data(), most=st.sampled_from([1, 1, 30, 1_000]), every=st.sampled_from([1, 1, 2]))
    def finish(self, data: st.DataObject, most: int, every: int) -> None:
        first = data.draw(st.sampled_from(self._ready))
        for offset in [at for at in self._ready if at >= first][:most:every]:
            del self.open[offset]
            self.memory.done.add(offset)
            self.share.finish(offset, self.open, self.end)

    @rule()
    def commit(self) -> None:
        said = self.share.base, self.share.remark, self.share.leader_epoch
        self.committed = said, deepcopy(self.memory)

    @rule(most=READS)
    def leave(self, most: int) -> None:
        self.commit()
        self.die(most)

    @rule(most=READS)
    def die(self, most: int) -> None:
        """The next consumer begins where the group has committed, and reads what follows again."""
        said, memory = self.committed
        assert len(said[1].encode()) <= REMARK_MAX
        self.share, self.memory, self.open = Share.parse(*said), deepcopy(memory), {}
        self.end = self.share.base
        assert (self.share.base, self.share.remark, self.share.leader_epoch) == said
        self.read(most)

    @property
    def _ready(self) -> list[int]:
        """What may be done: messages that were handed out, and all that is none."""
        return [
            at for at, kind in self.open.items() if kind == STRAY or self.memory.times.get(at, 0)
        ]

    @property
    def _next(self) -> list[int]:
        """What may be handed out: the next message that nobody had, and those that somebody had."""
        had = [at for at in self.open if at in self.memory.times]
        new = [at for at, kind in self.open.items() if kind == MESSAGE and at not in had]
        return had + [at for at in new[:1] if at < self._base + WINDOW]

    @property
    def _base(self) -> int:
        return min(self.open, default=self.end)

    # -- always -------------------------------------------------------------------------------

    @invariant()
    def all_is_remembered(self) -> None:
        """Spec: DESIGN 6."""
        share = self.share
        assert share.base == self._base
        for offset, kind in self.open.items():
            assert not share.is_done(offset)
            assert share.has_room(offset) == (offset - self._base < WINDOW)
            if kind == MESSAGE:
                assert share.times(offset) == self.memory.times.get(offset, 0)
        done = [at for at in self.memory.done if self.log.get(at, ("", 0))[0] == MESSAGE]
        assert all(map(share.is_done, done))
        known = [at for at in self.memory.done if self._base <= at < self._base + WINDOW]
        assert share.done_from(share.base) <= len(known)


TestSharesAgainstMemory = SharesAgainstMemory.TestCase
TestSharesAgainstMemory.settings = examples(60)

NUMBERS = st.integers(0, WINDOW) | st.sampled_from([0, WINDOW, WINDOW + 1, TIMES_MAX, 10**30])
RANGES = st.tuples(NUMBERS, NUMBERS).map(sorted)
COUNTS = st.dictionaries(NUMBERS, NUMBERS | st.just(TIMES_MAX + 1), max_size=3)
BASES = st.sampled_from([0, 1, 10**15])


@given(offset=BASES, begun=NUMBERS, done=st.lists(RANGES, max_size=3), times=COUNTS)
def test_a_remark_says_what_stands_in_it_or_nothing(
    offset: int, begun: int, done: list[list[int]], times: dict[int, int]
) -> None:
    """With one number that no window has all of it is somebody else's. Spec: DESIGN 4.6."""
    ranges = ",".join(f"{first}-{last}" for first, last in done)
    counts = ",".join(f"{at}:{count}" for at, count in times.items())
    share = Share.parse(offset, f"1;{begun};{ranges};{counts}")
    numbers = [begun, *(one for pair in done for one in pair), *times]
    if max(numbers) > WINDOW or max(times.values(), default=0) > TIMES_MAX:
        begun, done, times = 0, [], {}
    assert (share.base, share.begun) == (offset, offset + begun)
    for step in range(WINDOW + 2):
        assert share.is_done(offset + step) == any(first <= step <= last for first, last in done)
        assert share.times(offset + step) == times.get(step, int(step < begun))


@given(offset=BASES, remark=st.text("0129;;,-: \u0661", max_size=20) | st.text(max_size=20))
def test_whatever_a_remark_says_is_within_a_window(offset: int, remark: str) -> None:
    """Any member of a group may write one. Spec: DESIGN 4.6."""
    share = Share.parse(offset, remark)
    assert share.base == offset
    assert offset <= share.begun <= offset + WINDOW
    assert share.done_from(offset) <= WINDOW + 1
    if re.fullmatch(r"1;\d+;[\d,-]*;[\d,:]*", remark, re.ASCII) is None:
        assert (share.begun, share.done_from(offset), share.times(offset)) == (offset, 0, 0)
