"""When `mesh audit report` says ok: only where the auditor runs and has covered all. DESIGN 7."""

from __future__ import annotations

import pytest

from mesh.operate.audit.latest import Audited
from mesh.operate.documents.audit import audit_document

NOW_MS = 1_000_000
STATUS = {"at_ms": NOW_MS - 5_000, "endpoints": ["b/s", "*/q"]}
EQUAL = [{"endpoint": "b/s", "equal": True}, {"endpoint": "*/q", "equal": True}]
SPLIT = {"kind": "split", "text": "parts of the mesh: a | b"}


def doubts(findings=(), certificates=EQUAL, status=STATUS) -> list[str]:
    audited = Audited(list(findings), certificates, has_topics=True, status=status)
    return list(audited.doubts(NOW_MS))


def test_a_running_auditor_that_certifies_all_is_ok_whatever_news_there_are() -> None:
    news = [SPLIT, {"kind": "heal", "text": ""}, {"kind": "unproven"}]
    assert doubts() == doubts(news) == []


@pytest.mark.parametrize("kind", ["unexpected", "corrupt", "missing", "loop", "some-later-kind"])
def test_a_fault_is_not_ok_also_one_that_this_version_does_not_know(kind: str) -> None:
    assert doubts([{"kind": kind}]) == [f"findings: 1 {kind}"]


def test_an_absent_dead_or_blind_auditor_is_not_ok() -> None:
    assert doubts(status={}) == ["no auditor has said anything here"]
    (dead,) = doubts(status={**STATUS, "at_ms": NOW_MS - 16_000})
    assert dead.startswith("the auditor was last heard 16 s ago")
    assert doubts(certificates=EQUAL[:1]) == ["nothing is certified of */q"]
    assert doubts(certificates=[], status={"at_ms": NOW_MS}) == [
        "nothing is certified of any endpoint"
    ]
    assert doubts(status={"at_ms": "soon"})[0].startswith("the auditor was last heard")


def test_an_auditor_that_was_heard_in_the_future_may_be_dead_for_long() -> None:
    """Its clock was ahead, or this one has been put back: its last word would be fresh for hours."""
    late = {**STATUS, "at_ms": NOW_MS + 3_600_000}
    (doubt,) = doubts(status=late)
    assert doubt.startswith("the auditor was last heard 3600 s from now")
    audited = Audited([], EQUAL, has_topics=True, status=late)
    assert not audited.is_heard(NOW_MS)
    assert doubts(status={**STATUS, "at_ms": NOW_MS + 14_000}) == []


def test_an_open_split_and_a_certificate_that_differs_are_not_ok() -> None:
    assert doubts([{"kind": "heal"}, SPLIT]) == [SPLIT["text"]]
    assert doubts(certificates=[*EQUAL, {"endpoint": "b/s"}]) == ["certificates that differ: 1"]


def test_a_certificate_that_cannot_tell_a_loss_from_a_refusal_is_no_proof() -> None:
    """Behind a selector; certificates of before say nothing of it."""
    told = ["certificates that are no proof: 1"]
    assert doubts(certificates=[*EQUAL, {**EQUAL[0], "sure": False}]) == told
    assert doubts(certificates=[*EQUAL, {**EQUAL[0], "sure": True}]) == []
    hours = [{"endpoint": "b/s", "unsure": 1}]
    audited = Audited([], EQUAL, has_topics=True, status=STATUS, hours=hours)
    assert list(audited.doubts(NOW_MS)) == told
    assert audit_document(audited, NOW_MS)["counts"]["unsure"] == 0
    audited = Audited([], [{**EQUAL[0], "sure": False}], has_topics=True, status=STATUS)
    assert audit_document(audited, NOW_MS)["counts"]["unsure"] == 1


def test_what_is_left_of_certificates_are_sums_and_they_count() -> None:
    """An endpoint that has been idle for days is covered, and an old difference is not forgotten."""
    hours = [{"endpoint": one, "differing": 0} for one in ("b/s", "*/q")]
    audited = Audited([], [], has_topics=True, status=STATUS, hours=hours)
    assert list(audited.doubts(NOW_MS)) == []
    worse = [*hours, {"endpoint": "b/s", "differing": 3}]
    audited = Audited([], [], has_topics=True, status=STATUS, hours=worse)
    assert list(audited.doubts(NOW_MS)) == ["certificates of the last 30 days that differ: 3"]


def test_a_heal_that_leaves_parts_split_is_not_ok() -> None:
    heal = {"kind": "heal", "text": "a | b,c", "ids": ["a", "b,c"], "link": "a-b"}
    assert doubts([SPLIT, heal]) == ["a | b,c"]
    apart_by_design = {**heal, "link": None}
    assert doubts([SPLIT, apart_by_design]) == doubts([SPLIT, {**heal, "ids": ["a,b,c"]}]) == []


def at(ms: int, **more: object) -> dict[str, object]:
    return {**more, "first_seen_ms": ms, "last_seen_ms": ms, "at_ms": ms}


def within(from_ms: int | None, to_ms: int | None, *findings: dict[str, object]) -> list[str]:
    certificates = [at(100, **EQUAL[0]), at(500, **EQUAL[1])]
    audited = Audited(list(findings), certificates, has_topics=True, status=STATUS)
    return list(audited.within(from_ms, to_ms).doubts(NOW_MS))


def test_of_a_span_an_endpoint_that_was_idle_is_certified_and_an_open_split_is_found() -> None:
    """What was certified before it holds, and so does what was split before it."""
    split, heal = at(200, **SPLIT), at(400, kind="heal", text="a,b")
    fault = at(100, kind="missing")
    assert within(300, None, fault) == within(600, 700) == within(None, 50) == []
    assert within(300, None, split) == [SPLIT["text"]]
    assert within(300, None, split, heal) == within(None, 150, split) == []
    assert within(300, 350, split, heal) == [SPLIT["text"]]
    never = Audited([], [], has_topics=True, status=STATUS).within(1, None)
    assert list(never.doubts(NOW_MS)) == ["nothing is certified of b/s, */q"]
