"""The topology in force of the mesh that a command speaks to, and `mesh export`.

Spec: kafka.md 1 (`mesh.config`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.looking import Look, look
from mesh.cli.render import Output, as_json, standard_output
from mesh.cli.running import running_mesh
from mesh.cli.target import BootstrapOption, ContextOption, FileOption, say
from mesh.cli.topology import legal_or_refused

if TYPE_CHECKING:
    from mesh.model.topology import Topology
    from mesh.operate.in_force import InForce

SHORT_HASH = 12
"""Digits of a hash that people are shown."""


def export(
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="yaml as people write it, or json")
    ] = Output.YAML,
) -> None:
    """Print the topology in force as a topology file; planning it changes nothing."""
    from mesh.config.published import as_yaml_file

    found, _ = in_force_of(file, bootstrap, context)
    if output is Output.JSON:
        text = as_json(found.document) + "\n"
    else:
        text = as_yaml_file(found.document)
    with standard_output():
        sys.stdout.write(text)


def in_force_of(
    file: Path | None, bootstrap: list[str] | None, context: str | None
) -> tuple[InForce, Topology]:
    """Return what is in force in the mesh that a command speaks to, and it with addresses.

    Where nobody has written what is in force, the file of the command or context stands for it,
    and the user is told.

    Raises:
        ConfigError: There is no mesh, an option is wrong, or a newer version wrote the record.
        TransportUnavailableError: Not one Kafka cluster answers.
    """
    at = running_mesh(file, bootstrap, context)
    for fault in at.silent.values():
        say(f"warning: {fault}")
    return _in_force_or_file(at.found, at.plain), at.topology


def _in_force_or_file(found: InForce | None, plain: Topology) -> InForce:
    from mesh.operate.in_force import InForce

    if found is not None:
        return found
    say(
        "warning: mesh.config does not say what is in force (`mesh up` writes it); "
        "the topology file stands for it"
    )
    return InForce(number=0, topology=plain)


@contextmanager
def look_in_force(
    file: Path | None, bootstrap: list[str] | None, context: str | None
) -> Iterator[tuple[InForce, Look]]:
    """Look at the mesh that a command speaks to, and at what is in force there.

    Raises:
        ConfigError: As for `in_force_of`.
        TransportUnavailableError: As for `in_force_of`.
    """
    with look(file, bootstrap, context) as seen:
        yield _in_force_or_file(seen.found, seen.plain), seen


def topology_in_question(
    path: Path | None,
    output: Output,
    *,
    file: Path | None,
    bootstrap: list[str] | None,
    context: str | None,
) -> Topology:
    """Return the topology of a file that a command was given, else the one in force."""
    if path is not None:
        return legal_or_refused(path, output)[0]
    return in_force_of(file, bootstrap, context)[0].topology


def named(found: InForce) -> str:
    """Return which topology in force it is, for people."""
    name = found.topology.name
    if not found.number:
        return f"{name} as its file says it"
    return f"{name}, version {found.number} ({found.hash[:SHORT_HASH]})"
