"""Queues as the auditor sees them: each by its policy. Spec: K29, DESIGN 6."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import EndpointKind, Subscription
from mesh.model.findings import FindingKind
from mesh.model.interest_inputs import CHANGE
from mesh.model.queues import Queue, QueuePolicy
from mesh.model.state import Cut, Ledger
from mesh.model.topology import Topology
from mesh.wire.control import encode_config, encode_subscription
from mesh.wire.state import encode_ledger
from streaming.audits.block_judgements import claims_of
from streaming.audits.cases import Case, CaseOutcome
from streaming.audits.claims import Span
from streaming.audits.eras import Eras
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.late_cases import late_cases
from streaming.audits.queues import QueueRules
from streaming.audits.spans import claims_on, is_settled
from streaming.audits.ways import Ways
from streaming.tables.rows import DeliveryRow, SmallRow, TopicPartition
from tests.unit.streaming.certified import PLACE, SOURCE, Table, digest
from tests.unit.streaming.test_recreated import INGRESS, LEDGER, Bench

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"main": {}},
        "nodes": {name: {} for name in "abcd"},
        "zones": {
            "Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]},
            "J": {"kind": "join", "from": "d", "to": "a"},
        },
        "queues": {"Orders": {"policy": "home", "home": "b"}, "work": {"policy": "any"}},
    }
)
RULES = QueueRules.of(TOPOLOGY)


def queue(policy: str | None = None) -> Subscription:
    return Subscription(EndpointKind.QUEUE, policy=policy)


def test_policies_are_as_declared_and_refused_where_they_contradict_that():
    """Spec: K13."""
    assert (
        RULES.policy_of("n", "orders", queue())
        == RULES.policy_of("n", "ORDERS", queue("home"))
        == "home"
    )
    assert RULES.policy_of("n", "work", queue("local")) is None
    assert RULES.policy_of("n", "other", queue()) == "every"
    assert RULES.policy_of("n", "work", Subscription()) == ""


def test_a_queue_of_which_nobody_says_more_is_local_in_an_exclusive_zone():
    """Spec: UM-7."""
    zones = {"U": {"kind": "one-hop", "nodes": ["a", "b"], "exclusive": True}}
    topology = topology_from_mapping(
        {"kafka": {"main": {}}, "nodes": {"a": {}, "b": {}, "c": {}}, "zones": zones}
    )
    rules = QueueRules.of(topology)
    assert [rules.policy_of(node, "q", queue()) for node in "abc"] == ["local", "local", "every"]
    assert rules.policy_of("a", "q", queue("every")) == "every"
    assert [topology.unsaid_policy(node).value for node in "abc"] == ["local", "local", "every"]


@pytest.mark.parametrize(
    ("name", "said", "policy"),
    [("work", None, None), ("orders", None, None), ("x", "any", None), ("x", "local", "local")],
)
def test_who_shares_a_queue_cannot_be_noexport(name: str, said: str | None, policy: str | None):
    """The mesh refuses that, so nothing is owed to it. Spec: K13, DMR-12."""
    asked = Subscription(EndpointKind.QUEUE, policy=said, noexport=True)
    assert RULES.policy_of("n", name, asked) == policy


@pytest.mark.parametrize(
    ("policy", "name", "node", "origin", "comes"),
    [
        ("home", "orders", "b", "a", True),
        ("home", "orders", "b", "b", True),
        ("home", "orders", "a", "b", False),
        ("any", "work", "c", "a", True),
        ("any", "work", "a", "d", False),
        ("local", "x", "a", "a", True),
        ("local", "x", "a", "d", True),
        ("local", "x", "b", "d", False),
        ("local", "x", "b", "a", False),
        ("every", "x", "c", "d", True),
    ],
)
def test_what_can_come_to_a_queue(policy: str, name: str, node: str, origin: str, comes: bool):
    """Spec: EMS-12, UM-7."""
    between = Ways(TOPOLOGY).between(origin, node)
    is_local = origin == node
    assert RULES.may_come(policy, name, node, between, is_local=is_local) is comes


def moved(*links: str) -> Topology:
    """The queue's home is b, and these are the links."""
    zone = {"kind": "multi-hop", "links": [list(link) for link in links]}
    return topology_from_mapping(
        {
            "kafka": {"main": {}},
            "nodes": {name: {} for name in "abc"},
            "zones": {"Z": zone},
            "queues": {"orders": {"policy": "home", "home": "b"}},
        }
    )


