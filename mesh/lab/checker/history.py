"""What clients were told, and what endpoints hold: the checker's input, and its file.

A history file holds one JSON object a line; `is` names what it is. Endpoints are written
`node/name`, moments are ms of one clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mesh.errors import ConfigError, wrong_input

_Shape = TypeVar("_Shape")

SEQUENCE_MAX = 1_000_000_000
"""What a publisher says is kept as a bit each: a larger number is no count of messages."""

LINE_MAX = 1 << 24
"""The longest line is that of the run, by its square number of ways between nodes."""


class PublishOutcome(StrEnum):
    """What a publisher was told of one message."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """One message as its publisher saw it.

    Attributes:
        publisher, sequence: Who, and its number from 0 without gaps.
        node, topic, partition: Where it was written.
        subject, key, headers: As written; headers as `name=value`, joined by `;`.
        guaranteed: Its class.
        outcome: Acknowledged, surely not accepted (an abort too), or nobody can say.
        invoked_ms, ended_ms: When it was handed over, and when the outcome was known.
        offset: In the ingress partition, if known.
        transaction: Number of the publisher's transaction that it was part of, or None.
    """

    publisher: str
    sequence: int
    node: str
    topic: str
    partition: int
    subject: str
    key: str | None
    headers: str
    guaranteed: bool
    outcome: PublishOutcome
    invoked_ms: int
    ended_ms: int
    offset: int | None = None
    transaction: int | None = None

    @property
    def payload(self) -> str:
        """Return the payload, which no other message has: it identifies the message."""
        return f"{self.publisher}-{self.sequence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionSpan:
    """A subscription and the moments between which it held.

    Attributes:
        endpoint, filter: Whose, and what for.
        guaranteed: Class of the endpoint.
        invoked_ms: When it was written; from here on deliveries are allowed.
        effective_ms: When it was known everywhere; from here on they are owed. None: never.
        ending_ms: When its end was written, or None.
        ended_ms: When its end was known everywhere; after it nothing is allowed.
    """

    endpoint: str
    filter: str
    guaranteed: bool
    invoked_ms: int
    effective_ms: int | None
    ending_ms: int | None = None
    ended_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRecord:
    """One committed record of an endpoint's topic.

    Attributes:
        endpoint, partition, offset: Where it is.
        payload, subject, key, headers: As a client reads them.
        origin: Ingress topic, partition and offset by the delivery header, or None.
    """

    endpoint: str
    partition: int
    offset: int
    payload: str
    subject: str
    key: str | None
    headers: str
    origin: tuple[str, int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """One run.

    Attributes:
        publishes: Every message, in any order.
        subscriptions: Every subscription.
        origins: For each node, the nodes from which it can be reached, with the filters of the
            joins on the way: messages come that all of them select.
        held: What endpoints hold at the end, each partition in order; read once per use.
        drained: Whether the last drain came to its end.
        drains: Moments at which everything acknowledged before had been delivered.
    """

    publishes: Sequence[Publish]
    subscriptions: Sequence[SubscriptionSpan]
    origins: Mapping[str, Mapping[str, Sequence[str]]]
    held: Iterable[HeldRecord]
    drained: bool
    drains: Sequence[int] = ()


def check_writable(path: Path) -> None:
    """Refuse before a run a file that could not be written after it; make it if there is none.

    Raises:
        ConfigError: It cannot be written.
    """
    try:
        path.open("a").close()
    except OSError as error:
        raise _bad(path, 0, f"cannot be written: {error.strerror}; name another file") from error


def write_history(path: Path, history: History) -> None:
    """Write a history file, over what is there."""
    with path.open("w", encoding="utf-8") as file:
        for line in _lines(history):
            file.write(json.dumps(line, separators=(",", ":")) + "\n")


def _lines(history: History) -> Iterator[Mapping[str, object]]:
    end = {"drained": history.drained, "drains": list(history.drains)}
    yield {"is": "run", **end, "origins": {n: dict(o) for n, o in history.origins.items()}}
    for subscription in history.subscriptions:
        yield {"is": "subscription", **asdict(subscription)}
    for publish in history.publishes:
        yield {"is": "publish", **asdict(publish)}
    for held in history.held:
        yield {"is": "held", **asdict(held)}


def read_history(path: Path) -> History:
    """Read a history file; what endpoints hold is read from it again at each use.

    Raises:
        ConfigError: It is no such file; names the line.
    """
    run: dict[str, Any] = {}
    at = 0
    publishes: dict[str, Publish] = {}
    subscriptions: list[SubscriptionSpan] = []
    for number, line in _objects(path):
        with _Located(path, number):
            match line.pop("is"):
                case "run":
                    run, at = line, number
                case "publish":
                    _add(publishes, _read(Publish, line))
                case "subscription":
                    subscriptions.append(_read(SubscriptionSpan, line))
                case "held":
                    _read(HeldRecord, line)
                case other:
                    raise ValueError(f"no record is called {other!r}")
    if not run:
        raise _bad(path, 1, "no line with `is: run`; this is not a history of a storm")
    with _Located(path, at):
        return History(
            publishes=list(publishes.values()),
            subscriptions=subscriptions,
            origins={node: _ways(sources) for node, sources in run["origins"].items()},
            held=_HeldInFile(path),
            drained=bool(run["drained"]),
            drains=_read(list[int], run["drains"]),
        )


def _add(known: dict[str, Publish], publish: Publish) -> None:
    if not 0 <= publish.sequence < SEQUENCE_MAX:
        raise ValueError(f"sequence: {publish.sequence} is not between 0 and {SEQUENCE_MAX}")
    if known.setdefault(publish.payload, publish) is not publish:
        raise ValueError(f"two publishes are called {publish.payload}")


def _ways(sources: object) -> Mapping[str, Sequence[str]]:
    """Return the ways to a node; files of the time before joins name only where they begin."""
    if isinstance(sources, Mapping):
        return _read(dict[str, tuple[str, ...]], sources)
    return dict.fromkeys(_read(list[str], sources), ())


@dataclass(frozen=True, slots=True)
class _HeldInFile:
    """The held records of a file, which may be too many for the memory."""

    path: Path

    def __iter__(self) -> Iterator[HeldRecord]:
        for _, line in _objects(self.path):
            if line.pop("is") == "held":
                yield _read(HeldRecord, line)


def _read(shape: type[_Shape], value: object) -> _Shape:
    """Return what a file says as such a value.

    Raises:
        ValueError: It is not one; says in one line what is wrong.
    """
    kind: Any = shape
    try:
        found: _Shape = _adapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from error
    return found


@cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    return TypeAdapter(shape)


def _objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, text in enumerate(iter(lambda: file.readline(LINE_MAX + 1), ""), 1):
                if len(text) > LINE_MAX:
                    raise _bad(path, number, "no line of a history is so long; name a history file")
                with _Located(path, number):
                    yield number, dict(json.loads(text))
    except OSError as error:
        raise _bad(path, 0, f"cannot be read: {error.strerror}; name a history file") from error
    except UnicodeDecodeError as error:
        raise _bad(path, 0, f"is not UTF-8 at byte {error.start}; name a history file") from error


_FAULTS = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


@dataclass(slots=True)
class _Located:
    """Turns what goes wrong with one line into a located problem."""

    path: Path
    number: int
    _kinds: tuple[type[Exception], ...] = field(default=_FAULTS)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._kinds):
            what = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            text = f"no line of a history: {what}; name a file that a storm wrote with --history"
            raise _bad(self.path, self.number, text) from error


def _bad(path: Path, number: int, message: str) -> ConfigError:
    where = f"{path}:{number}" if number else str(path)
    return wrong_input(where, message, code="BAD_HISTORY")
