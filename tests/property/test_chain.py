"""The chain against sets: of positions heard of, and of messages sent over a link that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh.core.chain import ChainVerdict, judge
from mesh.model.frames import (
    GENERATION_MAX,
    NONE_OFFSET,
    Chain,
    SourcePartition,
    position_in_chain,
)

SOURCE = SourcePartition(b"s" * 16, 0)
PLACES = st.integers(0, 5)
FAR = position_in_chain(GENERATION_MAX, 0)


def chain(previous: int, first: int, last: int) -> Chain:
    return Chain(source=SOURCE, previous=previous, first=first, last=last)


def counted(
    frame: Chain, last: int, *, is_broken: bool, is_excused: bool, is_gap: bool
) -> ChainVerdict:
    """What the clause says, by sets of positions: nothing is compared but what is in them."""
    heard, before = set(range(last + 1)), set(range(frame.previous + 1))
    told = set(range(max(0, frame.first), frame.last + 1))
    if is_gap and frame.previous == frame.last and heard == before:
        return ChainVerdict.ACCEPT
    if before | told <= heard:
        return ChainVerdict.DUPLICATE
    if before - heard and not is_excused:
        return ChainVerdict.WAITING if is_broken else ChainVerdict.GAP
    return ChainVerdict.PARTIAL if told & heard else ChainVerdict.ACCEPT


@given(
    places=st.tuples(PLACES, PLACES, PLACES),
    last=PLACES,
    far=st.sampled_from([0, FAR]),
    is_broken=st.booleans(),
    is_excused=st.booleans(),
    is_gap=st.booleans(),
)
def test_a_verdict_is_what_counting_positions_says(
    places: tuple[int, int, int],
    last: int,
    far: int,
    is_broken: bool,
    is_excused: bool,
    is_gap: bool,
) -> None:
    """Wherever it is in a source: before all of it, or where positions hardly fit. Spec: K11."""
    previous, first, end = sorted(places)
    if not is_gap:
        first, end = max(first, previous + 1), max(end, previous + 1)
    elif end:
        first = max(first, 1)  # nothing is covered before all positions

    def at(place: int) -> int:
        """The first place is that before all positions."""
        return far + place - 1 if place else NONE_OFFSET

    said = {"is_broken": is_broken, "is_excused": is_excused, "is_gap": is_gap}
    found = judge(chain(at(previous), at(first), at(end)), at(last), **said)
    assert found is counted(chain(previous - 1, first - 1, end - 1), last - 1, **said)


@dataclass(frozen=True)
class Frame:
    """What stands in an outbox, and what was sent there before it."""

    chain: Chain
    messages: Sequence[int]
    before: Sequence[int]


@dataclass(frozen=True)
class Receiver:
    """What a receiver has: the part of it that is committed survives a crash."""

    read: int = 0
    last: int = NONE_OFFSET
    is_broken: bool = False
    taken: tuple[int, ...] = ()


class ChainAgainstMessages(RuleBasedStateMachine):
    """Frames are sent, lost, repeated and repaired; their receiver crashes at any moment.

    The model knows messages alone: which were sent before a frame, which are in it, and which of
    them are taken.
    """

    def __init__(self) -> None:
        super().__init__()
        self.position = 0
        self.sent: list[int] = []
        self.log: list[Frame] = []
        self.receiver = self.committed = Receiver()

    # -- the sender ---------------------------------------------------------------------------

    @rule(
        wanted=st.lists(st.booleans(), max_size=4),
        unused=st.sampled_from([0, 0, 1, 10**15, position_in_chain(1, 0)]),
    )
    def send(self, wanted: list[bool], unused: int) -> None:
        """Read on in the source: what nobody wants is in no frame, and some positions are none."""
        self.position += unused
        messages = [self.position + n for n, is_wanted in enumerate(wanted) if is_wanted]
        self.position += len(wanted)
        self._write(self.sent, messages)
        self.sent += messages

    @precondition(lambda self: self.committed.is_broken)
    @rule(size=st.integers(1, 3))
    def repair(self, size: int) -> None:
        """Send again all that follows what was accepted last, perhaps cut elsewhere."""
        before = [one for one in self.sent if one <= self.committed.last]
        for begin in range(len(before), len(self.sent), size):
            self._write(self.sent[:begin], self.sent[begin : begin + size])

    def _write(self, before: Sequence[int], messages: Sequence[int]) -> None:
        if messages:
            previous = before[-1] if before else NONE_OFFSET
            link = chain(previous, messages[0], messages[-1])
            self.log.append(Frame(link, tuple(messages), tuple(before)))

    # -- the link -----------------------------------------------------------------------------

    @precondition(lambda self: self.receiver.read < len(self.log))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        del self.log[data.draw(st.integers(self.receiver.read, len(self.log) - 1))]

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        self.log.append(data.draw(st.sampled_from(self.log)))

    # -- the receiver -------------------------------------------------------------------------

    @rule(most=st.integers(1, 4))
    def read(self, most: int) -> None:
        for frame in self.log[self.receiver.read :][:most]:
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        was = self.receiver
        verdict = judge(frame.chain, was.last, is_broken=was.is_broken)
        assert verdict is self._expected(frame)
        self.receiver = replace(was, read=was.read + 1)
        if verdict in (ChainVerdict.ACCEPT, ChainVerdict.PARTIAL):
            rest = tuple(one for one in frame.messages if one > was.last)
            self.receiver = Receiver(was.read + 1, frame.chain.last, False, was.taken + rest)
        elif verdict is ChainVerdict.GAP:
            self.receiver = replace(self.receiver, is_broken=True)

    def _expected(self, frame: Frame) -> ChainVerdict:
        taken = set(self.receiver.taken)
        if taken.issuperset(frame.messages):
            return ChainVerdict.DUPLICATE
        if not taken.issuperset(frame.before):
            return ChainVerdict.WAITING if self.receiver.is_broken else ChainVerdict.GAP
        return ChainVerdict.PARTIAL if taken & set(frame.messages) else ChainVerdict.ACCEPT

    @rule()
    def commit(self) -> None:
        self.committed = self.receiver

    @rule()
    def crash(self) -> None:
        self.receiver = self.committed

    @rule()
    def mend(self) -> None:
        """What was lost shows by the next message, and comes again: then nothing is missing."""
        self.send([True], 0)
        self.read(len(self.log))
        self.commit()
        if self.receiver.is_broken:
            self.repair(2)
            self.read(len(self.log))
            self.commit()
        assert not self.receiver.is_broken
        assert list(self.receiver.taken) == self.sent

    @invariant()
    def each_is_taken_once_and_in_order(self) -> None:
        """Spec: K11, DESIGN 6."""
        taken = self.receiver.taken
        assert list(taken) == self.sent[: len(taken)]


TestChainAgainstMessages = ChainAgainstMessages.TestCase
