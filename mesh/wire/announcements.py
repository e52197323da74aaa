"""How a loss is announced: in a frame without messages, and in an endpoint by one header.

A record of an endpoint that announces a loss has neither key nor value, and no other header.
Spec: K10, DESIGN 6.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from mesh.errors import DecodeError
from mesh.model.frames import Origin
from mesh.model.losses import Loss
from mesh.model.record_headers import GAP_HEADER, Headers

_TOPIC, _REASON, _OPEN = "gap.topic", "gap.reason", "gap.open"
"""Entries of `ext`: the topic's name, the reason, and whether the end of the range is unknown."""


def announcement_ext(topic: str, reason: str, *, is_open: bool = False) -> Mapping[str, bytes]:
    """Return what a frame that announces a loss says besides its range.

    Args:
        topic: Name of the topic in which messages were lost.
        reason: The reason.
        is_open: Whether the end of the range is unknown.
    """
    told = {_TOPIC: topic.encode(), _REASON: reason.encode()}
    return {**told, _OPEN: b""} if is_open else told


def loss_of(origin: Origin, ext: Mapping[str, bytes], path: Sequence[str]) -> Loss:
    """Return the loss that a frame announces.

    Args:
        origin: The source, and the lost range.
        ext: See `announcement_ext`.
        path: Nodes that passed the announcement on.
    """
    return Loss(
        node=origin.node,
        topic=ext.get(_TOPIC, b"").decode(errors="replace"),
        topic_id=origin.source.topic_id.hex(),
        partition=origin.source.partition,
        generation=origin.generation,
        first=origin.first,
        last=None if _OPEN in ext else origin.last,
        reason=ext.get(_REASON, b"").decode(errors="replace"),
        path=tuple(path),
    )


def encode_announcement(loss: Loss) -> tuple[str, bytes | None]:
    """Return the one header of a record that announces a loss."""
    return GAP_HEADER, json.dumps(asdict(loss), sort_keys=True).encode()


def is_announcement(headers: Headers) -> bool:
    """Return whether a record with these headers announces a loss."""
    return [name for name, _ in headers] == [GAP_HEADER]


def decode_announcement(headers: Headers) -> Loss:
    """Parse the loss that a record announces; what a newer version adds is left out.

    Raises:
        DecodeError: It lacks what this version knows of a loss.
    """
    try:
        told = json.loads(headers[0][1] or b"")
        known = {field.name: told[field.name] for field in fields(Loss)}
        return _checked(Loss(**{**known, "path": tuple(known["path"])}))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise DecodeError(f"no announcement of a loss: {headers[0][1]!r:.300}") from error


def _checked(loss: Loss) -> Loss:
    """Refuse a loss that readers would stumble over: a stranger may have written it.

    Raises:
        TypeError: A number or a text is of another type.
    """
    texts = (loss.node, loss.topic, loss.topic_id, loss.reason, *loss.path)
    last = loss.first if loss.last is None else loss.last
    numbers = (loss.partition, loss.generation, loss.first, last)
    if {*map(type, texts)} != {str} or {*map(type, numbers)} != {int}:
        raise TypeError("a number is none, or a text")
    return loss
