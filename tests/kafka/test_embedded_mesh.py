"""`mesh.testing` on real Kafka without Docker: the interface of the other forms, and nothing left."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from mesh.testing.embedded import EmbeddedMesh

pytestmark = pytest.mark.kafka

SPEC = {
    "kafka": {"k": {}},
    "nodes": {"a": {"kafka": "k"}, "b": {"kafka": "k"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}},
}


def test_cuts_and_kills_lose_nothing(kafka_software: object) -> None:
    """What waits in an outbox comes once, in order, when the link heals and the node is back."""
    with EmbeddedMesh(SPEC) as mesh:
        mesh.subscribe("b", "e", "acme/>")
        mesh.cut("a", "b")
        mesh.publish("a", "acme/x", *(b"%d" % number for number in range(5)), key=b"k")
        mesh.kill("b")
        mesh.restart("b")
        mesh.heal()
        found = mesh.wait_delivered("b", "e", 5)
        assert [int(message.payload or b"") for message in found] == list(range(5))
        plain = Consumer(
            {
                "bootstrap.servers": mesh.get_bootstrap_server("k"),
                "group.id": "any-kafka-client",
                "auto.offset.reset": "earliest",
            }
        )
        plain.subscribe(["mesh.b.ep.e"])
        assert plain.consume(1, 30)[0].value() == b"0"
        plain.close()
        processes = [process for running in mesh.fleet.workers.values() for process in running]
    assert [process for process in processes if process.is_alive()] == []
