"""The auditor follows a change: what counts is the topology by which each source was routed."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Change, Heartbeat, LinkState, Stage, Subscription
from mesh.model.findings import FindingKind
from mesh.model.interest_inputs import CHANGE
from mesh.model.state import Cut, Ledger
from mesh.model.topology import Topology
from mesh.wire.control import encode_change, encode_config
from mesh.wire.state import encode_ledger
from streaming.audits.claims import Span
from streaming.audits.cuts import CutKey
from streaming.audits.eras import OF_THE_FILE, SETTLE_S, UNKNOWN, Eras, Stretch
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.spans import claims_on
from streaming.audits.tickets import EVERYONE
from streaming.audits.ways import NOTHING_BETWEEN
from streaming.job.intake import take_batch, take_configs
from streaming.job.judge import Judge
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import (
    DeliveryRow,
    FramePlace,
    FrameRow,
    MicroBatch,
    SmallRow,
    SourceKey,
    TopicPartition,
)

PLACE = TopicPartition("mesh.a.in.g", 0)
SOURCE = SourceKey("aa", 0)
CONFIG = TopicPartition("mesh.config", 0)


def take(state: State, batch: MicroBatch, now_s: float, read_s: float = -inf) -> None:
    """Take a batch as the auditor does: first what it says of the topology."""
    state.register.now_s = now_s
    take_configs(state, batch.small, now_s, read_s)
    take_batch(state, batch, now_s)


def topology(nodes: str, *links: str) -> Topology:
    zones = {"Z": {"kind": "multi-hop", "links": [list(link) for link in links]}}
    return topology_from_mapping(
        {"kafka": {"k": {}}, "nodes": {name: {} for name in nodes}, "zones": zones}
    )


BEFORE = topology("abcd", "ab", "bc", "cd")
AFTER = topology("abcd", "ab", "bd", "cd")
WITH_BOTH = topology("abcd", "ab", "bd", "cd", "ac")
WITHOUT = topology("abc", "ab", "bc")
APART = topology("abc", "ab")


def cut(uuid: str, position: int, offset: int) -> Cut:
    return Cut(PLACE.topic, bytes(16), 0, position, uuid, offset)


def eras(*topologies: Topology) -> Eras:
    """The eras of a mesh that was given by the first, each from ten offsets further on."""
    made = Eras.of(topologies[0])
    for number, one in enumerate(topologies, 1):
        assert made.configured(number, published_text(one), 0.0)
        made.cut(cut(CHANGE, 10 * (number - 1), number))
    return made


def told(change: Change) -> SmallRow:
    return SmallRow(CONFIG, 0, "change", encode_change(change), 0)


def in_force(number: int, one: Topology) -> SmallRow:
    return SmallRow(CONFIG, 0, "topology", encode_config(number, published_text(one)), 0)


def delivery(*path: str) -> DeliveryRow:
    place = TopicPartition(f"mesh.{path[-1]}.ep.s", 0)
    return DeliveryRow(place, SOURCE, 0, tuple(path), 0, Digest(1, 1, 1, 1), 0, 0, 0, 0, 0)


def kinds(state: State) -> list[FindingKind]:
    return [one.kind for one in state.register.findings.values()]


@pytest.fixture
def state() -> State:
    made = State.of(BEFORE)
    made.names.topics["aa"] = PLACE.topic
    take(made, MicroBatch(small=[in_force(1, BEFORE)]), 0.0)
    return made


def test_a_node_that_can_be_reached_all_the_time_has_one_stretch() -> None:
    """Spec: K28, K31."""
    assert eras(BEFORE, AFTER).stretches(PLACE, "a", "d") == [Stretch()]
    assert eras(BEFORE).stretches(PLACE, "a", "d") == [Stretch()]


def zoned(kind: str, *zones: str) -> Topology:
    """Nodes whose zones are told by their names; each zone is fully linked."""
    nodes = {name: {} for name in "".join(zones)}
    told = {f"Z{one}": {"kind": kind, "nodes": list(one)} for one in zones}
    return topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": told})


@pytest.mark.parametrize(
    ("topologies", "trail", "here", "node", "is_led"),
    [
        ([zoned("one-hop", "abc")], "a", "b", "c", False),
        ([zoned("cluster", "abc")], "a", "b", "c", False),
        ([zoned("one-hop", "abc")], "a", "c", "c", True),
        ([zoned("one-hop", "abc", "cde")], "a", "c", "e", True),
        ([zoned("one-hop", "abc", "cde")], "a", "b", "e", False),
        ([topology("abcd", "ab", "bc", "bd")], "ab", "c", "d", False),
        ([zoned("one-hop", "abc"), topology("abc", "ab", "bc")], "a", "b", "c", True),
        ([topology("abc", "ab", "bc"), topology("abc", "ac", "cb")], "a", "c", "b", True),
        ([topology("ab", "ab"), zoned("one-hop", "abc")], "a", "c", "b", False),
        ([zoned("one-hop", "abc")], "a", "b", "x", True),
        ([topology("abcd", "ab", "cd")], "ac", "d", "b", True),
    ],
    ids=[
        *("one hop", "cluster", "there", "next zone", "no zone of it", "back", "before", "after"),
        *("new node", "nobody knows it", "no walk so far"),
    ],
)
def test_a_message_goes_on_by_the_rules_of_zones_that_are_in_force_or_were(
    topologies: list[Topology], trail: str, here: str, node: str, *, is_led: bool
) -> None:
    """While nodes take a change one by one, by the rules of either."""
    made = eras(*topologies)
    assert made.leads(tuple(trail), here, node) == is_led


TO_D, TO_X = (TopicPartition(f"mesh.c.to.{one}.g", 0) for one in "dx")


def test_a_link_that_was_removed_is_read_by_nobody_once_its_walks_have_ended() -> None:
    """d was given up. Its own endpoints wait for it; of a link of no topology nobody can tell."""
    made = eras(topology("abcd", "ab", "bc", "cd"), WITHOUT)
    assert not made.is_left(TO_D, "b"), "something may be on its way"
    made.settle(SETTLE_S, is_lagging=False)
    assert made.is_left(TO_D, "b")
    assert made.is_left(TO_D, EVERYONE)
    assert not made.is_left(TO_D, "d")
    assert not made.is_left(TO_X, "b")
    assert not made.is_left(TopicPartition("mesh.b.to.c.g", 0), "a")
    assert made.configured(3, published_text(topology("abcd", "ab", "bc", "bd")), SETTLE_S)
    assert made.is_left(TO_D, "d"), "it is back, and reads no outbox of c"
    assert made.configured(4, published_text(topology("abcd", "ab", "bc", "cd")), SETTLE_S)
    assert not made.is_left(TO_D, "b")


def test_a_node_has_as_many_lanes_as_the_newest_topology_says_that_knows_it() -> None:
    made = eras(topology("abcd", "ab", "bc", "cd"), WITHOUT)
    assert [made.lanes_of("d"), made.lanes_of("x")] == [1, None]


def test_what_cannot_come_any_more_is_not_expected_and_what_comes_back_is() -> None:
    """Spec: K28, K31."""
    made = eras(BEFORE, WITHOUT, AFTER)
    assert made.stretches(PLACE, "a", "d") == [Stretch(0, 9), Stretch(20, era=3)]
    assert made.stretches(PLACE, "a", "a") == [Stretch()]
    interest = SubscriptionHistory()
    interest.subscribe(EndpointKey("d", "s"), ">", Subscription(), 0)
    for position, era in ((3, 1), (15, 2), (25, 3), (26, 3)):
        interest.lanes.cut(cut("u", position, 0), era)
    claims = claims_on(
        interest,
        EndpointKey("d", "s"),
        "u",
        PLACE,
        SOURCE,
        is_local=False,
        carriers=lambda *_: [],
        stretches=made.stretches(PLACE, "a", "d"),
    )
    assert [claim.span for claim in claims] == [Span(3, 9), Span(25)]


def test_before_the_first_topology_that_is_known_messages_may_come_from_everywhere() -> None:
    """A fresh auditor reads what is left of `mesh.config`, and older messages. Spec: K31."""
    made = Eras.of(AFTER)
    assert made.configured(5, published_text(AFTER), 0.0)
    made.cut(cut(CHANGE, 30, 5))
    before = Stretch(0, 29, UNKNOWN)
    assert made.stretches(PLACE, "a", "d") == [before, Stretch(30, era=5)]
    assert made.configured(6, published_text(WITHOUT), 0.0)
    made.cut(cut(CHANGE, 40, 6))
    assert made.stretches(PLACE, "a", "d") == [before, Stretch(30, 39, era=5)]
    assert made.stretches(PLACE, "a", "a") == [Stretch()], "nothing stands on that way"
    alone = Eras.of(WITHOUT)
    assert alone.stretches(PLACE, "b", "c") == [Stretch()]
    assert alone.configured(5, published_text(APART), 0.0)
    alone.cut(cut(CHANGE, 30, 5))
    assert alone.stretches(PLACE, "a", "c") == [before]


def test_what_a_forgotten_topology_may_have_kept_back_is_not_owed() -> None:
    """A join or a selector that is gone may have stood on the way. Spec: K31, EMS-14."""
    made = Eras.of(AFTER)
    assert made.configured(5, published_text(AFTER), 0.0)
    made.cut(cut(CHANGE, 30, 5))
    interest, endpoint = SubscriptionHistory(), EndpointKey("d", "s")
    interest.subscribe(endpoint, "acme/>", Subscription(), 0)
    for position, era in ((0, -1), (30, 5)):
        interest.lanes.cut(cut("u", position, 0), era)
    claims = claims_on(
        interest,
        endpoint,
        "u",
        PLACE,
        SOURCE,
        is_local=False,
        carriers=lambda *_: [],
        stretches=made.stretches(PLACE, "a", "d"),
        origin="a",
    )
    told = [(claim.span, claim.is_refusable) for claim in claims]
    assert told == [(None, True), (Span(30), False)]


def test_of_cuts_at_one_position_those_count_that_the_ledger_tells_after_the_change() -> None:
    """The change forgot what was known before it, though no message lies between. Spec: K25."""
    state = State.of(BEFORE)
    state.names.topics["aa"] = PLACE.topic
    state.eras = eras(BEFORE, WITHOUT)
    state.interest.subscribe(EndpointKey("b", "s"), ">", Subscription(), 0)
    told = [cut("u", 10, 0), cut(CHANGE, 10, 3), cut("u", 18, 0)]
    state.eras.configured(3, published_text(AFTER), 0.0)
    ledger = Ledger(node="a", lane=0, lane_epoch=1, cuts=told)
    place = TopicPartition("mesh.a.ledger", 0)
    take(state, MicroBatch(ledgers=[SmallRow(place, 0, "0", encode_ledger(ledger), 0)]), 0.0)
    stretches = [Stretch(0, 9), Stretch(10, era=3)]
    claims = claims_on(
        state.interest,
        EndpointKey("b", "s"),
        "u",
        PLACE,
        SOURCE,
        is_local=True,
        carriers=lambda *_: [],
        stretches=stretches,
    )
    assert [claim.span for claim in claims] == [None, Span(18)]


def test_what_own_clients_ask_for_no_change_has_lanes_forget() -> None:
    """Nothing was published before the first change: the first topology has no offsets. K25."""
    made = Eras.of(BEFORE)
    for number, one in enumerate((BEFORE, AFTER), 1):
        assert made.configured(number, published_text(one), 0.0)
    made.cut(cut(CHANGE, 0, 2))
    interest, endpoint = SubscriptionHistory(), EndpointKey("a", "s")
    interest.subscribe(endpoint, "acme/>", Subscription(), 0)
    interest.lanes.cut(cut("u", 0, 0))
    (claim,) = claims_on(
        interest,
        endpoint,
        "u",
        PLACE,
        SOURCE,
        is_local=True,
        carriers=lambda *_: [],
        stretches=made.stretches(PLACE, "a", "a"),
    )
    assert (claim.span, claim.is_untaken) == (Span(0), False)


def test_a_source_that_has_not_followed_is_in_the_former_era() -> None:
    """A node that was down takes the new topology when it starts. Spec: K25, K28."""
    made = Eras.of(BEFORE)
    for number, one in ((1, BEFORE), (2, WITHOUT)):
        made.configured(number, published_text(one), 0.0)
    assert made.stretches(PLACE, "a", "d") == [Stretch()]
    assert made.cut(cut(CHANGE, 7, 2))
    assert not made.cut(cut(CHANGE, 9, 2))  # a lane says it again when it is taken
    assert made.stretches(PLACE, "a", "d") == [Stretch(0, 6)]


def test_walks_of_both_topologies_are_planned_in_the_middle_of_a_change(state: State) -> None:
    """Spec: DESIGN 7, K28."""
    change = Change(2, Stage.HOLD, published_text(AFTER), ("a",))
    new, old = delivery("a", "b", "d"), delivery("a", "b", "c", "d")
    take(state, MicroBatch(small=[told(change)], deliveries=[old]), 0.0)
    assert kinds(state) == []
    take(state, MicroBatch(deliveries=[new]), 0.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]  # nobody works by it yet
    switch = replace(change, stage=Stage.SWITCH)
    take(state, MicroBatch(small=[told(switch)], deliveries=[old, new]), 0.0)
    assert kinds(state) == []  # what came before its topology was known is judged again
    mixed = delivery("a", "b", "d", "c", "b")
    take(state, MicroBatch(deliveries=[mixed, delivery("a", "c", "d")]), 0.0)
    assert sorted(kinds(state)) == [FindingKind.LOOP, FindingKind.UNPLANNED_PATH]


def test_walks_of_the_former_topology_end(state: State) -> None:
    """Spec: DESIGN 7, K28."""
    old = delivery("a", "b", "c", "d")
    rows = [told(Change(2, Stage.RUN, published_text(AFTER))), in_force(2, AFTER)]
    take(state, MicroBatch(small=rows, deliveries=[old]), 100.0)
    state.eras.settle(100.0 + 2 * SETTLE_S, is_lagging=True)
    take(state, MicroBatch(deliveries=[old]), 100.0)
    assert kinds(state) == []
    state.eras.settle(100.0 + 2 * SETTLE_S, is_lagging=False)
    take(state, MicroBatch(deliveries=[old]), 100.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]


def frame(link: str, path: tuple[str, ...], era: int | None) -> FrameRow:
    place = FramePlace(0, -1, 0, 0)
    sender, receiver = link.split(">")
    return FrameRow(
        place=TopicPartition(f"mesh.{sender}.to.{receiver}.g", 0),
        is_repair=False,
        kind="data",
        zone="Z",
        path=path,
        node=path[0],
        chain=SOURCE,
        source=SOURCE,
        generation=0,
        frames=1,
        messages=1,
        first=0,
        last=0,
        head=place,
        tail=place,
        broken=(),
        late=0,
        era=era,
    )


def test_a_frame_is_judged_by_the_topology_that_it_names(state: State) -> None:
    """What waited on a slow link goes the way of the topology before, long after the change."""
    rows = [told(Change(2, Stage.RUN, published_text(AFTER))), in_force(2, AFTER)]
    take(state, MicroBatch(small=rows), 100.0)
    state.eras.settle(100.0 + 2 * SETTLE_S, is_lagging=False)
    was, will_be = ("c>d", ("a", "b", "c")), ("b>d", ("a", "b"))
    take(state, MicroBatch(frames=[frame(*was, 1), frame(*will_be, 2)]), 200.0)
    assert kinds(state) == []
    take(state, MicroBatch(deliveries=[delivery("a", "b", "c", "d")]), 230.0)
    assert kinds(state) == []  # its frame has just come
    take(state, MicroBatch(frames=[frame(*was, 2)]), 300.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]
    take(state, MicroBatch(deliveries=[delivery("a", "b", "c", "d")]), 400.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH] * 2


def test_a_link_carries_what_was_taken_by_the_topology_before_it_was_made(state: State) -> None:
    """Nodes take a change one by one: b has the link to d while a still goes by the former. K10."""
    rows = [told(Change(2, Stage.RUN, published_text(AFTER))), in_force(2, AFTER)]
    take(state, MicroBatch(small=[*rows, in_force(3, APART)]), 100.0)
    state.eras.settle(100.0 + 2 * SETTLE_S, is_lagging=False)
    take(state, MicroBatch(frames=[frame("b>d", ("a", "b"), 1)]), 200.0)
    assert kinds(state) == []
    take(state, MicroBatch(frames=[frame("c>d", ("a", "b", "c"), 3)]), 200.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]


def leave_at_five(state: State) -> None:
    """Have a source follow the second topology from its offset 5 on, long ago."""
    rows = [told(Change(2, Stage.RUN, published_text(AFTER))), in_force(2, AFTER)]
    state.names.topics[bytes(16).hex()] = PLACE.topic
    began = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 5, 2),)))
    ledger = SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", began, 0)
    take(state, MicroBatch(small=rows, ledgers=[ledger]), 100.0)
    state.eras.settle(100.0 + 2 * SETTLE_S, is_lagging=False)


def test_what_waited_for_a_dead_node_comes_by_the_walk_of_its_time(state: State) -> None:
    """Its frames were read long ago; of the delivery the ledger of the origin tells the topology."""
    leave_at_five(state)
    came = delivery("a", "b", "c", "d")._replace(source=SourceKey(bytes(16).hex(), 0))
    take(state, MicroBatch(deliveries=[came._replace(first=3, last=4)]), 4000.0)
    assert kinds(state) == []
    take(state, MicroBatch(deliveries=[came._replace(first=5, last=6)]), 4000.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]


def test_a_fault_of_old_stays_one_when_a_change_brings_the_link(state: State) -> None:
    """It used to be taken back, so that a mesh was in order again after any change."""
    old, late = delivery("a", "b", "d"), delivery("a", "c", "d")
    take(state, MicroBatch(deliveries=[old]), 0.0)
    take(state, MicroBatch(deliveries=[late]), 600.0)
    take(state, MicroBatch(small=[in_force(2, WITH_BOTH)]), 601.0, read_s=599.0)
    assert [one.path for one in state.register.findings.values()] == [("a", "b", "d")]


@pytest.mark.parametrize("hours", [-24, 0, 24])
@pytest.mark.parametrize("is_excused", [False, True])
def test_what_was_read_excuses_a_way_and_no_clock(
    state: State, hours: int, *, is_excused: bool
) -> None:
    """The wall clock of the auditor, or a broker's, may be put forward or back at any time."""
    take(state, MicroBatch(deliveries=[delivery("a", "b", "d")]), 600.0)
    written = replace(in_force(2, WITH_BOTH), at_ms=state.register.now_ms + 3_600_000 * hours)
    state.register.now_ms -= 3_600_000 * hours
    take(state, MicroBatch(small=[written]), 900.0, read_s=599.0 if is_excused else 600.0)
    assert kinds(state) == ([] if is_excused else [FindingKind.UNPLANNED_PATH])


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_topology_that_is_read_late_excuses_the_way_of_what_a_queue_has_moved(
    state: State, *, is_moved: bool
) -> None:
    """Its way begins at a member of the queue: an auditor that began late found it unplanned."""
    moved = delivery("b", "d")._replace(is_moved=is_moved)
    sent = replace(frame("b>d", ("b",), None), is_moved=is_moved, node="a")
    take(state, MicroBatch(deliveries=[moved], frames=[sent]), 600.0)
    unplanned = [one for one in kinds(state) if one is FindingKind.UNPLANNED_PATH]
    assert len(unplanned) == 2
    take(state, MicroBatch(small=[in_force(2, WITH_BOTH)]), 601.0)
    assert kinds(state) == ([] if is_moved else unplanned)


