"""Who must get a message and who may. Spec: K25, K31."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.core.interest import InterestTable
from mesh.model.control import EndpointKind, Identity, Subscription
from mesh.model.frames import MessageClass
from mesh.model.state import Cut
from mesh.node.queues import OwnQueues
from mesh.node.subscriptions import OwnSubscriptions
from streaming.audits.claims import Claim, Level, Span
from streaming.audits.interest import RECENT_S, EndpointKey, SubscriptionHistory
from streaming.audits.lane_knowledge import EndKey
from streaming.audits.names import Names
from streaming.audits.queues import QueueRules
from streaming.audits.spans import claims_on
from streaming.audits.subscriptions import JudgedSubscription
from streaming.tables.rows import SourceKey, TopicPartition

ENDPOINT = EndpointKey("c", "s1")
PLACE = TopicPartition("mesh.a.in.g", 0)
SOURCE = SourceKey("aa", 0)
WAY = TopicPartition("mesh.b.to.c.g", 0)


def cut(interest: SubscriptionHistory, place: TopicPartition, position: int, offset: int) -> None:
    interest.lanes.cut(Cut(place.topic, b"", place.partition, position, "u", offset))


def spans(interest: SubscriptionHistory, *, is_local: bool = False) -> list[Span | None]:
    claims = claims_on(
        interest, ENDPOINT, "u", PLACE, SOURCE, is_local=is_local, carriers=lambda *_: [WAY]
    )
    return [claim.span for claim in claims]


@pytest.fixture
def interest() -> SubscriptionHistory:
    made = SubscriptionHistory()
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
    assert interest.ended_versions() == {"c": (6,)}
    ended, uuids = interest.ended_versions(), {"c": "u"}
    asked = interest.lanes.unknown_ends(ended, uuids, lambda topic: topic.split(".")[3])
    assert asked == [EndKey(WAY, 3)]
    interest.lanes.ended(EndKey(WAY, 3), {SOURCE: 41})
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
    interest.lanes.ended(EndKey(WAY, 2), {SOURCE: 9})
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
    interest = SubscriptionHistory()
    interest.subscribe(ENDPOINT, ">", Subscription(EndpointKind.QUEUE, policy="any"), 0)
    direct = EndpointKey("c", "s2")
    interest.subscribe(direct, ">", Subscription(message_class=MessageClass.DIRECT), 1)
    assert list(interest.certified()) == []
    interest.unsubscribe(direct, ">", 2)
    interest.subscribe(direct, ">", Subscription(), 3)
    assert list(interest.certified()) == [direct]
    assert [subscription.removed for subscription in interest.subscriptions[direct]] == [2, None]


def test_what_promises_less_ends_nothing_that_is_owed(interest):
    """Nodes refuse it; anybody's record could blind the auditor. Spec: K13."""
    cut(interest, PLACE, 10, 5)
    interest.subscribe(ENDPOINT, "acme/x", Subscription(message_class=MessageClass.DIRECT), 6)
    interest.subscribe(ENDPOINT, "acme/y", Subscription(EndpointKind.QUEUE), 7)
    assert spans(interest) == [Span(10), None, None]
    assert [one.is_refused for one in interest.subscriptions[ENDPOINT]] == [False, True, True]


def test_the_last_word_on_a_subscription_ends_the_former_one(interest):
    """It is all that a node reads of it once `clients` is compacted. Spec: K13."""
    cut(interest, PLACE, 10, 5)
    interest.subscribe(ENDPOINT, "acme/>", Subscription(message_class=MessageClass.DIRECT), 6)
    assert [one.removed for one in interest.subscriptions[ENDPOINT]] == [6, None]
    assert list(interest.certified()) == [ENDPOINT], "it was owed until then"


def standings(
    interest: SubscriptionHistory, endpoint: EndpointKey
) -> list[tuple[str, int, int | None, bool]]:
    return [
        (one.filter, one.added, one.removed, one.is_certified)
        for one in interest.subscriptions[endpoint]
    ]


