"""`python -m mesh.testing build`: the images that `mesh.testing.containers` and the chart run."""

from __future__ import annotations

import json
import re
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mesh.errors import MeshError


class Image(StrEnum):
    """What can be built."""

    KAFKA = "kafka"
    NODE = "node"
    AUDIT = "audit"
    MESH = "mesh"


class Kind(StrEnum):
    """For what machines."""

    AMD64 = "amd64"
    ARM64 = "arm64"


TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
"""What a Docker engine takes for one."""


def check_tag(tag: str) -> str:
    """Return a tag that an engine takes; found out by itself, it would be so after minutes."""
    if TAG.fullmatch(tag) is None:
        text = f"{tag!r} is not a tag: up to 128 letters, digits, _, . and -, the first no . or -"
        raise typer.BadParameter(text)
    return tag


app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def testing() -> None:
    """What tests on a mesh in containers need."""


@app.command()
def build(
    images: Annotated[list[Image] | None, typer.Argument(help="Which; all without a name.")] = None,
    tag: Annotated[str, typer.Option(help="Tag of the images.", callback=check_tag)] = "dev",
    base: Annotated[
        str | None,
        typer.Option(
            help="Image to build on; default: one that is here, Debian 12, or one made here."
        ),
    ] = None,
    machine: Annotated[
        Kind | None,
        typer.Option(
            help="Kind of machine that they are for, which is added to the tag; default: this one. "
            "Nothing of another kind is run; its packages are fetched by apt-get, of Debian."
        ),
    ] = None,
    bill: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            help="Folder for a bill of materials of each image (CycloneDX, JSON).",
        ),
    ] = None,
) -> None:
    """Make trellis-kafka, trellis-node, trellis-audit and trellis-mesh of what is installed here.

    The last is a whole small mesh in one container; it is made of the first two.
    """
    from mesh.testing.contents import bill_of
    from mesh.testing.workshop import Workshop

    try:
        with Workshop.opened(machine, tag, base, _say) as workshop:
            for image in images or list(Image):
                name = workshop.make(image)
                if bill is not None:
                    bill.mkdir(parents=True, exist_ok=True)
                    text = json.dumps(bill_of(name), indent=1)
                    (bill / f"trellis-{image}.cdx.json").write_text(text, encoding="utf-8")
                print(name)  # noqa: T201 - what was asked for
    except (MeshError, OSError) as error:  # a full disk ends what is copied and written here
        _say(f"error: {' '.join(str(error).split())[:500]}")
        raise typer.Exit(1) from error


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    app()