NEAR, FAR = moved("ab", "bc"), moved("ac", "bc")


@pytest.mark.parametrize(
    ("before", "after", "spans"),
    [(NEAR, FAR, [Span(0, 4)]), (FAR, NEAR, [Span(5)]), (NEAR, NEAR, [Span(0)]), (FAR, FAR, [])],
    ids=["no neighbour any more", "a neighbour now", "all along", "never"],
)
def test_what_comes_to_a_queue_with_a_home_is_what_its_neighbours_of_that_time_sent(
    before: Topology, after: Topology, spans: Sequence[Span]
) -> None:
    """What was routed before a change was unexpected, or missing, by the links of after it."""
    table, home = Table(), EndpointKey("b", "orders")
    world, eras = table.world, Eras.of(before)
    world.eras, world.names.uuids["b"] = eras, "v"
    interest = world.interest = SubscriptionHistory(queues=QueueRules.of(before))
    for number, one in enumerate((before, after), 1):
        assert eras.configured(number, published_text(one), 0.0)
    interest.subscribe(home, "acme/>", queue(), 0)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "v", 0), 1)
    eras.cut(Cut(PLACE.topic, b"", 0, 5, CHANGE, 2))
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 5, "v", 0), 2)
    interest.follow(QueueRules.of(after), is_change=True)
    assert [claim.span for claim in claims_of(PLACE, home, world)] == spans


def test_members_of_a_shared_queue_are_one_and_others_are_not():
    interest = SubscriptionHistory(queues=RULES)
    interest.subscribe(EndpointKey("a", "work"), "w/>", queue(), 0)
    interest.subscribe(EndpointKey("c", "work"), "w/>", queue("any"), 0)
    interest.subscribe(EndpointKey("c", "tell"), "w/>", queue(), 1)
    assert interest.shared() == {
        EndpointKey("*", "work"): [EndpointKey("a", "work"), EndpointKey("c", "work")]
    }
    assert list(interest.certified()) == [EndpointKey("c", "tell")]


class Shared(Table):
    """Two members of one queue: at the ingress itself, and one link away."""

    def __init__(self) -> None:
        super().__init__()
        self.world.names.uuids["b"] = "v"
        self.world.eras = Eras.of(TOPOLOGY)
        interest = self.world.interest = SubscriptionHistory(queues=RULES)
        for node, uuid in (("a", "u"), ("b", "v")):
            interest.subscribe(EndpointKey(node, "work"), "acme/>", queue(), 0)
            interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, uuid, 0))
        self.world.carriers = lambda *_: [TopicPartition("mesh.a.to.b.g", 0)]

    def give(self, node: str, *offsets: int, name: str = "work", is_moved: bool = False) -> None:
        row = DeliveryRow(
            place=TopicPartition(f"mesh.{node}.ep.{name}", 0),
            source=SOURCE,
            generation=0,
            path=("a",) if node == "a" else ("a", node),
            block=0,
            digest=digest(*offsets),
            first=min(offsets),
            last=max(offsets),
            record_first=0,
            record_last=9,
            late=0,
            is_moved=is_moved,
        )
        self.certifier.blocks.deliver([row], self.world.names, self.at_s)

    def told(self) -> dict[str, bool]:
        """Return what is certified, and whether it is equal."""
        return {one.endpoint: one.equal for one in self.certifier.unpublished.values()}


