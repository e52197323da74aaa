"""A link that operators disabled carries nothing; what waits comes once and in order. DMR-10."""

from __future__ import annotations

import pytest

from mesh.model.control import LinkStatus, Pause
from mesh.model.frames import MessageClass
from mesh.model.link_modes import LinkMode
from mesh.view.disabling import ends_of, write_disabled
from mesh.wire.control import decode_heartbeat, decode_link_state
from mesh.wire.state import decode_ledger
from tests.component.worker.conftest import CHAIN, SmallMesh, subject


def disable(mesh: SmallMesh, *, is_disabled: bool = True) -> None:
    why = Pause() if is_disabled else None
    topology, kafka = mesh.world.topology, mesh.world.kafka
    assert write_disabled(topology, kafka, ends_of("a", "b"), why, {}) == {}
    mesh.run(3000)


def enable(mesh: SmallMesh) -> None:
    disable(mesh, is_disabled=False)


def publish(mesh: SmallMesh, *numbers: int, letter: str = "g", to: str = "x") -> None:
    for number in numbers:
        mesh.write(f"mesh.a.in.{letter}", b"%d" % number, headers=[subject(to)])
    mesh.run(2000)


def delivered(mesh: SmallMesh) -> list[int]:
    return [int(record.value()) for record in mesh.delivered()]


def seen(mesh: SmallMesh, node: str) -> LinkStatus:
    """Return the first link of a node as its newest heartbeat tells it."""
    beats = [r for r in mesh.read(mesh.names.control(node)) if r.key() == b"heartbeat"]
    return decode_heartbeat(beats[-1].value()).links[0]


def last_beat_read(mesh: SmallMesh, node: str, other: str) -> int:
    records = mesh.read(mesh.names.to_control(node, other))
    return decode_link_state([r for r in records if r.key() == b"link"][-1].value()).beat


def refused(mesh: SmallMesh, node: str) -> dict[tuple[str, MessageClass], int]:
    counts: dict[tuple[str, MessageClass], int] = {}
    for record in mesh.read(mesh.names.ledger(node)):
        for entry in decode_ledger(record.value()).not_forwarded:
            key = (entry.reason, entry.message_class)
            counts[key] = counts.get(key, 0) + entry.messages
    return counts


def test_nothing_crosses_it_and_what_waits_comes_once_and_in_order(mesh: SmallMesh) -> None:
    """Guaranteed are queued; direct discarded, with their reason. Spec: DMR-10, lab.md 2."""
    publish(mesh, 1)
    disable(mesh)
    publish(mesh, 2, 3)
    publish(mesh, 8, 9, letter="d")
    heard = last_beat_read(mesh, "a", "b")
    mesh.run(15_000)
    assert delivered(mesh) == [1]
    assert last_beat_read(mesh, "a", "b") == heard
    assert refused(mesh, "a") == {("link_disabled", MessageClass.DIRECT): 2}
    assert (seen(mesh, "a").state, seen(mesh, "b").state) == ("disabled", "disabled")
    enable(mesh)
    publish(mesh, 4)
    publish(mesh, 5, letter="d")
    mesh.run()
    assert sorted(delivered(mesh)) == [1, 2, 3, 4, 5]
    assert [n for n in delivered(mesh) if n < 5] == [1, 2, 3, 4]
    assert last_beat_read(mesh, "a", "b") > heard
    assert (seen(mesh, "a").state, seen(mesh, "b").state) == ("up", "up")


@pytest.mark.parametrize("who", ["a", "b", "ab"])
def test_it_stays_so_through_restarts_of_its_ends(mesh: SmallMesh, who: str) -> None:
    """Who starts anew goes by what it had learned, and reads nothing before. Spec: K21."""
    disable(mesh)
    publish(mesh, 1)
    for node in who:
        mesh.world.kill(node)
    mesh.run(1000)
    for node in who:
        mesh.world.start(node)
    mesh.run(3000)
    publish(mesh, 2)
    publish(mesh, 9, letter="d")
    assert delivered(mesh) == []
    assert refused(mesh, "a") == {("link_disabled", MessageClass.DIRECT): 1}
    assert (seen(mesh, "a").state, seen(mesh, "b").state) == ("disabled", "disabled")
    enable(mesh)
    publish(mesh, 3)
    mesh.run()
    assert delivered(mesh) == [1, 2, 3]


