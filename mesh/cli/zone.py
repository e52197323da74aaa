"""`mesh zone ...`: zones of a running mesh made, changed and shown.

A change goes the way of `mesh plan` and `mesh apply`, from the topology in force instead of a
file. Spec: DESIGN 3, UM-8, UM-9, EMS-13, K28.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.apply import How, put_in_force, read_begun_last
from mesh.cli.faults import wrong_input
from mesh.cli.in_force import in_force_of, look_in_force
from mesh.cli.plan import against_mesh, plan_view
from mesh.cli.render import Output, OutputOption, View, render
from mesh.cli.target import BootstrapOption, ContextOption, FileOption, check_node
from mesh.cli.zone_tables import list_table, show_table, states_of, zone_as_mapping
from mesh.cli.zone_words import names_of, pairs_of

if TYPE_CHECKING:
    from mesh.cli.looking import Look
    from mesh.client.apply import Begun
    from mesh.client.in_force import InForce
    from mesh.config.located import KeyPath
    from mesh.errors import Problem
    from mesh.model.topology import Topology

Edit = Callable[["Topology"], Mapping[str, object]]
"""The topology in force -> the spec that is wanted instead."""

app = typer.Typer(help="Make, change and show zones.", no_args_is_help=True, rich_markup_mode=None)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What every changing command is asked for."""

    yes: bool
    allow_delete: bool
    dry_run: bool
    wait: float | None
    file: Path | None
    bootstrap: list[str] | None
    context: str | None
    output: Output


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Its identity, for good.")],
    kind: Annotated[
        str, typer.Option(help="cluster, one-hop, multi-hop, external or join; for good.")
    ],
    nodes: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Members, all linked to each other.")
    ] = None,
    links: Annotated[str | None, typer.Option(metavar="A-B,B-C", help="Links as listed.")] = None,
    title: Annotated[str, typer.Option(help="What people read; two zones may share one.")] = "",
    exclusive: Annotated[
        bool, typer.Option("--exclusive", help="Members are in no other zone, joins apart.")
    ] = False,
    from_: Annotated[str | None, typer.Option("--from", help="Of a join.")] = None,
    to: Annotated[str | None, typer.Option("--to", help="Of a join.")] = None,
    filter_: Annotated[str | None, typer.Option("--filter", help="Of a join.")] = None,
    hops: Annotated[int | None, typer.Option(help="Of a join: longest row, less one.")] = None,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a zone. Without --nodes and --links it has no members yet, and does nothing.

    Exit codes of this and all commands that change a zone: 0 in force, 2 refused and nothing
    changed, 10 not in time.
    """
    from mesh.config.zone_edits import with_zone

    said = {
        "kind": kind,
        "title": title or None,
        "exclusive": exclusive or None,
        "from": from_,
        "to": to,
        "filter": filter_,
        "hops": hops,
        "nodes": None if nodes is None else names_of(nodes),
    }
    zone = {key: value for key, value in said.items() if value is not None}

    def edit(before: Topology) -> Mapping[str, object]:
        if links is None:
            return with_zone(before, name, zone)
        pairs = pairs_of(before, "--links", links.split(","))
        return with_zone(before, name, {**zone, "links": [list(pair) for pair in pairs]})

    asked = Asked(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait, file=file,
        bootstrap=bootstrap, context=context, output=output,
    )  # fmt: skip
    _change(f"zone create {name}", edit, asked)


@app.command("delete")
def delete(
    zone: ZoneArgument,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete a zone with its links and their topics: only with --allow-delete."""
    from mesh.config.zone_edits import without_zone, zone_of

    def edit(before: Topology) -> Mapping[str, object]:
        links = len(zone_of(before, zone).links)
        if not (allow_delete or dry_run):
            noun = "link" if links == 1 else "links"
            message = f"goes with {links} {noun} and their topics: give --allow-delete"
            raise wrong_input(f"zone {zone}", message, code="ALLOW_DELETE")
        return without_zone(before, zone)

    asked = Asked(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait, file=file,
        bootstrap=bootstrap, context=context, output=output,
    )  # fmt: skip
    _change(f"zone delete {zone}", edit, asked)