def test_one_member_or_the_other_has_each_message():
    """Spec: K29."""
    table = Shared()
    table.publish(0, 1, 2, 3)
    table.give("a", 0, 1, 3)
    table.give("b", 2)
    assert table.judge() == []
    assert [(one.endpoint, one.delivered) for one in table.certifier.unpublished.values()] == [
        ("*/work", 4)
    ]


@pytest.mark.parametrize(
    ("given", "outcome", "kind"),
    [
        ((0, 1, 2), CaseOutcome(4, 5, duplicate=1, duplicate_offsets=(2,)), "duplicate"),
        ((0,), CaseOutcome(4, 3, missing=1, missing_offsets=(1,)), "missing"),
    ],
)
def test_what_two_members_have_or_none_is_a_finding(
    given: tuple[int, ...], outcome: CaseOutcome, kind: str
):
    """Spec: K29, K30. Both members' topics are read, and the fault names the queue."""
    table = Shared()
    table.publish(0, 1, 2, 3)
    table.give("a", *given)
    table.give("b", 2, 3)
    cases = table.judge(outcome=outcome)
    table.pass_to(4)
    for _ in range(4):
        cases += table.judge(outcome=outcome)
    assert {one.node for case in cases for one in case.records} == {"a", "b"}
    found = list(table.world.register.findings.values())
    assert [(one.kind.value, one.endpoint) for one in found] == [(kind, "*/work")]


@pytest.fixture
def apart() -> Shared:
    """Members of one queue that ask for different things."""
    table = Shared()
    interest = table.world.interest = SubscriptionHistory(queues=RULES)
    for node, filter_, uuid in (("a", "acme/>", "u"), ("b", "other/>", "v")):
        interest.subscribe(EndpointKey(node, "work"), filter_, queue(), 0)
        interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, uuid, 0))
    return table


def test_what_one_member_asked_for_and_another_got_is_unexpected(apart: Shared):
    """Together they had exactly what they had to, and that was certified. Spec: K29."""
    apart.publish(0, 1, 2)
    apart.give("b", 0, 1, 2)
    outcome = CaseOutcome(0, 3, unexpected=3, unexpected_offsets=(0, 1, 2))
    (case,) = apart.judge(outcome=outcome)
    assert (case.is_own, case.is_passed, list(case.records)) == (True, False, [("b", "work")])
    assert apart.told() == {}
    apart.pass_to(3)
    for _ in range(4):
        apart.judge(outcome=outcome)
    assert apart.told() == {"*/work": False}
    (finding,) = apart.world.register.findings.values()
    assert (finding.kind, finding.endpoint, finding.count) == ("unexpected", "b/work", 3)


def test_members_that_ask_for_different_things_are_certified_once_each_has_its_own(apart: Shared):
    apart.publish(0, 1)
    apart.publish(2, subject="other/x")
    apart.give("a", 0, 1)
    apart.give("b", 2)
    cases = apart.judge(outcome=CaseOutcome(1, 1))
    assert [(case.endpoint.node, case.is_own) for case in cases] == [("a", True), ("b", True)]
    assert not any(want.is_must for case in cases for want in case.wants)
    assert apart.judge() == []
    assert apart.told() == {"*/work": True}
    assert apart.certifier.waiting == []


def test_what_was_moved_to_a_member_may_be_anything_of_its_queue(apart: Shared):
    apart.publish(0, 1)
    apart.give("b", 0, 1, is_moved=True)
    assert apart.judge() == []
    assert apart.told() == {"*/work": True}


def patterns(cases: Sequence[Case]) -> list[bool]:
    """Return of each case whether what another member asks for may come, and nothing must."""
    wants = [
        [want for want in case.wants if re.match(want.pattern.replace(r"\z", r"\Z"), "acme/x")]
        for case in cases
    ]
    assert not any(want.is_must for case in cases for want in case.wants)
    return [bool(found) for found in wants]


