"""`mesh subscribe` and `mesh unsubscribe`. Spec: K13, K24."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.interrupt import interruptible
from mesh.cli.message_lines import print_message
from mesh.cli.problems import EXIT_NOT_WELL
from mesh.cli.publish import ClassOption, NodeOption, class_of, named_queue
from mesh.cli.render import Output, OutputOption, render, standard_output
from mesh.cli.session import running_mesh
from mesh.cli.target import HERE, Target, say
from mesh.config.nearest import check_node
from mesh.errors import wrong_input
from mesh.model.control import EndpointKind
from mesh.model.counted import counted, listed
from mesh.model.queues import QueuePolicy

if TYPE_CHECKING:
    from mesh.client import Deliveries, MeshClient
    from mesh.model.topology import Topology

LEASE_MAX_S = 2_147_483_647
_LOOK_S = 0.2

EndpointOption = Annotated[str, typer.Option("--endpoint", "-e", help="Name of the endpoint.")]
TimeoutOption = Annotated[float, typer.Option(min=0, help="Seconds until all nodes must know it.")]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until all nodes know.")]


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
    wait: WaitOption = True,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print messages as they arrive, until Ctrl-C.")
    ] = False,
    count: Annotated[
        int | None, typer.Option(min=1, help="Print that many messages and end.")
    ] = None,
    from_beginning: Annotated[
        bool, typer.Option(help="Print also what the endpoint holds already.")
    ] = False,
    timeout: TimeoutOption = 60.0,
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
    topology = running_mesh(target, near=node, is_look=False).topology
    check_node(topology, node, "--node")
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
        except OtherKindError as exc:
            raise wrong_input("subscribe", str(exc), code="OTHER_KIND") from exc
        except SubjectError as exc:
            raise wrong_input("subscribe", str(exc)) from exc
        prints = follow or count is not None
        data = {"node": node, "endpoint": endpoint, "filter": filter_, "version": version}
        code = _acknowledged(client, data, wait, timeout, output, is_last=not prints)
        if kind is EndpointKind.QUEUE and wait and (why := client.refusal(endpoint)):
            say(f"refused by {node}: {why}")
            code = EXIT_NOT_WELL
        elif prints:
            code = _follow(topology, stream, count, timeout, output) or code
    raise typer.Exit(code)


def unsubscribe(
    filter_: Annotated[str, typer.Argument(metavar="FILTER", help="As it was subscribed.")],
    node: NodeOption,
    endpoint: EndpointOption,
    wait: WaitOption = True,
    timeout: TimeoutOption = 60.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """End a subscription.

    Exit codes: 2 there is none; 10 ended, but not known everywhere in time.
    """
    from mesh.client import SubjectError, connect
    from mesh.model.subject import check_filter

    topology = running_mesh(target, near=node, is_look=False).topology
    check_node(topology, node, "--node")
    with connect(topology, node) as client:
        try:
            check_filter(filter_)
            _check_subscribed(client, node, endpoint, filter_)
            version = client.unsubscribe(endpoint, filter_)
        except SubjectError as exc:
            raise wrong_input("unsubscribe", str(exc)) from exc
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
        raise wrong_input("--policy", f"must be every, local, home or any, not {text[:60]!r}")
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
        except LaggardsError as exc:
            result["known_everywhere"] = False
            result["open_links"] = _arrows(exc.open_links)
            text += f", {exc}"
            code = EXIT_NOT_WELL
    if is_last:
        render(result, lambda: text, output)
    else:
        say(text)
    return code


def _arrows(links: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{source}->{target}" for source, target in links]


def _follow(
    topology: Topology, stream: Deliveries, count: int | None, timeout_s: float, output: Output
) -> int:
    """Print messages until enough came, silence lasted too long, or Ctrl-C."""
    printed = 0
    heard_s = time.monotonic()
    with interruptible() as is_interrupted:
        while not is_interrupted() and (count is None or printed < count):
            messages = stream.read(_LOOK_S)
            for loss in stream.losses:
                say(str(loss))
            stream.losses.clear()
            with standard_output():
                for message in messages[: None if count is None else count - printed]:
                    print_message(topology, message, output)
                    printed += 1
            if messages:
                heard_s = time.monotonic()
            elif count is not None and time.monotonic() - heard_s > timeout_s:
                say(f"{printed} of {count} messages came; nothing more for {timeout_s:g} s")
                return EXIT_NOT_WELL
        if is_interrupted():
            say(counted(printed, "message"))
    return EXIT_NOT_WELL if count is not None and printed < count else 0
