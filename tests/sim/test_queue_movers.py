"""Messages of queues move to where somebody consumes, each to exactly one. Spec: DESIGN 6, EMS-12.

Publishers and consumers act on simulated nodes; in the end every message was consumed by exactly one
member of the whole mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial

import pytest

from mesh.client import QueueMessage
from mesh.config.topology_file import topology_from_mapping
from mesh.core.moving import WINDOW
from mesh.core.redelivery import WINDOW as WINDOW_OF_SHARE
from mesh.errors import NotInTimeError
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.operate.messages.dead_letters import read_letters
from mesh.transport.port import TopicPartition
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from mesh.worker.control.topology_changes import TopologyChanges
from mesh.worker.process.commits import CommitOutcome, CommitsAtOnce
from mesh.worker.process.transactions import write_rows
from mesh.worker.queue_moves.mover import _transact
from tests.component.in_memory_mesh import Mesh, put_in_force
from tests.said import Said
from tests.sim.queue_stage import ANY, CHAIN, HOME, Stage, Start


def test_consumers_at_a_proxy_get_messages_through_the_home(stage_of: Start) -> None:
    """P publishes, S consumes, R is between; T is two hops from home. Spec: EMS-12."""
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    stage.consume("s")
    stage.publish("p", 30)
    stage.until_all()
    assert stage.by_node() == {"s": 30}
    assert stage.held("r") == 30, "each was in the home first"
    assert stage.held("p") == 0


def test_home_and_proxies_share_as_consumers_of_one_group(stage_of: Start) -> None:
    """Wherever they are, each message has one consumer, and nobody is left out. Spec: EMS-12."""
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    for node in ("p", "r", "s"):
        stage.consume(node)
    for _ in range(20):
        stage.publish("p", 10)
        stage.step(1)
    stage.until_all()
    assert set(stage.by_node()) >= {"r"}
    assert {"p", "s"} & set(stage.by_node())


def test_a_proxy_that_is_down_starves_while_others_go_on(stage_of: Start) -> None:
    """And what it had been given waits for it. Spec: EMS-12."""
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    stage.consume("s")
    stage.publish("s", 5)
    stage.until_all()
    stage.mesh.world.kill("p")
    stage.publish("s", 20)
    stage.until_all()
    assert stage.by_node() == {"s": 25}
    stage.mesh.world.start("p")
    stage.publish("p", 5)
    stage.until_all()


def test_with_the_home_down_messages_wait_where_they_are_published(stage_of: Start) -> None:
    """P stores, K starves; when R is back everything comes, once. Spec: EMS-12."""
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    stage.consume("s")
    stage.publish("p", 5)
    stage.until_all()
    stage.mesh.world.kill("r")
    stage.publish("p", 20)
    for _ in range(50):
        stage.step()
    assert len(stage.got) == 5
    stage.mesh.world.start("r")
    stage.until_all()


def test_a_proxy_without_consumers_gives_back(stage_of: Start) -> None:
    """What was sent ahead to a proxy is not stuck there when its consumers leave. Spec: EMS-12."""
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    lazy = stage.client("s").consume("jobs")
    lazy.read(0.1)
    stage.publish("p", 50)
    stage.until(lambda: stage.held("s") >= 50)
    lazy.close()
    stage.consume("p")
    stage.until_all()
    assert stage.by_node() == {"p": 50}


def test_no_more_than_a_window_goes_ahead(stage_of: Start) -> None:
    """A proxy that nobody reads gets no more than that, although more waits. Spec: EMS-12."""
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    lazy = stage.client("s").consume("jobs")
    lazy.read(0.1)
    stage.publish("p", 3 * WINDOW)
    for _ in range(150):
        stage.mesh.pause(0.2)
        lazy.read(0.0, 1)
    assert WINDOW // 4 < stage.held("s") <= WINDOW
    lazy.close()


@pytest.mark.parametrize("spec", [HOME, ANY], ids=["home", "any"])
def test_more_than_one_demand_moves(stage_of: Start, spec: Mapping[str, object]) -> None:
    """Where one has been answered, and all that was sent is read, the next one counts."""
    stage = stage_of(spec)
    stage.queue("p", "r", "s") if spec is HOME else stage.queue("p", "s")
    stage.consume("s")
    stage.publish("p", 3 * WINDOW)
    stage.until_all()
    assert stage.by_node() == {"s": 3 * WINDOW}


def test_what_is_done_behind_an_open_message_takes_no_room(stage_of: Start) -> None:
    """Who keeps one for long could else demand nothing more, although all others are done."""
    stage = stage_of(ANY)
    stage.queue("t")
    consumer = stage.client("t").consume("jobs")
    stage.publish("t", 200)
    kept: dict[TopicPartition, None] = {}
    for _ in range(30):
        stage.mesh.pause(0.2)
        for one in consumer.read(0.0):
            if one.message.place in kept:
                consumer.ack(one)
            kept.setdefault(one.message.place)
    machine = stage.mesh.world.workers["t"].machine
    assert machine is not None
    assert WINDOW // 2 - 50 < machine.demands.own["jobs"] < WINDOW // 2
    consumer.close()


def test_stranded_messages_move_to_the_nearest_who_consumes(stage_of: Start) -> None:
    """`any`: sent to the nearest member, moved on when nobody consumes there."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.publish("p", 40)
    stage.mesh.pause(5)
    assert (stage.held("p"), stage.held("t")) == (40, 0)
    stage.consume("t")
    stage.until_all()
    assert stage.by_node() == {"t": 40}


