"""Bugs of the tree layer: each takes out one thing that the source document lacks or leaves open.

Spec: tree_layer 0, 9.
"""

from __future__ import annotations

from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import Extent
from mesh.trees import (
    heals,
    installing,
    losing,
    machine,
    moving,
    publishing,
    recovery,
    replying,
    sending,
    settling,
)
from tests.mutations.patching import Mutation, Patches


def keeps_old_routes(patches: Patches) -> None:
    install = installing.install

    def wrong(node, address, scope, iid, route, *, has_moved=False):
        _, role = installing.role_routes(node, address)
        is_known = iid in role.map(scope).routes
        return not is_known and install(node, address, scope, iid, route, has_moved=has_moved)

    for module in (publishing, recovery, moving):
        patches.put(module, "install", wrong)


def last_one_wins(patches: Patches) -> None:
    class Forgetful(installing.RouteMap):
        def value(self, iid):
            return None

    patches.put(installing.RouteMap, "value", Forgetful.value)


def empty_is_certain(patches: Patches) -> None:
    def wrong(node, address, scope):
        tree = node.trees.get(address.tree)
        role = tree.roles.get(address.role) if tree is not None else None
        return role is not None and role.map(scope).is_certified

    for module in (recovery, sending):
        patches.put(module, "is_built", wrong)


def participants_certify_themselves(patches: Patches) -> None:
    end = recovery._end

    def wrong(node, own):
        _, role = recovery.role_routes(node, own.address)
        role.map(own.scope).is_certified |= own.ok
        end(node, own)

    patches.put(recovery, "_end", wrong)


def publish_follows_routes(patches: Patches) -> None:
    flood = publishing._flood

    def wrong(node, told, came_by, extent, parcel):
        tree = node.trees.get(told.tree)
        role = tree.roles.get(told.role) if tree is not None else None
        if came_by is None or role is None or not role.everywhere.is_certified:
            flood(node, told, came_by, extent, parcel)
            return
        for link in role.everywhere.links(publishing.InstanceId(0)):
            if link != came_by:
                publishing._put(node, told, link, parcel)

    patches.put(publishing, "_flood", wrong)


def heals_are_not_told(patches: Patches) -> None:
    patches.put(heals, "raise_heal", lambda *_: None)


def one_side_sees_a_heal(patches: Patches) -> None:
    patches.put(machine, "read_notice", lambda *_: None)
    raise_heal = heals.raise_heal

    def wrong(node, link, scope, colour):
        if node.name < link:
            raise_heal(node, link, scope, colour)

    patches.put(heals, "raise_heal", wrong)


def late_routes_are_not_used(patches: Patches) -> None:
    patches.put(installing, "route_added", lambda *_: None)


def holders_are_not_told_again(patches: Patches) -> None:
    patches.put(heals, "publish_exclusives", lambda *_: None)


def no_colours_of_realms(patches: Patches) -> None:
    recolour_after_loss = losing.recolour_after_loss
    patches.put(
        losing,
        "recolour_after_loss",
        lambda node, *, was_remote: recolour_after_loss(node, was_remote=True),
    )


def parents_outlive_their_link(patches: Patches) -> None:
    def wrong(node, link):
        for own in list(node.recoveries.values()):
            if link in own.waiting:
                recovery._settle_branch(node, own, link, ok=False)

    patches.put(losing, "lose_branches", wrong)


def every_reply_may_be_last(patches: Patches) -> None:
    count = replying._count

    def wrong(node, session, source, said):
        if said.kind is ReplyKind.DATA and said.is_last and len(session.owed) > 1:
            settling.say(node, session, said.kind, is_last=True, items=said.items)
            return
        count(node, session, source, said)

    patches.put(replying, "_count", wrong)


def copies_are_not_answered(patches: Patches) -> None:
    patches.put(sending, "_answer_copy", lambda *_: None)


def lost_links_owe_nothing(patches: Patches) -> None:
    def wrong(node, link):
        for session in list(node.sessions.values()):
            session.is_orphan |= session.came_by == link

    patches.put(losing, "lose_replies", wrong)


def nobody_is_found_too_soon(patches: Patches) -> None:
    closing = settling._closing_kind

    def wrong(session):
        return ReplyKind.NOT_FOUND if session.has_not_found else closing(session)

    patches.put(settling, "_closing_kind", wrong)


def realm_messages_leave_it(patches: Patches) -> None:
    def wrong(node, scope, *, but=None):
        return (one for one, end in node.links.items() if end.is_up and one != but)

    patches.put(recovery.Node, "ways", wrong)


def edges_stay(patches: Patches) -> None:
    def wrong(node, tree, link):
        tree.edges[link].routes -= 1

    patches.put(installing, "leave_edge", wrong)


def records_stay(patches: Patches) -> None:
    patches.put(machine, "forget_closed", lambda *_: None)


def colours_are_not_spread(patches: Patches) -> None:
    read = machine.read_colour

    def wrong(node, link, said):
        if said.scope is Extent.REALM:
            read(node, link, said)

    patches.put(machine, "read_colour", wrong)


def moved_roles_get_old_messages(patches: Patches) -> None:
    install = moving.install

    def wrong(node, address, scope, iid, route, *, has_moved=False):
        return install(node, address, scope, iid, route)

    patches.put(moving, "install", wrong)


TREE_BUGS = tuple(
    Mutation(plant.__name__, wrong, plant)
    for plant, wrong in (
        (keeps_old_routes, "a known route is never replaced (H2)"),
        (last_one_wins, "routes have no order: what comes last is taken (H2)"),
        (empty_is_certain, "a map without routes can be certain (H1)"),
        (participants_certify_themselves, "who handed a recovery on trusts its own map (H6)"),
        (publish_follows_routes, "a publish goes where routes go (H3)"),
        (heals_are_not_told, "two parts become one and nobody recovers (7.2)"),
        (one_side_sees_a_heal, "one end of a healed link tells its side (H13)"),
        (late_routes_are_not_used, "what was forwarded ignores routes that appear (H9)"),
        (holders_are_not_told_again, "exclusive roles are not said again after a heal (H15)"),
        (no_colours_of_realms, "a realm that is split inside keeps its colour (H16)"),
        (parents_outlive_their_link, "a flood outlives the link that it came by (H11)"),
        (every_reply_may_be_last, "a last reply closes while others are owed (6.4)"),
        (copies_are_not_answered, "a second copy is dropped without a reply (5.12)"),
        (lost_links_owe_nothing, "what was owed over a lost link is not a null (6.9)"),
        (nobody_is_found_too_soon, "one barren branch makes it not found (6.4)"),
        (realm_messages_leave_it, "floods of a realm leave it (5.14)"),
        (edges_stay, "edges without routes stay (5.6)"),
        (records_stay, "ended sessions are kept for ever (I3)"),
        (colours_are_not_spread, "colours stop at the first node (7.1)"),
        (moved_roles_get_old_messages, "a role that moved is sent again what it had (5.13, I1)"),
    )
)


TREE_KILLERS = {
    "keeps_old_routes": 17,
    "last_one_wins": 24,
    "empty_is_certain": 303,
    "participants_certify_themselves": 26,
    "publish_follows_routes": 4,
    "heals_are_not_told": 24,
    "one_side_sees_a_heal": 303,
    "late_routes_are_not_used": 247,
    "holders_are_not_told_again": 24,
    "no_colours_of_realms": 406,
    "parents_outlive_their_link": 7,
    "copies_are_not_answered": 5,
    "lost_links_owe_nothing": 28,
    "moved_roles_get_old_messages": 334,
}
"""The first trial of at most nine nodes that each bug breaks, where it is not the very first."""