@pytest.mark.parametrize("is_moved", [True, False])
def test_what_was_moved_to_a_member_may_be_anything_though_its_block_is_certified_for_good(
    apart: Shared, is_moved: bool
):
    """A consumer may come long after the messages. Spec: DESIGN 6, K29."""
    apart.certifier.blocks.dropped[PLACE] = 0
    apart.give("b", 0, 1, is_moved=is_moved)
    late = apart.certifier.blocks.unplaced.ripe(apart.at_s + 60)
    assert patterns(late_cases(late, apart.world)) == [is_moved]


@pytest.mark.parametrize("is_moved", [True, False])
def test_what_was_moved_may_be_anything_of_a_queue_of_which_nothing_is_certified(
    apart: Shared, is_moved: bool
):
    """A change has given it a home, to which others move all that they have. Spec: K29."""
    rules = QueueRules(policies={"work": "home"}, homes={"work": "b"})
    apart.world.interest.follow(rules, is_change=True)
    apart.publish(0, 1)
    apart.give("b", 0, 1, is_moved=is_moved)
    apart.pass_to(2)
    cases = apart.judge(outcome=CaseOutcome(0, 2))
    assert patterns(cases) == ([] if is_moved else [False])  # digests tell that it is all


def test_a_member_is_owed_nothing_alone_while_another_may_get_what_it_asks_for():
    """Both subscribed by another policy, and one of them again since. Spec: K29."""
    table = Shared()
    interest = table.world.interest
    for rules in (EACH_GETS, RULES):
        interest.follow(rules, is_change=True)
    interest.subscribe(EndpointKey("b", "work"), "acme/>", queue(), 7)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "v", 7))
    table.publish(0, 1)
    table.give("a", 1)
    table.give("b", 0)
    table.pass_to(2)
    cases = table.judge(outcome=CaseOutcome(1, 1))
    assert patterns(cases) == [True] * len(cases)
    assert table.told() == {}


def test_what_came_to_the_proxy_of_a_queue_with_a_home_is_unexpected():
    """Its proxies attract nothing. Spec: EMS-12."""
    table = Shared()
    interest = table.world.interest = SubscriptionHistory(queues=RULES)
    for node, uuid in (("a", "u"), ("b", "v")):
        interest.subscribe(EndpointKey(node, "orders"), "acme/>", queue("home"), 0)
        interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, uuid, 0))
    table.publish(0, 1)
    table.give("a", 0, 1, name="orders")
    table.pass_to(2)
    outcome = CaseOutcome(0, 2, unexpected=2, unexpected_offsets=(0, 1))
    cases = [case for _ in range(4) for case in table.judge(outcome=outcome)]
    assert {case.wants for case in cases} == {()}
    assert table.told() == {"*/orders": False}
    assert [one.endpoint for one in table.world.register.findings.values()] == ["a/orders"]


EACH_GETS = QueueRules(policies={"work": "every"})


def work(interest: SubscriptionHistory, node: str) -> EndpointKey:
    interest.subscribe(EndpointKey(node, "work"), "acme/>", queue(), 0)
    return EndpointKey(node, "work")


def test_a_queue_with_another_policy_is_certified_once_it_is_subscribed_anew():
    """Nothing tells from which message on a changed policy counts. Spec: K28, K29, DESIGN 6."""
    interest = SubscriptionHistory(queues=RULES)
    a, c = work(interest, "a"), work(interest, "c")
    channel = EndpointKey("c", "s1")
    interest.subscribe(channel, ">", Subscription(), 1)
    assert interest.follow(EACH_GETS, is_change=True) == [a, c], "they are told"
    assert interest.follow(EACH_GETS, is_change=True) == []
    assert interest.shared() == {}
    assert list(interest.certified()) == [channel]
    interest.subscribe(a, "acme/>", queue(), 5)
    assert list(interest.certified()) == [a, channel]
    interest.follow(RULES, is_change=True)
    interest.subscribe(a, "acme/>", queue(), 6)
    assert interest.shared() == {}, "what c gets may be a's"
    interest.subscribe(c, "acme/>", queue(), 6)
    assert list(interest.shared().values()) == [[a, c]]


