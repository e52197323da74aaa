"""The raw loop: consume and produce as fast as the client library goes in Python, nothing else.

Run as a script with nothing of the mesh: ``raw.py BOOTSTRAP SOURCE TARGET [headers]``. It follows
the source until SIGTERM, from the end it finds at its start. Without `headers` it hands on key and
value only, as loops in articles do; with it a record is copied whole.
"""

from __future__ import annotations

import gc
import signal
import sys

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

LIMIT = 1_000
QUEUE_MAX = 10_000
"""Messages in flight: more only costs cache misses."""


def main(bootstrap: str, source: str, target: str, *, with_headers: bool) -> None:
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
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2 * QUEUE_MAX,
            "delivery.report.only.error": True,
            "enable.metrics.push": False,
        }
    )
    partitions = consumer.list_topics(source, 10).topics[source].partitions
    ends = [consumer.get_watermark_offsets(Place(source, index), 10)[1] for index in partitions]
    consumer.assign(
        [Place(source, index, end) for index, end in zip(partitions, ends, strict=True)]
    )
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    produce = producer.produce
    while not stopping:
        # One poll returns with the first record; a consume would wait until it has them all.
        first = consumer.poll(0.1)
        if first is None:
            producer.poll(0)
            continue
        for message in (first, *consumer.consume(LIMIT - 1, 0)):
            if message.error() is None:
                if with_headers:
                    produce(
                        target,
                        message.value(),
                        message.key(),
                        message.partition() or 0,
                        headers=message.headers(),
                    )
                else:
                    produce(target, message.value(), message.key(), message.partition() or 0)
        while len(producer) > QUEUE_MAX:
            producer.poll(0.002)
        producer.poll(0)
    producer.flush(10)
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:4], with_headers="headers" in sys.argv[4:])
