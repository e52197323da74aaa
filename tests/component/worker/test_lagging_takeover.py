"""A worker takes a lane while it has heard less of a neighbour than the former owner: nothing that
was acknowledged is forgotten."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.node.faults import AWAITED
from mesh.transport.port import BEGINNING, TopicPartition
from mesh.wire.keys import subscription_key
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

APART = {
    "kafka": {"k": {}, "far": {}},
    "nodes": {"a": {"kafka": "k"}, "b": {"kafka": "far"}, "c": {"kafka": "k"}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
}


@pytest.fixture
def mesh() -> SmallMesh:
    """The standby of a, a#1, hears nothing of b from before b's client subscribes to y."""
    mesh = SmallMesh(APART)
    mesh.world.start("a", 1)
    mesh.run(6_000)
    mesh.world.workers["a#1"].isolate(["b"])
    mesh.run(500)
    subscribe_at_b(mesh, "y/>")
    mesh.run(6_000)
    leader = mesh.world.workers["b"].machine.leader
    assert leader is not None
    assert leader.completion.state("clients").complete == 0  # acknowledged through the whole mesh
    return mesh


def subscribe_at_b(mesh: SmallMesh, filter_: str, value: bytes | None = b"{}") -> None:
    writer = mesh.world.kafka["far"].writer("client")
    writer.produce(mesh.names.clients("b"), value, subscription_key("e", filter_), 0)
    assert writer.flush() == 0


def delivered_at_b(mesh: SmallMesh) -> list[bytes | None]:
    kafka = mesh.world.kafka["far"]
    reader = kafka.reader("test")
    topic = mesh.names.endpoint("b", "e")
    reader.assign(
        {TopicPartition(topic, p): BEGINNING for p in range(len(kafka.topics[topic].logs))}
    )
    return sorted(record.value() for record in reader.read(0, 1_000))


@pytest.mark.parametrize("silent_ms", [3_000, 60_000])
def test_who_takes_a_lane_goes_by_what_was_acknowledged(
    said: Said, mesh: SmallMesh, silent_ms: int
) -> None:
    """However long the neighbour is not heard: no time passes for an answer. Spec: K16, K21."""
    mesh.world.kill("a", 0)
    mesh.run(silent_ms)
    assert said.of("neighbour.recalled") == [{"log_level": "warning", "neighbour": "b"}]
    mesh.publish(b"y", [subject("y/1")])
    mesh.run()
    mesh.world.workers["a#1"].isolate([])
    mesh.run(30_000)
    assert delivered_at_b(mesh) == [b"y"]


BETWEEN = {
    **APART,
    "zones": {"Z": {"kind": "multi-hop", "links": [["c", "a"], ["a", "b"]]}},
}


def test_who_takes_the_lead_takes_back_nothing_that_was_acknowledged() -> None:
    """Else those behind it send nothing more of that until it has found out. Spec: K16, K21."""
    mesh = SmallMesh(BETWEEN)
    mesh.world.start("a", 1)
    mesh.run(6_000)
    mesh.world.workers["a#1"].isolate(["b"])
    mesh.run(500)
    subscribe_at_b(mesh, "y/>")
    mesh.run(6_000)
    mesh.world.kill("a", 0)
    ingress, count = mesh.names.ingress("c", MessageClass.GUARANTEED), 60
    for number in range(count):
        mesh.write(ingress, b"%02d" % number, headers=[subject("y/1")])
        mesh.run(100)
    mesh.world.workers["a#1"].isolate([])
    mesh.run(30_000)
    assert delivered_at_b(mesh) == [b"%02d" % number for number in range(count)]


def test_what_was_recalled_is_wanted_until_the_neighbour_itself_is_heard(mesh: SmallMesh) -> None:
    """Marks that are older than what was acknowledged end nothing; the newest one rules. K23."""
    mesh.world.kill("a", 0)
    mesh.run(10_000)
    machine = mesh.world.workers["a#1"].machine
    assert machine is not None
    assert "y/>" in machine.router.table.entries
    mesh.world.workers["a#1"].isolate([])
    mesh.run(30_000)
    assert "y/>" in machine.router.table.entries
    subscribe_at_b(mesh, "y/>", None)
    mesh.run()
    assert "y/>" not in machine.router.table.entries


