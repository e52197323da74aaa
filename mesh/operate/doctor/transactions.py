"""Does an open transaction hide records from readers of committed ones? Spec: R2, R16."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged
from mesh.operate.doctor.examination import Examination
from mesh.transport.kafka.settings import TRANSACTION_TIMEOUT_MS
from mesh.transport.port import TopicPartition


def check_transactions(at: Examination) -> Iterator[Check]:
    """Yield one check per node, which names partitions whose last stable offset does not move."""
    before, after = at.moments()
    is_long = at.patience_s * 1000 > TRANSACTION_TIMEOUT_MS
    for node in at.topology.nodes:
        if at.view.is_unreachable(node):
            continue  # reported by the checks of nodes
        topics = {spec.name for spec in at.topics_of(node)}
        stuck: dict[TopicPartition, int] = {
            place: after.ends[place] - offset
            for place, offset in after.stable.items()
            if place.topic in topics
            and place in after.ends
            and offset < after.ends[place]
            and before.stable.get(place) == offset < before.ends.get(place, 0)
        }
        faults = [
            f"{place} stands still at offset {after.stable[place]} and hides {hidden} records"
            for place, hidden in stuck.items()
        ]
        yield judged(
            Category.TRANSACTIONS,
            f"no open transaction hides records of {node}",
            first_of(faults) and f"{first_of(faults)}, for {at.patience_s:g} s or longer",
            _advice(at, node, stuck, is_long=is_long),
            result=Result.FAILED if is_long else Result.WARNING,
            figures={"hidden": sum(stuck.values())},
        )


def _advice(at: Examination, node: str, stuck: dict[TopicPartition, int], *, is_long: bool) -> str:
    if not stuck:
        return ""
    if not is_long:
        seconds = TRANSACTION_TIMEOUT_MS // 1000 + 1
        return (
            "brokers end it after its time-out; to see whether they do: "
            f"mesh doctor --category transactions --patience {seconds}"
        )
    place, _ = next(iter(stuck.items()))
    start = at.moments()[1].stable[place]
    servers = at.servers(at.topology.nodes[node].kafka)
    lane = place.partition % at.topology.nodes[node].lanes
    return (
        f"end the client that writes there, or the owner of lane {lane} of {node} if it is a "
        f"topic that {node} writes; else: kafka-transactions.sh --bootstrap-server {servers} abort "
        f"--topic {place.topic} --partition {place.partition} --start-offset {start}"
    )
