"""The exceptions that rooms share. The type says whose fault it is and whether to try again.

What concerns one room stands there, and is a `MeshError` too if it leaves it: `RefusedError` of
the API, `OtherInForceError` of starting a mesh. `StoppedError` (`mesh.local.stopping`) is none: it
is no fault, and passes whoever catches those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeVar, cast

_K = TypeVar("_K")
_V = TypeVar("_V")


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


def missing_package(what: str, extra: str) -> StartError:
    """Return the error that something needs a package which an extra of the distribution brings."""
    return StartError(
        f"{what}: `make install` in the repository brings it to .venv; for another environment "
        f"`pip install 'FOLDER[{extra}]'`, with the folder of the repository"
    )


class SubjectError(MeshError, ValueError):
    """A text is not a valid subject or filter; the message says why."""


class OtherKindError(SubjectError):
    """The endpoint exists with another kind or class; nothing was changed. Spec: K13."""


class RoleRefusedError(MeshError):
    """The node refuses what an application asked of the tree layer; nothing has changed.

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
    """A command's output could not be written: a full disk, a closed stream. Exit code 1."""


class BackpressureError(MeshError):
    """The node takes no guaranteed messages just now; nothing was sent, try again later.

    An outbox or an endpoint with `whenFull: reject` is at its limit.
    """


class PausedError(BackpressureError):
    """An operator has paused this subject at the node, for both classes; try again later."""


class NodeGoneError(MeshError):
    """The node of a client is not in the topology in force: nobody would read what is written.

    Attributes:
        node: Its name.
        number: Of the topology in force.
    """

    def __init__(self, node: str, number: int) -> None:
        self.node = node
        self.number = number
        super().__init__(
            f"node {node} is not in topology {number}, which is in force; connect to another node"
        )


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
    """A change of the topology has begun, but is not in force in time. Exit code 10."""


class ProtocolError(MeshError):
    """The rules of the wire were broken; the two kinds below say by whom."""


class LocalProtocolError(ProtocolError):
    """Our own code asked for something the wire forbids: a bug here."""


class RemoteProtocolError(ProtocolError):
    """A peer or a client sent something the wire forbids: quarantine it and go on."""


class DecodeError(RemoteProtocolError):
    """Bytes that are not what their schema says."""


class UnknownVersionError(RemoteProtocolError):
    """A major version newer than this program knows: the link stops, and names it."""


class PoisonError(MeshError):
    """Routing fails over a record: nothing of its batch is committed, and it is tried alone."""


class ClosedError(MeshError):
    """A client was used after it was closed, or in a process forked after it was made."""


class SharedError(MeshError):
    """A client was used by a thread while another one was using it; nothing was done."""


class TransportError(MeshError):
    """Kafka did not do what was asked.

    Attributes:
        topics: The topics that took no records, as far as they are known.
    """

    def __init__(self, text: str, *, topics: Sequence[str] = ()) -> None:
        self.topics = tuple(topics)
        self._answers: Mapping[object, object] = {}
        super().__init__(text)

    def with_answers(self, answers: Mapping[_K, _V]) -> Self:
        """Attach the answers that came, where a question was about many things."""
        self._answers = cast("Mapping[object, object]", answers)
        return self

    def answers_to(self, _question: Callable[..., Mapping[_K, _V]]) -> Mapping[_K, _V]:
        """Return the answers that came to the question that raised it; often none."""
        return cast("Mapping[_K, _V]", self._answers)


class TransportUnavailableError(TransportError):
    """A broker cannot be reached just now; try again."""


class TransportStalledError(TransportUnavailableError):
    """Brokers say where a log ends, but the records before that do not arrive."""


class TransportHeldError(TransportUnavailableError):
    """The last transaction under an id still waits for a partition, so the id is taken."""


class TransportFencedError(TransportError):
    """A successor holds this lane: stop at once."""


class TransportUnknownError(TransportError):
    """Whether a transaction was committed is unknown, or a late request could disturb the next one.

    The writer is of no more use: open another with the same transactional id and read the
    positions again.
    """


class TransportUnreadableError(TransportError):
    """What a node wrote for itself is gone, or was written by a newer program.

    Attributes:
        offset: Of the record that stands in its place.
    """

    def __init__(self, text: str, *, offset: int) -> None:
        self.offset = offset
        super().__init__(text)


class TransportMovedError(TransportError):
    """The consumer group gave partitions to another member; nothing was committed."""


class TransportDeniedError(TransportError):
    """The broker refuses for good: rights, size or configuration."""


class TransportRecordError(TransportDeniedError):
    """The broker refuses one record, as too large or invalid; it may take others."""


class InvariantError(MeshError):
    """The program contradicts itself. Nothing goes on from there: the state is built again."""
