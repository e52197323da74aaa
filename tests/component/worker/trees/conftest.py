"""A mesh in memory whose nodes have the tree layer, and applications on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mesh.client.roles import Roles
from mesh.config.topology_file import topology_from_mapping
from mesh.trees.settings import Settings
from tests.component.in_memory_mesh import CHAIN, Mesh
from tests.component.worker.trees.applications import Open


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    made = Mesh(topology_from_mapping(CHAIN), trees=Settings())
    yield made
    made.close()


@pytest.fixture
def application(mesh: Mesh) -> Open:
    def opened(node: str, app: str = "app", **options: object) -> Roles:
        return mesh.client(node).roles(app, **options).open()  # type: ignore[arg-type]

    return opened
