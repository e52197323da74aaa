"""What a node offers because of its joins: static interest in zones, addresses back. Spec: UM-1."""

from __future__ import annotations

from collections.abc import Mapping

from mesh.config.topology_file import topology_from_mapping
from mesh.core.digest import entry_digest
from mesh.model.control import Acknowledgement, Interest, Mark, Ownership, Scope, Subscription
from mesh.model.effects import Effect, WriteAck, WriteAdvert, WriteMark
from mesh.model.inputs import (
    AckRead,
    AdvertRead,
    ClientsCaughtUp,
    LaneApplied,
    LeadershipTaken,
    MarkRead,
    NeighbourCaughtUp,
    SubscriptionRead,
    Ticked,
)
from mesh.model.joins import JoinRow
from mesh.node.machine import NodeMachine

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {"b": {}, "d": {}, "e": {}, "x": {}},
        "zones": {
            "Z": {"kind": "one-hop", "nodes": ["d", "e"]},
            "DB": {"kind": "join", "from": "d", "to": "b", "filter": "acme/>", "hops": 2},
            "XD": {"kind": "join", "from": "x", "to": "d"},
        },
    }
)
IN_ZONE = Scope("Z", "", Ownership.OWN)
BACK, FURTHER_BACK = (
    Scope("XD", "x", Ownership.OWN, row) for row in (JoinRow(1, 10), JoinRow(2, 2))
)
FROM_B = Scope("DB", "d", Ownership.OWN, JoinRow(1, 2))


def started(*inputs: object) -> tuple[NodeMachine, list[Effect]]:
    """The machine of d, leading, with all read and lane 0 in force; and what it does."""
    machine = NodeMachine(TOPOLOGY, "d", "uuid-d")
    effects: list[Effect] = []
    for input_ in (
        Ticked(0),
        LeadershipTaken(3, {}),
        *inputs,
        ClientsCaughtUp(),
        *(NeighbourCaughtUp(other) for other in "bex"),
    ):
        effects += machine.step(input_)
    effects += machine.step(LaneApplied(0, machine.in_force))
    return machine, effects


def offers(effects: list[Effect]) -> Mapping[tuple[Scope, str], Interest | None]:
    return {
        (one.scope, one.filter_): one.interest for one in effects if isinstance(one, WriteAdvert)
    }


def test_a_join_wants_what_it_selects_although_no_client_is_there() -> None:
    """In zones alone, not over joins. Spec: UM-1, UM-2."""
    _, effects = started()
    found = offers(effects)
    assert found[IN_ZONE, "acme/>"] == Interest(durable=True, live=True, static=True)
    assert [scope for scope, filter_ in found if filter_ == "acme/>"] == [IN_ZONE]


def test_subscriptions_stay_behind_a_join_and_addresses_pass() -> None:
    """The own address goes back by a row of one. Spec: UM-5, K26."""
    _, effects = started(SubscriptionRead(0, "here", "news", Subscription()))
    found = offers(effects)
    assert (IN_ZONE, "news") in found
    assert [filter_ for scope, filter_ in found if scope == BACK] == ["$node/uuid-d"]


def test_an_address_that_came_back_over_a_join_goes_on() -> None:
    """Into the zone, and over the next join by a row of two. Spec: K22, K25, K26, UM-10."""
    _, effects = started(*_proven("$node/uuid-b"))
    found = offers(effects)
    assert {scope for scope, filter_ in found if filter_ == "$node/uuid-b"} == {
        IN_ZONE,
        FURTHER_BACK,
    }


def _proven(filter_: str) -> list[object]:
    mark = Mark(1, 1, 1, entry_digest(filter_, Interest()))
    return [AdvertRead("b", FROM_B, filter_, Interest()), MarkRead("b", FROM_B, mark)]


def test_a_scope_that_came_over_a_join_is_complete_when_those_before_it_know() -> None:
    """So a subscription behind a join is known where messages come from. Spec: K24, K25."""
    machine, effects = started(*_proven("$node/uuid-b"))
    numbers = {one.scope: one.mark.number for one in effects if isinstance(one, WriteMark)}
    acks = [one for one in effects if isinstance(one, WriteAck) and one.neighbour == "b"]
    assert (acks[-1].ack.complete, acks[-1].ack.open_links) == (-1, (("d", "e"), ("d", "x")))
    found: list[Effect] = []
    for neighbour, scope in (("e", IN_ZONE), ("x", FURTHER_BACK)):
        ack = Acknowledgement(3, numbers[scope], numbers[scope])
        found += machine.step(AckRead(neighbour, scope, ack))
    done = [one for one in found if isinstance(one, WriteAck) and one.neighbour == "b"]
    assert done[-1].ack.complete == 1
