"""The node machine: what is read comes into force in rounds, and is offered only after them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.scopes import ScopeWriter
from mesh.model.control import (
    Acknowledgement,
    EndpointKind,
    EndpointStatus,
    Heartbeat,
    Interest,
    Mark,
    Ownership,
    Scope,
    Stage,
    Subscription,
)
from mesh.model.effects import (
    BecameReady,
    EndSubscription,
    EnsureEndpoint,
    Note,
    ReadAgain,
    RepeatLearned,
    Reroute,
    RestartLeadership,
    WriteAck,
    WriteAdvert,
    WriteHeartbeat,
    WriteLearned,
    WriteMark,
    WriteSubscribed,
)
from mesh.model.frames import MessageClass
from mesh.model.inputs import (
    AckRead,
    AdvertRead,
    BeatRead,
    ChangeRead,
    ClientsCaughtUp,
    ClientsReset,
    EndpointSeen,
    LaneApplied,
    LeadershipTaken,
    LinkDisabled,
    LinkEnabled,
    MarkRead,
    NeighbourCaughtUp,
    NeighbourLags,
    NeighbourReset,
    OwnAdvertRead,
    OwnBeatRead,
    OwnControlCaughtUp,
    OwnControlReset,
    OwnMarkRead,
    RoundRequested,
    StreamReset,
    SubscriptionRead,
    SubscriptionRefused,
    Ticked,
    VersionsVoided,
)
from mesh.model.interest_inputs import CLIENTS, input_name
from mesh.model.queues import Queue, QueuePolicy
from mesh.model.words import EndpointWord
from mesh.node.machine import REPORT_MS, NodeMachine
from mesh.node.unproven_neighbours import PATIENCE_MS
from mesh.wire.control import encode_heartbeat
from tests.said import noted

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {"a": {}, "b": {}, "c": {}},
        "zones": {
            "Z": {"kind": "one-hop", "links": [["a", "b"]]},
            "W": {"kind": "multi-hop", "links": [["a", "c"]]},
        },
    }
)
TO_B = Scope("Z", "", Ownership.OWN)
TO_C = Scope("W", "c", Ownership.OWN)
FROM_B = Scope("Z", "", Ownership.OWN)


def serving() -> NodeMachine:
    """Return the machine of a, leading, with everything read to its end and lane 0 in force."""
    machine = NodeMachine(TOPOLOGY, "a", "uuid-a")
    for input_ in (
        Ticked(0),
        LeadershipTaken(3, {}),
        ClientsCaughtUp(),
        NeighbourCaughtUp("b"),
        NeighbourCaughtUp("c"),
        LaneApplied(0, {}),
        Ticked(200),
    ):
        machine.step(input_)
    assert machine.is_ready
    return machine


@pytest.fixture
def machine() -> NodeMachine:
    """One that serves, leads and has nothing to do."""
    return serving()


def effects_of(machine: NodeMachine, *inputs: object) -> list[object]:
    return [effect for input_ in inputs for effect in machine.step(input_)]


def test_nothing_is_routed_before_every_input_is_read() -> None:
    """Spec: K23, DMR-7, C4 of reliability.md."""
    machine = NodeMachine(TOPOLOGY, "a", "uuid-a")
    effects = effects_of(machine, Ticked(0), ClientsCaughtUp(), NeighbourCaughtUp("b"))
    assert not any(isinstance(effect, Reroute) for effect in effects)
    effects = effects_of(machine, NeighbourCaughtUp("c"))
    assert [type(effect) for effect in effects] == [Reroute, BecameReady]


def test_what_can_be_read_no_more_is_waited_for_no_more(machine: NodeMachine) -> None:
    """It takes effect at once, and a round begins with the next tick. Spec: K16, K25."""
    known = {CLIENTS: (0, 7), input_name("b", FROM_B): (4, 2)}
    assert machine.learner.is_behind(known)
    assert effects_of(machine, VersionsVoided(known), RoundRequested()) == []
    assert not machine.learner.is_behind(known)
    assert Reroute in map(type, effects_of(machine, Ticked(400)))
    assert machine.learner.is_behind({CLIENTS: (0, 8)})


def test_a_subscription_is_offered_only_after_every_lane_has_its_cut(machine: NodeMachine) -> None:
    """Spec: K25."""
    effects = effects_of(machine, SubscriptionRead(0, "s", "x/>", Subscription()), Ticked(400))
    assert EnsureEndpoint("s", MessageClass.GUARANTEED) in effects
    [reroute] = [effect for effect in effects if isinstance(effect, Reroute)]
    assert reroute.cuts == {"uuid-a": 0}
    assert not any(isinstance(effect, WriteAdvert) for effect in effects)
    effects = effects_of(machine, LaneApplied(0, reroute.in_force))
    adverts = {(e.scope, e.filter_): e.interest for e in effects if isinstance(e, WriteAdvert)}
    assert adverts[TO_B, "x/>"] == adverts[TO_C, "x/>"] == Interest()
    assert adverts[TO_B, "$node/uuid-a"] == Interest(clients_offset=0)
    marks = {e.scope: e.mark for e in effects if isinstance(e, WriteMark)}
    assert (marks[TO_B].epoch, marks[TO_B].number, marks[TO_B].count) == (3, 2, 2)


def test_after_a_quiet_time_a_subscription_is_routed_at_once_and_others_gather_behind_it(
    machine: NodeMachine,
) -> None:
    """It waits for no tick; what comes while a round is under way waits for that. Spec: K25."""

    def routed(*inputs: object) -> list[Reroute]:
        return [one for one in effects_of(machine, *inputs) if isinstance(one, Reroute)]

    machine.step(Ticked(1_000))
    [first] = routed(SubscriptionRead(0, "s", "x", Subscription()))
    assert routed(*(SubscriptionRead(n, "s", f"y/{n}", Subscription()) for n in (1, 2))) == []
    [second] = routed(LaneApplied(0, first.in_force), Ticked(2_000))
    assert (first.cuts, second.cuts) == ({"uuid-a": 0}, {"uuid-a": 2})


def test_however_often_clients_change_their_minds_routes_change_ten_times_a_second(
    machine: NodeMachine,
) -> None:
    """And the node's address tells with each change up to which record they are known. Spec: K25."""
    machine.step(Ticked(1_000))
    told: list[int] = []
    routed = 0
    for offset, now in enumerate(range(1_010, 2_010, 10)):
        wish = Subscription() if offset % 2 == 0 else None
        inputs = Ticked(now), SubscriptionRead(offset, "s", "x", wish)
        effects = effects_of(machine, *inputs, LaneApplied(0, machine.in_force))
        routed += sum(isinstance(one, Reroute) for one in effects)
        told += [
            one.interest.clients_offset
            for one in effects
            if isinstance(one, WriteAdvert) and (one.scope, one.filter_) == (TO_B, "$node/uuid-a")
        ]
    assert routed == len(told) == 10
    assert told == sorted(told)
    assert told[-1] >= 80


