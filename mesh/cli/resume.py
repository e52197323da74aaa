"""`mesh node resume`, and what `mesh link resume` shares: go on behind a loss. Spec: R6."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group

from mesh.cli.options import AcceptGapOption, NodeArgument, ResumeWaitOption
from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, grid, render
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.operate.links.stops import StoppedSource


def resume_node(
    node: NodeArgument,
    accept_gap: AcceptGapOption = False,
    wait: ResumeWaitOption = 30.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what was lost of what clients published at a node; with --accept-gap go on.

    Exit code 10: something is stopped, or did not go on in time.
    """
    from mesh.operate.links.stops import stops_at_ingress

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_node(seen.topology, node, "NODE")
        seen.refuse_unseen([node])
        found = stops_at_ingress(seen, node)
        code = resume_stopped(seen, f"ingress of {node}", found, accept_gap, wait, output)
    raise typer.Exit(code)


def resume_stopped(
    seen: CommandSession,
    what: str,
    found: Sequence[StoppedSource],
    accept_gap: bool,
    wait_s: float,
    output: Output,
    also: Mapping[str, Any] | None = None,
) -> int:
    """Show what is stopped; if its loss is accepted, have it go on and wait for that.

    Args:
        seen: The mesh.
        what: Says where, for people.
        found: What is stopped.
        accept_gap: Whether exactly that loss is accepted.
        wait_s: How long to wait until it reads on.
        output: How to show it.
        also: What else there is to tell to scripts.

    Returns:
        The exit code.
    """
    from mesh.operate.documents.status import stopped_document
    from mesh.operate.links.stops import accept, wait_resumed

    if accept_gap and not found:
        text = f"nothing is stopped on the {what}: nothing to accept; leave it out"
        raise wrong_input("--accept-gap", text)
    left = found
    if accept_gap:
        accept(seen, found)
        left = wait_resumed(seen, found, wait_s)
    data = {
        **(also or {}),
        "ok": not left,
        "stopped": [stopped_document(one) for one in left],
        "accepted": [stopped_document(one) for one in found if accept_gap and one not in left],
    }
    render(data, _table(what, found, left, accept_gap), output)
    return EXIT_NOT_WELL if left else 0


def _table(
    what: str, found: Sequence[StoppedSource], left: Sequence[StoppedSource], accept_gap: bool
) -> Callable[[], Any]:
    def table() -> Any:
        if not found:
            return f"nothing is stopped on the {what}"
        rows = [
            (
                one.node,
                one.stop.range,
                one.stop.reason,
                "stopped" if one in left else "accepted, reads on",
            )
            for one in found
        ]
        shown = grid(("NODE", "LOST", "REASON", "NOW"), rows)
        if left and not accept_gap:
            return Group(shown, "give --accept-gap to announce this loss and go on")
        return shown

    return table