@pytest.mark.parametrize(
    "asked", [Subscription(), Subscription(EndpointKind.QUEUE, policy="every")]
)
def test_what_an_endpoint_has_for_itself_does_not_move(
    stage_of: Start, asked: Subscription
) -> None:
    """Others have a queue of that name, which it was as well: its messages are no queue's now."""
    stage = stage_of({})
    stage.queue("p", "t", policy="any")
    value, key = encode_subscription(asked), subscription_key("jobs", "other/>")
    stage.mesh.world.kafka["one"].writer("subscriber").produce("mesh.p.clients", value, key, 0)
    stage.mesh.pause(5)
    stage.consume("t")
    client = stage.client("p")
    for _ in range(10):
        client.publish("other/x", b"1")
    client.flush()
    for _ in range(150):
        stage.step()
    assert stage.held("p") == 10
    assert stage.got == []


def test_nothing_moves_while_sources_hold(stage_of: Start) -> None:
    """It would be on its way still when its walk changes. Spec: K28."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.publish("p", 40)
    stage.mesh.pause(5)
    with pytest.MonkeyPatch.context() as holds:
        holds.setattr(TopologyChanges, "is_held", lambda *_: True)
        stage.consume("t")
        for _ in range(100):
            stage.step()
        assert (stage.held("p"), stage.held("t")) == (40, 0)
    stage.until_all()
    assert stage.by_node() == {"t": 40}


@pytest.mark.parametrize(
    ("spec", "node", "other"), [(ANY, "p", "t"), (HOME, "r", "s")], ids=["any", "home"]
)
def test_what_may_not_cross_a_link_stays_and_the_rest_moves(
    stage_of: Start, spec: Mapping[str, object], node: str, other: str
) -> None:
    """Others overtake it as far as a group remembers, and whoever consumes here gets it. EMS-11."""
    stage = stage_of({**spec, "interest": [{"node": node, "local": "jobs/kept"}]})
    stage.queue(node, other)
    client = stage.client(node)
    for number in range(400):
        subject = "jobs/kept" if number % 150 == 10 else "jobs/x"
        client.publish(subject, b"%d" % number, key=b"one")
    client.flush()
    stage.published = 400
    kept = {b"10", b"160", b"310"}
    stage.consume(other)
    stage.until(lambda: len(stage.got) == 10 + WINDOW_OF_SHARE - 2)
    for _ in range(40):
        stage.step()
    assert len(stage.got) == 10 + WINDOW_OF_SHARE - 2
    stage.consume(node)
    stage.until_all()
    assert kept.isdisjoint(payload for by, payload in stage.got if by == other)


def test_what_stays_is_looked_at_again_where_something_else_decides() -> None:
    """What was kept local goes once it is that no longer, though no link is another."""
    kept = {**CHAIN, **ANY, "interest": [{"node": "p", "local": "jobs/kept"}]}
    mesh = Mesh(topology_from_mapping(kept), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    stage = Stage(mesh)
    stage.queue("p", "t")
    stage.client("p").publish("jobs/kept", b"0", key=b"one")
    stage.client("p").flush()
    stage.published = 1
    stage.consume("t")
    for _ in range(60):
        stage.step()
    assert not stage.got
    mesh.change(topology_from_mapping({**CHAIN, **ANY}))
    stage.until_all()
    mesh.close()


class SlowMoves(CommitsAtOnce):
    """Commits of movers wait: the group knows of them, and the outbox takes nothing as yet."""

    def __init__(self) -> None:
        self.late: list[Callable[[], None]] = []
        self.are_slow = True

    def begin(self, commit: Callable[[], None]) -> CommitOutcome | None:
        if not self.are_slow or not isinstance(commit, partial) or commit.func is not _transact:
            return super().begin(commit)
        writer, moving, passed, ticket = commit.args
        writer.begin()
        writer.send_offsets(passed, ticket)
        outcome: Future[None] = Future()

        def end() -> None:
            write_rows(writer, moving.rows)
            writer.commit()
            outcome.set_result(None)

        self.late.append(end)
        return outcome


def test_a_change_waits_for_what_a_mover_has_begun_to_write() -> None:
    """It goes by the links of before, which are gone behind the switch. Spec: K28, G13, G14."""
    mesh, commits = Mesh(topology_from_mapping({**CHAIN, **ANY}), runs=False), SlowMoves()
    put_in_force(1, mesh.topology, mesh.world.kafka)
    mesh.world.commits = lambda: commits
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    stage = Stage(mesh)
    stage.queue("p", "t")
    stage.publish("p", 40)
    stage.consume("t")
    stage.until(lambda: bool(commits.late))
    commits.are_slow, [end] = False, commits.late
    begun_ms, waits = mesh.now_ms(), mesh.pause

    def pause(seconds: float) -> None:
        waits(seconds)
        if commits.late and mesh.now_ms() - begun_ms >= 5_000:
            commits.late.clear()
            end()

    mesh.pause = pause  # type: ignore[method-assign]
    links = [["p", "s"], ["r", "s"], ["s", "t"]]
    zones = {"Z": {"kind": "multi-hop", "links": links}}
    mesh.change(topology_from_mapping({**CHAIN, **ANY, "zones": zones}))
    assert not commits.late
    stage.until_all()
    mesh.close()


def stage_with_a_late_queue(after: Topology) -> Stage:
    """Return a mesh that waits in a change, because a queue was made after its plan."""
    mesh = Mesh(topology_from_mapping({**CHAIN, **ANY}), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    mesh.pause(5)
    stage, waits = Stage(mesh), mesh.pause
    config = mesh.world.kafka["one"].topics["mesh.config"].logs[0]
    written = config.end

    def pause(seconds: float) -> None:
        waits(seconds)
        if config.end > written:  # it has begun
            mesh.pause = waits  # type: ignore[method-assign]
            stage.queue("p", "t")

    mesh.pause = pause  # type: ignore[method-assign]
    with pytest.raises(NotInTimeError, match="jobs"):
        mesh.change(after)
    return stage


EVERY = {"queues": {"jobs": {"policy": "every"}}}


def test_a_change_waits_for_a_queue_that_came_after_its_plan() -> None:
    """Nobody holds for it: some would share it out by the new declaration, some by the old one."""
    stage = stage_with_a_late_queue(topology_from_mapping({**CHAIN, **EVERY}))
    stage.publish("r", 20)
    stage.mesh.pause(5)
    assert stage.held("p") + stage.held("t") == 20
    stage.mesh.close()


def test_a_change_waits_for_such_a_queue_although_all_nodes_hold_for_other_reasons() -> None:
    """Less would drain, and links might be disabled; by the plan of whoever goes on it is done."""
    links = [["p", "r"], ["r", "s"], ["p", "t"]]  # the walks to t move
    after = {**CHAIN, **EVERY, "zones": {"Z": {"kind": "multi-hop", "links": links}}}
    stage = stage_with_a_late_queue(topology_from_mapping(after))
    stage.publish("r", 20)
    stage.mesh.change(topology_from_mapping(after))
    stage.mesh.pause(5)
    assert (stage.held("p"), stage.held("t")) == (20, 20)
    stage.mesh.close()


def test_where_somebody_consumes_nothing_moves(stage_of: Start) -> None:
    """`any`: a member with consumers keeps what it has, whoever else consumes."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.consume("p")
    stage.consume("t")
    for _ in range(5):
        stage.publish("p", 10)
        stage.step(2)
    stage.until_all()
    assert stage.by_node() == {"p": 50}


