"""What operators want of a node, by the records on `mesh.config` of its Kafka cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mesh.model.control import Change, Stage
from mesh.model.inputs import Input, LossAccepted
from mesh.transport.port import Record
from mesh.wire.control import decode_change, decode_config, decode_stop
from mesh.wire.keys import (
    OPERATOR_KEYS,
    AcceptKey,
    ChangeKey,
    DisableKey,
    PauseKey,
    SubjectPauseKey,
    config_key,
    parse_key,
)
from mesh.wire.operator_records import RecordsOfOperators


@dataclass(slots=True)
class NodeOrders:
    """What operators want of one node now.

    Attributes:
        node: The node; orders for others are ignored.
        paused: Links that are not to be read.
        paused_subjects: Filters of what is not to be taken from clients.
        disabled: Neighbours whose link is disabled.
        change: The newest stage of a change of the topology.
        in_force: The final stage of the change that brought what is in force.
        is_left_to_files: Whether somebody has withdrawn that: nodes go by their files.
        owed: Number of a later topology by which a lane of this worker was taken; 0 for none.
        is_read_again: Whether the topic is read from its beginning; until `settle` what is paused
            and disabled is as it was before.
    """

    node: str
    paused: frozenset[PauseKey] = frozenset()
    paused_subjects: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    change: Change | None = None
    in_force: Change | None = None
    is_left_to_files: bool = False
    owed: int = 0
    is_read_again: bool = False
    _records: RecordsOfOperators = field(default_factory=RecordsOfOperators)

    def take(self, record: Record) -> Iterator[Input]:
        """Apply a record; yield what the node itself must learn.

        Raises:
            ProtocolError: It is unreadable, or of a later version.
        """
        value, key = record.value(), record.key() or b""
        if key == config_key():
            self.is_left_to_files = value is None
            if value is None:
                self.in_force = None
            else:
                config = decode_config(value)
                read = Change(config.number, Stage.RUN, config.topology, (), config.lineage)
                self.in_force = Change.newest([self.in_force, read])
            return
        found = parse_key(key, OPERATOR_KEYS)
        match found:
            case ChangeKey() if value is not None:
                self.change = Change.newest([self.change, decode_change(value)])
            case AcceptKey(node, topic, partition) if node == self.node:
                stop = None if value is None else decode_stop(value)
                yield LossAccepted(topic, partition, stop)
            case PauseKey(node) | SubjectPauseKey(node) | DisableKey(node) if node == self.node:
                try:
                    self._records.take_operator_record(found, value)
                finally:
                    if not self.is_read_again:
                        self._publish()
            case ChangeKey():
                pass  # one that was ended
            case AcceptKey() | PauseKey() | SubjectPauseKey() | DisableKey():
                pass  # for another node

    def begin_again(self) -> None:
        """Collect pauses anew: the topic lost its end, or is another one, and is read again.

        Those of before hold until that has been read: else what is paused would flow meanwhile.
        """
        self._records, self.is_read_again = RecordsOfOperators(), True

    def settle(self) -> None:
        """Go by what was collected anew: the topic has been read to its end."""
        self.is_read_again = False
        self._publish()

    def _publish(self) -> None:
        self.paused = frozenset(self._records.pauses)
        self.paused_subjects = frozenset(self._records.subject_pauses)
        self.disabled = frozenset(self._records.disabled)

    @property
    def has_owed(self) -> bool:
        """Whether what is in force is what such a lane waits for, or newer."""
        return self.in_force is not None and 0 < self.owed <= self.in_force.number

    def word(self, number: int) -> Change | None:
        """Return what a worker that works by the topology of a number has to learn next.

        A worker that reads late may find that the next change has begun: what is in force meanwhile
        comes first, even where a node went by its own file (-1) before somebody wrote that. The
        same holds where another worker has started by it, and left a lane to this one. Spec: K28.
        """
        change, found = self.change, self.in_force
        if found is None or number >= found.number:
            return change
        if change is not None and change.number > found.number:
            return change if change.stage.has_switched else found
        return found if self.has_owed else change
