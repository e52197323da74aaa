"""Do the mesh's topics exist as they should, and are they kept? Spec: kafka.md 1, K5, K6, R15."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from mesh.errors import TransportError
from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged, unseen
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.kafka import COPIES_MIN, IN_SYNC_MIN
from mesh.operate.interest.propagation import is_subscribed
from mesh.transport.node_topics import made_for_other_lanes
from mesh.transport.port import Copies, TopicInfo, TopicPartition, TopicSpec

AT_LEAST = frozenset({"max.message.bytes", "delete.retention.ms"})
"""Settings that may safely be higher."""

_NO_ID = bytes(16)


def check_topics(at: Examination) -> Iterator[Check]:
    """Yield the checks of every node's topics."""
    for node, declared in at.topology.nodes.items():
        kafka = declared.kafka
        description = f"topics of {node} exist on {kafka} with their settings"
        try:
            faults = dict(_faults(at, node, kafka))
            checks = [_kept(at, node, kafka), _copied(at, node, kafka)]
        except TransportError as fault:
            yield unseen(Category.TOPICS, description, fault)
            continue
        by_hand = next(iter(faults.values()), "")
        hint = f"mesh doctor --fix makes and sets what is safe; else {by_hand}"
        yield judged(Category.TOPICS, description, first_of(faults), hint)
        yield from checks


LOST_PROGRESS = (
    "it is lost where the lanes stood, so none is taken; create it by hand "
    "(kafka-topics.sh --create) if everything still in ingress and outboxes may be delivered again"
)


def is_lost_progress(
    at: Examination, node: str, topic: str, found: Mapping[str, TopicInfo]
) -> bool:
    """Return whether a missing topic is the `progress` of a node that has run before."""
    names = at.topology.names
    return topic == names.progress(node) and names.control(node) in found


