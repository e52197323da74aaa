"""`mesh wait`: until every subscription is known everywhere, or who lags."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.render import Output, OutputOption, render_verdict
from mesh.cli.session import CommandSession, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def wait(
    node: Annotated[
        str | None, typer.Argument(help="Only the subscriptions of this node's clients.")
    ] = None,
    version: Annotated[
        int | None,
        typer.Option(min=0, help="The version that `mesh subscribe` printed; else the newest."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait.")] = 60.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Wait until every live node that can be reached knows every subscription.

    Nodes that are down and links that are disabled are named and not waited for. Exit code 10:
    not in time; who lags is named.
    """
    if version is not None and node is None:
        raise wrong_input("--version", "a version is of one node; give its name, mesh wait NODE")
    with open_session(target) as seen:
        nodes = seen.nodes_named(node, "NODE")
        down = [name for name in nodes if not seen.beats[name]]
        wanted = {
            name: seen.view.nodes[name].clients_offset if version is None else version
            for name in nodes
            if name not in down
        }
        late = _wait(seen, wanted, timeout)
        later = _later(seen, wanted)
    is_known = not late and bool(wanted)
    how_far = "known everywhere"
    if later:
        how_far = f"known to every node that can be reached; later over {', '.join(later)}"
    text = "\n".join(
        [
            *late,
            *(f"{name} is down: what its clients want is known when it is back" for name in down),
            *([how_far] if is_known else []),
        ]
    )
    data = {"ok": is_known, "versions": wanted, "laggards": late, "later": later, "down": down}
    render_verdict(data, lambda: text, output)


def _later(seen: CommandSession, wanted: Mapping[str, int]) -> Sequence[str]:
    """Return the links over which something is not known, because nothing is heard over them."""
    from mesh.view.laggards import open_links

    links = [
        link for node, offset in wanted.items() for link in open_links(seen.view, node, offset)[1]
    ]
    return [f"{source}->{target}" for source, target in dict.fromkeys(links)]


def _wait(seen: CommandSession, wanted: Mapping[str, int], timeout_s: float) -> Sequence[str]:
    """Return what is not settled when time is over; nothing once all is."""
    from mesh.operate.interest.propagation import laggards
    from mesh.view.laggards import is_excused

    def excused(source: str, reader: str) -> bool:
        ends = ((source, reader), (reader, source))
        return any(is_excused(seen.view, one, other) for one, other in ends) or not (
            seen.beats[source] and seen.beats[reader]
        )

    def late() -> Sequence[str]:
        return list(laggards(seen.topology, seen.view, wanted, {}, excused))

    def is_settled() -> bool:
        if late():
            seen.view.refresh()
        return not late()

    seen.time.wait_until(is_settled, timeout_s)
    return late()
