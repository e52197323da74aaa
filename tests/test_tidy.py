"""The numbers of the style guide, held by a test. They may only improve."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import spec_map
from tests.clauses import ARGUED
from tests.sections import SECTIONS

ROOT = Path(__file__).parents[1]
BODY_LINES_MAX = 60
DESCRIBED_LINES = 21
"""From so long a body on nobody sees at a glance what a public function does with its arguments."""
UNDESCRIBED_MAX = 17
"""Of these functions; lower it with each that is described."""
MODULE_LINES = 300
"""Of nine modules in ten; none is cut to a number."""
CODE = ("mesh", "streaming", "schemas")
PURE = ("model", "core", "trees", "node", "lane")
RULES = {"EMS": 16, "UM": 10, "DMR": 13}
USERS_FILES = ("mesh.yaml", "new.yaml", "old.yaml")
ROOMS = ("browser", "component/cli", "component/client", "component/lab", "component/local")
ROOMS += ("component/operate", "component/view", "unit/client", "unit/config", "unit/core")
ROOMS += ("unit/model", "unit/node", "unit/operate")
"""Of tests, in which none takes anything of another."""
Function = ast.FunctionDef | ast.AsyncFunctionDef
FORBIDDEN_FOLDERS = ("utils", "common", "helpers", "base")


def code_files() -> Iterator[Path]:
    for package in CODE:
        yield from sorted((ROOT / package).rglob("*.py"))


def test_function_bodies_are_short() -> None:
    """Spec: style.md 0."""
    long: dict[str, int] = {}
    for path in code_files():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                lines = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
                if lines > BODY_LINES_MAX:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    assert long == {}


def public_functions(node: ast.AST) -> Iterator[Function]:
    """Yield the functions of a module, and methods of its classes, that others may call."""
    for one in ast.iter_child_nodes(node):
        if not isinstance(one, Function | ast.ClassDef) or one.name.startswith("_"):
            continue
        if isinstance(one, ast.ClassDef):
            yield from public_functions(one)
        else:
            yield one


def undescribed(function: Function) -> bool:
    """Return whether a long function does not say what several arguments stand for."""
    docs = ast.get_docstring(function) or ""
    body = function.body[1:] if docs else function.body
    lines = (function.end_lineno or 0) - body[0].lineno + 1 if body else 0
    given = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    several = len([one for one in given if one.arg not in ("self", "cls")]) > 1
    return lines >= DESCRIBED_LINES and (not docs or (several and "Args:" not in docs))


def test_long_functions_say_what_their_arguments_stand_for() -> None:
    """Spec: style.md 2.4. Commands apart, whose options are described where they are declared."""
    found = [
        f"{path.relative_to(ROOT)}:{one.name}"
        for path in code_files()
        if ROOT / "mesh" / "cli" not in path.parents
        for one in public_functions(ast.parse(path.read_text(encoding="utf-8")))
        if undescribed(one)
    ]
    assert len(found) <= UNDESCRIBED_MAX, found


def test_nine_modules_in_ten_are_short() -> None:
    """Spec: style.md 0. A long one may have two ideas; where it has one, another has two."""
    lines = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8").count("\n")
        for path in code_files()
        if path.stat().st_size and not str(path.relative_to(ROOT)).startswith("schemas")
    }
    long = {path: count for path, count in lines.items() if count > MODULE_LINES}
    assert len(long) <= len(lines) // 10, long


def test_no_room_without_a_name() -> None:
    """Spec: style.md 2.1."""
    folders = {
        path.name for package in CODE for path in (ROOT / package).rglob("*") if path.is_dir()
    }
    stems = {path.stem for path in code_files()}
    assert not (folders | stems) & set(FORBIDDEN_FOLDERS)


def test_no_test_takes_from_another() -> None:
    """What several need has a name of its own, which says what it is."""
    taken = re.compile(r"^(?:from|import) tests[.\w]*\.test_\w+", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT)): taken.findall(path.read_text(encoding="utf-8"))
        for room in ROOMS
        for path in (ROOT / "tests" / room).rglob("*.py")
    }
    assert {path: names for path, names in found.items() if names} == {}


def test_unit_tests_wait_for_nothing() -> None:
    """They are what is run after each change: who waits, or starts something, is a component."""
    waits = re.compile(r"\btime\.sleep\(|\bsubprocess\.|\bThread\(|\bmock_cluster\b")
    unit = (ROOT / "tests" / "unit").rglob("*.py")
    assert [path.name for path in unit if waits.search(path.read_text(encoding="utf-8"))] == []


def test_nothing_is_left_for_later() -> None:
    """No marks of unfinished work in the code."""
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b|pragma: no cover")
    assert [str(p.relative_to(ROOT)) for p in code_files() if marks.search(p.read_text())] == []


def test_decisions_hide_no_import() -> None:
    """Spec: style.md 2.4: an import for types alone may point upwards, and no contract sees it."""
    pure = [path for room in PURE for path in sorted((ROOT / "mesh" / room).rglob("*.py"))]
    assert [str(path) for path in pure if "TYPE_CHECKING" in path.read_text()] == []


def test_one_module_reads_the_wall_clock() -> None:
    """Spec: DESIGN 4.3: order never comes from wall clocks."""
    users = [
        str(path.relative_to(ROOT))
        for path in code_files()
        if re.search(r"\btime\.time\(|datetime\.now\(|datetime\.utcnow\(", path.read_text())
        and not str(path.relative_to(ROOT)).startswith(("streaming", "mesh/lab/demo"))
    ]
    assert users == []


@pytest.mark.parametrize("path", ["README.md", "Makefile", ".ci/run"])
def test_every_named_command_is_there(path: str) -> None:
    """What the README tells to type exists in the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make ([a-z]+)", (ROOT / path).read_text()):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_no_registry_host_and_no_machine_path() -> None:
    """The repository speaks of itself alone."""
    hosts = re.compile(r"repo1?\.maven|pypi\.org|registry\.npmjs|proxy\.golang|deb\.debian\.org")
    paths = re.compile(r"(?<![\w.])/(?:work|farm|root)/")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    found = []
    for name in listed:
        file = ROOT / name
        if name == "tests/test_tidy.py" or not file.is_file() or file.stat().st_size > 400_000:
            continue
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        if hosts.search(text) or paths.search(text):
            found.append(name)
    assert found == []


