"""Control topics that lose their end, are recreated, or lack tombstones are read again.

Spec: K13, K16, K21, K23, K24, R8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mesh.model.control import Acknowledgement, Mark, Ownership, RepairRequest, Scope
from mesh.model.frames import MessageClass
from mesh.model.inputs import Input
from mesh.node.unproven_neighbours import PATIENCE_MS
from mesh.transport.memory_faults import MemoryFaults
from mesh.transport.port import TopicPartition
from mesh.wire.control import decode_acknowledgement, encode_mark, encode_repair_request
from mesh.wire.keys import (
    AckKey,
    IdentityKey,
    MarkKey,
    mark_key,
    parse_control_key,
    repair_key,
    subscribed_key,
)
from mesh.worker.control.leadership import Leadership
from mesh.worker.topics.own_topics import LOOK_MS
from mesh.worker.worker import Worker
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

OWN = Scope("Z", "b", Ownership.OWN)

STARTS: dict[str, Callable[[SmallMesh], None]] = {
    "while it runs": lambda _: None,
    "while it is away": lambda mesh: mesh.world.kill("c"),
    "while nobody is there": lambda mesh: [mesh.world.kill(node) for node in "abc"] and None,
}


def remake(mesh: SmallMesh, topic: str, when: str) -> None:
    """Delete and recreate a topic, with all that stood there gone."""
    STARTS[when](mesh)
    mesh.run(500)
    mesh.kafka.recreate(topic)
    for node in "abc":
        if node not in mesh.world.workers:
            mesh.world.start(node)


def come(mesh: SmallMesh, endpoint: str) -> list[bytes | None]:
    topic = mesh.names.endpoint("c", endpoint)
    return [record.value() for record in mesh.read(topic)] if topic in mesh.kafka.topics else []


def worker(mesh: SmallMesh, node: str) -> Worker:
    return mesh.world.workers[node]


def who(mesh: SmallMesh, node: str) -> tuple[str, int]:
    """Return a node's uuid and epoch."""
    machine = worker(mesh, node).machine
    assert machine is not None
    assert machine.leader is not None
    return machine.uuid, machine.leader.epoch


def subscribed(mesh: SmallMesh, node: str) -> Acknowledgement:
    told = [
        record.value()
        for record in mesh.read(mesh.names.control(node))
        if record.key() == subscribed_key()
    ]
    return decode_acknowledgement(told[-1] or b"")


def states(mesh: SmallMesh, node: str) -> dict[str, str]:
    leader = worker(mesh, node).machine.leader
    assert leader is not None
    return {one.neighbour: one.state for one in leader.beating._last.links}


@pytest.mark.parametrize("when", STARTS)
def test_a_control_topic_recreated_is_read_by_neighbours(mesh: SmallMesh, when: str) -> None:
    """What was offered there counts on, what is offered anew is learned, the node is not down."""
    remake(mesh, mesh.names.control("c"), when)
    mesh.run(20_000)
    mesh.subscribe("c", "f", "y/>")
    mesh.run(10_000)
    mesh.publish(b"1", [subject("y/1")])
    mesh.publish(b"2", [subject("x")])
    mesh.run()
    assert come(mesh, "f") == [b"1"]
    assert sorted(filter(None, come(mesh, "s"))) == [b"1", b"2"]
    assert states(mesh, "b") == {"a": "up", "c": "up"}
    told = subscribed(mesh, "c")
    assert told.applied == told.complete == 1


def test_control_topics_of_two_neighbours_recreated_at_once_are_written_again(
    mesh: SmallMesh,
) -> None:
    """Neither waits for the other's to be proven before it writes its own. Spec: K16, K23, K26."""
    for node in "bc":
        mesh.kafka.recreate(mesh.names.control(node))
    mesh.run(20_000)
    mesh.subscribe("c", "f", "y/>")
    mesh.run(10_000)
    mesh.publish(b"1", [subject("y/1")])
    mesh.run()
    assert come(mesh, "f") == [b"1"]
    assert states(mesh, "b") == {"a": "up", "c": "up"}
    assert states(mesh, "c") == {"b": "up"}
    assert subscribed(mesh, "c").complete == 1


