"""Topologies in one line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind

MeshOf = Callable[..., Topology]
FIG36 = (
    "TK one-hop tk1 tk2 tk3",
    "NY one-hop ny1 ny2 ny3",
    "PA one-hop pa1 pa2 pa3",
    "WO multi-hop tk1-ny1 ny1-pa1",
)
"""Figure 36 of EMS: three full meshes in a row."""


@pytest.fixture(scope="session")
def mesh_of() -> MeshOf:
    """`mesh_of("Z1 multi-hop a-b b-c", "C cluster d e f")`: zones with their links or nodes."""

    def build(*zones: str) -> Topology:
        made = [_zone(*text.split()) for text in zones]
        nodes = sorted({node for zone in made for node in zone.nodes})
        return Topology(
            name="test",
            kafka={"k": DeclaredKafka(name="k")},
            nodes={node: Node(name=node, kafka="k") for node in nodes},
            zones={zone.name: zone for zone in made},
        )

    return build


def _zone(name: str, kind: str, *parts: str) -> Zone:
    if any("-" in part for part in parts):
        pairs: Sequence[tuple[str, str]] = [(a, b) for a, _, b in (p.partition("-") for p in parts)]
        return Zone.of_links(name, ZoneKind(kind), pairs)
    return Zone.full_mesh(name, ZoneKind(kind), parts)