class SlowConsumer:
    """Takes a message in hand for half a minute, one after the other, and acknowledges it then."""

    def __init__(self, stage: Stage, node: str) -> None:
        self.consumer = stage.client(node).consume("jobs")
        self.stage = stage
        self.done: list[bytes | None] = []
        self._in_hand: list[QueueMessage] = []
        self._until_ms = 0

    def step(self) -> None:
        in_hand = self._in_hand
        if in_hand and self.stage.mesh.now_ms() >= self._until_ms:
            self.consumer.ack(one := in_hand.pop())
            self.done.append(one.message.payload)
        if not in_hand and (given := self.consumer.read(0.0, 1)):
            in_hand += given
            self._until_ms = self.stage.mesh.now_ms() + 30_000
        self.consumer.commit()


@pytest.mark.parametrize(
    ("spec", "node", "other", "moves"),
    [(ANY, "p", "t", False), (HOME, "s", "p", False), (HOME, "r", "s", True)],
    ids=["any", "proxy", "home"],
)
def test_what_a_slow_consumer_has_is_not_moved_away(
    stage_of: Start, spec: Mapping[str, object], node: str, other: str, moves: bool
) -> None:
    """It lives, however long it takes, and others demand meanwhile. Spec: DESIGN 6, EMS-12.

    Only a home shares what nobody has in hand.
    """
    stage = stage_of(spec)
    stage.queue(*dict.fromkeys((node, other, "r" if spec is HOME else other)))
    slow = SlowConsumer(stage, node)
    slow.step()
    stage.publish(node, 6)
    for _ in range(50):
        stage.step()
        slow.step()
    stage.consume(other)
    for _ in range(1_000):
        stage.step()
        slow.step()
    assert bool(stage.got) == moves
    consumed = [*slow.done, *(payload for _, payload in stage.got)]
    assert sorted(consumed) == [b"%d" % number for number in range(6)]
    slow.consumer.close()


