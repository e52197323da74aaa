"""Is this mesh well? Grouped checks, each with what to do about it. Spec: ecosystem guide 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mesh.client.overview import UNKNOWN, link_state, read_range
from mesh.client.view import MeshView
from mesh.codec.state import decode_progress
from mesh.core.digest import MODULUS, entry_digest
from mesh.errors import ProtocolError, TransportError
from mesh.model.frames import MessageClass
from mesh.model.state import ProgressKind
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition, TopicSpec

LETTERS_MAX = 1_000
"""Dead letters counted one by one."""


class Result(StrEnum):
    """What a check found."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Category(StrEnum):
    """What checks are about, in the order in which they depend on each other."""

    KAFKA = "kafka"
    TOPICS = "topics"
    NODES = "nodes"
    LINKS = "links"
    INTEREST = "interest"
    DELIVERY = "delivery"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One check.

    Attributes:
        description: What was looked at.
        result: What was found.
        error: What is wrong; empty if nothing is.
        hint: What to do about it; empty if nothing is wrong.
    """

    category: Category
    description: str
    result: Result = Result.OK
    error: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What the checks look at.

    Attributes:
        expected: The topics that every node should have.
        beats: Which nodes beat while we looked.
        pause: Lets time pass, in seconds.
    """

    topology: Topology
    kafka: Mapping[str, KafkaCluster]
    view: MeshView
    beats: Mapping[str, bool]
    expected: Mapping[str, Sequence[TopicSpec]]
    pause: Callable[[float], None]


def examine(at: Examination, categories: Sequence[Category]) -> Iterator[Check]:
    """Yield the checks of some categories."""
    checks = {
        Category.KAFKA: _kafka,
        Category.TOPICS: _topics,
        Category.NODES: _nodes,
        Category.LINKS: _links,
        Category.INTEREST: _interest,
        Category.DELIVERY: _delivery,
    }
    for category in Category:
        if category in categories:
            yield from checks[category](at)


def _check(category: Category, description: str, error: str, hint: str) -> Check:
    if not error:
        return Check(category=category, description=description)
    return Check(
        category=category, description=description, result=Result.FAILED, error=error, hint=hint
    )


def _kafka(at: Examination) -> Iterator[Check]:
    seen: dict[str, str] = {}
    for name, kafka in at.kafka.items():
        error = hint = ""
        try:
            identity = kafka.admin().cluster_id()
        except TransportError as fault:
            error, hint = str(fault), "start it, or correct its address"
        else:
            other = seen.setdefault(identity, name)
            if other != name:
                error = f"is the same Kafka cluster as {other} ({identity})"
                hint = "give each name its own Kafka cluster, or use one name for both"
        yield _check(Category.KAFKA, f"Kafka cluster {name} answers and is its own", error, hint)


def _topics(at: Examination) -> Iterator[Check]:
    for node, specs in at.expected.items():
        name = at.topology.nodes[node].kafka
        try:
            faults = list(_topic_faults(at.kafka[name], specs))
        except TransportError as fault:
            faults = [str(fault)]
        shown = "; ".join(faults[:3]) + (f"; and {len(faults) - 3} more" if faults[3:] else "")
        yield _check(
            Category.TOPICS,
            f"topics of {node} exist on {name} with their settings",
            shown,
            f"start {node}, which makes missing ones; change settings by kafka-configs",
        )


def _topic_faults(kafka: KafkaCluster, specs: Sequence[TopicSpec]) -> Iterator[str]:
    names = [spec.name for spec in specs]
    found = kafka.admin().describe(names)
    settings = kafka.admin().settings(names)
    for spec in specs:
        if spec.name not in found:
            yield f"{spec.name} does not exist"
        elif found[spec.name].partitions != spec.partitions:
            yield (
                f"{spec.name} has {found[spec.name].partitions} partitions "
                f"instead of {spec.partitions}"
            )
        else:
            for key, value in spec.settings.items():
                is_set = settings.get(spec.name, {}).get(key)
                if is_set != value and not _is_more(key, is_set, value):
                    yield f"{spec.name} has {key}={is_set} instead of {value}"


def _is_more(key: str, found: str | None, wanted: str) -> bool:
    """Say whether a topic allows larger messages than it must, which harms nobody."""
    return key == "max.message.bytes" and found is not None and int(found) >= int(wanted)


def _nodes(at: Examination) -> Iterator[Check]:
    for node in at.topology.nodes:
        seen = at.view.nodes[node]
        error = hint = ""
        if at.view.is_unreachable(node):
            error, hint = "its Kafka cluster does not answer", "see the checks of kafka"
        elif seen.identity is None:
            error, hint = "never ran", f"start it: mesh node run {node}"
        elif not at.beats[node]:
            error, hint = "does not beat", f"start it, or look at its log: mesh node run {node}"
        elif not seen.is_ready:
            error = "beats but does not serve yet"
            hint = "it waits until the interest of all neighbours is proven; look at the links"
        yield _check(Category.NODES, f"node {node} serves", error, hint)


def _links(at: Examination) -> Iterator[Check]:
    for link in at.topology.links:
        faults = []
        for node in link.ends:
            other = link.other(node)
            state = link_state(at.view.nodes[node], other) if at.beats[node] else UNKNOWN
            if state != "up":
                faults.append(f"{node} sees it {state}")
        yield _check(
            Category.LINKS,
            f"link {link} is up at both ends",
            ", ".join(faults),
            "each end must reach the other's Kafka cluster; see the checks of nodes",
        )


