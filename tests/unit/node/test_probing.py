"""When a node opens and shuts its links, and what it says of them."""

from __future__ import annotations

from dataclasses import replace

from mesh.config.topology_file import topology_from_mapping
from mesh.core.digest import entry_digest
from mesh.core.held_links import facts_digest
from mesh.core.lineage import topology_digest
from mesh.core.routes import PUBLISHED_HERE
from mesh.model.control import Interest, Mark, Ownership, Scope
from mesh.model.effects import Reroute, WriteAck, WriteLinks, WriteMark
from mesh.model.frames import MessageClass
from mesh.model.inputs import (
    AdvertRead,
    ClientsCaughtUp,
    IdentityRead,
    LaneApplied,
    LeadershipTaken,
    LinksRead,
    MarkRead,
    NeighbourCaughtUp,
    Ticked,
)
from mesh.model.links import Gate, HeldLink, NodeLinks
from mesh.model.reasons import Reason
from mesh.node.machine import NodeMachine

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {"a": {}, "b": {}, "c": {}},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}},
    }
)
DIGEST = topology_digest(TOPOLOGY)
OF_B = Scope("Z", "a", Ownership.OWN)


class Driven:
    """The machine of a; its one lane commits whatever is asked for."""

    def __init__(self, number: int = 0) -> None:
        self.machine = NodeMachine(TOPOLOGY, "a", "ua", cluster_id="k1", number=number)
        self.effects: list[object] = []
        self.now_ms = 0

    def feed(self, *inputs: object) -> list[object]:
        found: list[object] = []
        todo = list(inputs)
        while todo:
            effects = self.machine.step(todo.pop(0))
            found += effects
            todo += [LaneApplied(0, e.in_force) for e in effects if isinstance(e, Reroute)]
        self.effects += found
        return found

    def start(self, *links: NodeLinks) -> list[object]:
        caught_up = (NeighbourCaughtUp("b"), NeighbourCaughtUp("c"))
        return self.feed(
            Ticked(0), LeadershipTaken(1, {}, (), links), ClientsCaughtUp(), *caught_up
        )

    def tick(self, count: int = 5) -> list[object]:
        found = []
        for _ in range(count):
            self.now_ms += 100
            found += self.feed(Ticked(self.now_ms))
        return found

    @property
    def own(self) -> NodeLinks:
        return [e for e in self.effects if isinstance(e, WriteLinks) and e.record.uuid == "ua"][
            -1
        ].record

    def gate(self, name: str) -> Gate:
        gate = self.machine.learner.neighbours[name].gate
        return Gate.OPEN if gate is None else gate.state


def b(digest: str = DIGEST, **more: object) -> NodeLinks:
    links = (HeldLink("a", "Z", "multi-hop", 0, "ua"),)
    record = NodeLinks(node="b", uuid="ub", cluster_id="k1", digest=digest, number=1, sequence=1)
    return replace(record, **{"links": links, **more})


def c(**more: object) -> NodeLinks:
    return replace(b(), node="c", uuid="uc", **more)


def driven_before(**more: object) -> NodeLinks:
    record = NodeLinks(node="a", uuid="ua", cluster_id="k1", digest="", number=1, sequence=1)
    return replace(record, **more)


HEARD = IdentityRead("b", "ub", "k1", "k1")
PROVEN = Mark(1, 1, 1, entry_digest("x", Interest()))
WANTED = (AdvertRead("b", OF_B, "x", Interest()), MarkRead("b", OF_B, PROVEN))


def test_its_links_are_told_before_anything_is_offered() -> None:
    """So who reads the offers knows whose they are. Spec: K27."""
    effects = Driven().start()
    kinds = [type(effect) for effect in effects]
    assert kinds.index(WriteLinks) < kinds.index(WriteMark)


def test_a_neighbour_of_the_same_links_is_open_at_once() -> None:
    """Spec: K27."""
    driven = Driven()
    driven.start()
    driven.feed(HEARD, LinksRead(b()))
    assert driven.gate("b") is Gate.OPEN
    assert driven.machine.probing.records["ua"].seen == ""
    driven.tick()
    assert {e.record.uuid for e in driven.effects if isinstance(e, WriteLinks)} == {"ua"}


def test_a_neighbour_configured_apart_is_probed_until_all_have_seen_it() -> None:
    """Meanwhile nothing goes there, nothing is wanted there, and it is not waited for. K27, K24."""
    driven = Driven()
    driven.start()
    driven.feed(HEARD, LinksRead(b("other")), *WANTED)
    driven.tick()
    assert driven.gate("b") is Gate.PROBING
    router = driven.machine.router
    route = router.route("x", PUBLISHED_HERE, MessageClass.GUARANTEED)
    assert dict(route.refused)["b"] is Reason.NOT_RESYNCED
    assert "b" in router.unread()
    assert not router.table.members("x")
    assert not any(isinstance(e, WriteAck) and e.neighbour == "b" for e in driven.effects)
    near = facts_digest({"ua": driven.own, "ub": b("other")}, ["ua", "ub"])
    assert driven.own.seen == near
    driven.feed(LinksRead(b("other", sequence=2, seen=near)))
    driven.tick()
    assert driven.gate("b") is Gate.OPEN
    assert router.route("x", PUBLISHED_HERE, MessageClass.GUARANTEED).neighbours == ("b",)
    assert any(isinstance(e, WriteAck) and e.neighbour == "b" for e in driven.effects)
    assert any(isinstance(e, WriteLinks) and e.record.uuid == "ub" for e in driven.effects)


