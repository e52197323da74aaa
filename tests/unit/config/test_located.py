"""Files that cannot be read, or not without guessing, and the place of what can."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from mesh.config.located import PROBLEMS_MAX, parse_document, read_document
from mesh.config.scalars import duration_s
from mesh.errors import ConfigError


def lines_of(data: bytes) -> list[str]:
    """The complaint about a file with these bytes."""
    with pytest.raises(ConfigError) as caught:
        parse_document(data, "mesh.yaml")
    return [problem.line() for problem in caught.value.problems]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", "mesh.yaml: has no settings; write at least apiVersion and kind [EMPTY]"),
        (b"# x\n", "mesh.yaml: has no settings; write at least apiVersion and kind [EMPTY]"),
        (b"a: \xff", "mesh.yaml: is not UTF-8 at byte 3; save it as UTF-8 [NOT_UTF8]"),
        ("a: 1".encode("utf-16"), "mesh.yaml: is not UTF-8 at byte 0; save it as UTF-8 [NOT_UTF8]"),
        (
            b"\xef\xbb\xbfa: 1",
            (
                "mesh.yaml: starts with a byte order mark at byte 0; save it as UTF-8 without one "
                "[NOT_UTF8]"
            ),
        ),
        (
            b"a:\n\tb: 1\n",
            (
                "mesh.yaml:2:1: not valid YAML: found character '\\t' that cannot start any token; "
                "correct it [SYNTAX]"
            ),
        ),
        (
            b"a:\n  b: 1\n c: 2\n",
            (
                "mesh.yaml:3:2: not valid YAML: expected <block end>, but found "
                "'<block mapping start>'; correct it [SYNTAX]"
            ),
        ),
        (
            b"a: 1\n---\nb: 1\n",
            "mesh.yaml:2:1: a second document starts here; keep one per file [SYNTAX]",
        ),
        (
            b'a: "\\U00110000"',
            "mesh.yaml: not valid YAML: chr() arg not in range(0x110000); correct it [SYNTAX]",
        ),
        (
            b'a: {b: "x\\ud800"}',
            (
                "mesh.yaml:1:8: half of a character stands here (\\ud800 to \\udfff); write all of "
                "it [SYNTAX]"
            ),
        ),
        (
            b'"\\udfff": 1',
            (
                "mesh.yaml:1:1: half of a character stands here (\\ud800 to \\udfff); write all of "
                "it [SYNTAX]"
            ),
        ),
        (b"[a]: 1", "mesh.yaml:1:1: a key must be plain text; quote it [SYNTAX]"),
        (
            b"a: 1\nb: 2\na: 3\n",
            "mesh.yaml:3:1: key 'a' is here and in line 1; remove one [DUPLICATE_KEY]",
        ),
        (
            b"a: !!python/name:os.system x",
            "mesh.yaml:1:4: tag tag:yaml.org,2002:python/name:os.system is not allowed; remove it [TAG]",
        ),
        (
            b"x: " + b"{a: " * 40,
            "mesh.yaml:1:128: is nested deeper than 32 levels; flatten it [TOO_DEEP]",
        ),
        (b"[" * 500, "mesh.yaml:1:33: is nested deeper than 32 levels; flatten it [TOO_DEEP]"),
        (
            b"#" * 1_048_577,
            "mesh.yaml: is larger than 1024 KiB; split it or remove what is surplus [TOO_LARGE]",
        ),
    ],
)
def test_bad_file_is_one_clear_line(data: bytes, line: str) -> None:
    """Each kind of bad file has its line, with the place where there is one."""
    assert lines_of(data) == [line]


def test_anchors_and_aliases_are_all_named() -> None:
    """Both ends of an alias are refused, and everything else goes on being checked."""
    assert lines_of(b"a: &x 1\nb: *x\na: 2\n") == [
        "mesh.yaml:1:4: anchor &x is not allowed; write it out [ALIAS]",
        "mesh.yaml:2:4: alias *x is not allowed; quote it if it is text ('*x'), or write it out [ALIAS]",
        "mesh.yaml:3:1: key 'a' is here and in line 1; remove one [DUPLICATE_KEY]",
    ]


@pytest.mark.parametrize(
    ("data", "way"),
    [
        (b"filter: *\n", "quote text that begins with *"),
        (b"{filter: *}\n", "quote text that begins with *"),
        (b"filter: */x\n", "quote it if it is text ('*/x'), or write it out"),
        (b"filter: >\nother: 1\n", "and this one is empty; write '>' for a filter"),
        (b"{filter: >}\n", "quote text that begins with >"),
        (b"x: 'a\n", "correct it"),
    ],
)
def test_a_filter_that_lacks_its_quotes_is_told_of_them(data: bytes, way: str) -> None:
    """Those of a mesh begin as aliases and blocks of text do."""
    (line,) = lines_of(data)
    assert line.partition(" [")[0].endswith(f"; {way}") or way in line


def test_a_flood_of_faults_ends() -> None:
    """Fifty thousand duplicate keys are no fifty thousand lines, nor a minute of work."""
    assert len(lines_of(b"k: v\n" * 50_000)) == PROBLEMS_MAX
    (line,) = lines_of(b"a: !" + b"x" * 100_000 + b" b")
    assert len(line) < 200


def test_alias_bomb_takes_no_memory() -> None:
    """Aliases are never followed, so a bomb stays as small as its text."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 20)]
    data = "\n".join(["a0: &a0 [x]", *levels]).encode()
    tracemalloc.start()
    try:
        lines_of(data)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_unreadable_files_name_the_path(tmp_path: Path) -> None:
    """A missing file and a directory have complaints of their own."""
    missing = tmp_path / "none.yaml"
    for path, message in (
        (missing, f"{missing}: no such file; check the path [NO_FILE]"),
        (tmp_path, f"{tmp_path}: is a directory; name a file [IS_DIRECTORY]"),
    ):
        with pytest.raises(ConfigError) as caught:
            read_document(path)
        assert str(caught.value) == message


