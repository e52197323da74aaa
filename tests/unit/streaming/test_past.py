"""What is said of a past range that was judged, and when it counts as proven."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.block import Certificate
from streaming.audits.comparisons import UncertifiedRange
from streaming.audits.finding_register import Finding, FindingTimes
from streaming.audits.routed_blocks import RoutedBlocks
from streaming.connectors.sink import SinkRecord
from streaming.job.extent import PastRange
from streaming.job.outputs import certificate_json, finding_json
from streaming.job.past import LeapingClock, Past
from streaming.job.past_run import PastReport


def certified(*, equal: bool = True, sure: bool = True) -> SinkRecord:
    one = Certificate("mesh.a.in.g/0", 0, 0, 4, "c/s1", 5, 5, equal, partial=False, sure=sure)
    return SinkRecord("mesh.audit.certificates", one.key, certificate_json(one, 1, "r"))


def found(kind: FindingKind) -> SinkRecord:
    one = Finding(kind=kind, text="this is so")
    return SinkRecord("mesh.audit.findings", "f1", finding_json("f1", one, FindingTimes(1, 1, "r")))


@pytest.fixture
def report() -> PastReport:
    """Of a range that is proven."""
    made = PastReport(TopicNames("mesh."), is_done=True)
    made.take([certified()])
    return made


def test_a_range_is_proven_whose_certificates_are_proofs(report: PastReport) -> None:
    assert report.summary["ok"]
    summary = "1 certificates, 1 of them proofs: 5 of 5 expected deliveries; faults: 0, unproven: 0"
    assert list(report.lines()) == [summary]


def test_what_was_deleted_is_no_fault_and_no_proof_either(report: PastReport) -> None:
    report.take([found(FindingKind.UNPROVEN)])
    told = report.summary
    assert (told["ok"], told["faults"], told["unproven"]) == (False, 0, 1)
    assert list(report.lines())[-1].endswith("faults: 0, unproven: 1")


def test_a_fault_that_is_taken_back_does_not_count(report: PastReport) -> None:
    report.take([found(FindingKind.MISSING)])
    assert not report.summary["ok"]
    report.take([SinkRecord("mesh.audit.findings", "f1", None)])
    assert report.summary["ok"]


@pytest.mark.parametrize("output", [certified(equal=False), certified(sure=False)])
def test_a_certificate_that_is_no_proof_proves_nothing(
    report: PastReport, output: SinkRecord
) -> None:
    report.take([output])
    assert not report.summary["ok"]


def test_what_is_left_out_is_told_and_the_rest_is_no_proof(report: PastReport) -> None:
    report.not_judged = ["mesh.a.in.g/0@0-4095: it is gone"]
    assert "not judged: mesh.a.in.g/0@0-4095: it is gone" in report.lines()
    summary = json.loads(list(report.json_lines())[-1])
    assert (summary["ok"], summary["not_judged"]) == (False, report.not_judged)


def test_what_was_not_judged_to_the_end_is_no_proof(report: PastReport) -> None:
    report.is_done = False
    assert "not judged to the end: nothing more has come for 30 s" in report.lines()
    summary = json.loads(list(report.json_lines())[-1])
    assert (summary["ok"], summary["is_done"]) == (False, False)


def test_what_waits_is_no_proof(report: PastReport) -> None:
    report.waiting = [UncertifiedRange("mesh.a.in.g/0", 1, "c/s1", 4097, "b is behind")]
    assert "not certified: mesh.a.in.g/0 block 1 for c/s1: b is behind" in report.lines()
    assert not report.summary["ok"]


def test_what_nobody_has_thought_of_is_told_as_not_judged(report: PastReport) -> None:
    """A record that no judgement can take ended the command with a traceback."""

    def judge() -> None:
        raise ZeroDivisionError("of record 7")

    kafka_clusters = SimpleNamespace(brokers={}, needed=None)
    auditor = SimpleNamespace(
        judge=judge,
        kafka_clusters=kafka_clusters,
        lagging={},
        state=SimpleNamespace(certifier=SimpleNamespace(waiting=[])),
    )
    extent = PastRange(RoutedBlocks("mesh.", 0, 1))
    past = Past(auditor, {}, extent, LeapingClock(), print)  # type: ignore[arg-type]
    report.conclude(past)
    assert report.not_judged == ["what was read cannot be judged: ZeroDivisionError: of record #"]
    assert not report.summary["ok"]
