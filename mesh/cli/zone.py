"""`mesh zone ...`: zones of a running mesh made and changed.

A change goes the way of `mesh plan` and `mesh apply`, from the topology in force instead of a
file. Spec: DESIGN 3, UM-8, UM-9, EMS-13, K28.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import typer

from mesh.cli.apply import (
    ApplyOptions,
    DeleteOption,
    WaitOption,
    YesOption,
    put_in_force,
    read_begun_last,
)
from mesh.cli.plan import against_mesh, shown
from mesh.cli.render import Output, OutputOption, render
from mesh.cli.session import open_session
from mesh.cli.target import HERE, Options, Target
from mesh.cli.zone_view import ZoneArgument
from mesh.errors import ConfigError, Problem, wrong_input

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.changes.begin import PendingChange
    from mesh.operate.changes.in_force import TopologyInForce

Edit = Callable[["Topology"], Mapping[str, object]]
"""The topology in force -> the spec that is wanted instead."""

LinkOption = Annotated[
    list[str] | None, typer.Option("--link", metavar="A-B", help="A link; repeatable.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")]


@dataclass(frozen=True, slots=True)
class Asked:
    """What all commands that change a zone take, as one parameter."""

    OPTIONS: ClassVar[Options] = {
        "yes": (YesOption, False),
        "dry_run": (DryRunOption, False),
        "wait": (WaitOption, None),
    }

    yes: bool = False
    dry_run: bool = False
    wait: float | None = None

    @classmethod
    def of(cls, yes: bool, dry_run: bool, wait: float | None) -> Self:
        """Return the options as they were given."""
        return cls(yes, dry_run, wait)

    def how(self, name: str, output: Output, *, allow_delete: bool = False) -> ApplyOptions:
        """Return how a command of this name puts its change in force."""
        return ApplyOptions(
            name=name, yes=self.yes, allow_delete=allow_delete, wait=self.wait, output=output
        )


ASKED = Asked()


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
    asked: Asked = ASKED,
    allow_delete: DeleteOption = False,
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

    def edit(before: Topology) -> Mapping[str, object]:
        if links is None:
            return with_zone(before, name, zone)
        pairs = _pairs_of(before, "--links", links.split(","))
        return with_zone(before, name, {**zone, "links": [list(pair) for pair in pairs]})

    how = asked.how(f"mesh zone create {name}", output, allow_delete=allow_delete)
    _put_in_force(edit, how, target, dry_run=asked.dry_run)


def delete(
    zone: ZoneArgument,
    asked: Asked = ASKED,
    allow_delete: DeleteOption = False,
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

    how = asked.how(f"mesh zone delete {zone}", output, allow_delete=allow_delete)
    _put_in_force(edit, how, target, dry_run=asked.dry_run)


def add(
    zone: ZoneArgument,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE...")] = None,
    link: LinkOption = None,
    kind: Annotated[
        str | None, typer.Option(help="Make the zone, of this kind, if there is none.")
    ] = None,
    asked: Asked = ASKED,
    allow_delete: DeleteOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Add nodes to a zone of nodes, each linked to all others, or links to a zone of links."""
    from mesh.config.zone_edits import with_links, with_nodes, with_zone

    def edit(before: Topology) -> Mapping[str, object]:
        if kind is not None and zone not in before.zones:
            pairs = _pairs_of(before, "--link", link or [])
            what = {"links": [list(pair) for pair in pairs]} if link else {"nodes": nodes or []}
            return with_zone(before, zone, {"kind": kind, **what})
        if link:
            return with_links(before, zone, _pairs_of(before, "--link", link))
        return with_nodes(before, zone, nodes or [])

    _one_of(nodes, link)
    how = asked.how(f"mesh zone add {zone}", output, allow_delete=allow_delete)
    _put_in_force(edit, how, target, dry_run=asked.dry_run)


