"""Bytes of subscriptions: Avro as nodes write them, JSON as people do. Spec: K13."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TypeVar

from mesh.errors import DecodeError
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.queues import QueuePolicy
from mesh.wire.records import Fields, RecordCodec, check_version

_KEYS = ("kind", "class", "policy", "lease_s", "noexport")

_NOEXPORT = "subscription.noexport"
"""Entry of `ext`: present if the subscription attracts nothing. A node from before this entry
requests more than it must."""

_LEASE_MAX_S = (1 << 31) - 1

REMEMBERED_BYTES_MAX = 1_000
"""Larger ones are parsed each time: a stranger may write a subscription that is mostly spaces."""

E = TypeVar("E", bound=StrEnum)


def _one_of(kind: type[E], key: str, value: object) -> E:
    names = [member.value for member in kind]
    if value not in names:
        raise ValueError(f"{key} must be one of {', '.join(names)}, not {_shown(value)}")
    return kind(str(value))


def _shown(value: object) -> str:
    return json.dumps(value, default=repr)[:80]


def _policy(kind: EndpointKind, value: object) -> str | None:
    if value is None:
        return None
    policy = _one_of(QueuePolicy, "policy", value)
    if kind is not EndpointKind.QUEUE:
        raise ValueError("policy is for queues: set kind to queue, or leave policy out")
    return policy.value


def lease_fault(value: object) -> str | None:
    """Return why something is not a valid lease of a subscription, or None if it is. Spec: K13."""
    # In Python, and so after JSON, True is an int.
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LEASE_MAX_S:
        return None
    return (
        f"lease_s must be a whole number of seconds from 1 to {_LEASE_MAX_S}, not {_shown(value)}"
    )


def _lease(value: object) -> int | None:
    if (fault := lease_fault(value)) is not None:
        raise ValueError(fault)
    return value if isinstance(value, int) else None


def _noexport(value: object) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    raise ValueError(f"noexport must be true or false, not {_shown(value)}")


def _subscription(fields: Fields) -> Subscription:
    kind = _one_of(EndpointKind, "kind", fields.get("kind", EndpointKind.CHANNEL.value))
    default = MessageClass.GUARANTEED.value
    return Subscription(
        kind,
        _one_of(MessageClass, "class", fields.get("class", default)),
        _policy(kind, fields.get("policy")),
        _lease(fields.get("lease_s")),
        _noexport(fields.get("noexport")),
    )


_SUBSCRIPTION = RecordCodec[Subscription](
    "subscription",
    lambda value: {
        "kind": value.kind.value,
        "class": value.message_class.value,
        "policy": value.policy,
        "lease_s": value.lease_s,
        "ext": {_NOEXPORT: b""} if value.noexport else {},
    },
    lambda fields: _subscription({**fields, "noexport": _NOEXPORT in fields["ext"]}),
)


def encode_subscription(value: Subscription) -> bytes:
    """Return the subscription in Avro.

    Raises:
        LocalProtocolError: The value does not fit the schema.
    """
    return _SUBSCRIPTION.encode(value)


def decode_subscription(data: bytes) -> Subscription:
    """Return the subscription that a client wrote, in Avro or as a JSON object.

    In JSON every key may be omitted: `{}` is a guaranteed channel without expiry.

    Raises:
        DecodeError: Neither of the two, an unknown key or a value without meaning.
        UnknownVersionError: Its major version is not known here.

    Spec: K13.
    """
    return _remembered(data) if len(data) <= REMEMBERED_BYTES_MAX else _decoded(data)


def _decoded(data: bytes) -> Subscription:
    if data.lstrip()[:1] != b"{":
        return _SUBSCRIPTION.decode(data)
    try:
        fields = json.loads(data.decode(), object_pairs_hook=_object)
        check_version("subscription", fields.get("version", 1))
        return _subscription(fields)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"subscription: {error}") from error


_remembered = lru_cache(maxsize=256)(_decoded)


def _object(pairs: Sequence[tuple[str, object]]) -> Fields:
    fields = dict(pairs)
    unknown = [key for key in fields if key not in (*_KEYS, "version")]
    if unknown:
        raise ValueError(f"unknown key {_shown(unknown[0])}; known are {', '.join(_KEYS)}")
    if len(fields) < len(pairs):
        raise ValueError("a key stands there twice")
    return fields
