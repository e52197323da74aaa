"""`mesh.testing` on real Kafka without Docker: the interface of the other forms, and nothing left."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer

from mesh.errors import StartError
from mesh.local.fleet import Fleet
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
        with mesh.client("a") as leaving:
            leaving.publish("acme/x", b"5", key=b"k")
        mesh.kill("b")
        mesh.restart("b")
        mesh.heal()
        found = mesh.wait_delivered("b", "e", 6)
        assert [int(message.payload or b"") for message in found] == list(range(6))
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


def test_a_node_that_does_not_serve_says_why(
    kafka_software: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log goes with the mesh, before anybody could look into it."""
    program = ["sh", "-c", "echo no port is free for the node"]  # it has said so when time is up
    monkeypatch.setattr(Fleet, "command", lambda *_: program)
    monkeypatch.setattr("mesh.testing.embedded.SERVE_S", 3.0)
    with pytest.raises(StartError, match=r"a, b did not begin to serve[^\n]*\n.*no port is free"):
        EmbeddedMesh(SPEC).start()
