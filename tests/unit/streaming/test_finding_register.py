"""Findings: the same fault is one finding, wherever and however often it is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.findings import FindingKind
from streaming.audits import finding_register
from streaming.audits.finding_register import FOUND_AGAIN_S, IDS_MAX, TOLD_MAX, Finding, Register

ONE = Finding(
    kind=FindingKind.DUPLICATE,
    text="twice",
    ids=("t/0/0/4",),
    endpoint="b/s1",
    source="t/0",
    first=4,
    last=4,
    count=1,
    anchor="0",
)


def test_the_id_depends_on_what_is_wrong_and_not_on_how_much():
    assert ONE.id == replace(ONE, ids=("t/0/0/9",), first=9, count=7, text="again").id
    assert ONE.id != replace(ONE, endpoint="c/s1").id
    assert ONE.id != replace(ONE, anchor="1").id
    assert len(ONE.id) == 16


def test_a_known_fault_grows():
    register = Register()
    register.add(ONE)
    register.add(replace(ONE, ids=("t/0/0/2", "t/0/0/4"), first=2, last=4, count=2))
    (finding,) = register.findings.values()
    assert finding.ids == ("t/0/0/4", "t/0/0/2")
    assert (finding.first, finding.last, finding.count) == (2, 4, 2)


def test_ids_are_bounded_and_counts_are_not():
    register = Register()
    for start in (0, 90, 180):
        ids = tuple(f"t/0/0/{offset}" for offset in range(start, start + 90))
        register.add(replace(ONE, ids=ids, count=90))
    (finding,) = register.findings.values()
    assert (len(finding.ids), finding.count) == (IDS_MAX, 270)


def test_what_is_published_is_published_once_and_a_withdrawal_too():
    register = Register()
    register.add(ONE)
    register.add(ONE)
    assert register.take_unpublished() == [(ONE.id, ONE)]
    register.add(ONE)
    assert register.take_unpublished() == []
    register.withdraw(ONE.id)
    register.withdraw("unknown")
    assert register.take_unpublished() == [(ONE.id, None)]


def test_more_records_beside_the_same_fault_are_no_news() -> None:
    register = Register()
    known = Finding(kind=FindingKind.DUPLICATE, text="t", ids=("a",), count=1, evidence=("x/0@1",))
    register.replace(known)
    register.take_unpublished()
    register.replace(replace(known, evidence=("x/0@1-9",)))
    assert register.take_unpublished() == []
    register.replace(replace(known, ids=("a", "b"), count=2, evidence=("x/0@1-9",)))
    assert [one.evidence for _, one in register.take_unpublished() if one] == [("x/0@1-9",)]


def test_a_stranger_makes_no_more_findings_than_are_told_one_by_one() -> None:
    """One says that there are others, once; faults of another kind or place are told as ever."""
    register = Register()
    for number in range(TOLD_MAX + 50):
        register.add(replace(ONE, source=f"t/{number}"))
    *_, more = register.findings.values()
    assert len(register.findings) == TOLD_MAX + 1
    assert more.text == "b/s1 has more than 1000 findings of this kind: no others of it are told"
    assert (more.kind, more.endpoint) == (ONE.kind, ONE.endpoint)
    register.take_unpublished()
    register.add(replace(ONE, source="t/another"))
    assert register.take_unpublished() == []
    elsewhere = replace(ONE, endpoint="c/s1"), replace(ONE, kind=FindingKind.DISORDER)
    for finding in elsewhere:
        register.add(finding)
    assert [one for _, one in register.take_unpublished()] == [*elsewhere]


def test_what_is_taken_back_makes_room_for_others_of_its_kind() -> None:
    register = Register()
    for number in range(TOLD_MAX):
        register.add(replace(ONE, source=f"t/{number}"))
    gone = replace(ONE, source="t/5")
    register.withdraw(gone.id)
    register.withdraw(gone.id)
    register.add(replace(ONE, source="t/new"))
    assert replace(ONE, source="t/new").id in register.findings
    register.add(replace(ONE, source="t/newer"))
    assert replace(ONE, source="t/newer").id not in register.findings
    assert sum(register.groups.values()) == len(register.findings) == TOLD_MAX + 1
    for id_ in list(register.findings):
        register.withdraw(id_)
    assert register.groups == {}


def test_a_new_finding_costs_the_same_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All were counted again for each: of 10,000 that took ten seconds of the processor."""
    looked = []

    def noted(finding: Finding) -> finding_register.Group:
        looked.append(finding)
        return group(finding)

    group = finding_register._group
    monkeypatch.setattr(finding_register, "_group", noted)
    register = Register()
    for number in range(3 * TOLD_MAX):
        register.add(replace(ONE, endpoint=f"b/s{number % 20}", source=f"t/{number}"))
    assert len(register.findings) == 3 * TOLD_MAX
    assert len(looked) == 3 * TOLD_MAX


def test_the_newest_split_is_told_however_often_the_mesh_has_split() -> None:
    """Each has an id of its own; of too many the oldest is forgotten, or an open one was none."""
    register, told = Register(), dict[str, Finding]()

    def tell() -> None:
        for id_, finding in register.take_unpublished():
            told.pop(id_, None)
            if finding is not None:
                told[id_] = finding

    for number in range(1_002):
        cut = f"a-{number % 3}"
        for kind, link in ((FindingKind.HEAL, ""), (FindingKind.SPLIT, cut)):
            register.add(Finding(kind=kind, text="parts", link=link, anchor=f"{number}"))
            tell()
            newest = [*told.values()][-1]
            assert (newest.kind, newest.anchor) == (kind, f"{number}")
    assert told == register.findings
    assert len(told) == 2 * TOLD_MAX
    assert sum(register.groups.values()) == len(register.findings)


def test_what_a_former_run_told_is_taken_back_like_what_this_one_has() -> None:
    """That run left no state. What stood then may have ended; a fault stays till it is none."""
    kinds = {"a": "stale-interest", "b": "split", "c": "missing", ONE.id: "duplicate", "d": "odd"}
    register = Register(former={**kinds, "e": "missing"})
    register.take_back(["e"])  # that run had told it just before it was killed
    assert (register.take_unpublished(), register.count) == ([("e", None)], 5)
    register.add(ONE)
    register.withdraw("c")
    assert register.take_unpublished() == [(ONE.id, ONE), ("c", None)]
    register.let_go(100.0)
    register.let_go(99.0 + FOUND_AGAIN_S)
    assert register.count == 4
    register.rest(5.0)
    for now_s in (5.0, 5.0 + FOUND_AGAIN_S):
        register.let_go(now_s)
    assert register.take_unpublished() == [("a", None), ("b", None)]
    assert (register.former, register.count) == ({"d": "odd"}, 2)
