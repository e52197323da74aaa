"""Has each lane one owner? A lower lane epoch after a higher one says no. Spec: K16, K18."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mesh.errors import ProtocolError, TransportError
from mesh.model.control import NEVER
from mesh.model.facts import InForce
from mesh.model.interest_inputs import CLIENTS
from mesh.model.state import Standby
from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged, unseen
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.kept import check_kept
from mesh.transport.port import TopicPartition
from mesh.transport.reading import read_logs
from mesh.wire.standbys import LearnedRecord, standbys
from mesh.wire.state import decode_ledger

LAG_MS = 10_000
"""How much later than lanes a standby may hear something, by the brokers' clock."""

HEARD_WITHIN_MS = 180_000
"""How long after its last report, by that clock, a standby still counts: it reports each minute.
Its record is deleted much later (`mesh.wire.standbys.GONE_MS`)."""

LEDGER_MAX = 200
"""Newest offsets of each ledger partition that are looked at."""


def check_lanes(at: Examination) -> Iterator[Check]:
    """Yield one check per node, from its progress and the ends of its ledger.

    Another one per node with standbys, whether they have heard enough to take its lanes, and one
    about what its lanes keep of former neighbours and deleted topics.
    """
    names = at.topology.names
    for kafka in at.kafka:
        nodes = at.nodes_on(kafka)
        try:
            ledgers = _ledger_epochs(at, kafka)
        except TransportError as fault:
            for node in nodes:
                yield unseen(Category.LANES, _description(node), fault)
            continue
        learned = _learned(at, kafka)
        for node in nodes:
            faults = [
                *_backwards(names.progress(node), at.reports().of(node).epochs),
                *_backwards(names.ledger(node), ledgers[node]),
            ]
            yield judged(
                Category.LANES,
                _description(node),
                first_of(faults),
                f"two workers believed in one lane, or the progress of {node} was recreated: stop "
                f"all workers of {node}, start one (mesh node run {node}); see mesh audit report",
            )
            yield from _standbys(at, node, learned)
            yield check_kept(at, node)


def _learned(at: Examination, kafka: str) -> Mapping[str, Sequence[LearnedRecord]] | TransportError:
    """Return the content of `learned` of each node of a Kafka cluster, or why it is unknown."""
    nodes = {at.topology.names.learned(node): node for node in at.nodes_on(kafka)}
    places = [TopicPartition(topic, 0) for topic in nodes]
    found: dict[str, list[LearnedRecord]] = {node: [] for node in nodes.values()}
    try:
        for one in read_logs(at.answering(kafka), places, name="standbys"):
            found[nodes[one.topic()]].append((one.key(), one.value(), one.timestamp()[1]))
    except TransportError as fault:
        return fault
    return found


def _standbys(
    at: Examination, node: str, learned: Mapping[str, Sequence[LearnedRecord]] | TransportError
) -> Iterator[Check]:
    """Yield whether a node's standbys have heard everything its lanes go by. Spec: K16, K21."""
    description = f"standbys of {node} have heard what its lanes go by"
    if isinstance(learned, TransportError):
        yield unseen(Category.LANES, description, learned)
        return
    beat_ms = at.view.nodes[node].beat_ms
    found = standbys(learned[node])
    alive = {name: one for name, one in found.items() if beat_ms - one[1] < HEARD_WITHIN_MS}
    if not alive:
        return
    heard_of = [
        name
        for name in at.topology.neighbours(node)
        if at.beats[name] and not at.view.is_to_be_disabled(node, name)
    ]
    faults = [
        f"{worker} has not heard all of {source}"
        for worker, (standby, at_ms) in sorted(alive.items())
        for source in _unheard(at.reports().of(node).in_force, standby, at_ms)
        if source in (CLIENTS, *heard_of)
    ]
    yield judged(
        Category.LANES,
        description,
        first_of(faults),
        "a lane that it takes would wait until it has heard that: check that it reaches the named "
        "node's Kafka cluster, or restart it",
        result=Result.WARNING,
        figures={"standbys": len(alive)},
    )


def _unheard(
    in_force: Sequence[tuple[int, InForce]], standby: Standby, at_ms: int
) -> Sequence[str]:
    """Return the neighbours that lanes knew more about well before a standby's last report."""
    heard = {one.scope: (one.epoch, one.number) for one in standby.in_force}
    late = {
        one.scope.partition(" ")[0]: None
        for since_ms, one in in_force
        if since_ms <= at_ms - LAG_MS and (one.epoch, one.number) > heard.get(one.scope, NEVER)
    }
    return sorted(late)


def _description(node: str) -> str:
    return f"each lane of {node} has one owner"


def _backwards(topic: str, epochs: Sequence[tuple[int, int, int]]) -> Iterator[str]:
    """Yield where an epoch follows a higher one of the same partition."""
    highest: dict[int, tuple[int, int]] = {}
    for partition, offset, epoch in epochs:
        above, at = highest.get(partition, (0, 0))
        if epoch < above:
            yield f"{topic}[{partition}] has epoch {epoch} at offset {offset} after {above} at {at}"
        else:
            highest[partition] = (epoch, offset)


def _ledger_epochs(at: Examination, kafka: str) -> Mapping[str, Sequence[tuple[int, int, int]]]:
    nodes = {at.topology.names.ledger(node): node for node in at.nodes_on(kafka)}
    places = at.lane_places(nodes)
    found: dict[str, list[tuple[int, int, int]]] = {node: [] for node in nodes.values()}
    for record in read_logs(at.answering(kafka), places, most=LEDGER_MAX, name="ledgers"):
        try:
            ledger = decode_ledger(record.value() or b"")
        except ProtocolError:
            continue
        found[nodes[record.topic()]].append(
            (record.partition(), record.offset(), ledger.lane_epoch)
        )
    return found
