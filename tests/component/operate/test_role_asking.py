"""Nodes that are asked about roles, as an application would ask them."""

from __future__ import annotations

import threading
from contextlib import ExitStack

import pytest

from mesh.client.roles import Roles
from mesh.operate.roles.asking import RoleAsking
from tests.component.in_memory_mesh import Mesh
from tests.patience import PATIENCE_S


def test_nodes_that_do_not_answer_are_waited_for_side_by_side(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them takes as long as is waited for one: in turn they would cost minutes."""
    together = threading.Barrier(len(mesh.topology.nodes))

    def open_in_vain(_roles: Roles, _timeout_s: float) -> Roles:
        together.wait(PATIENCE_S)
        raise TimeoutError

    monkeypatch.setattr(Roles, "open", open_in_vain)
    asking = RoleAsking(mesh.seen())
    told = asking.routes("desk-7", "pricing", 1.0)
    assert [(one["node"], one["certain"]) for one in told] == [
        ("a", None),
        ("b", None),
        ("c", None),
    ]
    with ExitStack() as left:
        assert asking.open_everywhere(left, 1.0) == {}