def test_a_filter_that_was_known_of_a_direct_endpoint_alone_is_recalled_too() -> None:
    """The standby knows the filter; that guaranteed messages are to wait for it is new. K21."""
    mesh = SmallMesh(APART)
    mesh.subscribe("c", "s", ">", None)
    mesh.world.start("a", 1)
    writer = mesh.world.kafka["far"].writer("client")
    live = b'{"class": "direct"}'
    writer.produce(mesh.names.clients("b"), live, subscription_key("live", "y/>"), 0)
    mesh.run(6_000)
    mesh.world.workers["a#1"].isolate(["b"])
    mesh.run(500)
    subscribe_at_b(mesh, "y/>")
    mesh.run(6_000)
    mesh.world.kill("a", 0)
    mesh.run(20_000)
    mesh.publish(b"y", [subject("y/1")])
    mesh.run()
    mesh.world.workers["a#1"].isolate([])
    mesh.run(30_000)
    assert delivered_at_b(mesh) == [b"y"]


def reason(mesh: SmallMesh, worker: str) -> str:
    """Return what a worker that leads says of its link to b."""
    leader = mesh.world.workers[worker].machine.leader
    [link] = [one for one in leader.beating._last.links if one.neighbour == "b"]
    assert (link.state == "up") == (not link.reason)
    return link.reason


TWO_LANES = {**APART, "nodes": {**APART["nodes"], "a": {"kafka": "k", "lanes": 2}}}


@pytest.mark.parametrize("silent_ms", [3_000, 60_000])
def test_what_a_mate_did_not_know_was_not_acknowledged_and_is_waited_for(silent_ms: int) -> None:
    """One lane has routed by it, and its worker dies: nobody may say that the node knows it. K24."""
    mesh = SmallMesh(TWO_LANES)
    mesh.subscribe("c", "s", ">", None)
    mesh.world.start("a", 1)
    mesh.run(6_000)
    assert all(len(mesh.world.workers[one].lanes.owned) == 1 for one in ("a", "a#1"))
    deaf, dies = ("a", 1) if mesh.world.workers["a#1"].machine.leader else ("a#1", 0)
    mesh.world.workers[deaf].isolate(["b"])
    mesh.run(500)
    subscribe_at_b(mesh, "y/>")
    mesh.run(3_000)
    leader = mesh.world.workers["b"].machine.leader
    mesh.world.kill("a", dies)
    mesh.run(silent_ms)
    assert leader.completion.state("clients").complete == -1
    if silent_ms > 10_000:  # it has taken the other lane, and people see why that stands still
        assert AWAITED in reason(mesh, deaf)
    told = 0 if deaf == "a#1" else 1  # the lane that had said from where on it routes by it
    mesh.publish(b"before", [subject("y/1")], partition=told)
    mesh.run()
    mesh.world.workers[deaf].isolate([])
    mesh.run(30_000)
    assert leader.completion.state("clients").complete == 0
    assert reason(mesh, deaf) == ""
    mesh.publish(b"one", [subject("y/1")], partition=1 - told)
    mesh.run()
    assert delivered_at_b(mesh) == [b"before", b"one"]


def test_a_leader_that_lags_overwrites_nothing_that_its_predecessor_has_kept() -> None:
    """The next one finds all that was acknowledged, too. Spec: K21."""
    mesh = SmallMesh(APART)
    mesh.subscribe("c", "s", ">", None)
    for index in (1, 2):
        mesh.world.start("a", index)
    mesh.run(6_000)
    for name in ("a#1", "a#2"):
        mesh.world.workers[name].isolate(["b"])
    mesh.run(500)
    for filter_ in ("x/>", "y/>", "z/>"):
        subscribe_at_b(mesh, filter_)
        mesh.run(5_000)
    for index in (0, 1):
        mesh.world.kill("a", index)
        mesh.run(20_000)
    for name in ("x/1", "y/1", "z/1"):
        mesh.publish(name.encode(), [subject(name)])
    mesh.run()
    assert "a#2" in mesh.world.workers
    mesh.world.workers["a#2"].isolate([])
    mesh.run(30_000)
    assert delivered_at_b(mesh) == [b"x/1", b"y/1", b"z/1"]


def assert_taken_over(mesh: SmallMesh, letter: str) -> None:
    """Check that a standby that does not hear b goes by what b's client asked for just now."""
    subscribe_at_b(mesh, f"{letter}/>")
    mesh.run(8_000)
    mesh.world.kill("a", 0)
    mesh.run(10_000)
    mesh.publish(letter.encode(), [subject(f"{letter}/1")])
    mesh.run(3_000)
    mesh.world.workers["a#1"].isolate([])
    mesh.run(30_000)
    assert delivered_at_b(mesh) == [letter.encode()]


