"""The profile PATENT: the source's own rules, for comparison with HARD.

Rules 2 to 5 of publishing and of recovery save frames by trusting tables; a node knows one
instance behind an edge, and that one knows the next (scoped knowledge). What they miss stands in
the ADRs. Spec: tree_layer 5.1, 5.2, 5.7, 5.8.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from mesh.model.tree_frames import RouteBreak, Send
from mesh.model.trees import NO_INSTANCE, Address, Extent, InstanceId
from mesh.trees.cycles import break_cycle, read_cycle
from mesh.trees.flooding import Flooding, Onward
from mesh.trees.installing import role_routes
from mesh.trees.node import TreeState
from mesh.trees.records import Recovery


class PatentFlooding(Flooding):
    """Floods follow tables where those are certain, and cycles are broken."""

    trusts_empty_maps: ClassVar[bool] = True

    def publish_onward(
        self, node: TreeState, address: Address, iid: InstanceId, ways: Iterable[str], spew: int
    ) -> Onward:
        """Apply rules 2 to 6 of publishing; rule 3 first. Spec: PAT-1."""
        is_sure = _is_sure(node, address)
        spew = _spew(node, spew, is_sure=is_sure or _is_tree_built(node, address), counts=is_sure)
        hosts_another = any(one != iid for one in node.instances(address))
        return _onward(node, address, list(ways), spew, stops_here=hosts_another)

    def recovery_onward(
        self, node: TreeState, address: Address, ways: Iterable[str], spew: int
    ) -> Onward:
        """Apply rules 2 to 6 of recovery, of which the third looks at the role alone."""
        is_sure = _is_sure(node, address)
        spew = _spew(node, spew, is_sure=is_sure, counts=is_sure)
        return _onward(node, address, list(ways), spew, stops_here=bool(node.instances(address)))

    def took_part(self, node: TreeState, own: Recovery) -> None:
        """Trust the map, as everybody does who took part.

        Spec: tree_layer 5.7; what it breaks: H6.
        """
        _, role = role_routes(node, own.address)
        role.map(own.scope).is_certified = True
        if own.scope is Extent.CLOUD:
            role.heals = node.heals_known

    def came_twice(self, node: TreeState, link: str, said: Send) -> None:
        """Take the edge out that the second copy came over. Spec: PAT-3."""
        break_cycle(node, link, said)

    def heard_of_cycle(self, node: TreeState, link: str, said: RouteBreak) -> None:
        """Turn routes round. Spec: PAT-3."""
        read_cycle(node, link, said)


def _is_tree_built(node: TreeState, address: Address) -> bool:
    """Return whether every role of the tree that is known is certain; one just met is not asked."""
    tree = node.trees.get(address.tree)
    others = [role for role in tree.roles.values() if role.name != address.role] if tree else []
    return bool(others) and all(role.everywhere.is_certified for role in others)


def _is_sure(node: TreeState, address: Address) -> bool:
    tree = node.trees.get(address.tree)
    role = tree.roles.get(address.role) if tree is not None else None
    return role is not None and role.map(Extent.CLOUD).is_certified


def _spew(node: TreeState, spew: int, *, is_sure: bool, counts: bool) -> int:
    """Rule 3: where nothing is sure a flood goes everywhere for some hops; else it counts down."""
    if not is_sure:
        return node.settings.spew_hops
    return spew - 1 if counts and spew else spew


def _onward(
    node: TreeState, address: Address, ways: list[str], spew: int, *, stops_here: bool
) -> Onward:
    if spew:
        return Onward(tuple(ways), spew)
    if stops_here:
        return Onward((), 0)
    tree = node.trees.get(address.tree)
    role = tree.roles.get(address.role) if tree is not None else None
    if role is not None and role.everywhere.is_certified:
        routed = role.everywhere.links(NO_INSTANCE)
        return Onward(tuple(one for one in ways if one in routed), 0)
    if tree is not None and _is_tree_built(node, address):
        return Onward(tuple(one for one in ways if one in tree.edges), 0)
    return Onward(tuple(ways), 0)