def apply_now(machine: NodeMachine, now: int) -> list[object]:
    """Let time pass and the lane commit whatever is asked for; 300 ms are enough."""
    effects: list[object] = []
    for later in (now, now + 100, now + 200, now + 300):
        effects += effects_of(machine, Ticked(later), LaneApplied(0, machine.in_force))
    return effects


def test_three_subscriptions_are_one_advert_and_the_last_end_is_one_withdrawal(
    machine: NodeMachine,
) -> None:
    """Spec: DMR-2."""
    for offset, name in enumerate(("s1", "s2", "s3")):
        machine.step(SubscriptionRead(offset, name, "pay", Subscription()))
    found = [e for e in apply_now(machine, 400) if isinstance(e, WriteAdvert)]
    assert len([e for e in found if (e.scope, e.filter_) == (TO_B, "pay")]) == 1
    for offset, name in enumerate(("s1", "s2"), start=3):
        machine.step(SubscriptionRead(offset, name, "pay", None))
    found = [e for e in apply_now(machine, 1000) if isinstance(e, WriteAdvert)]
    assert [e for e in found if e.filter_ == "pay"] == []
    machine.step(SubscriptionRead(5, "s3", "pay", None))
    found = [e for e in apply_now(machine, 1600) if isinstance(e, WriteAdvert)]
    assert [(e.scope, e.interest) for e in found if e.filter_ == "pay"] == [
        (TO_C, None),
        (TO_B, None),
    ]


def learn_from_b(machine: NodeMachine, epoch: int = 7) -> list[object]:
    """Have b offer `x` and prove it."""
    from mesh.core.digest import entry_digest

    effects_of(
        machine,
        AdvertRead("b", FROM_B, "x", Interest()),
        MarkRead("b", FROM_B, Mark(epoch, 1, 1, entry_digest("x", Interest()))),
    )
    return apply_now(machine, 400)


