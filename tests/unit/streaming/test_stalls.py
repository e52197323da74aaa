"""What stands still: hops that pass nothing on, subscriptions that nobody takes up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Heartbeat, LinkState, LinkStatus, Subscription
from mesh.model.findings import FindingKind
from mesh.model.interest_inputs import CHANGE
from mesh.model.state import Cut
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from streaming.audits.accounts import Account, CountBelow
from streaming.audits.chains import ChainHead, ChainKey
from streaming.audits.finding_register import Register
from streaming.audits.interest import EndpointKey
from streaming.audits.silences import silent
from streaming.audits.splits import PairKey
from streaming.audits.stalls import STALLED_S, Stalls, UntakenSubscription
from streaming.audits.tickets import PositionKey, Standstill
from streaming.audits.untaken_subscriptions import untaken_subscriptions
from streaming.job.state import State
from streaming.tables.digest import Digest
from streaming.tables.rows import IngressRow, SourceKey, TopicPartition

HOP = "b at mesh.a.to.b.g/0"
PLACE = TopicPartition("mesh.a.in.g", 0)
ENDPOINT = EndpointKey("b", "s1")


def stop(read: int = 1) -> dict[str, Standstill]:
    return {HOP: Standstill("b", f"{HOP}: read up to {read} of 9")}


def kinds(register: Register) -> list[tuple[str, str, str]]:
    return [(one.kind.value, one.node, one.source) for one in register.findings.values()]


def test_a_hop_that_stands_still_for_a_minute_is_news_until_it_goes_on():
    """It is no loss, however long it takes. Spec: K30."""
    stalls, register = Stalls(), Register()
    stalls.judge_hops(stop(), 100.0, register)
    stalls.judge_hops(stop(), 100.0 + STALLED_S - 1, register)
    assert kinds(register) == []
    stalls.judge_hops(stop(), 100.0 + STALLED_S, register)
    assert kinds(register) == [("stalled", "b", HOP)]
    stalls.judge_hops(stop(2), 200.0, register)
    assert kinds(register) == []
    stalls.judge_hops(stop(2), 200.0 + STALLED_S, register)
    assert kinds(register) == [("stalled", "b", HOP)]
    stalls.judge_hops({}, 300.0, register)
    assert kinds(register) == []
    assert FindingKind.STALLED.is_news


def test_a_clock_that_began_anew_begins_the_minute_anew():
    """After a restart on a host that has run for a shorter time."""
    stalls, register = Stalls(), Register()
    stalls.judge_hops(stop(), 9000.0, register)
    stalls.judge_hops(stop(), 10.0, register)
    stalls.judge_hops(stop(), 10.0 + STALLED_S - 1, register)
    assert kinds(register) == []
    stalls.judge_hops(stop(), 10.0 + STALLED_S, register)
    assert kinds(register) == [("stalled", "b", HOP)]


@pytest.mark.parametrize("ahead_s", [1_000_000.0, -9_000.0], ids=["ahead", "behind"])
def test_what_stands_still_is_told_after_a_minute_by_the_clocks_of_two_hosts(state, ahead_s):
    """A host that had run for longer used to make it stand still for as long, and told it at once.

    The minute goes on where it was when the state was saved: else an auditor that is restarted
    every minute would never tell anything.
    """

    def judge(now_s: float) -> None:
        state.stalls.judge_hops(stop(), now_s, state.register)
        state.stalls.judge_links({"a->b": Standstill("b", "frames wait")}, now_s, state.register)
        state.stalls.judge_interest(
            {UntakenSubscription(ENDPOINT, PLACE): None}, now_s, state.register
        )

    judge(9_000.0)
    state.clock_s = 9_020.0
    state.rest(9_020.0 + ahead_s)
    judge(9_059.0 + ahead_s)
    assert kinds(state.register) == []
    judge(9_060.0 + ahead_s)
    assert len(kinds(state.register)) == 3


def test_a_link_over_which_nothing_moves_is_news_until_it_does():
    """Also where nobody is owed what waits, and where the mesh is still in one part."""
    stalls, register = Stalls(), Register()
    link = "a->b"
    for now_s in (100.0, 100.0 + STALLED_S):
        stalls.judge_links(
            {link: Standstill("b", "b has read heartbeat 1/5 of a")}, now_s, register
        )
    (one,) = register.findings.values()
    assert (one.kind, one.link, one.node) == ("silent-link", link, "b")
    stalls.judge_links({link: Standstill("b", "b has read heartbeat 1/6 of a")}, 161.0, register)
    assert kinds(register) == []
    assert FindingKind.SILENT_LINK.is_news


def state_of(topology: Topology, endpoint: EndpointKey = ENDPOINT) -> State:
    """All nodes beat, one subscribes, and a has published what it wants."""
    made = State.of(topology)
    made.names.uuids.update({name: f"uuid-{name}" for name in topology.nodes})
    made.names.tell(PLACE.topic, "aa")
    made.interest.subscribe(endpoint, "acme/>", Subscription(), 3)
    row = IngressRow(PLACE, 0, "acme/x", Digest(1, 2, 3, 4, 5), 0, 0)
    made.certifier.blocks.publish([row], 100.0)
    for node in topology.nodes:
        made.splits.beat(node, Heartbeat(1, 1, ready=True), 100.0)
    return made


@pytest.fixture
def state() -> State:
    """Two nodes; b subscribes."""
    return state_of(
        Topology(
            name="two",
            kafka={"k": DeclaredKafka(name="k")},
            nodes={name: Node(name=name, kafka="k") for name in "ab"},
            zones={"Z": Zone.full_mesh("Z", ZoneKind.ONE_HOP, ["a", "b"])},
            audit_kafka="k",
        )
    )


def look(state: State, now_s: float = 101.0):
    world = state.world(lambda _: {})
    return list(untaken_subscriptions(state.certifier.blocks, world, state.splits, now_s))


def test_a_subscription_that_no_lane_takes_up_is_found(state):
    """0 of 100 delivered used to be no finding, and no certificate."""
    (one,) = look(state)
    assert (one.endpoint, one.place) == (ENDPOINT, PLACE)
    stalls, register = Stalls(), Register()
    stalls.judge_interest(dict.fromkeys([one]), 100.0, register)
    stalls.judge_interest(dict.fromkeys([one]), 160.0, register)
    assert kinds(register) == [("stale-interest", "b", "mesh.a.in.g/0")]
    stalls.judge_interest({}, 161.0, register)
    assert kinds(register) == []


def test_one_that_a_lane_knows_is_none(state):
    state.interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "uuid-b", 3))
    assert look(state) == []


def test_who_has_an_older_version_only_does_not_know_it(state):
    state.interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "uuid-b", 2))
    assert len(look(state)) == 1


def test_a_node_that_nobody_can_name_is_owed_something_all_the_same(state):
    """Its identity cannot be read: 0 of 100 delivered used to be no finding."""
    del state.names.uuids["b"]
    assert len(look(state)) == 1


def test_a_cut_ahead_of_all_that_its_lane_has_read_tells_nothing(state):
    """From there on, and that is never, it was owed."""
    state.interest.lanes.cut(Cut(PLACE.topic, b"", 0, 10**12, "uuid-b", 3))
    assert len(look(state)) == 1
    state.progress.generation_of[PLACE] = 1  # a truncated log is shorter than what cuts tell
    assert look(state) == []


def test_what_a_lane_knew_by_a_former_topology_it_may_have_forgotten(state):
    """A subscription that no lane takes up after a change was owed nothing, and told by nobody."""
    topology = state.eras.linked()[-1]
    state.interest.lanes.cut(Cut(PLACE.topic, b"", 0, 0, "uuid-b", 3))
    for number, one in enumerate((topology, replace(topology, zones={}), topology)):
        state.eras.configured(number, published_text(one), 100.0)
        state.eras.cut(Cut(PLACE.topic, b"", 0, number, CHANGE, number))
    row = IngressRow(PLACE, 0, "acme/x", Digest(1, 2, 3, 4, 5), 9, 9)
    state.certifier.blocks.publish([row], 100.0)
    assert len(look(state)) == 1
    state.interest.lanes.cut(Cut(PLACE.topic, b"", 0, 2, "uuid-b", 3), era=2)
    state.progress.positions[PositionKey("a", PLACE)] = 10
    assert look(state) == []


def test_nobody_expects_anything_of_the_dead_or_over_a_cut(state):
    assert look(state, now_s=130.0) == []
    state.splits.cut["a", "b"] = None
    assert look(state) == []


def row_of_four() -> Topology:
    """Nodes a to d in a row."""
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["c", "d"]]}}
    nodes = {name: {} for name in "abcd"}
    return topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones})


@pytest.mark.parametrize(
    ("link", "is_told"),
    [(("a", "b"), False), (("b", "c"), False), (("c", "d"), True)],
    ids=["first", "second", "behind"],
)
@pytest.mark.parametrize("why", ["cut", "shut"])
def test_a_cut_explains_what_has_to_cross_it_and_nothing_else(link, why: str, *, is_told: bool):
    """Every finding was taken back while any link was cut, and told a minute after it again."""
    state = state_of(row_of_four(), EndpointKey("c", "s1"))
    assert len(look(state)) == 1
    if why == "cut":
        state.splits.cut[link] = None
    else:
        state.splits.shut[PairKey(*link)] = None
    assert len(look(state)) == is_told


def test_what_has_to_come_through_a_dead_node_is_expected_of_nobody():
    """Both ends beat, and no link is cut: it was told as a fault a minute later."""
    state = state_of(row_of_four(), EndpointKey("c", "s1"))
    for node in "acd":
        state.splits.beat(node, Heartbeat(1, 2, ready=True), 120.0)
    assert look(state, 121.0) == []
    state.splits.beat("b", Heartbeat(1, 2, ready=True), 120.0)
    assert len(look(state, 121.0)) == 1


def test_while_links_come_and_go_a_cut_may_explain_anything():
    """A change waits for nodes that nobody reaches."""
    state = state_of(row_of_four(), EndpointKey("c", "s1"))
    state.splits.cut["c", "d"] = None
    state.splits.is_changing = True
    assert look(state) == []


def test_a_subscription_that_nothing_published_meets_is_no_fault(state):
    state.interest.unsubscribe(ENDPOINT, "acme/>", 4)
    state.interest.subscribe(ENDPOINT, "other/>", Subscription(), 5)
    assert look(state) == []


@pytest.mark.parametrize(
    "zones",
    [
        {"Z": {"kind": "one-hop", "links": [["a", "b"], ["b", "c"]]}},
        {
            "Y": {"kind": "external", "links": [["a", "b"]]},
            "Z": {"kind": "external", "links": [["b", "c"]]},
        },
        {
            "Y": {"kind": "one-hop", "links": [["a", "b"]]},
            "Z": {"kind": "join", "from": "c", "to": "b"},
        },
    ],
    ids=["one hop", "external", "join"],
)
def test_nothing_is_owed_between_nodes_that_no_walk_joins(zones):
    """It was told as a fault of every mesh that had never been changed. Spec: DESIGN 3."""
    nodes = {name: {} for name in "abc"}
    topology = topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones})
    assert look(state_of(topology, EndpointKey("c", "s1"))) == []
    assert len(look(state_of(topology, ENDPOINT))) == 1


def links(state: State, now_s: float = 101.0) -> dict[str, str]:
    found = silent(state.splits, state.progress, state.chains, state.accounts, now_s)
    return {link: stop.reason for link, stop in found.items()}


OUTBOX = TopicPartition("mesh.a.to.b.g", 0)
DIRECT = TopicPartition("mesh.b.to.a.d", 1)


def test_nothing_waits_in_a_direct_outbox_that_was_recreated(state):
    """A link that was made anew and that nothing direct has crossed yet was told to be silent."""
    state.accounts.open[DIRECT] = Account(CountBelow(7, 20))
    state.progress.positions[PositionKey("a", DIRECT)] = 7
    state.forget_recreated(DIRECT, "ef", 0)
    assert links(state) == {}


def test_a_link_on_which_frames_wait_is_watched(state):
    """Guaranteed or direct; whatever moves is another way to stand."""
    assert links(state) == {}
    state.chains.heads[ChainKey(OUTBOX, SourceKey("aa", 0))] = ChainHead(9, 4)
    state.accounts.open[DIRECT] = Account(CountBelow(7, 20))
    state.progress.positions[PositionKey("b", OUTBOX)] = 3
    state.progress.positions[PositionKey("a", DIRECT)] = 7
    assert links(state) == {"a->b": "b has read no heartbeat of a, and mesh.a.to.b.g/0 up to 3"}
    state.splits.acknowledge("b", "a", LinkState(1, 8))
    assert links(state)["a->b"].startswith("b has read heartbeat 1/8 of a")
    state.progress.positions[PositionKey("b", OUTBOX)] = 5
    state.progress.positions[PositionKey("a", DIRECT)] = 6
    assert list(links(state)) == ["b->a"]


@pytest.mark.parametrize("word", ["disabled", "refused", "probing"])
def test_a_link_that_somebody_has_shut_may_stand_still(state, word):
    state.chains.heads[ChainKey(OUTBOX, SourceKey("aa", 0))] = ChainHead(9, 4)
    status = LinkStatus("a", "Z", word)
    state.splits.beat("b", Heartbeat(1, 2, ready=True, links=[status]), 100.0)
    assert links(state) == {}
    state.splits.beat("b", Heartbeat(1, 3, ready=True), 100.0)
    assert list(links(state)) == ["a->b"]


def test_of_a_dead_node_and_of_a_link_that_is_no_more_nothing_is_expected(state):
    state.chains.heads[ChainKey(OUTBOX, SourceKey("aa", 0))] = ChainHead(9, 4)
    assert list(links(state)) == ["a->b"]
    assert links(state, now_s=130.0) == {}
    state.splits.links = ()
    assert links(state) == {}
