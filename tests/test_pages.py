"""What pages and messages name is there: rooms in the order of their layers, and commands."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer

from mesh.cli.commands import COMMANDS, CommandGroup
from mesh.cli.main import app, main

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
CONTRACTS: Sequence[Mapping[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text())[
    "tool"
]["importlinter"]["contracts"]


def layers_of(package: str) -> list[set[str]]:
    """Return the layers of a package as the checker of imports knows them, the uppermost first."""
    [contract] = (one for one in CONTRACTS if one.get("containers") == [package])
    return [set(re.split(r" *[|:] *", layer)) for layer in contract["layers"]]


def rows_of(heading: str, page: str = ARCHITECTURE) -> list[list[str]]:
    """Return the cells of the table of a page that has this first line."""
    table = page.split(f"{heading}\n", 1)[1].split("\n\n", 1)[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()][
        1:
    ]


def test_the_page_is_read_in_one_sitting() -> None:
    """What it would grow by has a page of its own, to which it leads."""
    assert ARCHITECTURE.count("\n") <= 200


def test_the_page_has_the_layers_that_the_checker_of_imports_has() -> None:
    """Whoever is new looks for a room here: one that is missing, or none any more, misleads."""
    page: dict[str, set[str]] = {}
    for layer, rooms, _ in rows_of("| layer | rooms | what is there |"):
        page.setdefault(layer, set()).update(re.findall(r"`mesh/([\w/]+)`", rooms))
    assert list(page.values()) == layers_of("mesh")
    assert list(page) == [str(n) for n in reversed(range(len(page)))]


def test_the_page_has_the_rooms_of_the_worker_from_top_to_bottom() -> None:
    """Their order is that in which imports point."""
    told = [
        re.findall(r"`(\w+)(?:/|\.py)`", rooms) for rooms, _ in rows_of("| room | what is there |")
    ]
    heights = {room: n for n, layer in enumerate(layers_of("mesh.worker")) for room in layer}
    named = [room for rooms in told for room in rooms]
    assert sorted(named) == sorted(heights)
    assert named == sorted(named, key=heights.__getitem__)


TELLING = (
    *("*.md", "docs/*.md", "examples/**/*.md", "infra/**/*.md", "infra/**/*.yaml"),
    *("mesh/**/*.py", "mesh/api/page/*.js", "streaming/**/*.py"),
)
"""What tells people what to type. Decisions are left out: they name as well what there is not."""


def texts() -> Iterator[tuple[str, str]]:
    """Yield each file that tells people what to type, and what it says, strings joined."""
    for pattern in TELLING:
        for path in sorted(ROOT.glob(pattern)):
            text = path.read_text(encoding="utf-8")
            yield str(path.relative_to(ROOT)), re.sub(r'"\n\s*f?"', "", text)


def command_lines(text: str) -> Iterator[str]:
    """Yield the command lines of a text: between backticks, or on a line of an example."""
    yield from re.findall(r"`mesh ([^`\n]+)`", text)
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            for part in line.partition(" #")[0].split(";"):
                if found := re.match(r"\s*(?:\$ )?mesh ([a-z-].*)", part):
                    yield found[1]


GROUPS = [
    entry
    for part in COMMANDS.values()
    for entry in part.values()
    if isinstance(entry, CommandGroup)
]
INNER = {name for group in GROUPS for name in group.commands}
COMMAND_LINE: Any = typer.main.get_command(app)


def words_of(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # an apostrophe of a sentence
        return line.split()


def what_is_wrong(line: str) -> str:
    """Return the first word of a command line that the command does not know, or nothing."""
    words = words_of(line)
    found = COMMAND_LINE
    while words and hasattr(found, "commands") and not words[0].startswith(("-", "...")):
        names = words.pop(0).split("|")  # `add|list|use`
        if unknown := [name for name in names if name not in found.commands]:
            return unknown[0]
        found = found.commands[names[0]]
    known = {option for one in found.params for option in (*one.opts, *one.secondary_opts)}
    for word in words:
        option = word.strip("[]").partition("=")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", option) and option not in {*known, "--help", "-h"}:
            return option
    first = words[0] if words else ""
    return first if first in INNER and not hasattr(found, "commands") else ""


def test_every_command_that_people_are_told_to_type_is_there() -> None:
    """With the options that are told, on pages, in hints, alerts and findings."""
    wrong = {
        f"{name}: mesh {line}": word
        for name, text in texts()
        for line in command_lines(text)
        if (word := what_is_wrong(line))
    }
    assert wrong == {}


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("dlq list", "list"),
        ("nodes", "nodes"),
        ("zone make P", "make"),
        ("context add|drop", "drop"),
        ("plan FILE --into plan.json", "--into"),
        ("status -o json", ""),
        ("zone ...", ""),
        ("audit report [--from T] [--to T]", ""),
    ],
)
def test_a_command_that_is_not_there_would_be_seen(line: str, word: str) -> None:
    assert what_is_wrong(line) == word


SHELL_PAGES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "examples/*.md", "infra/**/*.md")
SEPARATORS = set(";|&")


def typed() -> Iterator[tuple[str, list[str]]]:
    """Yield each command in a shell block of a page, as the shell would take its words apart."""
    for path in sorted({one for pattern in SHELL_PAGES for one in ROOT.glob(pattern)}):
        text = path.read_text(encoding="utf-8")
        for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                for words in commands_in(line):
                    yield str(path.relative_to(ROOT)), words


def commands_in(line: str) -> Iterator[list[str]]:
    """Yield the commands of a line of a shell, without redirections and what is set for them."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if not SEPARATORS.isdisjoint(word) and set(word) <= SEPARATORS:
            command = words[: words.index(">")] if ">" in words else words
            if command:
                yield command
            words = []
        elif words or not re.fullmatch(r"[A-Z_]+=.*", word):
            words.append(word)


