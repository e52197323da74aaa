"""An endpoint that holds as much as may: it waits, clients are refused, or the oldest go. R14."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.redelivery import Share
from mesh.errors import ConfigError, TransportUnavailableError
from mesh.lab.world import World
from mesh.transport.memory_faults import Call, MemoryFaults
from mesh.transport.port import TopicPartition
from mesh.view.messages import announced, received
from mesh.wire.state import decode_dead_letter, decode_ledger
from mesh.worker.second_writer import displacing
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.component.worker.limited import (
    AT,
    FULL,
    LIMIT,
    OTHER,
    SIZE,
    limited,
    losses,
    publish,
    pushed_out,
    read_all,
    read_to,
    there,
)
from tests.said import Said


@pytest.mark.parametrize("late", [0, 1, 2, 5])
def test_answers_that_come_late_make_nothing_full(late: int) -> None:
    """A reader stays twelve seconds behind, well below the limit: nothing is pushed out. R14."""
    mesh = limited("dead-letter", late=late, bytes=LIMIT)
    for number in range(300):
        mesh.write("mesh.a.in.g", b"%04d" % number + b"x" * 96, headers=[subject("x")])
        mesh.run(300)
        read_to(mesh, max(0, mesh.kafka.admin().stable_ends([AT])[AT] - 60))
    assert pushed_out(mesh) == []
    assert there(mesh, FULL) == list(range(300))


def test_a_full_endpoint_waits_alone_and_loses_nothing(said: Said) -> None:
    """Spec: R14, K20."""
    mesh = limited("stop", bytes=LIMIT)
    publish(mesh, 0, 60)
    assert there(mesh, OTHER) == list(range(60))
    held = there(mesh, FULL)
    assert held == list(range(len(held)))
    assert 10 < len(held) < 40
    [full] = said.of("endpoint.full")
    place = {"log_level": "warning", "lane": 0, "endpoint": "s"}
    assert full == {**place, "bytes": full["bytes"], "age_ms": full["age_ms"]}
    assert LIMIT < full["bytes"] < 40 * SIZE
    read_all(mesh)
    for _ in range(12):
        mesh.run(10_000)
        read_all(mesh)
    assert place in said.of("endpoint.relieved")
    assert there(mesh, FULL) == list(range(60))


@pytest.mark.parametrize("seed", range(3))
def test_a_limit_is_reached_and_relieved_while_workers_die(seed: int) -> None:
    """Killed when it is full, while it waits, and when it goes on. Spec: R14, K16."""
    mesh = limited("stop", bytes=LIMIT)
    for round_ in range(4):
        publish(mesh, 15 * round_, 15 * round_ + 15)
        mesh.world.kill("c")
        mesh.run(500 + 700 * seed)
        mesh.world.start("c")
        mesh.run(3_000 * ((seed + round_) % 3))
        read_all(mesh)
        mesh.run(2_000)
        mesh.world.kill("c")
        mesh.world.start("c")
    for _ in range(8):
        mesh.run(10_000)
        read_all(mesh)
    assert there(mesh, FULL) == there(mesh, OTHER) == list(range(60))


def test_age_is_a_limit_too() -> None:
    mesh = limited("stop", age="20s")
    publish(mesh, 0, 5)
    mesh.run(30_000)
    publish(mesh, 5, 10)
    assert (there(mesh, FULL), there(mesh, OTHER)) == (list(range(5)), list(range(10)))
    read_all(mesh)
    mesh.run(20_000)
    assert there(mesh, FULL) == list(range(10))


def test_where_clients_are_refused_links_wait() -> None:
    """Plain clients of the node wait in its ingress, what comes over links beside the lane."""
    mesh = limited("reject", bytes=LIMIT)
    publish(mesh, 0, 40)
    held = len(there(mesh, FULL))
    assert 10 < held < 40
    publish(mesh, 40, 45, node="c")
    publish(mesh, 45, 50)
    assert there(mesh, OTHER) == [*range(40), *range(45, 50)]
    for _ in range(8):
        read_all(mesh)
        mesh.run(10_000)
    assert sorted(there(mesh, FULL)) == sorted(there(mesh, OTHER)) == list(range(50))


def check_exact(mesh: SmallMesh, count: int) -> None:
    """Everything is in the endpoint or a dead letter, once, and what is lost was announced."""
    lost, kept = pushed_out(mesh), there(mesh, FULL)
    assert lost + kept == list(range(count))
    assert lost
    assert mesh.kafka.admin().starts([AT])[AT] > 0
    origin = {int((r.value() or b"")[:4]): received(r).identity for r in mesh.read(OTHER)}
    letters = [
        decode_dead_letter(record.headers()[-1][1] or b"") for record in mesh.dead_letters("c")
    ]
    assert [one.identity for one in letters] == [str(origin[number]) for number in lost]
    assert {one.target for one in letters} == {FULL}
    [loss] = losses(mesh)[-1:]
    assert (loss.node, loss.topic, loss.topic_id) == ("c", "mesh.a.in.g", origin[0].topic_id)
    told_of = {n for one in losses(mesh) for n in range(one.first, (one.last or 0) + 1)}
    assert told_of == {origin[number].offset for number in lost}
    ledgers = [decode_ledger(r.value() or b"") for r in mesh.read("mesh.c.ledger")]
    reasons = {"endpoint_full", "endpoint_expired"}
    dropped = [one for ledger in ledgers for one in ledger.dropped if one.reason in reasons]
    assert sum(one.messages for one in dropped) == len(lost)


@pytest.mark.parametrize("limit", [{"bytes": LIMIT}, {"age": "15s"}])
def test_the_oldest_become_dead_letters(said: Said, limit: dict[str, object]) -> None:
    """In order, each once; half of the limit is free then; nobody else is touched. Spec: R14."""
    mesh = limited("dead-letter", **limit)
    publish(mesh, 0, 60)
    mesh.run(20_000)
    check_exact(mesh, 60)
    assert there(mesh, OTHER) == list(range(60))
    wanted = "endpoint_full" if "bytes" in limit else "endpoint_expired"
    assert {loss.reason for loss in losses(mesh)} == {wanted}
    assert len(there(mesh, FULL)) <= 25
    told = said.of("endpoint.displaced")
    assert {(one["endpoint"], one["log_level"]) for one in told} == {("s", "error")}
    assert sum(one["messages"] for one in told) == len(mesh.dead_letters("c"))


def test_what_cannot_be_deleted_yet_is_told_and_deleted_later(said: Said) -> None:
    """It is a dead letter by then, and no other one is made of it. Spec: R14."""
    away = TransportUnavailableError("no broker answers")
    mesh = limited("dead-letter", bytes=LIMIT)
    mesh.kafka.faults = AdminFaults(delete_before=away, times=1)
    publish(mesh, 0, 25)
    mesh.run(20_000)
    assert said.of("endpoint.not_displaced") == [{"log_level": "warning", "fault": str(away)}]
    check_exact(mesh, 25)


def test_each_lane_gives_up_its_own_part() -> None:
    """Two workers, two lanes: every message is in one place, once. Spec: R14, K14."""
    mesh = SmallMesh.__new__(SmallMesh)
    limits = [{"endpoint": "s", "bytes": 2 * LIMIT, "whenFull": "dead-letter"}]
    nodes = {**CHAIN["nodes"], "c": {"lanes": 2, "partitions": 4}}
    spec = {**CHAIN, "nodes": nodes, "limits": limits}
    mesh.world = World(topology_from_mapping(spec), seed=5)
    mesh.names = SmallMesh().names
    for node in "abc":
        mesh.world.start(node)
    mesh.world.start("c", 1)
    for endpoint in "st":
        mesh.subscribe("c", endpoint, ">")
    mesh.run(8_000)
    for number in range(100):
        value = b"%04d" % number + b"x" * (SIZE - 4)
        mesh.write("mesh.a.in.g", value, partition=number % 4, headers=[subject("x")])
        mesh.run(300)
        if number == 60:
            mesh.world.kill("c", 1)
    mesh.run(30_000)
    lost = pushed_out(mesh)
    assert {number % 2 for number in lost} == {0, 1}
    assert sorted(lost + there(mesh, FULL)) == sorted(there(mesh, OTHER)) == list(range(100))
    told = {
        (one.partition, n) for one in losses(mesh) for n in range(one.first, (one.last or 0) + 1)
    }
    assert told == {(number % 4, number // 4) for number in lost}


def test_what_is_read_is_never_given_up() -> None:
    mesh = limited("dead-letter", bytes=LIMIT)
    for round_ in range(8):
        publish(mesh, 8 * round_, 8 * round_ + 8)
        read_all(mesh)
    mesh.run(20_000)
    assert pushed_out(mesh) == []
    assert there(mesh, FULL) == list(range(64))


class Crash(MemoryFaults):
    """Kills the worker at one call of the lane's second writer."""

    def __init__(self, mesh: SmallMesh, call: Call) -> None:
        self.mesh = mesh
        self.call = call
        self.left = 1
        self.hits = 0

    def called(self, call: Call, client: str, what: str) -> None:
        if call is self.call and client == "held-0" and self.left:
            self.left -= 1
            self.hits += 1
            raise KeyboardInterrupt