@app.command("add")
def add(
    zone: ZoneArgument,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE...")] = None,
    link: LinkOption = None,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add nodes to a zone of nodes, each linked to all others, or links to a zone of links."""
    from mesh.config.zone_edits import with_links, with_nodes

    def edit(before: Topology) -> Mapping[str, object]:
        if link:
            return with_links(before, zone, pairs_of(before, "--link", link))
        return with_nodes(before, zone, nodes or [])

    _one_of(nodes, link)
    asked = Asked(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait, file=file,
        bootstrap=bootstrap, context=context, output=output,
    )  # fmt: skip
    _change(f"zone add {zone}", edit, asked)


@app.command("remove")
def remove(
    zone: ZoneArgument,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE...")] = None,
    link: LinkOption = None,
    yes: YesOption = False,
    allow_delete: DeleteOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove nodes or links from a zone; without any it stays, and does nothing."""
    from mesh.config.zone_edits import without_links, without_nodes

    def edit(before: Topology) -> Mapping[str, object]:
        if link:
            return without_links(before, zone, pairs_of(before, "--link", link))
        return without_nodes(before, zone, nodes or [])

    _one_of(nodes, link)
    asked = Asked(
        yes=yes, allow_delete=allow_delete, dry_run=dry_run, wait=wait, file=file,
        bootstrap=bootstrap, context=context, output=output,
    )  # fmt: skip
    _change(f"zone remove {zone}", edit, asked)


@app.command("rename")
def rename(
    zone: ZoneArgument,
    title: Annotated[str, typer.Option(help="What people read from now on.")],
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    wait: WaitOption = None,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a zone another title. Its name is its identity and stays; nobody pauses."""
    from mesh.config.zone_edits import retitled

    asked = Asked(
        yes=yes, allow_delete=False, dry_run=dry_run, wait=wait, file=file,
        bootstrap=bootstrap, context=context, output=output,
    )  # fmt: skip
    _change(f"zone rename {zone}", lambda before: retitled(before, zone, title), asked)


@app.command("list")
def list_zones(
    node: Annotated[
        str | None, typer.Option(help="Only the zones that this node belongs to.")
    ] = None,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the zones in force."""
    found, _ = in_force_of(file, bootstrap, context)
    topology = found.topology
    if node is not None:
        check_node(topology, node, "--node")
    zones = [
        zone_as_mapping(topology, zone)
        for zone in topology.zones.values()
        if node is None or node in zone.nodes
    ]
    data = {"mesh": topology.name, "version": found.number, "zones": zones}
    render(View(data=data, table=lambda: list_table(zones)), output)


@app.command("show")
def show(
    zone: ZoneArgument,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a zone in force: its members, and each link as both its ends see it."""
    from mesh.config.zone_edits import zone_of

    with look_in_force(file, bootstrap, context) as (found, seen):
        one = zone_of(found.topology, zone)
        states = [states_of(seen.view, seen.beats, link) for link in one.links]
        data = {**zone_as_mapping(found.topology, one), "version": found.number, "states": states}
    render(View(data=data, table=lambda: show_table(data)), output)


def _one_of(nodes: list[str] | None, links: list[str] | None) -> None:
    if bool(nodes) == bool(links):
        raise wrong_input("NODE", "name either nodes, or links with --link A-B")


def _change(command: str, edit: Edit, asked: Asked) -> None:
    """Put the edited topology in force, or show the plan of it."""
    with look_in_force(asked.file, asked.bootstrap, asked.context) as (found, seen):
        begun = read_begun_last(found, seen)
        after = _wanted(found, begun, edit, asked.output)
        if asked.dry_run:
            _show_plan(found, seen, after, command, asked)
            return
        how = How(
            name=f"mesh {command}",
            yes=asked.yes,
            allow_delete=asked.allow_delete,
            wait=asked.wait,
            output=asked.output,
        )
        put_in_force(found, seen, after, begun, _where, how)


def _wanted(found: InForce, begun: Begun | None, edit: Edit, output: Output) -> Topology:
    """Return the legal topology that an edit leads to.

    A change that was left when some Kafka clusters had it in force already is gone on with by the
    same command, although what it wants is there by now.

    Raises:
        ConfigError: The edit cannot be made, or leads to none that is legal.
    """
    from mesh.config.legal import legal_topology_from
    from mesh.config.published import published_text
    from mesh.errors import ConfigError

    before = found.topology
    try:
        return legal_topology_from(edit(before), _where, name=before.name)
    except ConfigError as error:
        if begun is None or not begun.is_open or begun.change.topology != published_text(before):
            raise ConfigError(_in_one_line(error.problems, output)) from error
        return before


def _in_one_line(problems: Sequence[Problem], output: Output) -> Sequence[Problem]:
    """Return the first of several loops for people: one edit of one zone ends them all."""
    from mesh.core.legality import ILLEGAL

    loops = sum(problem.code == ILLEGAL for problem in problems)
    if output is not Output.TABLE or loops < max(2, len(problems)):
        return problems
    message = f"{problems[0].message}, which ends {loops - 1} more such loops"
    return [replace(problems[0], message=message)]


def _show_plan(found: InForce, seen: Look, after: Topology, command: str, asked: Asked) -> None:
    from mesh.client.plan import lost_by
    from mesh.errors import ConfigError

    made = against_mesh(found, seen, after, _where)
    if not asked.allow_delete and (problems := lost_by(made.unread, _where)):
        raise ConfigError(problems)
    render(plan_view(made, f"mesh {command}", allow_delete=asked.allow_delete), asked.output)


def _where(path: KeyPath) -> str:
    from mesh.config.located import dotted

    return dotted(("spec", *path))
