"""Who writes a control topic, and what nodes say there of their links, as inputs. Spec: K4, K27."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.inputs import IdentityRead, LinksRead
from mesh.wire.control import decode_identity
from mesh.wire.keys import IdentityKey, LinksKey
from mesh.wire.links import decode_node_links


def about_links(
    key: IdentityKey | LinksKey, value: bytes | None, neighbour: str = "", read_in: str = ""
) -> Iterator[IdentityRead | LinksRead]:
    """Yield what a record of a control topic says of links, or of who writes it.

    Args:
        key: The record's.
        value: The record's.
        neighbour: Whose control topic it is; empty for the own one.
        read_in: Id of the Kafka cluster that it was read from.
    """
    if value is None:
        return
    match key:
        case IdentityKey() if neighbour:
            told = decode_identity(value)
            yield IdentityRead(neighbour, told.uuid, told.cluster_id, read_in)
        case IdentityKey():
            pass  # a worker does not learn who leads its own node this way
        case LinksKey():
            yield LinksRead(decode_node_links(value))
