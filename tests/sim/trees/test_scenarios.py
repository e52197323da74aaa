"""The scenarios of the tree layer by number, on the pure simulator. Spec: tree_layer 11."""

from __future__ import annotations

import pytest

from mesh.model.tree_apps import (
    AnswerGiven,
    Delivered,
    ExclusiveCleared,
    Refused,
    RoleTaken,
    RoleWish,
    SendWanted,
    TreeEvicted,
    Unpartitioned,
)
from mesh.model.tree_frames import (
    Cause,
    Frame,
    Publish,
    RecoveryAnswer,
    RecoveryDone,
    Reopen,
    Reply,
    ReplyKind,
    Send,
)
from mesh.model.trees import Extent, InstanceId, MessageId
from mesh.trees.inputs import AppGone, FrameRead, PortClosed, RolesAdded
from mesh.trees.settings import Settings
from tests.sim.trees.rules import check_call, check_quiet, hosts, inside
from tests.sim.trees.trial import builder_frames
from tests.sim.trees.world import APP, Call, World, address, lost_by

LINE = (("a", "b"), ("b", "c"))
LONG = (*LINE, ("c", "d"))
SQUARE = (*LONG, ("d", "a"))
STAR = tuple(("a", leaf) for leaf in "bcdef")


def world(wires=LINE, *, roles: str = "", **options) -> World:
    """Make a mesh at rest; `roles` is `NODE...` that hold r."""
    made = World(wires, **options)
    made.run()
    for node in roles:
        made.role(node, "r")
    made.run()
    return made


def ask(mesh: World, node: str, role: str = "r", **options) -> Call:
    """Send, wait until all is quiet, check every rule."""
    call = mesh.send(node, role, **options)
    mesh.run()
    check_quiet(mesh)
    check_call(mesh, call)
    return call


def kinds(call: Call) -> list[tuple[str, bool]]:
    """Return what the sender saw, in order."""
    return [(one.kind.value, one.is_last) for one in call.answers]


def hold_answers(mesh: World) -> list[tuple[str, Delivered]]:
    """Let applications answer when the test says so."""
    held: list[tuple[str, Delivered]] = []
    mesh.answers_of = lambda node, delivered: held.append((node, delivered))
    return held


def answer(mesh: World, held: tuple[str, Delivered], payload: bytes = b"x", **how) -> list:
    """Answer for an application."""
    node, delivered = held
    return mesh.step(node, AnswerGiven(APP, delivered.mid, payload, **how))


def codes(outputs: list) -> list[str]:
    """Return why things were refused."""
    return [one.code for one in outputs if isinstance(one, Refused)]


def test_01_nobody_hosts_it() -> None:
    """Spec: tree_layer 11 (1)."""
    mesh = World((), alone="a")
    assert kinds(ask(mesh, "a")) == [("not_found", True)]


def test_02_one_instance_two_links_away() -> None:
    """Spec: tree_layer 11 (2)."""
    mesh = world(roles="c")
    cold = ask(mesh, "a")
    assert cold.reached == ["c"]
    assert sum(last for _, last in kinds(cold)) == 1
    assert kinds(ask(mesh, "a")) in ([("data", True)], [("data", False), ("end", True)])
    assert kinds(ask(mesh, "a")) == [("data", True)]
    assert not inside(mesh, "b").sessions


def test_03_both_answer_and_only_the_second_is_last() -> None:
    """Spec: tree_layer 11 (3)."""
    mesh = world(roles="bc")
    ask(mesh, "a")
    ask(mesh, "a")
    assert kinds(ask(mesh, "a")) == [("data", False), ("data", True)]


def test_04_the_sender_hosts_it_too() -> None:
    """Spec: tree_layer 11 (4)."""
    assert ask(world(roles="ac"), "a").reached == ["a", "c"]


def test_05_four_replies_and_the_fourth_is_last() -> None:
    """Spec: tree_layer 11 (5)."""
    mesh = world(roles="c")
    ask(mesh, "a"), ask(mesh, "a")
    mesh.answers_of = lambda _, one: [
        AnswerGiven(APP, one.mid, bytes([n]), is_last=n == 3) for n in range(4)
    ]
    mesh._later = lambda after, happen: mesh._at(mesh.now_ms + 10, happen)
    call = mesh.send("a", "r")
    mesh.run()
    assert kinds(call) == [("data", False)] * 3 + [("data", True)]