def test_what_is_refused_is_owed_nothing_until_the_others_have_ended(interest):
    """Each counts from the record that has made it what it is. Spec: K13, K25."""
    endpoint, queue = EndpointKey("c", "s2"), Subscription(EndpointKind.QUEUE)
    interest.subscribe(endpoint, "a/>", queue, 6)
    interest.subscribe(endpoint, "b/>", Subscription(), 7)
    refused = [("a/>", 6, 7, True), ("b/>", 7, None, True), ("a/>", 7, None, False)]
    assert standings(interest, endpoint) == refused
    interest.subscribe(endpoint, "a/>", replace(queue, lease_s=9), 8)
    assert standings(interest, endpoint) == refused
    interest.unsubscribe(endpoint, "b/>", 9)
    assert standings(interest, endpoint)[1:] == [
        ("b/>", 7, 9, True),
        ("a/>", 7, 9, False),
        ("a/>", 9, None, True),
    ]


def test_a_queue_has_one_policy_whichever_was_said_first(interest):
    """Spec: K13: what is given to most prevails."""
    endpoint = EndpointKey("c", "q")
    for offset, policy in enumerate(("any", "local", "home"), 6):
        asked = Subscription(EndpointKind.QUEUE, policy=policy)
        interest.subscribe(endpoint, f"{policy}/>", asked, offset)
    open_ = [one for one in interest.subscriptions[endpoint] if one.removed is None]
    assert [(one.policy, one.is_refused) for one in open_] == [
        ("local", False),
        ("any", True),
        ("home", True),
    ]


@pytest.mark.parametrize("is_change", [True, False])
def test_a_topology_decides_which_policy_is_in_force(interest, is_change):
    """What nodes refuse by another topology is owed nothing, and what they refused may be."""
    endpoint, declared = EndpointKey("c", "q"), QueueRules(policies={"q": "any"})
    for offset, policy in enumerate(("every", "any"), 6):
        asked = Subscription(EndpointKind.QUEUE, policy=policy)
        interest.subscribe(endpoint, f"{policy}/>", asked, offset)

    def owed() -> list[tuple[str, bool, bool]]:
        open_ = [one for one in interest.subscriptions[endpoint] if one.removed is None]
        return sorted((one.policy, one.is_refused, one.is_certified) for one in open_)

    assert owed() == [("any", True, False), ("every", False, True)]
    assert list(interest.follow(declared, is_change=is_change)) == [endpoint] * is_change
    assert owed() == [("", True, False), ("any", False, not is_change)]
    again = Subscription(EndpointKind.QUEUE, policy="any")
    interest.subscribe(endpoint, "any/>", again, 8)
    assert owed() == [("", True, False), ("any", False, True)]
    assert list(interest.follow(QueueRules(), is_change=is_change)) == [endpoint] * is_change
    assert owed() == [("any", True, False), ("every", False, not is_change)]


def test_what_was_refused_for_a_time_is_told_from_its_own_record_on(interest):
    """Who asks what was wanted at a moment gone by asks what stood there, in force or not."""
    direct = Subscription(message_class=MessageClass.DIRECT)
    interest.subscribe(EndpointKey("c", "d"), "a/>", direct, 6, at_ms=100)
    interest.subscribe(EndpointKey("c", "d"), "b/>", Subscription(), 7, at_ms=200)
    interest.unsubscribe(EndpointKey("c", "d"), "a/>", 8, at_ms=300)
    (ended,) = interest.past
    assert (ended.filter, ended.from_ms, ended.to_ms) == ("a/>", 100, 300)


def test_one_that_is_refused_makes_others_no_dearer(interest, monkeypatch):
    """An endpoint may have as many filters as a node takes."""
    looked, standing = [0], JudgedSubscription.standing.fget

    def counted(one: JudgedSubscription) -> tuple[bool, bool, int]:
        looked[0] += 1
        return standing(one)

    interest.subscribe(ENDPOINT, "b/>", Subscription(message_class=MessageClass.DIRECT), 6)
    monkeypatch.setattr(JudgedSubscription, "standing", property(counted))
    for offset in range(7, 107):
        interest.subscribe(ENDPOINT, f"a/{offset}", Subscription(), offset)
    for offset in range(107, 207):
        interest.unsubscribe(ENDPOINT, f"a/{offset - 100}", offset)
    assert looked[0] <= 5 * 100