def test_a_moved_message_keeps_its_identity_and_says_how_often_it_moved(stage_of: Start) -> None:
    """Its path begins anew at the mover. Spec: K9, DESIGN 6."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.publish("p", 1)
    consumer = stage.client("t").consume("jobs")
    found = []
    while not found:
        found += consumer.read(1.0)
    message = found[0].message
    kafka = stage.mesh.world.kafka["one"]
    assert message.identity.topic_id == kafka.topics["mesh.p.in.g"].info.topic_id.hex()
    assert message.identity.offset == 0
    assert message.path == ("p", "r", "s", "t")
    assert (message.subject, message.payload) == ("jobs/x", b"0")
    consumer.close()


def _lanes(spec: Mapping[str, object], lanes: int) -> Mapping[str, object]:
    nodes = {
        name: {**declared, "lanes": lanes}
        for name, declared in CHAIN["nodes"].items()  # type: ignore[attr-defined]
    }
    return {**spec, "nodes": nodes}


@pytest.mark.parametrize("spec", [HOME, ANY], ids=["home", "any"])
def test_each_lane_moves_what_the_group_gives_it(
    stage_of: Start, spec: Mapping[str, object]
) -> None:
    """Whatever partition that is, its copies leave in one that the lane writes. Spec: K2."""
    stage = stage_of(_lanes(spec, 2))
    stage.queue("p", "r", "s") if spec is HOME else stage.queue("p", "t")
    stage.mesh.world.start("p", 1)
    stage.mesh.world.start("r", 1)
    stage.publish("p", 60)
    stage.consume("s" if spec is HOME else "t")
    for _ in range(80):
        stage.step()
    mover = stage.mesh.world.kafka["two" if spec is HOME else "one"]
    group = mover.member_groups["mesh.r.ep.jobs" if spec is HOME else "mesh.p.ep.jobs"]
    assert group.names() == ["mover", "mover"]
    stage.mesh.world.kill("r" if spec is HOME else "p", 1)
    stage.publish("p", 60)
    stage.until_all()


def test_direct_messages_move_too_and_stay_direct(stage_of: Start) -> None:
    """A message keeps its class on every hop. Spec: DESIGN 6."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.mesh.pause(3)
    client = stage.client("p")
    client.publish("jobs/x", b"direct", message_class=MessageClass.DIRECT)
    client.publish("jobs/x", b"guaranteed")
    client.flush()
    consumer = stage.client("t").consume("jobs")
    found = []
    for _ in range(40):
        found += consumer.read(0.5)
    classes = {one.message.payload: one.message.message_class for one in found}
    assert classes == {
        b"direct": MessageClass.DIRECT,
        b"guaranteed": MessageClass.GUARANTEED,
    }
    consumer.close()


