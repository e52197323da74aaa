"""Every exception of the project. The type says whose fault it is and whether to try again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


class MeshError(Exception):
    """Root of all errors raised on purpose. Its text is one line fit for a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing wrong with a file or a topology, located.

    Attributes:
        code: Stable upper-case word for scripts, for example ``UNKNOWN_KEY``.
        message: What is wrong and what to do, in one line.
        where: ``file:line:column: path`` or the closest to it that is known.
        walks: For illegal topologies, the two walks that reach one node.
        edit: For illegal topologies, the smallest edit that makes the file legal.

    Spec: lab.md 3.
    """

    code: str
    message: str
    where: str = ""
    walks: Sequence[Sequence[str]] = field(default=())
    edit: Sequence[object] = field(default=())

    def line(self) -> str:
        """Return the problem as the one line that the command line prints."""
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.message} [{self.code}]"

    def as_mapping(self) -> dict[str, object]:
        """Return the problem as scripts read it. Spec: lab.md 3."""
        return {
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "walks": [list(walk) for walk in self.walks],
            "edit": list(self.edit),
        }


class ConfigError(MeshError):
    """What the user wrote is wrong; lists all problems at once. Exit code 2."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.line() for problem in self.problems))


def wrong_input(where: str, message: str, *, code: str = "BAD_VALUE") -> ConfigError:
    """Return the error for one wrong option, parameter or value."""
    return ConfigError([Problem(code=code, message=message, where=where)])


class SubjectError(MeshError, ValueError):
    """A text is no valid subject or filter; the text says why."""


class OtherKindError(SubjectError):
    """An endpoint has another kind or class already, and nothing was changed. Spec: K13."""


class RoleRefusedError(MeshError):
    """The node does not do what an application asked of the tree layer; nothing has changed.

    Attributes:
        code: A fixed word, such as `EXCLUSIVE_HELD`.
        text: Why, and what to do.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text} [{code}]")
        self.code = code
        self.text = text


class StartError(MeshError):
    """Something the mesh needs could not be had: Java, a broker, a port. Exit code 1."""


class OutputError(MeshError):
    """What a command has to say could not be written: a full disk, a closed stream. Exit code 1."""


class NotPublishedError(MeshError):
    """Messages that Kafka did not take; they may be published again.

    Attributes:
        failed: How many.
        refused: Subject of each, and why it was not taken; the first thousand.
    """

    def __init__(self, text: str, *, failed: int, refused: Sequence[tuple[str, str]] = ()) -> None:
        self.failed = failed
        self.refused = tuple(refused)
        super().__init__(text)


class BackpressureError(MeshError):
    """As much waits for a neighbour as may, and the node takes nothing more; try again later."""


class PausedError(BackpressureError):
    """Nothing of the subject is taken at the node: an operator has paused it; try again later."""


class LaggardsError(MeshError):
    """A subscription is in force, but not yet known everywhere. Exit code 10.

    Attributes:
        open_links: The links (from, to) over which it is not acknowledged. Spec: K24.
    """

    def __init__(self, text: str, *, open_links: Sequence[tuple[str, str]] = ()) -> None:
        self.open_links = tuple(open_links)
        super().__init__(text)


class NotBegunError(MeshError):
    """A change of the topology was not begun, because the mesh cannot follow. Exit code 2."""


class NotInTimeError(MeshError):
    """A change of the topology has begun and is not in force in time. Exit code 10."""


class ProtocolError(MeshError):
    """Somebody broke the wire's rules; see the two kinds below."""


class LocalProtocolError(ProtocolError):
    """Our own code asked for something the wire forbids: a bug here."""


class RemoteProtocolError(ProtocolError):
    """A peer or a client sent something the wire forbids: quarantine it and go on."""


class DecodeError(RemoteProtocolError):
    """Bytes that are not what their schema says."""


class UnknownVersionError(RemoteProtocolError):
    """A major version newer than this program: the link stops and names it."""


class PoisonError(MeshError):
    """A record breaks the routing itself: nothing of it is committed, and it is tried alone."""


class ClosedError(MeshError):
    """A client is used after it was closed, or in a process that was forked since it was made."""


class TransportError(MeshError):
    """Kafka did not do what was asked.

    Attributes:
        topics: The topics that took no records, as far as they are known.
        told: Of a question about many: the answers that there are all the same.
    """

    def __init__(self, text: str, *, topics: Sequence[str] = ()) -> None:
        self.topics = tuple(topics)
        self.told: Mapping[Any, Any] = {}
        super().__init__(text)


class TransportUnavailableError(TransportError):
    """A broker cannot be reached just now; trying again is right."""


class TransportStalledError(TransportUnavailableError):
    """Brokers tell where a log ends, and what lies before that does not come."""


class TransportHeldError(TransportUnavailableError):
    """The last transaction under an id waits for a partition, and holds the id meanwhile."""


class TransportFencedError(TransportError):
    """A successor holds this lane: stop at once."""


class TransportUnknownError(TransportError):
    """Whether a transaction was committed is unknown, or a late request could disturb the next one.

    The writer is spent: open one with the same transactional id and read the positions again.
    """


class TransportUnreadableError(TransportError):
    """What a node wrote for itself stands there no more, or in words of a newer program.

    Attributes:
        offset: Of the record that stands in its place.
    """

    def __init__(self, text: str, *, offset: int) -> None:
        self.offset = offset
        super().__init__(text)


class TransportMovedError(TransportError):
    """A consumer group has given partitions to another member; nothing was committed."""


class TransportDeniedError(TransportError):
    """The broker refuses us for good: rights, size or configuration."""


class TransportRecordError(TransportDeniedError):
    """The broker refuses a record for what it is, too large or invalid; others it may take."""


class InvariantError(MeshError):
    """The program contradicts itself. Nobody goes on from there: the state is made anew."""
