"""One way to print: every command gives data and a table, and `-o` decides how it looks.

What people are told besides goes to standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from mesh.errors import OutputError
from mesh.transport import clock

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.table import Table
    from rich.text import Text

WIDTH_WITHOUT_TERMINAL = 160
WIDTH_UNKNOWN = 80
"""Of a terminal that does not say how wide it is."""
EXIT_NOT_WELL = 10
"""Exit code of what could be done, and did not go well."""
_NEXT_LINE = "\x85"
"""The library lets it stand in plain text, where it is read as a space."""
UNBROKEN = 9
"""Words of a table that are no longer than this are on one line."""


class Output(StrEnum):
    """How a result is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


OutputOption = Annotated[
    Output, typer.Option("-o", "--output", help="table for people, json and yaml for scripts")
]
"""The option that every command takes."""


def render(data: Mapping[str, object], table: Callable[[], RenderableType], output: Output) -> None:
    """Print a result on standard output.

    A terminal gets colours unless NO_COLOR is set; a pipe gets plain text.

    Args:
        data: What scripts get: mappings, lists and plain values.
        table: Makes what people get; called only for them.
        output: For whom it is.

    Raises:
        OutputError, BrokenPipeError: As for `standard_output`.
    """
    with standard_output():
        if output is Output.TABLE:
            console().print(table())
        else:
            _write(_for_scripts(data, output), output)


def render_verdict(
    data: Mapping[str, object], table: Callable[[], RenderableType], output: Output
) -> NoReturn:
    """Print a result, and end the command: with exit code 10 unless it is `ok`."""
    render(data, table, output)
    raise typer.Exit(0 if data["ok"] else EXIT_NOT_WELL)


@contextmanager
def standard_output() -> Iterator[None]:
    """What is written within is on its way afterwards.

    Raises:
        OutputError: It cannot be written.
        BrokenPipeError: Nobody reads any more.
    """
    if sys.stdout is None:
        raise OutputError("standard output is closed; open it")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.stdout = None  # or the same comes once more when the program ends
        text = f"standard output cannot be written: {error.strerror}; send it elsewhere"
        raise OutputError(text) from error


def _write(text: str, output: Output) -> None:
    if sys.stdout.isatty():
        from rich.syntax import Syntax

        console().print(Syntax(text, str(output), background_color="default", word_wrap=True))
    else:
        sys.stdout.write(text + "\n")


def _for_scripts(data: Mapping[str, object], output: Literal[Output.JSON, Output.YAML]) -> str:
    match output:
        case Output.JSON:
            return as_json(data)
        case Output.YAML:
            return _dumped(data, in_flow=False)


def grid(
    columns: Sequence[str], rows: Sequence[Sequence[object]], nothing: str = ""
) -> RenderableType:
    """Return a plain table; numbers stand to the right, and None is a "?".

    Args:
        columns: Headings.
        rows: One value for each.
        nothing: What is said instead of a table without rows.
    """
    if nothing and not rows:
        return nothing
    return Grid(columns, [["?" if one is None else one for one in row] for row in rows])


def with_unknown(shown: RenderableType, unknown: Sequence[str]) -> RenderableType:
    """Return what is shown, and of which nodes it says nothing: what is not known is no zero."""
    from rich.console import Group

    if not unknown:
        return shown
    return Group(shown, f"unknown, their Kafka does not answer: {', '.join(unknown)}")


@dataclass(frozen=True, slots=True)
class Grid:
    """A table, or one line per cell where headings and short words would be broken otherwise.

    Attributes:
        columns: Headings.
        rows: One value for each.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield what fits the terminal."""
        if self._width() <= options.max_width:
            yield self._table()
            return
        for row in self.rows:
            cells = zip(self.columns, map(str, row), strict=True)
            yield (
                "\n".join(f"{name}: {cell}" if name else cell for name, cell in cells if cell)
                + "\n"
            )

    def _width(self) -> int:
        """Return how wide the table is at least: three spaces between columns, and its edges."""
        width = 3 * len(self.columns) - 1
        for index, column in enumerate(self.columns):
            words = [word for row in self.rows for word in str(row[index]).split()]
            cells = min(UNBROKEN, max(map(len, words), default=0))
            width += max(cells, *map(len, column.split() or [""]))
        return width

    def _table(self) -> Table:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for index, column in enumerate(self.columns):
            is_number = bool(self.rows) and all(_is_number(row[index]) for row in self.rows)
            table.add_column(column, justify="right" if is_number else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*map(str, row))
        return table