def test_06_a_last_reply_is_no_last_one_while_others_are_owed() -> None:
    """Spec: tree_layer 11 (6)."""
    mesh = world(roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=200)
    by_node = {node: (node, one) for node, one in held}
    for _ in range(2):
        answer(mesh, by_node["b"], is_last=False)
    answer(mesh, by_node["b"])
    mesh.run(for_ms=200)
    assert kinds(call) == [("data", False)] * 3
    answer(mesh, by_node["c"])
    mesh.run()
    assert kinds(call)[3:] == [("data", True)]
    check_quiet(mesh)


def test_07_an_answer_behind_the_last_or_to_nothing_is_refused() -> None:
    """Spec: tree_layer 11 (7), 6.5."""
    mesh = world(roles="bc")
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.run(for_ms=400)
    at_b = next(one for one in held if one[0] == "b")
    assert codes(answer(mesh, at_b)) == []
    assert codes(answer(mesh, at_b)) == ["LAST_ALREADY_SENT"]
    assert codes(mesh.step("a", AnswerGiven(APP, MessageId(7)))) == ["UNKNOWN_MESSAGE"]
    assert codes(mesh.step("b", AnswerGiven("other", at_b[1].mid))) == ["UNKNOWN_MESSAGE"]


def test_08_round_a_square_each_gets_it_once() -> None:
    """Spec: tree_layer 11 (8). PAT-3."""
    mesh = world(SQUARE, roles="cd")
    for _ in range(3):
        assert ask(mesh, "a").reached == ["c", "d"]
    before = builder_frames(mesh)
    ask(mesh, "a")
    assert builder_frames(mesh) == before


def test_09_a_second_send_builds_nothing() -> None:
    """Spec: tree_layer 11 (9)."""
    mesh = world((*LINE, ("c", "a")), roles="c")
    ask(mesh, "a")
    before = builder_frames(mesh)
    ask(mesh, "a")
    assert builder_frames(mesh) == before


def test_10_another_way_is_found_while_the_message_is_under_way() -> None:
    """Spec: tree_layer 11 (10), H9."""
    mesh = world(roles="c")
    ask(mesh, "a"), ask(mesh, "a")
    mesh.heal("a", "c")
    mesh.run()
    mesh.cut("b", "c")
    mesh.run()
    assert ask(mesh, "a").reached == ["c"]


def test_11_a_publish_reaches_who_has_lost_a_way_unseen() -> None:
    """Spec: tree_layer 11 (11), C1, H3. PAT-1."""
    mesh = world((("0", "1"), ("1", "2"), ("0", "2")), roles="2")
    mesh.cut("0", "2")
    mesh.run()
    ask(mesh, "0"), ask(mesh, "0")
    mesh.heal("0", "2")
    mesh.run()
    mesh.cut("1", "2")
    mesh.run()
    mesh.role("0", "r")
    mesh.run()
    assert ask(mesh, "2").reached == ["0", "2"]


def test_12_who_took_part_in_a_recovery_does_not_trust_itself() -> None:
    """Spec: tree_layer 11 (12), C2, H6."""
    detour = [(f"d{n}", f"d{n + 1}") for n in range(5)]
    wires = [("x", "b"), ("b", "a"), ("a", "y"), ("b", "d0"), ("d5", "a"), *detour]
    mesh = world(wires, roles="xy")
    ask(mesh, "x"), ask(mesh, "y")
    mesh.cut("b", "a")
    mesh.run()
    assert ask(mesh, "x").reached == ["x", "y"]
    assert ask(mesh, "y").reached == ["x", "y"]


def test_13_two_instances_do_not_rely_on_each_other() -> None:
    """Spec: tree_layer 11 (13), C3, H7."""
    wires = [("x", "p"), ("p", "q"), ("q", "y"), ("x", "z"), ("z", "y")]
    mesh = world(wires, roles="xyp")
    for node in "xyp":
        ask(mesh, node)
    mesh.cut("p", "q")
    mesh.run()
    for node in "xyp":
        assert ask(mesh, node).reached == ["p", "x", "y"]


@pytest.mark.parametrize("lost", [("c", "d"), ("a", "b")])
def test_14_15_a_link_lost_before_the_reply_is_a_null(lost: tuple[str, str]) -> None:
    """Spec: tree_layer 11 (14, 15). PAT-4."""
    mesh = world(LONG, roles="d")
    ask(mesh, "a"), ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=300)
    mesh.cut(*lost, (0, 0))
    mesh.run(for_ms=300)
    answer(mesh, held[0])
    mesh.run()
    assert kinds(call) == [("null", True)]
    assert call.answers[0].cause is Cause.LINK_DOWN
    check_quiet(mesh)


