"""Bugs that were cured and that the swarm does not draw, each beside the tests that find it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from mesh.errors import MeshError
from tests.mutations.patching import Patches, planted

Plant: TypeAlias = Callable[[Patches], None]
Shown: TypeAlias = Callable[[], None]


@dataclass(slots=True)
class Cured:
    """The bugs of one subject.

    Attributes:
        cases: What plants each, and a test that fails with it, as pytest's parameters.
    """

    cases: list[object] = field(default_factory=list)

    def found_by(self, *tests: Shown) -> Callable[[Plant], Plant]:
        """Return what registers a bug that each of these tests finds."""

        def register(plant: Plant) -> Plant:
            for number, test in enumerate(tests, 1):
                name = plant.__name__ if len(tests) == 1 else f"{plant.__name__}-{number}"
                self.cases.append(pytest.param(plant, test, id=name))
            return plant

        return register


def assert_found(plant: Plant, shown: Shown) -> None:
    """Assert that a test passes, and fails with a bug planted."""
    shown()
    with planted(plant), pytest.raises((AssertionError, MeshError, pytest.fail.Exception)):
        shown()
