"""An edit of one zone put in force on a running mesh, or shown as a plan. Spec: UM-8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mesh.cli.change import ApplyOptions, put_in_force, read_begun_last
from mesh.cli.plan import against_mesh, shown
from mesh.cli.render import Output, render
from mesh.cli.session import open_session
from mesh.cli.target import Target
from mesh.errors import ConfigError, Problem

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.changes.begin import PendingChange
    from mesh.operate.changes.in_force import TopologyInForce

Edit = Callable[["Topology"], Mapping[str, object]]
"""The topology in force -> the spec that is wanted instead."""


def put_edited_in_force(edit: Edit, how: ApplyOptions, target: Target, *, dry_run: bool) -> None:
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