def test_what_had_not_been_read_before_a_restart_may_excuse_a_way_after_it(state: State) -> None:
    """Nor does it matter how the clocks of two processes stand to each other."""
    take(state, MicroBatch(deliveries=[delivery("a", "b", "d")]), 600.0)
    state.register.keep(600.0)
    take(state, MicroBatch(deliveries=[delivery("a", "c", "d")]), 700.0)
    state.register.keep(600.0)
    state.rest(20.0)
    take(state, MicroBatch(small=[in_force(2, WITH_BOTH)]), 21.0)
    assert [one.path for one in state.register.findings.values()] == [("a", "b", "d")]


@pytest.mark.parametrize("is_read_late", [False, True])
def test_the_way_of_messages_of_before_a_change_is_unproven_to_a_fresh_auditor(
    is_read_late: bool,
) -> None:
    """It reads what compaction has left of `mesh.config`: the link may have been there then."""
    state = State.of(AFTER)
    state.names.topics["aa"] = PLACE.topic
    began = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 5, 2),)))
    ledger = MicroBatch(ledgers=[SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", began, 0)])
    old = MicroBatch(deliveries=[delivery("a", "b", "c")])
    take(state, MicroBatch(small=[in_force(2, AFTER)]), 0.0)
    for batch in (old, ledger) if is_read_late else (ledger, old):
        take(state, batch, 1.0)
    assert kinds(state) == [FindingKind.UNPROVEN]
    new = delivery("a", "b", "c")._replace(block=0, first=5, last=5)
    take(state, MicroBatch(deliveries=[new]), 2.0)
    assert kinds(state) == [FindingKind.UNPROVEN, FindingKind.UNPLANNED_PATH]


@pytest.mark.parametrize("era", [1, None])
@pytest.mark.parametrize("is_read_late", [False, True])
def test_so_is_the_way_of_frames_that_lie_in_the_outbox_of_a_link_of_then(
    era: int | None, *, is_read_late: bool
) -> None:
    """An hour after a link was removed whoever began to audit found its frames unplanned."""
    state = State.of(AFTER)
    state.names.topics["aa"] = PLACE.topic
    began = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 5, 2),)))
    ledger = MicroBatch(ledgers=[SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", began, 0)])
    was = frame("b>c", ("a", "b"), era)
    old = MicroBatch(frames=[was])
    take(state, MicroBatch(small=[in_force(2, AFTER)]), 0.0)
    for batch in (old, ledger) if is_read_late else (ledger, old):
        take(state, batch, 1.0)
    assert kinds(state) == [FindingKind.UNPROVEN]
    assert [one.link for one in state.register.findings.values()] == ["b->c"]
    take(state, MicroBatch(frames=[replace(was, first=5, last=5)]), 2.0)
    assert kinds(state) == [FindingKind.UNPROVEN, FindingKind.UNPLANNED_PATH]


@pytest.mark.parametrize("is_read_late", [False, True])
def test_a_way_that_no_topology_could_have_is_a_fault_whichever_is_forgotten(
    is_read_late: bool,
) -> None:
    """A way begins where its message does and ends where that is: `unproven` passed a report."""
    state = State.of(AFTER)
    state.names.topics["aa"] = PLACE.topic
    began = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 5, 2),)))
    ledger = MicroBatch(ledgers=[SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", began, 0)])
    elsewhere = delivery("a", "b", "c")._replace(path=("a", "b", "d")), delivery("b", "c")
    sent = [replace(frame("b>c", path, 1), node="a") for path in (("a", "d"), ("b",))]
    old = MicroBatch(deliveries=list(elsewhere), frames=sent)
    take(state, MicroBatch(small=[in_force(2, AFTER)]), 0.0)
    for batch in (old, ledger) if is_read_late else (ledger, old):
        take(state, batch, 1.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH] * 4


def test_what_was_moved_from_where_no_queue_is_stays_a_fault_by_a_forgotten_topology() -> None:
    """Who may move messages is told by subscriptions: no topology excuses it."""
    state = State.of(AFTER)
    state.names.topics["aa"] = PLACE.topic
    moved = replace(frame("b>d", ("b",), 2), is_moved=True)
    take(state, MicroBatch(small=[in_force(2, AFTER)], frames=[moved]), 0.0)
    judgement = Judge(None, state, state.world(lambda _: None), 100.0)  # type: ignore[arg-type]
    judgement.look_at_rest(100.0, is_past=False)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]
    began = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 5, 2),)))
    ledger = SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", began, 0)
    take(state, MicroBatch(ledgers=[ledger]), 101.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]


