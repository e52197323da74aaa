"""What an in-memory Kafka cluster may do to its clients, at the very calls where real ones do.

Nothing happens unless somebody asks for it: a cluster without `MemoryBroker.faults` is kind.
Spec: reliability.md R3, 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Call(StrEnum):
    """A moment in a call of a port: before it takes effect or, in the past tense, after."""

    OPEN = "open"
    OPENED = "opened"
    BEGIN = "begin"
    PRODUCE = "produce"
    COMMIT = "commit"
    COMMITTED = "committed"
    ABORT = "abort"
    CREATE = "create"
    CREATED = "created"
    READ = "read"
    POLL = "poll"


class Outcome(StrEnum):
    """What becomes of a begin, commit or abort instead of success.

    Attributes:
        FAILED: TransportError; nothing of the transaction is ever seen.
        UNKNOWN_COMMITTED: TransportUnknownError, although it took effect. A second copy of the
            request is still on its way: see `MemoryWriter`.
        UNKNOWN_ABORTED: TransportUnknownError; the request was lost, and the transaction stays
            open until a successor fences the writer.
    """

    FAILED = "failed"
    UNKNOWN_COMMITTED = "unknown-committed"
    UNKNOWN_ABORTED = "unknown-aborted"


class CrashNow(BaseException):
    """The calling worker dies here. No code of the mesh may catch it; the simulator does."""


class MemoryFaults:
    """Asked before and after each call of a port. This one lets everything succeed; override it.

    Every method may raise `CrashNow`.
    """

    def called(self, call: Call, client: str, what: str) -> Outcome | None:  # noqa: ARG002
        """Decide what becomes of a call.

        Args:
            call: The moment.
            client: Name of the reader, writer or membership.
            what: Transactional id, topic or group.

        Returns:
            For begin, commit and abort what happens instead of success. For poll anything but None
            means that the brokers do not hear the member, nor it them. Else ignored.
        """
        return None

    def asked(self, question: str, about: Sequence[str]) -> None:
        """Let an admin that asks have its answer, if the brokers are there.

        Args:
            question: The method of `Admin`.
            about: The topics or the group that it is about; none where it is about brokers.

        Raises:
            TransportError: What the brokers answer instead.
        """

    def fetch_limit(self, client: str, limit: int) -> int:  # noqa: ARG002
        """Return how many records a read may return: fewer than asked for, or 0 for a late broker.

        Args:
            client: Name of the reader.
            limit: What it asked for.
        """
        return limit

    def late_records(self) -> int:
        """Return with which record from now on the second copy of a request arrives: 1 or more."""
        return 1

    def waited(self, client: str, timeout_s: float) -> None:
        """Let the time pass that a real reader would have waited in vain.

        Raises:
            TransportUnavailableError: Nothing will come before the caller gives up.
        """

    def costs(self, what: str, ms: int) -> None:
        """Record how long a real call would wait for brokers that answer late, or not.

        Args:
            what: `admin`, `open`, `flush` or `commit`; of a reader that asks who leads topics
                `read` and its name.
            ms: How long.
        """

    def appended(self, topic: str, partition: int) -> None:
        """Record that readers may see more of a partition than before."""