def _faults(at: Examination, node: str, kafka: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a node's topics, and what a person can do about it."""
    found, settings = at.infos(kafka), at.settings(kafka)
    if (fault := made_for_other_lanes(at.topology, node, found)) is not None:
        yield fault
    missing = [spec for spec in at.node_topics(node) if spec.name not in found]
    if at.is_before_start:
        # A node creates them itself: what counts is whether it may.
        at.answering(kafka).admin().try_create(missing)
    else:
        for spec in missing:
            is_lost = is_lost_progress(at, node, spec.name, found)
            yield f"{spec.name} does not exist", LOST_PROGRESS if is_lost else f"start {node}"
    for spec in at.endpoint_topics(node):
        # The doctor does not create it: only its node knows where its content must begin.
        if spec.name not in found and is_subscribed(at.view, node):
            hint = f"{node} recreates it with the next message for it; what was in it is lost"
            yield f"{spec.name} does not exist", hint
    for spec in at.topics_of(node):
        info = found.get(spec.name)
        if info is None:
            continue
        if info.topic_id == _NO_ID:
            yield f"{spec.name} has no topic id", "run brokers of 2.8 or newer"
        if info.partitions != spec.partitions:
            yield (
                f"{spec.name} has {info.partitions} partitions instead of {spec.partitions}",
                _recount(at, node, kafka, spec, info.partitions),
            )
        else:
            for key, (is_set, value) in wrong_settings(spec, settings.get(spec.name, {})).items():
                yield (
                    f"{spec.name} has {key}={is_set} instead of {value}",
                    f"{_alter(at, kafka, spec.name)} {key}={value}",
                )


def _recount(at: Examination, node: str, kafka: str, spec: TopicSpec, found: int) -> str:
    """Return what a person can do about a topic with another number of partitions.

    Recreating `progress` would lose the lanes' positions; data topics may always have more.
    """
    if spec.name == at.topology.names.progress(node):
        return "leave it: where its lanes stood is there"
    if found < spec.partitions == at.topology.nodes[node].partitions:
        return (
            f"kafka-topics.sh --bootstrap-server {at.servers(kafka)} --alter "
            f"--topic {spec.name} --partitions {spec.partitions}"
        )
    delete = f"stop {node}, delete the topic once nobody wants its records, start {node}"
    if spec.partitions == 1 and spec.name != at.topology.names.lanes(node):
        return f"leave it, and write to partition 0, which alone is read (kcat -p 0); or {delete}"
    return delete


def _alter(at: Examination, kafka: str, topic: str) -> str:
    """Return the command that changes settings of a topic, except for their values."""
    return (
        f"kafka-configs.sh --bootstrap-server {at.servers(kafka)} --alter --entity-type topics "
        f"--entity-name {topic} --add-config"
    )


def wrong_settings(
    spec: TopicSpec, found: Mapping[str, str]
) -> Mapping[str, tuple[str | None, str]]:
    """Return the present and the right value of each wrong setting, by key."""
    return {
        key: (found.get(key), value)
        for key, value in spec.settings.items()
        if found.get(key) != value and not _is_more(key, found.get(key), value)
    }


def _is_more(key: str, found: str | None, wanted: str) -> bool:
    return key in AT_LEAST and found is not None and int(found) >= int(wanted)


def _kept(at: Examination, node: str, kafka: str) -> Check:
    """Return whether what is accepted survives the loss of a broker. Spec: R15."""
    description = f"topics of {node} survive the loss of a broker"
    brokers = len(at.brokers(kafka))
    if brokers == 1:
        return judged(Category.TOPICS, description, "", "", note="one broker: see kafka")
    wanted = _by_topic(at.copies(kafka), at.topics_of(node))
    settings = at.settings(kafka)
    kinds: dict[str, list[str]] = defaultdict(list)
    for topic, copies in wanted.items():
        fewest = min(one.wanted for one in copies)
        needed = settings.get(topic, {}).get("min.insync.replicas")
        if fewest < COPIES_MIN:
            kinds[f"copies: {fewest} instead of {COPIES_MIN}"].append(topic)
        if needed is not None and int(needed) < IN_SYNC_MIN:
            kinds[f"min.insync.replicas={needed} instead of {IN_SYNC_MIN}"].append(topic)
        elif needed is not None and int(needed) >= fewest:
            kinds[f"min.insync.replicas={needed} of {fewest}: no broker may fail"].append(topic)
        if settings.get(topic, {}).get("unclean.leader.election.enable") == "true":
            kinds["unclean.leader.election.enable=true"].append(topic)
    return judged(
        Category.TOPICS,
        description,
        first_of(_grouped(kinds, len(wanted))),
        f"copies: kafka-reassign-partitions.sh; settings: {_alter(at, kafka, 'TOPIC')} "
        f"min.insync.replicas={IN_SYNC_MIN},unclean.leader.election.enable=false",
    )


def _copied(at: Examination, node: str, kafka: str) -> Check:
    """Return whether all partitions are served, and by all of their brokers."""
    places = {
        place: one
        for spec in at.topics_of(node)
        for place, one in at.copies(kafka).items()
        if place.topic == spec.name
    }
    offline = [place for place, one in places.items() if not one.has_leader]
    behind = [place for place, one in places.items() if one.has_leader and one.in_sync < one.wanted]
    faults = [
        f"{len(some)} of {len(places)} partitions {what} ({some[0]}{', ...' if some[1:] else ''})"
        for some, what in (
            (offline, "have no leader: nobody can read or write them"),
            (behind, "are not on all of their brokers"),
        )
        if some
    ]
    return judged(
        Category.TOPICS,
        f"partitions of {node} are served and copied in full",
        "; ".join(faults),
        "start the brokers that are away, look at their disks and logs: kafka-topics.sh "
        f"--bootstrap-server {at.servers(kafka)} --describe --under-replicated-partitions",
        result=Result.FAILED if offline else Result.WARNING,
        figures={"offline": len(offline), "under_replicated": len(behind)},
    )


def _by_topic(
    copies: Mapping[TopicPartition, Copies], specs: Sequence[TopicSpec]
) -> Mapping[str, Sequence[Copies]]:
    wanted = {spec.name for spec in specs}
    found: dict[str, list[Copies]] = defaultdict(list)
    for place, one in copies.items():
        if place.topic in wanted:
            found[place.topic].append(one)
    return found


def _grouped(kinds: Mapping[str, Sequence[str]], total: int) -> Iterator[str]:
    for kind, topics in kinds.items():
        more = ", ..." if topics[1:] else ""
        yield f"{kind} on {len(topics)} of {total} topics ({topics[0]}{more})"
