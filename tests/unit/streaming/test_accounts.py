"""Direct messages in an outbox against what its reader says of them. Spec: DESIGN 6, K18."""

from __future__ import annotations

import pytest

from mesh.model.state import Dropped, Ledger, SourceRange
from streaming.audits.accounts import COUNTS_MAX, OutboxAccounts
from streaming.tables.rows import FramePlace, FrameRow, SourceKey, StrayRow, TopicPartition

OUTBOX = TopicPartition("mesh.a.to.b.d", 0)
ID = b"\1" * 16


@pytest.fixture
def accounts() -> OutboxAccounts:
    return OutboxAccounts("mesh.")


def write(accounts: OutboxAccounts, first: int, *sizes: int, topic: str = OUTBOX.topic) -> None:
    """Read frames of an outbox, of so many messages each, from an offset on."""
    last = first + len(sizes) - 1
    row = FrameRow(
        place=TopicPartition(topic, 0),
        is_repair=False,
        kind="data",
        zone="Z",
        path=("a",),
        chain=SourceKey("aa", 0),
        source=SourceKey("aa", 0),
        generation=0,
        frames=len(sizes),
        messages=sum(sizes),
        first=0,
        last=0,
        head=FramePlace(first, -1, 0, 0),
        tail=FramePlace(last, -1, 0, 0),
        broken=(),
        late=0,
        most=max(sizes),
    )
    accounts.frames([row], [])


def tell(
    accounts: OutboxAccounts,
    first: int,
    next_: int,
    messages: int,
    *dropped: tuple[str, int],
    topic_id: bytes = ID,
    node: str = "b",
) -> None:
    """Read one ledger record of a reader."""
    source = SourceRange(OUTBOX.topic, topic_id, OUTBOX.partition, first, next_, messages)
    told = [Dropped(reason, OUTBOX.topic, OUTBOX.partition, n) for reason, n in dropped]
    accounts.ledger(node, Ledger(node=node, lane=0, lane_epoch=1, sources=[source], dropped=told))


def found(accounts: OutboxAccounts) -> list[tuple[int | None, int | None, int, str]]:
    return [(one.first, one.last, one.count, one.anchor) for one in accounts.judge()]


def test_what_is_read_message_by_message_is_accounted_for(accounts: OutboxAccounts) -> None:
    """Dropped ones included: a node counts them as read, and says why they went nowhere."""
    write(accounts, 0, 5, 3, 1)
    tell(accounts, 0, 2, 8)
    tell(accounts, 2, 3, 1, ("stale_epoch", 1))
    assert found(accounts) == []
    assert accounts.open[OUTBOX].agreed is not None


def test_frames_that_a_reader_passed_without_a_word_are_named_once(
    accounts: OutboxAccounts,
) -> None:
    write(accounts, 0, 5, 3, 1, 4)
    tell(accounts, 0, 1, 5)
    tell(accounts, 2, 4, 5)
    (one,) = accounts.judge()
    assert (one.kind, one.link, one.node, one.count) == ("unaccounted", "a->b", "b", 3)
    assert one.evidence == ("mesh.a.to.b.d/0@0-3",)
    write(accounts, 4, 2)
    tell(accounts, 4, 5, 2)
    assert found(accounts) == []


def test_a_reader_that_says_more_than_there_is_is_named_too(accounts: OutboxAccounts) -> None:
    write(accounts, 0, 2, 2)
    tell(accounts, 0, 2, 5)
    assert found(accounts) == [(0, 1, 1, "more")]


def test_while_a_side_is_behind_nothing_is_said(accounts: OutboxAccounts) -> None:
    """Whichever: outbox and ledger are in different Kafka clusters, read one after the other."""
    tell(accounts, 0, 2, 4)
    assert found(accounts) == []
    write(accounts, 0, 2)
    assert found(accounts) == []
    write(accounts, 1, 2, 2, 2)
    assert found(accounts) == []
    tell(accounts, 2, 4, 3)
    assert found(accounts) == [(0, 3, 1, "fewer")]


