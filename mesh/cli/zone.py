"""`mesh zone ...`: zones of a running mesh made and changed.

A change goes the way of `mesh plan` and `mesh apply`, from the topology in force instead of a
file. Spec: DESIGN 3, UM-8, UM-9, EMS-13, K28.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.change import ApplyOptions
from mesh.cli.options import (
    AllowDeleteOption,
    ChangeWaitOption,
    YesOption,
    ZoneArgument,
    checked_name,
)
from mesh.cli.render import Output, OutputOption
from mesh.cli.target import HERE, Target
from mesh.cli.written_links import WrittenLink, links_of, pairs_of
from mesh.cli.zone_edit import put_edited_in_force
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.changes.put_in_force import Edit

LinkOption = Annotated[
    list[str] | None, typer.Option("--link", metavar="A-B", help="A link; repeatable.")
]
MembersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="NODE...", callback=checked_name)
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")]


@dataclass(frozen=True, slots=True)
class ZoneOptions:
    """What all commands that change a zone take, as one parameter."""

    yes: YesOption = False
    dry_run: DryRunOption = False
    wait: ChangeWaitOption = None

    def put(
        self, edit: Edit, name: str, target: Target, output: Output, *, allow_delete: bool = False
    ) -> None:
        """Put an edit in force, or show its plan, as the command of this name."""
        how = ApplyOptions(
            name=name, yes=self.yes, allow_delete=allow_delete, wait=self.wait, output=output
        )
        put_edited_in_force(edit, how, target, dry_run=self.dry_run)


AS_USUAL = ZoneOptions()


def create(
    name: Annotated[
        str, typer.Argument(help="Name of the zone: its identity, which never changes.")
    ],
    kind: Annotated[
        str, typer.Option(help="cluster, one-hop, multi-hop, external or join; it never changes.")
    ],
    nodes: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Members, all linked to each other.")
    ] = None,
    links: Annotated[str | None, typer.Option(metavar="A-B,B-C", help="Links as listed.")] = None,
    title: Annotated[
        str, typer.Option(help="Title that people read; two zones may share one.")
    ] = "",
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Members are in no other zone, joins apart.")
    ] = False,
    direct_only: Annotated[
        bool,
        typer.Option(
            "--direct-only", help="Clusters only: guaranteed messages cross no link of it."
        ),
    ] = False,
    from_: Annotated[
        str | None, typer.Option("--from", help="Joins only: node that messages come from.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Joins only: node that they go to.")
    ] = None,
    filter_: Annotated[
        str | None,
        typer.Option("--filter", help="Joins only: filter of the messages that it takes."),
    ] = None,
    hops: Annotated[
        int | None,
        typer.Option(help="Joins only: how many further joins a message may cross in a row."),
    ] = None,
    asked: ZoneOptions = AS_USUAL,
    allow_delete: AllowDeleteOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a zone. Without --nodes and --links it has no members yet, and does nothing.

    Exit codes of this and all commands that change a zone: 0 in force, 2 refused and nothing
    changed, 10 not in time.
    """
    from mesh.config.zone_edits import refuse_impossible, with_zone

    said = {
        "kind": kind,
        "title": title or None,
        "exclusive": exclusive or None,
        "directOnly": direct_only or None,
        "from": from_,
        "to": to,
        "filter": filter_,
        "hops": hops,
        "nodes": None if nodes is None else _names_of(nodes),
    }
    zone = {key: value for key, value in said.items() if value is not None}
    refuse_impossible(name, zone)
    written = None if links is None else links_of("--links", links.split(","))

    def edit(before: Topology) -> Mapping[str, object]:
        if written is None:
            return with_zone(before, name, zone)
        pairs = pairs_of(before, "--links", written)
        return with_zone(before, name, {**zone, "links": [list(pair) for pair in pairs]})

    asked.put(edit, f"mesh zone create {name}", target, output, allow_delete=allow_delete)


def delete(
    zone: ZoneArgument,
    asked: ZoneOptions = AS_USUAL,
    allow_delete: AllowDeleteOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a zone; with its links and their topics only with --allow-delete."""
    from mesh.config.zone_edits import without_zone, zone_of

    def edit(before: Topology) -> Mapping[str, object]:
        links = len(zone_of(before, zone).links)
        if links and not (allow_delete or asked.dry_run):
            noun = "link" if links == 1 else "links"
            message = f"goes with {links} {noun} and their topics: give --allow-delete"
            raise wrong_input(f"zone {zone}", message, code="ALLOW_DELETE")
        return without_zone(before, zone)

    asked.put(edit, f"mesh zone delete {zone}", target, output, allow_delete=allow_delete)


def add(
    zone: ZoneArgument,
    nodes: MembersArgument = None,
    link: LinkOption = None,
    kind: Annotated[
        str | None, typer.Option(help="Create the zone, of this kind, if it does not exist.")
    ] = None,
    asked: ZoneOptions = AS_USUAL,
    allow_delete: AllowDeleteOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add nodes to a zone of nodes, each linked to all others, or links to a zone of links."""
    from mesh.config.zone_edits import refuse_impossible, with_links, with_nodes, with_zone

    links = links_of("--link", link or [])
    _one_of(nodes, links)
    if kind is not None:
        refuse_impossible(zone, {"kind": kind} if links else {"kind": kind, "nodes": nodes or []})

    def edit(before: Topology) -> Mapping[str, object]:
        pairs = pairs_of(before, "--link", links)
        if kind is not None and zone not in before.zones:
            what = {"links": [list(pair) for pair in pairs]} if pairs else {"nodes": nodes or []}
            return with_zone(before, zone, {"kind": kind, **what})
        if pairs:
            return with_links(before, zone, pairs)
        return with_nodes(before, zone, nodes or [])

    asked.put(edit, f"mesh zone add {zone}", target, output, allow_delete=allow_delete)


def remove(
    zone: ZoneArgument,
    nodes: MembersArgument = None,
    link: LinkOption = None,
    asked: ZoneOptions = AS_USUAL,
    allow_delete: AllowDeleteOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove nodes or links from a zone; one that has none left stays, and does nothing."""
    from mesh.config.zone_edits import without_links, without_nodes

    links = links_of("--link", link or [])
    _one_of(nodes, links)

    def edit(before: Topology) -> Mapping[str, object]:
        if links:
            return without_links(before, zone, pairs_of(before, "--link", links))
        return without_nodes(before, zone, nodes or [])

    asked.put(edit, f"mesh zone remove {zone}", target, output, allow_delete=allow_delete)


def rename(
    zone: ZoneArgument,
    title: Annotated[str, typer.Option(help="The new title.")],
    asked: ZoneOptions = AS_USUAL,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a zone another title. Its name is its identity and stays; no node pauses."""
    from mesh.config.zone_edits import refuse_impossible, retitled

    refuse_impossible(zone, {"kind": "one-hop", "title": title})
    name = f"mesh zone rename {zone}"
    asked.put(lambda before: retitled(before, zone, title), name, target, output)


def _one_of(nodes: Sequence[str] | None, links: Sequence[WrittenLink]) -> None:
    if bool(nodes) == bool(links):
        raise wrong_input("NODE", "name either nodes, or links with --link A-B")


def _names_of(text: str) -> list[str]:
    """Return the names of a list with commas; spaces around them do not count."""
    return [name for part in text.split(",") if (name := part.strip())]
