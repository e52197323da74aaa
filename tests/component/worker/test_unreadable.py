"""Frames that nobody can read, and frames that vanish, together: nothing is lost in silence."""

from __future__ import annotations

import json

import pytest

from mesh.lane.broken_chains import AGAIN_MS
from mesh.lane.faults import REPAIRS_MAX
from mesh.lane.messages import outgoing
from mesh.model.frames import FrameKind, Hop
from mesh.model.record_headers import GAP_HEADER
from mesh.transport.port import TopicPartition
from mesh.wire.state import decode_dead_letter
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

OUTBOX = "mesh.a.to.b.g"
AT = TopicPartition(OUTBOX, 0)


def values(mesh: SmallMesh) -> list[bytes | None]:
    return [record.value() for record in mesh.delivered()]


def vanish(mesh: SmallMesh, value: bytes) -> None:
    """Publish a message whose frame is gone from the outbox before b has read it."""
    mesh.world.workers["b"].isolate(["a"])
    mesh.run(300)
    mesh.publish(value, [subject("x")])
    mesh.run(1_500)
    mesh.kafka.truncate(AT, 1)
    mesh.world.workers["b"].isolate([])
    mesh.run(1_500)


@pytest.mark.parametrize("key", [b"order-17", b'{"id":1}', b"\x00\x00\x00\x00\x07abc", b"", None])
def test_a_stray_record_in_an_outbox_stops_nothing(mesh: SmallMesh, key: bytes | None) -> None:
    """It lacks the magic of a frame, so it is none, whatever version it seems to be. Spec: K10."""
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    mesh.write(OUTBOX, b"junk", key=key)
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    assert values(mesh) == [b"0", b"1"]
    assert len(mesh.dead_letters("b")) == 1


@pytest.mark.parametrize("later_ms", [3_000, 600_000])
def test_what_vanishes_behind_garbage_is_asked_for(mesh: SmallMesh, later_ms: int) -> None:
    """Garbage belongs to no chain: it excuses no hole. Spec: K11, R12."""
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    mesh.write(OUTBOX, b"junk", key=b"garbage")
    mesh.run(later_ms)
    vanish(mesh, b"1")
    mesh.publish(b"2", [subject("x")])
    mesh.run(20_000)
    assert values(mesh) == [b"0", b"1", b"2"]


def test_a_repair_that_is_lost_is_asked_for_again_without_a_later_frame(mesh: SmallMesh) -> None:
    """It may be the last that was ever said of its chain. Spec: K11."""
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    vanish(mesh, b"1")
    worker = mesh.world.workers["b"]
    mesh.publish(b"2", [subject("x")])
    while not worker.lanes.owned[0].progress.gaps:
        mesh.run(10)
    worker.isolate(["a"])
    mesh.run(2_000)
    mesh.kafka.truncate(AT, 1)
    worker.isolate([])
    mesh.run(60_000)
    assert values(mesh) == [b"0", b"1", b"2"]
    assert not worker.lanes.owned[0].progress.gaps


@pytest.mark.parametrize(
    ("size", "last"), [pytest.param(6_000, 1, id="alone"), pytest.param(1, 2, id="in one frame")]
)
def test_what_repairs_cannot_bring_is_announced_and_the_rest_goes_on(
    said: Said, mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch, size: int, last: int
) -> None:
    """A sender that writes a frame nobody can read writes it so in each repair. Spec: K20, R12.

    What shares a frame with it in the repairs is lost with it.
    """
    plain = outgoing.relay_key

    def spoilt(hop: Hop, tail: bytes, *more: FrameKind) -> bytes:
        key = plain(hop, tail, *more)
        return key[:-1] if hop.path == ("a",) and hop.chain.first == 1 else key

    monkeypatch.setattr(outgoing, "relay_key", spoilt)
    published = [b"%d" % number * size for number in range(4)]
    for value in published[:3]:
        mesh.publish(value, [subject("x")])
        mesh.run(1_500)
    mesh.run(90_000)
    assert values(mesh) == [published[0], None, *published[last + 1 : 3]]
    [given_up] = said.of("frames.unreadable")
    assert (given_up["lane"], given_up["log_level"]) == (0, "error")
    [announced] = [one for one in mesh.delivered() if one.value() is None]
    [(name, text)] = announced.headers() or []
    told = json.loads(text or b"")
    assert (name, told["topic"], told["reason"]) == (GAP_HEADER, "mesh.a.in.g", "unreadable")
    assert (told["partition"], told["first"], told["last"]) == (0, 1, last)
    mesh.publish(published[3], [subject("x")])
    mesh.run()
    assert values(mesh)[-1] == published[3]
    reasons = [decode_dead_letter(one.headers()[-1][1]).reason for one in mesh.dead_letters("b")]
    assert set(reasons) == {"CODEC"}
    assert 2 < len(reasons) < 6


