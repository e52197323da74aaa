"""Messages become plain records in the topics of endpoints. Spec: K8, K9, DESIGN 6.

The costliest step of the data path: one record per message. Whatever is the same for a frame, a
route or a subject is made once and looked up per message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

from mesh.codec.deliveries import delivery_headers, delivery_prefix
from mesh.codec.frames import MessageTuple
from mesh.core.routing import Route
from mesh.model.headers import MESH_HEADER
from mesh.runtime.batch import Batch
from mesh.runtime.lane import Lane, Source
from mesh.runtime.outgoing import Came

_index_of = itemgetter(1)


@dataclass(frozen=True, slots=True)
class Outlets:
    """The endpoint topics that messages of one route are written to, by class of the endpoint."""

    guaranteed: tuple[str, ...]
    direct: tuple[str, ...]


def outlets(lane: Lane, route: Route) -> Outlets:
    """Return where a route delivers: an endpoint's topic is written by its own class."""
    by_class: tuple[list[str], list[str]] = ([], [])
    for endpoint in route.endpoints:
        by_class[not lane.is_guaranteed(endpoint)].append(lane.names.endpoint(lane.node, endpoint))
    return Outlets(tuple(by_class[0]), tuple(by_class[1]))


def deliver(
    lane: Lane,
    batch: Batch,
    source: Source,
    came: Came,
    messages: Sequence[MessageTuple],
    subjects: Sequence[str],
    routes: Sequence[Route],
) -> None:
    """Write messages to the endpoints of this node that want them.

    Args:
        lane: Who writes.
        batch: The open transaction.
        source: Where they were read.
        came: How they came here.
        messages: In order.
        subjects: By the index that stands in a message.
        routes: Likewise.
    """
    known: dict[Route, Outlets] = {}
    where: dict[int, Outlets] = {}
    addresses: dict[int, tuple[str, bytes | None]] = {}
    for index, count in Counter(map(_index_of, messages)).items():
        route = routes[index]
        if route not in known:
            known[route] = outlets(lane, route)
        where[index] = known[route]
        addresses[index] = lane.address(subjects[index])
        for endpoint in route.endpoints:
            batch.delivered(endpoint, source.message_class, count)
    header = delivery_headers(
        delivery_prefix(source.message_class, came.path, came.source, came.generation)
    )
    target = source.at.partition % lane.partitions
    produce = lane.writer.produce
    keep = batch.direct.append
    for offset, index, stamp, key, headers, payload, _ in messages:
        whole = [*headers, addresses[index], (MESH_HEADER, header(offset))]
        to = where[index]
        for topic in to.guaranteed:
            produce(topic, payload, key, target, timestamp=stamp, headers=whole)
        for topic in to.direct:
            keep((topic, payload, key, target, stamp, whole))
