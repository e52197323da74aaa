"""Bugs of what is lost and told: consents, announcements, holds, dead letters, positions."""

from __future__ import annotations

from mesh.core.read_positions import ReadPositions
from mesh.lane.messages import gaps
from mesh.node.faults import Faults
from mesh.transport.port import TopicPartition
from mesh.worker.lanes.sources import Sources
from mesh.worker.process.transactions import transact
from mesh.worker.second_writer import displacing, held_target
from mesh.worker.second_writer.displacing import Displacing
from mesh.worker.second_writer.held_target import TargetCatchUp
from tests.mutations.patching import Mutation, Patches


def displaced_before_letters(patches: Patches) -> None:
    def wrapper(write_left):
        def wrong(self, reading, *where):
            for last in reading.records[: displacing.CHUNK][-1:]:
                self.home.admin().delete_before({reading.of.at: last.offset() + 1})
            write_left(self, reading, *where)

        return wrong

    patches.wrap(Displacing, "_write_left", wrapper)


def quarantined_before_letter(patches: Patches) -> None:
    late: list[tuple] = []

    def keep_aside(*args):
        late[:] = [args]

    def wrapper(take_written):
        def wrong(self, now_ms):
            for args in late:
                args[2].rows.clear()
                original(*args)
                transact(self.writer, args[2].rows)
            late.clear()
            take_written(self, now_ms)

        return wrong

    original = held_target.keep_aside
    patches.put(held_target, "keep_aside", keep_aside)
    patches.wrap(TargetCatchUp, "_take_written", wrapper)


def consent_skips_one_more(patches: Patches) -> None:
    def wrapper(resume):
        def wrong(self, lane, stop, now_ms):
            resume(self, lane, stop, now_ms)
            at = TopicPartition(stop.topic, stop.partition)
            if lane.batch is not None and at in lane.batch.readings:
                lane.batch.readings[at].next += 1

        return wrong

    patches.wrap(Sources, "resume", wrapper)


def consent_not_awaited(patches: Patches) -> None:
    def wrapper(stopped):
        def wrong(self, neighbour, stop):
            self.accepted[stop.topic, stop.partition] = stop
            yield from stopped(self, neighbour, stop)

        return wrong

    patches.wrap(Faults, "stopped", wrapper)


def announcement_not_delivered(patches: Patches) -> None:
    patches.put(gaps, "_deliver", lambda *_: None)


def mates_not_told(patches: Patches) -> None:
    patches.put(ReadPositions, "of_topics", lambda self, topics: {})


LOSS_BUGS = (
    Mutation("displaced-before-letters", "displaced records are deleted before their letters are committed", displaced_before_letters),
    Mutation("quarantined-before-letter", "the position behind a stuck record is committed before its letter", quarantined_before_letter),
    Mutation("consent-skips-one-more", "a source goes on one record behind what was accepted as lost", consent_skips_one_more),
    Mutation("consent-not-awaited", "a source that lost something goes on by itself", consent_not_awaited),
    Mutation("announcement-not-delivered", "losses are handed on, but no endpoint is told", announcement_not_delivered),
    Mutation("mates-not-told", "neighbours are told of the leader's lanes alone", mates_not_told),
)  # fmt: skip
