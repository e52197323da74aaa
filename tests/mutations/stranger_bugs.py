"""Bugs by which strangers, brokers and takeovers stop a node or have it forget. Spec: R12, K5, K20."""

from __future__ import annotations

from mesh.core.matcher import ShapeIndex
from mesh.core.scopes import ScopeReader
from mesh.errors import TransportDeniedError, TransportError, UnknownVersionError
from mesh.lane.messages import ingress, transit
from mesh.lane.messages.poison import Poison
from mesh.lane.progress import Progress
from mesh.model.control import NEVER, Interest
from mesh.node import remembering
from mesh.node.learner import Learner
from mesh.transport.groups import slowest
from mesh.worker.control import frozen_neighbours
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.questions import Questions
from mesh.worker.topics import targets
from mesh.worker.topics.readership import Readership
from mesh.worker.topics.writable import Looked
from tests.mutations.patching import Mutation, Patches

VERY_NEW = (1 << 30, 0)


def poison_ends_worker(patches: Patches) -> None:
    patches.put(ingress, "headers_of", lambda record: record.headers() or ())
    patches.put(ingress, "all_headers", lambda some: [one.headers() or () for one in some])

    def take(poison, run, records, most):
        if (link := run.source.link) is None:
            return ingress.take_ingress(run, records)
        return transit.take_frames(run, link, records, most)

    patches.put(Poison, "take", take)


def refusal_ends_worker(patches: Patches) -> None:
    def wrapper(see_to):
        def wrong(self, now_ms):
            yield from see_to(self, now_ms)
            if self._refused:
                raise TransportDeniedError(next(iter(self._refused.values())))

        return wrong

    patches.wrap(targets.Targets, "see_to", wrapper)


def one_refused_all_wait(patches: Patches) -> None:
    def may_begin(self, now_ms):
        return not self._refused

    patches.put(targets.Targets, "may_begin", may_begin)
    patches.wrap(Lanes, "hold_unwritable", lambda hold: lambda self, unwritable, now: None)


def nobody_looks_for_leaders(patches: Patches) -> None:
    patches.put(targets, "look", lambda admin, names, known: Looked(in_sync=known))


def asked_in_the_loop(patches: Patches) -> None:
    patches.put(Questions, "answer", lambda self, key, ask: ask())


def garbage_excuses_a_hole(patches: Patches) -> None:
    def wrapper(note):
        def wrong(run, offset):
            note(run, offset)
            run.lane.broken.expect_hole(run.source.at)

        return wrong

    patches.wrap(transit, "note_unreadable", wrapper)


def stray_is_a_version(patches: Patches) -> None:
    def wrapper(peek):
        def wrong(key):
            if key and not key.startswith(b"\xf7M"):
                raise UnknownVersionError("frame_header", key[0])
            return peek(key)

        return wrong

    patches.wrap(transit, "peek", wrapper)


def second_reading_takes_all(patches: Patches) -> None:
    patches.put(Progress, "taken_after", lambda *_: None)


def mate_knows_less(patches: Patches) -> None:
    patches.put(Learner, "is_behind", lambda *_: False)


def recalled_is_all(patches: Patches) -> None:
    def wrapper(versions):
        return lambda records, name: dict.fromkeys(versions(records, name), VERY_NEW)

    patches.wrap(frozen_neighbours, "learned_versions", wrapper)


def recalled_direct_stays_direct(patches: Patches) -> None:
    def freeze(self, filters):
        unseen = [one for one in filters if one not in self.view]
        frozen = {one: Interest(durable=True, live=False) for one in unseen}
        self.ghosts.update(frozen)
        return dict(frozen)

    patches.put(ScopeReader, "freeze", freeze)


def lagging_leader_keeps(patches: Patches) -> None:
    patches.put(remembering, "_is_behind", lambda version, *_: version == NEVER)


def settings_not_compared(patches: Patches) -> None:
    patches.put(targets, "set_to_keep", lambda admin, specs: {})


def hidden_groups_are_none(patches: Patches) -> None:
    def wrapper(passed):
        def wrong(self, admin, topics):
            try:
                return passed(self, admin, topics)
            except TransportDeniedError:
                seen = [read for name, read in admin._broker.groups.items() if name == "clients"]
                return slowest(seen, topics)

        return wrong

    patches.wrap(Readership, "passed", wrapper)


def surplus_matches_nothing(patches: Patches) -> None:
    def wrapper(match):
        return lambda *of: (match(*of)[0], ())

    patches.wrap(ShapeIndex, "match", wrapper)


def commits_in_the_loop(patches: Patches) -> None:
    def commit(self, lanes):
        for lane in lanes:
            if lane.batch is None or lane.closing is not None:
                continue
            try:
                self.committing.begin(lane, lane.batch)
            except TransportError as error:
                self._give_up(lane, error)
            else:
                yield from self._end_commit(lane)

    patches.put(Lanes, "commit", commit)


STRANGER_BUGS = (
    Mutation("poison-ends-worker", "whatever a record raises leaves the worker's turn", poison_ends_worker),
    Mutation("refusal-ends-worker", "a topic that is refused ends the worker", refusal_ends_worker),
    Mutation("one-refused-all-wait", "lanes wait until every endpoint has its topic", one_refused_all_wait),
    Mutation("no-look-for-leaders", "nobody looks whether targets have a leader", nobody_looks_for_leaders),
    Mutation("asked-in-the-loop", "what brokers are asked is waited for in the loop", asked_in_the_loop),
    Mutation("commits-in-the-loop", "commits of lanes are waited for in the loop", commits_in_the_loop),
    Mutation("garbage-excuses-a-hole", "behind garbage one hole is taken as it is", garbage_excuses_a_hole),
    Mutation("stray-is-a-version", "a key without the magic is a frame of a later version", stray_is_a_version),
    Mutation("second-reading-takes-all", "who reads again takes what the lane did not", second_reading_takes_all),
    Mutation("mate-knows-less", "a lane is read by who knows less than its former owner", mate_knows_less),
    Mutation("recalled-is-all", "what is kept is taken for all that lanes had routed by", recalled_is_all),
    Mutation("recalled-direct", "what was read of a direct endpoint is not recalled for guaranteed ones", recalled_direct_stays_direct),
    Mutation("lagging-leader-keeps", "a leader that has heard less overwrites what was kept", lagging_leader_keeps),
    Mutation("settings-not-compared", "topics of endpoints stay as strangers made them", settings_not_compared),
    Mutation("surplus-matches-nothing", "filters of surplus shapes attract nothing", surplus_matches_nothing),
    Mutation("hidden-groups-are-none", "groups that are not shown are taken for none", hidden_groups_are_none),
)  # fmt: skip
