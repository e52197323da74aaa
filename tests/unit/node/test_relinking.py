"""A node follows a change of the topology with a round, and says when it has."""

from __future__ import annotations

from dataclasses import replace

from mesh.config.topology_file import topology_from_mapping
from mesh.core.digest import entry_digest
from mesh.model.control import (
    Acknowledgement,
    ChangeStatus,
    EndpointKind,
    EndpointStatus,
    Interest,
    Mark,
    Ownership,
    Scope,
    Stage,
    Subscription,
    change_version,
)
from mesh.model.effects import (
    Relinked,
    Reroute,
    WriteAck,
    WriteAdvert,
    WriteHeartbeat,
    WriteLinkState,
    WriteMark,
)
from mesh.model.inputs import (
    AckRead,
    AdvertRead,
    BeatRead,
    ChangeRead,
    ClientsCaughtUp,
    EndpointSeen,
    LaneApplied,
    LeadershipTaken,
    MarkRead,
    NeighbourCaughtUp,
    NeighbourUnproven,
    SubscriptionRead,
    Ticked,
)
from mesh.model.interest_inputs import CHANGE
from mesh.model.queues import Queue, QueuePolicy
from mesh.node.machine import NodeMachine
from mesh.node.relinking import link_changes, with_node
from tests.said import noted
from tests.unit.node.led import (
    FROM,
    TO_B,
    TO_C,
    WITH_B,
    WITH_BOTH,
    WITH_C,
    X_PROVEN,
    Led,
    applied,
    links,
    topology,
)


def status_of(machine: NodeMachine) -> ChangeStatus:
    status = machine._change_status()
    assert status is not None
    return status


def acknowledge(machine: NodeMachine) -> None:
    """Have c say that it and all behind it know what a, of epoch 4, offers."""
    for ownership in Ownership:
        scope = replace(TO_C, ownership=ownership)
        machine.step(AckRead("c", scope, applied(machine, scope)))


def test_a_link_that_goes_takes_its_interest_along_and_is_not_awaited() -> None:
    """Spec: K22, K24, K28."""
    led = Led(WITH_BOTH)
    led.feed(AdvertRead("b", FROM, "x", Interest()), MarkRead("b", FROM, X_PROVEN))
    led.feed(SubscriptionRead(0, "s", "y", Subscription()))
    led.pass_time()
    led.feed(AckRead("c", TO_C, applied(led.machine, TO_C)))
    assert led.machine.leader.completion.state("clients").complete == -1  # for b has not said so
    effects = [*led.feed(ChangeRead(8, Stage.SWITCH, WITH_C)), *led.pass_time()]
    adverts = {(e.scope, e.filter_): e.interest for e in effects if isinstance(e, WriteAdvert)}
    assert adverts == {
        (TO_C, "x"): None,
        **{(TO_B, name): None for name in ("y", "$node/uuid-a")},
    }
    assert [e.mark for e in effects if isinstance(e, WriteMark) and e.scope == TO_B] == [None]
    assert led.machine.leader.completion.state("clients").complete == 0
    assert [e for e in effects if isinstance(e, WriteAck) and e.neighbour == "b"] == []
    assert led.feed(AdvertRead("b", FROM, "x", Interest()), BeatRead("b", None)) == []


def test_what_was_not_acknowledged_over_a_link_that_is_another_now_is_awaited_over_that() -> None:
    """Else a client would learn that all know what it wants while nobody does. Spec: K24, K28."""
    led = Led(WITH_B)
    led.feed(SubscriptionRead(0, "s", "y", Subscription()))
    led.pass_time()
    completion = led.machine.leader.completion
    assert completion.state("clients").complete == -1
    led.feed(ChangeRead(8, Stage.SWITCH, topology(Y=links("ab"))))
    led.pass_time()
    assert completion.state("clients").complete == -1
    assert completion.state("clients").open_links == (("a", "b"),)
    new = Scope("Y", "b", Ownership.OWN)
    led.feed(AckRead("b", new, applied(led.machine, new)))
    led.pass_time()
    assert completion.state("clients").complete == 0


