"""An edit of one zone put in force on a running mesh, or shown as a plan. Spec: UM-8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from mesh.cli.change import ApplyOptions, put_and_tell
from mesh.cli.plan import shown
from mesh.cli.render import Output, render
from mesh.cli.session import open_session
from mesh.cli.target import Target
from mesh.errors import ConfigError, Problem

if TYPE_CHECKING:
    from mesh.operate.changes.put_in_force import Edit


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
    from mesh.operate.changes.begin import begun_last
    from mesh.operate.changes.plan import refuse_loss
    from mesh.operate.changes.plan_file import plan_document
    from mesh.operate.changes.proposal import plan_on_mesh
    from mesh.operate.changes.put_in_force import wanted_topology

    with open_session(target, is_look=False) as seen:
        mesh = seen.to_change()
        begun = begun_last(mesh)
        try:
            after = wanted_topology(mesh.in_force, begun, edit)
        except ConfigError as error:
            raise ConfigError(_in_one_line(error.problems, how.output)) from error
        if not dry_run:
            put_and_tell(mesh, after, begun, place_in_spec, how)
            return
        made = plan_on_mesh(mesh, mesh.in_force, after, place_in_spec)
        if not how.allow_delete:
            refuse_loss(made.unread, place_in_spec)
        data = plan_document(made, allow_delete=how.allow_delete)
        render(data, lambda: shown(made, how.name), how.output)


def _in_one_line(problems: Sequence[Problem], output: Output) -> Sequence[Problem]:
    """Return the first of several loops for people: one edit of one zone ends them all."""
    from mesh.core.legality import ILLEGAL

    loops = sum(problem.code == ILLEGAL for problem in problems)
    if output is not Output.TABLE or loops < max(2, len(problems)):
        return problems
    message = f"{problems[0].message}, which ends {loops - 1} more such loops"
    return [replace(problems[0], message=message)]
