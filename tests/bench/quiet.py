"""A quiet mesh: how long a message takes over one link, and what an idle worker costs."""

from __future__ import annotations

import struct
import threading
import time
import tracemalloc
from collections.abc import Sequence

from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Place

from mesh.core.interest import InterestTable, Member
from mesh.errors import StartError
from mesh.model.control import Interest
from mesh.model.record_headers import SUBJECT_HEADER
from tests.bench import meter
from tests.bench.stage import PARTITIONS, Stage

WARM_S = 1.0
COLD_S = 6.0
LAST_S = 10.0
"""Whoever sends nothing for so long sends no more."""

FLUSH_S = 60.0

LINGER_MS = 1
TICK_NS = 1_000_000
"""What comes due within a millisecond is sent together, and counts as late by that. A request for
each message made 8,000 a second the most that the load itself could offer."""
_STAMP = struct.Struct(">q")


def one_way(
    stage: Stage, source: str, target: str, subject: str, *, rate: int, length_s: float
) -> dict[str, float]:
    """Return the delay from the moment a message should be sent to its reading, in ms.

    An open loop: messages are sent at their times, whatever became of those before.

    Args:
        stage: The broker.
        source: Topic to publish to.
        target: Topic to read.
        subject: Of the messages.
        rate: Messages per second.
        length_s: How long, after a warm-up.
    """
    count = int(rate * (length_s + WARM_S))
    delays: list[float] = []
    consumer = reader_of(stage, target)
    thread = threading.Thread(target=_collect, args=(consumer, count, delays), daemon=True)
    thread.start()
    producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": LINGER_MS})
    header: list[tuple[str, str | bytes | None]] = [(SUBJECT_HEADER, subject.encode())]
    began_ns = time.monotonic_ns() + 100_000_000
    for index in range(count):
        due_ns = began_ns + index * 1_000_000_000 // rate
        if (left_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(max(left_ns, TICK_NS) / 1e9)
        stamp = _STAMP.pack(due_ns)
        while True:
            try:
                producer.produce(source, stamp, b"%d" % index, index % PARTITIONS, headers=header)
            except BufferError:  # more than the broker takes: what is late counts as late
                producer.poll(0.1)
            else:
                break
        producer.poll(0)
    if left := producer.flush(FLUSH_S):
        raise StartError(f"{source}: {left} of {count} messages were not acknowledged")
    thread.join()  # it ends after a while of silence
    consumer.close()
    kept = delays[int(rate * WARM_S) :]
    if len(delays) < count:
        raise StartError(f"{target} got {len(delays)} of {count} messages")
    return percentiles(kept)


CUTS = (50, 99, 99.9)


def percentiles(delays: Sequence[float], cuts: Sequence[float] = CUTS) -> dict[str, float]:
    """Return the delays that these percentages of messages do not exceed."""
    kept = sorted(delays)
    return {f"p{cut:g}": kept[min(len(kept) - 1, int(len(kept) * cut / 100))] for cut in cuts}


def reader_of(stage: Stage, topic: str) -> Consumer:
    """Return a plain consumer that stands at the end of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": stage.bootstrap,
            "group.id": "bench-quiet",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.metrics.push": False,
        }
    )
    consumer.assign(
        [Place(place.topic, place.partition, end) for place, end in stage.ends(topic).items()]
    )
    consumer.poll(1.0)  # the first fetch is on its way before the first message
    return consumer


def _collect(consumer: Consumer, count: int, delays: list[float]) -> None:
    last_s = time.monotonic()
    while len(delays) < count and time.monotonic() - last_s < LAST_S:
        message = consumer.poll(0.2)
        if message is None or message.error() is not None:
            continue
        last_s = time.monotonic()
        (due_ns,) = _STAMP.unpack(message.value() or b"")
        delays.append((time.monotonic_ns() - due_ns) / 1e6)


def idle(stage: Stage, nodes: Sequence[str], length_s: float) -> dict[str, dict[str, float]]:
    """Return resident MB and the share of a core that idle workers use."""
    before = {node: meter.cpu_s(stage.worker(node).pid) for node in nodes}
    time.sleep(length_s)
    return {
        node: {
            "rss_mb": stage.worker(node).rss() / 1e6,
            "core": (meter.cpu_s(stage.worker(node).pid) - before[node]) / length_s,
        }
        for node in nodes
    }


def bytes_per_filter(count: int) -> float:
    """Return what a worker holds per filter that a neighbour wants."""
    member = Member("CHAIN", "b")
    tracemalloc.start()
    table = InterestTable()
    for index in range(count):
        table.put(f"acme/site-{index % 997}/line-{index}/*", member, Interest(True, True))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return held / count