FIRST, SECOND = (
    replace(TOPOLOGY, queues={**TOPOLOGY.queues, "work": Queue(name="work", policy=policy)})
    for policy in (QueuePolicy.ANY, QueuePolicy.EVERY)
)


def read_after(*topologies: tuple[int, Topology]) -> tuple[Eras, SubscriptionHistory]:
    """The second topology is in force; the source follows it from offset 5 on."""
    eras = Eras.of(SECOND)
    for number, one in topologies:
        eras.configured(number, published_text(one), 0.0)
    eras.cut(Cut(PLACE.topic, b"", 0, 5, CHANGE, 2))
    return eras, SubscriptionHistory(queues=QueueRules.of(SECOND))


@pytest.mark.parametrize("known", [[(1, FIRST), (2, SECOND)], [(2, SECOND)]])
@pytest.mark.parametrize("removed", [None, 1])
def test_who_subscribed_by_another_policy_is_promised_nothing_by_this_one(known, removed):
    """All is read after the change, and of the former topology nothing may be left. Spec: K31."""
    eras, interest = read_after(*known)
    a = work(interest, "a")
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "u", 0))
    if removed is not None:
        interest.unsubscribe(a, "acme/>", removed)
    version = interest.version
    lost = {a: (1, FIRST) in known} if removed is None else {}
    assert interest.doubt({"a": "u"}, eras.rules_between) == lost
    assert interest.version > version
    assert interest.doubt({"a": "u"}, eras.rules_between) == {}
    claims = claims_on(interest, a, "u", PLACE, SOURCE, is_local=True, carriers=lambda *_: [])
    assert [claim.span for claim in claims] == [None], "it may get anything, and must nothing"


def test_a_policy_that_was_another_for_a_while_promises_nothing():
    """By the first and the last topology the queue is the same. Spec: K29, K31."""
    eras, interest = read_after((1, SECOND), (2, FIRST), (3, SECOND))
    a = work(interest, "a")
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "u", 0))
    eras.cut(Cut(PLACE.topic, b"", 0, 7, CHANGE, 3))
    assert interest.doubt({"a": "u"}, eras.rules_between) == {a: True}
    again = EndpointKey("a", "work")
    interest.subscribe(again, "acme/>", queue(), 1)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 8, "u", 1), eras.numbers_of(PLACE)[-1])
    assert interest.doubt({"a": "u"}, eras.rules_between) == {}
    assert list(interest.certified()) == [again]


def test_who_had_left_before_a_change_was_promised_what_the_former_policy_says():
    """Who reads in time judges by that; what was lost then stays lost. Spec: K29, K31."""
    eras, _ = read_after((1, FIRST), (2, SECOND))
    interest = SubscriptionHistory(queues=QueueRules.of(FIRST))
    a = work(interest, "a")
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "u", 0))
    interest.unsubscribe(a, "acme/>", 1)
    interest.lanes.cut(Cut(PLACE.topic, b"", 0, 3, "u", 1))
    interest.follow(QueueRules.of(SECOND), is_change=True)
    assert interest.doubt({"a": "u"}, eras.rules_between) == {}
    claims = claims_on(interest, a, "u", PLACE, SOURCE, is_local=True, carriers=lambda *_: [])
    assert [claim.span for claim in claims] == [Span(0, 2)]


