"""Nodes and links as people write them in options: `a,b,c` and `a-b`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mesh.cli.faults import wrong_input

if TYPE_CHECKING:
    from mesh.model.topology import Topology


def names_of(text: str) -> list[str]:
    """Return the names of a list with commas; spaces around them do not count."""
    return [name for part in text.split(",") if (name := part.strip())]


def pairs_of(topology: Topology, option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return links written `a-b`, or `a:b` where hyphens in names leave it open.

    Args:
        topology: Whose nodes are meant.
        option: Where they were written.
        texts: The links.

    Raises:
        ConfigError: One names no two nodes, or could mean several links.
    """
    return [_pair(topology, option, text.strip()) for text in texts if text.strip()]


def _pair(topology: Topology, option: str, text: str) -> tuple[str, str]:
    where = f"{option} {text}"
    if ":" in text:
        one, _, other = text.partition(":")
        found = [(one, other)]
    else:
        cuts = [at for at, letter in enumerate(text) if letter == "-"]
        found = [(text[:at], text[at + 1 :]) for at in cuts]
    known = [(a, b) for a, b in found if a in topology.nodes and b in topology.nodes]
    if len(known) == 1:
        return known[0]
    if known:
        a, b = known[0]
        raise wrong_input(where, f"could mean several links; write it with a colon, as in {a}:{b}")
    nodes = ", ".join(list(topology.nodes)[:8]) + (", ..." if len(topology.nodes) > 8 else "")
    raise wrong_input(where, f"is no link of two nodes; write A-B, of {nodes}", code="UNKNOWN_NODE")
