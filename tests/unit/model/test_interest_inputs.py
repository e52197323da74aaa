"""Names of the inputs of interest."""

from __future__ import annotations

import pytest

from mesh.model.control import Ownership, Scope
from mesh.model.interest_inputs import (
    CHANGE,
    CLIENTS,
    GATES,
    STILL,
    input_name,
    is_acknowledged,
    neighbour_of,
    scope_of,
)
from mesh.model.joins import JoinRow


@pytest.mark.parametrize(
    "scope", [Scope("Z", "", Ownership.OWN), Scope("Z", "b", Ownership.OWN, JoinRow(2, 10))]
)
def test_a_neighbour_s_scope_comes_back(scope: Scope) -> None:
    """Spec: K12."""
    source = input_name("b", scope)
    assert (neighbour_of(source), scope_of(source)) == ("b", scope)
    assert is_acknowledged(source)


@pytest.mark.parametrize("source", [CLIENTS, CHANGE, GATES, STILL])
def test_all_else_is_no_neighbour_s(source: str) -> None:
    assert neighbour_of(source) == ""
    assert is_acknowledged(source) is (source == CLIENTS)