def test_who_subscribed_by_this_policy_is_promised_what_it_says():
    """Also before the change, where it says the same by both. Spec: K31."""
    eras, interest = read_after((1, FIRST), (2, SECOND))
    a, c = work(interest, "a"), work(interest, "c")
    every = EndpointKey("a", "other")
    interest.subscribe(every, "acme/>", queue(), 0)
    interest.subscribe(EndpointKey("a", "s1"), "acme/>", Subscription(), 0)
    for uuid in "uw":
        cut = Cut(PLACE.topic, b"", 0, 5, uuid, 0)
        interest.lanes.cut(cut, eras.numbers_of(PLACE)[-1])
    assert interest.doubt({"a": "u", "c": "w"}, eras.rules_between) == {}
    assert {a, c, every} < {*interest.certified()}
    fresh = SubscriptionHistory(queues=QueueRules.of(SECOND))
    fresh.subscribe(every, "acme/>", queue(), 0)
    fresh.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "u", 0))
    assert fresh.doubt({"a": "u"}, eras.rules_between) == {}


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ((1, 2), "the topology has another policy or home for the queue a/s"),
        ((2,), "the topology by which a/s subscribed is no longer in mesh.config, and may have"),
    ],
    ids=["both are told", "compaction has left the newest"],
)
def test_an_auditor_that_reads_all_after_a_change_tells_which_queues_it_cannot_judge(
    tmp_path: Path, known: Sequence[int], text: str
) -> None:
    """It knows of the change before it reads who had subscribed. Spec: K29."""
    bench = Bench(tmp_path)
    alone = replace(bench.auditor.topology, allows_drills=True)
    policies = (QueuePolicy.ANY, QueuePolicy.EVERY)
    texts = [
        published_text(replace(alone, queues={"s": Queue(name="s", policy=one)}))
        for one in policies
    ]
    told, asked = bench.control(bytes(16), 0), encode_subscription(queue())
    configs = [
        SmallRow(
            TopicPartition("mesh.config", 0),
            number,
            "topology",
            encode_config(number, published),
            0,
        )
        for number, published in enumerate(texts, 1)
        if number in known
    ]
    followed = Cut(INGRESS.topic, bytes(16), 0, 5, CHANGE, 2)
    ledger = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=[followed]))
    bench.take(
        replace(
            told,
            small=[*configs, replace(told.small[0], value=asked), *told.small[1:]],
            ledgers=[*told.ledgers, SmallRow(LEDGER, 1, "", ledger, 0)],
        )
    )
    assert bench.found(FindingKind.UNPROVEN) == [("a/s",)]
    (finding,) = bench.auditor.state.register.findings.values()
    assert finding.text.startswith(text)
    version = bench.auditor.state.interest.version
    bench.auditor.restore()
    bench.wait(2)
    assert bench.auditor.state.interest.version == version
    assert list(bench.auditor.state.interest.certified()) == []


def test_before_the_mesh_has_changed_subscriptions_are_judged_by_what_it_says_first():
    """The auditor was given an older file. Spec: K31."""
    interest = SubscriptionHistory(queues=RULES)
    endpoint = work(interest, "a")
    interest.follow(EACH_GETS, is_change=False)
    assert list(interest.certified()) == [endpoint]
    version = interest.version
    interest.follow(EACH_GETS, is_change=True)
    assert interest.version == version


def test_copies_of_before_a_change_are_no_duplicates_of_a_queue_that_is_shared_since():
    """Spec: K29, K30. Its certificates begin with a block that knows nothing else."""
    table = Shared()
    interest = table.world.interest
    interest.follow(EACH_GETS, is_change=True)
    table.publish(0, 1, 2, 3)
    table.give("a", 0, 1, 2, 3)
    table.give("b", 0, 1, 2)
    interest.follow(RULES, is_change=True)
    for node, uuid in (("a", "u"), ("b", "v")):
        interest.subscribe(EndpointKey(node, "work"), "acme/>", queue(), 7)
        interest.lanes.cut(Cut(PLACE.topic, b"", 0, 3, uuid, 7))
    assert list(interest.shared())
    table.pass_to(4)
    assert table.judge() == table.judge() == []
    assert not table.world.register.findings
    claims = claims_on(
        interest,
        EndpointKey("a", "work"),
        "u",
        PLACE,
        SOURCE,
        is_local=True,
        carriers=lambda *_: [],
    )
    together = EndpointKey("*", "work")
    assert not is_settled(interest, together, claims, 0)
    assert is_settled(interest, together, claims, 3)
