"""Bugs of the tree layer: each takes out one thing that the source document lacks or leaves open.

Spec: tree_layer 0, 9.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import NO_INSTANCE, Extent
from mesh.trees import (
    colours,
    heals,
    installing,
    joining,
    late_routes,
    links,
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
from tests.sim.trees import (
    test_directed,
    test_heals,
    test_joining,
    test_moving,
    test_snooping,
    test_strangers,
)
from tests.sim.trees.trial import run_trial
from tests.sim.trees.world import World


def keeps_old_routes(patches: Patches) -> None:
    install = installing.install

    def wrong(node, address, scope, iid, route, **how):
        _, role = installing.role_routes(node, address)
        is_known = iid in role.map(scope).routes
        return not is_known and install(node, address, scope, iid, route, **how)

    for module in (publishing, recovery, moving):
        patches.put(module, "install", wrong)


def last_one_wins(patches: Patches) -> None:
    class Forgetful(installing.RouteMap):
        def known(self, iid):
            return None

    patches.put(installing.RouteMap, "known", Forgetful.known)


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

    def wrong(node, link, scope, *colours):
        if node.name < link:
            raise_heal(node, link, scope, *colours)

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
        for session in list(node.sessions.open.values()):
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

    patches.put(recovery.TreeState, "ways", wrong)


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


def moved_roles_forget(patches: Patches) -> None:
    patches.put(replying, "had", lambda _node, _grant: ())


def moved_roles_are_sent_old_messages(patches: Patches) -> None:
    install = moving.install

    def wrong(node, address, scope, iid, route, **_how):
        return install(node, address, scope, iid, route)

    patches.put(moving, "install", wrong)


def recovery_follows_routes(patches: Patches) -> None:
    ways = recovery.TreeState.ways
    spread = recovery._spread

    def wrong(node, own, batch, spew=0):
        _, role = recovery.role_routes(node, own.address)
        table = role.map(own.scope)
        if own.parent is None or not table.is_certified:
            spread(node, own, batch, spew)
            return
        only = table.links(NO_INSTANCE)
        inner = Patches()
        inner.put(
            recovery.TreeState,
            "ways",
            lambda self, scope, *, but=None: [
                one for one in ways(self, scope, but=but) if one in only
            ],
        )
        spread(node, own, batch, spew)
        inner.undo()

    patches.put(recovery, "_spread", wrong)


def recovery_ends_too_soon(patches: Patches) -> None:
    rearm = recovery._rearm

    def wrong(node, own):
        rearm(node, own)
        own.deadline_ms = node.now_ms + 60

    def expired(node):
        for own in list(node.recoveries.values()):
            if own.id in node.recoveries and node.now_ms >= own.deadline_ms:
                own.waiting.clear()
                recovery._end(node, own)

    patches.put(recovery, "_rearm", wrong)
    patches.put(machine, "expire_recoveries", expired)


def known_instances_answer_too(patches: Patches) -> None:
    answer = recovery._answer_for_own

    def wrong(node, link, asked):
        answer(node, link, replace(asked, known=()))

    patches.put(recovery, "_answer_for_own", wrong)


def any_heal_is_directed(patches: Patches) -> None:
    def wrong(node, address, role):
        pending = node.heals[role.heals :]
        has_any = role.everywhere.routes or node.instances(address)
        if node.settings.directed_recovery and role.everywhere.is_certified and has_any:
            return [heal.id for heal, towards in pending if node.is_up(towards)]
        return ()

    patches.put(recovery, "heals_to_ask", wrong)


def copies_are_always_certain(patches: Patches) -> None:
    read = joining.read_trees

    def wrong(node, link, said):
        roles = tuple(replace(one, is_certain=True) for one in said.roles)
        read(node, link, replace(said, colour=node.colour, roles=roles))

    patches.put(machine, "read_trees", wrong)


def copied_maps_cover_every_heal(patches: Patches) -> None:
    read = joining.read_trees

    def wrong(node, link, said):
        read(node, link, said)
        for one in said.roles:
            _, role = joining.role_routes(node, joining.Address(one.tree, one.role))
            if role.everywhere.is_certified:
                role.heals = node.heals_known

    patches.put(machine, "read_trees", wrong)


def replies_overtake_what_is_held(patches: Patches) -> None:
    def wrong(node, session, source, said):
        if session.is_held or not replying.show_reply(node, session, source, said):
            replying._account(node, session, source, said)

    patches.put(replying, "_count", wrong)


def what_has_ended_stays_so(patches: Patches) -> None:
    route_added = installing.route_added
    patches.put(installing, "route_added", lambda *how: route_added(*how[:-1], False))


def links_that_come_up_are_told_nothing(patches: Patches) -> None:
    patches.put(heals, "tell_again", lambda *_: None)


def who_joins_a_part_tells_nobody_behind_it(patches: Patches) -> None:
    patches.put(colours, "say_hello", lambda *_: None)


def nobody_is_told_of_reopening(patches: Patches) -> None:
    reopen = late_routes.reopen

    def wrong(node, session):
        came_by, session.came_by = session.came_by, None
        reopen(node, session)
        session.came_by = came_by

    patches.put(late_routes, "reopen", wrong)


def reopening_overtakes_what_is_held(patches: Patches) -> None:
    patches.put(late_routes, "expect_more", lambda *_: None)


def copies_on_links_are_read(patches: Patches) -> None:
    transmit = World._transmit

    def doubled(self, name, output):
        transmit(self, name, output)
        if self.random.random() < 0.05:
            transmit(self, name, output)

    read_frame = links.read_frame

    def wrong(node, link, frame):
        end = node.links.get(link)
        if end is not None and end.is_up and frame.session == end.theirs:
            end.read = min(end.read, frame.number - 1)
        return read_frame(node, link, frame)

    patches.put(World, "_transmit", doubled)
    patches.put(machine, "read_frame", wrong)


def frames_are_read_in_any_order(patches: Patches) -> None:
    at = World._at

    def shuffled(self, at_ms, happen):
        late = self.random.randint(1, 60) if self.random.random() < 0.05 else 0
        at(self, at_ms + late, happen)

    read_frame = links.read_frame

    def wrong(node, link, frame):
        end = node.links.get(link)
        if end is not None and end.is_up and frame.session == end.theirs:
            end.read = frame.number - 1
        return read_frame(node, link, frame)

    patches.put(World, "_at", shuffled)
    patches.put(machine, "read_frame", wrong)


def made_up_numbers_stay(patches: Patches) -> None:
    patches.put(installing, "_is_made_up", lambda *_: False)


def nobody_sees_two_writers(patches: Patches) -> None:
    out_of_turn = links._out_of_turn

    def wrong(node, end, frame):
        end.last = frame
        return out_of_turn(node, end, frame)

    patches.put(links, "_out_of_turn", wrong)


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
        (recovery_follows_routes, "a recovery goes where routes go (H4)"),
        (recovery_ends_too_soon, "a recovery ends before its flood does (H5)"),
        (copied_maps_cover_every_heal, "a copied map is taken for newer than heals (H8)"),
        (replies_overtake_what_is_held, "a last reply closes before one that is held (6.8)"),
        (copies_on_links_are_read, "links double frames and sessions read them (12)"),
        (frames_are_read_in_any_order, "frames are read as they come (12)"),
        (what_has_ended_stays_so, "a session that has ended learns of no route (H9)"),
        (nobody_is_told_of_reopening, "a session goes on without a word upstream (H9)"),
    )
)


TREE_KILLERS: dict[str, int] = {
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
    "lost_links_owe_nothing": 54,
    "copied_maps_cover_every_heal": 303,
    "replies_overtake_what_is_held": 78,
    "frames_are_read_in_any_order": 17,
    "what_has_ended_stays_so": 68,
    "nobody_is_told_of_reopening": 68,
}
"""The first trial of at most nine nodes that each bug breaks, where it is not the very first."""


SCENE_BUGS = tuple(
    (Mutation(plant.__name__, wrong, plant), scene)
    for plant, wrong, scene in (
        (
            any_heal_is_directed,
            "directed though a link was lost since the heal (H20)",
            test_directed.test_a_link_lost_since_the_heal_means_the_flood,
        ),
        (
            known_instances_answer_too,
            "directed requests repair what is whole (7.3)",
            partial(run_trial, 263, 25),
        ),
        (
            links_that_come_up_are_told_nothing,
            "what is lost with a link while another comes up is never told (5.2, 7.2)",
            test_heals.test_news_that_is_lost_with_a_link_comes_over_one_that_came_up_before,
        ),
        (
            who_joins_a_part_tells_nobody_behind_it,
            "two parts meet where nodes start again side by side, and neither is told (H13)",
            partial(
                test_heals.test_nodes_that_restart_side_by_side_wake_both_parts, "bc", at_once=True
            ),
        ),
        (
            copies_are_always_certain,
            "who joins trusts whatever it copied (5.7 c)",
            test_joining.test_what_is_not_certain_there_is_not_certain_here,
        ),
        (
            reopening_overtakes_what_is_held,
            "a branch that has more to say is closed by its reply that was held (H9, 6.8)",
            partial(test_snooping.test_a_branch_that_has_more_to_say_waits_for_it, False),
        ),
        (
            moved_roles_forget,
            "an instance that moved is given again what it had (5.13, I1)",
            partial(test_moving.test_what_an_instance_has_had_moves_with_it, ""),
        ),
        (
            moved_roles_are_sent_old_messages,
            "a role that moved is sent again what it had (5.13)",
            test_moving.test_a_role_that_moved_is_not_given_again_what_it_had,
        ),
        (
            made_up_numbers_stay,
            "what a stranger said of an instance keeps it out for ever (H2)",
            test_strangers.test_a_forged_answer_keeps_no_instance_out,
        ),
        (
            nobody_sees_two_writers,
            "a frame whose number a stranger took is lost in silence (12)",
            test_strangers.test_a_frame_in_the_place_of_another_takes_the_link_down_and_not_a_message_along,
        ),
    )
)
"""Bugs that two thousand trials of nine nodes do not show, each with the scene that does."""
