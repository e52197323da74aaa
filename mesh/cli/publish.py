"""`mesh publish`: messages from the command line into a node's ingress. Spec: K7."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.options import ClassOption, HeaderOption, NodeOption, class_of, headers_of
from mesh.cli.render import Output, OutputOption, render, say
from mesh.cli.session import topology_at
from mesh.cli.target import HERE, Target
from mesh.errors import wrong_input
from mesh.model.counted import counted

if TYPE_CHECKING:
    from mesh.client import MeshClient, Published
    from mesh.model.frames import MessageClass


def publish(
    subject: Annotated[
        str,
        typer.Argument(help="Mesh address, as acme/orders/eu; with --queue, a queue's name."),
    ],
    node: NodeOption,
    payload: Annotated[
        str | None,
        typer.Argument(help="The message; without it, each line of standard input is one."),
    ] = None,
    class_: ClassOption = "guaranteed",
    key: Annotated[str | None, typer.Option(help="Messages of one key keep their order.")] = None,
    header: HeaderOption = None,
    count: Annotated[int, typer.Option(min=1, help="How often to publish each message.")] = 1,
    queue: Annotated[
        bool,
        typer.Option(
            "--queue", help="Publish to the queues of this name, under the subject `queue/NAME`."
        ),
    ] = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Publish messages; ends when Kafka has acknowledged all of them."""
    from mesh.client import MeshError, SubjectError, connect
    from mesh.model.frames import MessageClass
    from mesh.model.subject import subject_fault

    message_class = class_of(class_)
    if queue:
        subject = named_queue("SUBJECT", subject)
    elif (fault := subject_fault(subject)) is not None:
        raise wrong_input("SUBJECT", fault)
    headers = headers_of(header or [])
    topology = topology_at(target, node)
    with connect(topology, node) as client:
        if message_class is MessageClass.GUARANTEED and client.direct_only_zone is not None:
            say(
                f"guaranteed messages do not leave {node} over zone {client.direct_only_zone}, "
                "which is direct-only; publish with --class direct to reach its nodes"
            )
        lines = Counted(_lines() if payload is None else [os.fsencode(payload)])
        try:
            last = _publish_all(client, subject, lines, key, headers, message_class, count)
        except MeshError as error:
            # What stands before it is sent all the same.
            text = f"{error}; accepted before: {client.flush()}"
            text += f"; refused: line {lines.count}" if payload is None else ""
            if isinstance(error, SubjectError):
                raise wrong_input("publish", text) from error
            error.args = (text,)
            raise
        accepted = client.flush()
    data = {
        "node": node,
        "subject": subject,
        "class": str(message_class),
        "published": accepted,
        "last": None if last is None else last.id,
    }
    named = "" if last is None else f"{', the last' if accepted > 1 else ''} as {last.id}"
    render(data, lambda: f"{counted(accepted, 'message')} accepted at {node}{named}", output)


def _publish_all(
    client: MeshClient,
    subject: str,
    lines: Iterable[bytes],
    key: str | None,
    headers: list[tuple[str, bytes]],
    message_class: MessageClass,
    count: int,
) -> Published | None:
    """Hand all over; return the last, or None if there was none."""
    key_bytes = None if key is None else os.fsencode(key)
    last = None
    for content in lines:
        for _ in range(count):
            last = client.publish(
                subject, content, key=key_bytes, headers=headers, message_class=message_class
            )
    return last


def named_queue(where: str, name: str) -> str:
    """Return the subject for the queues of a name.

    Raises:
        ConfigError: It is no name.
    """
    from mesh.model.names import name_fault
    from mesh.model.queues import queue_subject

    if (fault := name_fault(name)) is not None:
        raise wrong_input(where, f"queue {fault}")
    return queue_subject(name)


class Counted:
    """Lines, and how many of them were taken so far.

    Attributes:
        count: So many.
    """

    def __init__(self, lines: Iterable[bytes]) -> None:
        self._lines = lines
        self.count = 0

    def __iter__(self) -> Iterator[bytes]:
        for line in self._lines:
            self.count += 1
            yield line


def _lines() -> Iterator[bytes]:
    """Yield the lines of standard input without their ends, as they come."""
    if sys.stdin is None:
        raise wrong_input("PAYLOAD", "is missing, and standard input is closed; write the message")
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n").removesuffix(b"\r")
