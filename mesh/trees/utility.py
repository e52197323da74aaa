"""What every node hosts without a word: its place on the trees of all nodes, of realms, of its own.

Nothing is published for it. A send to everybody forgets what was certain and recovers, so that
nobody is missed who came since; the node answers by itself. Spec: tree_layer 7.5, 8.
"""

from __future__ import annotations

from mesh.model.tree_nodes import (
    MESH_APP,
    NODES,
    REALMS,
    SILENT,
    NodeSeen,
    encode_node,
    tree_of_node,
)
from mesh.model.trees import Address, Extent, TreeId, tree_id
from mesh.trees.installing import role_routes
from mesh.trees.node import TreeState
from mesh.trees.records import LocalRole


def host_own(node: TreeState) -> None:
    """Take the node's place on the utility trees."""
    node.hosts.open_port(MESH_APP, "")
    extent = Extent.REALM if node.realm else Extent.CLOUD
    places = [(NODES, Extent.CLOUD), (Address(tree_of_node(node.uuid), NODES.role), extent)]
    if node.realm:
        places.append((Address(REALMS, node.realm), Extent.CLOUD))
    for address, reach in places:
        one = LocalRole(MESH_APP, address, node.ids.instance(node.clock.value), False, reach, "")
        node.hosts.keep(one)


def leave_own(node: TreeState) -> None:
    """Give up the node's place on the utility trees, without a word as it was taken."""
    for address, iid in list(node.hosts.by_app[MESH_APP]):
        node.hosts.drop(node.instances(address)[iid])


def is_reserved(node: TreeState, tree: TreeId) -> bool:
    """Return whether no application may take roles on a tree."""
    return tree in SILENT or tree == tree_of_node(node.uuid)


def forget_certainty(node: TreeState, address: Address) -> None:
    """Let the next send recover if the role is one that nobody publishes.

    A recovery that runs is not disturbed: whoever sends often would have it start over for ever.
    """
    if address.tree in SILENT:
        _, role = role_routes(node, address)
        for table in role.maps():
            table.is_certified = False


def describe(node: TreeState, asked: bytes) -> bytes:
    """Return what the node says of itself, and of its place on the tree that is asked for."""
    links = tuple(sorted(link for link, end in node.links.items() if end.is_up))
    return encode_node(NodeSeen(node.name, node.uuid, node.realm, links, _place(node, asked)))


def _place(node: TreeState, asked: bytes) -> tuple[str, ...] | None:
    try:
        tree = tree_id(asked.decode())
    except ValueError:
        return None
    known = node.trees.get(tree)
    edges = tuple(sorted(known.edges)) if known is not None else ()
    return edges if edges or node.hosts.by_tree.get(tree) else None
