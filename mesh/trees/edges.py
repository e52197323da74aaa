"""Edges of trees: made with the first route over a link, gone when neither end has one.

Spec: tree_layer 5.6.
"""

from __future__ import annotations

from mesh.model.tree_frames import Edge, EdgePhase
from mesh.trees.node import TreeState
from mesh.trees.routes import Tree, TreeEdge


def use_edge(node: TreeState, tree: Tree, link: str) -> None:
    """Count a route over a link; the first one makes the edge, here and at the peer."""
    edge = tree.edges.get(link)
    if edge is None:
        edge = _make(node, tree, link)
        node.transmit(link, Edge(tree.id, EdgePhase.CREATE))
    edge.routes += 1


def leave_edge(node: TreeState, tree: Tree, link: str) -> None:
    """Count a route less; behind the last one the peer is asked whether it needs the edge."""
    edge = tree.edges[link]
    edge.routes -= 1
    if not edge.routes and not edge.is_asking and node.is_up(link):
        edge.is_asking = True
        node.transmit(link, Edge(tree.id, EdgePhase.ASK))


def drop_edge(node: TreeState, tree: Tree, link: str) -> None:
    """Forget an edge without a word: its link is down, or both ends agree."""
    tree.edges.pop(link, None)
    if link in node.links:
        node.links[link].trees.pop(tree.id, None)


def read_edge(node: TreeState, link: str, said: Edge) -> None:
    """Act on what the peer says of an edge.

    Both may ask at once: each then takes the other's question for leave to go.
    """
    if said.phase is EdgePhase.CREATE:
        tree = node.tree(said.tree)
        if link not in tree.edges:
            _make(node, tree, link)
        return
    tree = node.trees.get(said.tree, Tree(said.tree))
    edge = tree.edges.get(link)
    has_routes = edge is not None and edge.routes > 0
    if said.phase is EdgePhase.ASK:
        if not has_routes:
            drop_edge(node, tree, link)
        node.transmit(link, Edge(said.tree, EdgePhase.NO if has_routes else EdgePhase.OK))
    elif said.phase is EdgePhase.OK and edge is not None:
        if edge.routes:
            edge.is_asking = False
            node.transmit(link, Edge(said.tree, EdgePhase.CREATE))
        else:
            drop_edge(node, tree, link)
    elif said.phase is EdgePhase.NO and edge is not None:
        edge.is_asking = False


def _make(node: TreeState, tree: Tree, link: str) -> TreeEdge:
    node.links[link].trees[tree.id] = None
    edge = tree.edges[link] = TreeEdge()
    return edge