def test_what_is_learned_on_a_one_hop_zone_is_not_offered_back_there(machine: NodeMachine) -> None:
    """Spec: DESIGN 3, UM-1."""
    found = [e for e in learn_from_b(machine) if isinstance(e, WriteAdvert)]
    assert [(e.scope, e.filter_) for e in found] == [(TO_C, "x")]


def test_an_input_is_acknowledged_complete_when_its_readers_are(machine: NodeMachine) -> None:
    """Spec: K24."""
    acks = [e for e in learn_from_b(machine) if isinstance(e, WriteAck)]
    assert acks == [WriteAck("b", FROM_B, Acknowledgement(7, 1, -1, (("a", "c"),)))]
    number = machine.leader.marks()[TO_C].number
    effects = effects_of(machine, AckRead("c", TO_C, Acknowledgement(3, number, number)))
    assert WriteAck("b", FROM_B, Acknowledgement(7, 1, 1)) in effects


def test_what_a_mark_does_not_prove_is_in_force_and_not_acknowledged(machine: NodeMachine) -> None:
    """A stranger withdrew an entry before its mark came; its writer sets that right. K23, K24."""
    entries = ScopeWriter()
    for filter_ in ("x", "y"):
        entries.change(filter_, None, Interest())
    mark, again = entries.next_mark(7), entries.next_mark(7)
    read = [AdvertRead("b", FROM_B, "x", Interest()), AdvertRead("b", FROM_B, "y", Interest())]
    effects_of(machine, *read, AdvertRead("b", FROM_B, "y", None), MarkRead("b", FROM_B, mark))
    assert not any(isinstance(effect, WriteAck) for effect in apply_now(machine, 400))
    assert machine.router.table.members("x")
    effects_of(machine, read[1], MarkRead("b", FROM_B, again))
    [ack] = [effect for effect in apply_now(machine, 800) if isinstance(effect, WriteAck)]
    assert (ack.scope, ack.ack.applied) == (FROM_B, 2)


def test_what_is_recalled_takes_back_nothing_that_was_read_since(machine: NodeMachine) -> None:
    """It is asked for beside the loop: a later mark may come first, and not be in force yet. K24."""
    entries, learner = ScopeWriter(), machine.learner
    for filter_ in ("x", "y"):
        entries.change(filter_, None, Interest())
        learner.hearing.advert_read("b", FROM_B, filter_, Interest())
        learner.hearing.mark_read("b", FROM_B, entries.next_mark(7))
    source = input_name("b", FROM_B)
    machine.step(NeighbourLags("b", {FROM_B: ["x"]}, {source: (7, 1)}))
    [ack] = [effect for effect in apply_now(machine, 400) if isinstance(effect, WriteAck)]
    assert (ack.scope, ack.ack.applied) == (FROM_B, 2)


@pytest.mark.parametrize(("applied", "complete"), [(1 << 40, 1 << 40), (1, 1 << 40)])
def test_what_was_never_written_is_acknowledged_by_nobody(
    machine: NodeMachine, applied: int, complete: int
) -> None:
    """Such a record is damaged, and keeps nobody from hearing the next one. Spec: K24, R12."""
    effects_of(machine, SubscriptionRead(9, "s", "x", Subscription()))
    apply_now(machine, 400)
    marks = machine.leader.marks()
    damaged = Acknowledgement(3, applied, complete)
    read = [AckRead(name, scope, damaged) for name, scope in (("b", TO_B), ("c", TO_C))]
    assert not any(isinstance(effect, WriteSubscribed) for effect in effects_of(machine, *read))
    acks = {scope: Acknowledgement(3, mark.number, mark.number) for scope, mark in marks.items()}
    read = [AckRead(name, scope, acks[scope]) for name, scope in (("b", TO_B), ("c", TO_C))]
    *_, told = [e for e in effects_of(machine, *read) if isinstance(e, WriteSubscribed)]
    assert told.ack.complete == 9


