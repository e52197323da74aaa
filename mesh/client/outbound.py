"""Requirements on messages and subscriptions before they are handed to Kafka. Spec: K6, K7, K13."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from numbers import Real
from typing import TypeVar

from mesh.errors import ProtocolError, SubjectError
from mesh.model.control import Subscription
from mesh.model.names import name_fault
from mesh.model.record_headers import header_fault
from mesh.model.subject import check_filter, check_subject
from mesh.model.topology import Topology
from mesh.transport.port import Headers
from mesh.wire.frames import encode_tail
from mesh.wire.subscriptions import decode_subscription, encode_subscription, lease_fault

W = TypeVar("W", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message as the client library takes it: `bytes`, whatever type was given.

    Attributes:
        payload: Record value; None is a tombstone.
        key: Record key.
        headers: The client's own.
        size: Bytes of all three.
    """

    payload: bytes | None
    key: bytes | None
    headers: Headers
    size: int


def outgoing(
    topology: Topology, subject: str, payload: bytes | None, key: bytes | None, headers: Headers
) -> Outgoing:
    """Return a client's message, if a node accepts it.

    Raises:
        SubjectError: The subject, a header or the size is not allowed.
        TypeError: Something is text instead of bytes, or vice versa, or headers are not pairs.
    """
    check_text("subject", subject)
    check_subject(subject)
    payload, key = as_bytes("payload", payload), as_bytes("key", key)
    if not isinstance(headers, Iterable):
        raise TypeError(_PAIRS)
    own = list(map(_header, headers))  # which may be an iterator
    try:
        size = len(encode_tail(key, own, payload))
    except ProtocolError as error:
        raise SubjectError(f"header: {error}") from error
    if size > (limit := topology.max_message_bytes):
        raise SubjectError(
            f"the message has {size} bytes with key and headers; at most {limit} are allowed"
        )
    return Outgoing(payload, key, own, size)


_PAIRS = "headers must be pairs of a name and bytes, as in [('kind', b'order')]"


def _header(pair: object) -> tuple[str, bytes | None]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise TypeError(_PAIRS)
    name, value = pair
    check_text("name of a header", name)
    if (fault := header_fault(name)) is not None:
        raise SubjectError(fault)
    return name, as_bytes(f"header {name!r}", value)


def as_bytes(what: str, value: object) -> bytes | None:
    """Return a copy as `bytes`: the client library accepts nothing else.

    Raises:
        TypeError: It is text, or anything else; None is allowed, and stays None.
    """
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    hint = "; encode it" if isinstance(value, str) else ""
    raise TypeError(f"{what} must be bytes, not {type(value).__name__}{hint}")


def check_text(what: str, value: object) -> None:
    """Refuse anything that is not text.

    Raises:
        TypeError: It is bytes, or anything else.
    """
    if not isinstance(value, str):
        hint = "; decode it" if isinstance(value, bytes) else ""
        raise TypeError(f"{what} must be text, not {type(value).__name__}{hint}")


def check_number(what: str, value: object, expected: str) -> None:
    """Refuse anything that is not a number, including what only Python takes for one.

    Raises:
        TypeError: It is text, or anything else.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{what} must be {expected}, not {value!r}")


def check_count(what: str, value: object) -> None:
    """Refuse anything that is not a whole number from 1.

    Raises:
        TypeError: It is text, a fraction or anything else, including what only Python takes for a
            number.
        ValueError: It is below 1.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be a whole number, not {value!r}")
    if value < 1:
        raise ValueError(f"{what} must be 1 or more, not {value}")


def check_kind(what: str, value: object, kind: type, expected: str) -> None:
    """Refuse anything that is not an object of a class.

    Raises:
        TypeError: It is of another class.
    """
    if not isinstance(value, kind):
        raise TypeError(f"{what} must be {expected}, not {type(value).__name__}")


def check_flags(**flags: object) -> None:
    """Refuse anything that is not a bool: any text other than "" would mean yes, even "no".

    Raises:
        TypeError: It is text, or anything else.
    """
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, not {value!r}")


def check_name(what: str, name: str) -> None:
    """Refuse an invalid name of an endpoint, queue or application.

    Raises:
        SubjectError: It is not valid.
        TypeError: It is not text.
    """
    check_text(what, name)
    if (fault := name_fault(name)) is not None:
        raise SubjectError(f"{what}: {fault}")


def check_names(endpoint: str, filter_: str) -> None:
    """Refuse the names of a subscription that no node accepts.

    Raises:
        SubjectError: The endpoint or the filter is not valid.
        TypeError: One is not text.
    """
    check_text("filter", filter_)
    check_text("endpoint", endpoint)
    check_filter(filter_)
    check_name("endpoint", endpoint)


def encoded(subscription: Subscription) -> bytes:
    """Return the bytes of a subscription that a node accepts.

    Raises:
        SubjectError: No node would accept it.
    """
    if (fault := lease_fault(subscription.lease_s)) is not None:
        raise SubjectError(fault)
    try:
        value = encode_subscription(subscription)
        decode_subscription(value)
    except ProtocolError as error:
        raise SubjectError(str(error)) from error
    return value


def enum_member(kind: type[W], what: str, value: str) -> W:
    """Return the member that a text names, so that callers may write `"direct"`.

    Raises:
        SubjectError: It names none.
    """
    if isinstance(value, kind):
        return value
    if value not in tuple(kind):
        raise SubjectError(f"{what} must be one of {', '.join(kind)}, not {value!r}")
    return kind(value)
