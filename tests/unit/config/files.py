"""Topology files in a few words: what they say, and what is said of bad ones."""

from __future__ import annotations

import pytest

from mesh.config.located import parse_document
from mesh.config.topology_file import topology_of
from mesh.errors import ConfigError
from mesh.model.topology import Topology


def parsed(text: str) -> Topology:
    """The topology of a file with this text."""
    return topology_of(parse_document(text.encode(), "m.yaml"))


def refused(text: str) -> list[str]:
    """The complaint about such a file."""
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return [problem.line() for problem in caught.value.problems]


def spec(zones: str, nodes: str = "a: {}, b: {}, c: {}", kafka: str = "k: {}") -> str:
    """A file with these parts; zones begin in line 7."""
    return (
        "apiVersion: mesh/v1\nkind: Mesh\nmetadata: {name: m}\nspec:\n"
        f"  kafka: {{{kafka}}}\n  nodes: {{{nodes}}}\n{zones}"
    )