def test_what_a_stranger_writes_before_the_first_offer_is_compared_with_it() -> None:
    """What the new leader read as it took the lead lacks that. Spec: K16, R12."""
    machine = NodeMachine(TOPOLOGY, "a", "uuid-a")
    stray, mine = OwnAdvertRead(TO_B, "stray", Interest()), OwnAdvertRead(TO_B, "x", None)
    read = [LeadershipTaken(3, {TO_B: {"x": Interest()}}), OwnControlCaughtUp(), stray, mine]
    effects_of(machine, Ticked(0), *read, SubscriptionRead(0, "s", "x", Subscription()))
    effects = effects_of(machine, ClientsCaughtUp(), NeighbourCaughtUp("b"), NeighbourCaughtUp("c"))
    effects += apply_now(machine, 400)
    adverts = {(e.scope, e.filter_): e.interest for e in effects if isinstance(e, WriteAdvert)}
    assert adverts.get((TO_B, "stray"), Interest()) is None
    assert adverts[TO_B, "x"] == Interest()


@pytest.mark.parametrize("beat", [(3, 1_000), (9, 1)])
def test_a_heartbeat_that_is_ahead_of_its_leader_is_outdone(
    machine: NodeMachine, beat: tuple[int, int]
) -> None:
    """Neighbours would hear no other any more. Spec: K16, K32, R12."""
    effects_of(machine, OwnControlCaughtUp(), OwnBeatRead(3, 1), OwnBeatRead(*beat))
    assert RestartLeadership() not in effects_of(machine, Ticked(1_000))
    assert RestartLeadership() in effects_of(machine, Ticked(3_000))


def test_heartbeats_of_the_leader_itself_and_of_former_ones_are_none_of_a_stranger(
    machine: NodeMachine,
) -> None:
    """Spec: K16."""
    effects_of(machine, OwnControlCaughtUp(), OwnBeatRead(3, 1), OwnBeatRead(2, 5_000))
    assert RestartLeadership() not in effects_of(machine, Ticked(1_000), Ticked(4_000))


def test_a_mark_of_a_later_epoch_before_the_first_offer_is_outdone() -> None:
    """Readers would believe it rather than all that follows. Spec: K16, K23, R12."""
    machine = NodeMachine(TOPOLOGY, "a", "uuid-a")
    read = [LeadershipTaken(3, {}), OwnControlCaughtUp(), OwnMarkRead(TO_B, Mark(9, 1, 0, 0))]
    effects = effects_of(machine, Ticked(0), *read, Ticked(1_000), Ticked(3_000))
    assert RestartLeadership() in effects


def test_subscribed_everywhere_is_told_to_clients(machine: NodeMachine) -> None:
    """Spec: K24, C5 of reliability.md."""
    machine.step(SubscriptionRead(9, "s", "x", Subscription()))
    apply_now(machine, 400)
    for name, scope in (("b", TO_B), ("c", TO_C)):
        number = machine.leader.marks()[scope].number
        effects = effects_of(machine, AckRead(name, scope, Acknowledgement(3, number, number)))
    assert WriteSubscribed(Acknowledgement(3, 9, 9)) in effects


def test_a_silent_neighbour_keeps_only_its_guaranteed_interest(machine: NodeMachine) -> None:
    """Spec: K19, K32."""
    learn_from_b(machine)
    machine.step(BeatRead("b", Heartbeat(7, 1, True)))
    effects = effects_of(machine, Ticked(10_800), Ticked(11_000))
    about_b = {"log_level": "warning", "neighbour": "b"}
    assert about_b in noted(effects).of("neighbour.down")
    members = machine.router.table.members("x")
    assert [interest for _, interest in members] == [Interest(durable=True, live=False)]
    machine.step(LaneApplied(0, machine.in_force))
    effects = effects_of(machine, BeatRead("b", Heartbeat(7, 2, True)), Ticked(11_400))
    assert noted(effects).of("neighbour.up") == [about_b]
    assert [interest for _, interest in machine.router.table.members("x")] == [Interest()]


def test_who_has_just_begun_to_listen_has_missed_no_beats() -> None:
    """Clocks count from the boot of a machine, not from the start of a node. Spec: K32."""
    machine = NodeMachine(TOPOLOGY, "a", "uuid-a")
    late = 3_600_000
    assert not any(isinstance(e, Note) for e in effects_of(machine, Ticked(late)))
    effects = effects_of(machine, Ticked(late + 10_900), Ticked(late + 11_000))
    assert [one["neighbour"] for one in noted(effects).of("neighbour.down")] == ["b", "c"]


