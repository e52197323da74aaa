"""What a node knows of its own subscriptions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.node.subscriptions import SPARE_MAX, Key, OwnSubscriptions, SubscriptionChange

KEY = ("s", "x")


@pytest.fixture
def own() -> OwnSubscriptions:
    return OwnSubscriptions()


def leased(seconds: int) -> Subscription:
    return Subscription(lease_s=seconds)


def test_an_endpoint_wants_something_until_its_last_filter_is_gone(own: OwnSubscriptions) -> None:
    """Spec: K13: one that is put twice counts once, one that is not there not at all."""
    for filter_ in ("x", "x", "y"):
        own.put(("s", filter_), Subscription(), now=0)
    assert own.pop(("s", "other")) == ()
    assert own.pop(("s", "x")) == [SubscriptionChange(("s", "x"), Subscription(), None)]
    assert not own.wants_nothing("s")
    own.pop(("s", "y"))
    assert own.wants_nothing("s")
    own.forget("s")
    assert (own.endpoints, own.asked, own.said) == ({}, {}, {})


def test_queues_are_kept_apart(own: OwnSubscriptions) -> None:
    queue = Subscription(EndpointKind.QUEUE)
    own.put(("q", "x"), queue, now=0)
    own.put(("s", "x"), Subscription(), now=0)
    assert own.queues == {("q", "x"): queue}
    own.pop(("q", "x"))
    assert own.queues == {}


def test_leases_end_once_and_in_their_order(own: OwnSubscriptions) -> None:
    """Spec: K13."""
    own.put(("s", "late"), leased(7), now=0)
    own.put(("s", "soon"), leased(5), now=0)
    own.put(("s", "never"), Subscription(), now=0)
    assert list(own.ended(4_999)) == []
    assert list(own.ended(9_000)) == [("s", "soon"), ("s", "late")]
    assert list(own.ended(9_000)) == []


def test_leases_that_ended_are_told_again_as_long_as_they_are_asked_for(
    own: OwnSubscriptions,
) -> None:
    """Spec: K13: who was to write the end of one may have failed."""
    own.put(("s", "one"), leased(5), now=0)
    own.put(("s", "two"), leased(6), now=0)
    assert list(own.ended(9_000)) == [("s", "one"), ("s", "two")]
    own.pop(("s", "one"))
    own.tell_again()
    assert list(own.ended(9_000)) == [("s", "two")]


@pytest.mark.parametrize(
    ("renewed", "ends"),
    [
        (leased(5), [(8_000, KEY)]),
        (leased(1), [(4_000, KEY)]),
        (Subscription(), []),
    ],
    ids=["later", "sooner", "without a lease from now on"],
)
def test_the_last_word_on_a_lease_counts(
    own: OwnSubscriptions, renewed: Subscription, ends: list[tuple[int, Key]]
) -> None:
    """Spec: K13."""
    own.put(KEY, leased(5), now=0)
    own.put(KEY, renewed, now=3_000)
    assert list(_ends(own)) == ends


def _ends(own: OwnSubscriptions) -> Iterator[tuple[int, Key]]:
    for now in range(0, 10_000, 1_000):
        for key in own.ended(now):
            yield now, key


def test_leases_that_are_renewed_leave_nothing_behind_where_nobody_ends_them(
    own: OwnSubscriptions,
) -> None:
    """A standby knows them all, and only who leads ends any. Spec: K13."""
    for now in range(0, 3_000_000, 1_000):
        own.put(KEY, leased(3), now)
    assert len(own._ends) < 100
    assert list(own.ended(2_999_000 + 2_999)) == []
    assert list(own.ended(2_999_000 + 3_000)) == [KEY]


def test_subscriptions_have_a_limit(own: OwnSubscriptions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an endpoint and of the node; what is there may be said again."""
    monkeypatch.setattr("mesh.node.subscriptions.ENDPOINT_MAX", 2)
    monkeypatch.setattr("mesh.node.subscriptions.NODE_MAX", 3)
    for key in (("s", "x"), ("s", "y"), ("t", "x")):
        assert own.full(key) is None
        own.put(key, Subscription(), now=0)
    assert own.full(("s", "x")) is None
    assert own.full(("s", "z")) == "endpoint s has 2 subscriptions already"
    assert own.full(("t", "z")) == "the node has 3 subscriptions already"
    own.pop(("s", "x"))
    assert own.full(("t", "z")) is None


QUEUE = Subscription(EndpointKind.QUEUE, MessageClass.GUARANTEED)


def surplus(*keys: tuple[str, str]) -> frozenset[tuple[str, str]]:
    own = OwnSubscriptions()
    for key in keys:
        own.put(key, QUEUE, 0)
    return own.surplus()


def test_queues_of_a_node_have_so_many_wildcard_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs a step per new subject, wherever it is published. Spec: DESIGN 3."""
    monkeypatch.setattr("mesh.node.subscriptions.QUEUE_SHAPES_MAX", 2)
    own = OwnSubscriptions()
    for key in (("q", "a/*"), ("r", "b/*"), ("q", "c/>"), ("q", "plain"), ("q", "d/*")):
        own.put(key, QUEUE, 0)
    assert own.surplus() == frozenset()
    own.put(("s", "*/d/x"), Subscription(EndpointKind.CHANNEL, MessageClass.GUARANTEED), 0)
    assert own.surplus() == frozenset()
    own.put(("q", "e/f/*"), QUEUE, 0)
    assert own.surplus() == {("q", "e/f/*")}
    own.put(("q", "c/>"), QUEUE, 0)  # renewed: no more than before
    own.pop(("q", "c/>"))
    assert own.surplus() == frozenset()


@given(st.permutations(range(7)))
def test_which_of_them_count_hangs_on_no_order(order: Sequence[int]) -> None:
    """A worker that restarts, and a mate, read `clients` compacted. Spec: K13."""
    keys = [("q", "/".join(["x"] * number + ["*"])) for number in range(1, 6)]
    keys += [("r", "*/y/>"), ("s", "z/>")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mesh.node.subscriptions.QUEUE_SHAPES_MAX", 4)
        assert surplus(*(keys[one] for one in order)) == frozenset(keys[2:5])


def test_a_queue_with_many_shapes_crowds_out_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the offender lacks something, wherever its name stands."""
    monkeypatch.setattr("mesh.node.subscriptions.QUEUE_SHAPES_MAX", 8)
    hostile = [("a", "/".join(["*"] * 1 + ["x"] * number)) for number in range(1, 100)]
    honest = [(name, "/".join(["x"] * number + ["*"])) for number, name in enumerate("xyz", 1)]
    left = surplus(*hostile, *honest)
    assert {endpoint for endpoint, _ in left} == {"a"}
    assert len(left) == 99 - 5


def test_a_lease_that_is_renewed_for_days_takes_no_more_room(own: OwnSubscriptions) -> None:
    """A standby ends none, so nothing is taken from the end of its list."""
    for second in range(0, 100_000, 30):
        own.put(KEY, leased(60), now=1000 * second)
        own.put(("t", "x"), leased(90), now=1000 * second)
    assert len(own._ends) <= SPARE_MAX + 2 * 2 + 1
    assert [*own.ended(10**9)] == [KEY, ("t", "x")]