def mesh_words(command: list[str]) -> list[str] | None:
    """Return what `mesh` is given by a command, be it run elsewhere (`... -- mesh status`)."""
    for at, word in enumerate(command):
        if word in ("mesh", ".venv/bin/mesh") and command[at - 1 : at] in ([], ["--"]):
            return command[at + 1 :]
    return None


MESH_LINES = [(page, words) for page, line in typed() if (words := mesh_words(line)) is not None]


@pytest.mark.parametrize(
    ("page", "words"),
    MESH_LINES,
    ids=[f"{page}: {shlex.join(words)}" for page, words in MESH_LINES],
)
def test_a_line_of_a_page_is_one_that_the_command_takes(page: str, words: list[str]) -> None:
    """Every argument and option is there and has its form, as far as nothing is looked at."""
    found, given = COMMAND_LINE, list(words)
    while hasattr(found, "commands"):
        found = found.commands[given.pop(0)]
    assert found.make_context(page, given).params


ALONE = [
    words
    for page, words in MESH_LINES
    if page == "README.md"
    and (
        words[0] in ("validate", "walks", "topology", "schema")
        or (words[0] == "route" and len(words) > 3)
        or (words[0] == "plan" and "--from" in words)
        or (words[:2] == ["lab", "run"] and "--backend" not in words)
    )
]
"""What asks no mesh: all that it looks at stands in files."""


