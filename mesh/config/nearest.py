"""What somebody may have meant by a name that there is not."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.model.topology import Topology


LENGTH_MAX = 200
"""No name is longer. To compare what is takes the square of its length: minutes, for a page."""


def nearest(word: str, known: Sequence[str]) -> str:
    """Return `; did you mean x?`, or what there is to choose from, or nothing.

    Args:
        word: What was written.
        known: What could have been meant.
    """
    known = [name for name in known if len(name) <= LENGTH_MAX]
    lowered = {name.lower(): name for name in known}
    found = get_close_matches(word[:LENGTH_MAX].lower(), list(lowered), n=1, cutoff=0.5)
    if found:
        return f"; did you mean {lowered[found[0]]}?"
    listed = sorted(known)
    if not listed:
        return ""
    shown = ", ".join(listed[:8]) + (", ..." if len(listed) > 8 else "")
    return f"; known here: {shown}"


def node_fault(node: str, nodes: Collection[str]) -> str | None:
    """Return why a name is none of these nodes, or None if it is one."""
    if node in nodes:
        return None
    return f"no node is called {node[:80]!r}{nearest(node, list(nodes))}"


def link_fault(ends: Sequence[str], topology: Topology) -> str | None:
    """Return why there is no link between two nodes, or None if there is one."""
    one, other = ends
    text = f"no link between {one} and {other}"
    for end in ends:
        if (fault := node_fault(end, topology.nodes)) is not None:
            return f"{text}: {fault}"
    others = topology.neighbours(one)
    hint = f"{one} has links to {', '.join(others)}" if others else f"{one} has no links"
    return None if other in others else f"{text}; {hint}"


def check_node(topology: Topology, node: str, where: str) -> None:
    """Refuse the name of a node that there is not.

    Raises:
        ConfigError: No node is called that.
    """
    if (fault := node_fault(node, topology.nodes)) is not None:
        raise wrong_input(where, fault, code="UNKNOWN_NODE")
