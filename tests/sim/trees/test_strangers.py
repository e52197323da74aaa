"""Frames that no neighbour of a link can have meant: counted, and nothing else comes of them.

Whoever may write on the topic of a link can cut it, and no more than that: nothing that it says
keeps a node, a role or a message out for good. Spec: tree_layer 5.2 (H2), 12.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.tree_frames import (
    Body,
    ColourSpread,
    Frame,
    Grant,
    Hello,
    Ping,
    Pong,
    Publish,
    RecoveryAnswer,
    RecoveryRequest,
    Reopen,
    Reply,
    ReplyKind,
)
from mesh.model.tree_nodes import NODES
from mesh.model.trees import Colour, Extent, InstanceId, MessageId
from mesh.trees.inputs import FrameRead, LinkOpened
from mesh.trees.links import EPOCHS, REFUSED
from mesh.trees.node import MADE_UP
from mesh.trees.settings import Settings
from tests.sim.trees.forgers import run_forged
from tests.sim.trees.rules import check_always, check_call, hosts, inside
from tests.sim.trees.scenes import (
    LINE,
    LONG,
    SQUARE,
    answer,
    ask,
    hold_answers,
    kinds,
    said,
    world,
)
from tests.sim.trees.world import World, address

HUGE = (1 << 47) + 5
"""A seq that no host comes to, and that can be read."""

PLACE = address("t", "r")


def hello(uuid: str = "uuid-b", epoch: int = 1, clock: int = 0) -> Hello:
    return Hello(uuid, epoch, 0, "", None, None, clock)


def publish(iid: int, *, seq: int = 1, hops: int = 1, is_published: bool = True) -> Publish:
    kept = (InstanceId(iid), False, is_published)
    return Publish(MessageId(77 << 64), *PLACE, *kept, seq, hops, False, Extent.CLOUD)


def state(mesh: World, name: str) -> str:
    """Return all that a node knows of trees and links but how much it has counted."""
    node = inside(mesh, name)
    return repr(
        (
            node.trees,
            node.hosts.by_tree,
            node.colour,
            node.heals,
            node.sessions.open,
            node.recoveries,
        )
    )


@pytest.mark.parametrize(
    ("why", "session", "number", "body"),
    [
        ("frames read twice", 0, 0, None),
        ("frames of older sessions", -1, 1, Ping(1)),
        ("frames of older sessions", -(1 << 32), 0, hello(epoch=0)),
        ("hops beyond the limit", 0, 1, publish(9 << 96, hops=10_000)),
        ("HELLO from oneself", 0, 1, hello("uuid-c")),
        ("HELLO that contradicts itself", 0, 1, hello(epoch=2)),
        ("HELLO with the uuid of another peer", 0, 1, hello("uuid-d")),
        ("clocks of a time to come", 0, 1, ColourSpread(Extent.CLOUD, Colour((1 << 31) - 1, 5))),
        ("clocks of a time to come", (EPOCHS + 1) << 32, 1, hello(epoch=EPOCHS + 2)),
        ("words about trees of the mesh itself", 0, 1, replace(publish(9), tree=NODES.tree)),
        ("reopened in vain", 0, 1, Reopen(MessageId(5))),
        ("answers to nothing", 0, 1, Pong(0)),
        ("replies to nothing", 0, 1, Reply(MessageId(5), ReplyKind.DATA, True)),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_counted_and_changes_nothing(
    why: str, session: int, number: int, body: Body | None
) -> None:
    """`session` and `number` are by how much they differ from those of the last frame."""
    mesh = world(LONG, roles="ad")
    ask(mesh, "c")
    end, before = inside(mesh, "c").links["b"], state(mesh, "c")
    last = end.last
    assert last is not None
    frame = Frame(end.theirs + session, end.read + number, last.body if body is None else body)
    assert mesh.nodes["c"].step(FrameRead("b", frame), mesh.now_ms) == []
    assert mesh.nodes["c"].counts[why] == 1
    assert mesh.nodes["c"].refused == (why in REFUSED)
    assert state(mesh, "c") == before
    assert mesh.nodes["c"].links_up == ["b", "d"]


def test_a_frame_in_the_place_of_another_takes_the_link_down_and_not_a_message_along() -> None:
    """What the peer said under that number is lost, so whoever waits for it must hear of that."""
    mesh = world(roles="c")
    ask(mesh, "a")
    said(mesh, "b", "c", Ping(1))
    call = mesh.send("a", "r")
    mesh.run()
    assert kinds(call) == [("null", True)]
    assert mesh.nodes["c"].counts["frames of one number that differ"] == 1
    assert mesh.nodes["c"].refused == 1
    again = mesh.send("a", "r")
    mesh.run()
    check_call(mesh, again)


@pytest.mark.parametrize("is_published", [True, False])
@pytest.mark.parametrize("sender", "abcd")
def test_a_number_that_no_host_has_had_keeps_no_instance_out(
    sender: str, is_published: bool
) -> None:
    """All that the host says exceeds what is known, but for what was made up. H2."""
    mesh = world(SQUARE, roles="a")
    for node in "abcd":
        ask(mesh, node)
    [iid] = hosts(mesh, PLACE)["a"]
    said(mesh, "d", "c", publish(iid, seq=HUGE, is_published=is_published))
    mesh.run()
    mesh.role("d", "s")  # which takes the link down: the stranger wrote in the place of this
    mesh.run()
    for node in (sender, *"abcd"):
        mesh.send(node, "r")
        mesh.run()
        call = mesh.send(node, "r")
        mesh.run()
        check_call(mesh, call)
        check_always(mesh)
    assert sum(mesh.nodes[node].counts[MADE_UP] for node in "bcd")


def test_a_forged_answer_keeps_no_instance_out() -> None:
    """It goes to who asked, and its host never hears of it."""
    mesh = world(LINE, roles="c", settings=Settings(ping_ms=0, copies_trees=False))
    [iid] = hosts(mesh, PLACE)["c"]
    call = mesh.send("a", "r")
    [flood] = inside(mesh, "a").recoveries
    said(mesh, "b", "a", RecoveryAnswer(flood, iid, False, HUGE, 1, Extent.CLOUD))
    mesh.run()
    assert sum(one.is_last for one in call.answers) == 1
    inside(mesh, "a").trees[PLACE.tree].roles["r"].everywhere.doubt()
    for _ in range(2):
        call = mesh.send("a", "r")
        mesh.run()
    check_call(mesh, call)
    [route] = inside(mesh, "a").trees[PLACE.tree].roles["r"].everywhere.routes.values()
    assert route.seq < HUGE


def test_what_was_heard_after_the_question_is_no_lie() -> None:
    """Another asked at the same moment, and its answer was faster: the newer one stays."""
    mesh = world(LINE)
    node, iid = inside(mesh, "b"), InstanceId(9 << 96)
    for number, link in ((1, "a"), (2, "c")):
        request = RecoveryRequest(MessageId(number), *PLACE, Extent.CLOUD, MessageId(number), 1)
        said(mesh, link, "b", request)
    mesh.now_ms += 10
    said(mesh, "a", "b", RecoveryAnswer(MessageId(2), iid, False, 8, 1, Extent.CLOUD))
    said(mesh, "c", "b", RecoveryAnswer(MessageId(1), iid, False, 7, 1, Extent.CLOUD))
    [route] = node.trees[PLACE.tree].roles["r"].everywhere.routes.values()
    assert (route.seq, node.counts[MADE_UP]) == (8, 0)


def test_a_role_that_came_with_a_number_near_the_end_is_not_taken() -> None:
    """The next publish would be beyond what neighbours read: each would take links down."""
    mesh = world(LINE, roles="c")
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.run()
    [(_, delivered)] = held
    grant = Grant(PLACE, InstanceId(9), False, True, HUGE, Extent.CLOUD, "")
    said(mesh, "b", "a", Reply(delivered.mid, ReplyKind.GRANT, False, grant=grant))
    assert "a" not in hosts(mesh, PLACE)
    assert mesh.nodes["a"].counts["clocks of a time to come"] == 1


def test_the_uuid_of_a_node_is_kept_from_it_only_while_somebody_speaks_so() -> None:
    """A link whose peer is gone was said to be of another node, which nobody heard from then on."""
    mesh = World([("a", "b"), ("b", "c")], seed=3)
    mesh.crash("a")
    mesh.run(for_ms=200)
    node = mesh.nodes["b"]
    mesh.step("b", LinkOpened("a"))
    mesh.cut("b", "c")
    mesh.run(for_ms=200)
    session = 5 << 32 | 1
    mesh.step("b", FrameRead("a", Frame(session, 1, hello("uuid-c", epoch=5))))
    mesh.heal("b", "c")
    mesh.run(for_ms=3_000)
    assert node.links_up == []
    assert node.counts["HELLO with the uuid of another peer"] > 0
    mesh.run(for_ms=15_000)
    assert node.links_up == ["c"]


def test_a_message_that_nobody_accounts_for_is_not_reopened() -> None:
    """It would stay for as long as a record may, and end with an answer that nobody asked for."""
    mesh = world(LINE, roles="c")
    ask(mesh, "b")
    mesh.send("a", "r", one_way=True)
    mesh.run(for_ms=500)
    node = inside(mesh, "b")
    [mid] = node.sessions.closed
    said(mesh, "c", "b", Reopen(mid))
    assert mid not in node.sessions.open
    assert node.counts["reopened in vain"] == 1


def test_what_one_response_collects_counts_for_what_is_kept() -> None:
    """A thousand of them with a last answer that never comes would fill the memory."""
    mesh = world(LINE, roles="bc")
    ask(mesh, "a")
    held = hold_answers(mesh)
    mesh.send("a", "r", one_response=True)
    mesh.run(for_ms=500)
    before = inside(mesh, "b").sessions.bytes_kept
    [at_b] = [one for one in held if one[0] == "b"]
    answer(mesh, at_b, bytes(10_000))
    assert inside(mesh, "b").sessions.bytes_kept >= before + 10_000
    [at_c] = [one for one in held if one[0] == "c"]
    answer(mesh, at_c, b"x")
    mesh.run()
    assert {inside(mesh, one).sessions.bytes_kept for one in "abc"} == {0}


@pytest.mark.parametrize("seed", [10, 11, 21, 22, 31, 32, 44, 51])
def test_a_stranger_leaves_nothing_behind(seed: int) -> None:
    """Each of these had once left something; more by `python -m tests.sim.trees --forged`."""
    assert run_forged(seed).calls