def test_a_source_whose_newest_topology_is_forgotten_goes_by_none_that_is_known() -> None:
    """Its node was down during a change: what it had routed was owed, and judged, by the next one.

    Spec: K25, K28, K31.
    """
    made = Eras.of(AFTER)
    assert made.configured(5, published_text(AFTER), 0.0)
    made.cut(cut(CHANGE, 0, 3))
    made.cut(cut(CHANGE, 10, 4))
    assert made.stretches(PLACE, "a", "d") == [Stretch(0, None, UNKNOWN)]
    assert made.configured(6, published_text(WITHOUT), 0.0)
    made.cut(cut(CHANGE, 40, 6))
    assert made.stretches(PLACE, "a", "d") == [Stretch(0, 39, UNKNOWN)]
    assert made.stretches(PLACE, "a", "c") == [Stretch(0, 39, UNKNOWN), Stretch(40, era=6)]


def test_a_way_of_a_source_whose_newest_topology_is_forgotten_is_unproven() -> None:
    """So it was called a fault until the node had followed."""
    state = State.of(AFTER)
    state.names.topics["aa"] = PLACE.topic
    began = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 0, 1),)))
    ledger = SmallRow(TopicPartition("mesh.a.ledger", 0), 0, "", began, 0)
    old = [delivery("a", "b", "c")]
    take(state, MicroBatch([], old, small=[in_force(2, AFTER)], ledgers=[ledger]), 0.0)
    assert kinds(state) == [FindingKind.UNPROVEN]


