"""The rule of names."""

from __future__ import annotations

import pytest

from mesh.model.names import fold, name_fault, prefix_fault


@pytest.mark.parametrize("name", ["a", "7", "tk1", "Tokyo-2", "a" * 64, "1-", "AUDITS"])
def test_name_accepts(name: str) -> None:
    """Letters, digits and hyphens, 64 at most. Spec: DESIGN 3."""
    assert name_fault(name) is None


@pytest.mark.parametrize(
    "name", ["", "-a", "a" * 65, "a/b", "..", "a.b", "a_b", "ä", "a b", "a\n", "audit", "Config"]
)
def test_name_refuses(name: str) -> None:
    """What Kafka would confuse, what is not ASCII, and what the mesh keeps. Spec: DESIGN 3."""
    assert name_fault(name)


def test_names_compare_without_case() -> None:
    """Two names that differ in case only are one."""
    assert fold("TK1") == fold("tk1") != fold("tk2")


@pytest.mark.parametrize("prefix", ["mesh.", "a.b-c.", "X."])
def test_prefix_accepts(prefix: str) -> None:
    """Names that each end with a dot. Spec: kafka.md 1."""
    assert prefix_fault(prefix) is None


@pytest.mark.parametrize("prefix", ["", "mesh", ".", "a..", "a_b.", "a" * 64 + "."])
def test_prefix_refuses(prefix: str) -> None:
    """Without a final dot a prefix and a node's name could run into one another."""
    assert prefix_fault(prefix)
