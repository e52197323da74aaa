"""`mesh plan`: what putting a topology file in force would change. Spec: DESIGN 3, K27, K28."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.given_topology import legal_or_refused
from mesh.cli.options import check_not_read
from mesh.cli.render import Output, OutputOption, as_json, render
from mesh.cli.session import in_force_if_known, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import ConfigError, wrong_input
from mesh.transport import clock

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mesh.config.located import Locate
    from mesh.model.topology import Topology
    from mesh.operate.changes.plan import Plan

EXIT_CHANGES = 3
ASK_AGAIN_S = 2.0


def plan(
    proposed: Annotated[Path, typer.Argument(metavar="FILE", help="The proposed topology file.")],
    from_file: Annotated[
        Path | None,
        typer.Option("--from", help="Compare with this topology file; no mesh is looked at."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Keep the plan, as JSON, in this file.")
    ] = None,
    allow_delete: Annotated[
        bool,
        typer.Option(
            "--allow-delete", help="Accept that unread messages are lost with their topics."
        ),
    ] = False,
    within: Annotated[
        float,
        typer.Option(
            "--within",
            metavar="SECONDS",
            min=0.0,
            help="Keep asking, for up to this many seconds, until nothing would change.",
        ),
    ] = 0.0,
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a topology file would change in the running mesh. Nothing is changed.

    Exit codes: 0 no change, 3 changes, 2 the file is illegal or a running mesh cannot follow it.
    """
    from mesh.config.legal import load_legal_topology
    from mesh.operate.changes.plan import refuse_loss
    from mesh.operate.changes.plan_file import plan_document
    from mesh.operate.changes.proposal import plan_on_mesh

    check_not_read("--out", out, proposed, from_file, target.file)

    def before() -> Topology | None:
        """Return what the file is to follow, as far as that can be known."""
        if from_file is None:
            return in_force_if_known(target)
        with suppress(ConfigError):
            return load_legal_topology(from_file)
        return None

    topology, document = legal_or_refused(proposed, output, before)
    locate = document.within("spec").where
    if from_file is not None:
        if target != HERE or within:
            raise wrong_input(
                "--from", "looks at no mesh; leave --file, --bootstrap, --context, --within out"
            )
        made = _against_file(from_file, topology, locate, output)
    else:
        end_ms = clock.now_ms() + within * 1000
        while True:
            with open_session(target, is_look=False) as seen:
                made = plan_on_mesh(seen, seen.in_force.record(), topology, locate)
            if made.is_empty or clock.now_ms() >= end_ms:
                break
            clock.pause(ASK_AGAIN_S)
    if not allow_delete:
        refuse_loss(made.unread, locate)
    data = plan_document(made, allow_delete=allow_delete)
    if out is not None:
        _keep(out, data)
    render(data, lambda: shown(made, str(proposed)), output)
    raise typer.Exit(0 if made.is_empty else EXIT_CHANGES)


def shown(made: Plan, proposed: str) -> RenderableType:
    """Return a plan as people read it; `proposed` is what they call its file."""
    from mesh.cli.plan_tables import plan_table

    return plan_table(made, proposed, made.base.label)


def _against_file(from_file: Path, topology: Topology, locate: Locate, output: Output) -> Plan:
    from mesh.core.live_change_limits import refuse_unchangeable
    from mesh.operate.changes.in_force import TopologyInForce
    from mesh.operate.changes.plan import compare_topics, make_plan
    from mesh.operate.changes.proposal import topics_of_all

    base = TopologyInForce(number=0, topology=legal_or_refused(from_file, output)[0])
    refuse_unchangeable(base.topology, topology, locate)
    old, new = topics_of_all(base.topology), topics_of_all(topology)
    return make_plan(base, topology, compare_topics(base.topology, topology, old, new, {}))


def _keep(path: Path, data: Mapping[str, object]) -> None:
    """Write a plan, whole or not at all: if the disk fills up, an earlier one is still of use."""
    text = as_json(data) + "\n"
    kept = path.resolve()
    try:
        if kept.exists() and not kept.is_file():  # a pipe or terminal, whose place nothing takes
            kept.write_text(text, encoding="utf-8")
            return
        fresh = kept.with_name(f".{kept.name}.{os.getpid()}.new")
        try:
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(kept)
        finally:
            fresh.unlink(missing_ok=True)
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror}; name another file"
        raise wrong_input("--out", text) from error
