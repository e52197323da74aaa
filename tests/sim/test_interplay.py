"""Queues, selectors, controls of interest, joins, covering, changes and faults, all at once.

What each endpoint must and may get, and what crosses which link, is said a second time here: a
message goes to whom it is for, as a channel would get it, and besides once per shared queue to the
member that the words of DESIGN 6 name; together they cross a link once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Drain, Publish, Settle, Step, Subscribe
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.node.converged_interest import converged_interest
from mesh.node.explanation import explain
from tests.sim.interplay import Phase, owed, random_interplay
from tests.sim.test_repairs import LosingBackend


def assert_exact(
    scenario: Scenario, phases: Sequence[Phase], backend: SimulatedBackend, *, once: bool
) -> None:
    """Run a scenario: every endpoint gets what it must and nothing else but what it may.

    Args:
        scenario: What to run.
        phases: What is in force, from each `apply` on.
        backend: Where.
        once: Whether each link must carry each message once; else each endpoint must get it once.
    """
    result = run_scenario(scenario, backend, backend_name="sim")
    # While frames vanish, a partition that has lost all it ever had cannot be seen to its end.
    steps = result["steps"][-1:] if isinstance(backend, LosingBackend) else result["steps"]
    assert all(step["ok"] for step in steps), [step for step in steps if not step["ok"]]
    must, may, links = Counter[str](), Counter[str](), Counter[str]()
    left = iter(phases)
    phase = next(left)
    for named in scenario.steps:
        if named.word == "apply":
            phase = next(left)
        if isinstance(named, Publish):
            found = owed(phase, named)
            for counts, names in ((must, found.must), (may, found.may), (links, found.links)):
                counts.update(dict.fromkeys(names, named.count))
    for name, one in result["endpoints"].items():
        assert must[name] <= one["count"] <= must[name] + may[name], (name, one, must, may)
        assert one["count"] == one["distinct"], name
        assert one["missing"] == one["disordered"] == one["duplicates"] == 0, (name, one)
    if not scenario.proposals:
        assert_explained(scenario, phases[0])
    if once:
        crossed = {name: one["messages"] for name, one in result["links"].items()}
        assert {name: count for name, count in crossed.items() if count} == dict(links)


def assert_explained(scenario: Scenario, phase: Phase) -> None:
    """What `mesh explain` says of each message is what must become of it. Spec: DESIGN 4.4."""
    wanted: dict[str, dict[tuple[str, str], Subscription]] = {}
    for wish in phase.wishes:
        kind, key = EndpointKind(wish.kind), (wish.endpoint, wish.filter)
        asked = Subscription(kind, policy=wish.policy, noexport=wish.noexport)
        wanted.setdefault(wish.node, {})[key] = asked
    known = converged_interest(phase.topology, wanted)
    for message in [one for one in scenario.steps if isinstance(one, Publish)]:
        told = explain(
            phase.topology,
            known,
            message.subject,
            message.node,
            MessageClass.GUARANTEED,
            message.headers,
        )
        found = owed(phase, message)
        assert {f"{one.source}->{one.target}" for one in told.crossed} == set(found.links)
        reached = {f"{one.node}/{name}" for one in told.reached for name in one.endpoints}
        assert set(found.must) <= reached <= {*found.must, *found.may}
        said = {line.split(",")[0] for line in told.queues if ": nobody" not in line}
        chosen = {f"queue {name.partition('/')[2]}: {name.partition('/')[0]}" for name in reached}
        assert said <= chosen, (said, chosen)
        assert all(one.reason for one in told.not_reached)


@pytest.mark.parametrize("seed", range(12))
def test_all_comes_to_whom_it_must_and_crosses_each_link_once(seed: int) -> None:
    """Spec: DESIGN 3, DESIGN 6, EMS-11, EMS-12, EMS-14, DMR-12, UM-7."""
    scenario, phases = random_interplay(seed)
    assert_exact(scenario, phases, SimulatedBackend(scenario.topology, scenario.seed), once=True)


@pytest.mark.parametrize("seed", range(100, 105))
def test_all_of_it_changes_while_the_mesh_runs(seed: int) -> None:
    """Spec: K28, DESIGN 6, EMS-11, EMS-14."""
    scenario, phases = random_interplay(seed, changes=2)
    assert_exact(scenario, phases, SimulatedBackend(scenario.topology, scenario.seed), once=True)


@pytest.mark.parametrize("seed", range(200, 204))
def test_nodes_that_die_lose_and_double_nothing_of_it(seed: int) -> None:
    """Spec: DMR-6, DESIGN 6, EMS-14."""
    scenario, phases = random_interplay(seed, faults=True, changes=1)
    assert_exact(scenario, phases, SimulatedBackend(scenario.topology, scenario.seed), once=False)


@pytest.mark.parametrize("seed", range(300, 304))
def test_frames_that_vanish_are_sent_again_by_the_same_rules(seed: int) -> None:
    """Spec: K20, K11, DESIGN 6, EMS-14."""
    scenario, phases = random_interplay(seed, losses=True)
    counts = [one.count for one in scenario.steps if isinstance(one, Publish)]
    assert_exact(
        scenario, phases, LosingBackend(scenario, sum(counts[: len(counts) // 2])), once=False
    )


@pytest.mark.parametrize("when", ['subject != "b"', 'headers["k"] == "1"'])
def test_a_client_subject_ends_where_a_selector_refuses_it_and_the_address_goes_on(
    when: str,
) -> None:
    """One frame names both; a selector by subject is part of the route, one by headers is not.

    Spec: EMS-12, EMS-14, DESIGN 6.
    """
    spec = {
        "kafka": {"k": {}},
        "nodes": {name: {"kafka": "k"} for name in "abcd"},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["c", "d"]]}},
        "queues": {},
        "interest": [],
        "selectors": [{"link": ["b", "c"], "from": "b", "when": when}],
    }
    channels = [Subscribe(node=node, endpoint="e0", filter=">") for node in "bcd"]
    queue = Subscribe(node="d", endpoint="q2", filter=">", kind="queue", policy="any")
    phase = Phase(spec, [*channels, queue])
    steps = list[Step](phase.wishes)
    steps.append(Settle())
    for subject in "bab":
        message = Publish(
            node="a", subject=subject, count=2, headers={"k": str("ba".index(subject))}
        )
        steps.append(message)
    steps.append(Drain())
    scenario = Scenario(
        name="apart", seed=1, audit=False, topology=phase.topology, steps=tuple(steps)
    )
    assert owed(phase, message).must == {"d/q2": None, "b/e0": None}
    assert_exact(scenario, [phase], SimulatedBackend(phase.topology, 1), once=True)