@pytest.mark.parametrize("call", [Call.OPENED, Call.BEGIN, Call.COMMIT, Call.COMMITTED])
def test_a_crash_before_the_deletion_gives_nothing_up_twice(call: Call) -> None:
    """Dead letters are committed before records are deleted. Spec: R3, R14."""
    mesh = limited("dead-letter", bytes=LIMIT)
    crash = Crash(mesh, call)
    mesh.kafka.faults = crash
    ended = 0
    for number in range(150):
        try:
            publish(mesh, number, number + 1)
        except KeyboardInterrupt:
            crash.left = 0
            mesh.world.kill("c")
            mesh.world.start("c")
            ended += 1
            crash.left = int(ended < 3)
    mesh.kafka.faults = None
    mesh.run(30_000)
    assert ended == 3
    assert sorted(set(there(mesh, OTHER))) == list(range(150))
    check_exact(mesh, 150)


def test_what_takes_the_place_of_dead_letters_is_not_deleted_for_them() -> None:
    """The endpoint loses its end between their commit and the deletion. Spec: R6, R14."""
    mesh = limited("dead-letter", bytes=LIMIT)
    mesh.kafka.faults = Crash(mesh, Call.COMMITTED)
    with pytest.raises(KeyboardInterrupt):
        publish(mesh, 0, 30)
    mesh.kafka.faults = None
    mesh.world.kill("c")
    log = mesh.kafka.topics[FULL].logs[0]
    end = log.end
    mesh.kafka.truncate(AT, 1_000)
    assert log.end == log.start
    while log.end < end:
        mesh.write(FULL, b"%04d" % (1_000 + log.end))
    mesh.world.start("c")
    mesh.run(30_000)
    news = {1_000 + offset for offset in range(end)}
    assert news <= {*pushed_out(mesh), *there(mesh, FULL)}


