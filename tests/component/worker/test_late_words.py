"""A worker that reads operators' words late follows what is in force before what comes next."""

from __future__ import annotations

import pytest

from mesh.model.control import Change, Stage
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import BEGINNING, TopicPartition, TopicSpec
from mesh.wire.control import encode_change, encode_config
from mesh.wire.keys import change_key, config_key
from mesh.worker.control.orders import OperatorOrders


def orders_of(*words: Change | int) -> OperatorOrders:
    """What a worker knows that has read these; a number stands for the topology in force."""
    kafka, orders = MemoryKafka("k"), OperatorOrders("a")
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
    assert orders.word(-1) == late  # works by its own file until the change itself


def test_a_change_that_is_followed_anyway_needs_none_before_it() -> None:
    orders = orders_of(1, stage(2, Stage.RUN), 2, stage(3, Stage.SWITCH))
    assert orders.word(1) == stage(3, Stage.SWITCH)


def test_without_a_change_nothing_is_told() -> None:
    assert orders_of(1).word(0) is None