def test_a_change_that_is_aborted_counts_for_nothing(state: State) -> None:
    """Spec: K28."""
    rows = [told(Change(2, stage, published_text(AFTER))) for stage in (Stage.HOLD, Stage.ABORT)]
    take(state, MicroBatch(small=rows), 0.0)
    assert list(state.eras.texts) == [1]


def test_a_link_that_a_change_removes_is_no_split(state: State) -> None:
    """Spec: K28, K32."""
    splits = state.splits

    def live(since: int, *pairs: str) -> list[FindingKind]:
        found = []
        for beat in range(since, since + 40):
            for node in "abcd":
                splits.beat(node, Heartbeat(1, beat, True), float(beat))
            for one, other in pairs:
                for reader, neighbour in ((one, other), (other, one)):
                    splits.acknowledge(reader, neighbour, LinkState(1, beat))
            splits.taken("abcd", is_whole=True)
            found += [one.kind for one in splits.judge(float(beat))]
        return found

    take(state, MicroBatch(small=[told(Change(2, Stage.RUN, published_text(WITHOUT)))]), 0.0)
    assert live(1, "ab", "bc") == []
    assert splits.links == [("a", "b"), ("b", "c")]
    assert live(41, "ab") == [FindingKind.SPLIT]


def test_an_auditor_that_is_told_of_an_older_file_goes_by_what_is_in_force(state: State) -> None:
    """Spec: K28."""
    take(state, MicroBatch(small=[in_force(2, AFTER)]), 0.0)
    assert state.eras.number == 2
    assert [one.nodes for one in state.eras.linked()] == [AFTER.nodes]
    assert state.eras.homes() == dict.fromkeys("abcd", "k")


