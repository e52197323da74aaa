"""The invariants of the tree layer, looked at from outside, with all nodes in view.

Spec: tree_layer 10.
"""

from __future__ import annotations

from collections import Counter

from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import Address, Extent, InstanceId, TreeId
from mesh.trees.links import TWO_WRITERS
from mesh.trees.node import MADE_UP, TreeState
from tests.sim.trees.world import Call, RuleBrokenError, World

NEVER = (
    "sessions swept",
    "recoveries that timed out",
    "frames read twice",
    TWO_WRITERS,
    MADE_UP,
)
"""What happens only where a link or an application does not keep its contract."""

SCOPES = (Extent.CLOUD, Extent.REALM)


def inside(world: World, name: str) -> TreeState:
    """Return what a node knows."""
    return world.nodes[name]._node


def hosts(world: World, address: Address) -> dict[str, list[InstanceId]]:
    """Return the running nodes that host a role, with their instances."""
    found = {name: sorted(inside(world, name).instances(address)) for name in world.nodes}
    return {name: iids for name, iids in found.items() if iids}


def hosted(world: World, iid: InstanceId) -> bool:
    """Return whether an instance is hosted anywhere."""
    return any(
        iid in instances
        for name in world.nodes
        for roles in inside(world, name).hosts.by_tree.values()
        for instances in roles.values()
    )


def check_always(world: World, *, moving: bool = True) -> None:
    """Check what holds at any moment: I7, I8, I9.

    Args:
        world: All nodes.
        moving: A role may be on its way, hosted nowhere: routes may go round through its link.
    """
    for name in world.nodes:
        _check_tables(world, name)
    _check_loops(world, moving=moving)


def check_quiet(world: World, *, evicted: bool = False) -> None:
    """Check what holds once nothing is under way: I2, Q12 and what `check_rest` does."""
    check_rest(world)
    for name in world.nodes:
        for why in NEVER:
            if inside(world, name).counts[why]:
                raise RuleBrokenError(f"I3: {name}: {inside(world, name).counts[why]} {why}")
    for name, call in world.calls.items():
        if call.count(ReplyKind.NOT_FOUND) and (call.items or call.count(ReplyKind.NULL)):
            raise RuleBrokenError(f"PAT-5: {name} was found and not found: {call.answers}")
        lasts = sum(one.is_last for one in call.answers)
        if lasts != 1 and not call.was_gone and not call.options.one_way:
            raise RuleBrokenError(f"I2: {name} has {lasts} last answers")
    if not evicted:
        _check_edges(world)


def check_rest(world: World) -> None:
    """Check what holds once nothing is under way, whatever was: I3, Q5, Q6 and what always does."""
    check_always(world, moving=False)
    for name in world.nodes:
        node = inside(world, name)
        left = {
            "sessions": node.sessions.open,
            "closed": node.sessions.closed,
            "recoveries": node.recoveries,
            "joins": node.joins,
            "by_address": node.sessions.by_address,
            "under way": node.under_way,
            "concern": node.sessions.concern,
            "calls": node.sessions.calls,
            "held": node.watching.held,
            "bytes held": node.watching.held_bytes,
            "bytes of sessions": node.sessions.bytes_kept,
        }
        if any(left.values()):
            raise RuleBrokenError(f"I3: {name} still has {[k for k, v in left.items() if v]}")
    _check_colours(world)
    _check_holders(world)


def check_call(world: World, call: Call) -> None:
    """Check a call during which nothing changed: Q1 to Q4, and I6."""
    found = hosts(world, call.address)
    realm = world.realms.get(call.node) if call.options.local_realm else None
    part = next(part for part in world.parts(realm=realm) if call.node in part)
    wanted = sorted((one, iid) for one in part for iid in found.get(one, ()))
    got = sorted(call.delivered)
    shown = f"{call.node} -> {call.address.role} {call.options}: {call.reached}, {call.answers}"
    if call.options.one_instance:
        if len(got) != min(1, len(wanted)) or not set(got) <= set(wanted):
            raise RuleBrokenError(f"Q3: {shown}")
    elif got != wanted:
        raise RuleBrokenError(f"Q1: {shown} instead of {sorted({one for one, _ in wanted})}")
    if call.options.one_way:
        return
    if call.count(ReplyKind.NULL):
        raise RuleBrokenError(f"Q1: a null without a loss: {shown}")
    if call.count(ReplyKind.NOT_FOUND) != (0 if wanted else 1):
        raise RuleBrokenError(f"Q1: not found: {shown}")
    if len(call.items) != len(got):
        raise RuleBrokenError(f"I6: {len(call.items)} answers for {len(got)} deliveries: {shown}")
    if call.options.one_response and wanted and call.count(ReplyKind.DATA) != 1:
        raise RuleBrokenError(f"Q4: {shown}")


