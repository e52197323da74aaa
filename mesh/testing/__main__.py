"""`python -m mesh.testing build`: the images that `mesh.testing.containers` and the chart run."""

from __future__ import annotations

import json
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


app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def testing() -> None:
    """What tests on a mesh in containers need."""


@app.command()
def build(
    images: Annotated[list[Image] | None, typer.Argument(help="Which; all without a name.")] = None,
    tag: Annotated[str, typer.Option(help="Tag of the images.")] = "dev",
    base: Annotated[
        str | None,
        typer.Option(
            help="Image to build on; default: one that is here, Debian 12, or one made here."
        ),
    ] = None,
    bill: Annotated[
        Path | None,
        typer.Option(help="Folder for a bill of materials of each image (CycloneDX, JSON)."),
    ] = None,
) -> None:
    """Make trellis-kafka, trellis-node, trellis-audit and trellis-mesh of what is installed here.

    The last is a whole small mesh in one container; it is made of the first two.
    """
    from mesh.testing import building
    from mesh.testing.contents import bill_of

    made: dict[Image, str] = {}

    def build_one(image: Image) -> str:
        if image not in made and image is Image.MESH:
            parts = build_one(Image.KAFKA), build_one(Image.NODE)
            made[image] = building.build_whole(*parts, tag=tag, progress=_say)
        elif image not in made:
            made[image] = building.build(image, tag=tag, base=base, progress=_say)
        return made[image]

    for image in images or list(Image):
        try:
            name = build_one(image)
            if bill is not None:
                bill.mkdir(parents=True, exist_ok=True)
                text = json.dumps(bill_of(name), indent=1)
                (bill / f"trellis-{image}.cdx.json").write_text(text, encoding="utf-8")
        except MeshError as error:
            _say(f"error: {error}")
            raise typer.Exit(1) from error
        print(name)  # noqa: T201 - what was asked for


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    app()