def test_16_one_branch_is_lost_and_one_answers() -> None:
    """Spec: tree_layer 11 (16)."""
    mesh = world((("b", "a"), ("a", "c")), roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=200)
    mesh.cut("a", "b", (0, 0))
    mesh.run(for_ms=100)
    answer(mesh, next(one for one in held if one[0] == "c"))
    mesh.run()
    assert kinds(call) == [("null", False), ("data", True)]


def test_17_one_response_collects() -> None:
    """Spec: tree_layer 11 (17)."""
    mesh = world(STAR, roles="bcdef")
    call = ask(mesh, "a", one_response=True)
    assert kinds(call) == [("data", True)]
    assert sorted(call.items) == [b"b", b"c", b"d", b"e", b"f"]
    held = hold_answers(mesh)
    broken = mesh.send("a", "r", one_response=True)
    mesh.run(for_ms=200)
    mesh.cut("a", "b", (0, 0))
    for one in held:
        answer(mesh, one)
    mesh.run()
    assert kinds(broken) == [("null", False), ("data", True)]
    assert len(broken.items) == 4


def test_answers_that_are_too_large_together_are_a_null() -> None:
    """One response is one frame on each link. Spec: tree_layer 6.4; K6."""
    line = (("a", "b"), ("b", "c"), ("c", "d"))
    mesh = world(line, roles="bcd", settings=Settings(ping_ms=0, collected_bytes_max=2))
    call = mesh.send("a", "r", one_response=True)
    mesh.run()
    assert call.count(ReplyKind.NULL) == 1
    assert 1 <= len(call.items) <= 2
    assert sum(one.is_last for one in call.answers) == 1


def test_18_19_one_instance_tries_on() -> None:
    """Spec: tree_layer 11 (18, 19), H18."""
    mesh = world(STAR, roles="bcd")
    ask(mesh, "a")
    assert len(ask(mesh, "a", one_instance=True).reached) == 1
    role = inside(mesh, "a").trees[address("t", "r").tree].roles["r"]
    node_b = inside(mesh, "b")
    node_b.hosted.clear()  # the table of a is stale from here on
    call = mesh.send("a", "r", one_instance=True)
    mesh.run()
    assert call.reached in (["c"], ["d"])
    assert sum(last for _, last in kinds(call)) == 1
    for node in "cd":
        inside(mesh, node).hosted.clear()
    inside(mesh, "f").hosted[address("t", "r").tree] = {}
    mesh.role("f", "q")
    assert role.everywhere.routes
    call = mesh.send("a", "r", one_instance=True)
    mesh.run()
    assert kinds(call) == [("not_found", True)]


def test_20_one_way_leaves_no_record_and_bad_options_change_nothing() -> None:
    """Spec: tree_layer 11 (20), 8. PAT-5."""
    mesh = world(roles="c")
    ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r", one_way=True)
    mesh.run(for_ms=200)
    assert call.reached == ["c"]
    assert all(not inside(mesh, node).sessions for node in "abc")
    assert codes(answer(mesh, ("c", Delivered(APP, MessageId(1), address("t", "r"), InstanceId(1),
                 "", b"", b"", False, True, 2)))) == ["UNKNOWN_MESSAGE"]  # fmt: skip
    assert held == []
    for option in ("one_instance", "one_response"):
        wrong = {"one_way": True, option: True}
        before = mesh.frames.total()
        mesh.send("a", "r", **wrong)
        assert isinstance(mesh.told[-1][1], Refused)
        assert mesh.told[-1][1].code == "BAD_OPTIONS"
        assert mesh.frames.total() == before
    held.clear()
    mesh.send("a", "r", one_instance=True, one_response=True)
    mesh.run(for_ms=200)
    assert held[0][1].wants_answer
    answer(mesh, held[0])
    mesh.run(for_ms=200)
    assert kinds(list(mesh.calls.values())[-1]) == [("data", True)]


def test_21_one_instance_by_its_id() -> None:
    """Spec: tree_layer 11 (21)."""
    mesh = world(STAR, roles="bcd")
    iid = hosts(mesh, address("t", "r"))["c"][0]
    call = mesh.send("e", "r", iid=iid)
    mesh.run()
    assert call.reached == ["c"]
    assert sum(last for _, last in kinds(call)) == 1


