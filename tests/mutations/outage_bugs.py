"""Bugs by which late answers, lost control topics, full links and cuts stop what they should not.

Spec: DESIGN 4.2, K5, K16, K23, K28.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.lane.lane import Lane
from mesh.node.probing import Probing
from mesh.node.unproven_neighbours import UnprovenNeighbours
from mesh.operate.changes import begin as change_begin
from mesh.operate.changes.steps import ChangeSteps
from mesh.worker.control.leadership import Leadership
from mesh.worker.control.listener import Listener
from mesh.worker.control.lost_writes import LostWrites
from mesh.worker.lanes.owned import Lanes
from tests.mutations.patching import Mutation, Patches


def one_position_for_two(patches: Patches) -> None:
    def wrapper(read_positions):
        def wrong(self, neighbour):
            told = read_positions(self, neighbour)
            return {at: replace(one, read=one.needed) for at, one in told.items()}

        return wrong

    patches.wrap(Lanes, "read_positions", wrapper)


def told_before_the_commit(patches: Patches) -> None:
    patches.put(Lane, "committed_position", lambda self, at: self.progress.next.get(at, 0))


def lost_control_topics_stay_lost(patches: Patches) -> None:
    patches.put(Listener, "lost", lambda *_: None)


def nobody_misses_what_is_unread(patches: Patches) -> None:
    patches.put(LostWrites, "note", lambda *_: None)


def nobody_doubts(patches: Patches) -> None:
    patches.put(UnprovenNeighbours, "due", lambda *_: ())


def leader_is_asked_in_the_loop(patches: Patches) -> None:
    patches.put(Leadership, "_asked", lambda self, key, ask, now_ms: ask())


def nobody_is_excused(patches: Patches) -> None:
    patches.put(ChangeSteps, "_is_excused", lambda *_: False)


def what_ends_forget_is_not_heard_anew(patches: Patches) -> None:
    def wrapper(cut_over):
        return lambda *args, **more: replace(cut_over(*args, **more), remade=())

    patches.wrap(change_begin, "cut_over", wrapper)


def who_leads_anew_waits_for_proofs(patches: Patches) -> None:
    def wrapper(step):
        def wrong(self, *args, **more):
            return step(self, *args, **{**more, "is_ready": False})

        return wrong

    patches.wrap(Probing, "step", wrapper)


OUTAGE_BUGS = (
    Mutation("one-position", "read and no longer needed are one number", one_position_for_two),
    Mutation("told-before-commit", "positions are told before their commit", told_before_the_commit),
    Mutation("lost-stay-lost", "lost feeds are left alone", lost_control_topics_stay_lost),
    Mutation("lost-unread", "what is lost unread is not written again", nobody_misses_what_is_unread),
    Mutation("nobody-doubts", "what stays unproven is not read again", nobody_doubts),
    Mutation("leader-in-the-loop", "who leads is asked in the loop", leader_is_asked_in_the_loop),
    Mutation("waits-for-proofs", "who leads anew waits for neighbours", who_leads_anew_waits_for_proofs),
    Mutation("remade-unheard", "links that are down are remade", what_ends_forget_is_not_heard_anew),
    Mutation("nobody-excused", "a change waits for links that are down", nobody_is_excused),
)  # fmt: skip
