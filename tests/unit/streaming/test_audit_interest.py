"""Who must get a message and who may. Spec: K25, K31."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.control import EndpointKind, Identity, Subscription
from mesh.model.frames import MessageClass
from mesh.model.state import Cut
from streaming.audits.claims import Level, Span
from streaming.audits.interest import EndKey, EndpointKey, Interest
from streaming.audits.names import Names
from streaming.audits.spans import claims_on
from streaming.tables.rows import SourceKey, TopicPartition

ENDPOINT = EndpointKey("c", "s1")
PLACE = TopicPartition("mesh.a.in.g", 0)
SOURCE = SourceKey("aa", 0)
WAY = TopicPartition("mesh.b.to.c.g", 0)


def cut(interest: Interest, place: TopicPartition, position: int, offset: int) -> None:
    interest.cut(Cut(place.topic, b"", place.partition, position, "u", offset))


def spans(interest: Interest, *, is_local: bool = False) -> list[Span | None]:
    claims = claims_on(
        interest, ENDPOINT, "u", PLACE, SOURCE, is_local=is_local, carriers=lambda *_: [WAY]
    )
    return [claim.span for claim in claims]


@pytest.fixture
def interest() -> Interest:
    made = Interest()
    made.subscribe(ENDPOINT, "acme/>", Subscription(), 5)
    return made


def test_must_begins_with_the_first_cut_that_knows_the_subscription(interest):
    assert spans(interest) == [None]
    cut(interest, PLACE, 10, 4)
    assert spans(interest) == [None]
    cut(interest, PLACE, 20, 7)
    cut(interest, PLACE, 30, 9)
    assert spans(interest) == [Span(20)]


def test_must_ends_with_the_last_message_routed_before_the_unsubscribe(interest):
    cut(interest, PLACE, 0, 5)
    interest.unsubscribe(ENDPOINT, "acme/>", 6)
    assert spans(interest) == [None]
    cut(interest, WAY, 3, 6)
    assert interest.unknown_ends({"c": "u"}, lambda topic: topic.split(".")[3]) == [EndKey(WAY, 3)]
    interest.ended(EndKey(WAY, 3), {SOURCE: 41})
    assert spans(interest) == [Span(0, 41)]
    cut(interest, PLACE, 30, 6)
    assert spans(interest) == [Span(0, 29)]


def test_at_the_own_ingress_the_cut_itself_is_the_end(interest):
    cut(interest, PLACE, 0, 5)
    interest.unsubscribe(ENDPOINT, "acme/>", 6)
    cut(interest, PLACE, 8, 6)
    assert spans(interest, is_local=True) == [Span(0, 7)]


def test_a_subscription_that_no_cut_ever_knew_alone_is_never_a_must(interest):
    interest.unsubscribe(ENDPOINT, "acme/>", 6)
    cut(interest, PLACE, 4, 6)
    cut(interest, WAY, 2, 6)
    interest.ended(EndKey(WAY, 2), {SOURCE: 9})
    assert spans(interest) == [None]


def test_subscribing_again_is_a_new_subscription_and_repeating_is_none(interest):
    interest.subscribe(ENDPOINT, "acme/>", Subscription(lease_s=5), 6)
    assert len(interest.subscriptions[ENDPOINT]) == 1
    interest.unsubscribe(ENDPOINT, "acme/>", 7)
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 8)
    cut(interest, PLACE, 0, 5)
    cut(interest, PLACE, 50, 8)
    assert spans(interest) == [None, Span(50)]


def test_shared_queues_and_direct_endpoints_are_not_certified_alone():
    interest = Interest()
    interest.subscribe(ENDPOINT, ">", Subscription(EndpointKind.QUEUE, policy="any"), 0)
    direct = EndpointKey("c", "s2")
    interest.subscribe(direct, ">", Subscription(message_class=MessageClass.DIRECT), 1)
    assert list(interest.certified()) == []
    interest.unsubscribe(direct, ">", 2)
    interest.subscribe(direct, ">", Subscription(), 3)
    assert list(interest.certified()) == [direct]
    assert [subscription.removed for subscription in interest.subscriptions[direct]] == [2, None]


def test_a_subscription_of_another_class_ends_nothing_that_is_owed(interest):
    """Nodes refuse it and go by the former one; anybody's record could blind the auditor. K13."""
    cut(interest, PLACE, 10, 5)
    interest.subscribe(ENDPOINT, "acme/>", Subscription(message_class=MessageClass.DIRECT), 6)
    interest.subscribe(ENDPOINT, "acme/>", Subscription(EndpointKind.QUEUE), 7)
    assert spans(interest) == [Span(10)]
    assert list(interest.certified()) == [ENDPOINT]


def test_nothing_is_owed_to_a_subscription_that_nodes_refuse(interest):
    """The endpoint is direct already: such messages used to be told as missing. K13."""
    endpoint, direct = EndpointKey("c", "s2"), Subscription(message_class=MessageClass.DIRECT)
    interest.subscribe(endpoint, "a/>", direct, 6)
    interest.subscribe(endpoint, "b/>", Subscription(), 7)
    cut(interest, PLACE, 10, 7)
    claims = claims_on(
        interest, endpoint, "u", PLACE, SOURCE, is_local=False, carriers=lambda *_: [WAY]
    )
    assert [(claim.filter, claim.span) for claim in claims] == [("a/>", None), ("b/>", None)]
    assert list(interest.certified()) == [ENDPOINT]
    interest.unsubscribe(endpoint, "a/>", 8)
    interest.subscribe(endpoint, "c/>", direct, 9)
    interest.subscribe(endpoint, "d/>", Subscription(), 10)
    assert list(interest.certified()) == [ENDPOINT], "what is refused gives no endpoint its class"


