"""A busy block: what is late or wrong in it is seen with every batch. Spec: K29, K30."""

from __future__ import annotations

import pytest

from mesh.model.control import Subscription
from streaming.audits import reconciliation
from streaming.audits.cases import Case, CaseOutcome
from streaming.audits.interest import EndpointKey
from streaming.audits.settlement import settle
from streaming.audits.verdicts import compare
from streaming.tables.digest import Digest
from streaming.tables.rows import TopicPartition
from tests.unit.streaming.certified import PLACE, SPY, TARGET, Table


class Busy(Table):
    """A block that is never at rest; cases are read as what was published and came says."""

    def __init__(self) -> None:
        super().__init__()
        self.published: list[int] = []
        self.delivered: dict[TopicPartition, list[int]] = {}
        self.cut(0)

    def publish(self, *offsets: int, subject: str | None = "acme/x") -> None:
        self.published += offsets
        super().publish(*offsets, subject=subject)
        self.pass_to(max(offsets) + 1)

    def deliver(self, *offsets: int, to: TopicPartition = TARGET, **more: object) -> None:
        self.delivered.setdefault(to, []).extend(offsets)
        super().deliver(*offsets, to=to, **more)

    def trickle(self, offset: int, *, is_lost: bool = False) -> None:
        """Have a message published and passed, and delivered unless it is lost."""
        self.publish(offset)
        if not is_lost:
            self.deliver(offset)

    def outcome(self, case: Case) -> CaseOutcome:
        """Return what reading a case gives."""
        must = [one for one in self.published if case.first <= one <= case.last]
        there = self.delivered.get(TopicPartition(f"mesh.a.ep.{case.endpoint.name}", 0), [])
        came = [one for one in there if case.first <= one <= case.delivered_last]
        lost = tuple(one for one in must if one not in came)
        return CaseOutcome(len(must), len(came), missing=len(lost), missing_offsets=lost)

    def look(self, seconds: float = 1.0) -> list[Case]:
        """Let time pass and judge; return the cases that were read, the rests apart."""
        self.at_s += seconds
        certification = self.certifier.judge(self.world, self.at_s)
        for case in certification.cases:
            settle(certification, case, self.outcome(case))
        self.certifier.finish(certification)
        return [case for case in certification.cases if not case.is_rest]


@pytest.fixture
def table() -> Busy:
    return Busy()


def test_a_loss_under_a_trickle_is_read_as_soon_as_its_way_is_through(table):
    found = []
    for offset in range(8):
        table.trickle(offset, is_lost=offset == 3)
        found += [(offset, case.is_passed) for case in table.look()]
    assert found == [(3, True)]
    (finding,) = table.world.register.findings.values()
    assert finding.kind == "missing"


def test_a_loss_is_read_with_the_batch_that_brings_the_rest_of_what_was_written_by_then(table):
    """It does not wait until its block is due, for it was not read just now."""
    found = []
    for offset in range(8):
        if offset == 3:
            table.world.ends = lambda _: {TARGET: 9}
        table.world.read[TARGET] = 9 if offset >= 4 else 0
        table.trickle(offset, is_lost=offset == 3)
        found += [(offset, case.is_passed) for case in table.look(0.4)]
    assert found == [(4, True)]


def test_what_comes_a_batch_later_each_time_is_not_read_again(table):
    """Something is late in a busy block always; that it came is seen with the next batch."""
    table.world.ends = lambda _: {TARGET: 60}
    for offset in range(0, 60, 2):
        table.publish(offset)
        assert table.look() == []
        table.deliver(offset)
        table.world.read[TARGET] = offset + 1
        table.trickle(offset + 1)
        assert table.look() == []


def test_where_each_batch_ends_amid_a_stream_it_is_read_no_more_than_every_two_seconds(table):
    """Never equal: whether the late ones are the same ones only the messages tell."""
    cases = []
    for offset in range(40):
        table.publish(offset)
        if offset:
            table.deliver(offset - 1)
        cases += table.look(0.5)
    assert 4 <= len(cases) <= 20 / 2
    assert table.world.register.findings == {}


