"""What the auditor wrote: findings and certificates, the newest under each key. Spec: K29."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.view.reading import read_range

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Audited:
    """What the auditor has found so far.

    Attributes:
        findings: As in lab.md 2, oldest first.
        certificates: As in lab.md 2, the newest of each range.
        has_topics: Whether an auditor ever wrote here.
    """

    findings: Sequence[Entry]
    certificates: Sequence[Entry]
    has_topics: bool


def read_audit(topology: Topology, kafka: KafkaCluster) -> Audited:
    """Read the auditor's topics to their ends.

    Raises:
        TransportError: The Kafka cluster does not answer.
    """
    names = TopicNames(topology.prefix)
    found = kafka.admin().describe([names.audit("findings"), names.audit("certificates")])
    return Audited(
        findings=_newest(kafka, names.audit("findings")),
        certificates=_newest(kafka, names.audit("certificates")),
        has_topics=bool(found),
    )


def _newest(kafka: KafkaCluster, topic: str) -> Sequence[Entry]:
    info = kafka.admin().describe([topic]).get(topic)
    if info is None:
        return ()
    places = [TopicPartition(topic, partition) for partition in range(info.partitions)]
    ends, starts = kafka.admin().stable_ends(places), kafka.admin().starts(places)
    begins = {place: starts[place] for place in ends if place in starts}
    entries: dict[bytes, Entry] = {}
    for record in read_range(kafka, begins, ends, name="audit"):
        key, value = record.key() or b"", record.value()
        entries.pop(key, None)
        if value is None:
            continue  # taken back: what was missing has come after all
        try:
            entry = json.loads(value)
        except ValueError:
            continue
        if isinstance(entry, dict):
            entries[key] = entry
    return list(entries.values())
