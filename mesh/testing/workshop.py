"""Makes the images that are asked for, each once, for this kind of machine or for another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Self

from mesh.local.jars import Progress
from mesh.testing.building import build, build_whole
from mesh.testing.contents import docker
from mesh.testing.machines import MACHINES, Machine, machine_here
from mesh.testing.transposing import transpose

WHOLE = "mesh"
PARTS = ("kafka", "node")


@dataclass(slots=True, kw_only=True)
class Workshop:
    """Where images are made.

    Attributes:
        here: The kind of machine that the Docker engine runs on.
        there: The kind that the images are for.
        tag: Of what is made.
        base: Image to build on; None takes what is here, can be pulled, or can be made.
        progress: Told what is going on.
    """

    here: Machine
    there: Machine
    tag: str
    base: str | None
    progress: Progress
    _built: dict[str, str] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def opened(
        cls, machine: str | None, tag: str, base: str | None, progress: Progress
    ) -> Iterator[Self]:
        """Open it; what only served to make something else is removed in the end.

        Args:
            machine: Kind that the images are for, which is added to the tag; None is the engine's.
            tag: Of the images.
            base: Image to build on; None takes what is here, can be pulled, or can be made.
            progress: Told what is going on.

        Raises:
            StartError: No Docker engine answers.
        """
        here = machine_here()
        there = MACHINES[machine] if machine else here
        named = f"{tag}-{machine}" if machine else tag
        workshop = cls(here=here, there=there, tag=named, base=base, progress=progress)
        try:
            yield workshop
        finally:
            if here is not there and workshop._built:
                docker("image", "rm", *reversed(workshop._built.values()))

    def make(self, image: str) -> str:
        """Make `kafka`, `node`, `audit` or `mesh`, and return its name.

        Raises:
            StartError: A package is not installed or cannot be had, or a step failed.
        """
        built = self._build(image)
        if self.here is self.there:
            return built
        name = f"trellis-{image}:{self.tag}"
        transpose(built, name, self.here, self.there, self.progress)
        return name

    def _build(self, image: str) -> str:
        """Build an image as if it were for this machine."""
        tag = self.tag if self.here is self.there else f"{self.tag}-parts"
        if image not in self._built and image == WHOLE:
            kafka, node = map(self._build, PARTS)
            self._built[image] = build_whole(kafka, node, tag=tag, progress=self.progress)
        elif image not in self._built:
            self._built[image] = build(
                image, self.there, tag=tag, base=self.base, progress=self.progress
            )
        return self._built[image]
