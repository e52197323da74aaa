"""Rules that random lives seldom meet, one by one. Spec: tree_layer 4, 6, 8."""

from __future__ import annotations

from collections import Counter

from mesh.model.tree_apps import Resumed, RoleTaken, SnoopWanted
from mesh.model.tree_frames import (
    Cause,
    Frame,
    Grant,
    Options,
    Ping,
    Pong,
    RecoveryAnswer,
    RecoveryDone,
    RecoveryRequest,
    Reopen,
    Reply,
    ReplyKind,
    Send,
)
from mesh.model.tree_nodes import NODES
from mesh.model.trees import Extent, InstanceId, MessageId
from mesh.trees.inputs import AppGone
from mesh.trees.node import RESERVED
from mesh.trees.outputs import Transmit
from mesh.trees.settings import Settings
from tests.sim.trees.rules import check_quiet, hosts, inside
from tests.sim.trees.scenes import (
    REALMS,
    STAR,
    answer,
    ask,
    codes,
    hold_answers,
    kinds,
    said,
    world,
)
from tests.sim.trees.world import APP, World, address

PLACE = address("t", "r")
FAR = 10_000
"""More links than a frame may cross."""


def bodies(outputs: list, link: str) -> list:
    return [one.frame.body for one in outputs if isinstance(one, Transmit) and one.link == link]


def test_one_instance_stays_in_the_realm_also_with_one_response() -> None:
    """`one_response` is forced off, and nothing else with it. Spec: tree_layer 6.1, 8."""
    mesh = world(realms=REALMS, roles="c")
    options = {"one_instance": True, "one_response": True}
    assert kinds(ask(mesh, "a", local_realm=True, **options)) == [("not_found", True)]
    assert ask(mesh, "a", **options).reached == ["c"]


def test_a_message_that_has_gone_too_far_is_accounted_for() -> None:
    """Else whoever handed it on would wait for the reply. Spec: tree_layer 4 (H19), 6.3."""
    mesh = world(roles="c")
    for one_way in (False, True):
        mid = MessageId((90 + one_way) << 64)
        kept = (InstanceId(0), "", Options(one_way=one_way), b"", b"x", False, False, FAR)
        outputs = said(mesh, "a", "b", Send(mid, *PLACE, *kept))
        copy = Reply(mid, ReplyKind.DUPLICATE, is_last=True)
        assert bodies(outputs, "a") == ([] if one_way else [copy])
        assert not bodies(outputs, "c")
        mesh.run()


def test_a_recovery_that_has_gone_too_far_is_incomplete() -> None:
    """Its origin must not trust what it has not heard. Spec: tree_layer 5.8 (H19)."""
    mesh = world(roles="c")
    asked = RecoveryRequest(MessageId(91 << 64), *PLACE, Extent.CLOUD, MessageId(1), FAR)
    outputs = said(mesh, "a", "b", asked)
    assert bodies(outputs, "a") == [RecoveryDone(asked.id, ok=False)]
    assert not bodies(outputs, "c")


def test_what_waits_for_a_recovery_ends_with_its_application() -> None:
    """Nobody is given a message whose sender is gone. Spec: tree_layer 13."""
    mesh = world(roles="c")
    call = mesh.send("a", "r")
    assert inside(mesh, "a").recoveries
    call.was_gone = True
    mesh.step("a", AppGone(APP))
    mesh.run()
    check_quiet(mesh)
    assert (call.reached, call.answers) == ([], [])


def test_one_response_tells_an_incomplete_recovery_once() -> None:
    """With the answers, and not before them. Spec: tree_layer 6.4, 11 (17, 50)."""
    mesh = world((("a", "b"), ("a", "c")), roles="c")
    mesh.intercept = lambda a, _, frame: (
        [Frame(frame.session, frame.number, Reopen(MessageId(1)))]
        if a == "b" and isinstance(frame.body, (RecoveryAnswer, RecoveryDone))
        else [frame]
    )
    call = mesh.send("a", "r", one_response=True)
    mesh.run()
    assert kinds(call) == [("null", False), ("data", True)]
    assert call.answers[0].cause is Cause.RECOVERY_INCOMPLETE


def test_no_grant_goes_with_one_response() -> None:
    """Answers are gathered on the way; a grant is none of them. Spec: tree_layer 6.4, 6.5."""
    mesh = world(roles="c")
    held = hold_answers(mesh)
    call = mesh.send("a", "r", one_response=True)
    mesh.run(for_ms=1_000)
    refused = answer(mesh, held[0], grants=True, gives_up=True)
    assert codes(refused) == ["NOT_GRANTED"]
    answer(mesh, held[0])
    mesh.run()
    check_quiet(mesh)
    assert (kinds(call), list(hosts(mesh, PLACE))) == ([("data", True)], ["c"])


def test_a_role_is_not_given_to_who_cannot_be_reached() -> None:
    """It would be lost: the reply has no way to go. Spec: tree_layer 5.13, 6.9."""
    mesh = world(roles="c")
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.run(for_ms=1_000)
    mesh.cut("b", "c", (0, 0))
    mesh.run(for_ms=1_000)
    assert codes(answer(mesh, held[0], grants=True, gives_up=True)) == ["SENDER_GONE"]
    mesh.run()
    assert list(hosts(mesh, PLACE)) == ["c"]


def test_a_role_is_given_no_further_than_it_may_be_known() -> None:
    """A message of a role that everybody knows may ask for one of the node alone. Spec: tree_layer 5.2, 6.5."""
    mesh = world(roles="c")
    mesh.role("c", "own", extent=Extent.NODE)
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.run(for_ms=1_000)
    refused = answer(mesh, held[0], grants=True, gives_up=True, granted="own")
    assert codes(refused) == ["OUT_OF_EXTENT"]
    assert list(hosts(mesh, address("t", "own"))) == ["c"]