def test_who_starts_with_another_control_topic_of_a_neighbour_waits_for_nothing_that_is_gone(
    said: Said, mesh: SmallMesh
) -> None:
    """Also where nothing is left of its log: a Kafka cluster that was set up anew."""
    for index in range(20):
        mesh.subscribe("c", "f", f"y/{index}")
        mesh.run(300)
    mesh.run()
    for node in "abc":
        mesh.world.kill(node)
    for topic in (mesh.names.control("c"), mesh.names.control_log("c"), mesh.names.learned("b")):
        mesh.kafka.recreate(topic)
    for node in "abc":
        mesh.world.start(node)
    mesh.run(30_000)
    assert who(mesh, "c")[1] == 1
    of_c = {"log_level": "warning", "neighbour": "c"}
    text = "lanes read nothing until it proves as much"
    assert {**of_c, "text": text} in said.of("neighbour.awaited")
    assert of_c in said.of("neighbour.shorter")
    publish_each(mesh, "y/1", "x")
    assert come(mesh, "f") == [b"y/1"]
    assert states(mesh, "b") == {"a": "up", "c": "up"}
    assert subscribed(mesh, "c").complete == 20


def test_epochs_rise_when_the_control_topic_is_another_one(mesh: SmallMesh) -> None:
    """What neighbours acknowledged of the former topic must not count for the new one."""
    uuid, epoch = who(mesh, "c")
    remake(mesh, mesh.names.control("c"), "while it is away")
    mesh.run(5_000)
    assert who(mesh, "c") == (uuid, epoch + 1)


