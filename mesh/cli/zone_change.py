"""One edit of the topology in force, put in force by the way of `mesh plan` and `mesh apply`.

Spec: DESIGN 3, K28.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mesh.cli.apply import ApplyOptions, put_in_force, read_begun_last
from mesh.cli.plan import against_mesh, plan_view
from mesh.cli.render import Output, render
from mesh.cli.session import Session, open_session
from mesh.cli.target import Target

if TYPE_CHECKING:
    from mesh.errors import Problem
    from mesh.model.topology import Topology
    from mesh.operate.apply import PendingChange
    from mesh.operate.in_force import InForce

Edit = Callable[["Topology"], Mapping[str, object]]
"""The topology in force -> the spec that is wanted instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneOptions:
    """What every changing command is asked for."""

    yes: bool
    allow_delete: bool
    dry_run: bool
    wait: float | None
    target: Target
    output: Output


def put_edit_in_force(command: str, edit: Edit, asked: ZoneOptions) -> None:
    """Put an edited topology in force, or show the plan of it.

    Args:
        command: What is done, for people: the words behind `mesh`.
        edit: Makes the spec that is wanted of the topology in force.
        asked: What the command was asked for.

    Raises:
        ConfigError: It is refused, as for `put_in_force`; nothing was changed.
        NotBegunError: As for `put_in_force`.
        NotInTimeError: As for `put_in_force`.
    """
    from mesh.config.zone_edits import place_in_spec

    with open_session(asked.target) as seen:
        found = seen.in_force()
        begun = read_begun_last(found, seen)
        after = _wanted(found, begun, edit, asked.output)
        if asked.dry_run:
            _show_plan(found, seen, after, command, asked)
            return
        how = ApplyOptions(
            name=f"mesh {command}",
            yes=asked.yes,
            allow_delete=asked.allow_delete,
            wait=asked.wait,
            output=asked.output,
        )
        put_in_force(found, seen, after, begun, place_in_spec, how)


def _wanted(found: InForce, begun: PendingChange | None, edit: Edit, output: Output) -> Topology:
    """Return the legal topology that an edit leads to.

    A change that was left when some Kafka clusters had it in force already is gone on with by the
    same command, although what it wants is there by now.

    Raises:
        ConfigError: The edit cannot be made, or leads to none that is legal.
    """
    from mesh.config.legal import legal_topology_from
    from mesh.config.published import published_text
    from mesh.config.zone_edits import place_in_spec
    from mesh.errors import ConfigError

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


def _show_plan(
    found: InForce, seen: Session, after: Topology, command: str, asked: ZoneOptions
) -> None:
    from mesh.config.zone_edits import place_in_spec
    from mesh.errors import ConfigError
    from mesh.operate.plan import lost_by

    made = against_mesh(found, seen, after, place_in_spec)
    if not asked.allow_delete and (problems := lost_by(made.unread, place_in_spec)):
        raise ConfigError(problems)
    render(plan_view(made, f"mesh {command}", allow_delete=asked.allow_delete), asked.output)