@pytest.mark.parametrize("letter", ["x", "\N{LATIN SMALL LETTER U WITH DIAERESIS}"])
def test_a_heartbeat_fits_into_a_record_whatever_clients_have(
    machine: NodeMachine, letter: str
) -> None:
    """The statuses of endpoints are bounded, and full ones come first. Spec: K6, R12."""
    text = f"{100 * letter} attracts nothing"
    for number in range(2_000):
        refused = Subscription(EndpointKind.QUEUE, policy="any", noexport=True)
        machine.step(SubscriptionRead(number, f"q{number}", f"{100 * letter}/y", refused))
        machine.step(
            EndpointSeen(f"h{number}", EndpointStatus(f"h{number}", EndpointWord.HELD, text))
        )
    machine.step(EndpointSeen("full", EndpointStatus("full", EndpointWord.FULL, "1 byte may wait")))
    found = [one for one in apply_now(machine, 5_000) if isinstance(one, WriteHeartbeat)]
    beat = found[-1].heartbeat
    assert len(encode_heartbeat(beat)) < 100_000
    assert beat.endpoints[0].endpoint == "full"
    assert beat.endpoints[-1].reason.endswith("more endpoints have something to report")
    count = int(beat.endpoints[-1].reason.split("; and ")[1].split()[0])
    assert count + len(beat.endpoints) == 4_001


def test_it_beats_once_a_second(machine: NodeMachine) -> None:
    """Spec: K32."""
    beats = [
        effect.heartbeat.beat
        for now in range(1000, 4001, 100)
        for effect in machine.step(Ticked(now))
        if isinstance(effect, WriteHeartbeat)
    ]
    assert beats == list(range(beats[0], beats[0] + len(beats)))
    assert len(beats) in (3, 4)


def test_a_lease_that_is_not_renewed_ends_the_subscription(machine: NodeMachine) -> None:
    """Spec: K13."""
    machine.step(SubscriptionRead(0, "s", "x", Subscription(lease_s=5)))
    assert EndSubscription("s", "x") not in effects_of(machine, Ticked(5_000))
    assert EndSubscription("s", "x") in effects_of(machine, Ticked(5_300))


def test_the_last_word_on_a_subscription_counts_with_its_lease(machine: NodeMachine) -> None:
    """Spec: K13: nothing else is left of it once `clients` is compacted."""
    machine.step(SubscriptionRead(0, "s", "x", Subscription(lease_s=5)))
    direct = Subscription(message_class=MessageClass.DIRECT)
    effects = effects_of(machine, SubscriptionRead(1, "s", "x", direct))
    assert EnsureEndpoint("s", MessageClass.DIRECT) in effects
    assert machine.learner.clients.wanted.asked == {("s", "x"): direct}
    assert EndSubscription("s", "x") not in effects_of(machine, Ticked(5_300))


def test_the_lease_of_a_refused_subscription_ends_too(machine: NodeMachine) -> None:
    """Spec: K13: it would come into force for ever once the others have ended."""
    machine.step(SubscriptionRead(0, "s", "x", Subscription()))
    leased = Subscription(message_class=MessageClass.DIRECT, lease_s=5)
    machine.step(SubscriptionRead(1, "s", "y", leased))
    assert EndSubscription("s", "y") in effects_of(machine, Ticked(5_300))


def test_a_second_class_for_one_endpoint_is_refused_until_the_first_has_ended(
    machine: NodeMachine,
) -> None:
    """Spec: K13."""
    machine.step(SubscriptionRead(0, "s", "x", Subscription()))
    direct = Subscription(message_class=MessageClass.DIRECT)
    effects = effects_of(machine, SubscriptionRead(1, "s", "y", direct))
    [told] = noted(effects).of("subscription.refused")
    assert told["endpoint"] == "s"
    assert "its subscription to y, of another kind or class, attracts nothing" in told["text"]
    assert ("s", "y") not in machine.learner.clients.wanted.asked
    effects = effects_of(machine, SubscriptionRead(2, "s", "x", None))
    assert EnsureEndpoint("s", MessageClass.DIRECT) in effects
    assert machine.learner.clients.wanted.asked == {("s", "y"): direct}


def test_a_refused_record_is_a_version_all_the_same(machine: NodeMachine) -> None:
    """Spec: K13, K24: a client that waits for its offset is not left waiting."""
    machine.step(SubscriptionRefused(4))
    found = [e for e in apply_now(machine, 400) if isinstance(e, WriteSubscribed)]
    assert found[0].ack.applied == 4


