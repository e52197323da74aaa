"""What of a message was there at a moment gone by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.model.frames import MessageClass
from mesh.model.state import DeadLetter
from mesh.operate.messages.steps import DeliverySeen, FrameSeen, Ingress
from mesh.operate.messages.trace import Trace
from mesh.operate.messages.trace_as_of import trace_as_of
from mesh.transport.port import TopicPartition
from mesh.view.messages import MessageIdentity

PLACE = TopicPartition("mesh.a.in.g", 0)
INGRESS = Ingress("a", PLACE, MessageIdentity("aa", 0, 0, 7), MessageClass.GUARANTEED)


def _frame(source: str, target: str, path: tuple[str, ...], ms: int) -> FrameSeen:
    return FrameSeen(source, target, PLACE, 0, path, 7, 7, 1, is_repair=False, appended_ms=ms)


def _delivery(path: tuple[str, ...], ms: int | None) -> DeliverySeen:
    return DeliverySeen(path[-1], "e", PLACE, 0, path, ms)


FOUND = Trace(
    INGRESS,
    created_ms=100,
    is_there=True,
    is_routed=True,
    frames=[_frame("a", "b", ("a",), 200), _frame("b", "c", ("a", "b"), 300)],
    deliveries=[_delivery(("a",), 200), _delivery(("a", "b", "c"), None)],
)


@pytest.mark.parametrize(
    ("at_ms", "is_there", "is_routed", "frames", "deliveries"),
    [
        (99, False, False, 0, 0),
        (199, True, False, 0, 0),
        (200, True, True, 1, 1),
        (299, True, True, 1, 1),
        (300, True, True, 2, 2),
    ],
)
def test_each_record_is_there_from_when_it_was_written(
    at_ms: int, is_there: bool, is_routed: bool, frames: int, deliveries: int
) -> None:
    """A delivery of which nobody knows when came no sooner than the frame that brought it."""
    then = trace_as_of(FOUND, at_ms)
    assert (then.is_there, then.is_routed) == (is_there, is_routed)
    assert (len(then.frames), len(then.deliveries)) == (frames, deliveries)


def test_when_nothing_tells_it_is_not_known_whether_it_was_routed() -> None:
    """Of a message that nobody wanted, or whose deliveries have no time any more."""
    unwanted = replace(FOUND, frames=[], deliveries=[])
    assert trace_as_of(unwanted, 150).is_routed is None
    assert trace_as_of(unwanted, 50).is_routed is False
    timeless = replace(FOUND, frames=[], deliveries=[_delivery(("a",), None)])
    then = trace_as_of(timeless, 150)
    assert (then.is_routed, len(then.deliveries)) == (None, 1)
    assert trace_as_of(replace(unwanted, is_routed=False), 150).is_routed is False


def test_a_refusal_is_there_once_it_was_written() -> None:
    letter = DeadLetter(
        reason="CODEC", topic="mesh.a.in.g", partition=0, offset=7, detail="", identity=""
    )
    refused = replace(FOUND, frames=[], deliveries=[], letter=letter, letter_ms=250)
    assert trace_as_of(refused, 249).letter is None
    assert trace_as_of(refused, 250).letter is letter