def test_a_held_target_gets_what_repairs_brought_also_after_a_restart() -> None:
    """A catch-up takes what the lane took, and nothing else. Spec: K11, K20."""
    mesh = SmallMesh()
    mesh.subscribe("b", "stuck", ">")
    mesh.run()
    stuck = "mesh.b.ep.stuck"
    mesh.publish(b"m1", [subject("x")])
    mesh.run()
    mesh.kafka.denied[stuck] = "no right"
    for number in range(4):
        mesh.publish(b"q%d" % number, [subject("x")], partition=1)
        mesh.run(1_500)
    vanish(mesh, b"m2")
    for value in (b"m3", b"m4"):
        mesh.publish(value, [subject("x")])
        mesh.run(8_000)
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run(5_000)
    del mesh.kafka.denied[stuck]
    mesh.run(60_000)
    got = [record.value() for record in mesh.read(stuck) if record.partition() == 0]
    assert got == [b"m1", b"m2", b"m3", b"m4"]
    assert len(mesh.read(stuck)) == 8


def test_marks_of_frames_end_with_the_frames(mesh: SmallMesh) -> None:
    """Nothing is kept of what the outbox has no longer. Spec: K12."""
    mesh.publish(b"0", [subject("x")])
    mesh.run()
    for _ in range(1_100):
        mesh.write(OUTBOX, b"junk", key=b"garbage")
    mesh.run()
    frames = mesh.world.workers["b"].lanes.owned[0].progress.partly_taken[AT]
    assert len(frames._blocks) == 2
    mesh.kafka.admin().delete_before({AT: 1_050})
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run(5_000)
    lane = mesh.world.workers["b"].lanes.owned[0]
    assert list(lane.progress.partly_taken[AT]._blocks) == [1]


@pytest.mark.parametrize("target", ["mesh.b.ep.stuck", "mesh.b.to.c.g"])
def test_a_target_that_is_left_out_hears_of_what_nobody_can_read(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    """Who catches it up judges no chains: the loss waits until it is written again. Spec: K20."""
    plain = outgoing.relay_key

    def spoilt(hop: Hop, tail: bytes, *more: FrameKind) -> bytes:
        key = plain(hop, tail, *more)
        return key[:-1] if hop.path == ("a",) and hop.chain.first == 1 else key

    monkeypatch.setattr(outgoing, "relay_key", spoilt)
    mesh.subscribe("b", "stuck", ">")
    mesh.subscribe("b", "fine", ">")
    mesh.run()
    messages = [b"%d" % number * 6_000 for number in range(4)]
    mesh.publish(messages[0], [subject("x")])
    mesh.run(1_500)
    mesh.kafka.denied[target] = "no right"
    for _ in range(4):
        mesh.publish(b"else", [subject("x")], partition=1)
        mesh.run(1_500)
    for message in messages[1:3]:
        mesh.publish(message, [subject("x")])
        mesh.run(1_500)
    mesh.run(60_000)
    lanes = mesh.world.workers["b"].lanes.owned.values()
    vain = [attempts for lane in lanes for _, attempts in lane.progress.gaps.values()]
    # Each brings all that is missing once more.
    assert 0 < max(vain) < REPAIRS_MAX + 60_000 // AGAIN_MS
    del mesh.kafka.denied[target]
    mesh.run(60_000)
    mesh.publish(messages[3], [subject("x")])
    mesh.run(5_000)
    for topic in ("mesh.b.ep.fine", "mesh.b.ep.stuck", "mesh.c.ep.s"):
        got = [record.value() for record in mesh.read(topic) if record.partition() == 0]
        assert got == [messages[0], None, *messages[2:]], topic
