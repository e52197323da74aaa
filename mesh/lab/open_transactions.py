"""What open transactions hide: it is written, and nobody who reads committed records sees it.

Brokers answer a commit before they have written its markers: until then a reader of committed
records does not see what it wrote, though it may see that it was written. A publisher that was
given up leaves its transaction open, until brokers end it: what others have written behind that,
and were told is accepted, waits as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mesh.errors import TransportError
from mesh.transport.port import KafkaCluster, TopicPartition


def open_transactions(
    clusters: Mapping[str, KafkaCluster], places: Mapping[str, Sequence[TopicPartition]]
) -> Sequence[str]:
    """Return a line for each partition with an open transaction, or that a broker does not answer.

    Args:
        clusters: Kafka cluster by name.
        places: Its partitions, by the same name.
    """
    try:
        return [
            f"{at} has an open transaction"
            for kafka, asked in places.items()
            for at in _with_open_transactions(clusters[kafka], asked)
        ]
    except TransportError as error:
        return [str(error)]  # a broker that does not answer just now


def _with_open_transactions(
    cluster: KafkaCluster, places: Sequence[TopicPartition]
) -> Sequence[TopicPartition]:
    admin = cluster.admin()
    ends = admin.ends(places)  # asked first: what is written since may be open as well
    stable = admin.stable_ends(places)
    return [at for at, end in ends.items() if stable.get(at, 0) < end]