def _check_tables(world: World, name: str) -> None:
    node = inside(world, name)
    for tree in node.trees.values():
        over = dict.fromkeys(tree.edges, 0)
        for role in tree.roles.values():
            own = node.instances(Address(tree.id, role.name))
            for scope in SCOPES:
                for iid, route in role.map(scope).routes.items():
                    if iid in own:
                        raise RuleBrokenError(f"I9: {name} has a route to its own {role.name}")
                    if not node.is_up(route.link) or route.link not in tree.edges:
                        raise RuleBrokenError(f"I8: {name} has a route over {route.link}")
                    if scope is Extent.REALM and node.is_remote(route.link):
                        raise RuleBrokenError(f"PAT-11: {name} leaves the realm over {route.link}")
                    over[route.link] += 1
        counted = {link: edge.routes for link, edge in tree.edges.items()}
        if over != counted:
            raise RuleBrokenError(f"I8: {name} counts {counted} routes, not {over}")
        if any(tree.id not in node.links[link].trees for link in tree.edges):
            raise RuleBrokenError(f"I8: {name} has an edge that its link does not know")


def _check_loops(world: World, *, moving: bool) -> None:
    """I7: for each instance and map, following routes from node to node ends."""
    nexts: dict[tuple[TreeId, str, Extent, InstanceId], dict[str, str]] = {}
    for name in world.nodes:
        for tree in inside(world, name).trees.values():
            for role in tree.roles.values():
                for scope in SCOPES:
                    for iid, route in role.map(scope).routes.items():
                        key = (tree.id, role.name, scope, iid)
                        nexts.setdefault(key, {})[name] = route.link
    for key, next_of in nexts.items():
        if moving and not hosted(world, key[3]):
            continue
        for first in next_of:
            one, steps = first, 0
            while one in next_of:
                one, steps = next_of[one], steps + 1
                if steps > len(next_of):
                    raise RuleBrokenError(f"I7: routes to {key[1]} go round at {first}: {next_of}")


def _check_colours(world: World) -> None:
    for name, node in world.nodes.items():
        for part in world.parts():
            if name in part and any(world.nodes[one].colour != node.colour for one in part):
                raise RuleBrokenError(f"Q5: {part} has several colours")
    labels = [world.nodes[part[0]].colour for part in world.parts()]
    labels = [label for label in labels if label is not None]
    if len(set(labels)) != len(labels):
        raise RuleBrokenError("Q5: two parts have one colour")


def _check_holders(world: World) -> None:
    """Q6: of those whom anybody hears of one holds a role alone, as far as it is to be known."""
    realms = sorted({realm for realm in world.realms.values() if realm})
    places = {Extent.CLOUD: world.parts(), Extent.NODE: [[name] for name in world.nodes]}
    places[Extent.REALM] = [part for realm in realms for part in world.parts(realm=realm)]
    for reach, parts in places.items():
        for part in parts:
            holders = Counter(
                one.address
                for name in part
                for roles in inside(world, name).hosts.by_tree.values()
                for instances in roles.values()
                for one in instances.values()
                if one.is_exclusive and one.extent.covers(reach)
            )
            for address, count in holders.items():
                if count > 1:
                    raise RuleBrokenError(f"Q6: {address.role} is held alone {count} times: {part}")


def _check_edges(world: World) -> None:
    for name in world.nodes:
        for tree in inside(world, name).trees.values():
            for link, edge in tree.edges.items():
                there = inside(world, link).trees.get(tree.id)
                mirror = there.edges.get(name) if there is not None else None
                if mirror is None:
                    raise RuleBrokenError(f"Q12: {name} has an edge to {link} that {link} lacks")
                if not edge.routes and not mirror.routes:
                    raise RuleBrokenError(f"Q12: no routes lead over the edge {name} - {link}")