def test_a_kafka_cluster_counts_until_the_walks_of_its_last_node_have_ended() -> None:
    """What was on its way when a change moved the last node is still read; then nobody waits."""

    def nodes(**kafka_of: str) -> Topology:
        return topology_from_mapping(
            {
                "kafka": {"k1": {}, "k2": {}, "spare": {}},
                "nodes": {name: {"kafka": kafka} for name, kafka in kafka_of.items()},
                "zones": {"Z": {"kind": "one-hop", "nodes": list(kafka_of)}},
            }
        )

    before, after = nodes(a="k1", b="k2"), nodes(a="k1", b="k1")
    made = Eras.of(before)
    assert set(made.kafkas()) == {"k1", "k2"}
    assert made.configured(1, published_text(before), 0.0)
    made.settle(SETTLE_S, is_lagging=False)
    assert made.changed(Change(2, Stage.SWITCH, published_text(after)), 20.0)
    assert set(made.kafkas()) == {"k1", "k2"}
    assert made.configured(2, published_text(after), 30.0)
    made.settle(30.0 + SETTLE_S, is_lagging=True)
    assert set(made.kafkas()) == {"k1", "k2"}
    made.settle(30.0 + SETTLE_S, is_lagging=False)
    assert set(made.kafkas()) == {"k1"}


