"""A link goes and comes back under its name, twice, while its lanes move. Spec: K11, K16, K28."""

from __future__ import annotations

import pytest

from tests.sim.changing import ChangedMesh
from tests.sim.test_changes import multi_hop, topology

LINKED = topology(Z=multi_hop("ab", "bc"), lanes=2)
GONE = topology(Z=multi_hop("bc"), lanes=2)


@pytest.mark.parametrize("returns", ["zombies", "dead"])
def test_all_comes_once_and_in_order(returns: str) -> None:
    """One worker stands still, or dies, before each switch; zombies wake when the link is back."""
    mesh = ChangedMesh(LINKED, seed=0, workers=2)
    for index in (0, 1):
        mesh.run(500, load=True)
        for node in "ab":
            if returns == "zombies":
                mesh.world.pause(node, index)
            else:
                mesh.world.kill(node, index)
        mesh.run(300, load=True)
        mesh.change_to(GONE, "abc")
        mesh.run(300, load=True)
        mesh.killed_at_switch = "ab" if returns == "dead" and index else ""
        mesh.change_to(LINKED, "abc")
        mesh.killed_at_switch = ""
        for node in "ab":
            if returns == "zombies":
                mesh.world.resume(node, index)
            else:
                mesh.world.start(node, index)
        mesh.run(500, load=True)
    mesh.run(10_000)
    mesh.settle()
    mesh.assert_exact()
