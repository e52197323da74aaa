"""What operators want of a node, by the records on `mesh.config` of its Kafka cluster.

Nodes, their clients and those who watch a mesh keep it in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.errors import DecodeError
from mesh.model.control import Pause
from mesh.model.subject import filter_fault
from mesh.wire.control import decode_pause
from mesh.wire.keys import DisableKey, PauseKey, SubjectPauseKey


@dataclass(slots=True)
class RecordsOfOperators:
    """What operators want of one node.

    Attributes:
        pauses: Links, or partitions of them, that it does not read.
        disabled: Neighbours whose link is disabled.
        subject_pauses: Filters of what it does not take from its clients.
    """

    pauses: dict[PauseKey, Pause] = field(default_factory=dict)
    disabled: dict[str, Pause] = field(default_factory=dict)
    subject_pauses: dict[str, Pause] = field(default_factory=dict)

    def take_operator_record(
        self, key: PauseKey | DisableKey | SubjectPauseKey, value: bytes | None
    ) -> None:
        """Apply a record about the node; one without a value ends what it wants.

        The former value of the key ends in any case: compaction removes it, and later readers find
        only the last record.

        Raises:
            ProtocolError: The value is unreadable, or the filter is not valid.
        """
        match key:
            case PauseKey():
                self.pauses.pop(key, None)
                if value is not None:
                    self.pauses[key] = decode_pause(value)
            case DisableKey(_, neighbour):
                self.disabled.pop(neighbour, None)
                if value is not None:
                    self.disabled[neighbour] = decode_pause(value)
            case SubjectPauseKey(_, filter_):
                self.subject_pauses.pop(filter_, None)
                if value is not None:
                    pause = decode_pause(value)
                    if (fault := filter_fault(filter_)) is not None:
                        raise DecodeError(f"paused subjects: {fault}")
                    self.subject_pauses[filter_] = pause
