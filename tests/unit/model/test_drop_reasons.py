"""All that drops messages is counted by one list, and operators are told what each reason says."""

from __future__ import annotations

import re
from pathlib import Path

from mesh.core.chain import ChainVerdict
from mesh.model.reasons import DropReason
from mesh.model.state import LossReason

RUNBOOKS = Path(__file__).parents[3] / "docs" / "runbooks.md"


def test_what_a_chain_refuses_and_what_is_lost_to_a_target_is_in_the_list() -> None:
    refused = set(ChainVerdict) - {ChainVerdict.ACCEPT, ChainVerdict.PARTIAL}
    assert refused | set(LossReason) - {LossReason.UNREADABLE} <= set(DropReason)


def test_the_runbook_names_each_reason_once() -> None:
    runbook = RUNBOOKS.read_text(encoding="utf-8").partition("## MeshMessagesDropped")[2]
    rows = re.findall(r"^\| (`[^|]+) \|", runbook.partition("\n## ")[0], re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(DropReason)
