"""Bytes of control records and subscriptions, both ways. Spec: K4, K13, K21-K24, K32.

Every `encode_...` raises LocalProtocolError for a value that its schema cannot hold, every
`decode_...` DecodeError for bytes that are no such record and UnknownVersionError for a
major version that this program does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from mesh.model.control import (
    UNKNOWN_LINEAGE,
    Acknowledgement,
    Change,
    ChangeStatus,
    EndpointStatus,
    Heartbeat,
    Identity,
    Interest,
    Lineage,
    LinkNumbers,
    LinkState,
    LinkStatus,
    Mark,
    OutboxPosition,
    Pause,
    RepairRequest,
    Stage,
    Stop,
    TopicIdentity,
    TreeStatus,
)
from mesh.model.demands import QueueDemand
from mesh.model.names import name_fault
from mesh.wire.records import Fields, RecordCodec
from mesh.wire.subscriptions import decode_subscription, encode_subscription

__all__ = [
    "Config",
    "Learned",
    "decode_acknowledgement",
    "decode_advert",
    "decode_change",
    "decode_change_status",
    "decode_config",
    "decode_heartbeat",
    "decode_identity",
    "decode_learned",
    "decode_link_state",
    "decode_mark",
    "decode_pause",
    "decode_repair_request",
    "decode_stop",
    "decode_subscription",
    "encode_acknowledgement",
    "encode_advert",
    "encode_change",
    "encode_change_status",
    "encode_config",
    "encode_heartbeat",
    "encode_identity",
    "encode_learned",
    "encode_link_state",
    "encode_mark",
    "encode_pause",
    "encode_repair_request",
    "encode_stop",
    "encode_subscription",
]


class Learned(NamedTuple):
    """Last proven guaranteed interest of a neighbour's scope. Spec: K21."""

    epoch: int
    number: int
    filters: tuple[str, ...]


EPOCH_END = 1 << 31
"""No node's epoch gets this high: a record with such an epoch is not a node's. A leader takes one
above the highest that it reads, so there has to be a next one; sessions of tree links have no room
above."""


class Config(NamedTuple):
    """The topology in force: its number (the highest wins), the file as JSON text, its lineage."""

    number: int
    topology: str
    lineage: Lineage = UNKNOWN_LINEAGE


def _epoch(fields: Fields) -> int:
    epoch: int = fields["epoch"]
    if not 0 <= epoch < EPOCH_END:
        raise ValueError(f"no epoch is {epoch}")
    return epoch


def _signed(digest: int) -> int:
    return digest - (1 << 64) if digest >> 63 == 1 else digest


_IDENTITY = RecordCodec[Identity](
    "identity",
    lambda value: {
        "node": value.node,
        "uuid": value.uuid,
        "epoch": value.epoch,
        "cluster_id": value.cluster_id,
        "lanes": value.lanes,
        "topics": [
            {"name": topic.name, "id": topic.topic_id, "partitions": topic.partitions}
            for topic in value.topics
        ],
    },
    lambda fields: Identity(
        node=fields["node"],
        uuid=fields["uuid"],
        epoch=_epoch(fields),
        cluster_id=fields["cluster_id"],
        lanes=fields["lanes"],
        topics=tuple(
            TopicIdentity(topic["name"], topic["id"], topic["partitions"])
            for topic in fields["topics"]
        ),
    ),
)

_ADVERT = RecordCodec[Interest](
    "advert",
    lambda value: {
        "durable": value.durable,
        "live": value.live,
        "static": value.static,
        "clients_offset": value.clients_offset,
    },
    lambda fields: Interest(
        fields["durable"], fields["live"], fields["static"], fields["clients_offset"]
    ),
)

# The digest is a sum modulo 2^64; Avro's long is signed, so the upper half is written negative.
_MARK = RecordCodec[Mark](
    "mark",
    lambda value: {
        "epoch": value.epoch,
        "number": value.number,
        "count": value.count,
        "hash": _signed(value.digest),
        "topic_id": value.topic_id,
    },
    lambda fields: Mark(
        _epoch(fields),
        fields["number"],
        fields["count"],
        fields["hash"] % (1 << 64),
        fields["topic_id"],
    ),
)

_ENDPOINTS = "beat.endpoints"
"""Entry of `ext` of a heartbeat: JSON, a list of [endpoint, state, reason]."""


def _endpoints_ext(endpoints: Sequence[EndpointStatus]) -> Mapping[str, bytes]:
    rows = [[one.endpoint, one.state, one.reason] for one in endpoints]
    return {_ENDPOINTS: json.dumps(rows).encode()} if rows else {}


def _endpoints_of(ext: Mapping[str, bytes]) -> Sequence[EndpointStatus]:
    listed = json.loads(ext.get(_ENDPOINTS, b"[]"))
    return tuple(EndpointStatus(*map(str, one)) for one in listed)


def _lineage_fields(lineage: Lineage) -> Fields:
    return {
        "domain": lineage.domain,
        "links": [link._asdict() for link in lineage.links],
    }


