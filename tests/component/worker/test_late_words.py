"""A worker that reads operators' words late follows what is in force before what comes next."""

from __future__ import annotations

from contextlib import suppress

import pytest

from mesh.errors import ProtocolError
from mesh.model.control import Change, Pause, Stage
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import BEGINNING, TopicPartition, TopicSpec
from mesh.wire.control import encode_change, encode_config, encode_pause
from mesh.wire.keys import (
    DisableKey,
    PauseKey,
    SubjectPauseKey,
    change_key,
    config_key,
    disable_key,
    pause_key,
    subject_pause_key,
)
from mesh.worker.control.orders import NodeOrders


def orders_of(*words: Change | int) -> NodeOrders:
    """What a worker knows that has read these; a number stands for the topology in force."""
    kafka, orders = MemoryKafka("k"), NodeOrders("a")
    kafka.admin().create([TopicSpec(name="config", partitions=1)])
    writer, reader = kafka.writer("operator"), kafka.reader("a")
    for word in words:
        if isinstance(word, int):
            writer.produce("config", encode_config(word, f"t{word}"), config_key(), 0)
        else:
            writer.produce("config", encode_change(word), change_key(), 0)
    reader.assign({TopicPartition("config", 0): BEGINNING})
    for record in reader.read(0, 100):
        assert list(orders.take(record)) == []
    return orders


def stage(number: int, stage: Stage) -> Change:
    return Change(number, stage, f"t{number}")


@pytest.mark.parametrize("next_word", [Stage.HOLD, Stage.ABORT])
def test_what_is_in_force_comes_before_the_next_change(next_word: Stage) -> None:
    """Spec: K28."""
    late = stage(3, next_word)
    orders = orders_of(1, stage(2, Stage.SWITCH), 2, stage(2, Stage.RUN), late)
    assert orders.word(1) == stage(2, Stage.RUN)
    assert orders.word(2) == late
    assert orders.word(-1) == stage(2, Stage.RUN)


def test_a_change_that_is_followed_anyway_needs_none_before_it() -> None:
    orders = orders_of(1, stage(2, Stage.RUN), 2, stage(3, Stage.SWITCH))
    assert orders.word(1) == stage(3, Stage.SWITCH)


def test_without_a_change_nothing_is_told() -> None:
    assert orders_of(1).word(0) is None


def test_what_was_written_while_a_node_goes_by_its_file_waits_for_the_next_change() -> None:
    """Unless a lane comes from a worker that has started by it."""
    orders = orders_of(4)
    assert orders.word(-1) is None
    for owed, expected in ((5, None), (4, stage(4, Stage.RUN)), (3, stage(4, Stage.RUN))):
        orders.owed = owed
        assert orders.word(-1) == expected


PAUSED = encode_pause(Pause("for a look"))


@pytest.mark.parametrize(
    "key",
    [
        pause_key(PauseKey("a", "b", None)),
        subject_pause_key(SubjectPauseKey("a", "x/>")),
        disable_key(DisableKey("a", "b")),
    ],
)
def test_what_is_written_over_an_order_ends_it_as_compaction_does(key: bytes) -> None:
    """Who starts later finds the garbage alone: nobody may go by what stood there before."""
    kafka, orders = MemoryKafka("k"), NodeOrders("a")
    kafka.admin().create([TopicSpec(name="config", partitions=1)])
    writer, reader = kafka.writer("operator"), kafka.reader("a")
    reader.assign({TopicPartition("config", 0): BEGINNING})
    for value in (PAUSED, b"garbage", PAUSED):
        writer.produce("config", value, key, 0)
        [record] = reader.read(0, 100)
        with suppress(ProtocolError):
            assert list(orders.take(record)) == []
        wanted = orders.paused | orders.paused_subjects | orders.disabled
        assert bool(wanted) == (value == PAUSED)