def test_the_map_from_clauses_to_tests_is_up_to_date() -> None:
    """Spec: style.md 2.5."""
    assert spec_map.PAGE.read_text() == spec_map.page(), "run: python -m tests.spec_map"
    untested = set(spec_map.CLAUSES) - set(spec_map.tests_by_clause())
    assert untested == set(ARGUED)
    decisions = ROOT / "docs" / "adr"
    for clause, decision in ARGUED.items():
        assert clause in (decisions / decision).read_text(), (clause, decision)


def test_the_map_says_of_each_clause_what_it_demands() -> None:
    """Who reads it has nothing else to look a clause up in."""
    named = {*spec_map.CLAUSES, *spec_map.tests_by_clause(), *spec_map.modules_by_clause()}
    assert named - set(spec_map.demands()) == set()
    assert set(spec_map.demands()) - named == set(), "nobody names these"


def test_the_map_says_of_each_section_what_it_says() -> None:
    """The documents themselves are not in the repository."""
    assert set(spec_map.files_by_section()) == set(SECTIONS)
    bare = re.compile(r"Spec: \d")
    files = [path for package in ("mesh", "streaming") for path in (ROOT / package).rglob("*.py")]
    assert [path.name for path in files if bare.search(path.read_text(encoding="utf-8"))] == []


NAMED_FILE = re.compile(r"`((?:[\w.-]+/)*[\w-]+\.(?:py|yaml|md))`|\]\(([\w./-]+)\)")


@pytest.mark.parametrize(
    "page",
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/adr/*.md"),
        *ROOT.glob("*/*.md"),
    ],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_every_file_that_a_page_names_is_there(page: Path) -> None:
    """A name without a folder may stand anywhere; a path begins at the root, or in `mesh`."""
    if page == spec_map.PAGE:
        return  # made of what is there
    known = {
        path.name for room in (*CODE, "tests", "examples") for path in (ROOT / room).rglob("*")
    }
    missing = [
        name
        for found in NAMED_FILE.findall(page.read_text())
        if (name := found[0] or found[1])
        and not any((folder / name).exists() for folder in (page.parent, ROOT, ROOT / "mesh"))
        and not ("/" not in name and found[0] and (name in known or name in USERS_FILES))
    ]
    assert missing == []


def test_the_examples_show_each_rule_of_the_source_systems() -> None:
    """The table of examples names each rule, scenarios that say so themselves, and tests."""
    shown: dict[str, list[str]] = {}
    for line in (ROOT / "examples/README.md").read_text().splitlines():
        if row := re.match(r"\| ((?:EMS|UM|DMR)-\d+) \|.*\| (.+) \|$", line):
            shown[row[1]] = re.findall(r"`([^`]+)`", row[2])
    rules = {f"{name}-{n + 1}" for name, most in RULES.items() for n in range(most)}
    assert set(shown) == rules
    for rule, names in shown.items():
        for name in names:
            path = ROOT / (name if "/" in name else f"examples/scenarios/{name}.yaml")
            assert rule in spec_names(path.read_text()), f"{name} does not name {rule}"


def spec_names(text: str) -> set[str]:
    """Return the rules that a text names; `EMS-1..4` are four."""
    found: set[str] = set()
    for kind, first, last in re.findall(r"\b(EMS|UM|DMR)-(\d+)(?:\.\.(\d+))?", text):
        found |= {f"{kind}-{n}" for n in range(int(first), int(last or first) + 1)}
    return found
