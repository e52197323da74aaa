"""What a message must be before it is handed to Kafka. Spec: K6, K7."""

from __future__ import annotations

from mesh.codec.frames import encode_tail
from mesh.errors import SubjectError
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
    """
    check_subject(subject)
    for name, _ in headers:
        if is_reserved(name):
            raise SubjectError(f"header {name!r} belongs to the mesh; choose another name")
    size = len(encode_tail(key, headers, payload))
    if size > (limit := topology.max_message_bytes):
        raise SubjectError(
            f"the message has {size} bytes with key and headers; at most {limit} are allowed"
        )
    return size