def test_another_content_is_read_at_once_also_in_a_busy_block(table):
    table.world.ends = lambda _: {TARGET: 9}
    table.trickle(0)
    table.look()
    table.trickle(1)
    (receipt,) = table.certifier.blocks.open[PLACE][0].receipts.values()
    receipt.digest += Digest(content=5)
    (case,) = table.judge(1.0, CaseOutcome(2, 2, corrupt=1, corrupt_offsets=(1,)))
    assert not case.is_passed
    assert table.issued() == [(2, 2, False, True)]


def faulty(table: Busy) -> None:
    """Have a message lost in a busy block, and told."""
    for offset in range(6):
        table.trickle(offset, is_lost=offset == 3)
        table.look()
    assert [one.count for one in table.world.register.findings.values()] == [1]
    table.issued()


def test_a_fault_that_stands_is_not_read_again_as_long_as_news_are_equal(table):
    faulty(table)
    for offset in range(6, 40):
        table.trickle(offset)
        assert table.look() == []
    table.look(3.0)
    assert table.issued()[-1] == (40, 39, False, True)
    assert table.certifier.waiting == []


def test_another_fault_beside_one_that_stands_is_read(table):
    faulty(table)
    for offset in range(6, 10):
        table.trickle(offset, is_lost=offset == 6)
        table.look()
    (finding,) = table.world.register.findings.values()
    assert finding.ids == ("mesh.a.in.g/0/0/3", "mesh.a.in.g/0/0/6")


def test_a_fault_that_stands_is_taken_back_once_what_was_lost_has_come(table):
    faulty(table)
    table.deliver(3)
    table.trickle(6)
    table.look(3.0)
    assert table.issued()[-1] == (7, 7, True, True)
    assert table.world.register.findings == {}


def test_one_fault_for_another_is_none_that_stands(table):
    """What was lost comes, and another message in its place does not."""
    faulty(table)
    table.trickle(6, is_lost=True)
    table.deliver(3)
    assert len([case for _ in range(4) for case in table.look(2.0)]) == 1
    (finding,) = table.world.register.findings.values()
    assert finding.first == 6


def test_a_loss_does_not_wait_for_the_way_of_an_older_one_at_the_same_node(table):
    """Each has its own: else the newer would be followed once the older is told."""
    table.world.interest.subscribe(EndpointKey("a", "spy"), "acme/>", Subscription(), 1)
    table.cut(0, 1)
    table.world.ends = lambda _: {TARGET: 9}
    found = []
    for offset in range(12):
        table.publish(offset)
        if offset != 3:
            table.deliver(offset)
        if offset != 4:
            table.deliver(offset, to=SPY)
        found += [(offset, case.endpoint.name) for case in table.look()]
        table.world.read[TARGET] = 9 if offset >= 6 else 0
    assert found == [(7, "s1"), (7, "spy")]


def test_deliveries_that_are_read_before_what_was_published_are_on_time(table):
    """They are of another Kafka cluster; nothing is certified up to before the first message."""
    for offset in range(20):
        table.deliver(offset)
        cases = table.look()
        if offset:
            table.publish(offset - 1)
        cases += table.look()
        assert all(case.first <= case.last for case in cases)
    assert all(one.first <= one.last for one in table.certifier.unpublished.values())
    assert table.world.register.findings == {}


def test_a_loss_is_found_also_where_deliveries_are_always_read_ahead(table):
    for offset in range(16):
        if offset != 5:
            table.deliver(offset)
        table.look()
        if offset:
            table.publish(offset - 1)
        table.look()
    (finding,) = table.world.register.findings.values()
    assert (finding.kind, finding.ids) == ("missing", ("mesh.a.in.g/0/0/5",))


def test_digests_are_compared_once_and_again_when_something_changes(table, monkeypatch):
    """What is late is followed for as long as it takes: what its digests tell stays the same."""
    compared = []

    def count(*told: object) -> object:
        compared.append(told)
        return compare(*told)

    monkeypatch.setattr(reconciliation, "compare", count)
    table.publish(0, 1)
    table.deliver(0)
    table.world.progress.positions.clear()  # no hop has passed it
    for _ in range(10):
        table.look()
    assert len(compared) == 1
    table.deliver(1)
    table.look(2.0)
    assert len(compared) == 2
    assert [one.equal for one in table.certifier.unpublished.values()] == [True]
    table.deliver(1)
    table.world.names.tell("mesh.other.in.g", "77")
    table.look(2.0)
    assert len(compared) == 3
