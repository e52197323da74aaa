"""What a message must be before it is handed to Kafka. Spec: K6, K7."""

from __future__ import annotations

from mesh.codec.frames import encode_tail
from mesh.errors import ProtocolError, SubjectError
from mesh.model.headers import is_reserved
from mesh.model.subject import check_subject
from mesh.model.topology import Topology
from mesh.transport.port import Headers


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