def test_one_more_filter_is_compared_with_few_others(interest):
    """All that an endpoint has are read when the auditor starts."""
    looked = [0]

    class Looked(list[JudgedSubscription]):
        def __iter__(self) -> Iterator[JudgedSubscription]:
            for one in super().__iter__():
                looked[0] += 1
                yield one

    interest.subscriptions[ENDPOINT] = Looked(interest.subscriptions[ENDPOINT])
    for offset in range(7, 107):
        interest.subscribe(ENDPOINT, f"a/{offset}", Subscription(), offset)
        interest.subscribe(ENDPOINT, f"a/{offset}", Subscription(), offset + 1_000)
    assert looked[0] <= 3 * 100


ASKED = [
    Subscription(kind, message_class, policy)
    for kind, policies in (
        (EndpointKind.CHANNEL, [None]),
        (EndpointKind.QUEUE, ["any", "home", "local", "every"]),
    )
    for message_class in MessageClass
    for policy in policies
]
ASKED += [replace(one, noexport=True) for one in ASKED if one.policy in ("any", "home")]


@given(st.permutations(ASKED), st.integers(1, len(ASKED)))
def test_what_is_in_force_hangs_on_no_order_and_is_what_nodes_have(
    several: Sequence[Subscription], count: int
) -> None:
    """An auditor that starts reads what compaction has left, as a node does. Spec: K13."""
    known, node = SubscriptionHistory(), OwnSubscriptions()
    for offset, asked in enumerate(several[:count]):
        known.subscribe(ENDPOINT, str(offset), asked, offset)
        node.put((ENDPOINT.name, str(offset)), asked, 0)
    queues = OwnQueues("c")
    [*queues.settle(node, InterestTable(), ())]
    refused = [filter_ for _, filter_ in (*queues.refused, *filter(node.is_refused, node.keys()))]
    open_ = [one for one in known.subscriptions[ENDPOINT] if one.removed is None]
    is_owed = {
        one.filter: not one.is_refused and (one.asked.kind is EndpointKind.CHANNEL or one.policy)
        for one in open_
    }
    assert sorted(filter_ for filter_, owed in is_owed.items() if not owed) == sorted(refused)


def test_a_node_that_calls_itself_otherwise_is_owed_what_it_was_owed(interest):
    """Its `control` topic was lost, say, and `clients` was not. Spec: K4, K25."""
    cut(interest, PLACE, 10, 5)
    interest.lanes.rename("u", "v")
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 30, "v", 5))
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 6)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 40, "v", 6))
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 50, "u", 8))  # of a lane that has not heard yet
    claims = claims_on(
        interest, ENDPOINT, "v", PLACE, SOURCE, is_local=False, carriers=lambda *_: [WAY]
    )
    assert [claim.span for claim in claims] == [Span(10), Span(40)]
    assert interest.lanes.position(PLACE, "v", 8) == 50
    interest.lanes.rename("v", "u")
    assert spans(interest) == [Span(10), Span(40)]


def claimed(interest: SubscriptionHistory) -> Sequence[Claim]:
    """Return what the endpoint claims of what is published at a."""
    ways = {"is_local": False, "carriers": lambda *_: [WAY], "origin": "a"}
    return claims_on(interest, ENDPOINT, "u", PLACE, SOURCE, **ways)


def claims(interest: SubscriptionHistory) -> list[tuple[Span | None, bool, int | None]]:
    """Return of each claim what must come, whether nobody can tell, and up to where it may."""
    return [(one.span, one.is_refusable, one.until) for one in claimed(interest)]