@pytest.mark.parametrize("words", ALONE, ids=shlex.join)
def test_a_line_of_the_first_page_that_needs_no_mesh_does_what_it_says(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Run as it stands there, in a folder with the examples and with the files of the reader."""
    before = (ROOT / "examples" / "topologies" / "fig36.yaml").read_text(encoding="utf-8")
    (tmp_path / "old.yaml").write_text(before, encoding="utf-8")
    (tmp_path / "new.yaml").write_text(before.replace("title: World", "title: Earth"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words)
    said = capsys.readouterr()
    code = 2 if "illegal" in words[1] else 3 if words[0] == "plan" else 0
    assert (ended.value.code or 0, bool(said.out or said.err)) == (code, True), said


def test_the_lines_that_need_no_mesh_are_found() -> None:
    """None of them is left out because a page is written in another way."""
    assert {words[0] for words in ALONE} >= {
        "validate",
        "walks",
        "topology",
        "route",
        "plan",
        "lab",
    }
    assert list(commands_in("A=1 mesh x 'a b' > f; mv f g | c # d")) == [
        ["mesh", "x", "a b"], ["mv", "f", "g"], ["c"]
    ]  # fmt: skip


def test_what_pages_have_people_make_or_run_is_there() -> None:
    """Targets of the Makefile, and modules that are run."""
    made = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    lines = [line for _, line in typed()]
    assert {line[1] for line in lines if line[0] == "make"} - made == set()
    modules = {line[2] for line in lines if line[:2] == [".venv/bin/python", "-m"]}
    assert [name for name in modules if not is_there(name)] == []
    assert len(modules) > 3


EVENT = re.compile(r"[a-z]+\.[a-z_]+")
LEVELS = ("info", "warning", "error", "exception")


def events() -> tuple[set[str], set[str]]:
    """Return every event that the code may write to a log, and their first words."""
    written: set[str] = set()
    first_words: set[str] = set()
    for path in (ROOT / "mesh").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=func, args=[ast.Constant(value=str(event)), *_]) if (
                    EVENT.fullmatch(event)
                ):
                    written.add(event)  # some are handed over before they are written
                    if isinstance(func, ast.Attribute) and func.attr in LEVELS:
                        first_words.add(event.partition(".")[0])
    return written, first_words


def test_every_event_that_a_page_tells_operators_to_look_for_is_written() -> None:
    """One that was renamed is looked for in vain, at the worst of times."""
    written, first_words = events()
    assert {"lane.failed", "link.stays", "source.stopped"} <= written
    missing = {
        f"{page.name}: {word}"
        for page in ROOT.glob("docs/*.md")
        for word in re.findall(rf"`({EVENT.pattern})`", page.read_text(encoding="utf-8"))
        if word.partition(".")[0] in first_words and word not in written
        if not word.endswith((".py", ".md"))
    }
    assert missing == set()


def test_promises_stand_in_the_order_of_their_numbers() -> None:
    """Others refer to them by number, and who looks one up goes by it."""
    page = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| ([A-Z])(\d+)([a-z]?) ", page, re.MULTILINE)
    promises = [(letter, int(number), part) for letter, number, part in found]
    assert len(promises) > 30
    for letter in {one[0] for one in promises}:
        numbered = [one for one in promises if one[0] == letter]
        assert numbered == sorted(set(numbered))


NOT_MODULES = {"mesh.config", "mesh.kafka"}
"""A topic, and the name of a log."""


def is_there(name: str) -> bool:
    """Return whether a dotted name is a package, a module or something at the top of a module."""
    path = ROOT.joinpath(*name.split("."))
    if path.is_dir() or path.with_suffix(".py").is_file():
        return True
    package = path.parent / "__init__.py"
    module = package if package.is_file() else path.parent.with_suffix(".py")
    top = rf"^(?:class |def )?{path.name}\b"
    return module.is_file() and bool(
        re.search(top, module.read_text(encoding="utf-8"), re.MULTILINE)
    )


def test_modules_and_their_names_that_docstrings_refer_to_are_there() -> None:
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for room in ("mesh", "streaming")
        for path in (ROOT / room).rglob("*.py")
        for name in re.findall(rf"`({room}(?:\.\w+)+)`", path.read_text(encoding="utf-8"))
        if name not in NOT_MODULES and not is_there(name)
    }
    assert missing == set()
    assert not is_there("mesh.lane.batch.NOTHING")


def test_the_page_has_each_audit_once() -> None:
    """Whoever looks for what the auditor asks finds the module by its question."""
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    rows = rows_of("| question | modules |", page)
    named = [name for _, modules in rows for name in re.findall(r"`(\w+)`", modules)]
    audits = [path.stem for path in (ROOT / "streaming" / "audits").glob("*.py")]
    assert sorted(named) == sorted(name for name in audits if name != "__init__")
