"""Publishing and unpublishing: everybody hears of it, and nothing old comes back. Spec: tree_layer 11."""

from __future__ import annotations

from mesh.model.tree_apps import (
    RoleRequest,
)
from mesh.model.tree_frames import (
    Frame,
    Publish,
)
from mesh.model.trees import (
    Extent,
    MessageId,
)
from mesh.transport.node_topics import HEADROOM_BYTES
from mesh.trees.inputs import (
    FrameRead,
    RolesAdded,
)
from mesh.trees.settings import Settings
from mesh.wire.trees import encode_frame
from tests.sim.trees.rules import (
    inside,
)
from tests.sim.trees.scenes import (
    LINE,
    REALMS,
    ask,
    kinds,
    world,
)
from tests.sim.trees.world import (
    APP,
    World,
    address,
)


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


def test_46_fifty_roles_go_in_one_frame_per_link() -> None:
    """Spec: tree_layer 11 (46)."""
    bulk, single = world(), world()
    requests = [RoleRequest(address(f"t{n % 10}", f"r{n}")) for n in range(50)]
    before = bulk.frames.copy()
    bulk.step("a", RolesAdded(APP, requests))
    bulk.run()
    assert bulk.frames["Bulk"] == 2
    assert bulk.frames["Publish"] == before["Publish"]
    for request in requests:
        single.step("a", RolesAdded(APP, (request,)))
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


def test_frames_about_many_roles_fit_where_messages_are_smallest() -> None:
    """Topics have room for 100 kB beside one message: a larger frame was lost, and its link too.

    Each heal had what is held alone told again, so that the link was lost again.
    """
    mesh = World(LINE, settings=Settings(ping_ms=0), alone="d")
    mesh.run()
    mesh.log = []
    requests = [
        RoleRequest(address(f"t{n}", f"{n:x<200}"), is_exclusive=True) for n in range(1_000)
    ]
    mesh.step("a", RolesAdded(APP, requests))
    mesh.run()
    for n in range(2_000):
        mesh.role("b", "shared", app=f"app-{n}")
    mesh.run()
    mesh.heal("c", "d")
    mesh.run()
    assert inside(mesh, "d").has_copied
    assert len(inside(mesh, "d").trees) == 1_001
    told = [frame for *_, frame in mesh.log]
    assert {"Bulk", "Trees"} <= {type(frame.body).__name__ for frame in told}
    assert max(len(encode_frame(frame)[1]) for frame in told) < HEADROOM_BYTES - 1_000


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
