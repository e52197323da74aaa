"""Messages become plain records in the topics of endpoints. Spec: K8, K9, DESIGN 6.

The costliest step of the data path: one record per message. Whatever is the same for a frame or
a subject is made once, records are made once for all endpoints, and each endpoint gets its rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.core.routes import Route
from mesh.lane.messages.addressing import restored
from mesh.lane.messages.outgoing import Provenance
from mesh.lane.run import Run
from mesh.model.frames import MessageClass
from mesh.model.reasons import DropReason
from mesh.model.record_headers import MESH_HEADER
from mesh.transport.port import FIRST_MS, Row, TopicPartition
from mesh.wire.deliveries import delivery_header, delivery_headers, delivery_prefix
from mesh.wire.frames import NO_EXT, MessageTuple


def deliver(
    run: Run,
    provenance: Provenance,
    messages: Sequence[MessageTuple],
    subjects: Sequence[str],
    routes: Sequence[Route],
) -> None:
    """Write messages to the endpoints of this node that want them.

    Args:
        run: What they were read of.
        provenance: How they came here.
        messages: In order; each is wanted by some endpoint.
        subjects: By the index that stands in a message.
        routes: Likewise.
    """
    lane, batch, source = run.lane, run.batch, run.source
    messages, subjects, routes = restored(messages, subjects, routes)
    rows = _rows(run, provenance, messages, subjects)
    delivering = [route for route in dict.fromkeys(routes) if route.endpoints]
    partition = source.at.partition % lane.partitions
    for endpoint in dict.fromkeys(name for route in delivering for name in route.endpoints):
        its_rows = rows
        if not all(endpoint in route.endpoints for route in delivering):
            wants = [endpoint in route.endpoints for route in routes]
            its_rows = [row for row, item in zip(rows, messages, strict=True) if wants[item[1]]]
            if not its_rows:
                continue
        topic = lane.names.endpoint(lane.node, endpoint)
        if lane.holds_target(topic):
            if source.message_class is MessageClass.DIRECT:
                batch.count_dropped(DropReason.NOT_WRITABLE, source.at, len(its_rows))
            continue  # what is guaranteed is written beside the lane. Spec: K20
        if (
            lane.unwritable
            and not lane.is_guaranteed(endpoint)
            and lane.unwritable.has(topic, partition)
        ):
            batch.count_dropped(DropReason.NOT_WRITABLE, source.at, len(its_rows))
            continue
        batch.count_delivered(endpoint, source.message_class, len(its_rows))
        if lane.is_guaranteed(endpoint):
            if lane.topology.endpoint_limit(lane.node, endpoint) is not None:
                lane.count_written(TopicPartition(topic, partition), _size(its_rows))
            batch.write_rows(topic, partition, its_rows)
        else:
            run.hand_over(topic, partition, its_rows)


def _size(rows: Sequence[Row]) -> int:
    """Return the bytes of keys and values, headers left out."""
    return sum(len(value or b"") + len(key or b"") for value, key, _, _ in rows)


def _rows(
    run: Run,
    provenance: Provenance,
    messages: Sequence[MessageTuple],
    subjects: Sequence[str],
) -> list[Row]:
    """Return the records to be written: what the client wrote, and two headers."""
    prefix = delivery_prefix(
        run.source.message_class, provenance.path, provenance.source, provenance.generation
    )
    identities = delivery_headers(prefix, [message[0] for message in messages])
    exts = [message[6] for message in messages]
    if exts.count(NO_EXT) != len(exts):
        identities = [
            delivery_header(prefix, message[0], ext)
            for message, ext in zip(messages, exts, strict=True)
        ]
    addresses = list(map(run.lane.memos.address, subjects))
    return [
        (payload, key, stamp or FIRST_MS, [*headers, addresses[index], (MESH_HEADER, identity)])
        for (_, index, stamp, key, headers, payload, _), identity in zip(
            messages, identities, strict=True
        )
    ]
