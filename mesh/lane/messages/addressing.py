"""Copies for members of queues: the address on the frame, the client's subject inside.

Whatever else goes over the same link goes with them, so that a message crosses it once and its
chain stays whole. Transit needs to know nothing of this: an address is routed as any subject is.
Spec: DESIGN 6, K10, K11.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mesh.core.routes import Route
from mesh.errors import DecodeError
from mesh.lane.messages.outgoing import MessageColumns
from mesh.model.queues import SUBJECT_EXT, names_a_queue
from mesh.wire.frames import NO_EXT, MessageTuple, decode_ext, encode_ext


def by_address(
    stretch: MessageColumns, routes: Sequence[Route]
) -> Iterator[tuple[MessageColumns, Sequence[Route]]]:
    """Yield a stretch as it goes over links that see one subject per message, then over others.

    Args:
        stretch: Messages; the routes of some may name members of queues.
        routes: The distinct routes among them.
    """
    if not any(route.addressed for route in routes):
        yield stretch, routes
        return
    apart = sorted({link: None for route in routes for link, _ in route.addressed})
    plain = {
        route: _only(route, [other for other in route.neighbours if other not in apart])
        for route in routes
    }
    yield _over(stretch, plain), list(plain.values())
    for link in apart:
        over = {route: _only(route, [link] if link in route.neighbours else []) for route in routes}
        subjects, tails = list(stretch.subjects), list(stretch.tails)
        for at, route in enumerate(stretch.routes):
            address = dict(route.addressed).get(link)
            if address is not None:
                if not names_a_queue(subjects[at]):
                    tails[at] = _with_subject(tails[at], subjects[at])
                subjects[at] = address
        yield replace(_over(stretch, over), subjects=subjects, tails=tails), list(over.values())


def _only(route: Route, neighbours: Sequence[str]) -> Route:
    return Route(tuple(neighbours), route.endpoints, route.refused)


def _over(stretch: MessageColumns, instead: dict[Route, Route]) -> MessageColumns:
    return replace(stretch, routes=[instead[route] for route in stretch.routes])


def _with_subject(tail: bytes, subject: str) -> bytes:
    """Return a message as it was encoded at ingress, with its subject in `ext`."""
    return tail[: -len(NO_EXT)] + encode_ext({SUBJECT_EXT: subject.encode()})


def restored(
    messages: Sequence[MessageTuple], subjects: Sequence[str], routes: Sequence[Route]
) -> tuple[Sequence[MessageTuple], Sequence[str], Sequence[Route]]:
    """Return messages under the subjects that clients gave them, with tables that fit.

    Args:
        messages: As a frame brought them.
        subjects: The frame's table.
        routes: By the index of a subject in it.

    Raises:
        DecodeError: An address stands without the client's subject.
    """
    wanted = [names_a_queue(subject) for subject in subjects]
    if True not in wanted:
        return messages, subjects, routes
    table: dict[tuple[str, Route], int] = {}
    found: list[MessageTuple] = []
    for offset, index, stamp, key, headers, payload, ext in messages:
        subject = subjects[index]
        if wanted[index]:
            subject, ext = _subject_in(ext)
        at = table.setdefault((subject, routes[index]), len(table))
        found.append((offset, at, stamp, key, headers, payload, ext))
    return found, [subject for subject, _ in table], [route for _, route in table]


def _subject_in(ext: bytes) -> tuple[str, bytes]:
    entries = decode_ext(ext)
    raw = entries.pop(SUBJECT_EXT, None)
    if raw is None:
        raise DecodeError(f"a message for a queue has no {SUBJECT_EXT} in its ext")
    try:
        return raw.decode(), encode_ext(entries)
    except UnicodeDecodeError as error:
        raise DecodeError("the subject of a message for a queue is not UTF-8") from error
