"""References that the client library has forgotten are given back, and nobody else's."""

from __future__ import annotations

import ctypes
import gc
from types import SimpleNamespace

from confluent_kafka import Uuid

from mesh.transport.kafka.descriptions import _give_back

ROUNDS = 50


def ids() -> int:
    gc.collect()
    return sum(type(one) is Uuid for one in gc.get_objects())


def test_an_id_that_the_library_has_not_forgotten_keeps_its_references() -> None:
    """As of a version that has mended it: what is given back then would be somebody else's."""
    fine = SimpleNamespace(topic_id=Uuid(7, 8))
    before = ids()
    for _ in range(ROUNDS):
        _give_back(fine)
    assert ids() == before
    assert str(fine.topic_id) == str(Uuid(7, 8))


def test_one_reference_is_given_back_and_no_more() -> None:
    forgotten = SimpleNamespace(topic_id=Uuid(7, 8))
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(forgotten.topic_id))
    before = ids()
    for _ in range(ROUNDS):
        _give_back(forgotten)
    del forgotten
    assert ids() == before - 1


def test_a_topic_without_an_id_is_none_of_them() -> None:
    """Nothing holds as many references as None: to give one back each time would end Python."""
    nobody = SimpleNamespace(topic_id=None)
    _give_back(nobody)
    assert nobody.topic_id is None
