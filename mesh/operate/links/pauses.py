"""Links and subjects that operators pause: messages wait where they are, nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.model.control import Pause
from mesh.view.mesh_view import RunningMesh
from mesh.view.operator_records import write_config
from mesh.wire.control import encode_pause
from mesh.wire.keys import PauseKey, SubjectPauseKey, pause_key, subject_pause_key


def keys_of(
    one: str, other: str, *, source: str | None = None, partition: int | None = None
) -> Sequence[PauseKey]:
    """Return the keys for a link, in both directions or away from `source` only."""
    ways = ((one, other), (other, one))
    return [PauseKey(reader, at, partition) for reader, at in ways if source in (None, at)]


def pauses_on_link(mesh: RunningMesh, one: str, other: str) -> Mapping[PauseKey, Pause]:
    """Return what is paused on a link, in both directions, whole or in parts."""
    return {
        key: pause
        for reader, at in ((one, other), (other, one))
        for key, pause in mesh.view.nodes[reader].pauses.items()
        if key.neighbour == at
    }


def write_pauses(
    mesh: RunningMesh, keys: Sequence[PauseKey | SubjectPauseKey], pause: Pause | None
) -> None:
    """Pause these, or with None end their pauses; write to each node's own Kafka cluster.

    Raises:
        TransportError: Kafka did not accept it.
    """
    value = None if pause is None else encode_pause(pause)
    for key in keys:
        written = pause_key(key) if isinstance(key, PauseKey) else subject_pause_key(key)
        write_config(mesh.home_of(key.node), mesh.topology.prefix, written, value)
