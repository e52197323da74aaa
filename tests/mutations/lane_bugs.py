"""Bugs of the data path: positions, transactions, chain, direct copies, frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mesh.errors import TransportError
from mesh.lane import resuming
from mesh.lane.batch import Batch
from mesh.lane.lane import Lane
from mesh.lane.messages import delivering, gaps, ingress, outgoing, transit
from mesh.lane.progress import Progress
from mesh.lane.reservations import Reservations
from mesh.lane.run import Run
from mesh.model.facts import Accepted, EpochRaised, Sent, SourceAt
from mesh.model.frames import Chain
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_clients import MemoryWriter
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_fact, encode_ledger
from mesh.worker.lanes import owned as lanes
from mesh.worker.lanes import taking
from mesh.worker.lanes.committing import LaneCommits
from mesh.worker.lanes.owned import Lanes
from mesh.worker.lanes.sources import Sources
from tests.mutations.patching import Mutation, Patches


def _written(batch: Batch) -> Iterator[tuple[bytes, bytes]]:
    for source, reading in batch.readings.items():
        fact = SourceAt(source, reading.topic_id, reading.next)
        yield fact_key(fact.key), encode_fact(fact)


def position_before_copies(patches: Patches) -> None:
    def wrapper(begin_commit):
        def wrong(self, lane, batch):
            early = MemoryWriter(self.transactions[lane.number].writer._broker, "early", None)
            for key, value in _written(batch):
                early.produce(lane.names.progress(lane.node), value, key, lane.number)
            return begin_commit(self, lane, batch)

        return wrong

    patches.wrap(LaneCommits, "begin", wrapper)


def position_after_copies(patches: Patches) -> None:
    def wrapper(begin_commit):
        def wrong(self, lane, batch):
            if not batch.readings:
                return begin_commit(self, lane, batch)
            late, commits = list(_written(batch)), self.commits
            writer, progress = self.transactions[lane.number].writer, lane.names.progress(lane.node)

            class InTwo:
                def begin(self, commit):
                    def both():
                        commit()
                        writer.begin()
                        for key, value in late:
                            writer.produce(progress, value, key, lane.number)
                        commit()

                    return commits.begin(both)

            finish, Batch.finish, self.commits = Batch.finish, _without_positions, InTwo()
            try:
                return begin_commit(self, lane, batch)
            finally:
                Batch.finish, self.commits = finish, commits

        return wrong

    patches.wrap(LaneCommits, "begin", wrapper)


def _without_positions(batch: Batch, partition, *_: object):
    topic = batch.names.progress(batch.node)
    others = {key: fact for key, fact in batch.facts.items() if not isinstance(fact, SourceAt)}
    for key, fact in others.items():
        value = None if fact is None else encode_fact(fact)
        batch.rows[topic, partition].append((value, fact_key(key), 0, None))
    ledger = batch.ledger()
    batch.rows[batch.names.ledger(batch.node), partition].append(
        (encode_ledger(ledger), None, 0, None)
    )
    return ledger


def position_one_short(patches: Patches) -> None:
    def wrapper(read):
        def wrong(batch, source, topic_id, generation, first, last, n, **more):
            read(batch, source, topic_id, generation, first, max(first, last - 1), n, **more)

        return wrong

    patches.wrap(Batch, "read", wrapper)


def position_one_far(patches: Patches) -> None:
    def far(fact):
        return replace(fact, next=fact.next + 1) if isinstance(fact, SourceAt) else fact

    patches.wrap(taking, "read_progress", lambda read_progress: _changed(read_progress, far))


def commit_error_swallowed(patches: Patches) -> None:
    def wrapper(commit):
        def wrong(writer):
            try:
                commit(writer)
            except TransportError:
                return

        return wrong

    patches.wrap(MemoryWriter, "commit", wrapper)


def no_rewind_after_failure(patches: Patches) -> None:
    def wrong(self, places_kafka, positions):
        fresh = {at: p for at, p in positions.items() if at not in _seen(self)}
        _seen(self).update(positions)
        here = self.readers[places_kafka]
        here.assign(
            {at: fresh.get(at, _FURTHEST.get((id(here), at), p)) for at, p in positions.items()}
        )

    def stop(self, lane):
        for place in lane.sources:
            reader = self.readers[self.topics[place.topic].kafka]
            _FURTHEST[id(reader), place] = reader.position(place)
            reader.unassign([place])
        lane.sources.clear()

    _FURTHEST.clear()
    _SEEN.clear()
    patches.put(Sources, "_read", wrong)
    patches.put(Sources, "stop", stop)


_FURTHEST: dict[tuple[int, object], int] = {}
_SEEN: dict[int, dict] = {}


def _seen(sources: Sources) -> dict:
    return _SEEN.setdefault(id(sources.readers), {})


def positions_not_read_again(patches: Patches) -> None:
    former: dict[tuple[int, int], Progress] = {}

    def take(take_lane):
        def wrong(topology, node, number, kafka, recall, clock):
            lane = yield from take_lane(topology, node, number, kafka, recall, clock)
            known = former.get((id(recall), number))
            if known is not None:
                known.epoch = lane.progress.epoch
                lane.progress = known
            return lane

        return wrong

    def drop(original):
        def wrong(self, number):
            former[id(self.recall), number] = self.owned[number].progress
            original(self, number)

        return wrong

    patches.wrap(lanes, "take_lane", take)
    patches.wrap(Lanes, "drop", drop)


def same_writer_after_unknown(patches: Patches) -> None:
    """Rule R3: a writer with an unknown outcome is spent."""
    former: dict[tuple[int, int], MemoryWriter] = {}

    class Sticky:
        def __init__(self, kafka: MemoryKafka, writer: MemoryWriter) -> None:
            self.admin = kafka.admin
            self.held = writer

        def writer(self, name: str, transactional_id: str) -> MemoryWriter:
            return self.held

    def take(take_lane):
        def wrong(topology, node, number, kafka, recall, clock):
            writer = former.get((id(recall), number))
            if writer is not None and not writer._fenced and not writer._unanswered:
                kafka = Sticky(kafka, writer)
            return take_lane(topology, node, number, kafka, recall, clock)

        return wrong

    def drop(original):
        def wrong(self, number):
            former[id(self.recall), number] = self.transactions[number].writer
            original(self, number)

        return wrong

    patches.wrap(lanes, "take_lane", take)
    patches.wrap(Lanes, "drop", drop)


def not_fenced(patches: Patches) -> None:
    def wrong(writer) -> None:
        return

    patches.put(MemoryWriter, "fence", wrong)


def fetched_before_loss_routed(patches: Patches) -> None:
    """The sources of a dropped lane stay assigned, and its successor reads on where it was."""

    def wrong(self, lane) -> None:
        lane.sources.clear()

    def read(self, kafka, positions):
        reader = self.readers[kafka]
        reader.assign({at: p for at, p in positions.items() if at not in reader._positions})

    patches.put(Sources, "stop", wrong)
    patches.put(Sources, "_read", read)


def inherited_not_skipped(patches: Patches) -> None:
    patches.put(resuming, "skip", lambda lane, at, reason, to, now_ms: None)


def direct_not_reserved(patches: Patches) -> None:
    def wrong(run, first, last):
        run.batch.is_awaited = True
        run.lane.direct.handed_on[run.source.at] = last + 1

    patches.put(Run, "about_to_read", wrong)


def unwritten_not_counted(patches: Patches) -> None:
    patches.put(lanes, "count_unwritten", lambda lane, now_ms: lane.direct.doubtful.clear())


def reservation_never_ends(patches: Patches) -> None:
    patches.put(Reservations, "expire", lambda direct, now_ms: None)
    patches.put(lanes, "take_lane", _taken_long_ago(taking.take_lane))


def _taken_long_ago(take_lane):
    def wrong(*args):
        lane = yield from take_lane(*args)
        lane.taken_ms = -1_000_000
        return lane

    return wrong


def previous_off_by_one(patches: Patches) -> None:
    def wrapper(next_chain):
        def wrong(run, link, first, last):
            chain = next_chain(run, link, first, last)
            return replace(chain, previous=max(-1, chain.previous - 1))

        return wrong

    for module in (outgoing, gaps):
        patches.wrap(module, "next_chain", wrapper)


def sent_not_recovered(patches: Patches) -> None:
    patches.wrap(taking, "read_progress", lambda read_progress: _without(read_progress, Sent))


def accepted_not_recovered(patches: Patches) -> None:
    patches.wrap(taking, "read_progress", lambda read_progress: _without(read_progress, Accepted))


def epoch_not_recovered(patches: Patches) -> None:
    patches.wrap(
        taking, "read_progress", lambda read_progress: _without(read_progress, EpochRaised)
    )
    patches.put(taking, "_epoch_in_ledger", lambda *_: 0)


def _without(read_progress, kind):
    return _changed(read_progress, lambda fact: None if isinstance(fact, kind) else fact)


def _changed(read_progress, change):
    """Read what a lane kept with every fact changed, or left out."""

    def wrong(records):
        kept = read_progress(records)
        changed = {key: change(fact) for key, fact in kept.facts.items()}
        return replace(kept, facts={key: one for key, one in changed.items() if one is not None})

    return wrong


def written_and_not_applied(patches: Patches) -> None:
    patches.put(Lane, "note", lambda lane, batch, fact: batch.note(fact))


def applied_and_not_written(patches: Patches) -> None:
    patches.put(Lane, "note", lambda lane, batch, fact: lane.progress.apply(fact))


def chain_speaks_for_all(patches: Patches) -> None:
    """One `last` per outbox partition instead of one per source."""

    def wrong(run, link, first, last):
        lane, source = run.lane, run.source
        outbox = lane.outbox(link, source)
        previous = lane.progress.sent.get(outbox, -1)
        lane.progress.sent[outbox] = last
        return Chain(source=source.identity, previous=previous, first=first, last=last)

    for module in (outgoing, gaps):
        patches.put(module, "next_chain", wrong)


def hops_never_restart(patches: Patches) -> None:
    patches.put(outgoing, "next_hop_count", lambda hops, arrived_on_zone: hops + 1)


def hops_always_restart(patches: Patches) -> None:
    patches.put(outgoing, "next_hop_count", lambda hops, arrived_on_zone: 1)


def external_mark_forgotten(patches: Patches) -> None:
    def wrapper(next_hop):
        def wrong(run, link, came, first, last):
            return next_hop(run, link, replace(came, crossed_external=False), first, last)

        return wrong

    patches.wrap(outgoing, "next_hop", wrapper)
    patches.wrap(transit, "next_hop", wrapper)


def split_loses_last(patches: Patches) -> None:
    def wrapper(scan_value):
        def wrong(value, origin):
            base, items = scan_value(value, origin)
            items = list(items)
            return base, items[:-1] if len(items) > 1 else items

        return wrong

    patches.wrap(transit, "scan_value", wrapper)


def order_by_subject(patches: Patches) -> None:
    """Messages are gathered in a dict by subject before they are delivered."""

    def wrapper(deliver):
        def wrong(run, came, messages, subjects, routes):
            messages = sorted(messages, key=lambda message: message[1], reverse=True)
            deliver(run, came, messages, subjects, routes)

        return wrong

    patches.wrap(ingress, "deliver", wrapper)
    patches.wrap(transit, "deliver", wrapper)


def own_node_not_in_path(patches: Patches) -> None:
    def wrapper(rows):
        def wrong(run, came, messages, subjects):
            path = came.path[:-1] or came.path
            return rows(run, replace(came, path=path), messages, subjects)

        return wrong

    patches.wrap(delivering, "_rows", wrapper)


LANE_BUGS = (
    Mutation("position-before-copies", "positions are committed ahead of the copies", position_before_copies),
    Mutation("position-after-copies", "positions are committed in a second transaction", position_after_copies),
    Mutation("position-one-short", "the committed position is the last record, not the next", position_one_short),
    Mutation("position-one-far", "a successor begins one record too late", position_one_far),
    Mutation("commit-error-swallowed", "a failed commit counts as done", commit_error_swallowed),
    Mutation("no-rewind", "after a failed commit the lane reads on where it was", no_rewind_after_failure),
    Mutation("positions-not-read-again", "after an unknown outcome the lane trusts its memory", positions_not_read_again),
    Mutation("same-writer-after-unknown", "the writer is used on after an unknown outcome (R3)", same_writer_after_unknown),
    Mutation("not-fenced", "a successor does not fence the former owner", not_fenced),
    Mutation("fetched-before-loss", "what a lost lane was reading is not put back", fetched_before_loss_routed),
    Mutation("inherited-not-skipped", "a successor repeats direct copies that went ahead", inherited_not_skipped),
    Mutation("direct-not-reserved", "direct copies go before any position beyond them is committed", direct_not_reserved),
    Mutation("unwritten-not-counted", "direct copies that a dead worker had not written are not counted", unwritten_not_counted),
    Mutation("reservation-never-ends", "a zombie goes on using what it had reserved", reservation_never_ends),
    Mutation("previous-off-by-one", "the chain names the offset before the last one sent", previous_off_by_one),
    Mutation("sent-not-recovered", "a successor does not know what was sent", sent_not_recovered),
    Mutation("accepted-not-recovered", "a successor does not know what was accepted", accepted_not_recovered),
    Mutation("lane-epoch-not-raised", "each taking of a lane has the same epoch", epoch_not_recovered),
    Mutation("written-not-applied", "what a lane keeps does not hold for itself", written_and_not_applied),
    Mutation("applied-not-written", "what holds for a lane is not kept", applied_and_not_written),
    Mutation("one-chain-for-all", "the chain is kept per outbox, not per source", chain_speaks_for_all),
    Mutation("hops-never-restart", "the hop count goes on in another zone", hops_never_restart),
    Mutation("hops-always-restart", "the hop count restarts within a zone", hops_always_restart),
    Mutation("external-mark-forgotten", "changing the zone forgets the external link crossed", external_mark_forgotten),
    Mutation("split-loses-last", "the last message of a split frame is lost", split_loses_last),
    Mutation("order-by-subject", "messages are delivered subject by subject", order_by_subject),
    Mutation("path-without-own-node", "deliveries do not name the delivering node", own_node_not_in_path),
)  # fmt: skip
