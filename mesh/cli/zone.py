"""`mesh zone ...`: zones of a running mesh made, changed and shown.

A change goes the way of `mesh plan` and `mesh apply`, from the topology in force instead of a
file. Spec: DESIGN 3, UM-8, UM-9, EMS-13, K28.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.faults import wrong_input
from mesh.cli.render import Output, OutputOption, View, render
from mesh.cli.session import Heard, open_session, running_mesh
from mesh.cli.target import HERE, Target, check_node
from mesh.cli.zone_change import ZoneOptions, put_edit_in_force
from mesh.cli.zone_tables import list_table, show_table
from mesh.cli.zone_words import names_of, pairs_of

if TYPE_CHECKING:
    from mesh.model.topology import Topology

ZoneArgument = Annotated[str, typer.Argument(metavar="ZONE", help="Its name, not its title.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")]
DeleteOption = Annotated[
    bool,
    typer.Option(
        "--allow-delete",
        help="Delete topics that nobody needs any more, with unread messages in them.",
    ),
]
WaitOption = Annotated[
    float | None,
    typer.Option(min=0, help="Seconds it may take, 60 if left out; waits for nodes too."),
]
LinkOption = Annotated[
    list[str] | None, typer.Option("--link", metavar="A-B", help="A link; repeatable.")
]


def create(
    name: Annotated[str, typer.Argument(help="Its identity; it never changes.")],
    kind: Annotated[
        str, typer.Option(help="cluster, one-hop, multi-hop, external or join; it never changes.")
    ],
    nodes: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Members, all linked to each other.")
    ] = None,
    links: Annotated[str | None, typer.Option(metavar="A-B,B-C", help="Links as listed.")] = None,
    title: Annotated[str, typer.Option(help="What people read; two zones may share one.")] = "",
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Members are in no other zone, joins apart.")
    ] = False,
    direct_only: Annotated[
        bool,
        typer.Option("--direct-only", help="Clusters: guaranteed messages stay off its links."),
    ] = False,
    from_: Annotated[
        str | None, typer.Option("--from", help="Of a join: where messages come from.")
    ] = None,
    to: Annotated[str | None, typer.Option("--to", help="Of a join: where they go.")] = None,
    filter_: Annotated[
        str | None, typer.Option("--filter", help="Of a join: which messages it takes.")
    ] = None,
    hops: Annotated[
        int | None, typer.Option(help="Of a join: how many joins may follow one another, less one.")
    ] = None,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
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
        "nodes": None if nodes is None else names_of(nodes),
    }
    zone = {key: value for key, value in said.items() if value is not None}
    refuse_impossible(name, zone)

    def edit(before: Topology) -> Mapping[str, object]:
        if links is None:
            return with_zone(before, name, zone)
        pairs = pairs_of(before, "--links", links.split(","))
        return with_zone(before, name, {**zone, "links": [list(pair) for pair in pairs]})

    asked = ZoneOptions(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait,
        target=target, output=output,
    )  # fmt: skip
    put_edit_in_force(f"zone create {name}", edit, asked)


def delete(
    zone: ZoneArgument,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a zone; with its links and their topics only with --allow-delete."""
    from mesh.config.zone_edits import without_zone, zone_of

    def edit(before: Topology) -> Mapping[str, object]:
        links = len(zone_of(before, zone).links)
        if links and not (allow_delete or dry_run):
            noun = "link" if links == 1 else "links"
            message = f"goes with {links} {noun} and their topics: give --allow-delete"
            raise wrong_input(f"zone {zone}", message, code="ALLOW_DELETE")
        return without_zone(before, zone)

    asked = ZoneOptions(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait,
        target=target, output=output,
    )  # fmt: skip
    put_edit_in_force(f"zone delete {zone}", edit, asked)


def add(
    zone: ZoneArgument,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE...")] = None,
    link: LinkOption = None,
    kind: Annotated[
        str | None, typer.Option(help="Make the zone, of this kind, if there is none.")
    ] = None,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add nodes to a zone of nodes, each linked to all others, or links to a zone of links."""
    from mesh.config.zone_edits import with_links, with_nodes, with_zone

    def edit(before: Topology) -> Mapping[str, object]:
        if kind is not None and zone not in before.zones:
            pairs = pairs_of(before, "--link", link or [])
            what = {"links": [list(pair) for pair in pairs]} if link else {"nodes": nodes or []}
            return with_zone(before, zone, {"kind": kind, **what})
        if link:
            return with_links(before, zone, pairs_of(before, "--link", link))
        return with_nodes(before, zone, nodes or [])

    _one_of(nodes, link)
    asked = ZoneOptions(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait,
        target=target, output=output,
    )  # fmt: skip
    put_edit_in_force(f"zone add {zone}", edit, asked)


def remove(
    zone: ZoneArgument,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE...")] = None,
    link: LinkOption = None,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove nodes or links from a zone; without any it stays, and does nothing."""
    from mesh.config.zone_edits import without_links, without_nodes

    def edit(before: Topology) -> Mapping[str, object]:
        if link:
            return without_links(before, zone, pairs_of(before, "--link", link))
        return without_nodes(before, zone, nodes or [])

    _one_of(nodes, link)
    asked = ZoneOptions(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait,
        target=target, output=output,
    )  # fmt: skip
    put_edit_in_force(f"zone remove {zone}", edit, asked)


def rename(
    zone: ZoneArgument,
    title: Annotated[str, typer.Option(help="What people read from now on.")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a zone another title. Its name is its identity and stays; nobody pauses."""
    from mesh.config.zone_edits import retitled

    asked = ZoneOptions(
        yes=yes, allow_delete=False, dry_run=dry_run, wait=wait,
        target=target, output=output,
    )  # fmt: skip
    put_edit_in_force(f"zone rename {zone}", lambda before: retitled(before, zone, title), asked)


def list_zones(
    node: Annotated[
        str | None,
        typer.Option("--node", "-n", help="Only the zones that this node belongs to."),
    ] = None,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the zones in force."""
    from mesh.operate.documents.zones import zone_document

    found = running_mesh(target).in_force()
    topology = found.topology
    if node is not None:
        check_node(topology, node, "--node")
    zones = [
        zone_document(topology, zone)
        for zone in topology.zones.values()
        if node is None or node in zone.nodes
    ]
    data = {"mesh": topology.name, "version": found.number, "zones": zones}
    render(View(data=data, table=lambda: list_table(zones)), output)


def show(
    zone: ZoneArgument,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a zone in force: its members, and each link as both its ends see it."""
    from mesh.config.zone_edits import zone_of
    from mesh.operate.documents.zones import ends_document, zone_document

    with open_session(target, heard=Heard.ANYBODY) as seen:
        found = seen.in_force()
        one = zone_of(found.topology, zone)
        states = [ends_document(seen.view, seen.beats, link) for link in one.links]
        data = {**zone_document(found.topology, one), "version": found.number, "states": states}
    render(View(data=data, table=lambda: show_table(data)), output)


def _one_of(nodes: list[str] | None, links: list[str] | None) -> None:
    if bool(nodes) == bool(links):
        raise wrong_input("NODE", "name either nodes, or links with --link A-B")