def test_plain_text_means_what_it_says() -> None:
    """The core schema of YAML 1.2: no sexagesimal, octal, yes/no or dates."""
    data = b"v: [no, on, 1:30, 010, 0x1f, 1e3, .inf, 2001-01-01, true, ~, '5', 1_000, 1.5]\n1: x"
    value = parse_document(data, "f").value
    assert value == {
        "v": [
            "no",
            "on",
            "1:30",
            10,
            31,
            1000.0,
            float("inf"),
            "2001-01-01",
            True,
            None,
            "5",
            "1_000",
            1.5,
        ],
        "1": "x",
    }


def test_endless_digits_are_text() -> None:
    """A number of ten thousand digits neither fails nor takes long."""
    assert parse_document(b"v: " + b"9" * 10_000, "f").value == {"v": "9" * 10_000}


def test_where_names_line_column_and_path() -> None:
    """A key has its own place; what is missing has that of the closest that exists."""
    document = parse_document(b"a:\n  b:\n    - c: 1\n", "f.yaml")
    assert document.where(("a", "b")) == "f.yaml:2:3: a.b"
    assert document.where(("a", "b", 0)) == "f.yaml:3:7: a.b[0]"
    assert document.where(("a", "x", "y")) == "f.yaml:1:1: a.x.y"
    part = document.within("a", "b", 0)
    assert part.value == {"c": 1}
    assert part.where(("c",)) == "f.yaml:3:7: a.b[0].c"
    assert document.within("a", "x").value is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h", 3600.0),
        ("500ms", 0.5),
        ("1.5m", 90.0),
        ("2d", 172_800.0),
        ("5", None),
        ("-1s", None),
        ("1 h", None),
        ("1e9s", None),
    ],
)
def test_durations_have_units(text: str, seconds: float | None) -> None:
    """A number without a unit is not a duration."""
    assert duration_s(text) == seconds


def test_characters_that_json_escapes_as_a_pair_are_whole() -> None:
    """JSON is YAML, and most of what writes JSON escapes what is beyond U+FFFF in two halves."""
    written = json.dumps({"title": "a 😀", "😀": "𝄞"})
    assert "\\ud83d" in written
    found = parse_document(written.encode(), "mesh.yaml")
    assert found.value == {"title": "a 😀", "😀": "𝄞"}
