"""A frame that nobody here can read was accepted as lost: what that excuses, and for how long.

Spec: K20.
"""

from __future__ import annotations

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Stop
from mesh.transport.port import Headers, Record, TopicPartition
from mesh.wire.control import decode_stop, encode_stop
from mesh.wire.header import MAGIC
from mesh.wire.keys import accept_key
from mesh.wire.varint import zigzag
from schemas import VERSION
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.component.worker.conftest import CHAIN, subject

OUTBOX = TopicPartition("mesh.a.to.b.g", 0)


def _records(mesh: Mesh, topic: str) -> list[Record]:
    logs = mesh.world.kafka["k"].topics[topic].logs
    return [one for log in logs for one in log.entries if one is not None]


def _write(mesh: Mesh, topic: str, value: bytes, key: bytes | None, headers: Headers = ()) -> None:
    mesh.world.kafka["k"].writer("client").produce(topic, value, key, 0, headers=headers)
    mesh.pause(3)


def _publish(mesh: Mesh, value: bytes) -> None:
    _write(mesh, "mesh.a.in.g", value, None, headers=[subject("x")])


def _stop(mesh: Mesh, node: str) -> Stop:
    told = {one.key(): one for one in _records(mesh, f"mesh.{node}.control")}
    [stop] = [one for key, one in told.items() if (key or b"").startswith(b"stop ")]
    return decode_stop(stop.value() or b"")


def test_it_excuses_nothing_of_a_link_that_was_made_anew() -> None:
    """What is missing there is asked for, as on any other link, and not passed in silence."""
    mesh = Mesh(topology_from_mapping(CHAIN), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    mesh.subscribe("b", "s", ">")
    _publish(mesh, b"1")
    _write(mesh, OUTBOX.topic, b"", MAGIC + zigzag(VERSION + 1) + b"x")
    stop = _stop(mesh, "b")
    accepted = accept_key("b", stop.topic, stop.partition)
    _write(mesh, "mesh.config", encode_stop(stop), accepted)
    for links in ([["a", "c"], ["b", "c"]], [["a", "b"], ["b", "c"]]):
        zones = {"Z": {"kind": "multi-hop", "links": links}}
        mesh.change(topology_from_mapping({**CHAIN, "zones": zones}))
    _publish(mesh, b"2")
    mesh.world.cut("b", ["a"])
    _publish(mesh, b"3")
    entries = mesh.world.kafka["k"].topics[OUTBOX.topic].logs[OUTBOX.partition].entries
    entries[max(at for at, one in enumerate(entries) if one is not None)] = None
    _publish(mesh, b"4")
    mesh.world.cut("b", [])
    mesh.pause(40)
    mesh.close()
    came = [one.value() for one in _records(mesh, "mesh.b.ep.s")]
    assert [one for one in came if one is not None] == [b"1", b"2", b"3", b"4"]
