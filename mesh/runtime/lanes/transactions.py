"""What a lane has decided goes to its Kafka cluster: one transaction per batch. Spec: K12, K17."""

from __future__ import annotations

from dataclasses import dataclass

from mesh.lane.batch import Batch, Rows
from mesh.runtime.lanes.commits import Commits, Outcome
from mesh.transport.port import Writer


@dataclass(slots=True)
class Transactions:
    """The transactions of one lane.

    Attributes:
        writer: Writes them.
        outcome: Of the commit that is under way; None if none is, or it is through, and well.
        is_committing: Whether one was begun and nobody has waited for it yet.
    """

    writer: Writer
    outcome: Outcome | None = None
    is_committing: bool = False
    _is_begun: bool = False

    def write(self, batch: Batch) -> None:
        """Hand over what a batch is to write by now, unless the one before is being committed.

        Raises:
            TransportError: No transaction can be begun.
        """
        if self.is_committing:
            return
        if not self._is_begun:
            self.writer.begin()
            self._is_begun = True
        write_rows(self.writer, batch.rows)

    def begin_commit(self, commits: Commits) -> None:
        """Begin to commit what was written."""
        self._is_begun, self.is_committing = False, True
        self.outcome = commits.begin(self.writer.commit)

    @property
    def is_through(self) -> bool:
        """Whether no commit is under way whose outcome nobody knows."""
        return self.outcome is None or self.outcome.done()

    def end_commit(self) -> None:
        """Wait for the commit that is under way.

        Raises:
            TransportError: Nothing was committed, or nobody knows.
        """
        outcome, self.outcome = self.outcome, None
        self.is_committing = False
        if outcome is not None:
            outcome.result()


def write_rows(writer: Writer, rows: Rows) -> None:
    """Hand over what is to be written; nothing of it is left then."""
    for (topic, partition), some in rows.items():
        writer.produce_all(topic, partition, some)
    rows.clear()
