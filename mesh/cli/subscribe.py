"""`mesh subscribe` and `mesh unsubscribe`. Spec: K13, K24."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.message_lines import LOOK_S, print_as_they_come
from mesh.cli.options import (
    ClassOption,
    CountOption,
    NodeOption,
    checked_filter,
    checked_name,
    class_of,
)
from mesh.cli.publish import named_queue
from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, render, say
from mesh.cli.session import topology_at
from mesh.cli.target import HERE, Target
from mesh.errors import wrong_input
from mesh.model.control import EndpointKind
from mesh.model.counted import listed
from mesh.model.queues import QueuePolicy

if TYPE_CHECKING:
    from mesh.client import Deliveries, MeshClient, ReceivedMessage

LEASE_MAX_S = 2_147_483_647

EndpointOption = Annotated[
    str, typer.Option("--endpoint", "-e", help="Name of the endpoint.", callback=checked_name)
]
KnownTimeoutOption = Annotated[
    float, typer.Option(min=0, help="Seconds to wait until every node knows it.")
]
KnownWaitOption = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until all nodes know.")
]


def subscribe(
    node: NodeOption,
    endpoint: EndpointOption,
    filter_: Annotated[
        str | None,
        typer.Argument(
            metavar="FILTER",
            help="As in 'acme/>'; a queue without one gets what is published by its name.",
        ),
    ] = None,
    class_: ClassOption = "guaranteed",
    wait: KnownWaitOption = True,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print messages as they arrive, until Ctrl-C.")
    ] = False,
    count: CountOption = None,
    from_beginning: Annotated[
        bool, typer.Option(help="Print also what the endpoint holds already.")
    ] = False,
    timeout: KnownTimeoutOption = 60.0,
    lease: Annotated[
        int | None,
        typer.Option(min=1, max=LEASE_MAX_S, help="Seconds after which the subscription ends."),
    ] = None,
    noexport: Annotated[
        bool,
        typer.Option(
            "--noexport", help="Attract nothing from other nodes; get what comes to this one."
        ),
    ] = False,
    queue: Annotated[bool, typer.Option("--queue", help="The endpoint is a queue.")] = False,
    policy: Annotated[
        str | None, typer.Option(help="Of a queue: every, local, home or any.")
    ] = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Subscribe an endpoint to a filter; with --follow or --count print what arrives.

    Exit code 10: subscribed, but not known everywhere in time, or refused by the node because of
    what else is said of the queue; or fewer messages than --count.
    With --count, --timeout also ends a silence of that many seconds.
    """
    from mesh.client import OtherKindError, SubjectError, connect

    message_class, asked = class_of(class_), _policy_of(policy)
    kind = EndpointKind.QUEUE if queue or asked is not None else EndpointKind.CHANNEL
    if filter_ is None:
        if kind is EndpointKind.CHANNEL:
            raise wrong_input("FILTER", "is missing: write what the endpoint wants, as in 'acme/>'")
        filter_ = named_queue("--endpoint", endpoint)
    checked_filter(filter_)
    topology = topology_at(target, node)
    code = 0
    with connect(topology, node) as client:
        try:
            stream = client.deliveries(endpoint, from_beginning=from_beginning)
            version = client.subscribe(
                endpoint,
                filter_,
                message_class=message_class,
                lease_s=lease,
                noexport=noexport,
                kind=kind,
                policy=asked,
            )
        except OtherKindError as error:
            raise wrong_input("subscribe", str(error), code="OTHER_KIND") from error
        except SubjectError as error:
            raise wrong_input("subscribe", str(error)) from error
        prints = follow or count is not None
        data = {"node": node, "endpoint": endpoint, "filter": filter_, "version": version}
        code = _acknowledged(client, data, wait, timeout, output, is_last=not prints)
        if kind is EndpointKind.QUEUE and wait and (why := client.refusal(endpoint)):
            say(f"refused by {node}: {why}")
            code = EXIT_NOT_WELL
        elif prints and not print_as_they_come(
            topology, partial(_read, stream), count, timeout, output
        ):
            code = EXIT_NOT_WELL
    raise typer.Exit(code)


def unsubscribe(
    filter_: Annotated[
        str, typer.Argument(metavar="FILTER", help="The filter, exactly as it was subscribed.")
    ],
    node: NodeOption,
    endpoint: EndpointOption,
    wait: KnownWaitOption = True,
    timeout: KnownTimeoutOption = 60.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """End a subscription.

    Exit codes: 2 there is none; 10 ended, but not known everywhere in time.
    """
    from mesh.client import SubjectError, connect

    checked_filter(filter_)
    topology = topology_at(target, node)
    with connect(topology, node) as client:
        try:
            _check_subscribed(client, node, endpoint, filter_)
            version = client.unsubscribe(endpoint, filter_)
        except SubjectError as error:
            raise wrong_input("unsubscribe", str(error)) from error
        data = {"node": node, "endpoint": endpoint, "filter": filter_, "version": version}
        code = _acknowledged(client, data, wait, timeout, output, is_last=True)
    raise typer.Exit(code)


def _check_subscribed(client: MeshClient, node: str, endpoint: str, filter_: str) -> None:
    """Refuse to end what is not there: a slip of the pen would look like success."""
    found = client.subscribed()
    if (endpoint, filter_) in found:
        return
    filters = [one for name, one in found if name == endpoint]
    names = sorted({name: None for name, _ in found})
    if filters:
        known = f"{endpoint} at {node} is subscribed to {listed(filters, 5)}"
    else:
        known = f"{node} has no endpoint {endpoint}"
        known += f"; known there: {', '.join(names[:5])}" if names else ", nor any other"
    raise wrong_input(
        "unsubscribe",
        f"{endpoint} at {node} is not subscribed to {filter_}, nothing was changed: {known}",
        code="NOT_SUBSCRIBED",
    )


def _policy_of(text: str | None) -> QueuePolicy | None:
    if text is None:
        return None
    if text not in set(QueuePolicy):
        raise wrong_input("--policy", f"must be one of {', '.join(QueuePolicy)}, not {text[:60]!r}")
    return QueuePolicy(text)


def _acknowledged(
    client: MeshClient,
    data: Mapping[str, object],
    wait: bool,
    timeout_s: float,
    output: Output,
    *,
    is_last: bool,
) -> int:
    """Wait for a version and print how that went; return the exit code.

    What follows on standard output are messages, so then the telling goes to standard error.
    """
    from mesh.client import LaggardsError

    result: dict[str, object] = {**data, "known_everywhere": None, "open_links": []}
    text = f"version {data['version']} of {data['node']}: {data['endpoint']} {data['filter']}"
    code = 0
    if wait:
        try:
            down = client.wait(int(str(data["version"])), timeout_s)
            result["known_everywhere"] = not down
            result["open_links"] = _arrows(down)
            later = f", known to every node that is up; later over {', '.join(_arrows(down))}"
            text += later if down else ", known everywhere"
        except LaggardsError as error:
            result["known_everywhere"] = False
            result["open_links"] = _arrows(error.open_links)
            text += f", {error}"
            code = EXIT_NOT_WELL
    if is_last:
        render(result, lambda: text, output)
    else:
        say(text)
    return code


def _arrows(links: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{source}->{target}" for source, target in links]


def _read(stream: Deliveries, most: int | None) -> Sequence[ReceivedMessage]:
    messages = stream.read(LOOK_S)
    for loss in stream.losses:
        say(str(loss))
    stream.losses.clear()
    return messages[:most]
