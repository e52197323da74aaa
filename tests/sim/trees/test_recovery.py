"""Recovery: a way is looked for when somebody sends, and not before. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_apps import (
    RoleRequest,
    RouteReason,
)
from mesh.model.tree_frames import (
    Cause,
    Frame,
    RecoveryAnswer,
    RecoveryDone,
    Reopen,
)
from mesh.model.trees import (
    Extent,
    InstanceId,
    MessageId,
)
from mesh.trees.inputs import (
    RolesAdded,
)
from mesh.trees.installing import install, wipe
from mesh.trees.routes import InstanceRoute
from tests.sim.trees.rules import (
    check_quiet,
    inside,
)
from tests.sim.trees.scenes import (
    LINE,
    LONG,
    ask,
    kinds,
    world,
)
from tests.sim.trees.trial import (
    builder_frames,
)
from tests.sim.trees.world import (
    APP,
    address,
)


def test_09_a_second_send_builds_nothing() -> None:
    """Spec: tree_layer 11 (9)."""
    mesh = world((*LINE, ("c", "a")), roles="c")
    ask(mesh, "a")
    before = builder_frames(mesh)
    ask(mesh, "a")
    assert builder_frames(mesh) == before


def test_who_found_nobody_asks_again() -> None:
    """Somebody may have come since whose word was lost: nobody is no certainty. Spec: H1."""
    mesh = world()
    for _ in range(2):
        before = mesh.frames["RecoveryRequest"]
        assert kinds(ask(mesh, "a")) == [("not_found", True)]
        assert mesh.frames["RecoveryRequest"] > before
        is_certain, ways = mesh.nodes["a"].routes(address("t", "r"))
        assert (is_certain, ways) == (False, ())


def test_10_another_way_is_found_while_the_message_is_under_way() -> None:
    """Spec: tree_layer 11 (10), H9."""
    mesh = world(roles="c")
    ask(mesh, "a"), ask(mesh, "a")
    mesh.heal("a", "c")
    mesh.run()
    mesh.cut("b", "c")
    mesh.run()
    assert ask(mesh, "a").reached == ["c"]


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


def test_a_recovery_asks_who_knows_no_way_but_back() -> None:
    """d came while it was apart, and c knows the one way to a. Spec: H4."""
    mesh = world(LONG, roles="a")
    for node in "abcd":
        ask(mesh, node)
    mesh.cut("c", "d")
    mesh.run()
    mesh.role("d", "r")
    mesh.run()
    mesh.heal("c", "d")
    mesh.run()
    assert ask(mesh, "a").reached == ["a", "d"]


def test_where_the_way_ends_everybody_is_asked_once_before_it_is_given_up() -> None:
    """b is certain, and of its ways only that to the sender is left. Spec: tree_layer 5.11, H10."""
    mesh = world(roles="ac")
    mesh.role("c", "q")  # the tree keeps its edge between b and c
    for node in "abc":
        ask(mesh, node)
    place = address("t", "r")
    [far] = inside(mesh, "c").instances(place)
    wipe(inside(mesh, "b"), place, Extent.CLOUD, [far])
    asked = mesh.frames["RecoveryRequest"]
    assert ask(mesh, "a").reached == ["a", "c"]
    assert mesh.frames["RecoveryRequest"] > asked
    assert mesh.frames["RouteBreak"] == 0


def test_no_way_leads_over_a_link_that_is_down() -> None:
    """Whoever says so: what waited for it would wait for ever. Spec: H17."""
    mesh = world()
    mesh.cut("a", "b")
    mesh.run()
    node, place, iid = inside(mesh, "a"), address("t", "r"), InstanceId(7)
    over = InstanceRoute("b", 1, 1, RouteReason.PUBLISHED, mesh.now_ms, Extent.CLOUD)
    assert not install(node, place, Extent.CLOUD, iid, over)
    assert mesh.nodes["a"].routes(place) == (False, ())
    mesh.heal("a", "b")
    mesh.run()
    assert install(node, place, Extent.CLOUD, iid, over)


def test_two_hundred_unused_roles_cost_nothing_at_a_cut() -> None:
    """Lazy repair: a loss and a heal send colours and news alone. Spec: tree_layer 5.9. PAT-6."""
    mesh = world(LONG)
    mesh.step("d", RolesAdded(APP, [RoleRequest(address(f"t{n}", "r")) for n in range(200)]))
    mesh.run()
    before = builder_frames(mesh)
    mesh.cut("b", "c")
    mesh.run()
    mesh.heal("b", "c")
    mesh.run()
    assert builder_frames(mesh) == before
    assert mesh.frames["RecoveryRequest"] == 0
