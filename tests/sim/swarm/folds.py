"""Life and recovery are one fold: a lane stands where who takes it now would find it. Spec: K12."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from mesh.errors import ProtocolError
from mesh.lane.lane import Lane
from mesh.lane.progress import Progress
from mesh.model.control import OutboxPosition
from mesh.model.facts import Fact, Held, Sent, SourceAt
from mesh.transport.memory_log import MemoryRecord
from mesh.transport.port import TopicPartition
from mesh.wire.keys import fact_key
from mesh.wire.state import decode_fact


@dataclass(slots=True)
class Folds:
    """What lanes have committed of themselves, by partition of `progress`."""

    _kept: dict[tuple[str, int], dict[bytes, Fact]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _fresh: dict[tuple[str, int], None] = field(default_factory=dict)

    def take(self, record: MemoryRecord) -> None:
        """Take a record of progress; what nobody can read says nothing."""
        place, key, value = (
            (record.topic(), record.partition()),
            record.key() or b"",
            record.value(),
        )
        self._fresh[place] = None
        if value is None:
            self._kept[place].pop(key, None)
            return
        try:
            self._kept[place][key] = decode_fact(value)
        except ProtocolError:
            return

    def position(self, node: str, told: OutboxPosition) -> int | None:
        """Return where whoever takes the lane of an outbox partition begins to read it.

        None if that cannot be compared: nothing is kept of that topic, or its offsets came again.
        """
        progress, at = f"mesh.{node}.progress", TopicPartition(told.topic, told.partition)
        key = fact_key(SourceAt(at, b"", 0).key)
        found = [kept.get(key) for place, kept in self._kept.items() if place[0] == progress]
        for fact in found:
            if isinstance(fact, SourceAt) and fact.topic_id == told.topic_id:
                return None if fact.generation else fact.next
        return None

    def unlike(self, lane: Lane) -> Iterator[str]:
        """Yield in what a lane differs that has nothing open and something new in its log."""
        topic, lanes = lane.names.progress(lane.node), lane.topology.nodes[lane.node].lanes
        place, beside = (topic, lane.number), (topic, lanes + lane.number)
        if lane.batch or lane.closing or not {place, beside} & self._fresh.keys():
            return
        self._fresh.pop(place, None)
        self._fresh.pop(beside, None)
        taken = Progress()
        for fact in self._kept[place].values():
            taken.apply(fact)
        if taken.epoch != lane.progress.epoch:
            return  # another worker has it
        for fact in self._kept[beside].values():
            taken.apply_catch_up(fact)
        moved = _sent_by_movers(self._kept[beside].values())
        lived, found = _durable(lane.progress, moved), _durable(taken, moved)
        unheard = _unheard(lived["held"], found["held"])
        for name, table in lived.items():
            keys = [
                key
                for key in {**table, **found[name]}
                if table.get(key) != found[name].get(key)
                and not (name in ("held", "sent") and key in unheard)
            ]
            for key in keys:
                yield f"{name} of {key}: {table.get(key)}, and {found[name].get(key)} for who takes it"


def _unheard(lived: Mapping[object, object], found: Mapping[object, object]) -> Collection[object]:
    """Return what is written further at targets that are held than their lane knows.

    The commit of a catch-up came about and nobody heard so: the next one reads it before it begins.
    """
    return [
        key
        for key, first in lived.items()
        if isinstance(first, int) and isinstance(more := found.get(key), int) and more > first
    ]


def _sent_by_movers(beside: Collection[Fact]) -> set[object]:
    """Return what was sent beside a lane, but not by its catch-ups: those tell of a hold as well."""
    sent = {(one.at, one.source) for one in beside if isinstance(one, Sent)}
    return sent - {(one.at, one.source) for one in beside if isinstance(one, Held)}


def _durable(progress: Progress, moved: set[object]) -> Mapping[str, Mapping[object, object]]:
    """Return what a lane and its catch-ups keep; what movers have sent they keep themselves."""
    holds = progress.holds
    return {
        "next": progress.next,
        "reserved": progress.reserved,
        "generation": {at: one for at, one in progress.generations.items() if one},
        "left": progress.unlinked,
        "stopped": progress.stopped,
        "truncations": progress.truncations,
        "eras": {at: tuple(eras) for at, eras in progress.eras.items()},
        "sent": {key: last for key, last in progress.sent.items() if key not in moved},
        "since": {key: since for key, since in progress.since.items() if since},
        "link": {key: number for key, number in progress.links.items() if number},
        "accepted": progress.accepted,
        "gap": progress.gaps,
        "hold": {target: holds.number(target) for target in holds},
        "held": {key: first for target in holds for key, first in holds.next(target).items()},
        "refused": {
            (at, block): marks
            for at, frames in progress.partly_taken.items()
            for block, marks in frames._blocks.items()
            if marks
        },
        "in force": progress.in_force,
    }
