"""Bugs of interest and forwarding: who wants what, who may have it, and when that is in force."""

from __future__ import annotations

from mesh.core import routing
from mesh.core.interest import InterestTable
from mesh.core.matcher import Shape
from mesh.core.routes import Memo
from mesh.core.routing import Router
from mesh.core.scopes import ScopeReader
from mesh.model.control import Ownership
from mesh.model.inputs import LeadershipTaken
from mesh.node import hearing, offers
from mesh.node.leader import Leader
from mesh.node.learner import Learner
from mesh.node.machine import NodeMachine
from mesh.node.own_clients import OwnClients
from mesh.worker.lanes import owned
from tests.mutations.patching import Mutation, Patches


def _may_leave_without(name: str):
    def plant(patches: Patches) -> None:
        def wrapper(may_leave):
            def wrong(kind, **came):
                return may_leave(kind, **{**came, name: False})

            return wrong

        patches.wrap(routing, "may_leave", wrapper)

    return plant


def arrival_ignored(patches: Patches) -> None:
    """Neither the link nor the zone of arrival counts, and interest goes back as well."""
    _may_leave_without("arrived_on_link")(patches)
    _may_leave_without("arrived_on_zone")(patches)
    patches.put(offers, "offers", lambda kind, **learned: True)


def _offers_without(name: str):
    def plant(patches: Patches) -> None:
        def wrapper(offers):
            def wrong(kind, **learned):
                return offers(kind, **{**learned, name: False})

            return wrong

        patches.wrap(offers, "offers", wrapper)

    return plant


def foreign_offered(patches: Patches) -> None:
    def wrapper(offers):
        def wrong(kind, **learned):
            return offers(kind, **{**learned, "ownership": Ownership.OWN})

        return wrong

    patches.wrap(offers, "offers", wrapper)


def transit(patches: Patches) -> None:
    _may_leave_without("crossed_external")(patches)
    foreign_offered(patches)


def ownership_lost(patches: Patches) -> None:
    patches.put(hearing, "ownership_after", lambda kind, ownership: ownership)


def ready_before_proof(patches: Patches) -> None:
    patches.put(Learner, "is_synced", property(lambda learner: learner.clients.caught_up))
    # Else lanes read nothing until what their former owners knew is known.
    patches.put(Learner, "is_behind", lambda *_: False)


def removals_never_applied(patches: Patches) -> None:
    def wrapper(marked):
        def wrong(reader, mark):
            changes = marked(reader, mark)
            return {filter_: wish for filter_, wish in changes.items() if wish is not None}

        return wrong

    patches.wrap(ScopeReader, "marked", wrapper)


def removal_takes_all_members(patches: Patches) -> None:
    """What a counter gone wrong would do: one member leaves and the filter is gone."""

    def wrapper(put):
        def wrong(table, filter_, member, wish):
            if wish is None:
                for other, _ in table.members(filter_):
                    put(table, filter_, other, None)
                return True
            return put(table, filter_, member, wish)

        return wrong

    patches.wrap(InterestTable, "put", wrapper)


def tombstone_ignored(patches: Patches) -> None:
    patches.put(OwnClients, "_unsubscribe", lambda *_: ())


def cut_not_awaited(patches: Patches) -> None:
    patches.put(NodeMachine, "_is_in_force", lambda machine, round_: True)


def cut_claims_too_much(patches: Patches) -> None:
    """The cut says that it holds from the beginning, not from where the lane stands."""

    def wrapper(cut):
        def wrong(lane, in_force, cuts, now_ms):
            cut(lane, in_force, {uuid: offset + 5 for uuid, offset in cuts.items()}, now_ms)

        return wrong

    patches.wrap(owned, "cut_lane", wrapper)


def routes_not_forgotten(patches: Patches) -> None:
    patches.put(Router, "forget", lambda router: None)


def subjects_not_forgotten(patches: Patches) -> None:
    def wrapper(cut):
        def wrong(lane, in_force, cuts, now_ms):
            known = {of: dict(memo) for of, memo in lane.memos._known.items()}
            cut(lane, in_force, cuts, now_ms)
            lane.memos._known.update(known)

        return wrong

    patches.wrap(owned, "cut_lane", wrapper)