def _lineage(fields: Fields) -> Lineage:
    return Lineage(fields["domain"], tuple(LinkNumbers(**link) for link in fields["links"]))


_CHANGE = RecordCodec[Change](
    "change",
    lambda value: {
        "number": value.number,
        "stage": value.stage,
        "topology": value.topology,
        "holding": list(value.holding),
        **_lineage_fields(value.lineage),
    },
    lambda fields: Change(
        fields["number"],
        Stage(fields["stage"]),
        fields["topology"],
        tuple(fields["holding"]),
        _lineage(fields),
    ),
)

_OPEN = "change.open"
"""Entry of `ext` of a change status: JSON, a list of [from, to]."""


def _open_ext(links: Sequence[tuple[str, str]]) -> Mapping[str, bytes]:
    return {_OPEN: json.dumps(links).encode()} if links else {}


def _open_of(ext: Mapping[str, bytes]) -> Sequence[tuple[str, str]]:
    return tuple((str(one), str(other)) for one, other in json.loads(ext.get(_OPEN, b"[]")))


_CHANGE_STATUS = RecordCodec[ChangeStatus](
    "change_status",
    lambda value: {
        "number": value.number,
        "stage": value.stage,
        "done": value.is_done,
        "ext": _open_ext(value.open_links),
    },
    lambda fields: ChangeStatus(
        fields["number"], Stage(fields["stage"]), fields["done"], _open_of(fields["ext"])
    ),
)

_CHANGED = "beat.change"
"""Entry of `ext` of a heartbeat: a record of its own, `change_status`."""


NUMBER_END = 1 << 63

_QUEUES = "beat.queues"
"""Entry of `ext` of a heartbeat: JSON, a list of [queue, node, epoch, number, room]."""

_COLOUR = "beat.colour"
"""Entry of `ext` of a heartbeat: the label of the node's part of the mesh, as text."""

_TREES = "beat.trees"
"""Entry of `ext` of a heartbeat: JSON, `{"links": [...], "refused": n}` of the tree layer."""


_LOST = "beat.lost_topology"
"""Entry of `ext` of a heartbeat: the number of the topology that `mesh.config` lost, as digits."""


def _trees_of(ext: Mapping[str, bytes]) -> TreeStatus | None:
    if _TREES not in ext:
        return None
    fields = json.loads(ext[_TREES])
    links, colour = tuple(str(one) for one in fields["links"]), str(fields.get("realm_colour", ""))
    return TreeStatus(links, int(fields["refused"]), colour)


def _queues_of(ext: Mapping[str, bytes]) -> Sequence[QueueDemand]:
    listed = json.loads(ext.get(_QUEUES, b"[]"))
    return tuple(_demand(*one) for one in listed)


def _demand(queue: object, node: object, *numbers: object) -> QueueDemand:
    """Return a demand that fits into the heartbeats of those that pass it on."""
    names = str(queue), str(node)
    for name in names:
        if fault := name_fault(name):
            raise ValueError(fault)
    epoch, number, room = (int(str(one)) for one in numbers)
    if not all(0 <= one < NUMBER_END for one in (epoch, number, room)):
        raise ValueError(f"no demand has the numbers {numbers}"[:200])
    return QueueDemand(*names, epoch, number, room)


def _beat_ext(beat: Heartbeat) -> Mapping[str, bytes]:
    ext = dict(_endpoints_ext(beat.endpoints))
    if beat.queues:
        rows = [[one.queue, one.node, *one.version, one.room] for one in beat.queues]
        ext[_QUEUES] = json.dumps(rows).encode()
    if beat.colour:
        ext[_COLOUR] = beat.colour.encode()
    if beat.trees is not None:
        trees = {"links": list(beat.trees.links), "refused": beat.trees.refused}
        if beat.trees.realm_colour:
            trees["realm_colour"] = beat.trees.realm_colour
        ext[_TREES] = json.dumps(trees).encode()
    if beat.change is not None:
        ext[_CHANGED] = _CHANGE_STATUS.encode(beat.change)
    if beat.lost_topology:
        ext[_LOST] = str(beat.lost_topology).encode()
    return ext


def _change_of(ext: Mapping[str, bytes]) -> ChangeStatus | None:
    encoded = ext.get(_CHANGED)
    return None if encoded is None else _CHANGE_STATUS.decode(encoded)


_HEARTBEAT = RecordCodec[Heartbeat](
    "heartbeat",
    lambda value: {
        "epoch": value.epoch,
        "beat": value.beat,
        "ready": value.ready,
        "links": [
            {
                "neighbour": link.neighbour,
                "zone": link.zone,
                "state": link.state,
                "reason": link.reason,
            }
            for link in value.links
        ],
        "ext": _beat_ext(value),
    },
    lambda fields: Heartbeat(
        _epoch(fields),
        fields["beat"],
        fields["ready"],
        tuple(
            LinkStatus(link["neighbour"], link["zone"], link["state"], link["reason"])
            for link in fields["links"]
        ),
        _endpoints_of(fields["ext"]),
        _change_of(fields["ext"]),
        _queues_of(fields["ext"]),
        fields["ext"].get(_COLOUR, b"").decode(),
        _trees_of(fields["ext"]),
        int(fields["ext"].get(_LOST, b"0")),
    ),
)