def test_who_has_a_role_needs_no_share_of_it() -> None:
    """An application has one instance of a role. Spec: tree_layer 5.13, 8."""
    mesh = world(roles="ac")
    held = hold_answers(mesh)
    before = hosts(mesh, PLACE)
    mesh.send("a", "r")
    mesh.run(for_ms=1_000)
    for one in held:
        assert not codes(answer(mesh, one, grants=one[0] == "c"))
    mesh.run()
    check_quiet(mesh)
    assert hosts(mesh, PLACE) == before


def test_nobody_is_given_what_every_node_has_by_itself() -> None:
    """A stranger's reply grants it all the same. Spec: tree_layer 7.5, 13."""
    mesh = world(roles="c")
    hold_answers(mesh)
    mesh.send("a", "r")
    mesh.run(for_ms=1_000)
    [session] = inside(mesh, "a").sessions.open.values()
    before = hosts(mesh, NODES)
    for gives_up in (False, True):
        grant = Grant(NODES, InstanceId(9), False, gives_up, 0, Extent.CLOUD, "")
        told = said(mesh, "b", "a", Reply(session.mid, ReplyKind.GRANT, False, grant=grant))
        assert not [one for one in told if isinstance(one, RoleTaken)]
    assert hosts(mesh, NODES) == before
    assert inside(mesh, "a").counts[RESERVED] == 2


def test_what_has_ended_begins_again_for_nobody_who_is_cut_off() -> None:
    """Reopened it would be an account that nobody closes. Spec: tree_layer 6.6, 6.9 (H11)."""
    mesh = world(roles="c")
    ask(mesh, "a"), ask(mesh, "a")
    mesh.send("a", "r")
    while not inside(mesh, "b").sessions.closed:
        mesh.run(for_ms=1)
    mesh.cut("a", "b", (0, 0))
    mesh.run(for_ms=1)
    assert not inside(mesh, "b").sessions.closed


def test_replies_behind_one_that_is_held_go_with_their_session() -> None:
    """Else what they take would count for ever, and nothing could be held. Spec: tree_layer 6.8."""
    mesh = world(STAR, roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    mesh.step("a", SnoopWanted("watcher", None, holds=True))
    call = mesh.send("a", "r")
    call.was_gone = True
    mesh.step("a", Resumed("watcher", mesh.told[-1][1].token))
    mesh.run(for_ms=1_000)
    node = inside(mesh, "a")
    [session] = node.sessions.open.values()
    assert (len(node.watching.held), len(session.behind)) == (1, 1)
    mesh.step("a", AppGone(APP))
    mesh.run()
    check_quiet(mesh)
    assert (node.watching.held, node.watching.held_bytes) == ({}, 0)


def test_a_peer_that_answers_no_ping_costs_no_memory() -> None:
    """It speaks, so the link is up. Spec: tree_layer 5.10."""
    few = Settings(ping_ms=100, pings_missed_max=3)
    mesh = World((("a", "b"),), settings=few)
    mesh.intercept = lambda _a, _b, frame: (
        [Frame(frame.session, frame.number, Reopen(MessageId(1)))]
        if isinstance(frame.body, Pong)
        else [frame]
    )
    mesh.run(for_ms=5_000)
    [end] = inside(mesh, "a").links.values()
    assert end.is_up
    assert len(end.pings) == few.pings_missed_max


def test_an_answer_that_has_gone_too_far_shows_no_way() -> None:
    """Spec: tree_layer 4 (H19), 5.8."""
    mesh = world()
    mesh.send("a", "r")
    [flood] = inside(mesh, "a").recoveries.values()
    told = RecoveryAnswer(flood.id, InstanceId(9), False, 1, FAR, Extent.CLOUD)
    said(mesh, "b", "a", told)
    assert not inside(mesh, "a").trees[PLACE.tree].roles["r"].everywhere.routes


def test_links_are_tried_all_at_once() -> None:
    """However far apart they came up: a worker is woken once for all. Spec: tree_layer 5.10, 12."""
    mesh = World((("a", "b"),), settings=Settings(ping_ms=1_000))
    mesh.run(for_ms=1_300)
    mesh.heal("a", "c"), mesh.start("c")
    mesh.run(for_ms=2_000)
    mesh.log = []
    mesh.run(for_ms=10_000)
    tried = [at_ms for at_ms, node, _, frame in mesh.log if (node, type(frame.body)) == ("a", Ping)]
    assert len(tried) == 20
    assert len(set(tried)) == 10


def test_one_end_tries_a_link_for_both() -> None:
    """The other asks seldom; where it hears nothing it asks, too. Spec: tree_layer 5.10, 12."""
    mesh = World((("a", "b"),), settings=Settings(ping_ms=1_000))
    mesh.run(for_ms=5_000)
    mesh.log = []
    mesh.run(for_ms=40_000)
    asked = Counter(node for _, node, _, frame in mesh.log if isinstance(frame.body, Ping))
    assert asked["a"] == 40
    assert 3 <= asked["b"] <= 5
    mesh.log = []
    mesh.intercept = lambda a, _, frame: [] if a == "a" else [frame]
    mesh.run(for_ms=8_000)
    assert sum(isinstance(frame.body, Ping) for _, _, _, frame in mesh.log) >= 8 + 5
    assert inside(mesh, "b").is_up("a")
    mesh.run(for_ms=5_000)
    assert not inside(mesh, "b").is_up("a")