@pytest.mark.parametrize("topic", ["mesh.c.control", "mesh.c.clients", "mesh.c.to.b.c"])
@pytest.mark.parametrize("before", ["it is found", "it is looked at"])
def test_a_topic_recreated_just_after_its_leader_wrote_it_is_written_again(
    mesh: SmallMesh, topic: str, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads it knows the new one alone: only the leader wrote the former one. Spec: K16."""
    mesh.world.kill("c")
    follow = Leadership.follow
    made: list[str] = []

    def following(self: Leadership, *, is_due: bool, now_ms: int) -> Iterator[Input]:
        yield from follow(self, is_due=is_due, now_ms=now_ms)
        if self.node == "c" and self.is_ours and not made and before == "it is found":
            made.append(topic)
            mesh.kafka.recreate(topic)

    monkeypatch.setattr(Leadership, "follow", following)
    mesh.world.start("c")
    if before == "it is looked at":
        mesh.run(1_000)
        mesh.kafka.recreate(topic)
    mesh.run(2 * LOOK_MS)
    mesh.subscribe("c", "t", "y")
    mesh.run(2 * LOOK_MS)
    mesh.publish(b"y", [subject("y")])
    mesh.run()
    assert come(mesh, "t") == [b"y"]
    told = [parse_control_key(record.key() or b"") for record in mesh.read(mesh.names.control("c"))]
    assert IdentityKey() in told


@pytest.mark.parametrize("topic", ["mesh.c.control", "mesh.c.clients"])
def test_a_topic_that_its_reader_has_found_anew_is_not_taken_for_anew_by_the_next_look(
    mesh: SmallMesh, topic: str
) -> None:
    """Its leader begins again once, and what stands there is read to the end. Spec: K16, K23."""
    mesh.run(LOOK_MS + 1_000)
    _, epoch = who(mesh, "c")
    mesh.kafka.recreate(topic)
    mesh.run(3 * LOOK_MS)
    assert who(mesh, "c")[1] == epoch + 1
    machine = worker(mesh, "c").machine
    assert machine is not None
    assert machine.learner.clients.caught_up


@pytest.mark.parametrize("when", STARTS)
def test_a_clients_topic_recreated_is_read(said: Said, mesh: SmallMesh, when: str) -> None:
    """Its offsets begin at 0 again; acknowledgements name the topic that they are about."""
    for index in range(20):
        mesh.subscribe("c", "s", f"z/{index}")
    mesh.run()
    old = subscribed(mesh, "c")
    remake(mesh, mesh.names.clients("c"), when)
    mesh.run(15_000)
    mesh.subscribe("c", "f", "y/>")
    mesh.run(10_000)
    publish_each(mesh, "y/1", "z/1")
    assert come(mesh, "f") == [b"y/1"]
    assert come(mesh, "s") == []  # that was asked for in the former topic
    told = subscribed(mesh, "c")
    assert (told.applied, told.complete) == (0, 0)
    assert told.topic_id != old.topic_id
    if when == "while nobody is there":
        shorter = {"log_level": "warning", "known": old.applied, "end": 0}
        assert shorter in said.of("clients.shorter")


def test_who_starts_after_all_records_of_clients_were_deleted_waits_for_none(
    said: Said, mesh: SmallMesh
) -> None:
    """By retention, say. The log ends where it did: only who has read it all knows. Spec: K16."""
    mesh.subscribe("c", "s", "z/>")
    mesh.run()
    mesh.world.kill("c")
    (log,) = mesh.kafka.topics[mesh.names.clients("c")].logs
    log.delete_before(log.end)
    mesh.world.start("c")
    mesh.run(15_000)
    mesh.subscribe("c", "f", "y/>")
    mesh.run(5_000)
    publish_each(mesh, "y/1", "z/1")
    assert come(mesh, "f") == [b"y/1"]
    assert come(mesh, "s") == []
    assert said.of("clients.deleted") == [{"log_level": "warning", "known": log.end - 2}]


def test_nothing_is_acknowledged_of_a_clients_topic_before_that_one_is_read(
    mesh: SmallMesh,
) -> None:
    """A leader knows of the new topic before its reader does, whose position is in both."""
    mesh.kafka.recreate(mesh.names.clients("c"))
    made = mesh.kafka.topics[mesh.names.clients("c")].info.topic_id
    mesh.subscribe("c", "f", "y/>")
    mesh.kafka.recreate(mesh.names.control("c"))
    for _ in range(300):
        mesh.run(100)
        keys = [record.key() for record in mesh.read(mesh.names.control("c"))]
        told = subscribed(mesh, "c") if subscribed_key() in keys else None
        if told is not None and (told.topic_id, told.complete) == (made, 0):
            break
    else:
        raise AssertionError("it is never acknowledged")
    mesh.publish(b"1", [subject("y/1")])
    mesh.run()
    assert come(mesh, "f") == [b"1"]


@pytest.mark.parametrize("topic", ["control", "clients", "stream"])
def test_a_topic_that_is_deleted_is_recreated(mesh: SmallMesh, topic: str) -> None:
    name = mesh.names.to_control("c", "b") if topic == "stream" else getattr(mesh.names, topic)("c")
    mesh.kafka.delete_topic(name)
    mesh.run(30_000)
    assert name in mesh.kafka.topics
    mesh.subscribe("c", "f", "y/>")
    mesh.run(20_000)
    mesh.publish(b"1", [subject("y/1")])
    mesh.run()
    assert come(mesh, "f") == [b"1"]
    assert subscribed(mesh, "c").complete == subscribed(mesh, "c").applied


def test_what_a_node_acknowledged_is_told_again_when_its_stream_is_another_one(
    mesh: SmallMesh,
) -> None:
    stream = mesh.names.to_control("b", "c")
    mesh.kafka.recreate(stream)
    mesh.run(20_000)
    keys = [parse_control_key(record.key() or b"") for record in mesh.read(stream)]
    assert any(isinstance(key, AckKey) for key in keys)
    mesh.subscribe("c", "f", "y/>")
    mesh.run(10_000)
    assert subscribed(mesh, "c").complete == 1


@pytest.mark.parametrize("topic", ["control", "clients", "stream"])
def test_a_topic_that_has_outgrown_its_reader_at_once_is_told_by_its_id(
    mesh: SmallMesh, topic: str
) -> None:
    """No position is outside its log then: only a look at topic ids finds that it is another."""
    name = mesh.names.to_control("c", "b") if topic == "stream" else getattr(mesh.names, topic)("c")
    mesh.run(2 * LOOK_MS)
    [log] = mesh.kafka.topics[name].logs
    end = log.end
    mesh.kafka.recreate(name)
    [log] = mesh.kafka.topics[name].logs
    key = {"clients": "g z/{}", "control": "heartbeat", "stream": "junk {}"}[topic]
    for number in range(end + 50):
        mesh.write(name, b"{}", key=key.format(number).encode())
    assert log.end > end
    mesh.run(15_000)
    if topic == "clients":
        mesh.publish(b"1", [subject("z/0")])
        mesh.run()
        assert come(mesh, "g") == [b"1"]
    else:
        wanted = MarkKey if topic == "control" else AckKey
        keys = [record.key() or b"" for record in mesh.read(name)]
        assert any(isinstance(parse_control_key(key), wanted) for key in keys if b"junk" not in key)
    mesh.subscribe("c", "f", "y/>")
    mesh.run(40_000)
    mesh.publish(b"2", [subject("y/1")])
    mesh.run()
    assert come(mesh, "f") == [b"2"]
    assert subscribed(mesh, "c").complete == subscribed(mesh, "c").applied


def test_repairs_that_were_asked_for_in_a_former_stream_are_forgotten(mesh: SmallMesh) -> None:
    """Their tombstones went with it; who misses something still asks again."""
    outbox = mesh.names.outbox("b", "c", MessageClass.GUARANTEED)
    told = RepairRequest(outbox, 0, b"t" * 16, 0, 3)
    stream = mesh.names.to_control("c", "b")
    key = repair_key(told.topic_id, 0, 0, MessageClass.GUARANTEED)
    mesh.world.kill("c")  # it would say that the request has ended
    mesh.write(stream, encode_repair_request(told), key=key)
    mesh.run()
    assert worker(mesh, "b")._listener.asked
    mesh.kafka.recreate(stream)
    mesh.run(20_000)
    assert worker(mesh, "b")._listener.asked == {}
    assert worker(mesh, "b").background.repairs._done == {}


def test_a_topic_that_lost_its_end_is_read_again(said: Said, mesh: SmallMesh) -> None:
    """As after an election of a leader that lags: same topic, fewer records."""
    mesh.subscribe("c", "f", "y/>")
    mesh.run()
    control = TopicPartition(mesh.names.control("c"), 0)
    mesh.kafka.truncate(control, 40)
    mesh.run(30_000)
    mesh.subscribe("c", "g", "w/>")
    mesh.run(10_000)
    publish_each(mesh, "y/1", "w/1")
    assert come(mesh, "f") == [b"y/1"]
    assert come(mesh, "g") == [b"w/1"]
    assert {"log_level": "warning", "topic": control.topic} in said.of("control.read_again")
    assert states(mesh, "b") == {"a": "up", "c": "up"}


def test_after_a_cut_longer_than_tombstones_last_interest_that_ended_ends(
    mesh: SmallMesh,
) -> None:
    """No record that comes later would prove the scope: it is read again from its beginning."""
    mesh.subscribe("c", "s", "y/>")
    mesh.subscribe("c", "s", ">", None)
    mesh.run()
    worker(mesh, "b").isolate(["c"])
    mesh.run(2_000)
    mesh.subscribe("c", "s", "y/>", None)
    mesh.subscribe("c", "s", "z/>")
    mesh.run(5_000)
    compact(mesh, mesh.names.control("c"))
    worker(mesh, "b").isolate([])
    mesh.run(5_000)
    assert states(mesh, "b")["c"] == "unproven"
    mesh.run(PATIENCE_MS.first + 5_000)
    assert states(mesh, "b") == {"a": "up", "c": "up"}
    learner = worker(mesh, "b").machine.learner
    scope = learner.neighbours["c"].scopes[OWN]
    assert [filter_ for filter_ in scope.view if not filter_.startswith("$")] == ["z/>"]
    assert not scope.ghosts
    publish_each(mesh, "y/1", "z/1")
    assert come(mesh, "s") == [b"z/1"]


def publish_each(mesh: SmallMesh, *subjects: str) -> None:
    """Publish a message to each subject, which is its payload too."""
    for text in subjects:
        mesh.publish(text.encode(), [subject(text)])
    mesh.run()


def compact(mesh: SmallMesh, topic: str) -> None:
    """Keep the newest record of each key, and no tombstone."""
    entries = mesh.kafka.topics[topic].logs[0].entries
    newest = {record.key(): index for index, record in enumerate(entries) if record is not None}
    for index, record in enumerate(entries):
        if record is not None and (newest[record.key()] != index or record.value() is None):
            entries[index] = None


class OneByOne(MemoryFaults):
    """Fetches of one worker return one record."""

    def fetch_limit(self, client: str, limit: int) -> int:
        return 1 if client == "mesh-b" else limit


def test_nothing_is_missed_while_offers_are_read_again(mesh: SmallMesh) -> None:
    """Marks of long ago, which stand before newer adverts, prove nothing meanwhile."""
    mesh.subscribe("c", "s", ">", None)
    for index in range(10):
        mesh.run(300)
        mesh.subscribe("c", "s", f"y/{index}")
    mesh.run()
    reading = worker(mesh, "b")
    assert reading.machine is not None
    mesh.kafka.faults = OneByOne()
    reading.machine.learner.hearing.read_again("c", is_reset=False)
    reading._listener.read_again("c")
    for index in range(100):
        mesh.publish(b"%d" % index, [subject("y/9")])
        mesh.run(25)
    mesh.kafka.faults = None
    mesh.run()
    assert come(mesh, "s") == [b"%d" % index for index in range(100)]


def test_a_mark_of_another_topic_proves_nothing(mesh: SmallMesh) -> None:
    """Somebody copied it here; whoever leads writes its own mark over it."""
    before = worker(mesh, "b").machine.learner.neighbours["c"].scopes[OWN]
    mark = before.mark
    assert mark is not None
    stray = Mark(mark.epoch + 5, mark.number, 0, 0, b"x" * 16)
    mesh.write(mesh.names.control("c"), encode_mark(stray), key=mark_key(OWN))
    mesh.run(1_000)
    assert worker(mesh, "b").machine.learner.neighbours["c"].scopes[OWN].mark == mark
    mesh.run(10_000)
    newest = worker(mesh, "b").machine.learner.neighbours["c"].scopes[OWN]
    assert newest.proven
    assert newest.mark not in (None, mark)
    assert states(mesh, "b") == {"a": "up", "c": "up"}


def test_a_log_of_control_records_that_is_deleted_ends_nobody() -> None:
    """The leader's next write fails, and who takes the lead recreates the topic. Spec: K16."""
    mesh = SmallMesh()
    worker = mesh.world.workers["a"]
    mesh.kafka.admin().delete([mesh.names.control_log("a")])
    mesh.run(20_000)
    assert mesh.world.workers["a"] is worker
    mesh.publish(b"v", [subject("x/1")])
    mesh.run()
    assert [record.value() for record in mesh.delivered()] == [b"v"]
    assert mesh.names.control_log("a") in mesh.kafka.topics


@pytest.mark.parametrize("which", ["learned", "lanes"])
@pytest.mark.parametrize("when", STARTS)
def test_what_workers_of_a_node_know_each_other_by_is_recreated(
    mesh: SmallMesh, which: str, when: str
) -> None:
    """Without the one nobody leads, without the other nobody gets a lane. Spec: K16, R6."""
    topic = {"learned": mesh.names.learned("a"), "lanes": mesh.names.lanes("a")}[which]
    before = len(mesh.read(topic))
    STARTS[when](mesh)
    mesh.run(500)
    mesh.kafka.delete_topic(topic)
    for node in "abc":
        if node not in mesh.world.workers:
            mesh.world.start(node)
    mesh.run(2 * LOOK_MS)
    mesh.subscribe("c", "late", "late")
    mesh.run(15_000)
    mesh.publish(b"1", [subject("late")])
    mesh.run(15_000)
    assert come(mesh, "late") == [b"1"]
    assert worker(mesh, "a").is_ready
    assert (len(mesh.read(topic)) > 0) is (before > 0)
