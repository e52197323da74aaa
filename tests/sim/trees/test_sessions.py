"""Link sessions: what is old, double, early or late. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.trees.inputs import (
    FrameRead,
)
from tests.sim.trees.rules import (
    check_call,
    inside,
)
from tests.sim.trees.scenes import (
    LONG,
    ask,
    kinds,
    world,
)


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
