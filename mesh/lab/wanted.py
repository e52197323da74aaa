"""What is wanted over a link, held against what a scenario expects. Spec: lab.md 1 (`expect`)."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.lab.steps import Expect
from mesh.model.topology import Topology
from mesh.operate.link_flows import wanted_over
from mesh.view.mesh_view import MeshView


def interest_faults(topology: Topology, view: MeshView, expect: Expect) -> Sequence[str]:
    """Return how what a link's reader wants of its sender differs from what is expected.

    Addresses of nodes do not count. Over a link that is gone by now nothing is wanted.

    Args:
        topology: What is in force.
        view: Of the mesh, refreshed.
        expect: The step.
    """
    link = expect.interest or ""
    found = _wanted(topology, view, link)
    expected = sorted(dict.fromkeys(expect.filters or ()))
    if found == expected:
        return ()
    return [f"{link}: wanted are {_listed(found)}, expected {_listed(expected)}"]


def _wanted(topology: Topology, view: MeshView, link: str) -> list[str]:
    source, _, target = link.partition("->")
    zones = [
        topology.zone_over(one, source)
        for one in topology.links
        if sorted(one.ends) == sorted((source, target)) and topology.sends(source, target)
    ]
    found = [filter_ for zone in zones for _, filter_, _ in wanted_over(view, target, source, zone)]
    return sorted(dict.fromkeys(found))


def _listed(filters: Sequence[str]) -> str:
    return ", ".join(filters) or "none"
