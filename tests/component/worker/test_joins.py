"""What workers write and read over joins. Spec: DESIGN 3, UM-5, UM-10, K10."""

from __future__ import annotations

import pytest

from mesh.core.routes import PUBLISHED_HERE
from mesh.model.frames import FrameKind, MessageClass
from mesh.model.link_modes import LinkMode
from mesh.transport.port import TopicPartition
from mesh.wire.control import encode_stop
from mesh.wire.frames import decode_header
from mesh.wire.keys import accept_key
from mesh.worker.second_writer.routing_again import catch_up_lane
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.stops import announcements, payloads, publish, stops

JOINS = {
    "AB": {"kind": "join", "from": "a", "to": "b", "filter": "x/>", "hops": 1},
    "BC": {"kind": "join", "from": "b", "to": "c", "hops": 1},
}
RING = {**JOINS, "CA": {"kind": "join", "from": "c", "to": "a", "hops": 1}}


@pytest.fixture
def joined() -> SmallMesh:
    """Nodes a, b and c, each joined to the next."""
    return SmallMesh({**CHAIN, "zones": JOINS})


def say(mesh: SmallMesh, *values: bytes, to: str = "x/y") -> None:
    for value in values:
        mesh.publish(value, [subject(to)])


def test_an_outbox_is_only_where_messages_go(joined: SmallMesh) -> None:
    """Control goes both ways. Spec: UM-5, K1."""
    topics = joined.kafka.topics
    assert {"mesh.a.to.b.g", "mesh.a.to.b.d", "mesh.a.to.b.c", "mesh.b.to.a.c"} <= set(topics)
    assert not {"mesh.b.to.a.g", "mesh.b.to.a.d"} & set(topics)


def test_the_header_counts_joins_and_names_them(joined: SmallMesh) -> None:
    """Spec: K10, UM-10."""
    say(joined, b"1")
    say(joined, b"2", to="other")
    joined.run()
    assert payloads(joined) == [b"1"]
    for outbox, told in (("mesh.a.to.b.g", ("AB", 1, 1)), ("mesh.b.to.c.g", ("BC", 1, 2))):
        [frame] = joined.read(outbox)
        hop = decode_header(frame.key() or b"").hop
        assert (hop.zone, hop.hops, hop.join_hops) == told


def test_guaranteed_messages_wait_in_the_outbox_of_a_join(joined: SmallMesh) -> None:
    """Nobody has to want them. Spec: K19, UM-5."""
    joined.world.kill("c")
    joined.run(12_000)
    say(joined, b"1", b"2")
    joined.run()
    assert payloads(joined) == []
    joined.world.start("c")
    joined.run()
    assert payloads(joined) == [b"1", b"2"]


def test_what_is_caught_up_crosses_no_join_that_is_refused(joined: SmallMesh) -> None:
    """It asks nobody, and its other end had that another way. Spec: K20, K27."""
    lane = joined.world.workers["a"].lanes.owned[0]
    known = lane.progress.of_target({})
    for mode, neighbours in ((LinkMode.UP, ("b",)), (LinkMode.REFUSED, ())):
        lane.learner.router.follow("b", mode)
        catch_up = catch_up_lane(lane, known, link=lane.link("b"))
        route = catch_up.router.route("x/y", PUBLISHED_HERE, MessageClass.GUARANTEED)
        assert route.neighbours == neighbours


def test_a_loss_is_announced_over_joins_whatever_they_select() -> None:
    """Not to a, whose row of joins ends before: it is where the messages came from. Spec: K10."""
    mesh = SmallMesh({**CHAIN, "zones": RING})
    say(mesh, b"1")
    mesh.run()
    mesh.world.kill("b")
    say(mesh, b"2", b"3", b"4")
    mesh.run(1000)
    mesh.kafka.admin().delete_before({TopicPartition("mesh.a.to.b.g", 0): 3})
    mesh.world.start("b")
    mesh.run()
    [stop] = stops(mesh, "b").values()
    mesh.write(mesh.names.config(), encode_stop(stop), key=accept_key("b", stop.topic, 0))
    mesh.run()
    [told] = announcements(mesh)
    assert (told["topic"], told["path"]) == ("mesh.a.to.b.g", ["b", "c"])
    kinds = [decode_header(frame.key() or b"").kind for frame in mesh.read("mesh.b.to.c.g")]
    assert FrameKind.GAP in kinds
    assert mesh.read("mesh.c.to.a.g") == []


def test_a_ring_that_a_limit_opens_settles_and_carries_each_message_once() -> None:
    """Rows of addresses have scopes of their own: else it would never. Spec: K24, K22."""
    mesh = SmallMesh({**CHAIN, "zones": RING})
    publish(mesh, b"other")
    say(mesh, b"1", b"2")
    mesh.run()
    assert payloads(mesh) == [b"1", b"2"]
    for worker in mesh.world.workers.values():
        assert worker.machine is not None
        assert worker.machine.leader is not None
        state = worker.machine.leader.completion.state("clients")
        assert state.complete == state.applied