def test_a_new_link_begins_unproven_while_the_node_goes_on() -> None:
    """Spec: K27, K28."""
    led = Led(WITH_B)
    assert led.status() is None
    effects = led.feed(ChangeRead(8, Stage.SWITCH, WITH_BOTH))
    assert [type(e) for e in effects] == [Relinked, Reroute]
    assert effects[0] == Relinked(WITH_BOTH, (), ("c",))
    assert effects[1].in_force[CHANGE] == change_version(8, Stage.SWITCH)
    assert effects[1].cuts == {CHANGE: 8}  # the auditor asks from where on
    assert led.machine.learner.all_cuts()[CHANGE] == 8  # so does it of a lane that is taken later
    assert led.machine.is_ready
    assert led.status() == (8, "switch", False)
    foreign = replace(TO_C, ownership=Ownership.FOREIGN)
    led.feed(NeighbourCaughtUp("c"), AckRead("c", foreign, Acknowledgement(3, 1, 1)))
    assert led.status() == (8, "switch", False)  # c has not acknowledged
    led.feed(AckRead("c", TO_C, Acknowledgement(3, 1, 0)))
    assert led.status() == (8, "switch", False)  # behind c it is not known yet
    led.feed(AckRead("c", TO_C, Acknowledgement(3, 1, 1)))
    assert led.status() == (8, "switch", True)
    led.feed(ChangeRead(8, Stage.RUN, WITH_BOTH))
    assert led.status() == (8, "run", True)


def test_a_stage_is_done_when_every_lane_has_committed_it() -> None:
    """Spec: K25, K28."""
    led = Led(WITH_B)
    [reroute] = led.feed(ChangeRead(8, Stage.HOLD))
    assert reroute.in_force[CHANGE] == (8, 0)
    assert reroute.cuts == {}
    later = [led.feed(Ticked(led.now_ms + ms)) for ms in range(100, 1_300, 100)]
    beats = [e.heartbeat for es in later for e in es if isinstance(e, WriteHeartbeat)]
    assert {(one.change.stage, one.change.is_done) for one in beats} == {(Stage.HOLD, False)}
    led.now_ms += 1_200
    assert led.status() == (8, "hold", True)
    led.feed(ChangeRead(8, Stage.ABORT))
    assert led.status() == (8, "abort", True)
    assert led.machine.topology == WITH_B


def test_what_is_done_is_told_at_once_and_is_no_further_beat() -> None:
    """Who waits for a stage does not wait for the second; misses count beats. Spec: K28, K32."""
    led = Led(WITH_B)
    [last] = [e for e in led.pass_time(1_000) if isinstance(e, WriteHeartbeat)]
    led.feed(ChangeRead(8, Stage.HOLD))
    effects = led.feed(LaneApplied(0, led.machine.in_force))
    [heartbeats] = [e.heartbeat for e in effects if isinstance(e, WriteHeartbeat)]
    assert (heartbeats.beat, heartbeats.change) == (
        last.heartbeat.beat,
        ChangeStatus(8, Stage.HOLD, is_done=True),
    )
    assert [e for e in effects if isinstance(e, WriteLinkState)] == []
    quiet = [e for e in led.pass_time(500) if isinstance(e, WriteHeartbeat)]
    assert len(quiet) <= 1


def test_other_news_are_told_a_few_times_a_second_at_most() -> None:
    """Spec: K32."""
    led = Led(WITH_B)
    led.pass_time(1_000)
    beats = []
    for number in range(200):
        led.now_ms += 10
        seen = EndpointStatus("e", "full", str(number))
        beats += led.feed(EndpointSeen("e", seen), Ticked(led.now_ms))
    heartbeats = [e for e in beats if isinstance(e, WriteHeartbeat)]
    assert 15 <= len(heartbeats) <= 22
    assert len({e.heartbeat.beat for e in heartbeats}) <= 3