def test_a_frame_cannot_name_a_topology_that_its_source_has_left(state: State) -> None:
    """One that says so would take walks of long ago, and clear deliveries that took them."""
    leave_at_five(state)
    source = SourceKey(bytes(16).hex(), 0)
    was = replace(frame("c>d", ("a", "b", "c"), 1), source=source)
    take(state, MicroBatch(frames=[replace(was, first=4, last=7)]), 200.0)
    assert kinds(state) == []  # it began before
    lying = replace(was, first=5, last=7)
    take(state, MicroBatch(frames=[lying, replace(lying, era=3)]), 400.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH]
    state.register.findings.clear()
    take(state, MicroBatch(frames=[lying]), 500.0)
    late = delivery("a", "b", "c", "d")._replace(source=source, first=5, last=5)
    take(state, MicroBatch(deliveries=[late]), 501.0)
    assert kinds(state) == [FindingKind.UNPLANNED_PATH] * 2


def test_a_record_of_another_mesh_or_of_no_number_changes_nothing(state: State) -> None:
    """By its topic names nothing here could be judged."""
    assert not state.eras.configured(-1, published_text(AFTER), 0.0)
    assert not state.eras.configured(9, published_text(replace(AFTER, prefix="other.")), 0.0)
    assert list(state.eras.texts) == [1]


