"""`mesh link pause` and `mesh link resume`: have the messages of a link wait, and go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.cli.options import (
    AcceptGapOption,
    EndArgument,
    OtherEndArgument,
    ResumeWaitOption,
    WhyOption,
)
from mesh.cli.render import Output, OutputOption, grid, render, say
from mesh.cli.resume import resume_stopped
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.config.nearest import check_node, link_fault
from mesh.errors import wrong_input
from mesh.model.counted import numbered

if TYPE_CHECKING:
    from mesh.wire.keys import PauseKey

FromEndOption = Annotated[
    str | None, typer.Option("--from", metavar="NODE", help="Only what comes from this end.")
]
PartitionOption = Annotated[
    int | None, typer.Option(min=0, help="Only this partition of the outboxes.")
]


def pause_link(
    one: EndArgument,
    other: OtherEndArgument,
    source: FromEndOption = None,
    partition: PartitionOption = None,
    why: WhyOption = "",
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Let a link's messages wait where they are; interest and heartbeats go on.

    Direct messages wait too. Other links, and the lanes behind them, are not slowed. Each end is
    told on its own Kafka cluster, and where one does not answer nothing is changed: name the end
    whose messages wait by --from.
    """
    from mesh.model.control import Pause
    from mesh.operate.documents.status import pause_document
    from mesh.operate.links.pauses import keys_of, write_pauses

    check_ends(one, other, source)
    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_part(seen, one, other, source, partition)
        keys = keys_of(one, other, source=source, partition=partition)
        seen.refuse_unseen(key.node for key in keys)
        write_pauses(seen, keys, Pause(why))
    data = {"ok": True, "paused": [pause_document(key, why) for key in keys]}
    render(data, lambda: _table(keys), output)


def resume_link(
    one: EndArgument,
    other: OtherEndArgument,
    source: FromEndOption = None,
    partition: PartitionOption = None,
    accept_gap: AcceptGapOption = False,
    wait: ResumeWaitOption = 30.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """End the pauses of a link. Show what it has lost; with --accept-gap announce that and go on.

    Exit code 10: something is stopped, or did not go on in time.
    """
    from mesh.operate.documents.status import pause_document
    from mesh.operate.links.pauses import keys_of, pauses_on_link, write_pauses
    from mesh.operate.links.stops import stops_on_link

    check_ends(one, other, source)
    with open_session(target, heard=Heard.NOBODY, is_look=False) as seen:
        check_part(seen, one, other, source, partition)
        seen.refuse_unseen(key.node for key in keys_of(one, other, source=source))
        known = pauses_on_link(seen, one, other)
        paused = {
            key: pause
            for key, pause in known.items()
            if source in (None, key.neighbour) and partition in (None, key.partition)
        }
        write_pauses(seen, list(paused), None)
        for key in known:
            now = "no longer paused" if key in paused else "still paused"
            say(f"{key.neighbour} to {key.node}, partition {part_of(key)}: {now}")
        found = stops_on_link(seen, one, other, source=source, partition=partition)
        also = {"resumed": [pause_document(key, pause.why) for key, pause in paused.items()]}
        what = f"link {one} - {other}"
        code = resume_stopped(seen, what, found, accept_gap, wait, output, also)
    raise typer.Exit(code)


def check_ends(one: str, other: str, source: str | None = None) -> None:
    """Refuse what is no link in any topology, or no end of that link.

    Raises:
        ConfigError: With one line that says what to give instead.
    """
    if one == other:
        raise wrong_input("NODE", f"there is no link between {one} and itself; name both its ends")
    if source is not None and source not in (one, other):
        raise wrong_input("--from", f"{source} is not an end of this link; give {one} or {other}")


def check_part(
    seen: CommandSession, one: str, other: str, source: str | None, partition: int | None
) -> None:
    """Refuse ends without a link, and parts of a link that do not exist.

    Raises:
        ConfigError: With one line that says what to give instead.
    """
    for node in (one, other):
        check_node(seen.topology, node, "NODE")
    if (fault := link_fault((one, other), seen.topology)) is not None:
        raise wrong_input("NODE", fault)
    sources = (one, other) if source is None else (source,)
    count = max(seen.topology.nodes[node].partitions for node in sources)
    if partition is not None and partition >= count:
        raise wrong_input("--partition", f"the outboxes have {numbered(count, 'partition')}")


def _table(keys: Sequence[PauseKey]) -> Any:
    rows = [(key.neighbour, key.node, part_of(key)) for key in keys]
    return grid(("PAUSED FROM", "TO", "PARTITION"), rows)


def part_of(key: PauseKey) -> str:
    """Return the partition as people read it."""
    return "all" if key.partition is None else str(key.partition)