def test_a_limit_names_what_exists_and_what_it_costs() -> None:
    for limit, told in (
        ({"endpoint": "s"}, "limits nothing; give bytes or age"),
        ({"endpoint": "s", "node": "d", "bytes": 1}, "no node is called 'd'"),
        ({"endpoint": "a b", "bytes": 1}, "a b"),
        ({"endpoint": "s", "bytes": 0}, "bytes"),
        ({"endpoint": "s", "age": "soon"}, "not a duration"),
        ({"endpoint": "s", "bytes": 1, "outboxBytes": 1}, "only limits of links"),
        ({"endpoint": "*", "bytes": 1, "whenFull": "dead-letter"}, "name the endpoint"),
        ({"link": ["a", "b"], "bytes": 1, "bytesPerSecond": 1}, "only limits of endpoints"),
        ({"link": ["a", "b"], "outboxBytes": 1, "whenFull": "dead-letter"}, "never given up"),
        ({"bytesPerSecond": 1}, "say what it is of"),
    ):
        with pytest.raises(ConfigError) as refused:
            topology_from_mapping({**CHAIN, "limits": [limit]})
        assert told in str(refused.value)
    twice = [{"endpoint": "s", "bytes": 1}, {"endpoint": "s", "node": "*", "age": "1h"}]
    with pytest.raises(ConfigError, match="has limits already"):
        topology_from_mapping({**CHAIN, "limits": twice})
    by_case = [{"endpoint": "s", "bytes": 1}, {"endpoint": "S", "bytes": 2}]
    with pytest.raises(ConfigError, match="has limits already"):
        topology_from_mapping({**CHAIN, "limits": by_case})


def test_the_limit_that_names_an_endpoint_most_exactly_is_good() -> None:
    limits = [
        {"endpoint": "*", "bytes": 1},
        {"endpoint": "*", "node": "a", "bytes": 2},
        {"endpoint": "s", "bytes": 3},
        {"endpoint": "s", "node": "a", "bytes": 4},
    ]
    topology = topology_from_mapping({**CHAIN, "limits": limits})
    pairs = [("b", "t"), ("a", "t"), ("b", "s"), ("a", "s")]
    found = [topology.endpoint_limit(*pair) for pair in pairs]
    assert [one.size for one in found if one is not None] == [1, 2, 3, 4]