def test_walks_of_a_former_topology_end_as_late_on_a_host_that_has_run_for_longer(
    state: State,
) -> None:
    """Its clock is far ahead, and the walks were at an end at once: late ones were unplanned."""
    take(state, MicroBatch(small=[in_force(2, WITH_BOTH)]), 600.0)
    begun = state.eras.settled
    state.clock_s = 601.0
    state.rest(1_000_000.0)
    state.eras.settle(1_000_000.0 + SETTLE_S - 2, is_lagging=False)
    assert state.eras.settled == begun
    state.eras.settle(1_000_000.0 + SETTLE_S - 1, is_lagging=False)
    assert state.eras.settled == 2


def test_what_was_routed_by_a_topology_that_is_not_read_yet_is_owed_to_nobody_so_far() -> None:
    """`mesh.config` may be in a Kafka cluster that is read late: its end of a walk made it lost."""
    made = eras(BEFORE)
    made.cut(cut(CHANGE, 10, 2))
    known, unknown = made.stretches(PLACE, "a", "d")
    assert (known, unknown) == (Stretch(0, 9), Stretch(10, None, UNKNOWN, 2))
    assert made.configured(2, published_text(WITHOUT), 0.0)
    assert made.stretches(PLACE, "a", "d") == [Stretch(0, 9)]


