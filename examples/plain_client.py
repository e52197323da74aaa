"""A client of the mesh with nothing but confluent-kafka: three records and a consumer.

    python examples/plain_client.py localhost:19092 tk1

subscribes endpoint `plain` of node tk1 to `acme/>`, publishes to `acme/plain/hello` at the same
node and prints what arrives. Everything is a plain Kafka record: see examples/kcat.md for the
same with kcat. The mesh must run (`mesh up`, or `mesh node run`).
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from confluent_kafka import Consumer, Message, Producer, TopicPartition

ENDPOINT = "plain"
FILTER = "acme/>"
SUBJECT = "acme/plain/hello"
TIMEOUT_S = 30.0


def write(producer: Producer, topic: str, value: str, key: str, **more: Any) -> None:
    """Write one record, and end in one line if Kafka has not taken it."""
    failed: list[object] = []
    producer.produce(topic, value, key, on_delivery=lambda error, _: failed.append(error), **more)
    if producer.flush(TIMEOUT_S) or any(failed):
        sys.exit(f"Kafka did not take a record for {topic}: {failed or 'no answer'}")


def subscribe(producer: Producer, node: str) -> None:
    """Write one record: the key says endpoint and filter, the value kind and class."""
    asked = {"kind": "channel", "class": "guaranteed"}
    clients = f"mesh.{node}.clients"
    write(producer, clients, json.dumps(asked), f"{ENDPOINT} {FILTER}", partition=0)


def publish(producer: Producer, node: str, text: str) -> None:
    """Write one record with its mesh address in a header; key, headers and value are yours."""
    headers = [("mesh-subject", SUBJECT), ("my", "header")]
    write(producer, f"mesh.{node}.in.g", text, "my-key", headers=headers)


def wait_for_topic(consumer: Consumer, topic: str) -> list[int]:
    """Return the partitions of the endpoint's topic once the node has made it."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        found = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
        if found.error is None and found.partitions:
            return sorted(found.partitions)
        time.sleep(0.2)
    sys.exit(f"{topic} does not exist: does its node run?")


def show(message: Message) -> None:
    """Print one delivery; the mesh adds two headers last: the subject, and where it came from.

    A record with the one header `mesh-gap` is no message: it says, as JSON, what is lost.
    """
    headers = dict(message.headers() or [])
    if "mesh-gap" in headers:
        print("lost", headers["mesh-gap"])
        return
    print(message.value(), "as", headers["mesh-subject"], "with", headers.get("my"))


def main() -> None:
    """Subscribe, publish, receive."""
    if len(sys.argv) != 3:
        sys.exit("usage: plain_client.py BOOTSTRAP_SERVERS NODE")
    servers, node = sys.argv[1:]
    topic = f"mesh.{node}.ep.{ENDPOINT}"
    # acks=all and idempotence: accepted means safe. murmur2_random: keys land as from Java.
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
        }
    )
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"plain-{node}",  # wanted by the library; partitions are assigned
            "isolation.level": "read_committed",  # only what the mesh has committed
            "auto.offset.reset": "earliest",
        }
    )
    subscribe(producer, node)
    partitions = wait_for_topic(consumer, topic)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    # The subscription takes effect a moment after the endpoint exists; `mesh subscribe --wait`
    # tells when it is known everywhere. Here we publish until the first message comes back.
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        publish(producer, node, f"hello at {time.time():.3f}")
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            show(message)
            consumer.close()
            return
    sys.exit("the message did not come back")


if __name__ == "__main__":
    main()