def test_a_limit_is_of_the_endpoint_of_its_name_whatever_the_case() -> None:
    """So is what is declared of a queue: its age would hold nowhere else. Spec: DESIGN 3."""
    declared = {"limits": [{"endpoint": "Bills", "bytes": 1}], "queues": {"Jobs": {"maxAge": "2h"}}}
    topology = topology_from_mapping({**CHAIN, **declared})
    bills, jobs = (topology.endpoint_limit("a", name) for name in ("bills", "JOBS"))
    assert bills is not None
    assert bills.size == 1
    assert jobs is not None
    assert jobs.age_s == 7200


@pytest.mark.parametrize("when_full", ["stop", "reject"])
def test_what_is_full_again_and_again_loses_nothing(when_full: str) -> None:
    """Each time is a hold of its own, also while the lane stays the same. Spec: R14, K20."""
    mesh = limited(when_full, bytes=LIMIT)
    for number in range(3):
        publish(mesh, 30 * number, 30 * number + 30)
        for _ in range(4):
            mesh.run(10_000)
            read_all(mesh)
    assert there(mesh, FULL) == there(mesh, OTHER) == list(range(90))


def burst(mesh: SmallMesh, count: int, size: int) -> None:
    """Publish so many messages at once, into one partition of c's own ingress."""
    writer = mesh.kafka.writer("client")
    for number in range(count):
        value = b"%04d" % number + b"x" * (size - 4)
        writer.produce("mesh.c.in.g", value, None, 0, headers=[subject("x")])
    assert writer.flush() == 0


def test_however_much_comes_at_once_the_limit_is_kept() -> None:
    """It is passed by what comes between two looks, and by no more. Spec: R14."""
    mesh = limited("dead-letter", bytes=LIMIT)
    burst(mesh, 9_000, 100)
    mesh.run(12_000)
    kept = there(mesh, FULL)
    assert len(kept) * 100 <= LIMIT
    assert pushed_out(mesh) + kept == there(mesh, OTHER) == list(range(9_000))


class OneByOne(MemoryFaults):
    """Fetches of the endpoint bring one record each."""

    def fetch_limit(self, client: str, limit: int) -> int:
        return 1 if client.endswith("displaced") else limit


def test_large_messages_are_displaced_in_small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker would hold thousands of them in memory at once. Spec: R14."""
    monkeypatch.setattr(displacing, "CHUNK_BYTES", 10 * SIZE)
    mesh = limited("dead-letter", bytes=LIMIT)
    mesh.kafka.faults = OneByOne()
    burst(mesh, 60, SIZE)
    mesh.run(20_000)
    ledgers = [decode_ledger(record.value() or b"") for record in mesh.read("mesh.c.ledger")]
    chunks = [
        sum(one.messages for one in ledger.dropped if one.reason == "endpoint_full")
        for ledger in ledgers
    ]
    assert max(chunks) == 10
    assert pushed_out(mesh) + there(mesh, FULL) == list(range(60))


@pytest.mark.parametrize(
    ("passed", "lost"),
    [
        (None, [0, 3, 4]),
        (2, [0, 2, 3, 4]),  # another group has not read what the queue's own is done with
        (0, [0, 1, 2, 3, 4]),
    ],
)
def test_what_a_queue_s_consumers_are_done_with_is_not_given_up(
    passed: int | None, lost: list[int]
) -> None:
    """They acknowledge one by one, and one keeps the oldest for long. Spec: R14, DESIGN 6."""
    limits = [{"endpoint": "q", "age": "15s", "whenFull": "dead-letter"}]
    mesh = SmallMesh({**CHAIN, "limits": limits})
    mesh.subscribe("c", "q", ">", b'{"kind": "queue"}')
    mesh.run()
    burst(mesh, 5, SIZE)
    mesh.run(2_000)
    topic = mesh.names.endpoint("c", "q")
    at, offsets = TopicPartition(topic, 0), [record.offset() for record in mesh.read(topic)]
    share = Share(0, 0)
    for offset in offsets[1:3]:
        share.hand_out(offset)
        share.finish(offset, [offsets[0], *offsets[3:]], offsets[-1] + 1)
    mesh.kafka.commit_group(topic, {at: share.base})
    mesh.kafka.remarks[topic, at] = share.remark
    if passed is not None:
        mesh.kafka.commit_group("other", {at: offsets[passed]})
    mesh.run(30_000)
    assert pushed_out(mesh) == lost
    assert all(announced(record) is not None for record in mesh.read(topic))
