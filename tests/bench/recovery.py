"""How long a node is away when its worker is killed under load and started again at once."""

from __future__ import annotations

import struct
import time

from confluent_kafka import Consumer, Producer

from mesh.errors import StartError
from mesh.model.headers import SUBJECT_HEADER
from tests.bench.quiet import reader_of
from tests.bench.stage import PARTITIONS, Stage

RATE = 500
DEADLINE_S = 60.0
SUBJECT = "lg/site/line"
_STAMP = struct.Struct(">d")


def takeovers(stage: Stage, node: str, source: str, target: str, *, kills: int) -> list[float]:
    """Return, per `kill -9`, the seconds until something published after it was delivered.

    The node's lane is free only when Kafka has noticed that the member is gone.

    Args:
        stage: The broker and the nodes.
        node: Who is killed.
        source: Topic to publish to, guaranteed, at another node.
        target: Topic of an endpoint of the killed node.
        kills: How often.
    """
    producer = Producer({"bootstrap.servers": stage.bootstrap, "linger.ms": 0})
    consumer = reader_of(stage, target)
    try:
        found: list[float] = []
        for _ in range(kills):
            _until_delivered(producer, consumer, source, time.monotonic())
            killed_s = time.monotonic()
            stage.fleet.kill_node(node)
            stage.fleet.start_node(node)
            found.append(_until_delivered(producer, consumer, source, killed_s) - killed_s)
    finally:
        producer.flush(5)
        consumer.close()
    return found


def _until_delivered(producer: Producer, consumer: Consumer, source: str, after_s: float) -> float:
    """Publish evenly until something published after a moment arrives; return when it did."""
    headers: list[tuple[str, str | bytes | None]] = [(SUBJECT_HEADER, SUBJECT.encode())]
    deadline_s = time.monotonic() + DEADLINE_S
    number = 0
    while (now_s := time.monotonic()) < deadline_s:
        number += 1
        producer.produce(source, _STAMP.pack(now_s), b"k", number % PARTITIONS, headers=headers)
        message = consumer.poll(1 / RATE)
        if message is None or message.error() is not None:
            continue
        (sent_s,) = _STAMP.unpack(message.value() or b"")
        if sent_s > after_s:
            return time.monotonic()
    raise StartError(f"nothing arrived within {DEADLINE_S:.0f} s")