def test_a_new_leader_writes_only_what_differs() -> None:
    """Spec: K16."""
    machine = NodeMachine(TOPOLOGY, "a", "uuid-a")
    own = Interest(clients_offset=-1)
    written = {TO_B: {"$node/uuid-a": own, "gone": Interest()}, TO_C: {"$node/uuid-a": own}}
    effects_of(machine, Ticked(0), LeadershipTaken(4, written), ClientsCaughtUp())
    effects_of(machine, NeighbourCaughtUp("b"), NeighbourCaughtUp("c"))
    effects = effects_of(machine, LaneApplied(0, machine.in_force))
    assert [e for e in effects if isinstance(e, WriteAdvert)] == [WriteAdvert(TO_B, "gone", None)]
    marks = [e for e in effects if isinstance(e, WriteMark)]
    assert {e.scope for e in marks if e.mark.number == 1} >= {TO_B, TO_C}


def wants(machine: NodeMachine) -> set[str]:
    """Return what others want of a."""
    return {name for name in machine.router.table.entries if not name.startswith("$")}


def test_old_marks_end_nothing_while_an_enabled_link_is_proven_anew(machine: NodeMachine) -> None:
    """What is in force stays so until the control topic is read to its end. Spec: K23, DMR-10."""
    from mesh.core.digest import entry_digest

    first, second = (entry_digest(name, Interest()) for name in "xy")
    learn_from_b(machine)
    effects_of(
        machine,
        AdvertRead("b", FROM_B, "y", Interest()),
        MarkRead("b", FROM_B, Mark(7, 2, 2, (first + second) % 2**64)),
    )
    apply_now(machine, 1000)
    effects_of(machine, LinkDisabled("b"), LinkEnabled("b"))
    apply_now(machine, 2000)
    again = (
        (AdvertRead("b", FROM_B, "x", Interest()), MarkRead("b", FROM_B, Mark(7, 1, 1, first))),
        (AdvertRead("b", FROM_B, "x", None), MarkRead("b", FROM_B, Mark(7, 3, 1, second))),
    )
    effects_of(machine, *again[0])
    apply_now(machine, 3000)
    assert wants(machine) == {"x", "y"}
    effects_of(machine, AdvertRead("b", FROM_B, "y", Interest()), *again[1])
    apply_now(machine, 4000)
    assert (wants(machine), machine.router.unread()) == ({"x", "y"}, {"b"})
    machine.step(NeighbourCaughtUp("b"))
    found = [e for e in apply_now(machine, 5000) if isinstance(e, WriteAck)]
    assert (wants(machine), machine.router.unread()) == ({"y"}, set())
    assert [(e.neighbour, e.ack.applied) for e in found] == [("b", 3)]


def test_a_worker_that_had_read_less_learns_what_others_knew(machine: NodeMachine) -> None:
    """Its lanes queue what theirs do; what it is told again changes nothing. Spec: K21, K25."""
    learn_from_b(machine)
    machine.step(LinkDisabled("b", {FROM_B: ("x",)}, {FROM_B: (7, 1)}))
    assert effects_of(machine, LaneApplied(1, {f"b {FROM_B}": (7, 1)})) == []
    assert effects_of(machine, LaneApplied(1, {f"b {FROM_B}": (7, 2)})) == [RepeatLearned()]
    machine.step(LinkDisabled("b", {FROM_B: ("x", "new")}, {FROM_B: (7, 2)}))
    apply_now(machine, 1000)
    assert wants(machine) == {"x", "new"}
    assert effects_of(machine, LaneApplied(1, {f"b {FROM_B}": (7, 2)})) == []
    assert machine.in_force[f"b {FROM_B}"] == (7, 2)


def test_what_no_worker_can_learn_any_more_is_not_waited_for() -> None:
    """A node whose lanes differ in what they knew of a disabled link still changes. Spec: K25."""
    from mesh.core.digest import entry_digest

    topology = topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {"a": {"lanes": 2}, "b": {}},
            "zones": {"Z": {"kind": "one-hop", "links": [["a", "b"]]}},
        }
    )
    machine = NodeMachine(topology, "a", "uuid-a")
    mark = MarkRead("b", FROM_B, Mark(7, 1, 1, entry_digest("x", Interest())))
    effects_of(machine, Ticked(0), LeadershipTaken(3, {}), ClientsCaughtUp())
    effects_of(machine, AdvertRead("b", FROM_B, "x", Interest()), mark, NeighbourCaughtUp("b"))
    effects_of(machine, LinkDisabled("b"), LaneApplied(0, machine.in_force))
    behind = {name: one for name, one in machine.in_force.items() if not name.startswith("b ")}
    effects_of(machine, LaneApplied(1, behind), Ticked(9_000))
    assert not machine.is_ready
    machine.step(Ticked(11_000))
    assert machine.is_ready


