"""`mesh publish`: messages from the command line into a node's ingress. Spec: K7."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.render import Output, OutputOption, render
from mesh.cli.session import running_mesh
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node
from mesh.errors import wrong_input
from mesh.model.counted import counted

if TYPE_CHECKING:
    from mesh.client import MeshClient, Published
    from mesh.model.frames import MessageClass

NodeOption = Annotated[str, typer.Option("--node", "-n", help="The node next to you.")]
ClassOption = Annotated[str, typer.Option("--class", help="guaranteed or direct.")]


def publish(
    subject: Annotated[
        str,
        typer.Argument(help="Mesh address, as acme/orders/eu; with --queue, a queue's name."),
    ],
    node: NodeOption,
    payload: Annotated[
        str | None, typer.Argument(help="The message; else each line of standard input is one.")
    ] = None,
    class_: ClassOption = "guaranteed",
    key: Annotated[str | None, typer.Option(help="Messages of one key keep their order.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE, in order; repeatable.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How often to publish each message.")] = 1,
    queue: Annotated[
        bool, typer.Option("--queue", help="To the queues of that name, by `queue/NAME`.")
    ] = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Publish messages; ends when Kafka has acknowledged all of them."""
    from mesh.client import MeshError, SubjectError, connect
    from mesh.model.frames import MessageClass

    message_class = class_of(class_)
    subject = named_queue("SUBJECT", subject) if queue else subject
    headers = headers_of(header or [])
    topology = running_mesh(target, near=node, is_look=False).topology
    check_node(topology, node, "--node")
    with connect(topology, node) as client:
        if message_class is MessageClass.GUARANTEED and client.direct_only_zone is not None:
            typer.echo(
                f"guaranteed messages do not leave {node} over zone {client.direct_only_zone}, "
                "which is direct-only; publish with --class direct to reach its nodes",
                err=True,
            )
        lines = Counted(_lines() if payload is None else [os.fsencode(payload)])
        try:
            last = _publish_all(client, subject, lines, key, headers, message_class, count)
        except MeshError as exc:
            # What stands before it is sent all the same.
            text = f"{exc}; accepted before: {client.flush()}"
            text += f"; refused: line {lines.count}" if payload is None else ""
            if isinstance(exc, SubjectError):
                raise wrong_input("publish", text) from exc
            exc.args = (text,)
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


def class_of(text: str) -> MessageClass:
    """Return the class that an option names.

    Raises:
        ConfigError: It is not one.
    """
    from mesh.model.frames import MessageClass

    known = [str(one) for one in MessageClass]
    if text not in known:
        raise wrong_input(f"--class {text}", f"write {' or '.join(known)}")
    return MessageClass(text)


def headers_of(options: list[str]) -> list[tuple[str, bytes]]:
    """Return the headers that `NAME=VALUE` options name, in order.

    Raises:
        ConfigError: One has another form.
    """
    found: list[tuple[str, bytes]] = []
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise wrong_input(f"--header {option}", "write NAME=VALUE")
        if not name.isprintable():
            raise wrong_input(f"--header {option}", "the name is not UTF-8 or cannot be printed")
        found.append((name, os.fsencode(value)))
    return found


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
