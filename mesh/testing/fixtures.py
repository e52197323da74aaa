"""Fixtures for pytest.

In your `conftest.py`:

```python
pytest_plugins = ["mesh.testing.fixtures"]

@pytest.fixture(scope="session")
def mesh_topology():
    return "mesh.yaml"
```

`mesh` is a fresh mesh in memory for each test; `mesh_client` makes clients of it:
`mesh_client("tk1")`. Override `mesh` to have another form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mesh.client import MeshClient
from mesh.testing.memory import InMemoryMesh
from mesh.testing.under_test import MeshUnderTest, TopologyLike


@pytest.fixture(scope="session")
def mesh_topology() -> TopologyLike:
    """What to run: override this."""
    pytest.fail("override the fixture mesh_topology: it returns a topology file", pytrace=False)


@pytest.fixture
def mesh(mesh_topology: TopologyLike) -> Iterator[MeshUnderTest]:
    """A mesh in memory that serves."""
    with InMemoryMesh(mesh_topology) as one:
        yield one


@pytest.fixture
def mesh_client(mesh: MeshUnderTest) -> Callable[[str], MeshClient]:
    """Makes a client of a node of that mesh."""
    return mesh.client
