"""A word more in a closed set is an error of the checker, or of a test, until every place has it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CLOSED: Mapping[str, tuple[str, ...]] = {
    "mesh/model/topology.py": ("ZoneKind",),
    "mesh/model/queues.py": ("QueuePolicy",),
    "mesh/model/reasons.py": ("Reason", "DropReason"),
    "mesh/model/words.py": ("LinkWord",),
    "mesh/operate/doctor/checks.py": ("Category",),
    "mesh/cli/render.py": ("Output",),
    "mesh/model/findings.py": ("FindingKind",),
    "mesh/model/control.py": ("StopReason",),
    "mesh/operate/audit/drills.py": ("DrillKind",),
}
"""Where enums stand -> their names."""
UNIONS: Mapping[str, tuple[str, ...]] = {
    "mesh/wire/keys.py": ("NodeKey", "NeighbourKey", "OperatorKey"),
    "mesh/model/facts.py": ("Fact",),
    "mesh/model/inputs.py": ("Input",),
    "mesh/model/effects.py": ("Write", "Effect"),
    "mesh/lab/steps.py": ("Fault",),
    "mesh/model/tree_apps.py": ("AppSaid", "AppTold"),
    "mesh/model/tree_frames.py": ("Body",),
}
"""Where unions of classes stand -> their names."""
BASES: Mapping[str, str] = {"Fact": "(_OfLane)", "Fault": "(_Step)"}
"""What the classes of a union are derived from, where they are."""
BODIES: Mapping[str, str] = {"Fact": 'word: ClassVar[str] = "planted"'}
"""What a class of a union has besides, where others read it as they are imported."""
LITERALS: Mapping[str, str] = {"mesh/lab/steps.py": "FaultName"}
"""Where a choice of words stands -> its name."""
MATCHING = (
    "mesh/model/facts.py",
    "mesh/model/queues.py",
    "mesh/model/reasons.py",
    "mesh/model/topology.py",
    "mesh/model/tree_apps.py",
    "mesh/core/read_positions.py",
    "mesh/trees/applications/machine.py",
    "mesh/trees/clocks.py",
    "mesh/trees/machine.py",
    "mesh/cli/export.py",
    "mesh/cli/message_lines.py",
    "mesh/cli/render.py",
    "mesh/cli/topology_drawings.py",
    "mesh/client/operators.py",
    "mesh/client/roles.py",
    "mesh/lab/faults.py",
    "mesh/lab/queue_accounts.py",
    "mesh/lab/schedule.py",
    "mesh/lab/step_rules.py",
    "mesh/lane/accepted_losses.py",
    "mesh/lane/progress.py",
    "mesh/node/machine.py",
    "mesh/operate/audit/drills.py",
    "mesh/view/lane_reports.py",
    "mesh/view/mesh_view.py",
    "mesh/wire/state.py",
    "mesh/wire/tree_apps.py",
    "mesh/wire/tree_events.py",
    "mesh/worker/control/control_writer.py",
    "mesh/worker/control/listener.py",
    "mesh/worker/control/orders.py",
    "mesh/worker/node_service.py",
    "streaming/audits/hop_progress.py",
    "streaming/job/intake.py",
)
"""Modules that must know each member of one of them."""
PLANTED_CLASS = '''

{decorator}class Planted{union}{base}:
    """One more."""
    {body}


{union} = Planted{union} | '''
TABLES = "tests/unit/model/test_closed.py"
"""The test that compares tables with their enums."""
NO_NEWS = {"PYTEST_ADDOPTS": "", "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the code in which each of these sets has a member more."""
    folder = tmp_path_factory.mktemp("planted")
    for room in ("mesh", "streaming", "schemas"):
        ignored = shutil.ignore_patterns("__pycache__", "page", "images")
        shutil.copytree(ROOT / room, folder / room, ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    for file, enums in CLOSED.items():
        text = (folder / file).read_text()
        for enum in enums:
            found = re.search(rf'class {enum}\(StrEnum\):\n(?:    """.*?"""\n)?', text, re.DOTALL)
            assert found is not None, enum
            member = '\n    PLANTED = "planted"\n'
            text = text[: found.end()] + member + text[found.end() :]
        (folder / file).write_text(text)
    for file, unions in UNIONS.items():
        text = (folder / file).read_text()
        for union in unions:
            base = BASES.get(union, "")
            decorator = "" if base == "(_Step)" else "@dataclass(frozen=True, slots=True)\n"
            body = BODIES.get(union, "")
            planted = PLANTED_CLASS.format(union=union, base=base, decorator=decorator, body=body)
            text, count = re.subn(rf"\n{union} = ", planted, text)
            assert count == 1, union
        (folder / file).write_text(text)
    for file, literal in LITERALS.items():
        text = (folder / file).read_text()
        head = f"\n{literal} = Literal["
        assert head in text, literal
        (folder / file).write_text(text.replace(head, f'{head}"planted", '))
    return folder


def _run(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **NO_NEWS, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_checker_names_who_does_not_know_it(planted: Path) -> None:
    """A worker would die of it, or YAML be printed without a word."""
    said = _run(planted, "mypy", "--cache-dir", str(planted / "cache"), *MATCHING)
    named = {line.partition(":")[0] for line in said.splitlines() if ": error:" in line}
    assert named == set(MATCHING), said
    for enum in ("QueuePolicy", "ZoneKind", "Output", "DropReason", "StopReason", "DrillKind"):
        assert f"{enum}.PLANTED" in said, (enum, said)
    for union in (one for unions in UNIONS.values() for one in unions):
        assert f"Planted{union}" in said, (union, said)


def test_a_test_names_each_table_that_lacks_it(planted: Path) -> None:
    """The keys of a mapping and the words of a file, which the checker cannot see."""
    shutil.copy(ROOT / TABLES, planted)
    said = _run(planted, "pytest", "-q", "-n", "0", "-c", os.devnull, Path(TABLES).name)
    failed = re.findall(r"^FAILED .*::test_every_member_has_its_row\[(.*)\]", said, re.MULTILINE)
    assert failed == [
        "zone kinds of topology files",
        "forwarding rules",
        "sentences of reasons",
        "policies of queues",
        "rules of findings",
        "faults that a storm draws unless it says otherwise",
        "zone kinds that the help of `zone create` names",
        "policies that the help of `subscribe` names",
        "formats that the help of every command names",
        "drills in scenarios",
        "texts of drills",
        "faults of storms",
        "checks of the doctor",
        "categories that the doctor's help names",
        "policies of the audit",
        "policies by what they promise",
        "policies by what they promise, of the audit",
        "keys that the schema of progress lists",
        "readers of facts",
        "facts that audits read, and others",
        "keys of nodes that audits read, and others",
        "keys of links that audits read, and others",
        "states of links that the schema of heartbeats names",
        "formats of the doctor",
    ], said
