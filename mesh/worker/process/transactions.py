"""Writes decisions to a Kafka cluster, one transaction at a time. Spec: K12, K17."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.lane.batch import Rows
from mesh.transport.port import Writer
from mesh.worker.process.commits import Commits, PendingCommit


@dataclass(slots=True)
class LaneTransactions:
    """The transactions of one lane: one per batch.

    Attributes:
        writer: Writes them.
        pending: The commit under way.
    """

    writer: Writer
    pending: PendingCommit = field(default_factory=PendingCommit)
    _is_begun: bool = False

    def write(self, rows: Rows) -> None:
        """Hand over what is to be written, unless the previous transaction is still committing.

        Raises:
            TransportError: No transaction can be begun.
        """
        if self.pending.is_any:
            return
        if not self._is_begun:
            self.writer.begin()
            self._is_begun = True
        write_rows(self.writer, rows)

    def begin_commit(self, commits: Commits) -> None:
        """Begin to commit what was written."""
        self._is_begun = False
        self.pending.begin(commits, self.writer.commit)

    def close(self) -> None:
        """Close the writer as soon as no commit of it is under way."""
        self.pending.close(self.writer)


def transact(writer: Writer, rows: Rows) -> None:
    """Write rows in a transaction of their own, and wait for it.

    Raises:
        TransportError: Nothing was committed, or nobody knows.
    """
    writer.begin()
    write_rows(writer, rows)
    writer.commit()


def write_rows(writer: Writer, rows: Rows) -> None:
    """Hand over rows to be written, and clear them."""
    for (topic, partition), some in rows.items():
        writer.produce_all(topic, partition, some)
    rows.clear()
