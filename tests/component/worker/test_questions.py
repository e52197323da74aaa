"""What may wait for brokers is asked beside the loop, and answered to who asks again."""

from __future__ import annotations

import random
import threading
import time

import pytest

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.core.lineage import first_lineage, lineage_after
from mesh.errors import TransportUnavailableError
from mesh.lab.world import World
from mesh.model.control import Change, Stage
from mesh.model.topics import TopicNames
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key
from mesh.worker.process.errands import SteppedErrands, ThreadedErrands
from mesh.worker.process.questions import UNASKED_MS, Questions


def test_a_question_is_asked_once_and_its_answer_given_once() -> None:
    asked: list[str] = []
    looks = iter([1, 0, 0, 1, 0, 0, 0, 0])
    questions = Questions(SteppedErrands(lambda: next(looks)))
    said = [questions.answer("key", lambda: asked.append("x") or len(asked)) for _ in range(4)]
    assert said == [None, 1, None, 2]
    assert not questions.are_open


def test_a_refusal_is_raised_once_and_asked_again() -> None:
    questions = Questions(SteppedErrands())

    def fail() -> int:
        raise TransportUnavailableError("no broker answers")

    for _ in range(2):
        with pytest.raises(TransportUnavailableError):
            questions.answer("key", fail)
    assert questions.answer("key", lambda: 7) == 7


def test_nobody_waits_for_a_broker_that_hangs() -> None:
    """However long it takes; other questions are answered meanwhile."""
    hangs = threading.Event()
    questions = Questions(ThreadedErrands())
    assert questions.answer(("dead", 1), lambda: hangs.wait(20)) is None
    deadline_s = time.monotonic() + 10
    said = None
    while said is None and time.monotonic() < deadline_s:
        said = questions.answer(("alive", 1), lambda: "here")
        assert questions.answer(("dead", 1), lambda: True) is None
    assert said == "here"
    assert questions.is_open("dead")
    questions.forget("dead")
    assert not questions.are_open
    hangs.set()


def test_an_answer_that_nobody_asks_for_any_more_is_dropped() -> None:
    """What it was asked for has gone; who asks the same later gets a new answer."""
    questions = Questions(SteppedErrands(lambda: 1))
    questions.drop_unasked(0)
    assert questions.answer("gone", lambda: "old") is None
    questions.drop_unasked(UNASKED_MS - 1)
    questions.drop_unasked(UNASKED_MS)
    assert questions.are_open  # it was asked for since the last time
    questions.drop_unasked(2 * UNASKED_MS)
    assert not questions.are_open
    said = [questions.answer("gone", lambda: "new") for _ in range(4)]
    assert [one for one in said if one] == ["new"]


def test_a_slow_answer_that_is_asked_for_stays_expected() -> None:
    """However long it takes."""
    looks = iter([0, 6, 0])
    questions = Questions(SteppedErrands(lambda: next(looks)))
    said = []
    for now_ms in range(0, 8 * UNASKED_MS, UNASKED_MS):
        questions.drop_unasked(now_ms)
        said += [questions.answer("slow", lambda: "said")] if "said" not in said else []
    assert said == [*[None] * 6, "said"]


def test_a_worker_rests_when_what_it_asked_about_has_gone() -> None:
    """It looked a hundred times a second for good whether an answer had come that nobody wanted."""
    zones = [[["a", "b"], ["b", "c"]], [["a", "b"]]]
    nodes = {"a": {"kafka": "k"}, "b": {"kafka": "k"}, "c": {"kafka": "k2"}}
    before, after = (
        topology_from_mapping(
            {
                "kafka": {"k": {}, "k2": {}},
                "nodes": {name: nodes[name] for ends in links for name in ends},
                "zones": {"Z": {"kind": "multi-hop", "links": links}},
            }
        )
        for links in zones
    )
    late, draws = [60], random.Random(5)
    world = World(
        before,
        seed=1,
        errands=lambda: SteppedErrands(rest=lambda: draws.randint(min(5, late[0]), late[0])),
    )

    def run(ms: int) -> None:
        end = world.clock.ms + ms
        world.run_until(lambda: world.clock.ms >= end, 2 * ms)

    for node in "abc":
        world.start(node)
    run(10_000)
    world.kill("c")
    run(15_000)
    world.kill("b")
    world.start("b")
    world.kill_broker("k2")
    run(30_000)
    lineage = lineage_after(first_lineage(before), before, 0, after, 1)
    for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN):
        writer = world.kafka["k"].writer("operator")
        change = Change(1, stage, published_text(after), (), lineage)
        writer.produce(TopicNames().config(), encode_change(change), change_key(), 0)
        assert writer.flush() == 0
        run(5_000)
    late[0] = 0
    assert [one.neighbour for one in world.workers["b"].machine.learner.links] == ["a"]
    run(2 * UNASKED_MS)
    rests = 0
    for _ in range(100):
        run(100)
        rests += world.workers["b"].patience(0.1) > 0.01
    assert rests > 50
