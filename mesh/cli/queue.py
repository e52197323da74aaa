"""`mesh queue list`, `show` and `consume`: queues, their members and their consumers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli.message_lines import LOOK_S, print_as_they_come
from mesh.cli.options import NodeOption
from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, grid, render, say, with_unknown
from mesh.cli.session import Heard, open_session, topology_at
from mesh.cli.target import HERE, Target
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.client import MeshClient, QueueConsumer, ReceivedMessage

QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="Its name.")]


def list_queues(
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List every queue: policy, home, members, consumers at each of them, and what waits."""
    from mesh.operate.documents.queues import queues_document

    with open_session(target, heard=Heard.NOBODY) as seen:
        data = queues_document(seen)
        nothing = "no queues where Kafka answers" if seen.view.unreachable else "no queues"
    rows = [
        (
            one["queue"],
            one["policy"],
            one["home"] or "-",
            ", ".join(
                f"{member['node']} ({_known(member['consumers'])})" for member in one["members"]
            ),
            one["consumers"],
            one["waiting"],
        )
        for one in data["queues"]
    ]
    columns = ("QUEUE", "POLICY", "HOME", "MEMBERS (CONSUMERS)", "CONSUMERS", "WAITING")
    table = lambda: with_unknown(grid(columns, rows, nothing), data["unknown"])  # noqa: E731
    render(data, table, output)


def show_queue(
    queue: QueueArgument,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show one queue, member by member, and where what waits was published."""
    from rich.console import Group

    from mesh.config.nearest import nearest
    from mesh.model.names import fold
    from mesh.operate.documents.queues import queue_document
    from mesh.operate.endpoints.queues import queue_statuses

    with open_session(target, heard=Heard.NOBODY) as seen:
        known = {fold(one.name): one for one in queue_statuses(seen)}
    if fold(queue) not in known:
        hint = nearest(queue, [one.name for one in known.values()]) or (
            "; there is none yet: `mesh subscribe FILTER --queue` makes one"
        )
        raise wrong_input("QUEUE", f"no queue is called {queue!r}{hint}", code="UNKNOWN_QUEUE")
    found = queue_document(known[fold(queue)])
    rows = [
        (
            member["node"],
            member["kind"] or "-",
            _known(member["consumers"]),
            member["movers"],
            f"{_known(member['waiting'])}{'' if member['is_counted'] else ' offsets'}",
            ", ".join(f"{node}: {count}" for node, count in member["origins"].items()) or "-",
            _known(member["dead_letters"]),
            " ".join(member["filters"]),
        )
        for member in found["members"]
    ]
    columns = ("NODE", "KIND", "CONSUMERS", "MOVERS", "WAITING", "FROM", "DEAD", "FILTERS")
    data = {"ok": True, **found}
    shown = Group(_summary(found), grid(columns, rows))
    render(data, lambda: with_unknown(shown, found["unknown"]), output)


def consume_queue(
    queue: QueueArgument,
    node: NodeOption,
    count: Annotated[
        int | None, typer.Option(min=1, help="Consume that many messages and end.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(min=0, help="With --count: end after this many seconds without a message."),
    ] = 60.0,
    most: Annotated[
        int | None,
        typer.Option(
            "--max-deliveries",
            min=1,
            help="Times a message is handed out before it is a dead letter (default: as declared).",
        ),
    ] = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print messages of a queue as one of its consumers; what was printed is acknowledged.

    Exit code 10: fewer messages than --count came.
    """
    from mesh.client import SubjectError, connect

    topology = topology_at(target, node)
    with connect(topology, node) as client:
        try:
            consumer = client.consume(queue, deliveries_max=most)
        except SubjectError as error:
            raise wrong_input("QUEUE", str(error)) from error
        _look_at(client, node, queue)
        is_enough = print_as_they_come(
            topology, partial(_acknowledged, consumer), count, timeout, output, consumer.close
        )
    raise typer.Exit(0 if is_enough else EXIT_NOT_WELL)


def _acknowledged(consumer: QueueConsumer, _most: int | None) -> Iterator[ReceivedMessage]:
    """Yield a message if one comes, and acknowledge it once it was printed."""
    messages = consumer.read(LOOK_S, 1)
    for told in (*consumer.skipped, *consumer.losses):
        say(str(told))
    consumer.skipped.clear()
    consumer.losses.clear()
    for one in messages:
        yield one.message
        consumer.ack(one)


def _look_at(client: MeshClient, node: str, queue: str) -> None:
    """Refuse what is no queue; say that nobody has subscribed one: it may come later."""
    from mesh.config.nearest import nearest
    from mesh.model.control import EndpointKind

    kinds = {endpoint: one.kind for (endpoint, _), one in client.subscribed().items()}
    if kinds.get(queue) is EndpointKind.CHANNEL:
        message = f"{queue} at {node} is a channel: read it by `mesh subscribe ... --follow`"
        raise wrong_input("QUEUE", message, code="NO_QUEUE")
    if queue not in kinds:
        queues = [name for name, kind in kinds.items() if kind is EndpointKind.QUEUE]
        hint = nearest(queue, queues)
        say(
            f"nobody has subscribed queue {queue} at {node} yet{hint}; waiting until somebody does "
            f"(`mesh subscribe FILTER -n {node} -e {queue} --queue`)"
        )


def _summary(found: Mapping[str, Any]) -> str:
    """Return `orders: policy home at ny1, declared; at most 5 deliveries, waits 7200 s`."""
    where = f" at {found['home']}" if found["home"] else ""
    said = "declared" if found["is_declared"] else "not declared"
    limits = [
        text
        for text, limit in (
            (f"at most {found['max_deliveries']} deliveries", found["max_deliveries"]),
            (f"kept {found['max_age_s'] or 0:g} s", found["max_age_s"]),
        )
        if limit is not None
    ]
    text = "; ".join([f"{found['queue']}: policy {found['policy']}{where}, {said}", *limits])
    if not found["members"] and not found["unknown"]:
        text += "; no node has it: mesh subscribe FILTER --queue has one make it"
    return text


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)
