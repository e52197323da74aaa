"""What a node starts with: the topology in force if `mesh.config` has one, else its file. K27.

Where a record hides what is in force the node does not start: nobody may guess that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import structlog

from mesh.config.published import (
    differ_in_addresses_at_most,
    published_text,
    published_topology,
)
from mesh.core.lineage import first_lineage
from mesh.errors import ProtocolError, TransportUnreadableError
from mesh.lane.hidden_keys import HiddenKeys
from mesh.model.control import UNKNOWN_LINEAGE, Change, Lineage, Stage
from mesh.model.topology import Topology
from mesh.node.relinking import link_changes, with_node
from mesh.transport.port import Record
from mesh.wire.control import decode_change, decode_config
from mesh.wire.keys import change_key, config_key

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TopologyStart:
    """What a node starts with.

    Attributes:
        topology: What it works by.
        number: Its number; -1 if there was no record and the node's file stands in.
        change: The newest word on a change, or None.
        awaited: Neighbours that have to wait for one another in that change, if it is under way.
        lineage: Of the topology.
    """

    topology: Topology
    number: int = -1
    change: Change | None = None
    awaited: Sequence[str] = ()
    lineage: Lineage = UNKNOWN_LINEAGE


def read_start(file: Topology, node: str, records: Iterable[Record]) -> TopologyStart:
    """Return what a node works by: what is in force if there is a record of it, else its file.

    Args:
        file: What its file says.
        node: Who starts.
        records: All of `mesh.config` on the node's own Kafka cluster.

    Raises:
        ConfigError: What is in force is not known to this version.
        TransportUnreadableError: A record hides what is in force: nobody may guess that.
    """
    change: Change | None = None
    before: tuple[int, str] | None = None
    texts: dict[int, tuple[str, Lineage]] = {}
    hidden = HiddenKeys()
    for record in records:
        key, value = record.key() or b"", record.value()
        if key not in (config_key(), change_key()):
            continue
        if value is None:
            hidden.cleared(key)  # an operator wants nodes to go by the rest
            continue
        try:
            if key == config_key():
                config = decode_config(value)
                written = (config.topology, config.lineage)
                texts[config.number] = max(written, texts.get(config.number, written))
            else:
                change = Change.newest([change, decode_change(value)])
        except ProtocolError as error:
            hidden.hides(key, record, error)
            log.warning("config.unreadable", offset=record.offset(), fault=str(error))
        else:
            hidden.read(key)
    for record, fault in hidden.records:
        raise TransportUnreadableError(
            f"{record.topic()} offset {record.offset()}: {fault}; nobody knows which topology is "
            "in force: look who writes there besides `mesh`; after a record with this key and no "
            "value nodes go by their files",
            offset=record.offset(),
        )
    if texts:
        highest = max(texts)
        before = highest, texts[highest][0]
    if change is not None and change.stage.has_switched:
        texts.setdefault(change.number, (change.topology, change.lineage))
    if not texts:
        return TopologyStart(file, change=change, lineage=first_lineage(file))
    number = max(texts)
    topology, (text, lineage) = file, texts[number]
    if text != published_text(file):
        in_force = published_topology(text)
        topology = with_node(in_force, node, _as_made(file, node, in_force))
        if not differ_in_addresses_at_most(in_force, file):
            log.warning(
                "topology.differs", in_force=number, text="the node's file says something else"
            )
    return TopologyStart(
        topology, number, change, _awaited(before, change, topology, node), lineage
    )


def _as_made(file: Topology, node: str, in_force: Topology) -> Topology:
    """Return a node's file with what it was made with, which no file can change. Spec: K2, K14."""
    declared = in_force.nodes.get(node, file.nodes[node])
    made = replace(file.nodes[node], lanes=declared.lanes, partitions=declared.partitions)
    return replace(file, nodes={**file.nodes, node: made})


def _awaited(
    before: tuple[int, str] | None, change: Change | None, topology: Topology, node: str
) -> Sequence[str]:
    """Return the neighbours that have to wait for one another in the change that nodes follow now.

    Once the target is published as what is in force, every node that had to be there has been
    linked: nobody is waited for again.
    """
    if change is None or change.stage is not Stage.SWITCH:
        return ()
    if before is None:
        return topology.neighbours(node)  # nobody knows what was in force
    if before[0] >= change.number:
        return ()
    return link_changes(
        with_node(published_topology(before[1]), node, topology), topology, node
    ).awaited