def told(interest: SubscriptionHistory, place: TopicPartition, position: int, offset: int) -> None:
    """Have the node that reads a source tell in its ledger what it knows of c."""
    node = "a" if place == PLACE else "c"
    interest.lanes.cut(Cut(place.topic, b"", place.partition, position, "u", offset), node=node)


def test_what_a_ledger_told_that_is_gone_is_not_taken_for_nothing(interest):
    """Two weeks without a change: whoever began to read then held all to be owed to nobody."""
    interest.lanes.lose_cuts("a")
    assert claims(interest) == [(None, True, None)]
    told(interest, PLACE, 20, 7)
    assert claims(interest) == [(Span(20), False, None), (None, True, 19)]
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 9)
    assert claims(interest)[2:] == [(None, False, None)], "the lane has told since of what it knows"
    told(interest, PLACE, 30, 9)
    assert claims(interest)[2:] == [(Span(30), False, None)]


def test_what_was_known_before_a_ledger_lost_records_is_known(interest):
    told(interest, PLACE, 20, 7)
    interest.lanes.lose_cuts("a")
    assert claims(interest) == [(Span(20), False, None)]
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 9)
    assert claims(interest)[1:] == [(None, True, None)]
    told(interest, PLACE, 25, 7)
    assert claims(interest)[1:] == [(None, False, None)]


def test_where_an_end_was_told_in_a_ledger_that_is_gone_nobody_can_tell(interest):
    """Nothing is owed from there on where the origin's lane knew of it."""
    told(interest, PLACE, 0, 5)
    interest.unsubscribe(ENDPOINT, "acme/>", 6)
    interest.lanes.lose_cuts("c")
    assert claims(interest) == [(None, True, None)]
    told(interest, PLACE, 30, 6)
    assert claims(interest) == [(None, False, None), (None, True, 29)]
    assert not any(one.undecided for one in claimed(interest)), "it may never be told"
    told(interest, WAY, 3, 6)
    interest.lanes.ended(EndKey(WAY, 3), {SOURCE: 41})
    assert [one[1] for one in claims(interest)] == [False, True]


def test_versions_of_a_clients_topic_that_was_recreated_are_others(interest):
    """They begin at 0 again, so what lanes knew of the former one would stand for them.

    Subscriptions that were not made again stayed, and those that were counted as repeats.
    """
    told(interest, PLACE, 10, 50)
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 50)
    interest.forget_clients("c", "u")
    assert not [*interest.certified()]
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 0)
    assert claims(interest)[2:] == [(None, True, None)], "a lane may have told of it by now"
    told(interest, PLACE, 60, 1)
    assert claims(interest)[2:] == [(Span(60), False, None), (None, True, 59)]


def test_a_record_with_a_lower_offset_is_of_another_topic(interest):
    """Then what it asks for is asked for anew."""
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 1)
    assert [(one.added, one.removed) for one in interest.subscriptions[ENDPOINT]] == [
        (5, 1),
        (1, None),
    ]


def test_after_a_truncation_a_lane_knows_what_it_knew_of_offsets_that_come_again(interest):
    """Messages below the former cut used to be owed to nobody, as were later versions."""
    cut(interest, PLACE, 80, 7)
    back = Cut(PLACE.topic, b"", 0, 50, "u", 7)
    interest.lanes.cut(back)
    assert spans(interest) == [Span(80)], "lanes do not go back"
    interest.lanes.cut(back, is_again=True)
    assert spans(interest) == [Span(50)]
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 9)
    interest.lanes.cut(replace(back, position=60, clients_offset=9), is_again=True)
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
    interest, held = SubscriptionHistory(), {f"reply/{number}" for number in range(400)}

    def claimed(_: EndpointKey, filters: Collection[str]) -> Collection[str]:
        return held.intersection(filters)

    for number in range(1500):
        interest.subscribe(ENDPOINT, f"reply/{number}", Subscription(), 2 * number)
        interest.unsubscribe(ENDPOINT, f"reply/{number}", 2 * number + 1)
        interest.prune({"c": "u"}, claimed=claimed, now_s=number)
    kept = {one.filter for one in interest.subscriptions[ENDPOINT]}
    assert held < kept
    assert len(kept) < 400 + 900


