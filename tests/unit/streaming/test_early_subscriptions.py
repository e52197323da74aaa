"""What is taken before its turn says nothing new when that has come. Spec: K13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mesh.errors import TransportUnavailableError
from mesh.wire.control import decode_subscription
from mesh.wire.keys import parse_subscription_key
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.job.early_subscriptions import EarlySubscriptions, asked_by
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.tables.rows import SmallRow, TopicPartition

CLIENTS = TopicPartition("mesh.a.clients", 0)
CHANNEL, DIRECT, QUEUE = b"{}", b'{"class":"direct"}', b'{"kind":"queue","policy":"any"}'


class Broker:
    """Says where the topic of clients ends, if it answers."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.is_away = False

    def stable_ends(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        if self.is_away:
            raise TransportUnavailableError("it does not answer")
        return dict.fromkeys(places, self.end)


def early_of(end: int) -> EarlySubscriptions:
    return EarlySubscriptions(
        AuditedKafkaClusters("mesh.", {"k1": Broker(end)}, homes={"a": "k1", "b": "k2"})
    )


def row(offset: int, key: str, value: bytes | None = CHANNEL) -> SmallRow:
    return SmallRow(CLIENTS, offset, key, value, offset)


def take(interest: SubscriptionHistory, rows: Sequence[SmallRow]) -> None:
    for one in rows:
        name, filter_ = parse_subscription_key(one.key.encode())
        if one.value is None:
            interest.unsubscribe(EndpointKey("a", name), filter_, one.offset, one.at_ms)
        else:
            told = decode_subscription(one.value)
            interest.subscribe(EndpointKey("a", name), filter_, told, one.offset, one.at_ms)


def firsts(rows: Sequence[SmallRow]) -> Sequence[int]:
    return [one.offset for one in early_of(9).firsts(rows, SubscriptionHistory())]


def test_channels_that_ask_for_the_first_time_are_taken():
    assert firsts([row(0, "s one/>"), row(1, "s two/>"), row(2, "t one/>")]) == [0, 1, 2]


@pytest.mark.parametrize(
    "odd",
    [
        pytest.param(row(1, "s one/>", None), id="an end"),
        pytest.param(row(1, "s one/>"), id="the same again"),
        pytest.param(row(1, "s two/>", DIRECT), id="another class of the same endpoint"),
        pytest.param(row(1, "q two/>", QUEUE), id="a queue"),
        pytest.param(row(1, "t two/>", b"[]"), id="what nobody can read"),
        pytest.param(row(1, "t two/>/x"), id="what is no filter"),
    ],
)
def test_nothing_is_taken_from_the_first_record_on_that_says_more(odd):
    assert firsts([row(0, "s one/>"), odd, row(2, "u two/>")]) == [0]


def test_what_is_known_already_is_not_taken():
    interest = SubscriptionHistory()
    take(interest, [row(0, "s one/>")])
    assert not early_of(9).firsts([row(1, "s one/>")], interest)


def test_topics_of_clients_are_read_to_their_ends_once():
    early, others = early_of(9), {TopicPartition("mesh.a.in.g", 0): 0}
    read = {CLIENTS: 2, TopicPartition("mesh.b.clients", 0): 0, **others}
    assert early.ranges("k1", read, {}) == {CLIENTS: (2, 9)}
    assert early.ranges("k1", {CLIENTS: 4}, {}) == {}
    early.kafka_clusters.brokers["k1"].end = 12
    assert early.ranges("k1", {CLIENTS: 4}, {}) == {CLIENTS: (9, 12)}


def test_what_stands_behind_another_record_waits_until_that_has_had_its_turn():
    early = early_of(9)
    early.ranges("k1", {CLIENTS: 0}, {})
    early.firsts([row(0, "s one/>"), row(1, "s one/>", None)], SubscriptionHistory())
    early.kafka_clusters.brokers["k1"].end = 12
    assert early.ranges("k1", {CLIENTS: 9}, {}) == {}
    assert early.ranges("k1", {CLIENTS: 10}, {}) == {CLIENTS: (10, 12)}


def test_what_stands_behind_it_is_looked_through_once():
    early = early_of(9)
    early.ranges("k1", {CLIENTS: 0}, {})
    assert early.unseen("k1", {CLIENTS: 0}, {}) == {}
    early.firsts([row(0, "s one/>", None)], SubscriptionHistory())
    early.kafka_clusters.brokers["k1"].end = 12
    assert early.unseen("k1", {CLIENTS: 0}, {}) == {CLIENTS: (9, 12)}
    assert early.unseen("k1", {CLIENTS: 0}, {}) == {}


def test_who_asks_is_heard_by_ends_too_and_by_no_record_of_another_kind():
    rows = [row(0, "s one/>"), row(1, "t two/>", None), row(2, "heartbeat"), row(3, "u two/>/x")]
    assert [*asked_by("mesh.", rows)] == [
        (EndpointKey("a", "s"), "one/>"),
        (EndpointKey("a", "t"), "two/>"),
    ]


def test_a_topic_that_was_recreated_is_read_from_its_beginning():
    early = early_of(9)
    early.ranges("k1", {CLIENTS: 0}, {CLIENTS.topic: "former"})
    assert early.ranges("k1", {CLIENTS: 3}, {CLIENTS.topic: "new"}) == {CLIENTS: (3, 9)}


def test_a_broker_that_does_not_answer_is_asked_later():
    early = early_of(9)
    early.kafka_clusters.brokers["k1"].is_away = True
    assert early.ranges("k1", {CLIENTS: 0}, {}) == {}
    assert "k1" in early.kafka_clusters.silent


KEYS = st.sampled_from(["s one/>", "s two/>", "t one/>", "t three", "u two/>"])
VALUES = st.sampled_from([CHANNEL, CHANNEL, CHANNEL, DIRECT, QUEUE, None])
RECORDS = st.lists(st.tuples(KEYS, VALUES), max_size=8)


@given(records=RECORDS, split=st.integers(0, 8))
@example([("s one/>", CHANNEL), ("s two/>", DIRECT), ("s one/>", None)], 0)
def test_who_takes_some_early_knows_the_same_in_the_end(records, split):
    """Every record is taken in its turn, too."""
    rows = [row(offset, *told) for offset, told in enumerate(records)]
    plain, early = SubscriptionHistory(), SubscriptionHistory()
    take(plain, rows)
    take(early, rows[:split])
    take(early, early_of(9).firsts(rows[split:], early))
    take(early, rows[split:])
    assert early.subscriptions == plain.subscriptions
    assert [*early.certified()] == [*plain.certified()]
