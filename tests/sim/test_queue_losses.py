"""Queues whose movers die, and whose logs lose records: nothing else is lost, and nothing doubled.

Publishers, consumers and killers act on simulated nodes. Spec: DESIGN 6, R6.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from mesh.core.moving import WINDOW
from mesh.transport.port import TopicPartition
from mesh.wire.frames import decode_header
from tests.sim.late_commits import LateCommits
from tests.sim.queue_stage import ANY, HOME, Stage, Start


def test_no_more_goes_ahead_into_an_outbox_that_was_recreated(stage_of: Start) -> None:
    """Its reader stands still at the loss; how far it had come in the former one says nothing."""
    stage = stage_of(ANY)
    stage.queue("p", "s")
    stage.consume("s")
    stage.publish("p", 3 * WINDOW)
    stage.until_all()
    kafka = stage.mesh.world.kafka["one"]
    kafka.recreate("mesh.p.to.r.g")
    stage.publish("p", 3 * WINDOW)
    for _ in range(60):
        stage.step(1)
    log = [one for log in kafka.topics["mesh.p.to.r.g"].logs for one in log.entries if one]
    moved = sum(decode_header(one.key() or b"").origin.count for one in log)
    assert WINDOW // 4 < moved <= WINDOW // 2, "one demand, and nothing of it is read"


def test_what_a_queue_has_lost_makes_no_room(stage_of: Start) -> None:
    """Its group has passed more than there is: that is as good as all of it."""
    stage = stage_of(ANY)
    stage.queue("t")
    stage.consume("t")
    stage.publish("t", 60)
    stage.until_all()
    for partition in range(4):
        stage.lose("t", partition, 8)
    for _ in range(20):
        stage.step()
    machine = stage.mesh.world.workers["t"].machine
    assert machine is not None
    assert machine.demands.own["jobs"] == WINDOW // 2


def live(
    stage: Stage, draw: random.Random, spec: Mapping[str, object], events: Sequence[str]
) -> None:
    """Publish while these befall the members; in the end all live, and one has a consumer."""
    members = ["p", "r", "s", "t"] if spec is ANY else ["p", "r", "s"]
    stage.queue(*members)
    down: set[str] = set()
    for _ in range(25):
        stage.publish(draw.choice(members), draw.randint(1, 15))
        node = draw.choice(members)
        match draw.choice(events):
            case "lose":
                stage.lose(node, draw.randrange(4), draw.randint(1, 5))
            case "kill" if node not in down:
                stage.mesh.world.kill(node)
                down.add(node)
            case "start" if down:
                back = down.pop()
                stage.mesh.world.start(back)
            case "consume":
                stage.consume(node)
            case "leave":
                stage.leave(node)
            case _:
                pass
        for _ in range(draw.randint(1, 30)):
            stage.step(draw.choice([0.02, 0.1, 0.3]))
    for node in sorted(down):
        stage.mesh.world.start(node)
    stage.consume(draw.choice(members))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("spec", [HOME, ANY], ids=["home", "any"])
def test_killed_at_any_moment_nothing_is_lost_or_doubled(
    stage_of: Start, spec: Mapping[str, object], seed: int
) -> None:
    """Workers die, consumers come and go; every message has exactly one consumer. Spec: R3.

    With every other seed commits of workers that were started again show late.
    """
    draw = random.Random(seed)
    stage = stage_of(spec)
    if seed % 2:
        late = LateCommits(lambda: draw.randint(0, 30), lambda: draw.random() < 0.5)
        stage.mesh.world.commits = lambda: late
    live(stage, draw, spec, ["kill", "start", "consume", "leave", "nothing"])
    stage.until_all(300)


@pytest.mark.parametrize("seed", [2, 7, 18])
@pytest.mark.parametrize("spec", [HOME, ANY], ids=["home", "any"])
def test_where_queues_lose_their_ends_nothing_else_is_lost(
    stage_of: Start, spec: Mapping[str, object], seed: int
) -> None:
    """Members die, consumers come and go, and logs grow again over what they lost. Spec: R6."""
    draw = random.Random(seed)
    stage = stage_of(spec)
    live(stage, draw, spec, ["lose", "lose", "kill", "start", "consume", "leave"])
    stage.until_all_left(300)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_copies_that_an_outbox_lost_are_announced_and_the_queue_goes_on(
    stage_of: Start, is_restarted: bool
) -> None:
    """With them goes what was sent until the neighbour was told: all of it is announced.

    Spec: K11, DESIGN 4.4.
    """
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    consumer = stage.consume("s")
    stage.publish("r", 8)
    stage.until_all()
    world = stage.mesh.world
    world.cut("s", ["r"])
    stage.publish("r", 8)
    for _ in range(20):
        stage.step()
    kafka = world.kafka["two"]
    at = next(
        TopicPartition("mesh.r.to.s.g", number)
        for number, log in enumerate(kafka.topics["mesh.r.to.s.g"].logs)
        if log.end > 2
    )
    kafka.truncate(at, 1)
    if is_restarted:
        world.kill("r")
        world.start("r")
    world.cut("s", [])
    for _ in range(5):
        stage.publish("r", 8)
        for _ in range(40):
            stage.step()
    [loss] = consumer.losses
    assert loss.last is not None
    missing = stage.published - len(stage.got)
    assert 1 <= missing <= loss.last - loss.first + 1
    assert len(set(stage.got)) == len(stage.got)
    before, published = len(stage.got), stage.published
    stage.publish("r", 20)
    stage.until(lambda: len(stage.got) == before + 20)
    assert published == before + missing


@pytest.mark.parametrize("rest_s", [0.0, 12.0], ids=["at once", "by the node"])
def test_what_comes_to_a_queue_recreated_moves(stage_of: Start, rest_s: float) -> None:
    """Somebody deletes its topic under a mover: what comes later is not taken for what moved."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.consume("t")
    for _ in range(3):
        stage.publish("p", 20)
        stage.step(3)
    assert stage.held("p") == len(stage.got) == 60
    kafka, topic = stage.mesh.world.kafka["one"], "mesh.p.ep.jobs"
    (kafka.delete_topic if rest_s else kafka.recreate)(topic)
    stage.step(rest_s)
    stage.publish("p", 20)
    stage.until_all()
    assert stage.held("p") == 20


