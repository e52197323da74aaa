"""Planted bugs of live changes: what is drained, who holds, who knows what. Spec: K25, K28.

`tests/sim/test_change_bugs.py` has more, which a mesh without faults shows.
"""

from __future__ import annotations

from dataclasses import replace

from mesh.client import apply
from mesh.client.applying import Applying
from mesh.client.draining import Drain
from mesh.model.control import Stage
from mesh.node.learner import Learner
from mesh.runtime.control.changing import Changing
from mesh.runtime.lane.lane import Lane
from tests.mutations.patching import Mutation, Patches


def nothing_drains(patches: Patches) -> None:
    patches.put(Drain, "behind", lambda *_: {})


def first_links_drain(patches: Patches) -> None:
    def wrapper(cut_over):
        def wrong(*args, **named):
            cut = cut_over(*args, **named)
            return replace(cut, rounds=cut.rounds[:1])

        return wrong

    patches.wrap(apply, "cut_over", wrapper)


def served_from_the_switch_on(patches: Patches) -> None:
    def wrapper(is_held):
        def wrong(changing, change):
            known = changing.told if change is None else change
            return is_held(changing, change) and known.stage is Stage.HOLD

        return wrong

    patches.wrap(Changing, "is_held", wrapper)


def leaves_with_messages(patches: Patches) -> None:
    patches.put(Applying, "_untaken", lambda *_: ())


def mate_knows_less(patches: Patches) -> None:
    patches.put(Learner, "is_behind", lambda *_: False)


def late_sources_untold(patches: Patches) -> None:
    patches.put(Lane, "has_cut", property(lambda _: False))


CHANGE_BUGS = (
    Mutation("nothing-drains", "nodes switch while old links carry something", nothing_drains),
    Mutation("first-links-drain", "only the first links of walks that move drain", first_links_drain),
    Mutation("served-from-switch", "who holds reads on before all have switched", served_from_the_switch_on),
    Mutation("leaves-untaken", "a node leaves with what its clients wrote", leaves_with_messages),
    Mutation("mate-knows-less", "a lane is read by who knows less than its former owner", mate_knows_less),
    Mutation("late-sources-untold", "sources that come late have no cut", late_sources_untold),
)  # fmt: skip
