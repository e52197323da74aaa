"""What messages and subscriptions must be before they are handed to Kafka. Spec: K6, K7, K13."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from mesh.codec.frames import encode_tail
from mesh.codec.subscriptions import decode_subscription, encode_subscription
from mesh.errors import ProtocolError, SubjectError
from mesh.model.control import Subscription
from mesh.model.headers import is_reserved
from mesh.model.names import name_fault
from mesh.model.subject import check_filter, check_subject
from mesh.model.topology import Topology
from mesh.transport.port import Headers

W = TypeVar("W", bound=StrEnum)


def checked_size(
    topology: Topology, subject: str, payload: bytes | None, key: bytes | None, headers: Headers
) -> int:
    """Return the bytes of a message with key and headers.

    Raises:
        SubjectError: The subject, a header or the size is not allowed.
        TypeError: Something is text, or whatever else is no bytes.
    """
    check_subject(subject)
    check_bytes("payload", payload)
    check_bytes("key", key)
    for name, value in headers:
        if is_reserved(name):
            raise SubjectError(f"header {name!r} belongs to the mesh; choose another name")
        check_bytes(f"header {name!r}", value)
    try:
        size = len(encode_tail(key, headers, payload))
    except ProtocolError as exc:
        raise SubjectError(f"header: {exc}") from exc
    if size > (limit := topology.max_message_bytes):
        raise SubjectError(
            f"the message has {size} bytes with key and headers; at most {limit} are allowed"
        )
    return size


def check_bytes(what: str, value: object) -> None:
    """Refuse what is no bytes.

    Raises:
        TypeError: It is text, or anything else; None is nothing, and allowed.
    """
    if value is not None and not isinstance(value, bytes | bytearray | memoryview):
        hint = "; encode it" if isinstance(value, str) else ""
        raise TypeError(f"{what} must be bytes, not {type(value).__name__}{hint}")


def check_names(endpoint: str, filter_: str) -> None:
    """Refuse the names of a subscription that no node takes.

    Raises:
        SubjectError: The endpoint or the filter is none.
    """
    check_filter(filter_)
    if (fault := name_fault(endpoint)) is not None:
        raise SubjectError(f"endpoint {fault}")


def encoded(subscription: Subscription) -> bytes:
    """Return the bytes of a subscription that a node takes.

    Raises:
        SubjectError: It would take none of these.
    """
    try:
        value = encode_subscription(subscription)
        decode_subscription(value)
    except ProtocolError as exc:
        raise SubjectError(str(exc)) from exc
    return value


def word_of(kind: type[W], what: str, value: str) -> W:
    """Return a word as what it stands for: whoever writes `"direct"` means that.

    Raises:
        SubjectError: It is no word of this kind.
    """
    if isinstance(value, kind):
        return value
    if value not in set(kind):
        raise SubjectError(f"{what} must be one of {', '.join(kind)}, not {value!r}")
    return kind(value)
