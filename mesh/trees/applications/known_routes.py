"""What a node knows of the way to a role, told in records that fit a topic. Spec: tree_layer 8."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.tree_apps import RoutesAsked, RoutesTold
from mesh.trees.machine import TreeNode

ROUTES_MAX = 200
"""In one record: a topic has room for so many, whatever the mesh allows messages to be."""


def tell_routes(node: TreeNode, asked: RoutesAsked) -> Iterator[RoutesTold]:
    """Yield the answer, in as many records as it takes."""
    is_certain, routes = node.routes(asked.address)
    colour = "" if node.colour is None else str(node.colour)
    links = tuple(node.links_up)
    for first in range(0, max(1, len(routes)), ROUTES_MAX):
        behind = first + ROUTES_MAX
        has_more = behind < len(routes)
        yield RoutesTold(
            app=asked.app,
            call=asked.call,
            address=asked.address,
            is_certain=is_certain,
            routes=routes[first:behind],
            links=links,
            colour=colour,
            has_more=has_more,
        )
