"""What the auditor says, over time: findings, certificates, the heatmap, and how far all is proven."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.operate.audit.heatmap import Cell, heatmap_of
from mesh.operate.audit.proof import ProofState, proof_of
from mesh.operate.audit.trail import AuditTrail, Said, Summed
from mesh.operate.minutes import MINUTE_MS, MINUTES_KEPT, Minutes
from mesh.transport.following import Follower
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import Record, TopicSpec

SPEC = {"kafka": {"k": None}, "nodes": {"a": {"kafka": "k"}}, "audit": {"kafka": "k"}}
EQUAL = {"source": "mesh.a.in.g[0]", "block": 0, "endpoint": "a/s", "equal": True}
DUPLICATE = {"kind": "duplicate", "endpoint": "a/s", "text": "twice", "id": "d1"}
BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}


class Auditor:
    """Writes as the auditor does, at times of its own."""

    def __init__(self) -> None:
        self.ms = 100 * MINUTE_MS
        self.kafka = MemoryKafka("k", now_ms=lambda: self.ms)
        names = [f"mesh.audit.{one}" for one in ("findings", "certificates", "hours", "status")]
        self.kafka.admin().create(
            [TopicSpec(name=name, partitions=1, settings=BROKER_TIME) for name in names]
        )
        self.trail = AuditTrail(topology_from_mapping(SPEC), self.kafka, lambda: self.ms)
        self._writer = self.kafka.writer("auditor")

    def says(self, table: str, key: str, value: Mapping[str, object] | None) -> None:
        text = None if value is None else json.dumps(value).encode()
        self._writer.produce(f"mesh.audit.{table}", text, key.encode(), 0)
        self._writer.flush()
        self.trail.look(asks_brokers=True)

    def status(self, **more: object) -> None:
        said = {"at_ms": self.ms, "uncertified": 0, "waiting": [], "endpoints": ["a/s"], **more}
        self.says("status", "position", said)

    def row(self, minutes: int = 4, *busy: int) -> list[Cell]:
        """Return the last minutes; `busy` ones, counted back from now, had deliveries."""
        now = self.ms // MINUTE_MS
        heatmap = heatmap_of(
            self.trail, ["a/s"], self.ms, minutes, lambda _name, minute: now - minute in busy
        )
        return list(heatmap.rows["a/s"])


@pytest.fixture
def auditor() -> Auditor:
    return Auditor()


def test_a_minute_without_an_answer_is_never_equal(auditor: Auditor) -> None:
    """Blind before the auditor spoke, equal where it certified, quiet where nothing was owed."""
    auditor.says("certificates", "c", EQUAL)
    auditor.status()
    auditor.ms += MINUTE_MS
    auditor.status()
    assert auditor.row() == [Cell.BLIND, Cell.BLIND, Cell.EQUAL, Cell.QUIET]


def test_the_worst_of_a_minute_is_shown(auditor: Auditor) -> None:
    """A certificate that differs, or a finding, wins over one that is equal."""
    auditor.says("certificates", "c", EQUAL)
    auditor.says("certificates", "d", {**EQUAL, "block": 1, "equal": False})
    assert auditor.row(1) == [Cell.NOT_EQUAL]
    other = Auditor()
    other.says("certificates", "c", EQUAL)
    other.says("findings", "d1", DUPLICATE)
    assert other.row(1) == [Cell.NOT_EQUAL]
    other.says("findings", "d1", None)
    assert other.row(1) == [Cell.EQUAL]


def test_a_range_that_waits_is_shown_since_its_last_certificate(auditor: Auditor) -> None:
    """What is not certified yet is neither quiet nor equal."""
    auditor.says("certificates", "c", EQUAL)
    auditor.ms += 2 * MINUTE_MS
    wait = {"source": "mesh.a.in.g[0]", "block": 0, "endpoint": "a/s", "to": 9, "reason": "r"}
    auditor.status(uncertified=1, waiting=[wait])
    assert auditor.row(3) == [Cell.EQUAL, Cell.WAITING, Cell.WAITING]


def test_deliveries_before_a_certificate_are_certified_and_later_ones_wait(
    auditor: Auditor,
) -> None:
    """Nothing that an endpoint got is told as quiet; equal only once a later certificate says so."""
    for _ in range(3):
        auditor.status()
        auditor.ms += MINUTE_MS
    auditor.status()
    assert auditor.row(3, 2, 1) == [Cell.WAITING, Cell.WAITING, Cell.QUIET]
    auditor.says("certificates", "c", EQUAL)
    assert auditor.row(3, 2, 1) == [Cell.EQUAL, Cell.EQUAL, Cell.EQUAL]
    auditor.ms += MINUTE_MS
    auditor.status()
    assert auditor.row(3, 2, 0) == [Cell.EQUAL, Cell.EQUAL, Cell.WAITING]


def test_minutes_that_a_lagging_auditor_has_not_read_wait(auditor: Auditor) -> None:
    """A certificate that tells its times proves nothing after them, however late it is written.

    What took long on its way is certified once all that was written by then has been read.
    """
    began = auditor.ms
    times = {"first_ms": began, "last_ms": began}
    for _ in range(4):
        auditor.says("certificates", "c", {**EQUAL, **times})
        auditor.status(sources={"k": {"read_ms": began}, "l": {"read_ms": began + MINUTE_MS}})
        auditor.ms += MINUTE_MS
    unread = [Cell.EQUAL, Cell.QUIET, Cell.WAITING, Cell.WAITING]
    assert proof_of(auditor.trail, auditor.ms).until_ms == began
    assert auditor.row(5, 2, 1)[:4] == unread
    read = {"read_ms": began + 3 * MINUTE_MS}
    auditor.status(sources={"k": read, "l": {"read_ms": None}})
    assert auditor.row(5, 2, 1)[:4] == unread
    auditor.status(sources={"k": read, "l": read})
    assert auditor.row(5, 2, 1)[:4] == [Cell.EQUAL, Cell.QUIET, Cell.EQUAL, Cell.WAITING]


def test_a_message_stamped_far_ahead_proves_and_hides_nothing(auditor: Auditor) -> None:
    """Publishers stamp messages, and a clock may be wrong by years."""
    began = auditor.ms
    near, far = ({"first_ms": began, "last_ms": began + ahead} for ahead in (0, 10**12))
    auditor.says("certificates", "c", {**EQUAL, **far})
    for _ in range(3):
        auditor.ms += MINUTE_MS
        auditor.status(sources={"k": {"read_ms": began}})
    assert auditor.row(3, 2, 1, 0) == [Cell.WAITING] * 3
    summed = Summed()
    for times in (near, far, near):
        summed.take(Said(key="c", entry={**EQUAL, **times}, first_ms=began, last_ms=began))
    assert summed.minutes.of(began // MINUTE_MS) == 3


def test_what_waits_for_every_endpoint_makes_none_equal(auditor: Auditor) -> None:
    """`*`: the auditor cannot tell yet whom a block concerns; it is no endpoint of its own."""
    auditor.ms += 2 * MINUTE_MS
    auditor.says("certificates", "c", EQUAL)
    wait = {"source": "mesh.b.in.g[0]", "block": 0, "endpoint": "*", "to": 9, "reason": "news"}
    auditor.status(uncertified=1, waiting=[wait])
    now = auditor.ms
    heatmap = heatmap_of(
        auditor.trail, ["a/s"], now, 3, lambda _name, minute: minute < now // MINUTE_MS
    )
    assert list(heatmap.rows) == ["a/s"]
    assert heatmap.rows["a/s"] == [Cell.WAITING, Cell.WAITING, Cell.WAITING]
    auditor.status()
    assert auditor.row(3, 2, 1) == [Cell.EQUAL, Cell.EQUAL, Cell.EQUAL]


def test_that_others_are_certified_proves_nothing_of_an_endpoint(auditor: Auditor) -> None:
    """The same block of the same source may wait for one endpoint and be certified for others."""
    auditor.says("certificates", "o", {**EQUAL, "endpoint": "a/other"})
    auditor.ms += 2 * MINUTE_MS
    wait = {"source": "mesh.a.in.g[0]", "block": 0, "endpoint": "a/s", "to": 9, "reason": "r"}
    auditor.status(uncertified=1, waiting=[wait], endpoints=["a/other", "a/s"])
    assert Cell.EQUAL not in auditor.row(4, 3, 2, 1, 0)
    assert auditor.row(4, 0)[-1] is Cell.WAITING


def test_a_block_that_waits_does_so_since_the_one_before_it(auditor: Auditor) -> None:
    """What lies in earlier blocks, and what a certificate of the open one names, waits no more."""
    auditor.says("certificates", "o", {**EQUAL, "endpoint": "a/other"})
    auditor.ms += MINUTE_MS
    auditor.says("certificates", "c", {**EQUAL, "source": "mesh.b.in.g[0]"})
    auditor.ms += MINUTE_MS
    wait = {"source": "mesh.a.in.g[0]", "block": 1, "endpoint": "a/s", "to": 9, "reason": "r"}
    auditor.status(uncertified=1, waiting=[wait])
    assert auditor.row(3, 2, 1) == [Cell.EQUAL, Cell.WAITING, Cell.WAITING]


def test_what_waits_without_a_name_makes_nobody_equal(auditor: Auditor) -> None:
    """The auditor spells out so many only."""
    auditor.says("certificates", "c", EQUAL)
    auditor.ms += MINUTE_MS
    auditor.status(uncertified=7, waiting=[])
    assert auditor.row(2, 1, 0) == [Cell.EQUAL, Cell.WAITING]


def test_thousands_of_certificates_are_summed_up(
    auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The heatmap stays as it was; what differs, and what speaks for an open block, is kept."""
    monkeypatch.setattr("mesh.operate.audit.trail.SPARE_MAX", 20)
    auditor.trail._room = dict.fromkeys(auditor.trail._room, 20)
    auditor.says("certificates", "open", {**EQUAL, "partial": True})
    auditor.says("certificates", "bad", {**EQUAL, "block": 1, "equal": False})
    for number in range(100):
        said = {**EQUAL, "endpoint": "a/t", "block": number, "expected": 5, "delivered": 5}
        auditor.says("certificates", f"c{number}", said)
        auditor.says("findings", f"f{number}", DUPLICATE)
        auditor.says("findings", f"f{number}", None)
    auditor.ms += MINUTE_MS
    auditor.status(endpoints=["a/s", "a/t"])
    trail = auditor.trail
    assert len(trail.certificates) <= 25
    assert {"open", "bad", "c99"} <= set(trail.certificates)
    assert len(trail.findings) <= 25
    assert trail.summed["a/t"].certificates + len(trail.certificates) == 102
    trail.certificates.clear()
    heatmap = heatmap_of(trail, ["a/t"], auditor.ms, 2)
    assert heatmap.rows["a/t"] == [Cell.EQUAL, Cell.QUIET]