def test_what_has_just_ended_is_known_however_much_has_changed_since():
    """With 200 requests a second, what came a second after its end was unexpected."""
    interest, late = SubscriptionHistory(), EndpointKey("c", "late")
    interest.subscribe(late, "reply/0", Subscription(), 0)
    interest.unsubscribe(late, "reply/0", 1)

    def change(now_s: float) -> None:
        before = interest.pruned
        while interest.pruned == before:
            other = EndpointKey("c", f"s{interest.version}")
            interest.subscribe(other, "x", Subscription(), interest.version)
            interest.unsubscribe(other, "x", interest.version)
            interest.prune({"c": "u"}, now_s=now_s)

    for second in range(int(RECENT_S)):
        change(100 + second)
        assert late in interest.subscriptions
    change(100 + RECENT_S)
    assert late not in interest.subscriptions
    assert len(interest._versions) <= RECENT_S + 1


def test_of_an_endpoint_that_everybody_has_left_nothing_stays():
    """Clients that make one each, for ever."""
    interest = SubscriptionHistory()
    for number in range(3000):
        endpoint = EndpointKey("c", f"s{number}")
        interest.subscribe(endpoint, ">", Subscription(), 2 * number)
        interest.unsubscribe(endpoint, ">", 2 * number + 1)
        interest.prune({"c": "u"}, now_s=number)
    assert len(interest.subscriptions) < 1000
    assert EndpointKey("c", "s2999") in interest.subscriptions


def test_a_queue_that_was_left_long_ago_still_may_be_moved_from():
    """What waits there moves when somebody consumes elsewhere: years later, perhaps."""
    interest, queue = SubscriptionHistory(), EndpointKey("c", "q")
    interest.subscribe(queue, ">", Subscription(EndpointKind.QUEUE, policy="any"), 0)
    interest.unsubscribe(queue, ">", 1)
    for number in range(2, 3000):
        interest.subscribe(ENDPOINT, f"s{number}", Subscription(), number)
        interest.prune({"c": "u"}, now_s=number)
    assert queue not in interest.subscriptions
    assert interest.may_move(queue)
    assert interest.may_move(EndpointKey("c", ""))
    assert not interest.may_move(ENDPOINT)
    assert not interest.may_move(EndpointKey("b", ""))


def test_a_long_life_of_changes_leaves_little_behind():
    """Subscribing and unsubscribing for ever: what is in force answers as before."""
    interest = SubscriptionHistory()
    for turn in range(2000):
        offset = 2 * turn
        interest.subscribe(ENDPOINT, "acme/>", Subscription(), offset)
        cut(interest, PLACE, 10 * turn, offset)
        if turn < 1999:
            interest.unsubscribe(ENDPOINT, "acme/>", offset + 1)
        interest.prune({"c": "u"}, now_s=turn)
    assert len(interest.subscriptions[ENDPOINT]) < 800
    assert sum(map(len, interest.lanes.cuts.values())) < 1000
    assert spans(interest)[-1] == Span(19_990)


def test_what_lanes_knew_of_subscriptions_that_are_read_late_is_kept():
    """A Kafka cluster had not been read for a while: what was lost meanwhile was owed to nobody."""
    interest = SubscriptionHistory()
    for version in range(1100):
        cut(interest, PLACE, 10 * version, version)
        interest.prune({"c": "u"}, read_of=lambda _: 0)
    assert sum(map(len, interest.lanes.cuts.values())) < 300
    interest.subscribe(ENDPOINT, "acme/>", Subscription(), 950)
    assert claims(interest) == [(Span(9500), False, None)]
    interest.unsubscribe(ENDPOINT, "acme/>", 1100)
    interest.subscribe(ENDPOINT, "other/>", Subscription(), 400)
    (_, other, before) = claims(interest)
    assert other[0] is not None
    assert before == (None, True, other[0].first - 1), "nobody can tell what is not kept any more"


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
