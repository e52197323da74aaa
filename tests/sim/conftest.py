"""Meshes that several trials start, and that end with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest

from mesh.config.topology_file import topology_from_mapping
from tests.component.in_memory_mesh import Mesh
from tests.sim.queue_stage import CHAIN, Stage


@pytest.fixture
def stage_of() -> Iterator[Callable[[Mapping[str, object]], Stage]]:
    running: list[Mesh] = []

    def start(spec: Mapping[str, object]) -> Stage:
        running.append(Mesh(topology_from_mapping({**CHAIN, **spec})))
        return Stage(running[-1])

    yield start
    for mesh in running:
        mesh.close()