def test_of_a_moment_when_nobody_heard_the_auditor_nothing_is_proven(auditor: Auditor) -> None:
    """What was certified before and after it does not speak for it."""
    auditor.says("certificates", "c", EQUAL)
    auditor.status()
    heard = auditor.ms
    auditor.ms += 10 * MINUTE_MS
    auditor.status()
    states = [
        proof_of(auditor.trail, auditor.ms, heard + at * MINUTE_MS).state for at in (0, 5, 10)
    ]
    assert states == [ProofState.PROVEN, ProofState.BLIND, ProofState.PROVEN]


def test_nothing_is_equal_while_a_kafka_cluster_was_never_read(auditor: Auditor) -> None:
    """What another source sent to the same endpoint is not known there."""
    auditor.says("certificates", "c", EQUAL)
    auditor.status(sources={"right": {"unread": "nothing of it has been read yet"}})
    assert auditor.row(1) == [Cell.WAITING]
    auditor.status(sources={"right": {"unread": None}})
    assert auditor.row(1) == [Cell.EQUAL]


def test_a_certificate_speaks_for_the_minutes_of_its_records(auditor: Auditor) -> None:
    """Where it tells when its records were written, that counts, and not when it was written."""
    first = auditor.ms - 2 * MINUTE_MS
    auditor.says("certificates", "c", {**EQUAL, "first_ms": first, "last_ms": first + MINUTE_MS})
    assert auditor.row(3) == [Cell.EQUAL, Cell.EQUAL, Cell.QUIET]