def test_a_queue_that_contradicts_its_declaration_is_told_with_the_heartbeat() -> None:
    """Spec: K13."""
    topology = replace(TOPOLOGY, queues={"q": Queue(name="q", policy=QueuePolicy.LOCAL)})
    machine = NodeMachine(topology, "a", "uuid-a")
    said = Subscription(EndpointKind.QUEUE, policy="any")
    effects = effects_of(
        machine,
        Ticked(0),
        LeadershipTaken(3, {}),
        SubscriptionRead(0, "q", "x/>", said),
        ClientsCaughtUp(),
        NeighbourCaughtUp("b"),
        NeighbourCaughtUp("c"),
        LaneApplied(0, {"clients": (0, 0)}),
        Ticked(1200),
    )
    (beat,) = [e.heartbeat for e in effects if isinstance(e, WriteHeartbeat)][-1:]
    assert [(one.endpoint, one.state) for one in beat.endpoints] == [("q", "refused")]
    assert EnsureEndpoint("q", MessageClass.GUARANTEED) in effects
    effects_of(machine, SubscriptionRead(1, "q", "x/>", Subscription(EndpointKind.QUEUE)))
    effects = effects_of(machine, Ticked(2400), Ticked(3600))
    (beat,) = [e.heartbeat for e in effects if isinstance(e, WriteHeartbeat)][-1:]
    assert beat.endpoints == ()


def test_what_is_declared_of_queues_is_followed_in_place(machine: NodeMachine) -> None:
    """Spec: K13, K28."""
    machine.step(SubscriptionRead(0, "q", "x/>", Subscription(EndpointKind.QUEUE)))
    machine.step(Ticked(400))
    assert not machine.router.table.attractions
    topology = replace(TOPOLOGY, queues={"q": Queue(name="q", policy=QueuePolicy.ANY)})
    machine.step(LaneApplied(0, machine.in_force))
    machine.step(ChangeRead(8, Stage.SWITCH, topology))
    machine.step(Ticked(800))
    assert [str(one) for one in machine.router.table.attractions.all()] == ["$queue/q/a/any/x/>"]


def test_members_of_queues_are_remembered_for_starts_without_them(machine: NodeMachine) -> None:
    """But addresses of nodes are not: nothing waits for those. Spec: K21."""
    writer = ScopeWriter()
    for filter_ in ("$node/u", "$queue/q/b", "$queue/q/b/any/x", "x"):
        writer.change(filter_, None, Interest())
        machine.step(AdvertRead("b", FROM_B, filter_, Interest()))
    machine.step(MarkRead("b", FROM_B, writer.next_mark(1)))
    effects = effects_of(machine, Ticked(5000))
    (learned,) = [one for one in effects if isinstance(one, WriteLearned) and one.filters]
    assert learned.filters == ("$queue/q/b", "$queue/q/b/any/x", "x")


def test_what_is_acknowledged_is_remembered_although_its_topic_is_read_anew_just_then(
    machine: NodeMachine,
) -> None:
    """Else a start without the neighbour would forget what it was promised. Spec: K21, K24."""
    writer = ScopeWriter()
    machine.step(MarkRead("b", FROM_B, writer.next_mark(1)))
    apply_now(machine, 5_000)  # when all that is known is kept
    writer.change("x", None, Interest())
    machine.step(Ticked(5_300))
    machine.step(AdvertRead("b", FROM_B, "x", Interest()))
    effects = effects_of(machine, MarkRead("b", FROM_B, writer.next_mark(1)))
    [reroute] = [one for one in effects if isinstance(one, Reroute)]
    effects = effects_of(machine, NeighbourReset("b"), LaneApplied(0, reroute.in_force))
    kept = [one.filters for one in effects if isinstance(one, WriteLearned)]
    applied = [one.ack.applied for one in effects if isinstance(one, WriteAck)]
    assert (kept, applied) == ([("x",)], [2])