def test_what_is_no_message_does_not_move_and_is_told(said: Said, stage_of: Start) -> None:
    """It becomes a dead letter of the node: nothing disappears silently. Spec: DESIGN 4.4."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.publish("p", 3)
    stage.mesh.pause(3)
    kafka = stage.mesh.world.kafka["one"]
    kafka.writer("stranger").produce("mesh.p.ep.jobs", b"junk", None, 0)
    stage.consume("t")
    stage.until_all()
    letters = list(read_letters(stage.mesh.topology, kafka, "p", 100))
    [letter] = [one.header for one in letters if one.header]
    assert letter.reason == "NOT_MOVED"
    place = {"queue": "jobs", "lane": 0, "offset": letter.offset}
    told = {"log_level": "warning", **place, "fault": letter.detail}
    assert said.of("queue.not_moved") == [told]


def test_what_waited_too_long_becomes_a_dead_letter(stage_of: Start) -> None:
    """By the node's own clock, whoever consumes; exactly what is older. Spec: DESIGN 6, R14."""
    stage = stage_of({"queues": {"jobs": {"policy": "home", "home": "p", "maxAge": "60s"}}})
    stage.queue("p")
    stage.publish("p", 5)
    stage.mesh.pause(45)
    stage.publish("p", 3)
    stage.mesh.pause(25)
    kafka = stage.mesh.world.kafka["one"]
    letters = list(read_letters(stage.mesh.topology, kafka, "p", 100))
    assert [one.header.reason for one in letters if one.header] == ["ENDPOINT_EXPIRED"] * 5
    stage.consume("p")
    stage.until(lambda: len(stage.got) == 3)
    for _ in range(20):
        stage.step()
    assert sorted(payload for _, payload in stage.got) == [b"5", b"6", b"7"]


def test_what_moved_over_a_link_made_anew_is_announced_if_it_vanished() -> None:
    """What movers have sent is theirs to keep: a lane that keeps it too knows less after a while.

    Its successor would take that for all there is, and be asked for the rest again and again.
    """
    mesh = Mesh(topology_from_mapping({**CHAIN, **HOME}), runs=False)
    put_in_force(1, mesh.topology, mesh.world.kafka)
    for node in mesh.topology.nodes:
        mesh.world.start(node)
    stage = Stage(mesh)
    stage.queue("p", "r", "s")
    consumer = stage.consume("s")
    stage.publish("r", 16)
    stage.until_all()
    around = {"Z": {"kind": "multi-hop", "links": [["p", "r"], ["p", "s"], ["s", "t"]]}}
    for zones in (around, CHAIN["zones"]):
        mesh.change(topology_from_mapping({**CHAIN, **HOME, "zones": zones}))
    world = mesh.world
    logs = world.kafka["two"].topics["mesh.r.to.s.g"].logs
    ends = [log.end for log in logs]
    world.cut("s", ["r"])
    stage.publish("r", 16)
    stage.until(lambda: any(log.end > end + 3 for log, end in zip(logs, ends, strict=True)))
    log, end = next(one for one in zip(logs, ends, strict=True) if one[0].end > one[1] + 3)
    vanished = next(at for at in range(end, log.end) if log.entries[at] is not None)
    log.entries[vanished] = None
    world.kill("r")
    world.cut("s", [])
    for _ in range(20):
        stage.step()
    world.start("r")
    stage.until(lambda: bool(consumer.losses))
    mesh.close()
