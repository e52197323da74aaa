"""YAML files read with the place of every key, and refused where YAML would guess.

Read from parser events and not through a loader: the places, a limit on depth before anything
is built, and no surprise from aliases, duplicate keys or old number formats.
Spec: lab.md 3, reliability of bad inputs 1-11.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)

from mesh.config.reading import read_file
from mesh.config.scalars import plain_value
from mesh.errors import ConfigError, Problem, wrong_input

FILE_BYTES_MAX = 1024 * 1024
"""A thousand nodes with all their links, as `mesh export -o json` writes them."""

DEPTH_MAX = 32
PROBLEMS_MAX = 100
"""Faults named at once; after so many nobody reads on."""

_NO_BEGINNING = "*>@`%"
"""No plain text of YAML begins with these, as filters do."""

_SHOWN_MAX = 80

KeyPath = tuple[str | int, ...]
"""From the top of a document: keys of mappings, indexes of sequences."""

Locate = Callable[[KeyPath], str]
"""Gives the text for `Problem.where`."""


def dotted(path: Sequence[str | int]) -> str:
    """Return a path for people: `spec.zones.TK.links[0]`; the place of what has no file."""
    text = ""
    for part in path:
        shown = f"[{part}]" if isinstance(part, int) else _short(part)
        text += f".{shown}" if text and isinstance(part, str) else shown
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a file says, and where.

    Attributes:
        name: The file as the user named it.
        value: Mappings, lists and plain values.
        marks: Line and column, from 1, of each key and list item.
        base: Path that all other paths start from.
    """

    name: str
    value: object
    marks: Mapping[KeyPath, tuple[int, int]] = field(repr=False)
    base: KeyPath = ()

    def where(self, path: KeyPath = ()) -> str:
        """Return `file:line:column: path`, the place of the closest key that exists."""
        full = self.base + path
        known = full
        while known and known not in self.marks:
            known = known[:-1]
        line, column = self.marks.get(known, (1, 1))
        place = f"{self.name}:{line}:{column}"
        return f"{place}: {dotted(full)}" if full else place

    def within(self, *path: str | int) -> Document:
        """Return the part of the document below a path, an absent part being None."""
        value = self.value
        for part in path:
            if isinstance(value, Mapping) and isinstance(part, str):
                value = value.get(part)
            elif isinstance(value, list) and isinstance(part, int) and part < len(value):
                value = value[part]
            else:
                value = None
        return replace(self, value=value, base=self.base + path)


