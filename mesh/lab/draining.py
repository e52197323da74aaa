"""What is left to read before a scenario counts as drained. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.errors import TransportError
from mesh.lab.faults import Faults
from mesh.lab.tally import Tally
from mesh.model.facts import Gap, Held
from mesh.model.topics import SourceName


def undrained(tally: Tally, faults: Faults) -> tuple[Sequence[str], Mapping[str, int]]:
    """Return what readers lack that could have it, and what waits for a fault's end."""
    try:
        tally.refresh()
    except TransportError as error:
        return [str(error)], {}  # brokers that have just started may refuse for a while
    waiting: dict[str, int] = {}
    left: list[str] = []
    for place, end in tally.ends.items():
        owner, reader, _ = _source(faults, place.topic)
        behind = end - tally.position(reader, place)
        if behind <= 0:
            continue
        stopped = reader not in faults.serving()
        if stopped or (owner != reader and faults.is_closed(owner, reader)):
            waiting[str(place)] = behind
        else:
            left.append(f"{place} lacks {behind}")
    for node, owed in tally.pending:
        if _can_catch_up(faults, node, owed):
            left.append(f"{owed.at} is not caught up")
    return left, waiting


def _can_catch_up(faults: Faults, node: str, owed: Gap | Held) -> bool:
    """Return whether nothing is in the way of what a node catches up beside its lanes."""
    serving = faults.serving()
    if isinstance(owed, Held):
        return node in serving
    owner = _source(faults, owed.at.topic).owner
    return {owner, node} <= set(serving) and not faults.is_closed(owner, node)


def _source(faults: Faults, topic: str) -> SourceName:
    """Return what the name of an ingress or outbox says."""
    found = faults.topology.names.source_of(topic)
    assert found is not None, topic
    return found
