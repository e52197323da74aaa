"""`mesh link disable`, `mesh node disable` and their ends: links taken out of use. Spec: DMR-10."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from mesh.cli.link import check_ends, check_part
from mesh.cli.options import EndArgument, NodeArgument, OtherEndArgument, WhyOption
from mesh.cli.problems import EXIT_COULD_NOT_RUN
from mesh.cli.render import EXIT_NOT_WELL, Output, OutputOption, grid, render, say
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node

if TYPE_CHECKING:
    from mesh.wire.keys import DisableKey

Ends = Sequence["DisableKey"]


def disable_link(
    one: EndArgument,
    other: OtherEndArgument,
    why: WhyOption = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take a link out of use at both ends: nothing crosses it, no interest and no heartbeat.

    Guaranteed messages are queued by what the other end wanted last; direct ones are discarded
    and counted. Exit code 1: one end could not be told; repeat the command.
    """
    check_ends(one, other)
    _tell(target, lambda seen: _ends_of_link(seen, one, other), why, output)


def enable_link(
    one: EndArgument,
    other: OtherEndArgument,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Put a disabled link into use again: interest is proven, then what waits is read in order.

    Exit code 1: one end could not be told; repeat the command.
    """
    check_ends(one, other)
    _tell(target, lambda seen: _ends_of_link(seen, one, other), None, output)


def disable_node(
    node: NodeArgument,
    why: WhyOption = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Disable all links of a node, unless guaranteed messages wait on them.

    Exit code 10: some wait, or it cannot be seen whether; nothing is disabled. Exit code 1: an end
    could not be told; repeat the command.
    """

    def ends(seen: CommandSession) -> Ends:
        found = _ends_of_node(seen, node)
        _refuse_waiting(seen, node, output)
        return found

    _tell(target, ends, why, output)


def enable_node(
    node: NodeArgument,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Enable all links of a node again.

    Exit code 1: an end could not be told; repeat the command.
    """
    _tell(target, lambda seen: _ends_of_node(seen, node), None, output)


def _tell(
    target: Target, ends_in: Callable[[CommandSession], Ends], why: str | None, output: Output
) -> NoReturn:
    """Have ends of links disable them, or without a reason enable them, and end the command."""
    from mesh.model.control import Pause
    from mesh.view.disabling import write_disabled

    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        ends = ends_in(seen)
        pause = None if why is None else Pause(why)
        failed = write_disabled(seen.topology, seen.kafka, ends, pause, seen.view.unreachable)
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
    render({"ok": not failed, word: listed}, lambda: grid(names, rows), output)
    for key, fault in failed.items():
        say(f"{key.node} could not be told: {fault}; repeat the command when its Kafka answers")
    raise typer.Exit(EXIT_COULD_NOT_RUN if failed else 0)


def _ends_of_link(seen: CommandSession, one: str, other: str) -> Ends:
    from mesh.view.disabling import ends_of

    check_part(seen, one, other, None, None)
    return ends_of(one, other)


def _ends_of_node(seen: CommandSession, node: str) -> Ends:
    from mesh.view.disabling import ends_of

    check_node(seen.topology, node, "NODE")
    return [end for other in seen.topology.neighbours(node) for end in ends_of(node, other)]


def _refuse_waiting(seen: CommandSession, node: str, output: Output) -> None:
    """End the command if guaranteed messages wait on links of a node, and show where."""
    waiting = _waiting(seen, node)
    if not waiting:
        return
    rows = [tuple(one.values()) for one in waiting]
    names = ("LINK", "TOPIC", "FRAMES WAITING", "MESSAGES WAITING")
    data = {"ok": False, "disabled": [], "waiting": waiting}
    render(data, lambda: grid(names, rows), output)
    say(
        f"refused: guaranteed messages wait on links of {node}, or it cannot be seen whether any "
        "do; let them be read first, or disable single links by `mesh link disable`: then they "
        "wait there"
    )
    raise typer.Exit(EXIT_NOT_WELL)


def _waiting(seen: CommandSession, node: str) -> Sequence[dict[str, Any]]:
    """Return the outboxes of a node's links in which guaranteed messages wait, or may wait."""
    from mesh.model.frames import MessageClass
    from mesh.operate.links.flows import outbox_backlogs

    backlogs = outbox_backlogs(seen)
    found: list[dict[str, Any]] = []
    for other in seen.topology.neighbours(node):
        if seen.view.is_to_be_disabled(node, other):
            continue  # it waits there already; a command that is repeated goes on
        for source, target in ((node, other), (other, node)):
            topic = seen.topology.names.outbox(source, target, MessageClass.GUARANTEED)
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
