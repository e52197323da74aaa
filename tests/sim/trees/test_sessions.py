"""Link sessions: what is old, double, early or late. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_frames import (
    ColourSpread,
    Frame,
    Hello,
    KnownInstance,
    KnownRole,
    Publish,
    Trees,
)
from mesh.model.trees import Colour, Extent, InstanceId, MessageId
from mesh.trees.clocks import CREDIT, PER_S, STEP
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
    said,
    world,
)
from tests.sim.trees.world import World, address


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


def test_a_clock_that_nobody_can_have_counted_to_is_not_followed() -> None:
    """All would follow it to the end of clocks, and nobody chose another colour ever again."""
    mesh = world(LONG, roles="ad")
    end = (1 << 31) - 1
    colour, iid = Colour(end, 5), InstanceId(end << 96)
    place = address("t", "r")
    forged = (
        ColourSpread(Extent.CLOUD, colour),
        Publish(MessageId(7), *place, iid, True, True, 1, 1, False, Extent.CLOUD),
        Trees(MessageId(8), None, (KnownRole(*place, True, (KnownInstance(iid, True, 1, 1),)),)),
    )
    for body in forged:
        said(mesh, "b", "c", body)
    hello = Hello("uuid-b", 9, 0, "", colour, None, end)
    mesh.step("c", FrameRead("b", Frame(9 << 32 | 1, 1, hello)))
    assert mesh.nodes["c"].counts["clocks of a time to come"] == 4
    mesh.run()
    mesh.cut("b", "c")
    mesh.run()
    left, right = mesh.nodes["a"].colour, mesh.nodes["d"].colour
    assert left is not None
    assert right is not None
    assert left != right
    assert max(left, right).clock < 1 << 16
    mesh.heal("b", "c")
    mesh.run()
    assert ask_again(mesh, "a") == ["a", "d"]


def test_nodes_that_were_apart_for_long_may_be_far_apart() -> None:
    mesh = world(LONG, roles="ad")
    mesh.cut("b", "c")
    mesh.run()
    inside(mesh, "a").clock.value += 1 << 24
    mesh.role("a", "s")
    mesh.heal("b", "c")
    mesh.run()
    assert ask_again(mesh, "d") == ["a", "d"]
    assert mesh.nodes["d"].colour == mesh.nodes["a"].colour


def test_leaps_of_the_clock_have_a_limit_that_grows_again() -> None:
    node = inside(world(), "a")
    assert node.clock.believes(
        ColourSpread(Extent.CLOUD, Colour(node.clock.value + CREDIT, 1)), node.now_ms
    )
    far = ColourSpread(Extent.CLOUD, Colour(node.clock.value + (1 << 20), 1))
    assert not node.clock.believes(far, node.now_ms)
    assert node.clock.believes(
        ColourSpread(Extent.CLOUD, Colour(node.clock.value + STEP, 1)), node.now_ms
    )
    node.now_ms += 1000 * (1 << 20) // PER_S + 1
    assert node.clock.believes(far, node.now_ms)


def test_a_session_that_a_stranger_made_up_keeps_its_node_out_for_a_moment() -> None:
    """It is above all that the node will have for long."""
    mesh = world(roles="ac")
    for epoch in (1 << 20, 1 << 10):
        hello = Hello("uuid-b", epoch, 0, "", None, None, 0)
        assert mesh.nodes["c"].links_up == ["b"]
        mesh.step("c", FrameRead("b", Frame(epoch << 32 | 1, 1, hello)))
    mesh.run(for_ms=3_000)
    assert mesh.nodes["c"].links_up == []
    mesh.run(for_ms=15_000)
    assert mesh.nodes["c"].links_up == ["b"]
    assert ask_again(mesh, "a") == ["a", "c"]


def ask_again(mesh: World, node: str) -> list[str]:
    call = mesh.send(node, "r")
    mesh.run()
    return call.reached
