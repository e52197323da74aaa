"""Roles of the tree layer as lists of the API: who wants which, and the ways there.

Spec: tree_layer 8, 13.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.api.items import Items
from mesh.api.live import Snapshot
from mesh.config.nearest import check_node
from mesh.errors import wrong_input
from mesh.model.trees import name_fault, tree_id
from mesh.operate.documents.role_routes import role_routes_document
from mesh.operate.documents.roles import roles_document


def role_items(snapshot: Snapshot, at_ms: int | None) -> tuple[Items, Mapping[str, Sequence[str]]]:
    """Return who wants which role, or wanted it then, and what is shown beside that.

    That is `unknown`, the nodes that could not be asked, and of a moment gone by `ends_unknown`,
    those where roles that were given up since may be lacking.
    """
    seen = snapshot.seen
    told = roles_document(seen, at_ms)
    keyed = (
        (f"{one['tree']} {one['role']} {one['node']} {one['app']}", one) for one in told["roles"]
    )
    unknown = told["unknown"]
    more = {"unknown": unknown}
    if at_ms is not None:
        more["ends_unknown"] = [node for node in seen.topology.nodes if node not in unknown]
    return sorted(keyed, key=lambda pair: pair[0]), more


def role_route_items(
    snapshot: Snapshot, tree: str, role: str, node: str
) -> tuple[Items, Sequence[str]]:
    """Return the routes to roles, and the nodes of which they are not known.

    Args:
        snapshot: The mesh.
        tree: Only of this one, by name or UUID; empty for all.
        role: Only of this one; empty for all.
        node: Only of this one; empty for all.

    Raises:
        ConfigError: A name is none.
    """
    seen = snapshot.seen
    wanted = _tree_called(tree) if tree else ""
    if role and (fault := name_fault(role)):
        raise wrong_input("role", fault)
    if node:
        check_node(seen.topology, node, "node")
    told = role_routes_document(seen)
    names = ("tree_id", "role", "node", "instance", "scope", "link")
    keyed = (
        (" ".join(one[name] for name in names), one)
        for one in told["routes"]
        if (not wanted or one["tree_id"] == wanted)
        and (not role or one["role"] == role)
        and (not node or one["node"] == node)
    )
    unknown = [one for one in told["unknown"] if not node or one == node]
    return sorted(keyed, key=lambda pair: pair[0]), unknown


def _tree_called(tree: str) -> str:
    try:
        return tree_id(tree)
    except ValueError as error:
        raise wrong_input("tree", str(error)) from error
