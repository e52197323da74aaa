"""Records of the auditor are as their JSON Schemas say, and each topic has one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import schemas
from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.canaries import CanaryWay, WayTally
from streaming.audits.finding_register import Finding
from streaming.audits.rules import RULES
from streaming.job.outputs import TABLES, canary_json, status_records
from streaming.job.state import State
from tests.unit.streaming.test_job import state, topology  # noqa: F401  # fixtures
from tests.unit.streaming.written import written

FOLDER = Path(schemas.__file__).parent / "audit"


def validator(table: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / f"{table}.schema.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def test_each_topic_has_a_schema() -> None:
    assert {path.name.partition(".")[0] for path in FOLDER.glob("*.schema.json")} == set(TABLES)


def test_every_kind_of_finding_is_told_with_its_rule(state: State) -> None:  # noqa: F811
    """The lab and the schema know the same kinds as the auditor."""
    told = validator("findings").schema["properties"]["kind"]["enum"]
    assert sorted(told) == sorted(FindingKind) == sorted(RULES)
    for kind in FindingKind:
        state.register.add(Finding(kind=kind, text="t", anchor=kind))
    assert all(rule.text for rule in RULES.values())


def test_what_is_told_of_findings_later_knows_the_same_kinds() -> None:
    told = validator("history").schema["oneOf"][0]["properties"]["kind"]["enum"]
    assert sorted(told) == sorted(FindingKind)


def test_the_page_says_what_each_kind_rests_on() -> None:
    page = (FOLDER.parents[1] / "docs" / "audit.md").read_text(encoding="utf-8")
    table = page.partition("| kind | what | rests on |")[2].partition("\n\n")[0]
    first = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`([a-z-]+)`", " ".join(first))) == sorted(FindingKind)


def test_what_is_written_is_as_its_schema_says(state: State) -> None:  # noqa: F811
    outputs = written(state, TopicNames("mesh."))
    tables = [one.topic.removeprefix("mesh.audit.") for one in outputs]
    assert set(tables) == set(TABLES) - {"status", "canaries"}
    for table, output in zip(tables, outputs, strict=True):
        if output.value is not None:
            validator(table).validate(json.loads(output.value))


@pytest.mark.parametrize("recent_s", [[], [0.25, 0.5]])
def test_what_is_told_of_canaries_is_as_its_schema_says(recent_s: list[float]) -> None:
    text = canary_json(CanaryWay("a", "b"), ("Z",), WayTally(2, 1, 1, recent_s), 1_700_000_000_000)
    validator("canaries").validate(json.loads(text))


@pytest.mark.parametrize("unread", [None, "Timed out"])
def test_the_status_is_as_its_schema_says(state: State, unread: str | None) -> None:  # noqa: F811
    state.certifier.judge(state.world(lambda _: {}), 5.5)
    sources = {"k1": {"batch": 4, "lagging": False, "unread": unread, "read_ms": unread and 5}}
    (status,) = status_records(state, TopicNames("mesh."), 1, sources, is_final=True)
    told = json.loads(status.value or "")
    assert told["waiting"]
    validator("status").validate(told)
