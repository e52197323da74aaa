"""What the auditor wrote: findings and certificates, the newest under each key. Spec: K29."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.transport.reading import read_range

Entry = Mapping[str, Any]


FRESH_S = 15.0
"""An auditor that has said nothing for so long does not count, in seconds: it speaks every 5."""

NEWS = ("split", "heal", "unproven")
"""Findings that are no faults of the mesh."""


@dataclass(frozen=True, slots=True)
class Audited:
    """What the auditor has found so far.

    Attributes:
        findings: As in lab.md 2, oldest first.
        certificates: As in lab.md 2, the newest of each range.
        has_topics: Whether an auditor ever wrote here.
        status: How far the auditor is, in its own words; empty if it has said nothing.
    """

    findings: Sequence[Entry]
    certificates: Sequence[Entry]
    has_topics: bool
    status: Entry = field(default_factory=dict)

    def doubts(self, wall_ms: int) -> Sequence[str]:
        """Return why the mesh is not proven well, one line each; nothing if it is.

        Args:
            wall_ms: Now, in milliseconds since 1970.
        """
        if not self.status:
            return ["no auditor has said anything here"]
        told: list[str] = []
        age_s = (wall_ms - _number(self.status.get("at_ms"))) / 1000
        if age_s > FRESH_S:
            told.append(f"the auditor was last heard {age_s:.0f} s ago: it does not run, or hangs")
        kinds = Counter(str(one.get("kind")) for one in self.findings)
        told += [f"findings: {kinds[kind]} {kind}" for kind in sorted(kinds) if kind not in NEWS]
        parts = [one for one in self.findings if one.get("kind") in ("split", "heal")]
        if parts and parts[-1].get("kind") == "split":
            told.append(str(parts[-1].get("text")))
        unequal = sum(not one.get("equal") for one in self.certificates)
        if unequal:
            told.append(f"certificates that differ: {unequal}")
        certified = {str(one.get("endpoint")): None for one in self.certificates}
        endpoints = self.status.get("endpoints", [])
        uncovered = [one for one in endpoints if one not in certified]
        if uncovered or not certified:
            told.append(f"nothing is certified of {', '.join(uncovered) or 'any endpoint'}")
        return told


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


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
        status=next(iter(_newest(kafka, names.audit("status"))), {}),
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