def test_a_leader_that_begins_in_the_middle_awaits_only_what_the_change_has_brought() -> None:
    """The link to b is as it was, and b may be down. Spec: K16, K28."""
    for awaited, is_done in (("c",), False), ((), True):
        machine = NodeMachine(WITH_BOTH, "a", "uuid-a", change=(8, Stage.SWITCH), awaited=awaited)
        machine.step(LeadershipTaken(4, {}))
        unreached = NeighbourUnproven("b", is_reached=False)
        inputs = [ClientsCaughtUp(), unreached, NeighbourCaughtUp("c")]
        applied = LaneApplied(0, {CHANGE: change_version(8, Stage.SWITCH)})
        effects = [one for input_ in (*inputs, applied) for one in machine.step(input_)]
        frozen = {"log_level": "warning", "neighbour": "b", "text": "it was not reached"}
        assert noted(effects).of("neighbour.frozen") == [frozen]
        status = status_of(machine)
        assert status.is_done == is_done
        assert status.open_links == ((("a", "c"),) if awaited else ())
        acknowledge(machine)
        assert status_of(machine).is_done


def test_who_takes_the_lead_while_sources_hold_waits_for_every_lane_itself() -> None:
    """As long as another led, its rounds waited for none: one may take messages of clients still.

    Spec: K16, K25, K28.
    """
    machine = NodeMachine(WITH_B, "a", "uuid-a")
    for input_ in (ClientsCaughtUp(), NeighbourCaughtUp("b"), LaneApplied(0, {}), Ticked(200)):
        machine.step(input_)
    machine.step(ChangeRead(8, Stage.HOLD))
    assert machine.in_force[CHANGE] == change_version(8, Stage.HOLD)
    machine.step(LeadershipTaken(4, {}))
    for now_ms in range(300, 3_000, 100):
        told = [e for e in machine.step(Ticked(now_ms)) if isinstance(e, WriteHeartbeat)]
        assert [e for e in told if e.heartbeat.change.is_done] == []
    machine.step(LaneApplied(0, machine.in_force))
    assert status_of(machine).is_done


def test_what_is_wanted_of_queues_by_another_policy_is_known_everywhere_first() -> None:
    """Else the first messages behind the switch would go to members that are none. Spec: K28."""
    led = Led(WITH_C)
    led.feed(SubscriptionRead(0, "q", "x", Subscription(EndpointKind.QUEUE)))
    led.pass_time()
    for number, queue, is_done in (
        (8, Queue(name="q", policy=QueuePolicy.ANY), False),
        (9, Queue(name="q", policy=QueuePolicy.ANY, max_age_s=60.0), True),
    ):
        led.feed(ChangeRead(number, Stage.SWITCH, replace(WITH_C, queues={"q": queue})))
        assert led.status() == (number, "switch", is_done)
        for ownership in Ownership:
            scope = replace(TO_C, ownership=ownership)
            led.feed(AckRead("c", scope, applied(led.machine, scope)))
        assert led.status() == (number, "switch", True)


def test_a_leader_that_has_not_offered_yet_begins_with_the_links_that_a_change_brings() -> None:
    """Its first round and the change's are one: what is new must be acknowledged. Spec: K27."""
    machine = NodeMachine(WITH_B, "a", "uuid-a")
    effects: list[object] = []
    for input_ in (
        LeadershipTaken(4, {TO_B: {"y": Interest()}}),
        ChangeRead(8, Stage.SWITCH, WITH_C),
        ClientsCaughtUp(),
        NeighbourCaughtUp("c"),
        LaneApplied(0, {CHANGE: change_version(8, Stage.SWITCH)}),
    ):
        effects += machine.step(input_)
    marks = {e.scope: e.mark for e in effects if isinstance(e, WriteMark)}
    assert marks[TO_B] is None
    assert marks[TO_C] is not None
    adverts = {(e.scope, e.filter_): e.interest for e in effects if isinstance(e, WriteAdvert)}
    assert adverts[TO_B, "y"] is None
    assert (TO_C, "$node/uuid-a") in adverts
    status = status_of(machine)
    assert (status.is_done, status.open_links) == (False, (("a", "c"),))
    acknowledge(machine)
    assert status_of(machine).is_done


