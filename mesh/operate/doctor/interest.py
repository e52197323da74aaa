"""Has everybody proven the interest they must know, and is it readable? Spec: K13, K22-K24."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mesh.core.digest import MODULUS, entry_digest
from mesh.errors import ProtocolError, TransportError
from mesh.model.names import fold
from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged, unseen
from mesh.operate.doctor.examination import Examination
from mesh.operate.interest.propagation import unapplied
from mesh.operate.links.gates import is_shut
from mesh.transport.port import Record, TopicPartition, place_of
from mesh.transport.reading import read_logs
from mesh.wire.keys import parse_subscription_key
from mesh.wire.subscriptions import decode_subscription


def check_interest(at: Examination) -> Iterator[Check]:
    """Yield three checks per node: of its interest, its endpoints, and its subscriptions."""
    for node in at.topology.nodes:
        if at.view.is_unreachable(node):
            continue  # reported by the checks of nodes
        seen = at.view.nodes[node]
        faults = list(_unproven(at, node))
        ack = seen.subscribed
        if seen.clients_offset >= 0 and at.beats[node] and not faults:
            if ack is None or ack.epoch != seen.epoch or ack.applied < seen.clients_offset:
                faults.append("its newest subscriptions are not in force yet")
            elif ack.complete < seen.clients_offset:
                still = [one for one in ack.open_links if not at.view.is_to_be_disabled(*one)]
                links = ", ".join(f"{a}->{b}" for a, b in still)
                if still or not ack.open_links:
                    faults.append(f"its newest subscriptions are not acknowledged over {links}")
        yield judged(
            Category.INTEREST,
            f"interest of {node} is proven and known everywhere",
            first_of(faults),
            "wait a moment; if it stays, restart the node at the other end of the open link",
        )
        yield judged(
            Category.INTEREST,
            f"endpoints of {node} differ by more than case",
            first_of(_alike(at, node)),
            "unsubscribe all but one of them: commands and clients take them for one endpoint",
            result=Result.WARNING,
        )
    for kafka in at.kafka:
        yield from _readable(at, kafka)


def _alike(at: Examination, node: str) -> Iterator[str]:
    """Yield names that are one name to clients, and two to the node. Spec: DESIGN 3."""
    names: dict[str, dict[str, None]] = {}
    for endpoint, _ in at.view.nodes[node].subscriptions:
        names.setdefault(fold(endpoint), {})[endpoint] = None
    for alike in names.values():
        if len(alike) > 1:
            yield " and ".join(sorted(alike))


def _unproven(at: Examination, node: str) -> Iterator[str]:
    """Yield scopes whose entries do not match their mark, or whose readers lag. Spec: K23."""
    seen = at.view.nodes[node]
    for scope, mark in sorted(seen.marks.items()):
        offers = seen.offers.get(scope, {})
        digest = sum(entry_digest(filter_, one) for filter_, one in offers.items()) % MODULUS
        if (len(offers), digest) != (mark.count, mark.digest % MODULUS):
            yield f"the entries of scope {scope} do not match its mark"
        for link in at.topology.links_of(node):
            reader = link.other(node)
            if at.view.is_to_be_disabled(node, reader) or is_shut(at.view, node, reader):
                continue
            if at.beats[reader] and scope in unapplied(at.view, link, writer=node):
                yield f"{reader} has not applied scope {scope}"


def _readable(at: Examination, kafka: str) -> Iterator[Check]:
    """Yield whether the clients' records are readable: a node skips those that are not."""
    nodes = {at.topology.names.clients(node): node for node in at.nodes_on(kafka)}
    try:
        refused = _refused(at, kafka, list(nodes))
    except TransportError as fault:
        for node in nodes.values():
            yield unseen(Category.INTEREST, _description(node), fault)
        return
    for topic, node in nodes.items():
        faults = [f"{topic} {where}: {fault}" for where, fault in refused[topic]]
        yield judged(
            Category.INTEREST,
            _description(node),
            first_of(faults),
            "subscribe again by mesh subscribe, and write a tombstone where the refused key stands",
            result=Result.WARNING,
            figures={"refused": len(faults)},
        )


def _description(node: str) -> str:
    return f"subscriptions written at {node} can be read"


def _refused(
    at: Examination, kafka: str, topics: Sequence[str]
) -> Mapping[str, Sequence[tuple[str, str]]]:
    """Return where the newest record of a key is wrong, and why, by topic."""
    there = at.infos(kafka)
    counts = {topic: there[topic].partitions if topic in there else 1 for topic in topics}
    places = [at for topic in topics for at in TopicPartition.all_of(topic, counts[topic])]
    latest: dict[tuple[TopicPartition, bytes], Record] = {}
    for record in read_logs(at.answering(kafka), places, name="clients"):
        latest[place_of(record), record.key() or b""] = record
    found: dict[str, list[tuple[str, str]]] = {topic: [] for topic in topics}
    for (place, key), record in latest.items():
        value, where = record.value(), f"offset {record.offset()}"
        if place.partition:
            heard = latest.get((TopicPartition(place.topic, 0), key))
            if (value is None) != (heard is None or heard.value() is None):
                text = "a subscription" if value is not None else "the end of a subscription"
                why = f"{text}, and nodes read only partition 0"
                found[place.topic].append((f"partition {place.partition} {where}", why))
            continue
        try:
            if value is not None:
                parse_subscription_key(key)
                decode_subscription(value)
        except ProtocolError as fault:
            found[place.topic].append((where, str(fault)))
    return found