def read_document(path: str | Path) -> Document:
    """Read a YAML file that people wrote.

    Raises:
        ConfigError: It cannot be read, or not without guessing; lists all problems.
    """
    name = str(path)
    try:
        data = read_file(path, FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        raise wrong_input(name, "no such file; check the path", code="NO_FILE") from None
    except IsADirectoryError:
        raise wrong_input(name, "is a directory; name a file", code="IS_DIRECTORY") from None
    except (OSError, ValueError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        raise wrong_input(name, f"cannot be read: {reason}; check it", code="UNREADABLE") from error
    return parse_document(data, name)


def parse_document(data: bytes, name: str) -> Document:
    """Read YAML from bytes.

    Args:
        data: UTF-8, of at most `FILE_BYTES_MAX` bytes.
        name: What stands for the file in messages.

    Returns:
        The values, and of each where in the file it stands.

    Raises:
        ConfigError: As for `read_document`.
    """
    if len(data) > FILE_BYTES_MAX:
        message = f"is larger than {FILE_BYTES_MAX // 1024} KiB; split it or remove what is surplus"
        raise wrong_input(name, message, code="TOO_LARGE")
    if data.startswith(b"\xef\xbb\xbf"):
        message = "starts with a byte order mark at byte 0; save it as UTF-8 without one"
        raise wrong_input(name, message, code="NOT_UTF8")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        message = f"is not UTF-8 at byte {error.start}; save it as UTF-8"
        raise wrong_input(name, message, code="NOT_UTF8") from error
    builder = _Builder(name=name)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take(event)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        what = _one_line(error.problem or error.context or "not YAML")
        near = text[max(0, mark.index - 1) : mark.index + 1] if mark else ""
        sign = next((one for one in near if one in _NO_BEGINNING), "")
        way = f"quote text that begins with {sign}" if sign else "correct it"
        raise wrong_input(place, f"not valid YAML: {what}; {way}", code="SYNTAX") from error
    except (YAMLError, ValueError, OverflowError) as error:  # an escape may name no character
        what = _one_line(str(error))
        raise wrong_input(name, f"not valid YAML: {what}; correct it", code="SYNTAX") from error
    if builder.problems:
        raise ConfigError(builder.problems)
    if builder.root is None:
        raise wrong_input(name, "has no settings; write at least apiVersion and kind", code="EMPTY")
    return Document(name=name, value=builder.root, marks=builder.marks)


def _one_line(text: str) -> str:
    return " ".join(text.split())


@dataclass(slots=True)
class _Frame:
    """A collection being read; `key` is the mapping key whose value comes next."""

    path: KeyPath
    items: list[object] | None = None
    entries: dict[str, object] | None = None
    key: str | None = None


@dataclass(slots=True, kw_only=True)
class _Builder:
    """Turns parser events into values and marks, without recursion."""

    name: str
    root: object = None
    marks: dict[KeyPath, tuple[int, int]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    documents: int = 0
    _stack: list[_Frame] = field(default_factory=list)

    def take(self, event: Event) -> None:
        """Account for the next event."""
        if isinstance(event, DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                self._stop("SYNTAX", "a second document starts here; keep one per file", event)
        elif isinstance(event, CollectionEndEvent):
            self._stack.pop()
        elif isinstance(event, NodeEvent):
            self._refuse_magic(event)
            top = self._stack[-1] if self._stack else None
            if top is not None and top.entries is not None and top.key is None:
                self._key(top, event)
            else:
                self._value(top, event)

    def _refuse_magic(self, event: NodeEvent) -> None:
        if isinstance(event, AliasEvent):
            name = _short(event.anchor)
            text = (
                f"alias *{name} is not allowed; quote it if it is text ('*{name}'), or write it out"
            )
            self._note("ALIAS", text, event)
        elif event.anchor is not None:
            self._note(
                "ALIAS", f"anchor &{_short(event.anchor)} is not allowed; write it out", event
            )
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._note("TAG", f"tag {_short(tag)} is not allowed; remove it", event)

    def _key(self, top: _Frame, event: NodeEvent) -> None:
        if not isinstance(event, ScalarEvent):
            self._stop("SYNTAX", "a key must be plain text; quote it", event)
        entries = top.entries
        assert entries is not None
        key = self._text(event)
        path = (*top.path, key)
        if key in entries:
            first = self.marks[path]
            message = f"key {_short(key)!r} is here and in line {first[0]}; remove one"
            self._note("DUPLICATE_KEY", message, event)
        else:
            self.marks[path] = _mark(event)
        entries[key] = None
        top.key = key

    def _value(self, top: _Frame | None, event: NodeEvent) -> None:
        path: KeyPath = ()
        if top is not None and top.items is not None:
            path = (*top.path, len(top.items))
            self.marks[path] = _mark(event)
        elif top is not None and top.key is not None:
            path = (*top.path, top.key)
        value: object = None
        if isinstance(event, MappingStartEvent):
            value = entries = dict[str, object]()
            self._push(_Frame(path, entries=entries), event)
        elif isinstance(event, SequenceStartEvent):
            value = items = list[object]()
            self._push(_Frame(path, items=items), event)
        elif isinstance(event, ScalarEvent):
            written = self._text(event)
            plain = event.style is None or event.style == ""
            if event.style == ">" and not written:
                text = "> begins a block of text, and this one is empty; write '>' for a filter"
                self._note("SYNTAX", text, event)
            value = plain_value(written) if plain else written
        if top is None:
            self.root = value
        elif top.items is not None:
            top.items.append(value)
        elif top.entries is not None and top.key is not None:
            top.entries[top.key] = value
            top.key = None

    def _text(self, event: ScalarEvent) -> str:
        """Return what is written; JSON escapes a character beyond U+FFFF as a surrogate pair.

        Half of a pair is refused: it is no character, and could be written nowhere.
        """
        halves = str(event.value).encode("utf-16-le", "surrogatepass")
        written = halves.decode("utf-16-le", "surrogatepass")
        if any("\ud800" <= one <= "\udfff" for one in written):
            text = "half of a character stands here (\\ud800 to \\udfff); write all of it"
            self._note("SYNTAX", text, event)
        return written

    def _push(self, frame: _Frame, event: NodeEvent) -> None:
        self._stack.append(frame)
        if len(self._stack) > DEPTH_MAX:
            self._stop("TOO_DEEP", f"is nested deeper than {DEPTH_MAX} levels; flatten it", event)

    def _note(self, code: str, message: str, event: Event) -> None:
        line, column = _mark(event)
        where = f"{self.name}:{line}:{column}"
        self.problems.append(Problem(code=code, message=message, where=where))
        if len(self.problems) >= PROBLEMS_MAX:
            raise ConfigError(self.problems)

    def _stop(self, code: str, message: str, event: Event) -> NoReturn:
        self._note(code, message, event)
        raise ConfigError(self.problems)


def _short(text: object) -> str:
    return str(text)[:_SHOWN_MAX]


def _mark(event: Event) -> tuple[int, int]:
    return event.start_mark.line + 1, event.start_mark.column + 1
