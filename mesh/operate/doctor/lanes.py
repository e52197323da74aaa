"""Has each lane one owner? A lower lane epoch after a higher one says no. Spec: K16, K18."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mesh.codec.state import decode_ledger
from mesh.errors import ProtocolError, TransportError
from mesh.model.topics import TopicNames
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.findings import Category, Check, first_of, judged, unseen
from mesh.transport.port import TopicPartition
from mesh.transport.reading import read_logs

LEDGER_MAX = 200
"""Newest offsets of each ledger partition that are looked at."""


def check_lanes(at: Examination) -> Iterator[Check]:
    """Yield one check per node, from its progress and the ends of its ledger."""
    names = TopicNames(at.topology.prefix)
    for kafka in at.kafka:
        nodes = at.nodes_on(kafka)
        try:
            ledgers = _ledger_epochs(at, kafka)
        except TransportError as fault:
            for node in nodes:
                yield unseen(Category.LANES, _description(node), fault)
            continue
        for node in nodes:
            faults = [
                *_backwards(names.progress(node), at.reports().of(node).epochs),
                *_backwards(names.ledger(node), ledgers[node]),
            ]
            yield judged(
                Category.LANES,
                _description(node),
                first_of(faults),
                f"two workers believed in one lane, or the progress of {node} was made anew: stop "
                f"all workers of {node}, start one (mesh node run {node}); see mesh audit report",
            )


def _description(node: str) -> str:
    return f"each lane of {node} has one owner"


def _backwards(topic: str, told: Sequence[tuple[int, int, int]]) -> Iterator[str]:
    """Yield where an epoch follows a higher one of the same partition."""
    highest: dict[int, tuple[int, int]] = {}
    for partition, offset, epoch in told:
        above, at = highest.get(partition, (0, 0))
        if epoch < above:
            yield f"{topic}[{partition}] has epoch {epoch} at offset {offset} after {above} at {at}"
        else:
            highest[partition] = (epoch, offset)


def _ledger_epochs(at: Examination, kafka: str) -> Mapping[str, Sequence[tuple[int, int, int]]]:
    names = TopicNames(at.topology.prefix)
    nodes = {names.ledger(node): node for node in at.nodes_on(kafka)}
    places = [
        TopicPartition(topic, number)
        for topic, node in nodes.items()
        for number in range(2 * at.topology.nodes[node].lanes)
    ]
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
