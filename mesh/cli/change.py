"""`mesh apply` and `mesh zone`: a change is shown, asked for, put in force and reported.

Spec: DESIGN 3, K27, K28.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from mesh.cli.plan import shown
from mesh.cli.questions import confirm, is_asked
from mesh.cli.render import Output, render

if TYPE_CHECKING:
    from mesh.core.legality import Locate
    from mesh.model.topology import Topology
    from mesh.operate.changes.begin import PendingChange
    from mesh.operate.changes.driver import ChangeOutcome, MeshToChange
    from mesh.operate.changes.plan import Plan
    from mesh.operate.changes.put_in_force import Done


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """How a topology is put in force.

    Attributes:
        name: What people call it: a file, or a command.
        yes: Whether nobody is asked.
        allow_delete: Whether topics that nobody needs any more are deleted.
        wait: Seconds it may take; None is the default, and nodes are not waited for.
        output: How it is told.
    """

    name: str
    yes: bool
    allow_delete: bool
    wait: float | None
    output: Output


def put_and_tell(
    mesh: MeshToChange,
    after: Topology,
    begun: PendingChange | None,
    locate: Locate,
    how: ApplyOptions,
) -> None:
    """Show what a topology would change, ask, put it in force and report how that went.

    Raises:
        ConfigError, NotBegunError, NotInTimeError, TransportError: As for `put_in_force`.
    """
    from mesh.operate.changes.put_in_force import WAIT_S, put_in_force

    def agree(made: Plan) -> bool:
        if how.output is Output.TABLE:
            render({}, lambda: shown(made, how.name), how.output)
        return _ask(yes=how.yes)

    done = put_in_force(
        mesh,
        after,
        begun,
        locate,
        agree=agree,
        allow_delete=how.allow_delete,
        limit_s=WAIT_S if how.wait is None else how.wait,
        patience_s=how.wait or 0.0,
    )
    if done.outcome is None:
        _tell_nothing(done, how)
    else:
        _tell(done.outcome, done, how.output)


def _ask(*, yes: bool) -> bool:
    """Ask a person to agree; return whether there was one to ask."""
    if yes or not is_asked():
        return False
    confirm("put this in force?", "nothing was changed")
    return True


def outcome_document(outcome: ChangeOutcome) -> Mapping[str, object]:
    """Return what scripts get about the end of a change."""
    return {
        "version": outcome.number,
        "in_force": outcome.is_in_force,
        "ms": outcome.ms,
        "pauses_ms": dict(outcome.pauses),
    }


def _tell_nothing(done: Done, how: ApplyOptions) -> None:
    data = {"version": done.number, "in_force": True, "ms": 0, "pauses_ms": {}}
    data |= {"restart": [], "deleted": [], "left": []}
    render(data, lambda: shown(done.plan, how.name), how.output)


def _tell(outcome: ChangeOutcome, done: Done, output: Output) -> None:
    made, deleted = done.plan, done.deleted
    left = [one for one in (*made.topics.deleted, *made.topics.left) if one not in deleted]
    data = {
        **outcome_document(outcome),
        "restart": list(made.to_restart),
        "deleted": [asdict(one) for one in deleted],
        "left": [asdict(one) for one in left],
    }
    lines = [f"version {outcome.number} is in force; it took {outcome.ms / 1000:.1f} s"]
    lines += [f"{node} paused for {ms / 1000:.1f} s" for node, ms in outcome.pauses.items()]
    if not outcome.pauses:
        lines.append("no node paused")
    if made.to_restart:
        from mesh.cli.plan_tables import restart_hint

        lines.append(restart_hint(made))
    if deleted:
        lines.append(f"{len(deleted)} topics were deleted")
    if left:
        lines.append(f"{len(left)} topics that nobody needs any more were left where they are")
    render(data, lambda: "\n".join(lines), output)