def test_how_far_all_is_proven(auditor: Auditor) -> None:
    """None, proven, findings, blind: each is told apart, and the age is no part of the sentence."""
    assert proof_of(auditor.trail, auditor.ms).state is ProofState.NONE
    auditor.says("certificates", "c", EQUAL)
    auditor.status()
    proven = proof_of(auditor.trail, auditor.ms + 2_000)
    assert (proven.state, proven.until_ms) == (ProofState.PROVEN, auditor.ms)
    assert proof_of(auditor.trail, auditor.ms + 3_000).text == proven.text
    auditor.says("findings", "d1", DUPLICATE)
    found = proof_of(auditor.trail, auditor.ms)
    assert (found.state, found.text) == (ProofState.FINDINGS, "1 finding open")
    blind = proof_of(auditor.trail, auditor.ms + 16_000)
    assert blind.state is ProofState.BLIND
    assert "1 finding open" in blind.text


def test_a_finding_that_somebody_removed_is_known_at_the_first_look(auditor: Auditor) -> None:
    """`mesh status` looks once, and `mesh top` asks brokers once."""
    auditor.says("certificates", "c", EQUAL)
    auditor.says("findings", "d1", DUPLICATE)
    auditor.says("findings", "d1", None)
    auditor.status(findings=1)
    topology = topology_from_mapping(SPEC)
    first = AuditTrail(topology, auditor.kafka, lambda: auditor.ms)
    first.look(asks_brokers=True)
    for trail in (first, AuditTrail.read_once(topology, auditor.kafka, lambda: auditor.ms)):
        found = proof_of(trail, auditor.ms)
        assert (found.state, found.text) == (ProofState.FINDINGS, "1 finding removed by somebody")
    first.close()


