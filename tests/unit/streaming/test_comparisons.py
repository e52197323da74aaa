"""What was told of a block holds until something changes, and no longer. Spec: K29, K30."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from mesh.model.control import Subscription
from streaming.audits import certificates, reconciliation
from streaming.audits.cases import Case, CaseOutcome
from streaming.audits.interest import EndpointKey
from streaming.audits.matching import selects
from streaming.audits.verdicts import compare
from streaming.tables.bundles import BETWEEN
from streaming.tables.rows import IngressRow, TopicPartition
from tests.unit.streaming.certified import PLACE, TARGET, Table, digest
from tests.unit.streaming.test_glances import Busy

NAMES = ("s1", "spy", "late", "none")


class Drawn(Busy):
    """Endpoints that subscribe, unsubscribe, get and lose messages in any order.

    One that is forgetful looks at everything again, and a slow one at each endpoint alone. Where
    they are bundled, messages are taken together by what was asked for when they were read.
    """

    def __init__(
        self, *, is_forgetful: bool = False, is_slow: bool = False, is_bundled: bool = False
    ) -> None:
        super().__init__()
        self.is_forgetful, self.is_slow, self.is_bundled = is_forgetful, is_slow, is_bundled
        self.version = 0
        self.untold: dict[int, None] = {}

    def outcome(self, case: Case) -> CaseOutcome:
        """Return what reading a case gives: what says an untold generation is nobody's."""
        odd = tuple(one for one in self.untold if case.first <= one <= case.last)
        return replace(super().outcome(case), unexpected=len(odd), unexpected_offsets=odd)

    def publish(self, *offsets: int, subject: str | None = "acme/x") -> None:
        if not self.is_bundled:
            super().publish(*offsets, subject=subject)
            return
        filters = self.world.interest.filters
        selected = BETWEEN.join(one for one in filters.numbers if selects(one, str(subject)))
        bounds = (digest(*offsets), min(offsets), max(offsets))
        row = IngressRow(PLACE, 0, None, *bounds, selected, filters.known)
        self.certifier.blocks.publish([row], self.at_s)
        self.published += offsets
        self.pass_to(max(offsets) + 1)

    def act(self, draw: Random) -> None:
        """Have something happen."""
        name, offset = draw.choice(NAMES), len(self.published)
        filter_ = draw.choice(("acme/>", "acme/x", "*/x"))
        target = TopicPartition(f"mesh.a.ep.{name}", 0)
        match draw.randrange(8):
            case 0:
                self.version += 1
                asked = Subscription(noexport=draw.random() < 0.2)
                self.world.interest.subscribe(EndpointKey("a", name), filter_, asked, self.version)
            case 1:
                self.version += 1
                self.world.interest.unsubscribe(EndpointKey("a", name), filter_, self.version)
            case 2:
                self.cut(offset, self.version)
            case 3:
                self.world.read[TARGET] = offset
            case 4:
                self.world.ends = lambda _, end=offset + 1: {TARGET: end}
            case _:
                self.publish(offset)
                turn = 1 if self.is_bundled and draw.random() < 0.03 else 0
                self.untold |= {offset: None} if turn else {}
                for one in NAMES:
                    if draw.random() < (0.9 if self.is_bundled else 0.8):
                        to = TopicPartition(f"mesh.a.ep.{one}", 0)
                        self.deliver(offset, to=to, generation=turn)
        if draw.random() < (0.02 if self.is_bundled else 0.1):
            self.deliver(draw.randrange(offset + 1), to=target)
        if self.is_bundled and draw.random() < 0.4:
            came = self.delivered.get(target, ())
            late = [one for one in self.published if one not in came]
            if late:
                self.deliver(*late, to=target)

    def look(self, seconds: float = 1.0) -> list[Case]:
        self.world._sight = None  # a judgement has one of its own
        if self.is_forgetful:
            self.certifier.comparisons.clear()
            self.certifier.claimed.clear()
            self.certifier.promises = None
        with pytest.MonkeyPatch.context() as patch:
            if self.is_slow:
                patch.setattr(reconciliation, "exact_receipts", lambda *_: {})
            return super().look(seconds)

    def told(self) -> object:
        """Return all that a judgement tells and keeps, but how the rest of a block is put."""
        block = self.certifier.blocks.open.get(PLACE, {}).get(0)
        waiting = {one.endpoint: one.reason for one in self.certifier.waiting}
        return (
            self.certifier.unpublished,
            self.world.register.findings,
            self.certifier.undecided,
            block and (block.issued, block.unequal, block.standing, block.tickets, block.judged),
            {} if "*" in waiting else waiting,
        )


def differ_never(mine: Drawn, other: Drawn, seed: int) -> None:
    """See that both tell the same of the same, whatever happens."""
    draws = [Random(seed), Random(seed)]
    for turn in range(60):
        for table, draw in zip((mine, other), draws, strict=True):
            for _ in range(draw.randrange(3)):
                table.act(draw)
            table.look(draw.choice((0.3, 1.0, 2.5)))
        told = [table.told() for table in (mine, other)]
        if told[1][-1] == {}:  # one that is at rest still says for what it waits
            told = [one[:-1] for one in told]
        assert told[0] == told[1], turn


@pytest.mark.parametrize("is_bundled", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_who_remembers_tells_what_one_tells_who_looks_at_everything_again(seed, is_bundled):
    mine = Drawn(is_bundled=is_bundled)
    differ_never(mine, Drawn(is_forgetful=True, is_bundled=is_bundled), seed)


@pytest.mark.parametrize("seed", range(40))
def test_who_looks_at_nearly_all_at_once_tells_what_one_tells_who_looks_at_each(seed):
    mine = Drawn(is_bundled=True)
    differ_never(mine, Drawn(is_slow=True, is_bundled=True), seed)


@pytest.fixture
def compared(monkeypatch) -> list[object]:
    """Return what is compared from now on."""
    found: list[object] = []

    def note(*told: object) -> object:
        found.append(told)
        return compare(*told)

    monkeypatch.setattr(reconciliation, "compare", note)
    return found


def test_a_subscription_has_nothing_compared_again_that_it_does_not_concern(table, compared):
    table.publish(0, 1)
    table.deliver(0, 1)
    table.pass_to(2)
    table.judge()
    assert (len(compared), table.issued()) == (1, [(2, 2, True, True)])
    for number in range(3):
        table.world.interest.subscribe(EndpointKey("a", f"new{number}"), "b", Subscription(), 1)
        table.judge()
        assert len(compared) == number + 2  # the new one, and nobody else
    table.world.interest.subscribe(EndpointKey("a", "s1"), "acme/x", Subscription(), 2)
    table.judge()
    assert len(compared) == 5


def test_what_is_late_is_looked_at_again_when_what_it_waits_for_changes(table, monkeypatch):
    table.publish(0, 1)
    table.deliver(0)
    table.judge()
    (waiting,) = table.certifier.waiting
    looks = []
    look = certificates.reconcile

    def note(*told) -> None:
        looks.append(told)
        look(*told)

    monkeypatch.setattr(certificates, "reconcile", note)
    for _ in range(5):
        table.judge(1.0)
        assert table.certifier.waiting == [waiting]
    assert looks == []
    table.pass_to(1)
    table.judge(1.0)
    assert len(looks) == 1
    assert table.certifier.waiting != [waiting]
    table.pass_to(2)
    (case,) = table.judge(1.0, CaseOutcome(2, 1, missing=1, missing_offsets=(1,)))
    assert case.is_passed


@pytest.fixture
def table() -> Table:
    made = Table()
    made.cut(0)
    return made
