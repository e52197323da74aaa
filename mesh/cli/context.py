"""`mesh context add|list|use|previous|show|rm`: which mesh the other commands speak to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.render import Output, OutputOption, grid, render
from mesh.cli.target import BootstrapOption, Target, topology_of
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.config.context import Context

NameArgument = Annotated[str, typer.Argument(help="Name of the context.")]


def add(
    name: NameArgument,
    file: Annotated[Path, typer.Option("-f", "--file", help="Topology file of the mesh.")],
    bootstrap: BootstrapOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Name a mesh that runs already; `mesh context use` selects it."""
    from mesh.config.context import Context, context_named, save_context
    from mesh.config.kafka_options import addresses_of

    topology_of(Target(file, bootstrap))  # a name for something broken helps nobody
    save_context(Context(name, file, addresses_of(bootstrap or [])))
    _show(context_named(name), output)


def list_all(output: OutputOption = Output.TABLE) -> None:
    """List the contexts; the one in force is marked."""
    from mesh.config.context import current_context, list_contexts

    current = current_context()
    name = current.name if current is not None else ""
    found = [{**_as_mapping(one), "current": one.name == name} for one in list_contexts()]
    rows = [
        ("*" if one["current"] else "", one["name"], one["file"], _addresses(one["addresses"]))
        for one in found
    ]
    nothing = "no contexts; `mesh context add` and `mesh up` make one"
    table = lambda: grid(("", "NAME", "FILE", "KAFKA"), rows, nothing)  # noqa: E731
    render({"contexts": found}, table, output)


def use(name: NameArgument, output: OutputOption = Output.TABLE) -> None:
    """Select a context."""
    from mesh.config.context import context_named, select_context

    select_context(name)
    _show(context_named(name), output)


def previous(output: OutputOption = Output.TABLE) -> None:
    """Select the context that was in force before this one."""
    from mesh.config.context import previous_context, select_context

    context = previous_context()
    select_context(context.name)
    _show(context, output)


def show(
    name: Annotated[
        str | None, typer.Argument(help="Name of the context (default: the one in force).")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a context."""
    from mesh.config.context import context_named, current_context

    context = current_context() if name is None else context_named(name)
    if context is None:
        raise wrong_input("context", "none is selected: `mesh context use NAME`", code="NO_CONTEXT")
    _show(context, output)


def remove(name: NameArgument, output: OutputOption = Output.TABLE) -> None:
    """Forget a context; the mesh itself is left alone."""
    from mesh.config.context import remove_context

    remove_context(name)
    render({"removed": name}, lambda: f"context {name} is forgotten", output)


def _as_mapping(context: Context) -> dict[str, object]:
    return {
        "name": context.name,
        "file": str(context.file),
        "addresses": dict(context.addresses),
    }


def _addresses(addresses: object) -> str:
    return (
        ", ".join(f"{k}={v}" for k, v in addresses.items()) if isinstance(addresses, dict) else ""
    )


def _show(context: Context, output: Output) -> None:
    data = _as_mapping(context)
    rows = [("name", context.name), ("file", context.file)]
    rows += [(f"kafka {name}", address) for name, address in context.addresses.items()]
    render(data, lambda: grid(("KEY", "VALUE"), rows), output)
