"""Simulated meshes for every part that stands on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from tests.component.in_memory_mesh import CHAIN, Mesh


@pytest.fixture
def mesh_of() -> Iterator[Callable[[Topology], Mesh]]:
    running: list[Mesh] = []

    def start(topology: Topology) -> Mesh:
        running.append(Mesh(topology))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
def mesh(mesh_of: Callable[[Topology], Mesh]) -> Mesh:
    return mesh_of(topology_from_mapping(CHAIN))
