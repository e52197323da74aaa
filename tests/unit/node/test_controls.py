"""A node follows its controls of interest, and those of its neighbours, in place."""

from __future__ import annotations

from dataclasses import replace

from mesh.core.digest import entry_digest
from mesh.core.routes import PUBLISHED_HERE
from mesh.model.control import Interest, Mark, Scope, Stage, Subscription
from mesh.model.effects import Relinked, WriteAdvert, WriteMark
from mesh.model.frames import MessageClass
from mesh.model.inputs import AckRead, AdvertRead, ChangeRead, MarkRead, SubscriptionRead
from mesh.model.interest_controls import ControlKind, InterestControl
from mesh.model.topology import Topology
from mesh.node.machine import NodeMachine
from tests.unit.node.led import FROM, TO_B, TO_C, WITH_BOTH, Led, applied


def controlled(*controls: tuple[str, ControlKind, str]) -> Topology:
    return replace(WITH_BOTH, interest=tuple(sorted(InterestControl(*one) for one in controls)))


STATIC, LOCAL = ControlKind.STATIC, ControlKind.LOCAL
G = MessageClass.GUARANTEED


def adverts(effects: list[object]) -> dict[tuple[Scope, str], Interest | None]:
    return {
        (e.scope, e.filter_): e.interest
        for e in effects
        if isinstance(e, WriteAdvert) and e.filter_[0] != "$"
    }


def change(led: Led, number: int, topology: Topology) -> list[object]:
    return [*led.feed(ChangeRead(number, Stage.SWITCH, topology)), *led.pass_time()]


def test_static_interest_is_offered_from_the_start_and_says_so() -> None:
    """Both classes are wanted. Spec: UM-1, K22."""
    led = Led(controlled(("a", STATIC, "x"), ("b", STATIC, "y")))
    machine = led.machine
    scopes = (TO_B, TO_C)
    offered = [machine.leader.entry(machine.learner, scope, "x") for scope in scopes]
    assert offered == [Interest(durable=True, live=True, static=True)] * 2
    assert machine.leader.entry(machine.learner, TO_B, "y") is None
    assert machine.router.route("x", PUBLISHED_HERE, G).endpoints == ()


def test_static_interest_comes_and_goes_without_a_new_leader() -> None:
    """A client's interest for the same filter stays. Spec: UM-1, K28."""
    led = Led(WITH_BOTH)
    led.feed(SubscriptionRead(0, "s", "y", Subscription()))
    led.pass_time()
    effects = change(led, 8, controlled(("a", STATIC, "x"), ("a", STATIC, "y")))
    static = Interest(static=True)
    assert adverts(effects) == {(to, name): static for to in (TO_B, TO_C) for name in "xy"}
    assert [e for e in effects if isinstance(e, Relinked)] == [
        Relinked(led.machine.topology, (), ())
    ]
    assert {e.scope for e in effects if isinstance(e, WriteMark)} == {TO_B, TO_C}
    effects = change(led, 9, WITH_BOTH)
    assert adverts(effects) == {
        **{(to, "x"): None for to in (TO_B, TO_C)},
        **{(to, "y"): Interest() for to in (TO_B, TO_C)},
    }


def test_what_becomes_global_is_offered_and_forwarded_at_once() -> None:
    """What neighbours proved of the link before stays proven. Spec: EMS-11, K28."""
    led = Led(controlled(("a", LOCAL, "x/>")))
    proven = Mark(7, 1, 1, entry_digest("x/*", Interest()))
    led.feed(AdvertRead("b", FROM, "x/*", Interest()), MarkRead("b", FROM, proven))
    led.feed(SubscriptionRead(0, "s", "x/1", Subscription()))
    assert adverts(led.pass_time()) == {}
    route = led.machine.router.route("x/1", PUBLISHED_HERE, G)
    assert (route.neighbours, route.endpoints) == ((), ("s",))
    effects = change(led, 8, WITH_BOTH)
    assert adverts(effects) == {
        (TO_C, "x/*"): Interest(),
        (TO_B, "x/1"): Interest(),
        (TO_C, "x/1"): Interest(),
    }
    assert led.machine.router.route("x/1", PUBLISHED_HERE, G).neighbours == ("b",)
    assert all(led.machine.learner.neighbours[name].is_proven for name in "bc")


def test_what_becomes_local_at_a_neighbour_is_kept_from_it_alone() -> None:
    """Spec: EMS-11."""
    led = Led(WITH_BOTH)
    proven = Mark(7, 1, 1, entry_digest("x", Interest()))
    for name in "bc":
        led.feed(AdvertRead(name, FROM, "x", Interest()), MarkRead(name, FROM, proven))
    led.pass_time()
    assert led.machine.router.route("x", PUBLISHED_HERE, G).neighbours == ("b", "c")
    assert adverts(change(led, 8, controlled(("b", LOCAL, "x")))) == {}
    assert led.machine.router.route("x", PUBLISHED_HERE, G).neighbours == ("c",)


def test_a_change_of_controls_awaits_no_link() -> None:
    """Spec: K28."""
    led = Led(WITH_BOTH)
    change(led, 8, controlled(("a", LOCAL, "x")))
    assert led.status() == (8, "switch", True)


def test_interest_is_exported_and_taken_back_by_the_same_record_written_anew() -> None:
    """And it is known everywhere like any other, offered or not. Spec: DMR-12, K24."""
    led = Led(WITH_BOTH)
    quiet, loud = Subscription(noexport=True), Subscription()
    for offset, interest, offers in (
        (0, quiet, {}),
        (1, loud, {(TO_B, "y"): Interest(), (TO_C, "y"): Interest()}),
        (2, quiet, {(TO_B, "y"): None, (TO_C, "y"): None}),
        (3, None, {}),
    ):
        led.feed(SubscriptionRead(offset, "s", "y", interest))
        assert adverts(led.pass_time()) == offers
        endpoints = led.machine.router.route("y", PUBLISHED_HERE, G).endpoints
        assert endpoints == (("s",) if interest else ())
        for name, scope in (("b", TO_B), ("c", TO_C)):
            led.feed(AckRead(name, scope, applied(led.machine, scope)))
        assert led.machine.leader.completion.state("clients").complete == offset


def test_a_node_of_which_no_client_wants_anything_offers_its_address_alone() -> None:
    """Whatever its neighbours in a zone want. Spec: UM-1."""
    machine: NodeMachine = Led(WITH_BOTH).machine
    assert list(machine.router.table.entries) == ["$node/uuid-a"]
