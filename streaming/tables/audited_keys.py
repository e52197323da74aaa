"""Which records of the control plane count for audits: by their keys, of each kind of topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from mesh.model.facts import (
    Accepted,
    EpochRaised,
    ErasBegun,
    Fact,
    Gap,
    Halted,
    Held,
    InterestInForce,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncations,
)
from mesh.model.frames import MessageClass
from mesh.wire.keys import (
    AckKey,
    AdvertKey,
    HeartbeatKey,
    IdentityKey,
    LinkKey,
    LinksKey,
    MarkKey,
    NeighbourKey,
    NodeKey,
    RepairKey,
    StopKey,
    SubscribedKey,
    change_key,
    config_key,
    heartbeat_key,
    identity_key,
    link_key,
    repair_key,
    stop_key,
)
from streaming.tables.cached_columns import cached_columns
from streaming.tables.topics import CONFIG, OUTBOX

ADVERT = r"^advert \S+ (?!\$node/)"
"""Keys of interest that nodes offer, their addresses left out. Spec: K22, K26."""

READ_OF_NODES: Mapping[type[NodeKey], bytes] = {
    IdentityKey: identity_key(),
    HeartbeatKey: heartbeat_key(),
    StopKey: stop_key("", 0),
}
"""What nodes write of themselves that counts for audits, each with a key of its kind."""

UNREAD_OF_NODES: Sequence[type[NodeKey]] = (SubscribedKey, AdvertKey, MarkKey, LinksKey)
"""Interest: it is audited by what clients asked for, and by cuts."""

READ_OF_LINKS: Mapping[type[NeighbourKey], bytes] = {
    LinkKey: link_key(),
    RepairKey: repair_key(bytes(16), 0, 0, MessageClass.GUARANTEED),
}
"""What nodes write to a neighbour that counts for audits, each with a key of its kind."""

UNREAD_OF_LINKS: Sequence[type[NeighbourKey]] = (AckKey,)
"""Acknowledgements: they are between neighbours."""

READ_OF_LANES: Sequence[type[Fact]] = (SourceAt, Sent, Accepted, Gap, Held)
"""Facts of lanes that count for audits."""

UNREAD_OF_LANES: Sequence[type[Fact]] = (
    EpochRaised,
    InterestInForce,
    Halted,
    ErasBegun,
    Truncations,
    PartlyTaken,
)
"""Facts by which a lane goes on, and which no audit asks for: accounts and frames tell as much."""


def _like(keys: Iterable[bytes]) -> str:
    """Return the pattern of keys that begin with the same words; of one word they are the same."""
    parts = (key.decode().partition(" ") for key in keys)
    return f"^({'|'.join(word + (blank or '$') for word, blank, _ in parts)})"


OF_THE_TOPOLOGY = (config_key().decode(), change_key().decode())
"""Keys of `mesh.config` that count, those of other orders left out."""

OF_NODES = _like(READ_OF_NODES.values())
OF_LINKS = _like(READ_OF_LINKS.values())
OF_LANES = f"^({'|'.join(one.word for one in READ_OF_LANES)}) "
"""Keys of small topics under which something counts for audits."""


@cached_columns
def is_kept() -> Column:
    """Return a column: whether each record of this key counts, not only the newest."""
    key, kind = F.col("key").cast("string"), F.col("topic_kind")
    return (kind == "clients") | ((kind == CONFIG) & key.isin(*OF_THE_TOPOLOGY))


@cached_columns
def is_wanted() -> Column:
    """Return a column: whether a record of a small topic counts at all, ledgers apart."""
    key = F.col("key").cast("string")
    return (
        is_kept()
        | ((F.col("topic_kind") == "control") & key.rlike(OF_NODES))
        | ((F.col("topic_kind") == OUTBOX) & key.rlike(OF_LINKS))
        | ((F.col("topic_kind") == "progress") & key.rlike(OF_LANES))
    )


@cached_columns
def is_advert() -> Column:
    """Return a column: whether a record offers interest."""
    return (F.col("topic_kind") == "control") & F.col("key").cast("string").rlike(ADVERT)


@cached_columns
def scope_of() -> Column:
    """Return the scope in which an advert offers interest."""
    return F.get(F.split(F.col("key").cast("string"), " "), F.lit(1))
