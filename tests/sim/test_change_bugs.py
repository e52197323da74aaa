"""Planted bugs of changes: each shows itself, or nobody would see it if somebody made it."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lane.link_ages import LinkAges
from mesh.node.leader import Leader
from mesh.node.pending_interest import PendingInterest
from mesh.worker.control.topology_changes import TopologyChanges
from mesh.worker.lanes import owned
from mesh.worker.process.injected_faults import SlowLink
from tests.mutations.patching import Mutation, Patches
from tests.property.test_relinking import test_who_followed_equals_who_starts_afresh as who_followed
from tests.sim.changing import ChangedMesh
from tests.sim.test_changes import multi_hop, topology

SEEDS = range(2)
NAME_RETURNS = Path(__file__).parents[2] / "examples" / "scenarios" / "apply-name-returns.yaml"


def nobody_holds(patches: Patches) -> None:
    patches.put(TopologyChanges, "is_held", lambda changing, change: False)


def linked_at_once(patches: Patches) -> None:
    patches.put(Leader, "is_linked", lambda leader, learner: True)


def no_cut(patches: Patches) -> None:
    def wrapper(cut):
        def wrong(lane, in_force, cuts, now_ms):
            known, tables = dict(lane.memos._known), dict(lane.memos._tables)
            cut(lane, in_force, cuts, now_ms)
            lane.memos._known.update(known)
            lane.memos._tables.update(tables)

        return wrong

    patches.wrap(owned, "cut_lane", wrapper)


def interest_kept(patches: Patches) -> None:
    patches.put(PendingInterest, "forget", lambda *_: None)


def nothing_barred(patches: Patches) -> None:
    patches.put(LinkAges, "barred", lambda *_: ())


def move_walks() -> None:
    """With c hearing late of b: the new link is far from known when all else is done."""
    for seed in SEEDS:
        mesh = ChangedMesh(topology(Z=multi_hop("ab")), seed=seed)
        mesh.world.slow("c", [SlowLink("b", 3_000, 0.0)])
        mesh.run(1_000, load=True)
        mesh.change_to(topology(Z=multi_hop("ac", "bc")), ["a", "b", "c"])
        mesh.run(1_000, load=True)
        mesh.settle()
        mesh.assert_exact()


def follow_topologies() -> None:
    for seed in range(30):
        who_followed.hypothesis.inner_test(seed=seed, joined=False)


def return_a_name() -> None:
    scenario = load_scenario(NAME_RETURNS)
    result = run_scenario(
        scenario, SimulatedBackend(scenario.topology, scenario.seed), backend_name="sim"
    )
    assert [step for step in result["steps"] if not step["ok"]] == []


def test_without_a_planted_bug_the_same_passes() -> None:
    """What shows the bugs is the bugs."""
    move_walks()
    follow_topologies()
    return_a_name()


@pytest.mark.parametrize(
    "mutation",
    [
        Mutation("nobody-holds", "clients are served while walks move", nobody_holds),
        Mutation("linked-at-once", "the other end of a new link is not waited for", linked_at_once),
        Mutation("no-cut", "what is remembered of routes outlives the links", no_cut),
    ],
    ids=lambda mutation: mutation.name,
)
def test_a_planted_bug_is_found(mutation: Mutation) -> None:
    """Spec: K28."""
    with mutation.planted(), pytest.raises((AssertionError, KeyError)):
        move_walks()


def test_interest_of_a_removed_link_that_is_kept_is_found() -> None:
    """Spec: K22, K28."""
    kept = Mutation("interest-kept", "interest outlives its link", interest_kept)
    with kept.planted(), pytest.raises((AssertionError, KeyError)):
        follow_topologies()


def test_links_that_carry_what_is_too_old_for_them_are_found() -> None:
    """Spec: K10, K28."""
    barred = Mutation("nothing-barred", "links carry messages of any age", nothing_barred)
    with barred.planted(), pytest.raises(AssertionError):
        return_a_name()
