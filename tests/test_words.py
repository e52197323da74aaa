"""One word, one meaning: the glossary has each once, and what it leaves out stands nowhere."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mesh.cli.main import app

ROOT = Path(__file__).parents[1]
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]
    if page.name not in ("glossary.md", "spec-map.md")  # words, file names
)


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of the glossary."""
    part = GLOSSARY.read_text().split(f"{heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in part.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split("|")] for line in lines[1:]]


BANNED = [word for row in rows("## Words that we leave out") for word in row[0].split(", ")]
PATTERN = re.compile(rf"\b(?:{'|'.join(map(re.escape, BANNED))})\b(?!\.py)", re.IGNORECASE)


def test_the_glossary_has_each_word_once() -> None:
    words = Counter(word for row in rows("# Glossary") for word in row[0].split(", "))
    assert [word for word, count in words.items() if count > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_no_word_that_is_left_out(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert [line for line in lines if PATTERN.search(re.sub(r"`[^`]*`", "", line))] == []


def helps() -> Iterator[tuple[str, str]]:
    """Yield each command line and all that its help says."""

    def walk(group: Any, path: str) -> Iterator[tuple[str, str]]:
        for name in group.commands:
            inner, line = group.commands[name], f"{path} {name}".strip()
            if hasattr(inner, "commands"):
                yield from walk(inner, line)
                continue
            yield line, " ".join([inner.help or "", *(str(one.help) for one in inner.params)])

    return walk(typer.main.get_command(app), "")


def test_help_uses_no_word_that_is_left_out() -> None:
    found = {line: PATTERN.findall(text) for line, text in helps()}
    assert {line: words for line, words in found.items() if words} == {}


def sentences(path: Path) -> Iterator[str]:
    """Yield what a module says while it runs, in more than one word: one is a key or a name."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    strings = (
        node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in docs
    )
    yield from (text for text in strings if isinstance(text, str) and " " in text)


def test_messages_use_no_word_that_is_left_out() -> None:
    paths = [
        path for room in ("mesh", "streaming", "schemas") for path in (ROOT / room).rglob("*.py")
    ]
    found = [text for path in paths for text in sentences(path) if PATTERN.search(text)]
    assert found == []


def keys(path: Path) -> Iterator[str]:
    """Yield the keys of what a module prints or answers: of mappings, and fields of its values."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            yield from (
                field.target.id
                for field in node.body
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            )
        if isinstance(node, ast.Dict):
            found = (key.value for key in node.keys if isinstance(key, ast.Constant))
            yield from (key for key in found if isinstance(key, str))


def test_documents_have_no_key_that_is_left_out() -> None:
    """Scripts read them, and whoever writes one looks the word up."""
    rooms = ("operate", "api", "cli", "lab")
    paths = [path for room in rooms for path in (ROOT / "mesh" / room).rglob("*.py")]
    found = {key for path in paths for key in keys(path)}
    assert {"movers", "interest"} <= found
    assert [key for key in found if PATTERN.search(key.replace("_", " "))] == []


LITERAL = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`')


def test_page_and_alerts_use_no_word_that_is_left_out() -> None:
    scripts = (ROOT / "mesh" / "api" / "page").glob("*.js")
    said = [text for path in scripts for text in LITERAL.findall(path.read_text(encoding="utf-8"))]
    said = [re.sub(r"\$\{[^}]*\}", "", text) for text in said]
    said += (ROOT / "infra" / "prometheus" / "alerts.yaml").read_text(encoding="utf-8").splitlines()
    assert [text for text in said if PATTERN.search(text)] == []


def test_a_word_that_is_left_out_would_be_seen() -> None:
    assert PATTERN.findall("Made anew by the wishes of a node") == ["anew", "wishes"]


DECISIONS = sorted(ROOT.glob("docs/adr/[0-9]*.md"))
STATUS = re.compile(r"\*\*Date\.\*\* (20\d\d-\d\d-\d\d)\. \*\*Status\.\*\* (\w+)(.*)")
RELATION = re.compile(
    r"(?P<verb>amends|amended by|replaces|replaced by)|ADR (?P<others>\d+(?:, \d+)*(?: and \d+)?)",
    re.IGNORECASE,
)
INVERSE = {"amends": "amended by", "replaces": "replaced by"}
SHOWN = {"replaces": "replaces a part of", "replaced by": "a part is replaced by"}
INVERSE |= {back: verb for verb, back in INVERSE.items()}


def status_of(page: Path) -> tuple[str, str, list[tuple[str, int]]]:
    """Return the date of a decision, how it stands, and what it does to others or they to it."""
    found = STATUS.search(page.read_text(encoding="utf-8"))
    assert found, "who reads it wants to know whether it still holds"
    related: list[tuple[str, int]] = []
    verb = ""
    for one in RELATION.finditer(found[3]):
        verb = (one["verb"] or verb).lower()
        numbers = re.findall(r"\d+", one["others"] or "")
        related += [(verb, int(number)) for number in numbers]
    return found[1], found[2], related


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.name)
def test_every_decision_has_a_date_and_a_status(page: Path) -> None:
    assert status_of(page)[1] in {"Accepted", "Proposed", "Replaced"}


def test_decisions_that_change_one_another_say_so_at_both_ends() -> None:
    """Who reads the older one must learn that it holds no more, or not all of it."""
    told = {
        (int(page.name[:4]), verb, other)
        for page in DECISIONS
        for verb, other in status_of(page)[2]
    }
    assert (55, "replaces", 48) in told
    assert {(one, verb, other) for one, verb, other in told if verb not in INVERSE} == set()
    assert {one for one in told if (one[2], INVERSE[one[1]], one[0]) not in told} == set()


def test_the_index_of_decisions_is_complete() -> None:
    """One row each, with what the page itself says: number, title, date, status, and of others."""
    wanted = []
    for page in DECISIONS:
        number, title = page.read_text(encoding="utf-8").partition("\n")[0][2:].split(". ", 1)
        date, status, related = status_of(page)
        verbs = dict.fromkeys(verb for verb, _ in related)
        also = [
            f"{SHOWN.get(verb, verb)} {', '.join(str(n) for n in sorted({n for v, n in related if v == verb}))}"
            for verb in sorted(verbs)
        ]
        said = "; ".join([status.lower(), *also])
        wanted.append(f"| [{number}]({page.name}) | {title} | {date} | {said} |")
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    assert [line for line in index.splitlines() if line.startswith("| [")] == wanted


def test_decisions_have_numbers_of_their_own() -> None:
    """Two who decide something on the same day both take the next number."""
    numbers = [int(page.name.partition("-")[0]) for page in DECISIONS]
    assert numbers == list(range(1, len(DECISIONS) + 1))
    headings = [page.read_text(encoding="utf-8").partition(".")[0] for page in DECISIONS]
    assert headings == [f"# {number}" for number in numbers]