_ACKNOWLEDGEMENT = RecordCodec[Acknowledgement](
    "acknowledgement",
    lambda value: {
        "epoch": value.epoch,
        "applied": value.applied,
        "complete": value.complete,
        "open": [{"source": source, "target": target} for source, target in value.open_links],
        "topic_id": value.topic_id,
    },
    lambda fields: Acknowledgement(
        fields["epoch"],
        fields["applied"],
        fields["complete"],
        tuple((link["source"], link["target"]) for link in fields["open"]),
        fields["topic_id"],
    ),
)

_LINK_STATE = RecordCodec[LinkState](
    "link_state",
    lambda value: {
        "epoch": value.epoch,
        "beat": value.beat,
        "positions": [
            {
                "topic": at.topic,
                "topic_id": at.topic_id,
                "partition": at.partition,
                "read": at.read,
                "needed": at.needed,
            }
            for at in value.positions
        ],
    },
    lambda fields: LinkState(
        fields["epoch"],
        fields["beat"],
        tuple(OutboxPosition(**at) for at in fields["positions"]),
    ),
)

_REPAIR_REQUEST = RecordCodec[RepairRequest](
    "repair_request",
    lambda value: {
        "outbox": value.outbox,
        "outbox_partition": value.outbox_partition,
        "topic": value.topic_id,
        "partition": value.partition,
        "last": value.last,
        "attempt": value.attempt,
    },
    lambda fields: RepairRequest(
        fields["outbox"],
        fields["outbox_partition"],
        fields["topic"],
        fields["partition"],
        fields["last"],
        fields["attempt"],
    ),
)

_STOP = RecordCodec[Stop](
    "stop",
    lambda value: {
        "topic": value.topic,
        "topic_id": value.topic_id,
        "partition": value.partition,
        "reason": value.reason,
        "first": value.first,
        "next": value.next,
        "generation": value.generation,
    },
    lambda fields: Stop(
        fields["topic"],
        fields["partition"],
        fields["topic_id"],
        fields["reason"],
        fields["first"],
        fields["next"],
        fields["generation"],
    ),
)

_PAUSE = RecordCodec[Pause](
    "pause",
    lambda value: {"why": value.why},
    lambda fields: Pause(fields["why"]),
)

_LEARNED = RecordCodec[Learned](
    "learned",
    lambda value: {"epoch": value.epoch, "number": value.number, "filters": value.filters},
    lambda fields: Learned(fields["epoch"], fields["number"], tuple(fields["filters"])),
)

_CONFIG = RecordCodec[Config](
    "config",
    lambda value: {
        "number": value.number,
        "topology": value.topology,
        **_lineage_fields(value.lineage),
    },
    lambda fields: Config(fields["number"], fields["topology"], _lineage(fields)),
)

encode_identity, decode_identity = _IDENTITY.encode, _IDENTITY.decode
# Hundreds of thousands of entries share a few values; those of addresses all differ, and would
# only fill a larger memory.
encode_advert = lru_cache(maxsize=256)(_ADVERT.encode)
decode_advert = lru_cache(maxsize=256)(_ADVERT.decode)
encode_mark, decode_mark = _MARK.encode, _MARK.decode
encode_heartbeat, decode_heartbeat = _HEARTBEAT.encode, _HEARTBEAT.decode
encode_acknowledgement, decode_acknowledgement = _ACKNOWLEDGEMENT.encode, _ACKNOWLEDGEMENT.decode
encode_link_state, decode_link_state = _LINK_STATE.encode, _LINK_STATE.decode
encode_repair_request, decode_repair_request = _REPAIR_REQUEST.encode, _REPAIR_REQUEST.decode
encode_stop, decode_stop = _STOP.encode, _STOP.decode
encode_change, decode_change = _CHANGE.encode, _CHANGE.decode
encode_change_status, decode_change_status = _CHANGE_STATUS.encode, _CHANGE_STATUS.decode
encode_pause, decode_pause = _PAUSE.encode, _PAUSE.decode
decode_learned = _LEARNED.decode
decode_config = _CONFIG.decode


def encode_learned(epoch: int, number: int, filters: Sequence[str]) -> bytes:
    """Return the record of `learned`: a neighbour's scope, proven at that version. Spec: K21."""
    return _LEARNED.encode(Learned(epoch, number, tuple(filters)))


def encode_config(number: int, topology: str, lineage: Lineage = UNKNOWN_LINEAGE) -> bytes:
    """Return the record of `mesh.config`: a topology, as JSON text, its number and lineage."""
    return _CONFIG.encode(Config(number, topology, lineage))
