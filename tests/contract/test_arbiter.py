"""Drivers of changes who work at once: one Kafka cluster decides who comes first. Spec: K28."""

from __future__ import annotations

import pytest

from mesh.errors import TransportError
from mesh.model.control import Change, Stage
from mesh.model.topics import TopicNames
from mesh.operate.changes.arbiter import Arbiter, may_follow
from mesh.operate.changes.in_force import newest_change
from mesh.transport.port import TopicSpec
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key
from tests.contract.conftest import Stand


@pytest.fixture
def prefix(stand: Stand) -> str:
    made = f"{stand.mark}."
    settings = {"cleanup.policy": "compact"}
    stand.kafka.admin().create(
        [TopicSpec(name=TopicNames(made).config(), partitions=1, settings=settings)]
    )
    return made


def test_of_two_who_begin_at_once_one_comes_first(stand: Stand, prefix: str) -> None:
    """Both have looked before either writes, and each has the other's fence before its own."""
    first, second = Arbiter(stand.kafka, prefix), Arbiter(stand.kafka, prefix)
    theirs, mine = Change(2, Stage.HOLD, "theirs"), Change(2, Stage.HOLD, "mine")
    assert first.put(theirs, 0) == theirs
    assert second.put(mine, 0) == theirs
    assert newest_change(stand.kafka, prefix) == theirs
    first.close()
    second.close()


def test_of_two_who_begin_one_change_at_once_one_says_who_holds(stand: Stand, prefix: str) -> None:
    """A node that read the one word before and the other one now would take messages again."""
    first, second = Arbiter(stand.kafka, prefix), Arbiter(stand.kafka, prefix)
    theirs = Change(2, Stage.HOLD, "it", holding=("a", "b"))
    assert first.put(theirs, 0) == theirs
    assert second.put(Change(2, Stage.HOLD, "it"), 0) == theirs
    assert newest_change(stand.kafka, prefix) == theirs
    first.close()
    second.close()


def test_nobody_goes_back_behind_a_switch(stand: Stand, prefix: str) -> None:
    """Two drive one change, one forward and one back: what the first of them says holds."""
    on, back = Arbiter(stand.kafka, prefix), Arbiter(stand.kafka, prefix)
    hold, switch, run, abort = (
        Change(2, stage, "it") for stage in (Stage.HOLD, Stage.SWITCH, Stage.RUN, Stage.ABORT)
    )
    assert on.put(hold, 0) == hold
    assert back.put(hold, 0) == hold  # somebody may say it again
    assert on.put(switch, 0) == switch
    assert back.put(abort, 0) == switch
    assert on.put(run, 0) == run
    assert back.put(Change(3, Stage.HOLD, "next"), 2) == Change(3, Stage.HOLD, "next")
    on.close()
    back.close()


def test_one_who_died_within_a_transaction_stops_nobody(stand: Stand, prefix: str) -> None:
    names = TopicNames(prefix)
    dead = stand.kafka.writer("operator", names.change_transactions())
    dead.begin()
    record = encode_change(Change(2, Stage.HOLD, "never committed"))
    dead.produce(names.config(), record, change_key(), 0)
    dead.flush()
    arbiter = Arbiter(stand.kafka, prefix)
    change = Change(2, Stage.HOLD, "it")
    assert arbiter.put(change, 0) == change
    # Who claims waits for the end of the transaction before; who only reads may come too soon.
    stand.wait(lambda: newest_change(stand.kafka, prefix) == change)
    arbiter.close()


def test_without_a_look_nothing_is_written(
    stand: Stand, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that cannot read what stands is none: the next one looks again."""
    mine, theirs = Change(2, Stage.HOLD, "mine"), Change(2, Stage.HOLD, "theirs")
    arbiter, other = Arbiter(stand.kafka, prefix), Arbiter(stand.kafka, prefix)
    assert other.put(theirs, 0) == theirs
    other.close()

    def fails(*_: object) -> None:
        raise TransportError("nobody answers")

    with monkeypatch.context() as patched:
        patched.setattr("mesh.operate.changes.arbiter.newest_change", fails)
        with pytest.raises(TransportError, match="nobody answers"):
            arbiter.put(mine, 0)
    assert arbiter.put(mine, 0) == theirs
    arbiter.close()


def test_what_may_follow_what() -> None:
    stages = (Stage.HOLD, Stage.SWITCH, Stage.RUN, Stage.ABORT)
    after = {
        (one, other)
        for one in stages
        for other in stages
        if may_follow(Change(2, one, "it"), Change(2, other, "it"), 0)
    }
    again = {(stage, stage) for stage in stages}
    assert after - again == {
        (Stage.HOLD, Stage.SWITCH),
        (Stage.HOLD, Stage.ABORT),
        (Stage.SWITCH, Stage.RUN),
    }
    for stage in stages:
        assert not may_follow(Change(2, stage, "it"), Change(2, Stage.HOLD, "another"), 2)
        assert not may_follow(Change(3, stage, "it"), Change(2, Stage.RUN, "it"), 3)
        is_over = stage in (Stage.RUN, Stage.ABORT)
        assert may_follow(Change(2, stage, "it"), Change(3, Stage.HOLD, "next"), 2) == is_over
        # What came since it was planned has made of the mesh something else, though it is over.
        assert not may_follow(Change(2, stage, "it"), Change(3, Stage.HOLD, "next"), 1)
