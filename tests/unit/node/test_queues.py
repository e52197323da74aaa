"""The queues of a node: what they want, which subscriptions are refused, what is offered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.endpoints import QueueRules
from mesh.core.interest import InterestTable, Member
from mesh.model.control import EndpointKind, Interest, Subscription
from mesh.model.frames import MessageClass
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.queues import Attraction, MemberKind, Queue, QueuePolicy
from mesh.model.words import EndpointWord
from mesh.node.converged_interest import converged_interest
from mesh.node.explanation import explain
from mesh.node.queues import LEFT_MAX_MS, LEFT_MS, Leaving, OwnQueues, is_offered
from mesh.node.subscriptions import OwnSubscriptions

HERE = Member("", "q")
THERE = Member("Z", "b")


def queue(policy: str | None = None, of: MessageClass = MessageClass.GUARANTEED) -> Subscription:
    return Subscription(EndpointKind.QUEUE, of, policy)


def subscribed(**wanted: Subscription) -> OwnSubscriptions:
    """Return what a node knows that has these subscriptions of q, by filter."""
    found = OwnSubscriptions()
    for filter_, one in wanted.items():
        found.put(("q", filter_), one, now=0)
    return found


def settled(own: OwnQueues, table: InterestTable, **wanted: Subscription) -> list[str]:
    """Settle what is subscribed, as endpoint q by filter; return the entries of the node."""
    for (filter_, member), interest in list(own.settle(subscribed(**wanted), table, ())):
        table.put(filter_, member, interest)
    return sorted(
        filter_ for filter_, found in table.entries.items() if any(m == HERE for m, _ in found)
    )


@pytest.mark.parametrize(
    ("policy", "entries"),
    [
        (None, ["x"]),
        ("every", ["x"]),
        ("local", ["$queue/q/a/local/x"]),
        ("home", ["$queue/q/a", "$queue/q/a/home/x"]),
        ("any", ["$queue/q/a", "$queue/q/a/any/x"]),
    ],
)
def test_what_each_policy_wants(policy: str | None, entries: list[str]) -> None:
    """Spec: K13, DESIGN 6."""
    own, table = OwnQueues("a"), InterestTable()
    assert settled(own, table, x=queue(policy)) == entries
    assert settled(own, table) == []
    assert not own.refused


def test_an_address_is_wanted_as_long_as_any_filter_is() -> None:
    own, table = OwnQueues("a"), InterestTable()
    settled(own, table, x=queue("any"), y=queue("any"))
    assert settled(own, table, y=queue("any")) == ["$queue/q/a", "$queue/q/a/any/y"]


def test_filters_of_too_many_shapes_attract_nothing_and_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They count again once others are taken out. Spec: DESIGN 3."""
    monkeypatch.setattr("mesh.node.subscriptions.QUEUE_SHAPES_MAX", 1)
    own, table = OwnQueues("a"), InterestTable()
    wanted = {"x/*": queue("any"), "x": queue("any"), "x/y/*": queue("any")}
    assert settled(own, table, **wanted) == [
        "$queue/q/a",
        "$queue/q/a/any/x",
        "$queue/q/a/any/x/*",
    ]
    (status,) = own.statuses()
    assert (status.endpoint, status.state) == ("q", EndpointWord.REFUSED)
    assert "x/y/* of queue q attracts nothing" in status.reason
    del wanted["x/*"]
    assert "$queue/q/a/any/x/y/*" in settled(own, table, **wanted)
    assert not own.refused


def test_a_direct_queue_is_not_waited_for() -> None:
    own, table = OwnQueues("a"), InterestTable()
    settled(own, table, x=queue("any", MessageClass.DIRECT))
    assert [interest.durable for _, interest in table.members("$queue/q/a")] == [False]


