"""What operators want of a node, as the records on `mesh.config` of its Kafka cluster say it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mesh.errors import DecodeError
from mesh.model.control import Change, Stage
from mesh.model.inputs import Input, LossAccepted
from mesh.model.subject import filter_fault
from mesh.transport.port import Record
from mesh.wire.control import decode_change, decode_config, decode_pause, decode_stop
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
from mesh.worker.control.changing import FOLLOWED, newest


@dataclass(slots=True)
class OperatorOrders:
    """What operators want of one node now.

    Attributes:
        node: Whom it is for; what is for others is passed over.
        paused: Links that are not to be read.
        paused_subjects: Filters of what is not to be taken of clients.
        disabled: Neighbours whose link is disabled.
        change: Their newest word on a change of the topology.
        in_force: The last word on the change that brought what is in force.
    """

    node: str
    paused: frozenset[PauseKey] = frozenset()
    paused_subjects: frozenset[str] = frozenset()
    disabled: frozenset[str] = frozenset()
    change: Change | None = None
    in_force: Change | None = None

    def take(self, record: Record) -> Iterator[Input]:
        """Follow a record; yield what the node itself must hear.

        Raises:
            ProtocolError: Nobody can read it, or it is of a later version.
        """
        value, key = record.value(), record.key() or b""
        if key == config_key():
            if value is not None:
                config = decode_config(value)
                read = Change(config.number, Stage.RUN, config.topology, (), config.lineage)
                self.in_force = newest(self.in_force, read)
            return
        found = parse_key(key, OPERATOR_KEYS)
        match found:
            case ChangeKey() if value is not None:
                self.change = newest(self.change, decode_change(value))
            case AcceptKey(node, topic, partition) if node == self.node:
                stop = None if value is None else decode_stop(value)
                yield LossAccepted(topic, partition, stop)
            case PauseKey(node) | SubjectPauseKey(node) | DisableKey(node) if node == self.node:
                if value is not None:
                    decode_pause(value)
                self._put(found, is_wanted=value is not None)
            case ChangeKey():
                pass  # one that was ended
            case AcceptKey() | PauseKey() | SubjectPauseKey() | DisableKey():
                pass  # for another node

    def word(self, number: int) -> Change | None:
        """Return what a worker that works by the topology of a number is to learn next.

        Who reads late may find the next change begun: what is in force meanwhile comes first. A
        node that works by its own file (-1) waits for the change itself. Spec: K28.
        """
        change, found = self.change, self.in_force
        if change is None or found is None or change.stage in FOLLOWED:
            return change
        has_missed = 0 <= number < found.number < change.number
        return found if has_missed else change

    def _put(self, key: PauseKey | SubjectPauseKey | DisableKey, *, is_wanted: bool) -> None:
        match key:
            case PauseKey():
                self.paused = self.paused | {key} if is_wanted else self.paused - {key}
            case SubjectPauseKey(_, filter_):
                if is_wanted and (fault := filter_fault(filter_)) is not None:
                    raise DecodeError(f"paused subjects: {fault}")
                paused = self.paused_subjects
                self.paused_subjects = paused | {filter_} if is_wanted else paused - {filter_}
            case DisableKey(_, neighbour):
                names = {neighbour}
                self.disabled = self.disabled | names if is_wanted else self.disabled - names
