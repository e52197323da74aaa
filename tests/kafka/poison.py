"""Records that mean nothing in any topic of the mesh, written where strangers may write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from confluent_kafka import KafkaError, Message, Producer

from mesh.local.fleet import Fleet
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.wire.header import MAGIC
from tests.mock_cluster import write_as_in_c, write_packed
from tests.patience import PATIENCE_S

NOISE: Sequence[tuple[bytes | None, bytes | None]] = (
    (None, b"junk"),
    (None, None),
    (b"order-17", b"{}"),
    (b'{"id":1}', b"\0\0\0\0\7"),
    (MAGIC, b""),
    (MAGIC + b"\x02\xff\xff\xff\xff\xff\xff", None),
    (b"\xff" * 2_000, b"\xf7" * 100_000),
)
"""Keys and values."""

PACKED = 3
"""Records of a batch that the client library does not unpack."""

OF_INGRESS = len(NOISE) + 1 + PACKED
"""Records that each ingress gets at one time: one has a header whose name is no text."""


def poison(fleet: Fleet, node: str, *endpoints: str) -> Counter[str]:
    """Write all of it into every topic at a node; return how many records each has surely got.

    A topic without a leader gets none; of what brokers were slow to acknowledge it may have more.
    """
    servers = fleet.addresses[fleet.topology.nodes[node].kafka]
    acknowledged: Counter[str] = Counter()

    def count(error: KafkaError | None, message: Message) -> None:
        acknowledged[message.topic() or ""] += error is None

    writer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 5_000})
    for topic in _topics(fleet, node, endpoints):
        for key, value in NOISE:
            headers: list[tuple[str, str | bytes | None]] = [("mesh", b"\xff"), ("a", None)]
            writer.produce(topic, value, key, headers=headers, on_delivery=count)
    assert writer.flush(PATIENCE_S) == 0
    for of in MessageClass:
        ingress = TopicNames(fleet.topology.prefix).ingress(node, of)
        write_as_in_c(servers, ingress, b"v", [(b"mesh-subject", b"x"), (b"\xff\xfe", b"1")])
        write_packed(servers, ingress, PACKED)
        acknowledged[ingress] += 1 + PACKED
    return acknowledged


def _topics(fleet: Fleet, node: str, endpoints: Sequence[str]) -> Sequence[str]:
    names, others = TopicNames(fleet.topology.prefix), fleet.topology.neighbours(node)
    return [
        *(names.ingress(node, of) for of in MessageClass),
        *(names.outbox(node, other, of) for other in others for of in MessageClass),
        *(names.to_control(node, other) for other in others),
        *(names.to_trees(node, other) for other in others),
        *(names.endpoint(node, endpoint) for endpoint in endpoints),
        *(names.control(node), names.control_log(node), names.clients(node), names.learned(node)),
        *(names.progress(node), names.ledger(node), names.roles(node), names.sends(node)),
        names.config(),
    ]
