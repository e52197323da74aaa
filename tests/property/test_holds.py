"""Holds against what targets contain: a lane leaves some out, catch-ups write them beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mesh.core.holds import ChainKey, Holds
from mesh.model.facts import ENDED, Held, Sent
from mesh.model.frames import SourcePartition, TopicPartition, position_in_chain
from tests.property.effort import examples

PLACES = {"a.to.b.g": TopicPartition("a.to.b.g", 0), "a.ep.e": TopicPartition("a.ep.e", 1)}
SOURCES = [SourcePartition(bytes([n]) * 16, n) for n in range(3)]
EPOCH = 1 << 32
"""Numbers of holds begin anew with each owner of the lane, above all of the one before."""

topics = st.sampled_from(list(PLACES))
sources = st.sampled_from(SOURCES)
counts = st.sampled_from([1, 3])


@dataclass
class Left:
    """What a target lacks of one source: in which hold, and from where its writing goes on."""

    number: int
    next: int


@dataclass
class Stream:
    """One source at one target.

    Attributes:
        due, written: Positions of what is to be there, and of what is, in order.
        sent: The last that catch-ups have sent, by the number of the hold.
        left: What is left out now, if anything is.
        is_barred: Nothing of the source is to go there now.
    """

    due: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=dict)
    left: Left | None = None
    is_barred: bool = False


class HoldsAgainstTargets(RuleBasedStateMachine):
    """Targets are held, caught up and released; owners change, and some words are heard late.

    The model has the contents of targets, and one record of each hold, which everybody sees at
    once. The code has what the lane and its catch-ups wrote, each in a partition of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self.holds = Holds()
        self.own: list[Held] = []
        self.beside: list[Held | Sent] = []
        self.unheard: list[Held | Sent] = []
        self.offsets = {SOURCES[0]: 0, SOURCES[1]: 10**14}
        self.generations = dict.fromkeys(SOURCES, 0)
        self.streams = {(PLACES[t], s): Stream() for t in PLACES for s in SOURCES}
        self.epoch = self.begun = 0

    # -- the lane -----------------------------------------------------------------------------

    @rule(count=counts)
    def read(self, count: int) -> None:
        """Copy some records of each source to each target that is not left out."""
        for source, first in self.offsets.items():
            self.offsets[source] = first + count
            for place in PLACES.values():
                stream = self.streams[place, source]
                if stream.is_barred:
                    continue
                found = self._positions(source, first, first + count)
                stream.due += found
                if (place, source) not in self.holds.next(place.topic):
                    stream.written += found

    def _positions(self, source: SourcePartition, first: int, end: int) -> list[int]:
        generation = self.generations[source]
        return [position_in_chain(generation, offset) for offset in range(first, end)]

    @rule(source=sources, count=counts)
    def cut_off(self, source: SourcePartition, count: int) -> None:
        """A log has lost its end, and that was accepted: offsets come again as other messages."""
        lefts = [self.streams[place, source].left for place in PLACES.values()]
        if lefts == [None] * len(lefts) and self.offsets.get(source, -1) >= count:
            self.offsets[source] -= count
            self.generations[source] += 1

    @rule(topic=topics)
    def hold(self, topic: str) -> None:
        if topic not in self.holds:
            self.begun += 1
            for source in self.offsets:
                self._leave_out(topic, source, self.epoch * EPOCH + self.begun)

    @rule(source=sources)
    def find(self, source: SourcePartition) -> None:
        """A source that appears is left out where others are, before anything of it is read."""
        if source not in self.offsets:
            self.offsets[source] = 0
            for topic in list(self.holds):
                self._leave_out(topic, source, self.holds.number(topic))

    def _leave_out(self, topic: str, source: SourcePartition, number: int) -> None:
        key, first = (PLACES[topic], source), self.offsets[source]
        if not self.streams[key].is_barred:
            self._say(Held(*key, number, first))
            self.streams[key].left = Left(number, first)

    @rule(topic=topics)
    def release(self, topic: str) -> None:
        """Write a target again that has got, of each source, as far as this lane knows, all."""
        following = self.holds.next(topic)
        if all(self.offsets[of] == offset for (_, of), offset in following.items()):
            for fact in self.holds.kept(topic):
                self._end(fact)

    @rule(topic=topics, source=sources)
    def bar(self, topic: str, source: SourcePartition) -> None:
        """Nothing of a source is to go there any more, nor what the target lacks of it."""
        stream = self.streams[PLACES[topic], source]
        stream.is_barred = True
        del stream.due[len(stream.written) :]
        for fact in self.holds.kept(topic):
            if fact.source == source:
                self._end(fact)

    @rule(topic=topics, source=sources)
    def admit(self, topic: str, source: SourcePartition) -> None:
        """It is to go there again: in a hold that has gone on meanwhile it is left out as well."""
        stream = self.streams[PLACES[topic], source]
        if stream.is_barred and source in self.offsets:
            stream.is_barred = False
            if topic in self.holds:
                self._leave_out(topic, source, self.holds.number(topic))

    def _end(self, fact: Held) -> None:
        self._say(replace(fact, next=ENDED))
        self.streams[fact.at, fact.source].left = None

    def _say(self, fact: Held) -> None:
        self.own.append(fact)
        self.holds.apply(fact)

    # -- beside it ----------------------------------------------------------------------------

    @rule(topic=topics, most=st.sampled_from([1, 1_000, 1_000]), is_heard=st.booleans())
    def catch_up(self, topic: str, most: int, is_heard: bool) -> None:
        """Write more of what is left out, perhaps all; some commits the lane hears of later."""
        self._hear()
        for key, begin in self.holds.next(topic).items():
            stream, number = self.streams[key], self.holds.number(topic)
            end = min(begin + most, self.offsets[key[1]])
            stream.written += self._positions(key[1], begin, end)
            stream.left = Left(number, end)
            self.unheard.append(Held(*key, number, end))
            if stream.written:
                stream.sent[number] = stream.written[-1]
                self.unheard.append(Sent(*key, stream.written[-1]))
        self.beside += self.unheard
        if is_heard:
            self._hear()
            self.release(topic)

    @rule(topic=topics, source=sources)
    def say_it_is_over(self, topic: str, source: SourcePartition) -> None:
        """A catch-up has no such word; what a former version wrote counts for nothing."""
        known = [one for one in self.beside if one.key == Held(PLACES[topic], source, 0, 0).key]
        if not known and (left := self.streams[PLACES[topic], source].left) is not None:
            word = Held(PLACES[topic], source, left.number, ENDED)
            self.beside.append(word)
            self.unheard.append(word)

    def _hear(self) -> None:
        for word in self.unheard:
            self._apply_beside(self.holds, word)
        self.unheard = []

    @staticmethod
    def _apply_beside(holds: Holds, word: Held | Sent) -> None:
        if isinstance(word, Sent):
            holds.sent_by_catch_ups[word.at, word.source] = word.last
        else:
            holds.apply_catch_up(word)

    # -- the next owner -----------------------------------------------------------------------

    @rule(data=st.data(), is_compacted=st.booleans())
    def take_over(self, data: st.DataObject, is_compacted: bool) -> None:
        """Read both partitions from their beginnings, each in its order, side by side anyhow."""
        own, beside = list(self.own), list(self.beside)
        if is_compacted:
            own = list({fact.key: fact for fact in own}.values())
            beside = list({word.key: word for word in beside}.values())
        self.holds = Holds()
        for is_own in data.draw(st.permutations([True] * len(own) + [False] * len(beside))):
            if is_own:
                self.holds.apply(own.pop(0))
            else:
                self._apply_beside(self.holds, beside.pop(0))
        self.unheard = []
        self.epoch, self.begun = self.epoch + 1, 0

    # -- always -------------------------------------------------------------------------------

    @invariant()
    def nothing_is_written_twice_or_left_behind(self) -> None:
        """Spec: K20, DESIGN 6."""
        for (_, source), stream in self.streams.items():
            written = stream.written
            assert written == stream.due[: len(written)]
            if stream.left is None:
                assert written == stream.due
            else:
                end = self.offsets[source]
                lacking = self._positions(source, stream.left.next, end)
                assert stream.due[len(written) :] == lacking

    @invariant()
    def who_has_heard_all_knows_what_is_left_out(self) -> None:
        """Spec: K12, K20."""
        lefts = {key: one.left for key, one in self.streams.items() if one.left is not None}
        assert bool(self.holds) == bool(lefts)
        assert set(self.holds) == {at.topic for at, _ in lefts}
        assert {(one.at, one.source) for one in self.holds.held} == set(lefts)
        for topic in PLACES:
            mine = {key: left for key, left in lefts.items() if key[0].topic == topic}
            assert (topic in self.holds) == bool(mine)
            assert self.holds.number(topic) == max((one.number for one in mine.values()), default=0)
            self._compare_next(topic, mine)

    def _compare_next(self, topic: str, lefts: Mapping[ChainKey, Left]) -> None:
        following = self.holds.next(topic)
        assert set(following) == set(lefts)
        for key, left in lefts.items():
            if self.unheard:
                assert following[key] <= left.next
            else:
                assert following[key] == left.next
                assert self.holds.sent(key) == self.streams[key].sent.get(left.number)


TestHoldsAgainstTargets = HoldsAgainstTargets.TestCase
TestHoldsAgainstTargets.settings = examples(150)
