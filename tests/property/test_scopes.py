"""A reader of a scope against what its writer offers, while records are lost and read again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mesh.core.scopes import ScopeReader, ScopeWriter
from mesh.model.control import NEVER, Interest, Mark, Version
from tests.property.effort import examples

FILTERS = st.sampled_from("ab")
DIRECT = Interest(durable=False, live=True)
BOTH = Interest(durable=True, live=True)
AWAY = Interest(durable=True, live=False)
WISHES = st.sampled_from([None, DIRECT, BOTH, BOTH])

Wishes = dict[str, Interest]


@dataclass(frozen=True)
class Transaction:
    """Adverts and the mark that ends them, and what their writer offered then."""

    adverts: Mapping[str, Interest | None]
    mark: Mark
    offered: Wishes

    @property
    def version(self) -> Version:
        return self.mark.epoch, self.mark.number


def said_by(log: list[Transaction]) -> Wishes:
    """What a topic says: of each filter its newest record."""
    found: dict[str, Interest | None] = {}
    for one in log:
        found |= one.adverts
    return {filter_: wish for filter_, wish in found.items() if wish is not None}


class ReaderAgainstWriter(RuleBasedStateMachine):
    """The writer starts over, its topic loses records; the reader begins again, or goes by memory.

    The model has what is offered as sets, and of what is in force one table: what an advert says
    counts at once, what ends counts when the sets are equal.
    """

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.writer = ScopeReader(), ScopeWriter()
        self.epoch = 1
        self.offered: Wishes = {}
        self.log: list[Transaction] = []
        self.read = 0
        self.newest: Transaction | None = None
        self.acknowledged: Version = NEVER
        self.in_force: Wishes = {}
        self.routed: Wishes = {}

    # -- the writer ---------------------------------------------------------------------------

    @rule()
    def start_over(self) -> None:
        """In a new epoch, in which versions are counted anew; what the topic lacks is rewritten."""
        self.epoch += 1
        self.writer = ScopeWriter()
        for filter_, wish in self.offered.items():
            self.writer.change(filter_, None, wish)
        self._write({})

    @rule(wishes=st.dictionaries(FILTERS, WISHES, min_size=1), is_read=st.booleans())
    def offer(self, wishes: dict[str, Interest | None], is_read: bool) -> None:
        for filter_, wish in wishes.items():
            self.writer.change(filter_, self.offered.pop(filter_, None), wish)
            if wish is not None:
                self.offered[filter_] = wish
        self._write(wishes)
        if is_read:
            self._take(len(self.log))

    def _write(self, wishes: dict[str, Interest | None]) -> None:
        said = said_by(self.log)
        differs = {one: self.offered.get(one) for one in {*said, *self.offered, *wishes}}
        written = {
            one: wish for one, wish in differs.items() if one in wishes or said.get(one) != wish
        }
        mark = self.writer.next_mark(self.epoch)
        self.log.append(Transaction(written, mark, dict(self.offered)))

    # -- the topic ----------------------------------------------------------------------------

    @precondition(lambda self: self.read < len(self.log))
    @rule(filter_=FILTERS)
    def lose_a_record(self, filter_: str) -> None:
        """A stranger has overwritten it, or compaction removed a tombstone too early."""
        one = self.log[-1]
        rest = {name: wish for name, wish in one.adverts.items() if name != filter_}
        self.log[-1] = replace(one, adverts=rest)

    @precondition(lambda self: self.log)
    @rule(kept=st.integers(0, 9))
    def lose_the_end(self, kept: int) -> None:
        """The reader is set back to the beginning; the writer follows its topic, and repairs it."""
        del self.log[kept:]
        self._begin_again(has_lost_end=self.read > kept)
        self._write({})

    # -- the reader ---------------------------------------------------------------------------

    @precondition(lambda self: self.read < len(self.log))
    @rule(most=st.sampled_from([1, 1_000]))
    def read_on(self, most: int) -> None:
        self._take(most)

    def _take(self, most: int) -> None:
        """Follow the newest mark of what is read: an older one would prove a past state."""
        some = self.log[self.read :][:most]
        self.read += len(some)
        if not some:
            return
        for one in some:
            for filter_, wish in one.adverts.items():
                self.reader.advert(filter_, wish)
        changes = self.reader.marked(some[-1].mark)
        self._follow(some)
        for filter_, wish in changes.items():
            self._route(filter_, wish)

    def _follow(self, some: list[Transaction]) -> None:
        self.newest = some[-1]
        for filter_, wish in said_by(some).items():
            is_weaker = self.in_force.get(filter_, wish).durable > wish.durable
            self.in_force[filter_] = replace(wish, durable=True) if is_weaker else wish
        if self.is_settled:
            self.in_force = said_by(self.log[: self.read])

    def _route(self, filter_: str, wish: Interest | None) -> None:
        self.routed.pop(filter_, None)
        if wish is not None:
            self.routed[filter_] = wish

    @precondition(lambda self: self.newest is not None and self.read == len(self.log))
    @rule(number=st.integers(0, 9))
    def read_an_old_mark(self, number: int) -> None:
        """It is replayed, and changes nothing."""
        old = self.log[number % len(self.log)] if self.log else None
        if old is not None and self.newest is not None and old.version < self.newest.version:
            assert self.reader.marked(old.mark) == {}

    @rule()
    def begin_again(self) -> None:
        """As where a link is enabled: nothing ends before it is proven. Spec: K23."""
        self._begin_again(has_lost_end=False)

    def _begin_again(self, *, has_lost_end: bool) -> None:
        known = NEVER if self.newest is None else self.newest.version
        self.acknowledged = max(self.acknowledged, known) if has_lost_end else NEVER
        self.reader.begin_again(has_lost_end=has_lost_end)
        self.newest, self.read = None, 0

    @rule(filters=st.sampled_from(["a", "ab"]), ahead=st.sampled_from([None, 0, 1, 2]))
    def go_by_memory(self, filters: str, ahead: int | None) -> None:
        """Guaranteed messages wait for what was proven once, direct ones do not. Spec: K21."""
        if ahead is not None:
            version = (self.epoch, self.writer.number + ahead)
            self.acknowledged = max(self.acknowledged, version)
            changes = self.reader.recall(filters, version)
        else:
            changes = self.reader.freeze(filters)
        said = said_by(self.log[: self.read])
        for filter_ in filters:
            wish = said.get(filter_, AWAY)
            if filter_ not in said or not wish.durable:
                self.in_force[filter_] = replace(wish, durable=True)
        for filter_, one in changes.items():
            self._route(filter_, one)

    # -- always -------------------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """What is read is all that is offered, and as new as what was acknowledged."""
        if self.newest is None:
            return False
        is_whole = said_by(self.log[: self.read]) == self.newest.offered
        return is_whole and self.newest.version >= self.acknowledged

    @invariant()
    def what_is_in_force_follows_from_the_sets(self) -> None:
        """Additions at once, removals when proven; and changes say all of it. Spec: K21, K23."""
        assert dict(self.reader.in_force()) == self.in_force == self.routed
        assert self.reader.is_settled == (self.newest is None or self.is_settled)
        if self.newest is not None:
            whole = said_by(self.log[: self.read]) == self.newest.offered
            assert self.reader.proven == whole
        assert self.reader.is_older((self.epoch, self.writer.number)) == (
            self.newest is None or self.newest.version < (self.epoch, self.writer.number)
        )


TestReaderAgainstWriter = ReaderAgainstWriter.TestCase
TestReaderAgainstWriter.settings = examples(60)
