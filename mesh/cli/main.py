"""The command `mesh`. Commands import what they need themselves: `mesh --help` must be quick."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, NoReturn

import typer

from mesh.cli import (
    apply,
    audit,
    context,
    demo,
    disabling,
    dlq,
    doctor,
    drawing,
    explain,
    in_force,
    interest,
    lab,
    link,
    node,
    plan,
    publish,
    queue,
    route,
    status,
    stops,
    subject,
    subscribe,
    topology,
    trace,
    up,
    wait,
    zone,
)
from mesh.cli.problems import asked_output, report
from mesh.errors import InvariantError, MeshError

app = typer.Typer(
    name="mesh",
    help="An event mesh on your own Kafka clusters.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _tell_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"mesh {version('trellis-mesh')}")
        raise typer.Exit


@app.callback()
def mesh(
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda wanted: _tell_version(wanted=wanted),
            is_eager=True,
            help="Print the version and end.",
        ),
    ] = False,
) -> None:
    """An event mesh on your own Kafka clusters."""


topology.mount(app)
plan.mount(app)
apply.mount(app)
in_force.mount(app)
route.mount(app)
drawing.mount(app)
up.mount(app)
trace.mount(app)
doctor.mount(app)
dlq.mount(app)
status.mount(app)
interest.mount(app)
wait.mount(app)
explain.mount(app)
demo.mount(app)
publish.mount(app)
subscribe.mount(app)
app.add_typer(node.app, name="node")
node.app.command("resume")(stops.resume_node)
node.app.command("disable")(disabling.disable_node)
node.app.command("enable")(disabling.enable_node)
app.add_typer(link.app, name="link")
link.app.command("disable")(disabling.disable_link)
link.app.command("enable")(disabling.enable_link)
app.add_typer(subject.app, name="subject")
app.add_typer(zone.app, name="zone")
app.add_typer(queue.app, name="queue")
app.add_typer(context.app, name="context")
app.add_typer(lab.app, name="lab")
app.add_typer(audit.app, name="audit")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit.

    Exit codes: 0 ok, 1 could not run, 2 wrong input, and what a command says of its own.

    Spec: lab.md 2, lab.md 3.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        _commands()(given, prog_name="mesh")
    except InvariantError:
        raise
    except MeshError as exc:
        sys.exit(report(exc, asked_output(given)))
    sys.exit(0)


@functools.cache
def _commands() -> Callable[..., object]:
    """Return all commands; to make them from their signatures takes longer than most of them."""
    return typer.main.get_command(app)
