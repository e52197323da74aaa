"""Messages that came to an endpoint, printed one by one as they come."""

from __future__ import annotations

import base64
import json
import sys
from typing import TYPE_CHECKING

from mesh.cli.render import Output, printable, render

if TYPE_CHECKING:
    from mesh.client import ReceivedMessage
    from mesh.model.topology import Topology


def print_message(topology: Topology, message: ReceivedMessage, output: Output) -> None:
    """Print a message as it comes: a line for people, a document for scripts."""
    data = as_mapping(topology, message)
    if output is Output.JSON:
        # One line per message: a stream that scripts read as it comes.
        sys.stdout.write(json.dumps(data) + "\n")
    elif output is Output.YAML:
        sys.stdout.write("---\n")
        render(data, lambda: "", output)
    else:
        key = "" if message.key is None else f" key={_text(message.key)!r}"
        headers = "".join(
            f" {name if name.isprintable() else repr(name)}="
            f"{'null' if value is None else repr(_text(value))}"
            for name, value in message.headers
        )
        payload = "null" if message.payload is None else repr(_text(message.payload))
        way = ">".join(message.path)
        line = f"{message.subject}  {payload}{key}{headers}  {way}  {data['id']}"
        sys.stdout.write(printable(line) + "\n")  # others may write to the endpoint, too


def as_mapping(topology: Topology, message: ReceivedMessage) -> dict[str, object]:
    """Return a message as scripts read it; bytes that are no UTF-8 as base64 under `..._base64`."""
    from mesh.model.topics import TopicNames

    identity = message.identity
    ingress = TopicNames(topology.prefix).ingress(message.path[0], message.message_class)
    data: dict[str, object] = {
        "id": f"{ingress}/{identity.partition}/{identity.generation}/{identity.offset}",
        "subject": message.subject,
        "class": str(message.message_class),
        "path": list(message.path),
        "timestamp": message.timestamp,
        **_bytes("key", message.key),
        "headers": [[name, _bytes_or_text(value)] for name, value in message.headers],
        **_bytes("payload", message.payload),
        "topic_id": identity.topic_id,
        "delivered_at": f"{message.place.topic}/{message.place.partition}/{message.offset}",
    }
    return data


def _bytes(name: str, value: bytes | None) -> dict[str, object]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _bytes_or_text(value: bytes | None) -> str | None:
    return None if value is None else _text(value)


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