def test_the_declared_policy_is_good_and_must_not_be_contradicted() -> None:
    """Spec: K13."""
    declared = {"Q": Queue(name="Q", policy=QueuePolicy.HOME, home="b")}
    own, table = OwnQueues("a", QueueRules(declared)), InterestTable()
    assert settled(own, table, x=queue()) == ["$queue/q/a", "$queue/q/a/proxy/x"]
    assert settled(own, table, x=queue("any")) == []
    (status,) = own.statuses()
    assert (status.endpoint, status.state) == ("q", EndpointWord.REFUSED)
    assert status.reason.startswith("queue Q is declared with policy home, not any; subscribe with")
    own.rules = QueueRules()
    assert settled(own, table, x=queue("any")) == ["$queue/q/a", "$queue/q/a/any/x"]
    assert not own.refused


def test_what_is_refused_is_told_no_more_once_it_has_ended() -> None:
    """Though the node has no queue any more: a channel may have its name then. Spec: K13."""
    declared = {"Q": Queue(name="Q", policy=QueuePolicy.LOCAL)}
    own, table = OwnQueues("a", QueueRules(declared)), InterestTable()
    assert settled(own, table, x=queue("any")) == []
    assert [one.endpoint for one in own.statuses()] == ["q"]
    assert settled(own, table) == []
    assert not own.statuses()


@pytest.mark.parametrize("order", ["xyz", "zyx", "yzx"])
def test_an_endpoint_has_one_policy_whichever_came_first(order: str) -> None:
    """What is given to most prevails. Spec: K13."""
    said = {"x": queue("any"), "y": queue("local"), "z": queue("home")}
    own, table = OwnQueues("a"), InterestTable()
    entries = settled(own, table, **{filter_: said[filter_] for filter_ in order})
    assert entries == ["$queue/q/a", "$queue/q/a/local/y"]
    assert own.refused["q", "x"] == "endpoint q is a queue with policy local, not any"
    assert own.refused["q", "z"] == "endpoint q is a queue with policy local, not home"


def test_a_queue_keeps_its_address_when_another_policy_prevails() -> None:
    """What is on its way to one of several members still arrives, and is none of `queue_left`."""
    own, table = OwnQueues(node="a"), InterestTable()
    assert settled(own, table, x=queue("any")) == ["$queue/q/a", "$queue/q/a/any/x"]
    assert settled(own, table, x=queue("any"), y=queue("every")) == ["$queue/q/a", "y"]
    assert settled(own, table, y=queue("every")) == ["y"]


def test_who_hides_from_others_decides_no_policy() -> None:
    own, hidden = OwnQueues(node="a"), replace(queue("home"), noexport=True)
    entries = settled(own, InterestTable(), x=hidden, y=queue("any"))
    assert entries == ["$queue/q/a", "$queue/q/a/any/y"]
    assert list(own.refused) == [("q", "x")]


def test_a_second_undeclared_home_is_refused_until_the_first_is_gone() -> None:
    """Spec: EMS-12."""
    own, table = OwnQueues("a"), InterestTable()
    other = str(Attraction("Q", "b", MemberKind.HOME, "y"))
    table.put(other, THERE, Interest())
    assert settled(own, table, x=queue("home")) == []
    assert "queue q has its home at b already, and none is declared" in own.refused["q", "x"]
    table.put(other, THERE, None)
    assert settled(own, table, x=queue("home")) == ["$queue/q/a", "$queue/q/a/home/x"]


@pytest.mark.parametrize(("other", "stays"), [("b", True), ("A", False)])
def test_of_two_homes_at_once_the_lesser_name_stays(other: str, stays: bool) -> None:
    own, table = OwnQueues("a"), InterestTable()
    settled(own, table, x=queue("home"))
    table.put(str(Attraction("q", other, MemberKind.HOME, "x")), THERE, Interest())
    assert bool(settled(own, table, x=queue("home"))) is stays


def test_a_queue_that_becomes_a_channel_loses_nothing() -> None:
    own, table = OwnQueues("a"), InterestTable()
    settled(own, table, x=queue())
    of_channel = {("x", Member("", "q")): Interest()}
    assert list(own.settle(subscribed(x=Subscription()), table, of_channel)) == []


