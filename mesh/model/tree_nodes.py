"""Trees that every node is on, and what nodes say of themselves there.

They are for reaching everybody, a realm, or one node. Nobody publishes on them: they
cost nothing until somebody sends, and whoever does asks again.
Spec: tree_layer 7.5, 8 (getTreeNodes).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache

from mesh.model.trees import Address, TreeId, tree_id

MESH_APP = "$mesh"
"""The node itself, as an application."""

NODES = Address(tree_id("$nodes"), "node")
"""Everybody who can be reached."""

REALMS = tree_id("$realms")
"""Each realm by its name: a message to one instance gets into it."""

SILENT = (NODES.tree, REALMS)
"""Trees of which no map stays whole, since nobody publishes there: each send recovers."""


@lru_cache(maxsize=256)
def tree_of_node(uuid: str) -> TreeId:
    """Return the tree of one node, on which it alone has the role `node`.

    A node asks for its own with each publish that it reads.
    """
    return tree_id(f"$node/{uuid}")


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """What a node says of itself.

    Attributes:
        links: Neighbours with whom it exchanges frames.
        neighbours: Those that share an edge of the tree that was asked for with it; None if it is
            not on that tree.
    """

    node: str
    uuid: str
    realm: str
    links: tuple[str, ...]
    neighbours: tuple[str, ...] | None = None


def encode_node(seen: NodeSeen) -> bytes:
    """Return it as JSON."""
    return json.dumps(asdict(seen)).encode()


def decode_node(data: bytes) -> NodeSeen:
    """Return what a node has said.

    Raises:
        ValueError: It is nothing that a node says.
    """
    try:
        found = json.loads(data)
        on = found["neighbours"]
        names = (str(found["node"]), str(found["uuid"]), str(found["realm"]))
        links = tuple(str(one) for one in found["links"])
        return NodeSeen(*names, links, None if on is None else tuple(str(one) for one in on))
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no word of a node: {data[:80]!r}") from error


def nodes_in(items: Iterable[bytes]) -> list[NodeSeen]:
    """Return what nodes have said; what none says is passed over."""
    seen: list[NodeSeen] = []
    for item in items:
        with suppress(ValueError):
            seen.append(decode_node(item))
    return seen