def tables_not_forgotten(patches: Patches) -> None:
    def wrapper(cut):
        def wrong(lane, in_force, cuts, now_ms):
            tables = dict(lane.memos._tables)
            cut(lane, in_force, cuts, now_ms)
            lane.memos._tables.update(tables)

        return wrong

    patches.wrap(owned, "cut_lane", wrapper)


def node_epoch_not_raised(patches: Patches) -> None:
    def wrapper(step):
        def wrong(machine, input_):
            if isinstance(input_, LeadershipTaken):
                input_ = LeadershipTaken(1, input_.written)
            return step(machine, input_)

        return wrong

    patches.wrap(NodeMachine, "step", wrapper)


def old_offers_not_withdrawn(patches: Patches) -> None:
    def wrapper(init):
        def wrong(one, node, epoch, links, written, stops=(), added=()):
            init(one, node, epoch, links, {}, stops, added)

        return wrong

    patches.wrap(Leader, "__init__", wrapper)
    patches.put(Leader, "note_written", lambda *_: None)  # it would read the same on its own topic


def acknowledged_at_once(patches: Patches) -> None:
    patches.put(Leader, "_needs", lambda one, source, learner: ())


def tail_matches_nothing_more(patches: Patches) -> None:
    def wrapper(applied_to):
        def wrong(shape, levels):
            if shape.tail and len(levels) == shape.levels + 1:
                return None
            return applied_to(shape, levels)

        return wrong

    patches.wrap(Shape, "applied_to", wrapper)


def star_stands_only_first(patches: Patches) -> None:
    def wrapper(of):
        def wrong(cls, filter_):
            shape = of.__func__(cls, filter_)
            return Shape(shape.levels, shape.stars[:1], shape.tail)

        return classmethod(wrong)

    patches.wrap(Shape, "of", wrapper)


class _WithoutFilters(dict):
    """Routes by what links refuse alone, whatever filters match."""

    def get(self, key, default=None):
        return super().get(_refusals(key), default)

    def __setitem__(self, key, route):
        super().__setitem__(_refusals(key), route)


def _refusals(key: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(one for one in key if not isinstance(one, str))


def all_subjects_alike(patches: Patches) -> None:
    """One subject's route is taken for all that the same links refuse."""
    patches.wrap(Memo, "__init__", lambda init: lambda memo: init(memo, alike=_WithoutFilters()))


INTEREST_BUGS = (
    Mutation("back-to-sender", "messages and interest go back where they came from", arrival_ignored),
    Mutation("no-transit-ignored", "a second external link is crossed", transit),
    Mutation("interest-returned", "interest is offered to the link it was learned on", _offers_without("learned_on_link")),
    Mutation("interest-in-zone-twice", "one-hop interest is offered on within its zone", _offers_without("learned_on_zone")),
    Mutation("foreign-offered", "foreign interest is offered over external links", foreign_offered),
    Mutation("ownership-lost", "what came over an external link counts as own", ownership_lost),
    Mutation("ready-before-proof", "a node serves before its neighbours' interest is proven", ready_before_proof),
    Mutation("removals-never-applied", "withdrawn interest stays", removals_never_applied),
    Mutation("removal-takes-all", "one member leaves and the filter is gone for all", removal_takes_all_members),
    Mutation("tombstone-ignored", "unsubscribing does nothing", tombstone_ignored),
    Mutation("cut-not-awaited", "interest is offered before every lane has cut", cut_not_awaited),
    Mutation("cut-claims-too-much", "a cut names subscriptions that are not in force yet", cut_claims_too_much),
    Mutation("routes-not-forgotten", "remembered routes outlive the interest", routes_not_forgotten),
    Mutation("subjects-not-forgotten", "subjects published here keep their old route", subjects_not_forgotten),
    Mutation("tables-not-forgotten", "frames keep going by the old routing", tables_not_forgotten),
    Mutation("node-epoch-not-raised", "each leader of a node has the same epoch", node_epoch_not_raised),
    Mutation("old-offers-not-withdrawn", "a new leader does not compare what was offered", old_offers_not_withdrawn),
    Mutation("acknowledged-at-once", "complete is said before anybody else has applied it", acknowledged_at_once),
    Mutation("tail-wants-more", "> needs two levels instead of one", tail_matches_nothing_more),
    Mutation("all-subjects-alike", "a route is shared by subjects that other filters match", all_subjects_alike),
    Mutation("second-star-ignored", "only the first * of a filter is one", star_stands_only_first),
)  # fmt: skip