def test_a_lane_that_is_taken_while_the_next_change_holds_tells_what_is_in_force() -> None:
    """Spec: K25, K28."""
    led = Led(WITH_B)
    led.feed(ChangeRead(8, Stage.RUN, WITH_C), ChangeRead(9, Stage.HOLD))
    led.pass_time()
    assert led.machine.in_force[CHANGE] == (9, 0)
    assert led.machine.topology == WITH_C
    assert led.machine.learner.all_cuts()[CHANGE] == 8


def address_read(led: Led, node: str, offset: int, number: int) -> list[object]:
    """Have b offer the address of a node in the mark of a number; return the cuts announced."""
    address, interest = f"$node/uuid-{node}", Interest(durable=False, clients_offset=offset)
    mark = Mark(7, number, 1, entry_digest(address, interest))
    effects = led.feed(AdvertRead("b", FROM, address, interest), MarkRead("b", FROM, mark))
    effects += led.pass_time(200)
    return [cut for e in effects if isinstance(e, Reroute) for cut in e.cuts.items()]


def test_who_becomes_known_while_nodes_switch_is_cut_once_all_have() -> None:
    """What b offers meanwhile it may have heard over a link that is gone. Spec: K25, K28."""
    led = Led(WITH_B)
    assert address_read(led, "b", 1, 1) == [("uuid-b", 1)]
    led.feed(ChangeRead(8, Stage.SWITCH, WITH_BOTH))
    led.pass_time()
    assert address_read(led, "b", 2, 2) == [("uuid-b", 2)]  # its walk stays
    led.feed(AdvertRead("b", FROM, "$node/uuid-b", None))
    assert address_read(led, "d", 5, 3) == []
    assert led.machine.learner.all_cuts() == {CHANGE: 8, "uuid-a": -1}
    assert not led.machine.learner.pending.has_news
    [reroute] = [e for e in led.feed(ChangeRead(8, Stage.RUN)) if isinstance(e, Reroute)]
    assert reroute.cuts == {CHANGE: 8, "uuid-a": -1, "uuid-d": 5}
    assert led.machine.learner.all_cuts()["uuid-d"] == 5


def test_who_became_known_while_nodes_switched_and_is_gone_again_has_no_cut() -> None:
    """Spec: K25, K28."""
    led = Led(WITH_B)
    led.feed(ChangeRead(8, Stage.SWITCH, WITH_BOTH))
    led.pass_time()
    address_read(led, "d", 5, 1)
    none = Mark(7, 2, 0, 0)
    led.feed(AdvertRead("b", FROM, "$node/uuid-d", None), MarkRead("b", FROM, none))
    led.pass_time()
    [reroute] = [e for e in led.feed(ChangeRead(8, Stage.RUN)) if isinstance(e, Reroute)]
    assert reroute.cuts == {CHANGE: 8, "uuid-a": -1}


def test_once_all_work_by_a_topology_it_is_told_who_is_known_by_it() -> None:
    """By other rules on the way, what was told before says nothing of what comes. Spec: K25."""
    led = Led(WITH_B)
    address_read(led, "b", 1, 1)
    switched = [*led.feed(ChangeRead(8, Stage.SWITCH, WITH_B)), *led.pass_time()]
    assert [e.cuts for e in switched if isinstance(e, Reroute)] == [{CHANGE: 8}]
    [reroute] = [e for e in led.feed(ChangeRead(8, Stage.RUN)) if isinstance(e, Reroute)]
    assert list(reroute.cuts.items()) == [(CHANGE, 8), ("uuid-a", -1), ("uuid-b", 1)]


def test_what_is_in_force_cannot_be_aborted_and_older_words_change_nothing() -> None:
    """Spec: K28."""
    led = Led(WITH_B)
    led.feed(ChangeRead(8, Stage.SWITCH, WITH_C))
    led.pass_time()
    assert led.feed(ChangeRead(8, Stage.ABORT)) == []
    assert led.feed(ChangeRead(8, Stage.HOLD)) == []
    assert led.feed(ChangeRead(7, Stage.RUN, WITH_B)) == []
    assert led.machine.topology == WITH_C


