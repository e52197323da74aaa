"""What each clause demands, and which tests and modules speak of it: docs/spec-map.md.

`python -m tests.spec_map` writes the page: sentences of `tests/clauses.py`, `tests/sections.py` and
of the table of examples, and every `Spec: K11, K18.` and the like of docstrings and comments.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.clauses import ARGUED, TOLD
from tests.sections import SECTIONS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "spec-map.md"
EXAMPLES = ROOT / "examples" / "README.md"

CLAUSES = (
    *(f"K{number}" for number in range(1, 33)),
    *(f"EMS-{number}" for number in range(17)),
    *(f"UM-{number}" for number in range(1, 11)),
    *(f"DMR-{number}" for number in range(1, 14)),
    *(f"K-{number}" for number in range(1, 13)),
    *(f"PAT-{number}" for number in range(1, 13)),
    *(f"R{number}" for number in range(1, 20)),
    *(f"H{number}" for number in range(1, 22)),
    *(f"I{number}" for number in range(1, 11)),
    *(f"Q{number}" for number in range(1, 13)),
)
"""The numbered rules of all documents: each has a test, or a decision says why it has none."""

HOW_MADE = (
    "Made by `python -m tests.spec_map` from the `Spec:` lines of the code; do not edit. `K` are "
    "rules of the wire and of the protocols between nodes, `R` of reliability, `K-` of what Kafka "
    "itself does; `EMS`, `UM`, `DMR` and `PAT` are of the systems whose routing the mesh follows: "
    "TIBCO EMS, Universal Messaging, Solace, and the tree layer, whose hardenings are `H` and whose "
    "invariants are `I`, at any time, and `Q`, while all is quiet."
)
HOW_NAMED = (
    "The code also names sections of the documents that the mesh was designed by: `DESIGN`, "
    "`kafka.md` (the wire), `lab.md` (scenario files) and `tree_layer` (roles on trees)."
)
_EXAMPLE = re.compile(r"\| ((?:EMS|UM|DMR|PAT)-\d+) \| (.+?) \|")
_SPEC = re.compile(r"Spec:([^\n]*(?:\n[^\n]*)?)")
_CLAUSE = re.compile(r"\b(?:(K|R|H|I|Q|EMS-|UM-|DMR-|K-|PAT-)(\d+)(?:(?:-|\.\.| to )\1?(\d+))?)\b")
_SECTION = re.compile(
    r"\b(DESIGN|tree_layer|kafka\.md|lab\.md) §?(\d+(?:\.\d+)?(?:, \d+(?:\.\d+)?)*)"
)


def clauses_of(text: str) -> Iterator[str]:
    """Yield the clauses that a text names after `Spec:`; `K14-K18` stands for all five."""
    for match in _SPEC.finditer(text):
        for kind, first, last in _CLAUSE.findall(match.group(1)):
            for number in range(int(first), int(last or first) + 1):
                yield f"{kind}{number}"


def sections_of(text: str) -> Iterator[str]:
    """Yield the sections that a text names after `Spec:`."""
    for match in _SPEC.finditer(text):
        for document, numbers in _SECTION.findall(match.group(1)):
            for number in numbers.split(", "):
                yield f"{document} {number}"


def tests_by_clause() -> Mapping[str, list[str]]:
    """Return the tests of each clause; a module's docstring speaks for all its tests."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        where = path.relative_to(ROOT / "tests").as_posix()
        for clause in clauses_of(ast.get_docstring(tree) or ""):
            found[clause][where] = None
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for clause in clauses_of(ast.get_docstring(node) or ""):
                    found[clause][f"{where}::{node.name}"] = None
    return {clause: list(tests) for clause, tests in found.items()}


def modules_by_clause() -> Mapping[str, list[str]]:
    """Return the modules that name each clause."""
    return _naming(clauses_of, "mesh", "streaming")


def files_by_section() -> Mapping[str, list[str]]:
    """Return the modules, and the files of tests, that name each section."""
    return _naming(sections_of, "mesh", "streaming", "tests")


def _naming(named_in: Callable[[str], Iterator[str]], *packages: str) -> Mapping[str, list[str]]:
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            for name in named_in(path.read_text(encoding="utf-8")):
                found[name][path.relative_to(ROOT).as_posix()] = None
    return {name: list(files) for name, files in found.items()}


def demands() -> Mapping[str, str]:
    """Return what each clause demands, in a sentence."""
    shown = dict(_EXAMPLE.findall(EXAMPLES.read_text(encoding="utf-8")))
    return {**shown, **TOLD}


def page() -> str:
    """Return the page."""
    said = demands()
    tests, modules = tests_by_clause(), modules_by_clause()
    every = sorted({*tests, *modules, *CLAUSES}, key=_order)
    untested = [clause for clause in every if clause not in tests and clause not in ARGUED]
    lines = [
        "# Clauses, their tests and their modules",
        HOW_MADE,
        "",
        f"Without a test or a decision: {', '.join(untested) or 'none'}.",
        "",
        "| clause | what it demands | tests | modules |",
        "|---|---|---|---|",
    ]
    for clause in every:
        held = "<br>".join(tests.get(clause, ())) or _nothing(clause)
        by = "<br>".join(modules.get(clause, ()))
        lines.append(f"| {clause} | {said[clause]} | {held} | {by} |")
    named = files_by_section()
    lines += [
        "",
        "## Sections",
        HOW_NAMED,
        "",
        "| section | what it says | named in |",
        "|---|---|---|",
    ]
    lines += [f"| {one} | {said} | {'<br>'.join(named[one])} |" for one, said in SECTIONS.items()]
    return "\n".join(lines) + "\n"


def _nothing(clause: str) -> str:
    if clause not in ARGUED:
        return "**none**"
    decision = ARGUED[clause]
    return f"none: [ADR {int(decision[:4])}](adr/{decision})"


def _order(clause: str) -> tuple[str, int]:
    kind = clause.rstrip("0123456789")
    return kind, int(clause[len(kind) :])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
