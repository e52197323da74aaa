"""What a worker makes of `clients`, however much of it is still there when it reads. Spec: K13."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.config.topology_file import topology_from_mapping
from mesh.core.endpoints import Form, forms_in_force
from mesh.core.interest import Members
from mesh.core.local_links import local_links
from mesh.core.queues import Nearness
from mesh.core.routing import Router
from mesh.model.control import EndpointKind, Subscription
from mesh.model.effects import EnsureEndpoint, Note
from mesh.model.frames import MessageClass
from mesh.node.learner import Learner
from mesh.node.queues import OwnQueues
from mesh.node.subscriptions import Key

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {"a": {}, "b": {}},
        "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
    }
)
QUEUE, CHANNEL = EndpointKind.QUEUE, EndpointKind.CHANNEL
GUARANTEED, DIRECT = MessageClass.GUARANTEED, MessageClass.DIRECT

Said = tuple[Key, Subscription | None]

KEYS = [*product(("e", "f"), ("a/>", "b/*", "c"))]
FORMS = [
    Subscription(kind, message_class, policy)
    for kind, policies in ((CHANNEL, [None]), (QUEUE, [None, "any", "local"]))
    for message_class in (GUARANTEED, DIRECT)
    for policy in policies
]
records = st.tuples(st.sampled_from(KEYS), st.sampled_from([*FORMS, None]))


def at_a() -> Learner:
    """Return what a worker of a begins with."""
    links = local_links(TOPOLOGY, "a")
    router = Router(links, near=Nearness(TOPOLOGY, "a"))
    return Learner("a", "uuid", links, router, queues=OwnQueues.at("a", TOPOLOGY))


def read(worker: Learner, said: Sequence[Said]) -> Sequence[EnsureEndpoint | Note]:
    """Have a worker read records; return what it says of that."""
    first = worker.clients.offset + 1
    return [
        effect
        for offset, ((endpoint, filter_), one) in enumerate(said, first)
        for effect in worker.clients.subscription_read(offset, endpoint, filter_, one, 0)
    ]


def routed(worker: Learner) -> Mapping[str, Members]:
    """Bring into force what was read; return what the endpoints of the node get."""
    worker.begin_round()
    own = {
        filter_: tuple(pair for pair in members if pair[0].is_endpoint)
        for filter_, members in worker.router.table.entries.items()
    }
    return {filter_: members for filter_, members in own.items() if members}


def left_by_compaction(said: Sequence[Said]) -> Sequence[tuple[Key, Subscription]]:
    """Return the newest record of each key, in order; tombstones go too."""
    newest = {key: offset for offset, (key, _) in enumerate(said)}
    return [
        (key, one)
        for offset, (key, one) in enumerate(said)
        if newest[key] == offset and one is not None
    ]


@given(st.lists(records, max_size=25), st.data())
def test_what_is_in_force_hangs_on_what_stands_there_alone(
    said: Sequence[Said], data: st.DataObject
) -> None:
    """Who read all of it, who reads what is left, and in any order, route alike."""
    one, other, third = at_a(), at_a(), at_a()
    at = data.draw(st.integers(0, len(said)))
    read(one, said[:at])
    routed(one)
    read(one, said[at:])
    left = left_by_compaction(said)
    read(other, left)
    read(third, data.draw(st.permutations(left)))
    for worker in (one, other, third):
        worker.clients.forget_left(list(worker.clients.queues.left))
    assert routed(one) == routed(other) == routed(third)
    wanted = [worker.clients.wanted for worker in (one, other, third)]
    assert wanted[0].asked == wanted[1].asked == wanted[2].asked
    assert wanted[0].endpoints == wanted[1].endpoints == wanted[2].endpoints
    assert wanted[0]._shapes == wanted[1]._shapes == wanted[2]._shapes
    assert +wanted[0]._in_force == +wanted[1]._in_force


def test_what_was_a_channel_for_a_moment_is_routed_as_a_queue_again() -> None:
    """Between two rounds a subscription leaves its queue and comes back: its interest stays."""
    worker = at_a()
    queue, channel = Subscription(QUEUE, GUARANTEED), Subscription(CHANNEL, DIRECT)
    read(worker, [(("e", "a/>"), queue)])
    before = routed(worker)
    read(worker, [(("e", "a/>"), channel), (("e", "b/*"), queue), (("e", "a/>"), queue)])
    assert routed(worker) == before | {"b/*": before["a/>"]}


@pytest.mark.parametrize("kind", [CHANNEL, QUEUE])
def test_what_promises_most_prevails_and_the_others_wait(kind: EndpointKind) -> None:
    """An endpoint has one kind and one class, and nobody takes away what it was promised."""
    worker = at_a()
    direct = Subscription(kind, DIRECT)
    read(worker, [(("e", "a/>"), direct), (("e", "b/*"), direct)])
    assert set(routed(worker)) == {"a/>", "b/*"}
    worker.clients.endpoint_made("e")
    said = read(worker, [(("e", "c"), Subscription())])
    note, made = said
    assert isinstance(note, Note)
    assert (note.event, note.fields["endpoint"]) == ("subscription.refused", "e")
    told = (
        "it is a guaranteed channel: its subscription to a/> and 1 more, of another kind or class"
    )
    assert str(note.fields["text"]).startswith(told)
    assert made == EnsureEndpoint("e", GUARANTEED)
    assert "e" in worker.clients.making, "its topic is to be ready before"
    assert set(routed(worker)) == {"c"}
    assert worker.classes == {"e": GUARANTEED}
    assert read(worker, [(("e", "c"), None)])[-1] == EnsureEndpoint("e", DIRECT)
    assert set(routed(worker)) == {"a/>", "b/*"}
    assert worker.clients.wanted.endpoints == {"e": Form(DIRECT, kind)}


def test_what_is_on_its_way_to_a_queue_that_becomes_a_channel_still_arrives() -> None:
    """One member of a queue gets each message: no other one has it."""
    worker, address = at_a(), "$queue/e/a"
    read(worker, [(("e", "a/>"), Subscription(QUEUE, policy="any"))])
    assert set(routed(worker)) == {address, "$queue/e/a/any/a/>"}
    read(worker, [(("e", "c"), Subscription())])
    assert set(routed(worker)) == {address, "c"}
    read(worker, [(("e", "c"), None), (("e", "a/>"), None)])
    assert set(routed(worker)) == {address}
    read(worker, [(("e", "c"), Subscription())])
    assert set(routed(worker)) == {"c"}


@pytest.mark.parametrize(
    ("asked", "keeps"),
    [
        ([], False),
        ([Subscription()], True),
        ([Subscription(QUEUE)], True),
        ([Subscription(QUEUE, policy="local")], True),
        ([Subscription(QUEUE, policy="home")], False),
        ([Subscription(QUEUE, policy="any"), Subscription(QUEUE, policy="every")], True),
        ([Subscription(QUEUE, policy="any", noexport=True)], False),
    ],
)
def test_what_a_member_of_a_shared_queue_has_may_go_to_another_even_if_it_is_refused(
    asked: Sequence[Subscription], keeps: bool
) -> None:
    worker = at_a()
    read(worker, [(("e", f"a/{number}"), one) for number, one in enumerate(asked)])
    routed(worker)
    assert worker.clients.keeps_its_own("e") is keeps


def test_a_channel_keeps_the_address_of_the_queue_that_it_was_for_a_time() -> None:
    worker = at_a()
    queue = Subscription(QUEUE, policy="any")
    read(worker, [(("e", "a/>"), queue), (("e", "c"), Subscription()), (("e", "a/>"), None)])
    assert set(routed(worker)) == {"$queue/e/a", "c"}
    worker.clients.forget_left(["e"])
    assert set(routed(worker)) == {"c"}
    read(worker, [(("e", "c"), None)])
    assert not routed(worker)
    assert "e" not in worker.clients.wanted.endpoints


def test_what_is_refused_counts_towards_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes to `clients` without end takes no more memory by being refused."""
    monkeypatch.setattr("mesh.node.subscriptions.ENDPOINT_MAX", 3)
    worker = at_a()
    direct = Subscription(message_class=DIRECT)
    read(worker, [(("e", "x"), Subscription())])
    said = read(worker, [(("e", f"y/{number}"), direct) for number in range(10)])
    assert sum(isinstance(one, Note) for one in said) == 10
    assert len(worker.clients.wanted.said["e"]) == 3


def test_what_was_refused_ends_too_where_it_is_not_there_any_more() -> None:
    """`clients` was recreated, say: the node reads it again from its beginning."""
    worker = at_a()
    direct = Subscription(message_class=DIRECT)
    read(worker, [(("e", "x"), Subscription()), (("e", "y"), direct), (("e", "z"), direct)])
    worker.clients.begin_again()
    read(worker, [(("e", "z"), replace(direct, lease_s=9))])
    assert list(worker.clients.read_to_end(0)) == [EnsureEndpoint("e", DIRECT)]
    assert list(routed(worker)) == ["z"]
    assert list(worker.clients.wanted.keys()) == [("e", "z")]


@given(st.lists(records, max_size=25))
def test_who_only_looks_says_the_same_of_endpoints(said: Sequence[Said]) -> None:
    """Commands and clients know subscriptions by their records, not by what a worker made of it."""
    worker = at_a()
    read(worker, said)
    worker.clients.forget_left(list(worker.clients.queues.left))
    assert forms_in_force(dict(left_by_compaction(said))) == worker.clients.wanted.endpoints
