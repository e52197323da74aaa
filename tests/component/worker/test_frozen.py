"""A node that starts while a neighbour cannot be reached goes by what it wanted last."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.node.neighbour import FROZEN
from mesh.wire.control import decode_heartbeat
from mesh.wire.keys import AdvertKey, LearnedKey, parse_control_key
from mesh.wire.state import decode_ledger
from mesh.worker.control import control_writer
from tests.component.worker.conftest import SmallMesh, subject


def restart_alone(mesh: SmallMesh) -> None:
    """Restart a while it cannot reach b, and wait until it gives b up."""
    mesh.world.kill("a")
    mesh.world.cut("a", ["b"])
    mesh.world.start("a")
    mesh.run(20_000)


def link_state(mesh: SmallMesh) -> tuple[str, str]:
    beats = [r for r in mesh.read(mesh.names.control("a")) if r.key() == b"heartbeat"]
    link = decode_heartbeat(beats[-1].value()).links[0]
    return link.state, link.reason


def test_guaranteed_messages_are_queued_by_the_frozen_set(mesh: SmallMesh) -> None:
    """The link is down, so direct messages are not, and people are told what it goes by; the first
    proof replaces it. Spec: K21, K23.
    """
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    restart_alone(mesh)
    assert link_state(mesh) == ("down", FROZEN)
    mesh.publish(b"2", [subject("x")])
    direct = mesh.names.ingress("a", MessageClass.DIRECT)
    mesh.write(direct, b"d", headers=[subject("x")])
    mesh.run()
    refused = {
        (entry.reason, entry.message_class)
        for record in mesh.read(mesh.names.ledger("a"))
        for entry in decode_ledger(record.value()).not_forwarded
    }
    assert ("node_down", MessageClass.DIRECT) in refused
    assert ("no_interest", MessageClass.GUARANTEED) not in refused
    mesh.world.cut("a", [])
    mesh.run(20_000)
    assert [record.value() for record in mesh.delivered()] == [b"1", b"2"]
    assert link_state(mesh) == ("up", "")


def test_what_was_acknowledged_just_before_is_in_the_frozen_set(mesh: SmallMesh) -> None:
    """It is kept before it is acknowledged, not when whole sets are looked at. Spec: K21, K24."""
    mesh.subscribe("c", "s", ">", None)
    mesh.run()
    for name in ("y", "z"):
        mesh.subscribe("c", "s", name)
        mesh.run(200)  # far less than between two looks
    learned = control_writer.read_learned(mesh.read(mesh.names.learned("a")), "b")
    assert {f for filters in learned.values() for f in filters} == {"y", "z"}
    restart_alone(mesh)
    mesh.publish(b"1", [subject("z")])
    mesh.run()
    mesh.world.cut("a", [])
    mesh.run(20_000)
    assert [record.value() for record in mesh.delivered()] == [b"1"]


def test_what_is_no_longer_wanted_ends_with_the_first_proof(mesh: SmallMesh) -> None:
    """Spec: K21, K23, DMR-8."""
    mesh.run()
    restart_alone(mesh)
    mesh.subscribe("c", "s", ">", None)
    mesh.world.cut("a", [])
    mesh.run(20_000)
    mesh.publish(b"2", [subject("x")])
    mesh.run()
    ledgers = [decode_ledger(record.value()) for record in mesh.read(mesh.names.ledger("a"))]
    assert ledgers[-1].not_forwarded[0].reason == "no_interest"


def test_a_large_set_is_kept_in_parts_and_left_over_parts_mean_nothing(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec: K6, K21."""
    monkeypatch.setattr(control_writer, "LEARNED_BYTES", 40)
    for number in range(9):
        mesh.subscribe("c", "s", f"some/filter/{number}")
    mesh.run(8000)
    for number in range(1, 9):
        mesh.subscribe("c", "s", f"some/filter/{number}", None)
    mesh.run(8000)
    records = mesh.read(mesh.names.learned("a"))
    keys = [parse_control_key(record.key()) for record in records]
    assert max(key.part for key in keys if isinstance(key, LearnedKey)) > 1
    learned = control_writer.read_learned(records, "b")
    assert {f for filters in learned.values() for f in filters} == {">", "some/filter/0"}
    assert control_writer.read_learned(records, "c") == {}
    assert not any(isinstance(key, AdvertKey) for key in keys)
