"""Every test gets a mesh for itself, in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["mesh.testing.fixtures"]


@pytest.fixture(scope="session")
def mesh_topology() -> Path:
    """The mesh that the service runs on."""
    return Path(__file__).with_name("mesh.yaml")