def test_22_23_not_found_only_if_every_branch_says_so() -> None:
    """Spec: tree_layer 11 (22, 23). PAT-5."""
    mesh = world((("a", "b"), ("a", "c")), roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    inside(mesh, "b").hosted.clear()
    one = mesh.send("a", "r")
    mesh.run()
    assert [kind for kind, _ in kinds(one)][:1] == ["data"]
    assert "not_found" not in [kind for kind, _ in kinds(one)]
    mesh = world((("a", "b"), ("a", "c")), roles="bc")
    ask(mesh, "a"), ask(mesh, "a")
    inside(mesh, "b").hosted.clear()
    inside(mesh, "c").hosted.clear()
    none = mesh.send("a", "r")
    mesh.run()
    assert kinds(none) == [("not_found", True)]


def test_24_unpublished_roles_are_gone_everywhere() -> None:
    """Spec: tree_layer 11 (24)."""
    mesh = world(roles="bc")
    ask(mesh, "a")
    mesh.unrole("c", "r")
    mesh.run()
    assert ask(mesh, "a").reached == ["b"]
    mesh.unrole("b", "r")
    mesh.run()
    assert kinds(ask(mesh, "a")) == [("not_found", True)]


def test_25_an_older_publish_that_comes_late_brings_nothing_back() -> None:
    """Spec: tree_layer 11 (25), H2."""
    mesh = world()
    mesh.log = []
    mesh.role("c", "r")
    mesh.run()
    late = next(
        f.body for _, a, b, f in mesh.log if (a, b) == ("b", "a") and f.body.__class__ is Publish
    )
    mesh.unrole("c", "r")
    mesh.run()
    end = inside(mesh, "a").links["b"]
    fresh = Publish(MessageId(99), late.tree, late.role, late.iid, late.is_exclusive,
                    True, late.seq, late.hops, late.local_only, late.extent)  # fmt: skip
    mesh.step("a", FrameRead("b", Frame(end.theirs, end.read + 1, fresh)))
    assert not inside(mesh, "a").trees[late.tree].roles["r"].everywhere.routes


def test_26_of_two_holders_the_higher_one_stays() -> None:
    """Spec: tree_layer 11 (26). PAT-7."""
    mesh = world()
    mesh.role("a", "e", is_exclusive=True)
    mesh.role("c", "e", is_exclusive=True)
    iids = {node: found[0] for node, found in hosts(mesh, address("t", "e")).items()}
    mesh.run()
    higher = max(iids, key=iids.get)
    lower = min(iids, key=iids.get)
    assert list(hosts(mesh, address("t", "e"))) == [higher]
    assert [one.address.role for one in lost_by(mesh, lower)] == ["e"]
    for node in "abc":
        assert ask(mesh, node, "e").reached == [higher]


def test_27_an_exclusive_role_ends_the_shared_ones() -> None:
    """Spec: tree_layer 11 (27)."""
    mesh = world(LONG, roles="ab")
    mesh.role("c", "r", is_exclusive=True)
    mesh.run()
    assert list(hosts(mesh, address("t", "r"))) == ["c"]
    assert lost_by(mesh, "a")
    assert lost_by(mesh, "b")
    assert codes(mesh.role("d", "r")) == ["EXCLUSIVE_HELD"]


def test_28_two_parts_with_a_holder_each_heal_to_one() -> None:
    """Spec: tree_layer 11 (28), H15."""
    mesh = world(LONG)
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a", "e", is_exclusive=True)
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    mesh.heal("b", "c")
    mesh.run()
    found = hosts(mesh, address("t", "e"))
    assert len(found) == 1
    assert len(lost_by(mesh, "a")) + len(lost_by(mesh, "d")) == 1
    assert ask(mesh, "a", "e").reached == list(found)


def test_29_a_dead_holder_is_cleared() -> None:
    """Spec: tree_layer 11 (29). PAT-8."""
    mesh = world(LONG)
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    mesh.crash("d")
    mesh.run()
    mesh.step("a", ExclusiveCleared("", address("t", "e")))
    mesh.run()
    low = RoleWish(address("t", "e"), is_exclusive=True, iid=InstanceId(5))
    assert codes(mesh.step("b", RolesAdded(APP, (low,)))) == []
    mesh.run()
    assert ask(mesh, "c", "e").reached == ["b"]


def move(mesh: World, node: str, role: str = "e") -> Call:
    """Ask the holder for its role."""
    call = mesh.send(node, role, payload="give")
    mesh.run()
    return call


def test_31_a_role_moves_with_a_reply_and_nothing_is_published() -> None:
    """Spec: tree_layer 11 (31). PAT-7."""
    mesh = world((*LONG, ("c", "x")))
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    published = mesh.frames["Publish"]
    call = move(mesh, "a")
    assert call.items == [b"d"]
    assert mesh.frames["Publish"] == published
    assert list(hosts(mesh, address("t", "e"))) == ["a"]
    assert [one.is_granted for n, one in mesh.told if isinstance(one, RoleTaken) and n == "a"] == [
        True
    ]
    assert ask(mesh, "x", "e").reached == ["a"]


def test_a_role_that_moved_is_not_given_again_what_it_had() -> None:
    """The routes of a move are no new way to somebody who was missed. Spec: I1, H9, 5.13."""
    mesh = world((*LONG, ("b", "x")))
    mesh.role("d", "e", is_exclusive=True)
    mesh.run()
    ask(mesh, "x", "e")
    former = mesh.send("x", "e")
    while not former.answers:
        mesh.run(for_ms=5)
    mesh.send("a", "e", payload="give")
    mesh.run()
    assert (former.reached, list(hosts(mesh, address("t", "e")))) == (["d"], ["a"])


def test_32_a_link_lost_under_a_move_leaves_at_most_one_holder() -> None:
    """Spec: tree_layer 11 (32)."""
    for lost in (("a", "b"), ("b", "c"), ("c", "d")):
        mesh = world(LONG)
        mesh.role("d", "e", is_exclusive=True)
        mesh.run()
        mesh.send("a", "e", payload="give")
        while not mesh.calls["c0"].delivered:
            mesh.run(for_ms=5)
        mesh.run(for_ms=30)
        mesh.cut(*lost)
        mesh.run()
        assert len(hosts(mesh, address("t", "e"))) <= 1
        mesh.heal(*lost)
        mesh.run()
        mesh.role("a", "e", is_exclusive=True)
        mesh.run()
        assert ask(mesh, "d", "e").reached == ["a"]


def test_33_a_grant_without_giving_up_shares() -> None:
    """Spec: tree_layer 11 (33). PAT-7."""
    mesh = world(roles="c")
    mesh.role("b", "e", is_exclusive=True)
    mesh.run()
    ask(mesh, "a"), ask(mesh, "a", "e")
    held = hold_answers(mesh)
    mesh.send("a", "r")
    mesh.send("a", "e")
    mesh.run(for_ms=300)
    for one in held:
        refused = codes(answer(mesh, one, grants=True))
        assert refused == ([] if one[0] == "c" else ["EXCLUSIVE_NEEDS_GIVE_UP"])
    answer(mesh, next(one for one in held if one[0] == "b"))
    mesh.run()
    assert list(hosts(mesh, address("t", "r"))) == ["a", "c"]
    check_quiet(mesh)


def test_34_what_was_apart_finds_each_other_without_a_publish() -> None:
    """Spec: tree_layer 11 (34). PAT-9, PAT-10."""
    mesh = world(LONG)
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a", "r"), mesh.role("d", "r")
    mesh.run()
    for node in "abcd":
        ask(mesh, node), ask(mesh, node)
    published = mesh.frames["Publish"]
    mesh.heal("b", "c")
    mesh.run()
    assert ask(mesh, "a").reached == ["a", "d"]
    assert ask(mesh, "d").reached == ["a", "d"]
    assert mesh.frames["Publish"] == published
    told = [node for node, one in mesh.told if isinstance(one, Unpartitioned)]
    assert set(told) == set("abcd")


def test_35_a_bridge_that_restarts_wakes_both_halves() -> None:
    """Spec: tree_layer 11 (35), H13."""
    mesh = world(LONG, roles="ad")
    for node in "ad":
        ask(mesh, node)
    mesh.crash("b")
    mesh.run()
    ask(mesh, "a"), ask(mesh, "d")
    mesh.start("b")
    mesh.run()
    assert ask(mesh, "a").reached == ["a", "d"]
    assert ask(mesh, "d").reached == ["a", "d"]


def test_36_three_parts_heal_at_once() -> None:
    """Spec: tree_layer 11 (36)."""
    mesh = world((*LONG, ("d", "e"), ("e", "f")))
    mesh.cut("b", "c"), mesh.cut("d", "e")
    mesh.run()
    for node in "ace":
        mesh.role(node, "r")
        mesh.run()
        ask(mesh, node)
    mesh.heal("b", "c"), mesh.heal("d", "e")
    mesh.run()
    for node in "abcdef":
        assert ask(mesh, node).reached == ["a", "c", "e"]
    assert len({mesh.nodes[node].colour for node in "abcdef"}) == 1


def test_37_a_node_that_was_alone_is_told_of_its_first_link() -> None:
    """Spec: tree_layer 11 (37), H14."""
    mesh = World((("a", "b"),), alone="z")
    mesh.run()
    for node in "az":
        mesh.role(node, "r")
        mesh.run()
        ask(mesh, node)
    mesh.heal("a", "z")
    mesh.run()
    assert any(isinstance(one, Unpartitioned) for node, one in mesh.told if node == "z")
    for node in "abz":
        assert ask(mesh, node).reached == ["a", "z"]


def test_38_a_flap_does_no_harm() -> None:
    """Spec: tree_layer 11 (38)."""
    mesh = world(SQUARE, roles="ac")
    ask(mesh, "b")
    mesh.cut("a", "b", (0, 20))
    mesh.run(for_ms=5)
    mesh.heal("a", "b")
    mesh.run()
    for node in "abcd":
        assert ask(mesh, node).reached == ["a", "c"]


def test_39_a_heal_during_a_recovery_is_not_covered_by_it() -> None:
    """Spec: tree_layer 11 (39), H8."""
    mesh = world(LONG)
    mesh.cut("c", "d")
    mesh.run()
    mesh.role("b", "r"), mesh.role("d", "r")
    mesh.run()
    ask(mesh, "d"), ask(mesh, "a")
    inside(mesh, "a").trees[address("t", "r").tree].roles["r"].everywhere.doubt()
    mesh.send("a", "r")
    mesh.heal("c", "d")
    mesh.run()
    assert ask(mesh, "a").reached == ["b", "d"]


def test_40_a_loss_during_a_recovery_begins_it_anew() -> None:
    """Spec: tree_layer 11 (40), H8."""
    wires = (("a", "b"), ("a", "c"), ("c", "x"), ("x", "y"), ("y", "b"))
    mesh = world(wires, latency_ms=(10, 10))
    mesh.role("b", "r")
    mesh.run()
    inside(mesh, "a").trees[address("t", "r").tree].roles["r"].everywhere.doubt()
    call = mesh.send("a", "r")
    flood = next(iter(inside(mesh, "a").recoveries.values()))
    while "b" in flood.waiting:
        mesh.run(for_ms=1)
    assert flood.waiting == {"c": None}
    mesh.cut("a", "b", (0, 0))
    mesh.run()
    assert call.reached == ["b"]
    check_quiet(mesh)


REALMS = {"a": "r1", "b": "r1", "c": "r2"}


def test_41_a_faster_way_outside_does_not_hide_the_one_inside() -> None:
    """Spec: tree_layer 11 (41). PAT-11."""
    mesh = World((("a", "b"), ("a", "c"), ("c", "b")), realms=REALMS, latency_ms=(5, 5))
    mesh.wires[frozenset("ab")].latency_ms = 200
    mesh.run()
    mesh.role("a", "r")
    mesh.run()
    role = inside(mesh, "b").trees[address("t", "r").tree].roles["r"]
    assert [route.link for route in role.realm.routes.values()] == ["a"]
    mesh.log = []
    assert ask(mesh, "b", local_realm=True).reached == ["a"]
    sent = [(x, y) for _, x, y, frame in mesh.log if isinstance(frame.body, Send)]
    assert sent == [("b", "a")]


def test_42_a_realm_that_was_split_inside_finds_all_of_itself_again() -> None:
    """Spec: tree_layer 11 (42), H16."""
    realms = {"a": "r1", "b": "r1", "x": "r2", "c": "r1", "d": "r1"}
    mesh = World((("a", "b"), ("b", "c"), ("c", "d"), ("a", "x"), ("x", "d")), realms=realms)
    mesh.run()
    mesh.cut("b", "c")
    mesh.run()
    mesh.role("a", "r"), mesh.role("d", "r")
    mesh.run()
    assert ask(mesh, "a", local_realm=True).reached == ["a"]
    assert ask(mesh, "a").reached == ["a", "d"]
    mesh.heal("b", "c")
    mesh.run()
    assert ask(mesh, "a", local_realm=True).reached == ["a", "d"]


def test_43_not_in_this_realm() -> None:
    """Spec: tree_layer 11 (43)."""
    mesh = World((("a", "b"), ("b", "c")), realms=REALMS)
    mesh.run()
    mesh.role("c", "r")
    mesh.run()
    assert kinds(ask(mesh, "a", local_realm=True)) == [("not_found", True)]
    assert ask(mesh, "a").reached == ["c"]
    alone = world()
    alone.send("a", "r", local_realm=True)
    assert alone.told[-1][1].code == "NO_REALM"


def test_44_three_trees_in_a_cache_of_two() -> None:
    """Spec: tree_layer 11 (44)."""
    mesh = World(LINE, settings=Settings(ping_ms=0, trees_max=2))
    mesh.run()
    for tree in "tuv":
        mesh.role("c", "r", tree=tree), mesh.role("b", "r", tree=tree)
        mesh.run()
    for tree in "tuv" * 3:
        call = mesh.send("a", "r", tree=tree)
        mesh.run()
        assert call.reached == ["b", "c"]
        assert len(inside(mesh, "b").trees) <= 2
    hold_answers(mesh)
    mesh.send("a", "r", tree="t")
    mesh.run(for_ms=400)
    pinned = address("t", "r").tree
    mesh.step("b", TreeEvicted("", pinned))
    assert pinned in inside(mesh, "b").trees


def test_45_forgotten_everywhere_and_found_again() -> None:
    """Spec: tree_layer 11 (45)."""
    mesh = world(roles="c")
    ask(mesh, "a")
    for node in "abc":
        mesh.step(node, TreeEvicted("", address("t", "r").tree))
    call = mesh.send("a", "r")
    mesh.run()
    check_call(mesh, call)


def test_46_fifty_roles_go_in_one_frame_per_link() -> None:
    """Spec: tree_layer 11 (46)."""
    bulk, single = world(), world()
    wishes = [RoleWish(address(f"t{n % 10}", f"r{n}")) for n in range(50)]
    before = bulk.frames.copy()
    bulk.step("a", RolesAdded(APP, wishes))
    bulk.run()
    assert bulk.frames["Bulk"] == 2
    assert bulk.frames["Publish"] == before["Publish"]
    for wish in wishes:
        single.step("a", RolesAdded(APP, (wish,)))
    single.run()
    for node in "bc":
        tables = [
            {
                (tree.id, name): {(r.link, r.hops) for r in role.everywhere.routes.values()}
                for tree in inside(mesh, node).trees.values()
                for name, role in tree.roles.items()
            }
            for mesh in (bulk, single)
        ]
        assert tables[0] == tables[1]
        assert len(tables[0]) == 50


def test_49_nobody_listens_at_a_host() -> None:
    """Spec: tree_layer 11 (49)."""
    mesh = world(roles="c")
    mesh.step("c", PortClosed(APP))
    call = mesh.send("a", "r")
    mesh.run()
    assert call.reached == []
    assert kinds(call) == [("not_found", True)]
    check_quiet(mesh)


def test_50_a_neighbour_that_never_answers() -> None:
    """Spec: tree_layer 11 (50), H5."""
    mesh = world((("a", "b"), ("a", "c")), roles="c")
    silent = (RecoveryAnswer, RecoveryDone)
    mesh.intercept = lambda a, _, frame: (
        [Frame(frame.session, frame.number, Reopen(MessageId(1)))]
        if a == "b" and isinstance(frame.body, silent)
        else [frame]
    )
    call = mesh.send("a", "r")
    mesh.run()
    assert call.reached == ["c"]
    assert call.answers[0].cause is Cause.RECOVERY_INCOMPLETE
    assert sum(last for _, last in kinds(call)) == 1
    asked = mesh.frames["RecoveryRequest"]
    mesh.send("a", "r")
    mesh.run()
    assert mesh.frames["RecoveryRequest"] > asked


def test_51_frames_of_an_older_session_are_dropped() -> None:
    """Spec: tree_layer 11 (51), H11."""
    mesh = world(roles="c")
    mesh.log = []
    ask(mesh, "a")
    old = [frame for _, x, y, frame in mesh.log if (x, y) == ("b", "a")]
    mesh.crash("b")
    mesh.run(for_ms=100)
    mesh.start("b")
    mesh.run()
    before = mesh.digest.copy()
    for frame in old:
        assert mesh.nodes["a"].step(FrameRead("b", frame), mesh.now_ms) == []
    assert before.hexdigest() == mesh.digest.hexdigest()
    assert mesh.nodes["a"].counts["frames of older sessions"] == len(old)


def test_52_copies_and_swaps_below_the_session_do_no_harm() -> None:
    """Spec: tree_layer 11 (52): the session drops copies; what comes too early is a gap."""
    mesh = world(LONG, roles="ad")
    mesh.intercept = lambda _a, _b, frame: [frame, frame]
    for node in "abcd":
        call = mesh.send(node, "r")
        mesh.run()
        assert call.reached == ["a", "d"]
        check_call(mesh, call)
    assert mesh.nodes["b"].counts["frames read twice"] > 0


def test_53_one_end_sees_the_loss_long_before_the_other() -> None:
    """Spec: tree_layer 11 (53)."""
    mesh = world(LONG, roles="ad")
    for node in "ad":
        ask(mesh, node)
    calls = [mesh.send(node, "r") for node in "abcd"]
    mesh.cut("b", "c", (0, 900))
    mesh.run()
    for call in calls:
        assert sum(last for _, last in kinds(call)) == 1
    before = inside(mesh, "b").links.get("c")
    assert before is None
    mesh.heal("b", "c")
    mesh.run()
    for node in "abcd":
        assert ask(mesh, node).reached == ["a", "d"]


def test_an_application_that_ends_answers_with_a_null() -> None:
    """Spec: tree_layer 13: whoever waits for it is told at that moment."""
    mesh = world(roles="c")
    hold_answers(mesh)
    call = mesh.send("a", "r")
    mesh.run(for_ms=400)
    mesh.step("c", AppGone(APP))
    mesh.run()
    assert [one.cause for one in call.answers] == [Cause.APPLICATION_GONE]
    assert kinds(ask(mesh, "a")) == [("not_found", True)]


def test_a_reply_that_nobody_waits_for_changes_nothing() -> None:
    """A stray last reply must not close what is still owed. Spec: tree_layer 6.4."""
    mesh = world(roles="c")
    end = inside(mesh, "a").links["b"]
    stray = Reply(MessageId(3), ReplyKind.DATA, is_last=True)
    outputs = mesh.step("a", FrameRead("b", Frame(end.theirs, end.read + 1, stray)))
    assert outputs == []
    assert mesh.nodes["a"].counts["replies to nothing"] == 1


def test_a_node_beside_the_way_costs_no_frame() -> None:
    """A warm send is one frame per edge towards the instances, and its replies. Spec: 6.2."""
    mesh = world(STAR, roles="b")
    for _ in range(3):
        ask(mesh, "c")
    before = mesh.frames.copy()
    ask(mesh, "c")
    assert mesh.frames - before == {"Send": 2, "Reply": 2}


def test_a_call_that_is_open_cannot_begin_again() -> None:
    """The application's word for a call is unique while it lasts."""
    mesh = world(roles="c")
    mesh.send("a", "r")
    again = SendWanted(APP, "c0", address("t", "r"), b"c0 ")
    assert codes(mesh.step("a", again)) == ["CALL_OPEN"]


def test_the_extent_of_a_role_is_kept() -> None:
    """Spec: tree_layer 5.2: REALM never leaves the realm, NODE never the node."""
    mesh = World((("a", "b"), ("b", "c")), realms=REALMS)
    mesh.run()
    mesh.role("a", "in", extent=Extent.REALM)
    mesh.role("a", "here", extent=Extent.NODE)
    mesh.run()
    assert ask_reached(mesh, "b", "in") == ["a"]
    assert ask_reached(mesh, "c", "in") == []
    assert ask_reached(mesh, "b", "here") == []
    assert ask_reached(mesh, "a", "here") == ["a"]


def ask_reached(mesh: World, node: str, role: str) -> list[str]:
    """Send and return who got it."""
    call = mesh.send(node, role)
    mesh.run()
    return call.reached


def test_two_hundred_unused_roles_cost_nothing_at_a_cut() -> None:
    """Lazy repair: a loss and a heal send colours and news alone. Spec: 5.9. PAT-6."""
    mesh = world(LONG)
    mesh.step("d", RolesAdded(APP, [RoleWish(address(f"t{n}", "r")) for n in range(200)]))
    mesh.run()
    before = builder_frames(mesh)
    mesh.cut("b", "c")
    mesh.run()
    mesh.heal("b", "c")
    mesh.run()
    assert builder_frames(mesh) == before
    assert mesh.frames["RecoveryRequest"] == 0