def test_a_link_that_never_rests_is_compared_where_batches_end_alike(
    accounts: OutboxAccounts,
) -> None:
    for first in range(0, 40, 4):
        write(accounts, first, 1, 1, 1, 1)
    for first in range(0, 39, 3):
        tell(accounts, first, first + 3, 2 if first == 15 else 3)
    assert found(accounts) == [(12, 23, 1, "fewer")]


@pytest.mark.parametrize("reason", ["takeover", "retention"])
def test_frames_passed_over_with_a_word_explain_what_they_can_hold(
    accounts: OutboxAccounts, reason: str
) -> None:
    """Frames are counted, for nobody has looked how many messages they hold. Spec: K18."""
    write(accounts, 0, 4, 4, 4)
    tell(accounts, 0, 3, 4, (reason, 2))
    assert found(accounts) == []
    write(accounts, 3, 4, 4, 4)
    tell(accounts, 3, 6, 0, (reason, 2))
    assert found(accounts) == [(3, 5, 12, "fewer")]


def test_records_that_are_no_frames_are_read_as_nothing(accounts: OutboxAccounts) -> None:
    write(accounts, 0, 2)
    accounts.frames([], [StrayRow(OUTBOX, 1, 1, 1)])
    write(accounts, 2, 2)
    tell(accounts, 0, 3, 4)
    assert found(accounts) == []
    assert accounts.open[OUTBOX].agreed is not None


def test_who_begins_in_the_middle_compares_from_the_next_meeting_on(
    accounts: OutboxAccounts,
) -> None:
    """A fresh auditor on an old mesh: outboxes and ledgers are kept for different times."""
    write(accounts, 50, 3, 3)
    tell(accounts, 30, 52, 99)
    assert found(accounts) == []
    write(accounts, 52, 3)
    tell(accounts, 52, 53, 1)
    assert found(accounts) == [(52, 52, 2, "fewer")]


def test_what_was_deleted_before_the_auditor_read_it_is_not_held_against_anybody(
    accounts: OutboxAccounts,
) -> None:
    write(accounts, 0, 3)
    write(accounts, 5, 3)
    tell(accounts, 0, 6, 18)
    assert found(accounts) == []
    write(accounts, 6, 3)
    tell(accounts, 6, 7, 3)
    accounts.forget("b")
    write(accounts, 7, 3, 3)
    tell(accounts, 8, 9, 3)
    assert found(accounts) == []


def test_a_topic_that_was_recreated_begins_anew(accounts: OutboxAccounts) -> None:
    write(accounts, 0, 3, 3)
    tell(accounts, 0, 2, 6)
    assert found(accounts) == []
    tell(accounts, 0, 1, 1, topic_id=b"\2" * 16)
    write(accounts, 0, 1)
    tell(accounts, 1, 2, 1, topic_id=b"\2" * 16)
    write(accounts, 1, 1)
    assert found(accounts) == []


def test_nobody_else_speaks_for_a_reader(accounts: OutboxAccounts) -> None:
    write(accounts, 0, 3)
    tell(accounts, 0, 1, 1, node="c")
    assert found(accounts) == []
    accounts.ledger(
        "b",
        Ledger(node="b", lane=0, lane_epoch=1, sources=[SourceRange("strange", ID, 0, 0, 9, 9)]),
    )
    write(accounts, 0, 3, topic="mesh.a.to.b.g")
    assert list(accounts.open) == [OUTBOX]


def test_what_waits_for_the_other_side_is_bounded(accounts: OutboxAccounts) -> None:
    for offset in range(2 * COUNTS_MAX):
        write(accounts, offset, 1)
    account = accounts.open[OUTBOX]
    assert len(account.ends) == COUNTS_MAX
    tell(accounts, 0, 2 * COUNTS_MAX, 2 * COUNTS_MAX - 1)
    assert found(accounts) == [(0, 2 * COUNTS_MAX - 1, 1, "fewer")]
