"""Sends: to each instance once, over links that lead to one. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_apps import (
    AnswerGiven,
    Delivered,
    Refused,
    SendWanted,
)
from mesh.model.trees import (
    InstanceId,
    MessageId,
)
from tests.sim.trees.rules import (
    hosts,
    inside,
)
from tests.sim.trees.scenes import (
    SQUARE,
    STAR,
    answer,
    ask,
    codes,
    hold_answers,
    kinds,
    late_route,
    world,
)
from tests.sim.trees.trial import (
    builder_frames,
)
from tests.sim.trees.world import (
    APP,
    World,
    address,
)


def test_01_nobody_hosts_it() -> None:
    """Spec: tree_layer 11 (1), Q1."""
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
    assert not inside(mesh, "b").sessions.open


def test_03_both_answer_and_only_the_second_is_last() -> None:
    """Spec: tree_layer 11 (3)."""
    mesh = world(roles="bc")
    ask(mesh, "a")
    ask(mesh, "a")
    assert kinds(ask(mesh, "a")) == [("data", False), ("data", True)]


def test_04_the_sender_hosts_it_too() -> None:
    """Spec: tree_layer 11 (4)."""
    assert ask(world(roles="ac"), "a").reached == ["a", "c"]


def test_08_round_a_square_each_gets_it_once() -> None:
    """Spec: tree_layer 11 (8), H12. PAT-3."""
    mesh = world(SQUARE, roles="cd")
    for _ in range(3):
        assert ask(mesh, "a").reached == ["c", "d"]
    before = builder_frames(mesh)
    ask(mesh, "a")
    assert builder_frames(mesh) == before


def test_20_one_way_leaves_no_record_and_bad_options_change_nothing() -> None:
    """Spec: tree_layer 11 (20), 8. PAT-5."""
    mesh = world(roles="c")
    ask(mesh, "a")
    held = hold_answers(mesh)
    call = mesh.send("a", "r", one_way=True)
    mesh.run(for_ms=200)
    assert call.reached == ["c"]
    assert all(not inside(mesh, node).sessions.open for node in "abc")
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


def test_a_node_beside_the_way_costs_no_frame() -> None:
    """A warm send is one frame per edge towards the instances, and its replies. Spec: tree_layer 6.2."""
    mesh = world(STAR, roles="b")
    for _ in range(3):
        ask(mesh, "c")
    before = mesh.frames.copy()
    ask(mesh, "c")
    assert mesh.frames - before == {"Send": 2, "Reply": 2}


def test_a_message_that_has_ended_goes_on_where_a_way_appears() -> None:
    """And its sender, who still waits for another branch, counts on what comes. Spec: tree_layer 6.6, H9."""
    mesh = late_route()
    call = ask(mesh, "s")
    assert call.reached == ["m", "x"]
    assert mesh.frames["Reopen"] == 1
    assert kinds(call)[-1] == ("end", True)


def test_a_call_that_is_open_cannot_begin_again() -> None:
    """The application's word for a call is unique while it lasts."""
    mesh = world(roles="c")
    mesh.send("a", "r")
    again = SendWanted(APP, "c0", address("t", "r"), b"c0 ")
    assert codes(mesh.step("a", again)) == ["CALL_OPEN"]


def test_what_has_ended_takes_a_late_route_before_what_came_behind_it() -> None:
    """Two of one sender arrive in order, though the first was answered already. Spec: tree_layer 13, Q11."""
    mesh = late_route()
    came: list[bytes] = []
    names = [f"c{len(mesh.calls) + at}".encode() for at in range(2)]

    def answers(node: str, given: Delivered) -> list[AnswerGiven]:
        name = given.payload.split()[0]
        if node == "x":
            came.append(name)
        return [] if (node, name) == ("m", names[1]) else [AnswerGiven(APP, given.mid, b"1")]

    mesh.answers_of = answers
    mesh.send("s", "r"), mesh.send("s", "r")
    mesh.run(for_ms=3_000)
    assert came == names
