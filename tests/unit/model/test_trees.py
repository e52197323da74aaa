"""What trees are called. Spec: tree_layer 8."""

from __future__ import annotations

import pytest

from mesh.model.trees import tree_id

CANONICAL = "0a1b2c3d-0a1b-2c3d-0a1b-2c3d0a1b2c3d"
DIGITS = CANONICAL.replace("-", "")


@pytest.mark.parametrize(
    "name", [CANONICAL, DIGITS, DIGITS.upper(), f"{{{CANONICAL}}}", f"urn:uuid:{CANONICAL}"]
)
def test_a_uuid_is_the_tree_that_it_names(name: str) -> None:
    assert tree_id(name) == CANONICAL


@pytest.mark.parametrize("name", ["\u0661" * 32, "a_b" * 10 + "ab", "\uff11" * 32])
def test_a_name_that_only_looks_like_a_uuid_is_a_name(name: str) -> None:
    """Two such names would have been one tree."""
    assert tree_id(name)[14] == "5", "of those that stand for names"