def test_a_topology_that_nobody_has_put_in_force_counts_for_nothing(state: State) -> None:
    """One forged cut of a huge number left all that came later without proof, for good."""
    forged = encode_ledger(
        Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 5, 10**9), cut("u", 6, 3)))
    )
    ledger = SmallRow(TopicPartition("mesh.a.ledger", 0), 7, "", forged, 0)
    take(state, MicroBatch(ledgers=[ledger]), 100.0)
    judgement = Judge(None, state, state.world(lambda _: None), 100.0)  # type: ignore[arg-type]
    judgement.look_at_rest(100.0, is_past=False)  # it may be told yet
    assert kinds(state) == []
    assert state.eras.stretches(PLACE, "a", "d")[-1].between is UNKNOWN
    version = state.interest.version
    judgement.look_at_rest(100.5, is_past=False)
    assert kinds(state) == [FindingKind.UNEXPECTED]
    (finding,) = state.register.findings.values()
    assert finding.evidence == ("mesh.a.ledger/0@7",)
    assert state.interest.version > version
    assert state.eras.stretches(PLACE, "a", "d") == [Stretch()]
    assert [one.era for one in state.interest.lanes.cuts[CutKey(PLACE, "u")]] == [OF_THE_FILE]
    change = told(Change(2, Stage.RUN, published_text(WITHOUT)))
    true = encode_ledger(Ledger(node="a", lane=0, lane_epoch=1, cuts=(cut(CHANGE, 9, 2),)))
    take(state, MicroBatch(small=[change], ledgers=[replace(ledger, value=true)]), 200.0)
    judgement.look_at_rest(300.0, is_past=False)
    assert kinds(state) == [FindingKind.UNEXPECTED]
    assert state.eras.stretches(PLACE, "a", "d") == [Stretch(0, 8)]


@pytest.mark.parametrize("key", ["topology", "change"])
def test_a_topology_that_nobody_can_decode_is_told_and_what_comes_after_it_counts(
    state: State, key: str
) -> None:
    """Records of nodes that are none were told, and those of the whole mesh were not."""
    spoiled = SmallRow(CONFIG, 7, key, b"orders", 0)
    take(state, MicroBatch(small=[spoiled, in_force(2, WITHOUT)]), 100.0)
    (finding,) = state.register.findings.values()
    assert (finding.kind, finding.evidence) == (FindingKind.UNEXPECTED, ("mesh.config/0@7",))
    assert state.eras.number == 2


def test_a_topology_that_this_version_cannot_read_is_not_invented(state: State) -> None:
    """Nor is one that is told after the lane has gone over to it."""
    state.eras.cut(cut(CHANGE, 5, 3), now_s=100.0)
    assert not state.eras.configured(3, "{}", 101.0)
    assert list(state.eras.invented(500.0)) == []
    assert state.eras.stretches(PLACE, "a", "d")[-1].between is UNKNOWN


def test_a_topology_that_was_compacted_away_between_two_that_are_known_counts_as_unknown() -> None:
    made = eras(BEFORE, AFTER)
    made.cut(cut(CHANGE, 30, 4))
    assert made.configured(4, published_text(WITH_BOTH), 0.0)
    made.begins[PLACE].insert(2, (3, 20))
    assert [(one.first, one.between) for one in made.stretches(PLACE, "a", "d")] == [
        (0, NOTHING_BETWEEN),
        (20, UNKNOWN),
        (30, NOTHING_BETWEEN),
    ]
