"""What a lane remembers of broken chains, and could find out again. Spec: K11, K20."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.core.holds import ChainKey
from mesh.transport.port import TopicPartition


@dataclass(slots=True)
class BrokenChains:
    """When repairs were asked for, and which chains no repair can mend.

    Attributes:
        asked_ms: When a repair was asked for last.
        ask_again_ms: When one is to be asked for again: it has not come, or several times for
            nothing.
        given_up: Chains whose gap no repair can close: the next frame is accepted as it is.
        forgiven: Outbox partitions where an operator accepted a frame that cannot be read. Whose it
            was is unknown, so the next hole there, of whatever source, is asked for by nobody.
        unreadable: Outbox partitions where a frame could not be read since a repair was asked for.
    """

    asked_ms: dict[ChainKey, int] = field(default_factory=dict)
    ask_again_ms: dict[ChainKey, int] = field(default_factory=dict)
    given_up: set[ChainKey] = field(default_factory=set)
    forgiven: set[TopicPartition] = field(default_factory=set)
    unreadable: dict[TopicPartition, None] = field(default_factory=dict)
