"""`mesh audit run --from --to`: judge a past range, print what is found, and end.

Nothing is written to the mesh's topics, so the live auditor may run meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.comparisons import UncertifiedRange
from streaming.audits.routed_blocks import RoutedBlocks
from streaming.config import AuditSettings
from streaming.connectors.logs import Logs
from streaming.connectors.sink import SinkRecord
from streaming.job.auditor import Auditor
from streaming.job.extent import PastRange
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.past import HOP_STILL_S, LeapingClock, Past
from streaming.job.rereads import Rereader
from streaming.job.run import options_of, say, session_of
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from streaming.tables.rows import TopicPartition

Entry = Mapping[str, Any]


@dataclass(slots=True)
class PastReport:
    """What was found about a past range.

    Attributes:
        names: Of the topics that the auditor means to write.
        findings: By id.
        certificates: By key.
        waiting: What could not be certified.
        not_judged: What of the range was left out, for people.
        is_done: Whether nothing of what was read is left open.
    """

    names: TopicNames
    findings: dict[str, Entry] = field(default_factory=dict)
    certificates: dict[str, Entry] = field(default_factory=dict)
    waiting: Sequence[UncertifiedRange] = ()
    not_judged: Sequence[str] = ()
    is_done: bool = False

    def conclude(self, past: Past) -> None:
        """Have a range judged that tells this account what it finds, and take what is left.

        Raises:
            MeshError: A Kafka cluster is not known, or does not answer.
        """
        self.is_done = past.judge()
        self.waiting = list(past.auditor.state.certifier.waiting)
        self.not_judged = past.not_judged

    def take(self, outputs: Sequence[SinkRecord]) -> None:
        """Take what the auditor would write; figures of links and the status are those of now."""
        tables = {
            self.names.audit("findings"): self.findings,
            self.names.audit("certificates"): self.certificates,
        }
        for output in outputs:
            table = tables.get(output.topic)
            if table is None:
                continue
            if output.value is None:
                table.pop(output.key, None)
            else:
                table[output.key] = json.loads(output.value)

    @property
    def summary(self) -> Entry:
        """All of it in figures; `ok`: all is judged, each certificate a proof, nothing found."""
        certificates = list(self.certificates.values())
        faults = sum(not one["is_news"] for one in self.findings.values())
        unproven = sum(one["kind"] == FindingKind.UNPROVEN for one in self.findings.values())
        proofs = sum(one["equal"] and one["sure"] for one in certificates)
        is_all = self.is_done and not (unproven or self.waiting or self.not_judged)
        return {
            "ok": is_all and 0 < proofs == len(certificates) and not faults,
            "certificates": len(certificates),
            "equal": sum(one["equal"] for one in certificates),
            "proofs": proofs,
            "expected": sum(one["expected"] for one in certificates),
            "delivered": sum(one["delivered"] for one in certificates),
            "faults": faults,
            "unproven": unproven,
            "waiting": len(self.waiting),
            "is_done": self.is_done,
            "not_judged": list(self.not_judged),
        }

    def lines(self) -> Iterator[str]:
        """Yield all of it for people: what differs, what waits, and the summary."""
        for one in self.findings.values():
            yield f"{one['kind']} {one['id']}: {one['text']}"
            yield from (f"  {record}" for record in one["evidence"])
            yield f"  {one['what_to_do']}"
        for one in self.certificates.values():
            if not one["equal"] or not one["sure"]:
                verdict = "no proof" if one["equal"] else "differs"
                span = f"{one['source']} {one['from']}..{one['to']}"
                counts = f"{one['delivered']} of {one['expected']}"
                yield f"{one['endpoint']}: {span}, {counts}, {verdict}"
        for wait in self.waiting:
            where = f"{wait.source} block {wait.block}"
            yield f"not certified: {where} for {wait.endpoint}: {wait.reason}"
        yield from (f"not judged: {text}" for text in self.not_judged)
        if not self.is_done:
            yield f"not judged to the end: nothing more has come for {HOP_STILL_S:.0f} s"
        told = self.summary
        yield (
            f"{told['certificates']} certificates, {told['proofs']} of them proofs: "
            f"{told['delivered']} of {told['expected']} expected deliveries; "
            f"faults: {told['faults']}, unproven: {told['unproven']}"
        )
        if not self.certificates:
            yield "nothing of that time is certified"

    def json_lines(self) -> Iterator[str]:
        """Yield all of it for programs: findings, certificates, what waits, the summary."""
        waits = ({"waits": one.key, "reason": one.reason} for one in self.waiting)
        for entry in (*self.findings.values(), *self.certificates.values(), *waits, self.summary):
            yield json.dumps(entry, ensure_ascii=False)


@dataclass(slots=True)
class NoSnapshots(Snapshots):
    """Keeps nothing: a past range is judged in one go."""

    def save(self, batch: int, state: State) -> None:
        """Keep nothing."""

    def note_told(self, ids: Iterable[str]) -> None:
        """Keep nothing."""

    def load(self) -> None:
        """Return that there is nothing."""


def past_of(
    settings: AuditSettings,
    extent: PastRange,
    clock: LeapingClock,
    rereader: Rereader,
    write: Callable[[Sequence[SinkRecord]], None],
) -> Past:
    """Return what judges a past range.

    Args:
        settings: Of the auditor.
        extent: The range, which the Kafka clusters of the rereader have too.
        clock: The auditor's, and theirs.
        rereader: Reads.
        write: Takes what is found.
    """
    reached: dict[str, dict[TopicPartition, int]] = {}
    auditor = Auditor(
        topology=settings.topology,
        rereader=rereader,
        kafka_clusters=rereader.kafka_clusters,
        snapshots=NoSnapshots(settings.checkpoint),
        write=write,
        positions=lambda kafka, _: reached[kafka],
        tasks=settings.cores,
        offsets_max=settings.offsets_max,
        clock=clock.now_s,
        extent=extent,
    )
    return Past(auditor, reached, extent, clock, say)


def judge_past(settings: AuditSettings, span: tuple[int, int]) -> bool:
    """Judge a past range, print what is found, and say whether all of it is proven.

    Raises:
        ConfigError: An option of a Kafka cluster has no counterpart in Kafka's Java client.
        MeshError: Spark does not start, or a Kafka cluster does not answer.
    """
    topology = settings.topology
    used = {node.kafka: None for node in topology.nodes.values()}
    kafka = options_of(settings, [name for name in settings.kafka if name in used])
    session = session_of(settings)
    report = PastReport(TopicNames(topology.prefix))
    try:
        logs = {name: Logs(session, options) for name, options in kafka.items()}
        clock, extent = LeapingClock(), PastRange(RoutedBlocks(topology.prefix, *span))
        kafka_clusters = AuditedKafkaClusters(
            topology.prefix, dict(logs), clock=clock.now_s, extent=extent
        )
        rereader = Rereader(session, topology, kafka_clusters, kafka)
        past = past_of(settings, extent, clock, rereader, report.take)
        report.conclude(past)
    finally:
        session.stop()
    for line in report.json_lines() if settings.as_json else report.lines():
        print(line, flush=True)  # noqa: T201
    return bool(report.summary["ok"])