def test_versions_of_a_scope_that_comes_back_go_on() -> None:
    """What a reader acknowledged of its former life must not count. Spec: K23, K24."""
    led = Led(WITH_B)
    led.feed(SubscriptionRead(0, "s", "y", Subscription()))
    led.pass_time()
    led.feed(ChangeRead(8, Stage.SWITCH, WITH_C))
    led.pass_time()
    effects = [*led.feed(ChangeRead(9, Stage.SWITCH, WITH_B)), *led.pass_time()]
    [mark] = [e.mark for e in effects if isinstance(e, WriteMark) and e.scope == TO_B]
    assert (mark.epoch, mark.number, mark.count) == (3, 3, 2)
    led.feed(NeighbourCaughtUp("b"), AckRead("b", TO_B, applied(led.machine, TO_B)))
    assert led.status() == (9, "switch", False)


def test_a_new_leader_takes_back_what_was_offered_by_other_links() -> None:
    """Spec: K16, K28."""
    machine = NodeMachine(WITH_C, "a", "uuid-a", change=(8, Stage.SWITCH))
    machine.step(LeadershipTaken(4, {TO_B: {"y": Interest()}}))
    effects = [
        effect
        for input_ in (
            ClientsCaughtUp(),
            NeighbourCaughtUp("c"),
            LaneApplied(0, {CHANGE: change_version(8, Stage.SWITCH)}),
        )
        for effect in machine.step(input_)
    ]
    assert WriteAdvert(TO_B, "y", None) in effects
    assert WriteMark(TO_B, None) in effects


def test_a_link_whose_kind_or_joins_change_is_another_link() -> None:
    """Spec: K27."""
    pair = {"kind": "one-hop", "links": [["a", "b"]]}
    assert link_changes(WITH_B, topology(Z=pair), "a").gone == ("b",)
    assert link_changes(WITH_B, topology(Y=links("ab")), "b").added == ("a",)
    one = topology(J={"kind": "join", "from": "a", "to": "b"})
    more = topology(
        J={"kind": "join", "from": "a", "to": "b"}, K={"kind": "join", "from": "b", "to": "c"}
    )
    for node in "ab":  # both ends see it: addresses come back over a to b in longer rows now
        assert link_changes(one, more, node).gone == ("ab".replace(node, ""),)
    assert link_changes(WITH_B, WITH_BOTH, "b").gone == ()


def test_a_node_that_is_removed_stays_without_links() -> None:
    """Spec: K28."""
    without = topology_from_mapping(
        {"kafka": {"k": {}}, "nodes": {"b": {}, "c": {}}, "zones": {"Z": links("bc")}}
    )
    found = with_node(without, "a", WITH_B)
    assert found.neighbours("a") == []
    assert found.nodes["a"] == replace(WITH_B.nodes["a"], is_member=False)


def test_a_node_takes_the_realm_that_it_is_given_and_nothing_else_that_is_said_of_it() -> None:
    """It acted by its former one until it was started again. Spec: tree_layer 5.14."""
    nodes = {"a": {"realm": "east", "lanes": 2}, "b": {}, "c": {}}
    given = topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": {"Z": links("bc")}})
    own = with_node(given, "a", WITH_B).nodes["a"]
    assert own == replace(WITH_B.nodes["a"], realm="east")


def test_a_round_ends_when_mates_follow_a_change_before_they_knew_of_it() -> None:
    """The link to b goes, and their lanes say no more what b wants. Spec: K25, K28."""
    led = Led(WITH_BOTH)
    led.pass_time()
    interest = (AdvertRead("b", FROM, "x", Interest()), MarkRead("b", FROM, X_PROVEN))
    [begun] = [one for one in led.feed(*interest) if isinstance(one, Reroute)]
    of_mate = {s: v for s, v in begun.in_force.items() if not s.startswith("b ")}
    version = change_version(1, Stage.SWITCH)
    led.feed(LaneApplied(0, {**of_mate, CHANGE: version}))
    led.feed(Ticked(led.now_ms + 200))
    assert led.machine.topology == WITH_BOTH
    led.feed(ChangeRead(1, Stage.SWITCH, WITH_C), Ticked(led.now_ms + 400))
    assert led.machine.topology == WITH_C