@pytest.mark.parametrize(
    ("entry", "own_goes", "learned_goes"),
    [
        ("x", True, True),
        ("$queue/q/a", True, True),
        ("$queue/q/a/any/x", True, True),
        ("$queue/q/a/home/x", True, False),
        ("$queue/q/a/proxy/x", True, False),
        ("$queue/q/a/local/x", False, False),
    ],
)
def test_what_is_offered_of_queues(entry: str, own_goes: bool, learned_goes: bool) -> None:
    """A home is known one link away and no further; what is local nowhere. Spec: EMS-12, UM-7."""
    assert is_offered(entry, HERE) is own_goes
    assert is_offered(entry, THERE) is learned_goes


def test_names_of_nodes_survive_in_a_topology() -> None:
    topology = topology_from_mapping(
        {"kafka": {"k": {}}, "nodes": {"a": {}}, "queues": {"q": {"policy": "any"}}}
    )
    assert OwnQueues.at("a", topology).policy_of("Q", queue()) is QueuePolicy.ANY


CHAIN = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {name: {} for name in "abcd"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["c", "d"]]}},
        "queues": {"h": {"policy": "home", "home": "c"}},
    }
)


@pytest.mark.parametrize(
    ("source", "choices", "way"),
    [
        ("b", ["queue q: a, 1 link away as c, and first by name", "queue h: c, its home"], "abc"),
        ("d", ["queue q: c, the nearest, 1 link away; a is 3", "queue h: c, its home"], "cd"),
        (
            "a",
            [
                "queue h: nobody, since its home is not linked to a",
                "queue q: a, the nearest, 0 links away; c is 2",
            ],
            "a",
        ),
    ],
)
def test_an_explanation_names_the_member_and_why(source: str, choices: list[str], way: str) -> None:
    """Spec: DESIGN 6. And the way of each copy is shown, under whatever subject it goes."""
    wanted = {
        "a": {("q", "x/>"): queue("any"), ("h", "x/>"): queue()},
        "c": {("q", "x/>"): queue("any"), ("h", "x/>"): queue()},
    }
    found = explain(
        CHAIN, converged_interest(CHAIN, wanted), "x/1", source, MessageClass.GUARANTEED
    )
    assert sorted(found.queues) == sorted(choices)
    assert "".join(sorted(one.node for one in found.reached)) == way
    assert not any(one.wants for one in found.not_reached)


def test_an_explanation_names_no_member_behind_a_node_that_keeps_the_subject_local() -> None:
    """Spec: DESIGN 6, EMS-11. The next one gets it, or it says why nobody does."""
    wanted = {node: {("q", "x/>"): queue("any")} for node in "ad"}
    kept = (InterestControl("c", ControlKind.LOCAL, "x/>"),)
    topology = replace(CHAIN, interest=kept)
    known = converged_interest(topology, wanted)
    found = explain(topology, known, "x/1", "c", MessageClass.GUARANTEED)
    assert found.queues == [
        "queue q: nobody, since x/1 is kept local on the way to d, a",
    ]
    found = explain(topology, known, "x/1", "b", MessageClass.GUARANTEED)
    assert found.queues == ["queue q: a, its only member, 1 link away"]


def test_a_queue_that_was_left_keeps_its_address_until_nothing_can_be_on_its_way() -> None:
    """An hour from when all know of it; a node that is down for long delays it, not for ever."""
    own = OwnQueues(node="a")
    own.left["q"] = Leaving(queue("any"), offset=7, left_ms=1_000)
    assert settled(own, table := InterestTable()) == ["$queue/q/a"]
    for complete, now, gone in (
        (7, LEFT_MS, []),
        (7, LEFT_MS + 1_000, ["q"]),
        (6, LEFT_MS + 1_000, []),
        (-1, LEFT_MAX_MS + 1_000, ["q"]),
    ):
        assert own.left_long_ago(complete, now) == gone
    del own.left["q"]
    assert settled(own, table) == []