def remove(
    zone: ZoneArgument,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="NODE...")] = None,
    link: LinkOption = None,
    asked: Asked = ASKED,
    allow_delete: DeleteOption = False,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove nodes or links from a zone; without any it stays, and does nothing."""
    from mesh.config.zone_edits import without_links, without_nodes

    def edit(before: Topology) -> Mapping[str, object]:
        if link:
            return without_links(before, zone, _pairs_of(before, "--link", link))
        return without_nodes(before, zone, nodes or [])

    _one_of(nodes, link)
    how = asked.how(f"mesh zone remove {zone}", output, allow_delete=allow_delete)
    _put_in_force(edit, how, target, dry_run=asked.dry_run)


def rename(
    zone: ZoneArgument,
    title: Annotated[str, typer.Option(help="What people read from now on.")],
    asked: Asked = ASKED,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a zone another title. Its name is its identity and stays; nobody pauses."""
    from mesh.config.zone_edits import retitled

    how = asked.how(f"mesh zone rename {zone}", output)
    _put_in_force(lambda before: retitled(before, zone, title), how, target, dry_run=asked.dry_run)


def _one_of(nodes: list[str] | None, links: list[str] | None) -> None:
    if bool(nodes) == bool(links):
        raise wrong_input("NODE", "name either nodes, or links with --link A-B")


def _names_of(text: str) -> list[str]:
    """Return the names of a list with commas; spaces around them do not count."""
    return [name for part in text.split(",") if (name := part.strip())]


def _pairs_of(topology: Topology, option: str, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return links written `a-b`, or `a:b` where hyphens in names leave it open.

    Args:
        topology: Whose nodes are meant.
        option: Where they were written.
        texts: The links.

    Raises:
        ConfigError: One names no two nodes, or could mean several links.
    """
    return [_pair(topology, option, text.strip()) for text in texts if text.strip()]


def _pair(topology: Topology, option: str, text: str) -> tuple[str, str]:
    where = f"{option} {text}"
    if ":" in text:
        one, _, other = text.partition(":")
        found = [(one, other)]
    else:
        cuts = [at for at, letter in enumerate(text) if letter == "-"]
        found = [(text[:at], text[at + 1 :]) for at in cuts]
    known = [(a, b) for a, b in found if a in topology.nodes and b in topology.nodes]
    if len(known) == 1:
        return known[0]
    if known:
        a, b = known[0]
        raise wrong_input(where, f"could mean several links; write it with a colon, as in {a}:{b}")
    nodes = ", ".join(list(topology.nodes)[:8]) + (", ..." if len(topology.nodes) > 8 else "")
    raise wrong_input(where, f"is no link of two nodes; write A-B, of {nodes}", code="UNKNOWN_NODE")


def _put_in_force(edit: Edit, how: ApplyOptions, target: Target, *, dry_run: bool) -> None:
    """Put an edited topology in force, or show the plan of it.

    Args:
        edit: Makes the spec that is wanted of the topology in force.
        how: What was asked for.
        target: Which mesh.
        dry_run: Whether nothing is changed.

    Raises:
        ConfigError: It is refused, as for `put_in_force`; nothing was changed.
        NotBegunError: As for `put_in_force`.
        NotInTimeError: As for `put_in_force`.
    """
    from mesh.config.zone_edits import place_in_spec
    from mesh.operate.changes.plan import refuse_loss
    from mesh.operate.changes.plan_file import plan_document

    with open_session(target, is_look=False) as seen:
        found = seen.in_force()
        begun = read_begun_last(found, seen)
        after = _wanted(found, begun, edit, how.output)
        if not dry_run:
            put_in_force(found, seen, after, begun, place_in_spec, how)
            return
        made = against_mesh(found, seen, after, place_in_spec)
        if not how.allow_delete:
            refuse_loss(made.unread, place_in_spec)
        data = plan_document(made, allow_delete=how.allow_delete)
        render(data, lambda: shown(made, how.name), how.output)


def _wanted(
    found: TopologyInForce, begun: PendingChange | None, edit: Edit, output: Output
) -> Topology:
    """Return the legal topology that an edit leads to.

    A change that was left when some Kafka clusters had it in force already is gone on with by the
    same command, although what it wants is there by now.

    Raises:
        ConfigError: The edit cannot be made, or leads to none that is legal.
    """
    from mesh.config.legal import legal_topology_from
    from mesh.config.published import published_text
    from mesh.config.zone_edits import place_in_spec

    before = found.topology
    try:
        return legal_topology_from(edit(before), place_in_spec, name=before.name, since=before)
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
