"""Headers of records, and the names of those that belong to the mesh. Spec: K7, K8."""

from __future__ import annotations

from collections.abc import Sequence

Headers = Sequence[tuple[str, bytes | None]]
"""In order; names may repeat and values be None."""

MESH_HEADER = "mesh"
"""Header of a delivered record: identity, path and class. Spec: K8."""

SUBJECT_HEADER = "mesh-subject"
"""Header by which a client addresses a record, and by which a delivery repeats it."""

GAP_HEADER = "mesh-gap"
"""The one header of a record in an endpoint that announces a loss: JSON. Spec: DESIGN 6."""

BY_HEADER = "mesh-by"
"""Header of a record of `roles` that a node has written itself: its epoch."""

LEASE_HEADER = "mesh-lease"
"""Header of a record of `clients` that says nothing new about its subscription: the offset of the
record that it repeats to renew a lease, or empty if the node ends a lease that nobody has
renewed."""

_RESERVED_PREFIX = f"{MESH_HEADER}-"


def is_reserved(name: str) -> bool:
    """Return whether clients may not set the header: `mesh`, or `mesh-` and more.

    `mesh-subject` is reserved as well; at ingress the mesh reads it before it removes it.

    Spec: K7.
    """
    return name == MESH_HEADER or name.startswith(_RESERVED_PREFIX)


def header_fault(name: str) -> str | None:
    """Return why a client may not give a header this name, or None if it may.

    Spec: K7.
    """
    if is_reserved(name):
        return f"header {name!r} belongs to the mesh; choose another name"
    if "\0" in name:
        return f"header {name!r} has a NUL, where the client library ends it; choose another name"
    return None
