"""Links as people write them on a command line: `A-B`, or `A:B` where hyphens leave it open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.model.topology import Topology


@dataclass(frozen=True, slots=True)
class WrittenLink:
    """A link as somebody wrote it.

    Attributes:
        text: As it was written.
        cuts: The pairs of names that it can mean; hyphens in names may leave several.
    """

    text: str
    cuts: Sequence[tuple[str, str]]


def links_of(option: str, texts: Sequence[str]) -> Sequence[WrittenLink]:
    """Return links written `A-B`, or `A:B` where hyphens in names leave it open.

    Args:
        option: Where they were written.
        texts: The links.

    Raises:
        ConfigError: One is no link in any topology.
    """
    from mesh.model.names import name_fault

    found: list[WrittenLink] = []
    for text in (one.strip() for one in texts):
        at = [text.find(":")] if ":" in text else [i for i, one in enumerate(text) if one == "-"]
        cuts = [(text[:i], text[i + 1 :]) for i in at]
        cuts = [(a, b) for a, b in cuts if name_fault(a) is None and name_fault(b) is None]
        if text and not cuts:
            raise wrong_input(f"{option} {text}", "is not a link of two nodes; write A-B")
        found += [WrittenLink(text, cuts)] if text else []
    return found


def pairs_of(
    topology: Topology, option: str, links: Sequence[WrittenLink]
) -> list[tuple[str, str]]:
    """Return the links of two nodes of a topology that are meant.

    Raises:
        ConfigError: One names no two nodes, or could mean several links.
    """
    return [_pair(topology, f"{option} {link.text}", link) for link in links]


def _pair(topology: Topology, where: str, link: WrittenLink) -> tuple[str, str]:
    known = [(a, b) for a, b in link.cuts if a in topology.nodes and b in topology.nodes]
    if len(known) == 1:
        return known[0]
    if known:
        a, b = known[0]
        raise wrong_input(where, f"could mean several links; write it with a colon, as in {a}:{b}")
    nodes = ", ".join(list(topology.nodes)[:8]) + (", ..." if len(topology.nodes) > 8 else "")
    raise wrong_input(
        where, f"is not a link of two nodes; write A-B, of {nodes}", code="UNKNOWN_NODE"
    )
