"""Topologies change under load while a link is cut: each change waits for it, or does without."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.play import run_step
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import (
    Apply,
    Cut,
    Drain,
    Heal,
    Kill,
    Publish,
    Settle,
    Start,
    Step,
    Subscribe,
    Unsubscribe,
)
from mesh.lab.tally import Tally
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology, ZoneKind
from mesh.view.mesh_view import MeshView
from mesh.worker.process import intake
from tests.sim.meshes import random_legal_topology
from tests.sim.test_applied_changes import Load, changed, paths_of

DOWN_MS = 12_000
"""So long after a cut both ends say that the link is down."""

SEEDS = range(8)


def driven(before: Topology, after: Topology, seed: int) -> Driver:
    backend = SimulatedBackend(before, seed)
    return Driver(
        before,
        backend,
        Tally(before, backend.kafka, backend.now_ms),
        MeshView(before, backend.kafka, backend.now_ms),
        workers=dict.fromkeys(before.nodes, 1),
        proposals={1: Proposal(mesh=Mesh(spec={}, topology=after))},
    )


def wait(driver: Driver, ms: int) -> None:
    until = driver.backend.now_ms() + ms
    while driver.backend.now_ms() < until:
        driver.backend.advance(0.1)


def try_change_in_a_cut(seed: int, wanting: int) -> str:
    """Cut a link, change the topology, heal it, and judge what came; tell how the change ended.

    Args:
        seed: Decides everything.
        wanting: So many nodes want what all publish.
    """
    before = random_legal_topology(rng := random.Random(seed), nodes_max=6)
    after = changed(before, rng)
    backend = (driver := driven(before, after, seed)).backend
    assert isinstance(backend, SimulatedBackend)
    wants = sorted(rng.sample(sorted(before.nodes), min(wanting, len(before.nodes))))
    for node in wants:
        run_step(driver, 0, Subscribe(node=node, endpoint="s", filter=">"))
    run_step(driver, 0, Settle())
    load = Load(before, backend)
    backend.accompany([load.publish])
    link = list(rng.choice(before.links).ends)
    run_step(driver, 0, Cut(link=link))
    wait(driver, DOWN_MS)
    try:
        run_step(driver, 1, Apply(timeout=30))
        ended = "in force"
    except StepFailedError as error:
        is_refused = "nothing was changed" in str(error) or "unread" in str(error)
        ended = "refused" if is_refused else "stuck"
    wait(driver, 2_000)
    if link in [list(one.ends) for one in driver.topology.links]:
        run_step(driver, 0, Heal(link=link))
    if ended == "stuck":  # what waited on the link has come by now
        run_step(driver, 1, Apply(timeout=120))
    wait(driver, 5_000)
    backend.part()
    run_step(driver, 0, Settle())
    run_step(driver, 0, Drain())
    joined = paths_of(before).keys() & paths_of(driver.topology).keys()
    for node in wants:
        tally = driver.tally.endpoints[f"{node}/s"]
        topics = [
            TopicNames("mesh.").ingress(source, MessageClass.GUARANTEED)
            for source in before.nodes
            if source == node or (source, node) in joined
        ]
        missing = [
            found
            for identity, found in driver.tally.published.items()
            if found.place.topic in topics and identity not in tally.seen
        ]
        told = (tally.count - tally.distinct, tally.disordered, len(missing))
        assert told == (0, 0, 0), f"{node} has doubled, disordered, missing {told}"
    return ended


@pytest.mark.parametrize("seed", SEEDS)
def test_random_changes_while_a_link_is_cut(seed: int) -> None:
    """Spec: K19, K24, K28."""
    try_change_in_a_cut(seed, wanting=1 + seed % 3)


def mesh(*links: str) -> Topology:
    """Nodes a, b and q beside one another, and m far away."""
    nodes = {node: {"kafka": "two" if node == "m" else "one"} for node in "abmq"}
    zone = {"kind": "multi-hop", "links": [link.split("-") for link in links]}
    return topology_from_mapping(
        {"kafka": {"one": {}, "two": {}}, "nodes": nodes, "zones": {"Z": zone}}
    )


def test_no_walk_moves_to_a_link_that_is_down() -> None:
    """m would not hear that q is behind a by then, and drop what it publishes. Spec: K28."""
    driver = driven(mesh("a-m", "b-m", "b-q"), mesh("a-m", "b-m", "a-q"), seed=1)
    run_step(driver, 0, Subscribe(node="q", endpoint="s", filter=">"))
    run_step(driver, 0, Settle())
    run_step(driver, 0, Cut(link=["a", "m"]))
    wait(driver, 4_000)  # nobody calls the link down yet, and nobody holds before that is known
    with pytest.raises(StepFailedError, match=r"nothing was changed: link a-m is down.*mend it"):
        run_step(driver, 1, Apply(timeout=20))
    run_step(driver, 0, Heal(link=["a", "m"]))
    run_step(driver, 1, Apply(timeout=20))


def test_no_link_that_is_down_becomes_another_one() -> None:
    """Its ends would forget what they have heard, and m drop what a wants. Spec: K28."""
    first = mesh("a-b", "a-m", "b-q")
    zone = first.zones["Z"]
    links = tuple(replace(link, zone="Y") for link in zone.links)
    other = replace(zone, name="Y", kind=ZoneKind.ONE_HOP, links=links)
    driver = driven(first, replace(first, zones={"Y": other}), seed=1)
    run_step(driver, 0, Subscribe(node="a", endpoint="s", filter=">"))
    run_step(driver, 0, Settle())
    run_step(driver, 0, Cut(link=["a", "m"]))
    wait(driver, 4_000)  # nobody calls the link down yet
    with pytest.raises(StepFailedError, match=r"nothing was changed: link a-m is down.*mend it"):
        run_step(driver, 1, Apply(timeout=20))
    run_step(driver, 0, Publish(node="m", subject="x", count=3))
    run_step(driver, 0, Heal(link=["a", "m"]))
    run_step(driver, 1, Apply(timeout=20))
    run_step(driver, 0, Publish(node="m", subject="x", count=2))
    run_step(driver, 0, Drain())
    assert driver.tally.endpoints["a/s"].distinct == 5


@pytest.mark.parametrize("seed", range(3))
def test_what_is_withdrawn_and_offered_again_meanwhile_is_never_missed(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """a withdraws what q wants, and offers it again for b; m reads the one, and then the other."""
    driver = driven(mesh("a-b", "a-m", "a-q"), mesh("a-b", "a-m", "b-q"), seed)
    run_step(driver, 0, Subscribe(node="q", endpoint="s", filter=">"))
    run_step(driver, 0, Settle())
    run_step(driver, 0, Cut(link=["a", "m"]))
    wait(driver, DOWN_MS)
    run_step(driver, 1, Apply(timeout=30))
    assert isinstance(driver.backend, SimulatedBackend)
    load = Load(driver.topology, driver.backend)
    driver.backend.accompany([load.publish])
    wait(driver, 1_000)
    monkeypatch.setattr(intake, "READ_LIMIT", 1)  # brokers end a fetch wherever they like
    run_step(driver, 0, Heal(link=["a", "m"]))
    wait(driver, 5_000)
    monkeypatch.undo()
    driver.backend.part()
    run_step(driver, 0, Settle())
    run_step(driver, 0, Drain())
    assert driver.tally.endpoints["q/s"].distinct == sum(load.published.values())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("fault", "end"),
    [(Cut(link=["a", "b"]), Heal(link=["a", "b"])), (Kill(node="b"), Start(node="b"))],
    ids=lambda step: step.word,
)
def test_a_withdrawal_is_acknowledged_only_once_nothing_crosses_any_more(
    seed: int, fault: Step, end: Step
) -> None:
    """q wants nothing more while b is not heard; behind the next settle nothing is sent to b.

    Spec: K24, lab.md 1 (settle).
    """
    driver = driven(mesh("a-b", "b-q"), mesh("a-b", "b-q"), seed)
    run_step(driver, 0, Subscribe(node="q", endpoint="s", filter=">"))
    run_step(driver, 0, Settle())
    run_step(driver, 0, fault)
    run_step(driver, 0, Unsubscribe(node="q", endpoint="s", filter=">"))
    wait(driver, DOWN_MS)
    run_step(driver, 0, end)
    run_step(driver, 0, Settle())
    run_step(driver, 0, Publish(node="a", subject="x", count=3))
    run_step(driver, 0, Drain())
    driver.tally.refresh()
    assert driver.tally.links["a->b"].messages == 0


def test_what_has_to_drain_over_a_link_that_is_down_keeps_a_change_from_beginning() -> None:
    """Spec: K28."""
    driver = driven(mesh("a-b", "a-m", "b-q"), mesh("a-b", "a-m", "a-q"), seed=1)
    run_step(driver, 0, Subscribe(node="q", endpoint="s", filter=">"))
    run_step(driver, 0, Settle())
    run_step(driver, 0, Cut(link=["a", "m"]))
    wait(driver, DOWN_MS)
    run_step(driver, 0, Publish(node="m", subject="x", count=3))
    wait(driver, 1_000)
    with pytest.raises(StepFailedError, match="a has to read 3 records of m before walks move"):
        run_step(driver, 1, Apply(timeout=20))
    run_step(driver, 0, Publish(node="q", subject="x", count=2))
    run_step(driver, 0, Heal(link=["a", "m"]))
    run_step(driver, 1, Apply(timeout=20))
    run_step(driver, 0, Drain())
    assert driver.tally.endpoints["q/s"].distinct == 5
