"""A member of a queue that dies with consumers keeps nothing from those that live. DESIGN 6."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mesh.config.topology_file import topology_from_mapping
from tests.component.in_memory_mesh import Mesh
from tests.sim.queue_stage import Stage

ANY = {"jobs": {"policy": "any"}}
HOME = {"jobs": {"policy": "home", "home": "a"}}
BEATS_S = 5
"""Three beats of a member that come no more, and the next look at who demands."""


def stage(queues: Mapping[str, object], *links: str) -> Stage:
    """A queue at every node but `h`."""
    nodes = sorted({node for link in links for node in link.split("-")})
    topology = topology_from_mapping(
        {
            "kafka": {"one": None, "two": None},
            "nodes": {node: {"kafka": "two" if node in "hb" else "one"} for node in nodes},
            "zones": {"Z": {"kind": "multi-hop", "links": [link.split("-") for link in links]}},
            "queues": queues,
        }
    )
    made = Stage(Mesh(topology))
    made.queue(*(node for node in nodes if node != "h"))
    return made


@pytest.mark.parametrize(
    ("queues", "links", "consuming", "dead", "left"),
    [
        (ANY, ("a-h", "h-c", "h-d"), "cd", "c", "d"),
        (ANY, ("a-b", "a-d"), "bd", "b", "d"),
        (HOME, ("a-b", "a-d"), "bd", "d", "b"),
        (HOME, ("a-b", "a-d"), "bd", "b", "d"),
        (HOME, ("a-b",), "ab", "b", "a"),
    ],
    ids=["any-two-hops", "any-neighbour", "home-far-proxy", "home-near-proxy", "home-itself"],
)
def test_a_dead_member_starves_nobody(
    queues: Mapping[str, object], links: tuple[str, ...], consuming: str, dead: str, left: str
) -> None:
    """It was the nearest or had the most room, and the mover rested with half of the messages."""
    mesh = stage(queues, *links)
    for node in consuming:
        mesh.consume(node)
    for _ in range(5 * BEATS_S):
        mesh.step()
    mesh.mesh.world.kill(dead)
    mesh.leave(dead)
    for _ in range(5 * BEATS_S):
        mesh.step()
    mesh.publish("a", 100)
    mesh.until_all(limit_s=30)
    assert set(mesh.by_node()) == {left}


def test_a_member_behind_a_cut_link_is_no_target() -> None:
    """Its mover leaves the group, and the home's own consumers get all."""
    mesh = stage(HOME, "a-b")
    for node in "ab":
        mesh.consume(node)
    for _ in range(5 * BEATS_S):
        mesh.step()
    mesh.mesh.world.cut("a", ["b"])
    mesh.mesh.world.cut("b", ["a"])
    for _ in range(5 * BEATS_S):
        mesh.step()
    mesh.publish("a", 100)
    mesh.until_all(limit_s=30)
    assert set(mesh.by_node()) == {"a"}
    mesh.mesh.world.cut("a", [])
    mesh.mesh.world.cut("b", [])
    for _ in range(5 * BEATS_S):
        mesh.step()
    mesh.publish("a", 100)
    mesh.until_all(limit_s=30)
    assert set(mesh.by_node()) == {"a", "b"}
