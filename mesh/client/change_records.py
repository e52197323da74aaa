"""The records of changes of the topology on `mesh.config` of every Kafka cluster. Spec: K28."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mesh.client.wishes import write_config
from mesh.codec.control import encode_change
from mesh.codec.keys import change_key
from mesh.errors import TransportError
from mesh.model.control import Change, Stage
from mesh.transport.port import KafkaCluster

_ORDER = (Stage.HOLD, Stage.ABORT, Stage.SWITCH, Stage.RUN)
"""No change is aborted that anybody may have switched to, so `switch` wins over `abort`."""


def change_order(change: Change) -> tuple[int, int]:
    """Return what is greater for the newer of two records."""
    return change.number, _ORDER.index(change.stage)


def newest(changes: Iterable[Change]) -> Change | None:
    """Return the newest record; a writer that died leaves older ones in some Kafka clusters."""
    return max(changes, key=change_order, default=None)


def write_change(change: Change, kafka: Mapping[str, KafkaCluster], prefix: str) -> None:
    """Write a record to every Kafka cluster, whatever some of them say.

    Raises:
        TransportError: Some did not take it; names them.
    """
    faults: list[str] = []
    for name, cluster in kafka.items():
        try:
            write_config(cluster, prefix, change_key(), encode_change(change))
        except TransportError as error:
            faults.append(f"Kafka cluster {name}: {error}")
    if faults:
        raise TransportError(
            f"stage {change.stage} of the change did not reach all: {'; '.join(faults)}; "
            "give the same command again"
        )
