"""How far a log is still what was read of it, by its leader epochs.

A log that lost its end in an unclean election grows again under a later leader, over the offsets
that were lost. Brokers know where the records of an epoch end, but the client library does not
offer that request: some records are read instead, in ever larger steps back. Spec: R6.
"""

from __future__ import annotations

import time

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from mesh.transport.kafka.faults import Site, error_of, transport_error
from mesh.transport.kafka.settings import Settings
from mesh.transport.port import TopicPartition

SLICE_S = 0.1

_NAME = "mesh-epochs"
_LOOKING: Settings = {
    "group.id": _NAME,
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "queued.min.messages": 1,
}


def agrees_until(
    site: Site,
    settings: Settings,
    place: TopicPartition,
    epoch: int,
    below: int,
    patience_s: float,
) -> int:
    """Return how far, below an offset, no later leader than an epoch's has written.

    Args:
        site: Start of error texts.
        settings: Of any client of the Kafka cluster.
        place: The partition.
        epoch: Epoch of the leader under which the log was read.
        below: How far it was read.
        patience_s: How long to wait for one record.

    Raises:
        TransportUnavailableError: No broker answers.
    """
    try:
        consumer = Consumer({**settings, **_LOOKING})
    except KafkaException as exc:
        raise transport_error(site, "look at leader epochs", error_of(exc)) from exc
    agreed = below
    try:
        first, end, step = 0, below, 1
        while first < end:
            # Most logs have lost nothing, or a little: check their ends first.
            middle = max((first + end) // 2, end - step)
            step *= 2
            found = _first(site, consumer, place, middle, patience_s)
            if found is None or found[0] >= end:
                end = middle  # nothing is visible from there on: markers, or aborted records
            elif found[1] > epoch:
                end = agreed = middle
            else:
                first = found[0] + 1
    finally:
        consumer.close()
    return agreed


def _first(
    site: Site, consumer: Consumer, place: TopicPartition, begin: int, patience_s: float
) -> tuple[int, int] | None:
    """Return offset and leader epoch of the first record at or after an offset; None if none is."""
    consumer.assign([Place(place.topic, place.partition, begin)])
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        message = consumer.poll(SLICE_S)
        if message is None:
            continue
        error, offset = message.error(), message.offset()
        if error is None and offset is not None and offset >= begin:
            return offset, message.leader_epoch() or 0
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            return None
    late = KafkaError(KafkaError._TIMED_OUT, "no answer in time")
    raise transport_error(site, f"read {place}", late)
