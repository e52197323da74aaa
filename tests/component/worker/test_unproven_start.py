"""A node that starts waits for no proof that may never come: it goes by what it acknowledged.

What a neighbour offers stays unproven where a stranger has written over a record of it, until the
neighbour itself sets that right. It may be away, or wait for this node in the same way.
Spec: K16, K21, K23, R12.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesh.model.frames import MessageClass
from mesh.wire.control import decode_heartbeat
from tests.component.worker.conftest import SmallMesh, subject


def withdraw(mesh: SmallMesh, node: str) -> None:
    """Have a stranger write tombstones for all that a node offers, and its marks once more."""
    topic = mesh.names.control(node)
    newest = {record.key(): record.value() for record in mesh.read(topic)}
    for key in newest:
        if key.startswith(b"advert "):
            mesh.write(topic, None, key=key)
    for key, value in newest.items():
        if key.startswith(b"mark "):
            mesh.write(topic, value, key=key)


def start_over(mesh: SmallMesh, nodes: str, *, spoilt: str) -> None:
    """Kill nodes, spoil what some of them offer, and start them."""
    for node in nodes:
        mesh.world.kill(node)
    for node in spoilt:
        withdraw(mesh, node)
    for node in nodes:
        mesh.world.start(node)


def publish(mesh: SmallMesh, *payloads: bytes) -> None:
    for payload in payloads:
        mesh.publish(payload, [subject("x/y")])


def come(mesh: SmallMesh) -> Sequence[bytes | None]:
    return [record.value() for record in mesh.delivered()]


def link_states(mesh: SmallMesh, node: str) -> dict[str, str]:
    beats = [r for r in mesh.read(mesh.names.control(node)) if r.key() == b"heartbeat"]
    return {link.neighbour: link.state for link in decode_heartbeat(beats[-1].value()).links}


def test_neighbours_that_wait_for_one_another_serve_all_the_same(mesh: SmallMesh) -> None:
    """Each would set its own topic right, if only the other did so first."""
    start_over(mesh, "bc", spoilt="bc")
    publish(mesh, b"1")
    mesh.run(30_000)
    assert come(mesh) == [b"1"]
    assert link_states(mesh, "b") == {"a": "up", "c": "up"}
    assert link_states(mesh, "c") == {"b": "up"}


def test_who_is_away_keeps_no_neighbour_from_serving(mesh: SmallMesh) -> None:
    """What the node has acknowledged of it waits in the outbox; the proof replaces it."""
    mesh.world.kill("c")
    start_over(mesh, "b", spoilt="c")
    publish(mesh, b"1")
    mesh.run(25_000)
    worker = mesh.world.workers["b"]
    assert worker.is_ready
    assert link_states(mesh, "b") == {"a": "up", "c": "down"}
    mesh.world.start("c")
    mesh.run(10_000)
    publish(mesh, b"2")
    mesh.run()
    assert come(mesh) == [b"1", b"2"]
    assert link_states(mesh, "b") == {"a": "up", "c": "up"}


def test_direct_messages_wait_for_the_proof(mesh: SmallMesh) -> None:
    """Spec: K21: what is gone by without a proof is never used for them."""
    mesh.subscribe("c", "d", "x/>", b'{"class":"direct"}')
    mesh.run()
    mesh.world.kill("c")
    start_over(mesh, "b", spoilt="c")
    mesh.run(25_000)
    assert mesh.world.workers["b"].is_ready
    direct = mesh.names.ingress("b", MessageClass.DIRECT)
    mesh.write(direct, b"early", headers=[subject("x/y")])
    mesh.run(1_000)
    mesh.world.start("c")
    mesh.run(10_000)
    mesh.write(direct, b"late", headers=[subject("x/y")])
    mesh.run()
    received = mesh.read(mesh.names.endpoint("c", "d"))
    assert [record.value() for record in received] == [b"late"]


def hide_the_rest(mesh: SmallMesh, node: str, *, by_transaction: bool) -> None:
    """Have nobody who starts read to its end what a node says, although all see that it stands."""
    topic = mesh.names.control(node)
    if not by_transaction:
        mesh.kafka.blocked.update((f"mesh-{other}", topic) for other in "abc")
        return
    writer = mesh.kafka.writer("stranger", "stranger")
    writer.begin()
    writer.produce(topic, b"", b"never ends", 0)


@pytest.mark.parametrize("by_transaction", [False, True], ids=["brokers die", "hanging"])
def test_what_is_found_and_never_read_to_its_end_keeps_nobody_waiting(
    mesh: SmallMesh, *, by_transaction: bool
) -> None:
    """Its brokers die as a start has just looked where it ends, or a transaction there never ends.

    Spec: K21, K23.
    """
    mesh.world.kill("b")
    hide_the_rest(mesh, "c", by_transaction=by_transaction)
    mesh.world.start("b")
    publish(mesh, b"1")
    mesh.run(25_000)
    assert mesh.world.workers["b"].is_ready
    assert link_states(mesh, "b") == {"a": "up", "c": "down"}
    mesh.kafka.blocked.clear()
    mesh.kafka.end_transactions("stranger")
    mesh.run(20_000)
    assert come(mesh) == [b"1"]
    assert link_states(mesh, "b") == {"a": "up", "c": "up"}