def _interest(at: Examination) -> Iterator[Check]:
    for node in at.topology.nodes:
        seen = at.view.nodes[node]
        faults = list(_unproven(at, node))
        ack = seen.subscribed
        if seen.clients_offset >= 0 and at.beats[node] and not faults:
            if ack is None or ack.epoch != seen.epoch or ack.applied < seen.clients_offset:
                faults.append("its newest subscriptions are not in force yet")
            elif ack.complete < seen.clients_offset:
                links = ", ".join(f"{a}->{b}" for a, b in ack.open_links)
                faults.append(f"its newest subscriptions are not acknowledged over {links}")
        yield _check(
            Category.INTEREST,
            f"interest of {node} is proven and known everywhere",
            "; ".join(faults[:3]),
            "wait a moment; if it stays, restart the node at the other end of the open link",
        )


def _unproven(at: Examination, node: str) -> Iterator[str]:
    """Yield scopes whose entries do not give their mark, or whose readers lag. Spec: K23."""
    seen = at.view.nodes[node]
    for scope, mark in sorted(seen.marks.items()):
        offers = seen.offers.get(scope, {})
        digest = sum(entry_digest(filter_, wish) for filter_, wish in offers.items()) % MODULUS
        if (len(offers), digest) != (mark.count, mark.digest % MODULUS):
            yield f"the entries of scope {scope} do not give its mark"
        for link in at.topology.links_of(node):
            reader = link.other(node)
            if scope.zone != link.zone or scope.neighbour not in ("", reader):
                continue
            ack = at.view.nodes[reader].acks.get((node, scope))
            if at.beats[reader] and (
                ack is None or (ack.epoch, ack.applied) < (mark.epoch, mark.number)
            ):
                yield f"{reader} has not applied scope {scope}"


def _delivery(at: Examination) -> Iterator[Check]:
    names = TopicNames(at.topology.prefix)
    for node in at.topology.nodes:
        kafka = at.kafka[at.topology.nodes[node].kafka]
        description = f"what clients published at {node} is read"
        hint = "look at the node's log; records that cannot be read stop nobody else's"
        try:
            yield _check(Category.DELIVERY, description, _stalled(at, names, kafka, node), hint)
            yield _letters(at, names, kafka, node)
        except TransportError as fault:
            yield _check(Category.DELIVERY, description, str(fault), "see the checks of kafka")


def _stalled(at: Examination, names: TopicNames, kafka: KafkaCluster, node: str) -> str:
    """Return what lags without moving; empty if nothing does."""
    before = _ingress_lag(at, names, kafka, node)
    if not sum(before.values()):
        return ""
    at.pause(2.0)
    after = _ingress_lag(at, names, kafka, node)
    stuck = [place for place, count in before.items() if count and after.get(place, 0) >= count]
    if not stuck:
        return ""
    count = sum(after[place] for place in stuck)
    return f"{count} records wait on {', '.join(f'{p.topic}[{p.partition}]' for p in stuck[:3])}"


def _ingress_lag(
    at: Examination, names: TopicNames, kafka: KafkaCluster, node: str
) -> Mapping[TopicPartition, int]:
    """Return the records of each ingress partition that the node has not passed."""
    declared = at.topology.nodes[node]
    places = [
        TopicPartition(names.ingress(node, message_class), partition)
        for message_class in MessageClass
        for partition in range(declared.partitions)
    ]
    positions = read_positions(kafka, names.progress(node), 2 * declared.lanes)
    ends, starts = kafka.admin().stable_ends(places), kafka.admin().starts(places)
    return {
        place: max(0, end - max(positions.get(place, 0), starts.get(place, 0)))
        for place, end in ends.items()
    }


def read_positions(
    kafka: KafkaCluster, topic: str, partitions: int
) -> Mapping[TopicPartition, int]:
    """Return the next offset of every source, as a node's progress topic says. Spec: K12."""
    places = [TopicPartition(topic, number) for number in range(partitions)]
    ends = kafka.admin().stable_ends(places)
    starts = kafka.admin().starts(places)
    found: dict[TopicPartition, int] = {}
    begins = {place: starts[place] for place in ends if place in starts}
    for record in read_range(kafka, begins, ends, name="progress"):
        value = record.value()
        try:
            progress = decode_progress(value) if value is not None else None
        except ProtocolError:
            continue
        if progress is not None and progress.kind is ProgressKind.SOURCE:
            found[TopicPartition(progress.topic, progress.partition)] = progress.offset
    return found


def _letters(at: Examination, names: TopicNames, kafka: KafkaCluster, node: str) -> Check:
    topic = names.dead_letters(node)
    lanes = at.topology.nodes[node].lanes
    places = [TopicPartition(topic, number) for number in range(2 * lanes)]
    ends, starts = kafka.admin().stable_ends(places), kafka.admin().starts(places)
    begins = {
        place: max(starts[place], end - LETTERS_MAX)
        for place, end in ends.items()
        if place in starts and end > starts[place]
    }
    count = sum(1 for _ in read_range(kafka, begins, ends, name="letters"))
    description = f"nothing published at {node} was refused"
    if not count:
        return Check(category=Category.DELIVERY, description=description)
    return Check(
        category=Category.DELIVERY,
        description=description,
        result=Result.WARNING,
        error=f"{count} dead letters in {topic}",
        hint="each has its reason in its headers; correct the publisher",
    )