def _is_number(value: object) -> bool:
    """Return whether a cell holds a number, or stands for one that is not known."""
    return isinstance(value, int | float) or value == "?"


def as_json(data: Mapping[str, object]) -> str:
    """Return JSON for scripts."""
    return json.dumps(data, indent=2)


def as_flow(data: Mapping[str, object]) -> str:
    """Return YAML on one line without its outer braces, as a step stands in a scenario."""
    return _dumped(data, in_flow=True).removeprefix("{").removesuffix("}")


def _dumped(data: Mapping[str, object], *, in_flow: bool) -> str:
    from ruamel.yaml import YAML
    from ruamel.yaml.representer import SafeRepresenter

    class Representer(SafeRepresenter):
        """Quotes text that some readers would take for something else."""

    Representer.add_representer(str, _represent_text)
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = Representer
    yaml.default_flow_style = in_flow
    yaml.width = sys.maxsize
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = StringIO()
    # Through JSON first: tuples, enums and mapping types become what YAML knows.
    yaml.dump(json.loads(json.dumps(data)), text)
    return text.getvalue().rstrip("\n")


def _represent_text(representer: Any, text: str) -> Any:
    """Return text in quotes if it is to be read as it is, everywhere."""
    from mesh.config.scalars import needs_quotes

    style = '"' if _NEXT_LINE in text or needs_quotes(text) else None
    return representer.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def in_utc(ms: float, timespec: str = "seconds") -> str:
    """Return a moment for people, in UTC; one that is in no calendar as what a record says."""
    try:
        return datetime.fromtimestamp(ms / 1000, tz=UTC).isoformat(timespec=timespec)
    except (OverflowError, ValueError, OSError):
        return f"{ms:.0f} ms"


def of_today(text: str) -> str:
    """Return a moment that `in_utc` made as `05:52:10Z` if it is of today, else with its date."""
    date, _, time_of_day = text.replace("+00:00", "Z").partition("T")
    today = in_utc(clock.wall_ms()).startswith(f"{date}T")
    return time_of_day if today else f"{date} {time_of_day}"


def printable(text: str) -> str:
    """Return text that cannot steer a terminal or break a line."""
    return "".join(
        character if character.isprintable() else f"\\u{ord(character):04x}" for character in text
    )


def printable_lines(text: str) -> str:
    """Return text that cannot steer a terminal; its lines stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def say(line: str) -> None:
    """Write a line for people on standard error; what strangers wrote in it steers no terminal.

    Nobody has to read it: a change of a running mesh does not stop half way because `head` is gone,
    or the disk is full that has its log.
    """
    if sys.stderr is None:  # closed
        return
    with suppress(OSError):
        sys.stderr.write(printable_lines(line) + "\n")
        sys.stderr.flush()


def console(*, is_error: bool = False) -> Console:
    """Return where tables are written to: what strangers wrote is no markup, and steers nothing.

    Args:
        is_error: Whether that is standard error.
    """
    from rich.console import Console

    class PlainConsole(Console):
        """Shows escape sequences in cells and lines, which the library would pass on."""

        def render_str(self, text: str, **options: Any) -> Text:
            return super().render_str(printable_lines(text), **options)

    output = sys.stderr if is_error else sys.stdout
    width = None if output is not None and output.isatty() else WIDTH_WITHOUT_TERMINAL
    made = PlainConsole(markup=False, highlight=False, emoji=False, width=width, stderr=is_error)
    if made.width < 1:  # COLUMNS=0 says that nobody knows; the library would show nothing at all
        made.width = WIDTH_UNKNOWN
    return made
