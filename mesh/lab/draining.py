"""What is left to read before a scenario counts as drained. Spec: lab.md 1."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mesh.errors import TransportError
from mesh.lab.faults import FaultRunner
from mesh.lab.open_transactions import open_transactions
from mesh.lab.tally import Tally
from mesh.model.facts import Gap, Held
from mesh.model.topics import SourceName
from mesh.transport.port import TopicPartition


def undrained(tally: Tally, faults: FaultRunner) -> tuple[Sequence[str], Mapping[str, int]]:
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
        if stopped or (owner != reader and faults.waits_for_link(reader, owner)):
            waiting[str(place)] = behind
        else:
            left.append(f"{place} lacks {behind}")
    for node, owed in tally.pending:
        if _can_catch_up(faults, node, owed):
            left.append(f"{owed.at} is not caught up")
    return left, waiting


def open_ledgers(faults: FaultRunner) -> Sequence[str]:
    """Return a line for each ledger that may soon say more of what was read.

    Brokers end a transaction partition by partition: a position may be seen before the account of
    what was read up to there.
    """
    places: dict[str, list[TopicPartition]] = {}
    for node in faults.serving():
        declared, ledger = faults.topology.nodes[node], faults.topology.names.ledger(node)
        found = places.setdefault(declared.kafka, [])
        found += TopicPartition.all_of(ledger, declared.lane_partitions)
    return open_transactions(faults.backend.kafka, places)


def lacking_copies(tally: Tally, endpoints: Collection[str]) -> Mapping[tuple[str, str], int]:
    """Return how many direct copies ledgers account for that are not found: under way, or lost.

    Args:
        tally: What is found.
        endpoints: The endpoints of the direct class, `node/name`.

    Returns:
        A number of messages by node, and by link, `a->b`, or endpoint that it writes.
    """
    found = {(name.split("->")[0], name): tally.direct_copies[name] for name in tally.links}
    for name in endpoints:
        found[name.split("/")[0], name] = tally.endpoints[name].count
    lacking = {place: tally.copies[place[1]] - count for place, count in found.items()}
    return {place: count for place, count in lacking.items() if count > 0}


def _can_catch_up(faults: FaultRunner, node: str, owed: Gap | Held) -> bool:
    """Return whether nothing is in the way of what a node catches up beside its lanes."""
    serving = faults.serving()
    if isinstance(owed, Held):
        return node in serving
    owner = _source(faults, owed.at.topic).owner
    return {owner, node} <= set(serving) and not faults.is_closed(owner, node)


def _source(faults: FaultRunner, topic: str) -> SourceName:
    """Return what the name of an ingress or outbox says."""
    found = faults.topology.names.source_of(topic)
    assert found is not None, topic
    return found