@pytest.mark.parametrize("rest_s", [0.2, 12.0], ids=["a mover that stays", "one that comes"])
@pytest.mark.parametrize("more", [2, 40])
def test_what_comes_where_a_queue_lost_its_end_moves(
    stage_of: Start, rest_s: float, more: int
) -> None:
    """It stands where others stood that have moved, and is not taken for them. Spec: R6, K11."""
    stage = stage_of(ANY)
    stage.queue("p", "t")
    stage.consume("t")
    for _ in range(3):
        stage.publish("p", 20)
        stage.step(3)
    assert stage.held("p") == len(stage.got) == 60
    stage.step(rest_s)
    kafka, topic = stage.mesh.world.kafka["one"], "mesh.p.ep.jobs"
    for number in range(len(kafka.topics[topic].logs)):
        kafka.truncate(TopicPartition(topic, number), 3)
    if rest_s < 1:
        stage.step()
    stage.publish("p", more)
    stage.until_all()


def test_what_a_former_owner_moved_is_announced_if_it_vanished(stage_of: Start) -> None:
    """Who takes the lane is asked for it before it has moved anything itself."""
    stage = stage_of(HOME)
    stage.queue("p", "r", "s")
    consumer = stage.consume("s")
    world = stage.mesh.world
    world.cut("s", ["r"])
    stage.publish("r", 16)
    logs = world.kafka["two"].topics["mesh.r.to.s.g"].logs
    stage.until(lambda: any(log.end > 4 for log in logs))
    log = next(log for log in logs if log.end > 4)
    log.entries[1] = None
    world.kill("r")
    world.cut("s", [])
    for _ in range(20):
        stage.step()
    world.start("r")
    stage.until(lambda: bool(consumer.losses))
    for _ in range(40):
        stage.step()
    [loss] = consumer.losses
    assert loss.last is not None
    assert 1 <= stage.published - len(stage.got) <= loss.last - loss.first + 1
    assert len(set(stage.got)) == len(stage.got)
