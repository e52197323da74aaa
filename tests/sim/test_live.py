"""Queues, selectors, controls, nodes and links change under load, while nodes die."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.lab.faults import StepFailedError
from mesh.node import machine
from mesh.operate.changes import begin as change_begin
from tests.mutations.patching import Mutation, Patches
from tests.sim.live_trials import Trial

TROUBLED = [100_132, 101_200, 100_158, 100_217, 100_558, 103_447, 110_191, 200_001]
"""Links are cut and disabled, Kafka clusters go away, nodes stand still; subscriptions change."""
CLASSED = [300_047]
"""Likewise, with both classes, clusters for direct messages alone, and changes taken back."""


def nobody_holds_for_queues(patches: Patches) -> None:
    patches.put(change_begin, "queues_shared_otherwise", lambda *_: [])


def queues_await_nobody(patches: Patches) -> None:
    def wrapper(changes_of):
        def wrong(*topologies):
            changes = changes_of(*topologies)
            return replace(changes, awaited=changes.added)

        return wrong

    patches.wrap(machine, "link_changes", wrapper)


@pytest.mark.parametrize("seed", [*range(8), 82, 10_795, 30_093, 30_185, *TROUBLED, *CLASSED])
def test_what_all_meshes_meanwhile_owe_comes_once_and_nothing_else(seed: int) -> None:
    """Spec: K28, DESIGN 6, EMS-11, EMS-12, EMS-14, DMR-11, UM-7."""
    Trial(seed).run()


@pytest.mark.parametrize(
    ("mutation", "seed"),
    [
        (Mutation("queues-hold", "sources send by the old policy", nobody_holds_for_queues), 2),
        (Mutation("queues-known", "sources go on before all know", queues_await_nobody), 82),
    ],
    ids=lambda one: one.name if isinstance(one, Mutation) else "",
)
def test_a_planted_bug_is_found(mutation: Mutation, seed: int) -> None:
    """Spec: K28."""
    with mutation.planted(), pytest.raises((AssertionError, StepFailedError)):
        Trial(seed).run()
