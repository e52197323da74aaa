"""`mesh subject pause`, `resume` and `list`: have messages of some subjects wait at a node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from mesh.cli.options import OnlyNodeOption, WhyOption, checked_filter, checked_name
from mesh.cli.render import Output, OutputOption, grid, render, say, with_unknown
from mesh.cli.session import Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node
from mesh.errors import wrong_input

FilterArgument = Annotated[
    str,
    typer.Argument(
        metavar="FILTER",
        help="Filter of the subjects, as in a subscription.",
        callback=checked_filter,
    ),
]
PublishedAtOption = Annotated[
    str,
    typer.Option("--node", "-n", help="Node where they are published.", callback=checked_name),
]


def pause_subject(
    filter_: FilterArgument,
    node: PublishedAtOption,
    why: WhyOption = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a node take nothing published there under a filter, of either class.

    Clients of the mesh are refused. What others write waits in the ingress, and with it all that
    was written after it to the same partition, whatever its subject: so order is kept.
    """
    from mesh.model.control import Pause
    from mesh.operate.documents.status import subject_pause_document
    from mesh.operate.links.pauses import write_pauses
    from mesh.wire.keys import SubjectPauseKey

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_node(seen.topology, node, "--node")
        seen.refuse_unseen([node])
        write_pauses(seen, [SubjectPauseKey(node, filter_)], Pause(why))
    _show([subject_pause_document(node, filter_, why)], "paused", output)


def resume_subject(
    filter_: FilterArgument,
    node: PublishedAtOption,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """End the pause of exactly this filter; what waited is taken in order."""
    from mesh.operate.documents.status import subject_pause_document
    from mesh.operate.links.pauses import write_pauses
    from mesh.wire.keys import SubjectPauseKey

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_node(seen.topology, node, "--node")
        seen.refuse_unseen([node])
        paused = seen.view.nodes[node].subject_pauses
        if filter_ not in paused:
            known = ", ".join(map(repr, sorted(paused))) or "nothing"
            raise wrong_input("FILTER", f"{filter_!r} is not paused at {node}; paused: {known}")
        write_pauses(seen, [SubjectPauseKey(node, filter_)], None)
        for other in sorted(paused.keys() - {filter_}):
            say(f"{other} at {node}: still paused")
    _show([subject_pause_document(node, filter_, paused[filter_].why)], "resumed", output)


def list_subjects(
    node: OnlyNodeOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what is paused, and where."""
    from mesh.operate.documents.status import subject_pause_document

    with open_session(target, heard=Heard.NOBODY) as seen:
        nodes = seen.nodes_named(node, "--node")
        found = [
            subject_pause_document(name, filter_, pause.why)
            for name in nodes
            for filter_, pause in sorted(seen.view.nodes[name].subject_pauses.items())
        ]
        unknown = [name for name in nodes if seen.view.is_unreachable(name)]
    _show(found, "paused", output, unknown)


def _show(
    found: list[dict[str, Any]], word: str, output: Output, unknown: Sequence[str] | None = None
) -> None:
    rows = [tuple(one.values()) for one in found]
    columns = (f"{word.upper()} AT", "FILTER", "WHY")
    data: dict[str, Any] = {"ok": True, word: found}
    if unknown is not None:
        data["unknown"] = list(unknown)
    shown = grid(columns, rows, "no subject is paused")
    render(data, lambda: with_unknown(shown, unknown or ()), output)
