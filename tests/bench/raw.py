"""The raw loop: consume and produce as fast as the client library goes in Python, nothing else.

Run as a script with nothing of the mesh: ``raw.py BOOTSTRAP SOURCE TARGET [headers | eos]``. It
follows the source until SIGTERM, from the end it finds at its start. As it is, it hands on key and
value only, as loops in articles do; with `headers` a record is copied whole; with `eos` its
positions are part of a transaction that lasts 100 ms, so that each record is copied exactly once.
"""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import TopicPartition as Place

LIMIT = 1_000
QUEUE_MAX = 10_000
"""Messages in flight: more only costs cache misses."""

TRANSACTION_S = 0.1
ANSWER_S = 30.0

HandOn = Callable[[Sequence[Message]], None]
"""Produces copies of records."""


def main(bootstrap: str, source: str, target: str, mode: str = "") -> None:
    """Copy until told to stop."""
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopping.append(number))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"raw-{target}",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 20,
            "queued.min.messages": 20_000,
            "enable.metrics.push": False,
        }
    )
    is_exact = mode == "eos"
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2 * QUEUE_MAX,
            "delivery.report.only.error": True,
            "enable.metrics.push": False,
            **({"transactional.id": f"raw-{target}"} if is_exact else {}),
        }
    )
    partitions = consumer.list_topics(source, ANSWER_S).topics[source].partitions
    places = [Place(source, index) for index in partitions]
    consumer.assign(
        [
            Place(source, place.partition, consumer.get_watermark_offsets(place, ANSWER_S)[1])
            for place in places
        ]
    )
    gc.collect()
    gc.freeze()
    gc.disable()
    hand_on = partial(whole if mode == "headers" else bare, producer, target)
    if is_exact:
        producer.init_transactions(ANSWER_S)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not stopping:
        if is_exact:
            copy_exactly(consumer, producer, hand_on)
        else:
            copy(consumer, producer, hand_on)
    producer.flush(10)
    consumer.close()


def bare(producer: Producer, target: str, messages: Sequence[Message]) -> None:
    """Produce key and value of each to the same partition."""
    produce = producer.produce
    for message in messages:
        if message.error() is None:
            produce(target, message.value(), message.key(), message.partition() or 0)


def whole(producer: Producer, target: str, messages: Sequence[Message]) -> None:
    """Produce copies of whole records to the same partition."""
    produce = producer.produce
    for message in messages:
        if message.error() is None:
            headers = message.headers()
            partition = message.partition() or 0
            produce(target, message.value(), message.key(), partition, headers=headers)


def copy(consumer: Consumer, producer: Producer, hand_on: HandOn) -> int:
    """Copy one batch; return how many records there were."""
    # One poll returns with the first record; a consume would wait until it has them all.
    first = consumer.poll(0.1)
    if first is None:
        producer.poll(0)
        return 0
    messages = [first, *consumer.consume(LIMIT - 1, 0)]
    hand_on(messages)
    while len(producer) > QUEUE_MAX:
        producer.poll(0.002)
    producer.poll(0)
    return len(messages)


def copy_exactly(consumer: Consumer, producer: Producer, hand_on: HandOn) -> None:
    """Copy what comes within one transaction, which begins with the first record."""
    producer.begin_transaction()
    if not copy(consumer, producer, hand_on):
        producer.abort_transaction(ANSWER_S)  # empty: nothing is asked of the broker
        return
    end_s = time.monotonic() + TRANSACTION_S
    while time.monotonic() < end_s:
        copy(consumer, producer, hand_on)
    positions = consumer.position(consumer.assignment())
    known = [place for place in positions if place.offset >= 0]
    producer.send_offsets_to_transaction(known, consumer.consumer_group_metadata(), ANSWER_S)
    producer.commit_transaction(ANSWER_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
