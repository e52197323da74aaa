"""`mesh link disable`, `mesh node disable` and their ends: links taken out of use. Spec: DMR-10."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli.link import WhyOption, check_part
from mesh.cli.problems import EXIT_COULD_NOT_RUN, EXIT_NOT_WELL
from mesh.cli.render import Output, OutputOption, grid, render
from mesh.cli.session import Heard, Session, open_session
from mesh.cli.target import HERE, Target, say
from mesh.config.nearest import check_node

if TYPE_CHECKING:
    from mesh.model.control import Pause
    from mesh.wire.keys import DisableKey


def disable_link(
    one: Annotated[str, typer.Argument(metavar="NODE", help="One end of the link.")],
    other: Annotated[str, typer.Argument(metavar="NODE", help="The other end.")],
    why: WhyOption = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take a link out of use at both ends: nothing crosses it, no interest and no heartbeat.

    Guaranteed messages are queued by what the other end wanted last; direct ones are discarded
    and counted. Exit code 1: one end could not be told; repeat the command.
    """
    from mesh.model.control import Pause
    from mesh.view.disabling import ends_of

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_part(seen, one, other, None, None)
        code = tell_ends(seen, ends_of(one, other), Pause(why), output)
    raise typer.Exit(code)


def enable_link(
    one: Annotated[str, typer.Argument(metavar="NODE", help="One end of the link.")],
    other: Annotated[str, typer.Argument(metavar="NODE", help="The other end.")],
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put a disabled link into use again: interest is proven, then what waits is read in order.

    Exit code 1: one end could not be told; repeat the command.
    """
    from mesh.view.disabling import ends_of

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_part(seen, one, other, None, None)
        code = tell_ends(seen, ends_of(one, other), None, output)
    raise typer.Exit(code)


def tell_ends(seen: Session, ends: Sequence[DisableKey], why: Pause | None, output: Output) -> int:
    """Let the ends of links disable them, or with None enable them; return the exit code."""
    from mesh.view.disabling import write_disabled

    failed = write_disabled(seen.topology, seen.kafka, ends, why, seen.view.unreachable)
    word = "enabled" if why is None else "disabled"
    listed = [
        {
            "node": key.node,
            "neighbour": key.neighbour,
            "state": "not told" if key in failed else word,
            "fault": failed.get(key, ""),
        }
        for key in ends
    ]
    rows = [tuple(one.values()) for one in listed]
    names = ("NODE", "NEIGHBOUR", "STATE", "FAULT")
    data = {"ok": not failed, word: listed}
    render(data, lambda: grid(names, rows), output)
    for key, fault in failed.items():
        say(f"{key.node} could not be told: {fault}; repeat the command when its Kafka answers")
    return EXIT_COULD_NOT_RUN if failed else 0


def disable_node(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")],
    why: WhyOption = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Disable all links of a node, unless guaranteed messages wait on them.

    Exit code 10: some wait, or it cannot be seen whether; nothing is disabled. Exit code 1: an end
    could not be told; repeat the command.
    """
    from mesh.model.control import Pause

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_node(seen.topology, node, "NODE")
        waiting = _waiting(seen, node)
        if waiting:
            rows = [tuple("?" if v is None else v for v in one.values()) for one in waiting]
            names = ("LINK", "TOPIC", "FRAMES WAITING", "MESSAGES WAITING")
            data = {"ok": False, "disabled": [], "waiting": waiting}
            render(data, lambda: grid(names, rows), output)
            say(
                f"refused: guaranteed messages wait on links of {node}, or it cannot be seen "
                "whether any do; let them be read first, or disable single links by `mesh link "
                "disable`: then they wait there"
            )
            raise typer.Exit(EXIT_NOT_WELL)
        code = tell_ends(seen, _ends(seen, node), Pause(why), output)
    raise typer.Exit(code)


def enable_node(
    node: Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")],
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Enable all links of a node again.

    Exit code 1: an end could not be told; repeat the command.
    """
    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_node(seen.topology, node, "NODE")
        code = tell_ends(seen, _ends(seen, node), None, output)
    raise typer.Exit(code)


def _ends(seen: Session, node: str) -> Sequence[DisableKey]:
    from mesh.view.disabling import ends_of

    return [end for other in seen.topology.neighbours(node) for end in ends_of(node, other)]


def _waiting(seen: Session, node: str) -> Sequence[dict[str, Any]]:
    """Return the outboxes of a node's links in which guaranteed messages wait, or may wait."""
    from mesh.model.frames import MessageClass
    from mesh.model.topics import TopicNames
    from mesh.operate.links.flows import outbox_backlogs

    names = TopicNames(seen.topology.prefix)
    backlogs = outbox_backlogs(seen.topology, seen.view, seen.kafka)
    found: list[dict[str, Any]] = []
    for other in seen.topology.neighbours(node):
        if seen.view.is_to_be_disabled(node, other):
            continue  # it waits there already; a command that is repeated goes on
        for source, target in ((node, other), (other, node)):
            topic = names.outbox(source, target, MessageClass.GUARANTEED)
            backlog = backlogs.get(topic)
            is_known = not seen.view.is_unreachable(source)
            if not seen.topology.sends(source, target) or (
                is_known and (backlog is None or not backlog.frames)
            ):
                continue
            found.append(
                {
                    "link": f"{source}->{target}",
                    "topic": topic,
                    "frames": None if backlog is None else backlog.frames,
                    "messages": None if backlog is None else backlog.messages,
                }
            )
    return found
