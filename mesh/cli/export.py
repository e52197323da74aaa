"""`mesh export`: the topology in force. Spec: kafka.md 1 (`mesh.config`)."""

from __future__ import annotations

import sys
from typing import Annotated, assert_never

import typer

from mesh.cli.render import Output, as_json, standard_output
from mesh.cli.session import in_force_in
from mesh.cli.target import HERE, Target


def export(
    target: Target = HERE,
    output: Annotated[
        Output, typer.Option("-o", "--output", help="yaml as people write it, or json")
    ] = Output.YAML,
) -> None:
    """Print the topology in force as a topology file; planning it changes nothing."""
    from mesh.config.published import as_yaml_file

    found = in_force_in(target).record()
    match output:
        case Output.JSON:
            text = as_json(found.document) + "\n"
        case Output.YAML | Output.TABLE:
            text = as_yaml_file(found.document)
        case _:
            assert_never(output)
    with standard_output():
        sys.stdout.write(text)