def test_what_was_proven_just_before_is_known_to_who_starts_just_after(mesh: SmallMesh) -> None:
    """It is kept at once, not when the set is looked at next. Spec: K21."""
    mesh.subscribe("c", "s", ">", None)
    mesh.run(4000)
    machine = mesh.world.workers["a"].machine
    assert machine is not None
    assert machine.leader is not None
    due = machine.leader.remembering._due_ms
    while machine.leader.remembering._due_ms == due:
        mesh.world.advance()
    mesh.subscribe("c", "s", "y")
    mesh.run(400)
    topology, kafka = mesh.world.topology, mesh.world.kafka
    write_disabled(topology, kafka, ends_of("a", "b"), Pause(), {})
    mesh.run(300)
    assert machine.router.unread() == {"b"}
    mesh.world.kill("a")
    mesh.run(1000)
    mesh.world.start("a")
    mesh.run(3000)
    publish(mesh, 1, to="x")
    publish(mesh, 2, to="y")
    enable(mesh)
    mesh.run()
    assert delivered(mesh) == [2]
    assert refused(mesh, "a") == {("no_interest", MessageClass.GUARANTEED): 1}


@pytest.mark.parametrize("restarts", [False, True])
def test_changes_behind_it_are_known_when_it_is_enabled(mesh: SmallMesh, restarts: bool) -> None:
    """Until then the set is frozen: what ended is queued still, what began is not. Spec: K21."""
    disable(mesh)
    mesh.subscribe("c", "s", ">", None)
    mesh.subscribe("c", "s", "new/>")
    mesh.run()
    if restarts:
        mesh.world.kill("a")
        mesh.run(1000)
        mesh.world.start("a")
        mesh.run(3000)
    publish(mesh, 1, to="old")
    assert refused(mesh, "a") == {}
    enable(mesh)
    mesh.run()
    publish(mesh, 2, to="new/x")
    publish(mesh, 3, to="old")
    mesh.run()
    assert delivered(mesh) == [2]
    assert refused(mesh, "a") == {("no_interest", MessageClass.GUARANTEED): 1}


def test_what_is_in_force_stays_so_while_it_is_proven_anew(mesh: SmallMesh) -> None:
    """The control topic is read from its beginning; its old marks prove nothing. Spec: K23."""
    mesh.subscribe("c", "s", "more/>")
    mesh.run(500)
    mesh.subscribe("c", "s", ">", None)
    mesh.run()
    disable(mesh)
    topology, kafka = mesh.world.topology, mesh.world.kafka
    write_disabled(topology, kafka, ends_of("a", "b"), None, {})
    worker = mesh.world.workers["a"]
    for number in range(200):
        mesh.write("mesh.a.in.g", b"%d" % number, headers=[subject("more/x")])
        mesh.world.advance()
    assert worker.machine is not None
    mesh.run()
    assert not worker.machine.router.unread()
    assert refused(mesh, "a") == {}
    assert delivered(mesh) == list(range(200))


def test_who_takes_the_lane_over_knows_it() -> None:
    """Also a worker that was there before, and one that begins while it is so. Spec: K16."""
    mesh = SmallMesh(CHAIN)
    mesh.world.start("a", 1)
    mesh.run()
    disable(mesh)
    publish(mesh, 1)
    mesh.world.kill("a", 0)
    mesh.run(10_000)
    publish(mesh, 2)
    mesh.world.start("a", 2)
    mesh.run(2000)
    mesh.world.kill("a", 1)
    mesh.run(10_000)
    publish(mesh, 3)
    publish(mesh, 9, letter="d")
    assert delivered(mesh) == []
    assert refused(mesh, "a") == {("link_disabled", MessageClass.DIRECT): 1}
    enable(mesh)
    mesh.run()
    assert delivered(mesh) == [1, 2, 3]


@pytest.mark.parametrize("seed", range(6))
def test_kills_around_the_change_lose_and_double_nothing(seed: int) -> None:
    """Disabled and enabled again and again, under load, while workers of both ends die."""
    mesh = SmallMesh(CHAIN)
    for turn in range(4):
        node = "ab"[(seed + turn) % 2]
        why = Pause() if turn % 2 == 0 else None
        topology, kafka = mesh.world.topology, mesh.world.kafka
        for number in range(10):
            mesh.write("mesh.a.in.g", b"%d" % (10 * turn + number), headers=[subject("x")])
        mesh.run(20 + 70 * seed)
        write_disabled(topology, kafka, ends_of("a", "b"), why, {})
        mesh.run(10 + 40 * seed)
        mesh.world.kill(node)
        mesh.run(500)
        mesh.world.start(node)
        mesh.run(3000)
    mesh.run(10_000)
    assert delivered(mesh) == list(range(40))


def test_its_heartbeat_is_not_missed(mesh: SmallMesh) -> None:
    """It is no node that went down, and may come back without having been one. Spec: K32."""
    disable(mesh)
    mesh.run(15_000)
    worker = mesh.world.workers["a"]
    assert worker.machine is not None
    assert worker.machine.router.modes.get("b") is not LinkMode.DOWN
    mesh.world.kill("b")
    enable(mesh)
    mesh.run(13_000)
    assert worker.machine.router.modes["b"] is LinkMode.DOWN
    assert seen(mesh, "a").state == "down"
