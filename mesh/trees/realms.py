"""A node that comes into another realm while it lives: its links start over, as behind a cut.

What it knew within the former realm went over those links. What it hosts it has in the new one from
then on; who lives there is told by the meeting of two colours. Spec: tree_layer 5.14 (H16).
"""

from __future__ import annotations

from mesh.trees.colours import forget_realm_colour, need_colour
from mesh.trees.links import close_link, open_link
from mesh.trees.losing import link_lost
from mesh.trees.node import TreeState
from mesh.trees.publishing import forget_told
from mesh.trees.utility import host_own, leave_own


def change_realm(node: TreeState, realm: str) -> None:
    """Leave the realm, and be in another one, or for "" in none."""
    if realm == node.realm:
        return
    ends = list(node.links.values())
    for end in ends:
        if close_link(node, end.peer):
            link_lost(node, end)
    leave_own(node)
    forget_told(node)
    node.realm = realm
    forget_realm_colour(node)
    host_own(node)
    if node.colour is not None:
        need_colour(node)
    for end in ends:
        open_link(node, end.peer)
