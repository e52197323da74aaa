"""Copies for members of queues: addresses on frames, the client's subject in deliveries."""

from __future__ import annotations

import pytest

from mesh.core.routes import Route
from mesh.errors import DecodeError
from mesh.lane.messages.addressing import by_address, restored
from mesh.lane.messages.outgoing import MessageColumns
from mesh.model.queues import MOVED_EXT, SUBJECT_EXT, addressed
from mesh.wire.frames import NO_EXT, decode_ext, encode_ext, encode_tail
from mesh.wire.tails import read_tail

PLAIN = Route(("b", "c"), (), ())
TO_B = Route(("b", "c"), (), (), addressed=(("b", "$queue/q/b"),))
ONLY_B = Route(("b",), (), (), addressed=(("b", "$queue/q/b"),))


def stretch(*routes: Route) -> MessageColumns:
    count = len(routes)
    return MessageColumns(
        range(count),
        [f"s/{number}" for number in range(count)],
        [0] * count,
        [encode_tail(b"k", (), b"v")] * count,
        routes,
    )


def test_a_link_sees_one_subject_per_message_in_one_stretch() -> None:
    """So its chain counts every offset once. Spec: K11."""
    ways = list(by_address(stretch(PLAIN, TO_B, ONLY_B), [PLAIN, TO_B, ONLY_B]))
    by_link = {
        link: [
            subject
            for subject, route in zip(one.subjects, one.routes, strict=True)
            if link in route.neighbours
        ]
        for one, routes in ways
        for link in {link: None for route in routes for link in route.neighbours}
    }
    assert by_link == {"c": ["s/0", "s/1"], "b": ["s/0", "$queue/q/b", "$queue/q/b"]}


def test_an_addressed_message_has_the_clients_subject_inside() -> None:
    """Spec: K10: minor versions add only to `ext`."""
    (_, _), (found, _) = by_address(stretch(PLAIN, TO_B), [PLAIN, TO_B])
    exts = [decode_ext(read_tail(tail, 0)[3]) for tail in found.tails]
    assert exts == [{}, {SUBJECT_EXT: b"s/1"}]
    assert read_tail(found.tails[1], 0)[:3] == (b"k", (), b"v")


def test_deliveries_have_the_clients_subject_and_what_else_is_in_ext() -> None:
    """Spec: K8."""
    ext = encode_ext({SUBJECT_EXT: b"s/1", MOVED_EXT: bytes(8)})
    here, there = Route((), ("q",), ()), Route((), ("channel", "q"), ())
    messages = [
        (0, 0, 7, b"k", (), b"v", NO_EXT),
        (1, 1, 7, b"k", (), b"v", ext),
        (2, 2, 7, b"k", (), b"v", ext),
    ]
    table = ["s/0", "$queue/q/b", addressed(["s/1", "$queue/q/b"])]
    found, subjects, routes = restored(messages, table, [here, here, there])
    assert [subjects[message[1]] for message in found] == ["s/0", "s/1", "s/1"]
    assert [routes[message[1]] for message in found] == [here, here, there]
    assert [decode_ext(message[6]) for message in found] == [
        {},
        {MOVED_EXT: bytes(8)},
        {MOVED_EXT: bytes(8)},
    ]


@pytest.mark.parametrize("ext", [{}, {SUBJECT_EXT: b"\xff"}])
def test_an_address_without_a_subject_is_refused(ext: dict[str, bytes]) -> None:
    message = (0, 0, 7, b"k", (), b"v", encode_ext(ext))
    with pytest.raises(DecodeError):
        restored([message], ["$queue/q/b"], [Route((), ("q",), ())])


def test_other_messages_are_left_as_they_are() -> None:
    messages, subjects, routes = [(0, 0, 7, b"k", (), b"v", NO_EXT)], ["s"], [PLAIN]
    assert restored(messages, subjects, routes) == (messages, subjects, routes)
