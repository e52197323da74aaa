"""Leases: what others say meanwhile is heeded, and who closes waits for one attempt. Spec: K13."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from mesh.client.leases import Leases, SubscriptionRecord
from mesh.errors import TransportUnavailableError
from mesh.model.control import Subscription
from mesh.wire.renewals import ENDED, NOT_SAID, repeating, said_at
from mesh.wire.subscriptions import encode_subscription

WITHIN_S = 20.0
Written = tuple[bytes, bytes | None, int]


class Records:
    """A topic of which somebody else says what comes."""

    def __init__(self, write: Callable[[bytes], None] = lambda _key: None) -> None:
        self.written: list[Written] = []
        self.coming: list[SubscriptionRecord] = []
        self.another: int | None = None
        self._write = write

    def look(self) -> int | None:
        was, self.another = self.another, None
        return was

    def read(self) -> Sequence[SubscriptionRecord]:
        coming, self.coming = self.coming, []
        return coming

    def repeat(self, key: bytes, value: bytes | None, at: int) -> int:
        self._write(key)
        self.written.append((key, value, at))
        return 70 if at == NOT_SAID else at


def due(leases: Leases, now_ms: list[int], count: int) -> None:
    """Have so many leases to be renewed."""
    for number in range(count):
        leases.keep(b"%d" % number, b"v", 3, number)
    now_ms[0] += 1_000


def value(lease_s: int | None, *, noexport: bool = False) -> bytes:
    return encode_subscription(Subscription(lease_s=lease_s, noexport=noexport))


def kept(records: Records) -> Callable[[], list[Written]]:
    """Return what renews one lease of 30 s, which stands at 5, and says what that writes."""
    now_ms = [0]
    leases = Leases(records, lambda: now_ms[0])
    leases.keep(b"k", value(30), 30, 5)

    def renew() -> list[Written]:
        now_ms[0] += 10_000
        leases.renew()
        written, records.written = records.written, []
        return written

    return renew


def test_a_renewal_says_what_it_repeats() -> None:
    """Whoever reads it knows that it says nothing new."""
    assert [said_at(9, repeating(4)), said_at(9, ENDED), said_at(9, [])] == [4, NOT_SAID, 9]
    renew = kept(Records())
    assert renew() == renew() == [(b"k", value(30), 5)]


@pytest.mark.parametrize("said", [b"x", b"-1", b"1" * 30, b"10", None])
def test_a_mark_of_other_making_is_none(said: bytes | None) -> None:
    """Whoever may write there writes what he likes, and nothing repeats what comes later."""
    assert said_at(9, [("other", b"1"), ("mesh-lease", said)]) == 9


@pytest.mark.parametrize("said", [value(None), None], ids=["lasts", "ended"])
def test_what_lasts_or_has_ended_is_renewed_no_longer(said: bytes | None) -> None:
    """Somebody else has subscribed without a lease, or unsubscribed, since."""
    records = Records()
    renew = kept(records)
    records.coming = [
        SubscriptionRecord(b"k", value(30), 5),
        SubscriptionRecord(b"other", None, 7),
        SubscriptionRecord(b"k", said, 8),
    ]
    assert renew() == renew() == []


@pytest.mark.parametrize("said", [value(None), None], ids=["lasts", "ended"])
def test_what_a_renewal_has_undone_is_said_again_once(said: bytes | None) -> None:
    """It was on its way while somebody else said so."""
    records = Records()
    renew = kept(records)
    records.coming = [SubscriptionRecord(b"k", said, 6), SubscriptionRecord(b"k", value(30), 5)]
    assert renew() == [(b"k", said, 6)]
    assert renew() == []


def test_what_somebody_else_has_made_of_it_is_renewed() -> None:
    """Of two that renew it one may end: the other keeps what both want, as it was said last."""
    records = Records()
    renew = kept(records)
    records.coming = [
        SubscriptionRecord(b"k", value(60, noexport=True), 9),
        SubscriptionRecord(b"k", b"{", 10),
    ]
    assert renew() == renew() == [(b"k", value(30, noexport=True), 9)]
    records.coming = [SubscriptionRecord(b"k", value(30), 5)]
    assert renew() == [(b"k", value(30, noexport=True), 9)]


def test_what_a_node_has_ended_too_early_is_there_again() -> None:
    """It could not read for a while, or this client could not write."""
    records = Records()
    renew = kept(records)
    records.coming = [SubscriptionRecord(b"k", None, NOT_SAID)]
    assert renew() == [(b"k", value(30), 5)]


def test_in_a_topic_that_was_recreated_all_that_is_said_is_new() -> None:
    records = Records()
    renew = kept(records)
    records.another = 0
    assert renew() == [(b"k", value(30), NOT_SAID)]
    assert renew() == [(b"k", value(30), 70)]
    records.another, records.coming = 0, [SubscriptionRecord(b"k", value(None), 0)]
    assert renew() == []


@pytest.mark.parametrize("said", [value(None), None], ids=["lasts", "ended"])
def test_where_a_topic_has_lost_its_end_what_was_said_before_is_no_news(said: bytes | None) -> None:
    """The subscription itself was lost: what it had replaced would end the lease for ever."""
    records = Records()
    renew = kept(records)
    records.another, records.coming = 4, [SubscriptionRecord(b"k", said, 2)]
    assert renew() == renew() == [(b"k", value(30), 3)]
    records.coming = [SubscriptionRecord(b"k", said, 4)]
    assert renew() == []


def test_where_one_is_not_taken_no_other_is_tried() -> None:
    """Each attempt takes as long as brokers may be silent: twenty would take minutes."""
    tried: list[bytes] = []
    is_away, now_ms = True, [0]

    def write(key: bytes) -> None:
        tried.append(key)
        if is_away:
            raise TransportUnavailableError("the brokers are away")

    leases = Leases(Records(write), lambda: now_ms[0])
    due(leases, now_ms, 3)
    leases.renew()
    leases.renew()
    assert tried == [b"0", b"0"]
    is_away = False
    leases.renew()
    assert tried[2:] == [b"0", b"1", b"2"]


def test_who_closes_waits_for_one_renewal_and_not_for_all() -> None:
    begun, goes_on = threading.Event(), threading.Event()
    written: list[bytes] = []
    now_ms = [0]

    def write(key: bytes) -> None:
        written.append(key)
        begun.set()
        assert goes_on.wait(WITHIN_S)

    leases = Leases(Records(write), lambda: now_ms[0])
    due(leases, now_ms, 3)
    renewing, closing = threading.Thread(target=leases.renew), threading.Thread(target=leases.close)
    renewing.start()
    assert begun.wait(WITHIN_S)
    closing.start()
    has_stopped = leases._stopped.wait(WITHIN_S / 10)
    closing.join(0.1)
    assert closing.is_alive(), "what is renewed just now has ended when somebody has closed"
    goes_on.set()
    for one in (renewing, closing):
        one.join(WITHIN_S)
        assert not one.is_alive()
    assert has_stopped
    assert written == [b"0"]


def test_the_handler_of_a_signal_closes_amid_a_call_that_it_has_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread that renews waits for that call, which goes on only once the handler is done."""
    monkeypatch.setattr("mesh.client.leases.LOOK_S", 0.01)
    leases, is_met = Leases(Records(), lambda: 0), threading.Event()
    renew = leases.renew

    def meets() -> None:
        is_met.set()
        renew()

    leases.renew = meets  # type: ignore[method-assign]

    def interrupted() -> None:
        with leases._lock:  # as `keep` does
            leases.begin()
            assert is_met.wait(WITHIN_S)
            leases.close()

    calling = threading.Thread(target=interrupted, daemon=True)
    calling.start()
    calling.join(WITHIN_S)
    assert not calling.is_alive()
