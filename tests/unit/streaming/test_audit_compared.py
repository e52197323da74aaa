"""What was told of a block holds until something changes, and no longer. Spec: K29, K30."""

from __future__ import annotations

from random import Random

import pytest

from mesh.model.control import Subscription
from streaming.audits import certificates
from streaming.audits.cases import Case, Outcome
from streaming.audits.interest import EndpointKey
from streaming.audits.verdicts import compare
from streaming.tables.rows import TopicPartition
from tests.unit.streaming.certified import PLACE, TARGET, Table
from tests.unit.streaming.test_audit_glances import Busy

NAMES = ("s1", "spy", "late", "none")


class Drawn(Busy):
    """Endpoints that subscribe, unsubscribe, get and lose messages in any order."""

    def __init__(self, *, is_forgetful: bool) -> None:
        super().__init__()
        self.is_forgetful = is_forgetful
        self.version = 0

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
                for one in NAMES:
                    if draw.random() < 0.8:
                        self.deliver(offset, to=TopicPartition(f"mesh.a.ep.{one}", 0))
        if draw.random() < 0.1:
            self.deliver(draw.randrange(offset + 1), to=target)

    def look(self, seconds: float = 1.0) -> list[Case]:
        self.world._sight = None  # a judgement has one of its own
        if self.is_forgetful:
            self.certifier.compared.clear()
            self.certifier.claimed.clear()
            self.certifier.promised = None
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


@pytest.mark.parametrize("seed", range(20))
def test_who_remembers_tells_what_one_tells_who_looks_at_everything_again(seed):
    mine, other = Drawn(is_forgetful=False), Drawn(is_forgetful=True)
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


@pytest.fixture
def compared(monkeypatch) -> list[object]:
    """Return what is compared from now on."""
    found: list[object] = []

    def note(*told: object) -> object:
        found.append(told)
        return compare(*told)

    monkeypatch.setattr(certificates, "compare", note)
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
    judge = certificates.Certifier._judge_block

    def note(certifier, *told) -> None:
        looks.append(told)
        judge(certifier, *told)

    monkeypatch.setattr(certificates.Certifier, "_judge_block", note)
    for _ in range(5):
        table.judge(1.0)
        assert table.certifier.waiting == [waiting]
    assert looks == []
    table.pass_to(1)
    table.judge(1.0)
    assert len(looks) == 1
    assert table.certifier.waiting != [waiting]
    table.pass_to(2)
    (case,) = table.judge(1.0, Outcome(2, 1, missing=1, missing_offsets=(1,)))
    assert case.is_passed


@pytest.fixture
def table() -> Table:
    made = Table()
    made.cut(0)
    return made
