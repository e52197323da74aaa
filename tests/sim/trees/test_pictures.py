"""The pictures of docs/trees.md are what a simulated mesh does. Spec: tree_layer 6.4, 7.2."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

from mesh.model.tree_apps import Unpartitioned
from mesh.model.tree_frames import Reply, Send
from tests.sim.trees.scenes import LONG, answer, ask, hold_answers, world
from tests.sim.trees.world import World

PAGE = (Path(__file__).parents[3] / "docs/trees.md").read_text(encoding="utf-8")


def sequence(mesh: World) -> Iterable[str]:
    """Yield what messages and replies a mesh has logged, as Mermaid draws them."""
    for _, here, there, frame in mesh.log or ():
        if isinstance(frame.body, Send):
            yield f"{here}->>{there}: Send"
        elif isinstance(frame.body, Reply):
            last = ", last" if frame.body.is_last else ""
            yield f"{here}-->>{there}: Reply {frame.body.kind.name}{last}"


def chain(mesh: World, mark: int, healed: str) -> str:
    """Return the nodes and the links between them, as Mermaid draws them."""
    drawn = [f"{one}{mark}(({one}))" for one in sorted(mesh.nodes)]
    line = drawn[0]
    for (one, other), node in zip(pairwise(sorted(mesh.nodes)), drawn[1:], strict=True):
        works = mesh.wires[frozenset((one, other))].works
        sign = "-. cut .-" if not works else "===" if one + other == healed else "---"
        line += f" {sign} {node}"
    return line


def test_the_picture_of_a_send_is_what_happens() -> None:
    mesh = world(LONG, roles="cd")
    ask(mesh, "a")
    held, mesh.log = hold_answers(mesh), []
    mesh.send("a", "r")
    mesh.run(for_ms=500)
    for node in "dc":
        answer(mesh, next(one for one in held if one[0] == node))
        mesh.run(for_ms=500)
    drawn = "\n".join(f"    {line}" for line in sequence(mesh))
    hosts = [one for one in "abcd" if mesh.nodes[one].size.roles]
    names = [f"participant {one}" + f" as {one} (hosts r)" * (one in hosts) for one in "abcd"]
    assert "\n".join(f"    {one}" for one in names) + f"\n{drawn}\n```" in PAGE


def test_the_picture_of_a_heal_is_what_happens() -> None:
    """Two colours meet, every node is told once, and all are of one colour."""
    mesh = world(LONG, roles="ad")
    for node in "ad":
        ask(mesh, node)
    mesh.cut("b", "c")
    mesh.run()
    colours = [mesh.nodes[one].colour for one in "abcd"]
    assert colours[0] == colours[1] != colours[2] == colours[3]
    before, mesh.told = chain(mesh, 1, ""), []
    mesh.heal("b", "c")
    mesh.run()
    told = [node for node, one in mesh.told if isinstance(one, Unpartitioned)]
    assert sorted(told) == list("abcd")
    assert len({mesh.nodes[one].colour for one in "abcd"}) == 1
    for name, drawn in (("before", before), ("after", chain(mesh, 2, "bc"))):
        assert f"    subgraph {name}\n        {drawn}\n    end\n" in PAGE
    assert "two colours meet: each side is told once" in PAGE
