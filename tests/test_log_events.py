"""Events of the log: one page names all of them with their fields, and the code writes no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
EVENT = re.compile(r"[a-z_]+\.[a-z_]+")
LEVELS = {"info": "info", "warning": "warning", "error": "error", "exception": "error"}
NOTE_LEVEL_DEFAULT = "warning"
ROW = re.compile(r"^\| `([a-z_]+\.[a-z_]+)` \| ([^|]*)\|", re.MULTILINE)
ASSERTED = re.compile(r'(?<!not )\b\w+(?:\(.*\))?\.of\("([a-z_]+\.[a-z_]+)"\)(?! == \[\])')
"""A test that finds an event nowhere has not provoked it."""

Fields = tuple[frozenset[str], frozenset[str]]
"""The fields that an event always has, and those that it has only where some lines write it."""


def calls(tree: ast.AST) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield the level, the event and the fields of everything that a module says to people."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr=level),
                args=[ast.Constant(value=str(event))],
                keywords=fields,
            ) if level in LEVELS and EVENT.fullmatch(event):
                yield LEVELS[level], event, frozenset(one.arg or "**" for one in fields)
            case ast.Call(
                func=ast.Name(id="Note"), args=[ast.Constant(value=str(event)), ast.Dict(keys=keys)]
            ):
                names = frozenset(ast.literal_eval(one) if one else "**" for one in keys)
                yield NOTE_LEVEL_DEFAULT, event, names


def written() -> dict[tuple[str, str], Fields]:
    """Return the fields of every event of the code, by its level and name."""
    found: dict[tuple[str, str], list[frozenset[str]]] = {}
    for path in (ROOT / "mesh").rglob("*.py"):
        for level, event, names in calls(ast.parse(path.read_text(encoding="utf-8"))):
            found.setdefault((level, event), []).append(names)
    together = {key: frozenset.intersection(*each) for key, each in found.items()}
    return {
        key: (always, frozenset().union(*found[key]) - always) for key, always in together.items()
    }


def told() -> dict[tuple[str, str], Fields]:
    """Return the fields of every event of the page, by its level and name."""
    page = (ROOT / "docs" / "log.md").read_text(encoding="utf-8")
    found: dict[tuple[str, str], Fields] = {}
    for section in page.split("\n## ")[1:]:
        for event, fields in ROW.findall(section):
            some = frozenset(re.findall(r"\(`(\w+)`\)", fields))
            key = (section.partition("\n")[0].lower(), event)
            assert key not in found
            found[key] = (frozenset(re.findall(r"`(\w+)`", fields)) - some, some)
    return found


def test_the_page_names_every_event_with_its_fields() -> None:
    """Operators search and alert by these names: none changes without the page. Spec: DESIGN 4."""
    page, code = told(), written()
    assert len(code) > 100
    assert {key: page.get(key) for key in page.keys() | code.keys()} == code


def test_every_line_of_a_worker_is_an_event() -> None:
    """One that is named otherwise would stand on no page, and no test would have to provoke it."""
    odd = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in (ROOT / "mesh").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in LEVELS
        and ast.unparse(node.func.value).rpartition(".")[2] == "log"
        and not EVENT.fullmatch(str(getattr(node.args[0], "value", "")))
    ]
    assert odd == []


def seen_by_tests() -> frozenset[str]:
    """Return the events that some test sees written, or among the effects of pure code."""
    tests = (ROOT / "tests").rglob("test_*.py")
    return frozenset(
        event for one in tests for event in ASSERTED.findall(one.read_text(encoding="utf-8"))
    )


def test_every_error_and_every_warning_is_provoked_by_a_test() -> None:
    """Whoever is to act on it has nothing else; a test beside this one sees it written."""
    to_people = {event for level, event in told() if level != "info"}
    assert to_people <= seen_by_tests(), to_people - seen_by_tests()