def test_what_is_known_to_be_removed_is_not_looked_for_at_every_look(
    auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks on for weeks would ask brokers twice as often."""
    polls, poll = [0], Follower.poll
    trail = AuditTrail(topology_from_mapping(SPEC), auditor.kafka, lambda: auditor.ms)

    def counted(follower: Follower) -> Iterator[Record]:
        polls[0] += follower is trail._follower
        return poll(follower)

    monkeypatch.setattr(Follower, "poll", counted)
    auditor.says("findings", "d1", None)
    auditor.status(findings=1)
    for at_all in (2, 3, 4):
        trail.look(asks_brokers=True)
        assert (trail.removed, polls[0]) == (1, at_all)
    auditor.status(findings=2)
    trail.look(asks_brokers=True)
    assert (trail.removed, polls[0]) == (2, 6)
    auditor.status(findings=0)
    trail.look(asks_brokers=True)
    assert (trail.removed, polls[0]) == (0, 7)
    trail.close()


def test_a_finding_that_is_read_later_than_its_count_is_not_lacking(
    auditor: Auditor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Topics are read one after the other while the auditor goes on: two looks must agree."""
    auditor.says("findings", "d1", DUPLICATE)
    auditor.status(findings=1)
    poll, late = Follower.poll, list[Record]()

    def findings_come_late(follower: Follower) -> Iterator[Record]:
        records = list(poll(follower))
        yield from late
        late[:] = [one for one in records if one.topic().endswith("findings")]
        yield from (one for one in records if one not in late)

    monkeypatch.setattr(Follower, "poll", findings_come_late)
    trail = AuditTrail.read_once(topology_from_mapping(SPEC), auditor.kafka, lambda: auditor.ms)
    assert (trail.removed, len(trail.audited().findings)) == (0, 1)


def test_a_report_has_every_certificate(auditor: Auditor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks on for weeks keeps the newest; who reads once is told of all."""
    monkeypatch.setattr("mesh.operate.audit.trail.SPARE_MAX", 2)
    for block in range(9):
        auditor.says("certificates", f"c{block}", {**EQUAL, "block": block, "to": 1})
    trail = AuditTrail.read_once(topology_from_mapping(SPEC), auditor.kafka, lambda: auditor.ms)
    assert len(trail.audited().certificates) == 9


def test_what_differed_within_thirty_days_is_told_as_the_report_tells_it(auditor: Auditor) -> None:
    """Certificates are kept for two days: sums of closed blocks say what stood in older ones."""
    auditor.says("certificates", "c", EQUAL)
    hour = {"source": "mesh.b.in.g[0]", "endpoint": "a/s", "certificates": 2, "differing": 1}
    auditor.says("hours", "h", {**hour, "from_ms": auditor.ms - 1, "to_ms": auditor.ms})
    auditor.status()
    found = proof_of(auditor.trail, auditor.ms)
    assert (found.state, found.text) == (ProofState.FINDINGS, "1 certificate differs")
    assert "certificates of the last 30 days that differ: 1" in found.doubts
    auditor.says("hours", "h", None)
    assert proof_of(auditor.trail, auditor.ms).state is ProofState.PROVEN


def test_nothing_is_proven_further_than_what_waits(auditor: Auditor) -> None:
    """A range that was never certified leaves nothing to say; else its last certificate counts."""
    auditor.says("certificates", "c", EQUAL)
    certified = auditor.ms
    auditor.ms += 5_000
    wait = {"source": "mesh.a.in.g[0]", "block": 0, "endpoint": "a/s", "to": 9, "reason": "r"}
    auditor.status(uncertified=1, waiting=[wait])
    assert proof_of(auditor.trail, auditor.ms).until_ms == certified
    auditor.status(uncertified=1, waiting=[{**wait, "endpoint": "a/other"}])
    unknown = proof_of(auditor.trail, auditor.ms)
    assert (unknown.until_ms, unknown.state) == (None, ProofState.PARTIAL)


def test_findings_of_a_moment_gone_by(auditor: Auditor) -> None:
    """One that was taken back since then was open then; one that came later was not there."""
    before = auditor.ms - 1
    auditor.says("findings", "d1", DUPLICATE)
    during = auditor.ms
    auditor.ms += MINUTE_MS
    auditor.says("findings", "d1", None)
    counts = [len(auditor.trail.audited(at).findings) for at in (before, during, auditor.ms, None)]
    assert counts == [0, 1, 0, 0]


def test_garbage_of_a_stranger_is_passed_over(auditor: Auditor) -> None:
    """Whoever may write there may write anything."""
    for value in (b"\xff", b"[]", b"7", b"{"):
        auditor._writer.produce("mesh.audit.findings", value, b"\xff", 0)
        auditor._writer.produce("mesh.audit.status", value, b"\xff", 0)
    auditor._writer.flush()
    auditor.trail.look(asks_brokers=True)
    assert not auditor.trail.findings
    assert not auditor.trail.status


def test_minutes_keep_a_day() -> None:
    """What is older is neither counted nor mistaken for something newer."""
    minutes = Minutes()
    assert minutes.of(5) == 0
    minutes.add(1000 * MINUTE_MS, 3)
    minutes.add(1000 * MINUTE_MS + 59_999, 4)
    minutes.add((1000 - MINUTES_KEPT) * MINUTE_MS, 9)
    assert [minutes.of(at) for at in (1000 - MINUTES_KEPT, 999, 1000, 1001)] == [0, 0, 7, 0]
    minutes.add((1000 + MINUTES_KEPT) * MINUTE_MS, 1)
    assert list(minutes.between(1000 + MINUTES_KEPT - 1, 1000 + MINUTES_KEPT)) == [0, 1]
    assert minutes.of(1000) == 0