def test_who_could_not_reach_a_neighbour_at_its_start_goes_by_what_was_acknowledged_since() -> None:
    """It is frozen: what the node has kept of it may have grown until the lane is taken. K16, K21."""
    mesh = SmallMesh(APART)
    mesh.subscribe("c", "s", ">", None)
    mesh.world.start("a", 1)
    mesh.world.workers["a#1"].isolate(["b"])
    mesh.run(20_000)
    assert mesh.world.workers["a#1"].machine.learner.neighbours["b"].frozen
    assert_taken_over(mesh, "y")


def test_who_was_frozen_and_is_heard_again_is_frozen_no_more() -> None:
    """It lags later like any other worker, and must recall like any other. K16, K21."""
    mesh = SmallMesh(APART)
    mesh.subscribe("c", "s", ">", None)
    mesh.world.start("a", 1)
    standby = mesh.world.workers["a#1"]
    standby.isolate(["b"])
    mesh.run(20_000)
    standby.isolate([])
    mesh.run(8_000)
    assert not standby.machine.learner.neighbours["b"].frozen
    standby.isolate(["b"])
    mesh.run(500)
    assert_taken_over(mesh, "z")


STAR = {
    "kafka": {"k": {}, "far": {}},
    "nodes": {
        "a": {"kafka": "k", "lanes": 2, "partitions": 2},
        "b": {"kafka": "far"},
        "c": {"kafka": "k"},
    },
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}},
}


@pytest.mark.parametrize("lagging", [0, 1])
def test_a_node_whose_lanes_knew_different_things_serves_without_the_neighbour(
    lagging: int,
) -> None:
    """It dies as one lane has committed what the worker of the other one has not read, and then it
    cannot reach that neighbour: no round of its leader waits for what nobody can read. K21, K25.
    """
    mesh = SmallMesh(STAR)
    mesh.world.start("a", 1)
    mesh.run(15_000)
    of_a = (mesh.world.workers["a"], mesh.world.workers["a#1"])
    [lags] = [one for one in of_a if one.given == {lagging}]
    lags.isolate(["b"])
    mesh.run(200)
    subscribe_at_b(mesh, "y/>")
    mesh.run(3_000)
    mesh.world.kill("a")
    mesh.world.cut("a", ["b"])
    for index in (0, 1):
        mesh.world.start("a", index)
    mesh.run(25_000)
    mesh.subscribe("a", "t", "z/>")
    mesh.run(5_000)
    topic = mesh.names.ingress("c", MessageClass.GUARANTEED)
    mesh.write(topic, b"z", headers=[subject("z/1")])
    mesh.run()
    assert [one.value() for one in mesh.read(mesh.names.endpoint("a", "t"))] == [b"z"]


def test_what_stood_there_in_an_earlier_wait_says_nothing_of_a_later_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log has grown since, and its reader may stand still now. Spec: K16."""
    mesh = SmallMesh(APART)
    mesh.run(6_000)
    feeds, clock = mesh.world.workers["a"]._listener._feeds, mesh.world.clock
    control = feeds[mesh.names.control("b")].place

    def has_read_all(since_ms: int) -> bool:
        asked = [feeds.has_read_all(control.topic, since_ms, clock.ms) for _ in range(3)]
        return asked[-1]

    taken_ms = clock.ms
    assert has_read_all(taken_ms)
    mesh.run(6_000)
    stands_at = feeds.readers["far"].position(control)
    mesh.run(6_000)
    with monkeypatch.context() as stalled:
        stalled.setattr(type(feeds.readers["far"]), "position", lambda *_: stands_at)
        assert has_read_all(taken_ms), "all of then"
        assert not has_read_all(clock.ms)
        assert not has_read_all(clock.ms)
    assert has_read_all(clock.ms)


def test_how_far_a_former_topic_was_read_says_nothing_of_the_one_in_its_place() -> None:
    """A lane would go by what nobody has read yet as if it were all there is. Spec: K4, K16."""
    mesh = SmallMesh(APART)
    mesh.run(6_000)
    feeds, clock = mesh.world.workers["a"]._listener._feeds, mesh.world.clock
    topic = mesh.names.control("b")
    mesh.world.kill("b")
    feed, far = feeds[topic], mesh.world.kafka["far"]
    assert feeds.readers["far"].position(feed.place) > 0
    far.recreate(topic)
    since_ms = clock.ms
    assert not any(feeds.has_read_all(topic, since_ms, clock.ms) for _ in range(3))
    mesh.run(5_000)
    assert feed.topic_id == far.topics[topic].info.topic_id
    assert any(feeds.has_read_all(topic, since_ms, clock.ms) for _ in range(3))
