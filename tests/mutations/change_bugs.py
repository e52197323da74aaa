"""Planted bugs of live changes: who holds, who drives, who knows what. Spec: K25, K28.

`tests/sim/test_change_bugs.py` has more, which a mesh without faults shows.
"""

from __future__ import annotations

from mesh.lane.following import Following
from mesh.model.control import Stage
from mesh.operate.changes.draining import OutboxDrain
from mesh.worker.control.topology_changes import TopologyChanges
from tests.mutations.patching import Mutation, Patches


def served_from_the_switch_on(patches: Patches) -> None:
    def wrapper(is_held):
        def wrong(changing, change):
            known = changing.told if change is None else change
            return is_held(changing, change) and known.stage is Stage.HOLD

        return wrong

    patches.wrap(TopologyChanges, "is_held", wrapper)


def late_sources_untold(patches: Patches) -> None:
    patches.put(Following, "has_cut", property(lambda _: False))


def nothing_drains(patches: Patches) -> None:
    patches.put(OutboxDrain, "behind", lambda drain, progresses: {})


CHANGE_BUGS = (
    Mutation("served-from-switch", "who holds reads on before all have switched", served_from_the_switch_on),
    Mutation("late-sources-untold", "sources that come late have no cut", late_sources_untold),
    Mutation("nothing-drains", "nobody waits for what is in old links", nothing_drains),
)  # fmt: skip