def test_a_node_that_calls_itself_otherwise_is_owed_what_it_was_owed(interest):
    """Its `control` topic was lost, say, and `clients` was not. Spec: K4, K25."""
    cut(interest, PLACE, 10, 5)
    interest.rename("u", "v")
    interest.cut(Cut(PLACE.topic, b"", 0, 30, "v", 5))
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 6)
    interest.cut(Cut(PLACE.topic, b"", 0, 40, "v", 6))
    interest.cut(Cut(PLACE.topic, b"", 0, 50, "u", 8))  # of a lane that has not heard yet
    claims = claims_on(
        interest, ENDPOINT, "v", PLACE, SOURCE, is_local=False, carriers=lambda *_: [WAY]
    )
    assert [claim.span for claim in claims] == [Span(10), Span(40)]
    assert interest.position(PLACE, "v", 8) == 50
    interest.rename("v", "u")
    assert spans(interest) == [Span(10), Span(40)]


def test_versions_of_a_clients_topic_that_was_recreated_are_others(interest):
    """They begin at 0 again, so what lanes knew of the former one would stand for them."""
    cut(interest, PLACE, 10, 50)
    interest.forget_clients("u")
    assert spans(interest) == [None]
    cut(interest, PLACE, 60, 0)
    interest.subscribe(EndpointKey("c", "s2"), "b", Subscription(), 0)
    assert interest.position(PLACE, "u", 0) == 60


def test_after_a_truncation_a_lane_knows_what_it_knew_of_offsets_that_come_again(interest):
    """Messages below the former cut used to be owed to nobody, as were later versions."""
    cut(interest, PLACE, 80, 7)
    back = Cut(PLACE.topic, b"", 0, 50, "u", 7)
    interest.cut(back)
    assert spans(interest) == [Span(80)], "lanes do not go back"
    interest.cut(back, is_again=True)
    assert spans(interest) == [Span(50)]
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 9)
    interest.cut(replace(back, position=60, clients_offset=9), is_again=True)
    assert spans(interest) == [Span(50), Span(60)]


def test_an_older_cut_tells_nothing_new(interest):
    cut(interest, PLACE, 20, 7)
    version = interest.version
    cut(interest, PLACE, 25, 7)
    cut(interest, PLACE, 30, 3)
    assert interest.version == version
    assert spans(interest) == [Span(20)]


@pytest.mark.parametrize(
    ("first", "last", "level"),
    [
        (0, 9, Level.MAY),
        (0, 10, Level.MIXED),
        (10, 20, Level.MUST),
        (20, 21, Level.MIXED),
        (21, 30, Level.MAY),
    ],
)
def test_a_stretch_is_inside_outside_or_across_a_span(first, last, level):
    assert Span(10, 20).level(first, last) is level
    if first > 20:
        assert Span(10).level(first, last) is Level.MUST


def test_what_ended_is_known_as_long_as_something_of_it_is_not_certified_for_good():
    """Who asks and gets an answer under a subject of its own, for ever: answers were unexpected."""
    interest, held = Interest(), {f"reply/{number}" for number in range(400)}
    for number in range(1500):
        interest.subscribe(ENDPOINT, f"reply/{number}", Subscription(), 2 * number)
        interest.unsubscribe(ENDPOINT, f"reply/{number}", 2 * number + 1)
        interest.prune({"c": "u"}, claimed=lambda _, filters: held.intersection(filters))
    kept = {one.filter for one in interest.subscriptions[ENDPOINT]}
    assert held < kept
    assert len(kept) < 400 + 900


def test_of_an_endpoint_that_everybody_has_left_nothing_stays():
    """Clients that make one each, for ever."""
    interest = Interest()
    for number in range(3000):
        endpoint = EndpointKey("c", f"s{number}")
        interest.subscribe(endpoint, ">", Subscription(), 2 * number)
        interest.unsubscribe(endpoint, ">", 2 * number + 1)
        interest.prune({"c": "u"})
    assert len(interest.subscriptions) < 1000
    assert EndpointKey("c", "s2999") in interest.subscriptions


def test_a_long_life_of_changes_leaves_little_behind():
    """Subscribing and unsubscribing for ever: what is in force answers as before."""
    interest = Interest()
    for turn in range(2000):
        offset = 2 * turn
        interest.subscribe(ENDPOINT, "acme/>", Subscription(), offset)
        cut(interest, PLACE, 10 * turn, offset)
        if turn < 1999:
            interest.unsubscribe(ENDPOINT, "acme/>", offset + 1)
        interest.prune({"c": "u"})
    assert len(interest.subscriptions[ENDPOINT]) < 500
    assert sum(map(len, interest.cuts.values())) < 1000
    assert spans(interest)[-1] == Span(19_990)


def test_a_uuid_of_another_node_is_nobodys_to_take():
    """Else its versions would be mixed with those of the other."""
    names = Names()

    def learn(node: str, uuid: str) -> str | None:
        told = Identity(node=node, uuid=uuid, epoch=1, cluster_id="x", lanes=1, topics=())
        return names.learn(told)

    assert [learn("b", "u"), learn("c", "v"), learn("c", "v")] == [None, None, None]
    assert [learn("c", "u"), learn("c", "v")] == [None, None]
    assert learn("c", "w") == "v"
    names.told.clear()  # its clients topic was recreated
    assert [learn("c", "x"), learn("c", "y")] == [None, "x"]