def test_who_has_offered_nothing_yet_proves_nothing_by_a_mark() -> None:
    """Else neighbours take for ended what they were promised. Spec: K23, K24."""
    machine = NodeMachine(TOPOLOGY, "a", "uuid-a")
    inputs = (Ticked(0), SubscriptionRead(0, "s", "x", Subscription()), LeadershipTaken(4, {}))
    effects = effects_of(machine, *inputs, StreamReset("b"), OwnControlReset())
    assert [one for one in effects if isinstance(one, WriteMark)] == []
    machine.step(ClientsCaughtUp())
    for name in "bc":
        machine.step(NeighbourCaughtUp(name))
    effects = effects_of(machine, LaneApplied(0, machine.in_force), Ticked(400))
    [mark] = [one.mark for one in effects if isinstance(one, WriteMark) and one.scope == TO_B]
    assert mark is not None
    assert mark.count == 2
    effects = effects_of(machine, StreamReset("b"))
    [again] = [one.mark for one in effects if isinstance(one, WriteMark) and one.scope == TO_B]
    assert again is not None
    assert (again.number, again.count) == (mark.number + 1, 2)


@pytest.mark.parametrize(("reset", "of"), [(NeighbourReset("b"), "b"), (ClientsReset(), CLIENTS)])
def test_lanes_report_once_more_when_all_workers_have_seen_that_a_topic_is_another_one(
    machine: NodeMachine, reset: object, of: str
) -> None:
    """What a mate read of them before it had seen that counts for nothing there. Spec: K23, K25."""
    machine.step(MarkRead("b", FROM_B, ScopeWriter().next_mark(1)))
    apply_now(machine, 1_000)
    [told] = noted(effects_of(machine, reset)).of("control.recreated")
    assert told == {"log_level": "warning", "of": of, "text": "it is read again"}

    def reports(begin: int, end: int) -> int:
        effects = [one for ms in range(begin, end, 500) for one in machine.step(Ticked(ms))]
        return effects.count(Reroute(machine.in_force, {}))

    assert reports(1_500, REPORT_MS) == 0
    assert reports(REPORT_MS, REPORT_MS + 3_000) == 1
    assert reports(REPORT_MS + 3_000, 3 * REPORT_MS) == 0


@pytest.mark.parametrize("epoch", [None, 1, 2])
def test_who_leads_a_neighbour_and_has_no_mark_of_its_own_there_is_read_again(
    machine: NodeMachine, epoch: int | None
) -> None:
    """Its topic lost its end, and grew again beyond the position of who reads on. Spec: K23."""
    assert machine.learner.hearing.offered is not None
    for scope in machine.learner.hearing.offered["b"] if epoch is not None else ():
        machine.step(MarkRead("b", scope, ScopeWriter().next_mark(epoch or 0)))
    effects: list[object] = []
    for number, ms in enumerate(range(1_000, PATIENCE_MS.first + 3_000, 500)):
        effects += effects_of(machine, BeatRead("b", Heartbeat(2, number, ready=True)), Ticked(ms))
    assert (ReadAgain("b") in effects) == (epoch != 2)
    about_b = {"log_level": "warning", "neighbour": "b"}
    assert (about_b in noted(effects).of("neighbour.doubted")) == (epoch != 2)


@pytest.mark.parametrize("name", ["b", "clients"])
def test_a_round_waits_for_no_lane_that_has_told_what_a_topic_recreated_voids(name: str) -> None:
    """An idle lane would not tell it again by itself, and no other round could begin. K23, K25."""
    topology = topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {"a": {"lanes": 2}, name: {}},
            "zones": {"Z": {"kind": "one-hop", "links": [["a", name]]}},
        }
    )
    machine = NodeMachine(topology, "a", "uuid-a")
    for input_ in (Ticked(0), LeadershipTaken(1, {}), ClientsCaughtUp(), NeighbourCaughtUp(name)):
        machine.step(input_)
    for now in (200, 400):
        for input_ in (LaneApplied(0, machine.in_force), LaneApplied(1, machine.in_force)):
            machine.step(input_)
        machine.step(Ticked(now))
    machine.step(MarkRead(name, FROM_B, ScopeWriter().next_mark(1)))
    machine.step(Ticked(600))
    wanted = machine.in_force
    assert wanted[f"{name} {FROM_B}"] == (1, 1)
    machine.step(LaneApplied(0, wanted))
    effects = effects_of(machine, NeighbourReset(name))
    assert Reroute(wanted, {}) in effects
    effects = effects_of(machine, LaneApplied(1, wanted), LaneApplied(0, wanted))
    assert any(isinstance(one, WriteAck) for one in effects)
