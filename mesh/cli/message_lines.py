"""Messages that come to an endpoint, printed one by one as they come."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, assert_never

from mesh.cli.interrupt import interruptible
from mesh.cli.render import Output, printable, render, say, standard_output
from mesh.model.counted import counted

if TYPE_CHECKING:
    from mesh.client import ReceivedMessage
    from mesh.model.topology import Topology


LOOK_S = 0.2
"""How long one look waits for messages."""

ENDS_WITHIN_S = 1.0
"""How long after Ctrl-C brokers may take to save what was acknowledged; else it comes again."""

Look = Callable[[int | None], "Iterable[ReceivedMessage]"]
"""Waits a moment; yields at most so many messages, and goes on when one has been printed."""


def print_as_they_come(
    topology: Topology,
    look: Look,
    count: int | None,
    timeout_s: float,
    output: Output,
    close: Callable[[], None] = lambda: None,
) -> bool:
    """Print messages until enough came, silence lasted too long, or Ctrl-C.

    Args:
        topology: The mesh.
        look: Where they come from.
        count: How many are wanted; None for all that come.
        timeout_s: How long a silence ends it where some are wanted.
        output: How they are printed.
        close: Ends the looks.

    Returns:
        Whether as many came as were wanted.
    """
    printed = 0
    heard_s = time.monotonic()
    with interruptible(ENDS_WITHIN_S) as is_interrupted:
        while not is_interrupted() and (count is None or printed < count):
            before = printed
            for message in look(None if count is None else count - printed):
                with standard_output():
                    print_message(topology, message, output)
                printed += 1
                heard_s = time.monotonic()
            is_silent = printed == before
            if is_silent and count is not None and time.monotonic() - heard_s > timeout_s:
                say(f"{printed} of {count} messages came; nothing more for {timeout_s:g} s")
                break
        if is_interrupted():
            say(counted(printed, "message"))
        close()
    return count is None or printed >= count


def print_message(topology: Topology, message: ReceivedMessage, output: Output) -> None:
    """Print a message as it comes: a line for people, a document for scripts."""
    data = as_mapping(topology, message)
    match output:
        case Output.TABLE:
            # Others may write to the endpoint, too: whatever cannot be printed is escaped.
            sys.stdout.write(printable(_line(message, str(data["id"]))) + "\n")
        case Output.JSON:
            # One line per message: a stream that scripts read as it comes.
            sys.stdout.write(json.dumps(data) + "\n")
        case Output.YAML:
            sys.stdout.write("---\n")
            render(data, lambda: "", output)
        case _:
            assert_never(output)


def _line(message: ReceivedMessage, id_: str) -> str:
    """Return what people see of a message."""
    key = "" if message.key is None else f" key={_text(message.key)!r}"
    headers = "".join(
        f" {name if name.isprintable() else repr(name)}="
        f"{'null' if value is None else repr(_text(value))}"
        for name, value in message.headers
    )
    payload = "null" if message.payload is None else repr(_text(message.payload))
    return f"{message.subject}  {payload}{key}{headers}  {'>'.join(message.path)}  {id_}"


def as_mapping(topology: Topology, message: ReceivedMessage) -> dict[str, object]:
    """Return a message as scripts read it.

    Bytes that are no UTF-8 stand as base64: under `key_base64` and `payload_base64`, and of a
    header as `{"base64": ...}` in the place of its text.
    """
    identity = message.identity
    ingress = topology.names.ingress(message.path[0], message.message_class)
    data: dict[str, object] = {
        "id": f"{ingress}/{identity.partition}/{identity.generation}/{identity.offset}",
        "subject": message.subject,
        "class": str(message.message_class),
        "path": list(message.path),
        "timestamp": message.timestamp,
        **_bytes("key", message.key),
        "headers": [[name, _header(value)] for name, value in message.headers],
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
        return {f"{name}_base64": _base64(value)}


def _header(value: bytes | None) -> object:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": _base64(value)}


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