def test_what_was_open_is_open_again_at_the_start() -> None:
    """Also if somebody has not seen the newest facts by then. Spec: K16, K27."""
    driven = Driven()
    driven.start()
    driven.feed(HEARD, LinksRead(b("other")))
    driven.tick()
    near = facts_digest({"ua": driven.own, "ub": b("other")}, ["ua", "ub"])
    driven.feed(LinksRead(b("other", sequence=2, seen=near)))
    driven.tick()
    again = Driven()
    again.start(driven.own, b("other", sequence=2, seen="something else"))
    assert again.gate("b") is Gate.OPEN
    assert again.machine.probing.records["ua"].number == driven.own.number


def test_that_a_link_has_opened_is_told_at_once() -> None:
    """The next leader goes by what was published: it would refuse what is wanted. Spec: K27."""
    driven = Driven()
    driven.start()
    driven.feed(HEARD, LinksRead(b("other", links=())))
    driven.tick()
    assert (driven.gate("b"), driven.own.gates[0].state) == (Gate.REFUSED, Gate.REFUSED)
    driven.feed(LinksRead(b(sequence=2)))
    driven.tick(1)
    assert driven.gate("b") is Gate.OPEN
    assert {gate.neighbour: gate.state for gate in driven.own.gates}.get("b") is not Gate.REFUSED


def test_an_own_control_topic_that_lost_its_end_is_outdone() -> None:
    """A neighbour has handed on what was said before: others believe the later. Spec: K27."""
    driven = Driven()
    driven.start()
    lost = replace(driven.own, sequence=40, number=7)
    driven.feed(HEARD, LinksRead(lost))
    driven.tick(12)
    assert driven.own.sequence > 40
    assert driven.own.number > 7 or driven.own.facts == lost.facts


def test_who_is_not_who_it_is_taken_for_is_refused() -> None:
    """Spec: EMS-16."""
    for read, fault in (
        (IdentityRead("b", "ub", "k9", "k1"), "the control topic of b is a copy"),
        (IdentityRead("b", "ua", "k1", "k1"), "b is a itself"),
        (IdentityRead("c", "ub", "k1", "k1"), "c and b are one node"),
    ):
        driven = Driven()
        driven.start()
        driven.feed(HEARD, LinksRead(b()), read)
        driven.tick()
        gate = driven.machine.learner.neighbours[read.neighbour].gate
        assert gate is not None
        assert gate.state is Gate.REFUSED
        assert gate.reason.startswith(fault)


def test_who_missed_changes_of_the_mesh_is_not_apart() -> None:
    """A link that is new opens although somebody behind it works by a former one. Spec: K27."""
    gates = {}
    for former in ((), ("missed",)):
        driven = Driven()
        driven.start()
        driven.feed(LinksRead(c(former=former)), IdentityRead("c", "uc", "k1", "k1"))
        driven.feed(LinksRead(b("missed")), HEARD)
        driven.tick()
        gates[former] = driven.gate("b")
        assert driven.own.former == former
    assert gates == {(): Gate.PROBING, ("missed",): Gate.OPEN}


def test_former_topologies_are_known_after_a_restart() -> None:
    """Whether it followed the change, or found it in force when it started. Spec: K27."""
    driven = Driven(number=3)
    driven.start(driven_before(digest="last", former=("older",)))
    driven.tick()
    assert driven.own.former == ("last", "older")
    driven = Driven(number=0)
    driven.start(driven_before(digest="another file", former=("older",)))
    driven.tick()
    assert driven.own.former == ("older",)


def test_who_is_the_first_to_follow_a_change_is_not_apart() -> None:
    """A link that it removes is not refused at the end that follows a moment later. Spec: K27."""
    for former, gate in (((DIGEST,), Gate.OPEN), ((), Gate.REFUSED)):
        driven = Driven()
        driven.start()
        driven.feed(HEARD, LinksRead(b()))
        driven.tick()
        driven.feed(LinksRead(b("newer", number=2, sequence=2, links=(), former=former)))
        driven.tick()
        assert driven.gate("b") is gate


def test_while_a_change_is_followed_nobody_hands_on_the_words_of_others() -> None:
    """Each is a record for every node, on the way of a change that all wait for. Spec: K27, K28."""
    for former, record in (((DIGEST,), {"ua"}), ((), {"ua", "ub"})):
        driven = Driven()
        driven.start()
        driven.feed(HEARD, LinksRead(b()))
        driven.tick()
        driven.feed(LinksRead(b("newer", sequence=2, former=former)))
        driven.tick()
        assert {e.record.uuid for e in driven.effects if isinstance(e, WriteLinks)} == record


def test_who_was_shut_out_for_a_moment_is_asked_again() -> None:
    """It never shut the link itself, so what it has acknowledged it does not say twice. K24."""
    driven = Driven()
    driven.start()
    driven.feed(HEARD, LinksRead(b()))
    driven.tick()
    marked = [e.mark.number for e in driven.effects if isinstance(e, WriteMark) if e.mark]
    driven.feed(LinksRead(b("other", number=2, sequence=2, links=())))
    driven.tick()
    assert driven.gate("b") is Gate.REFUSED
    driven.effects.clear()
    driven.feed(LinksRead(b(number=3, sequence=3)))
    driven.tick()
    assert driven.gate("b") is Gate.OPEN
    again = [e.mark.number for e in driven.effects if isinstance(e, WriteMark) if e.mark]
    assert again
    assert min(again) > max(marked)
