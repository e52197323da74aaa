"""Random changes of random meshes under load: nothing is lost, doubled or out of order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import topology_document
from mesh.core.live_change_limits import unchangeable
from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.proposals import Mesh, Proposal
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Apply, Drain, Heal, Settle, Slow, Subscribe
from mesh.lab.tally import Tally
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.view.mesh_view import MeshView
from tests.sim.meshes import is_legal, naive_ways, random_legal_topology

DOUBLED = 44
"""Where messages came twice while walks that begin had nothing drained."""

Paths = Mapping[tuple[str, str], tuple[str, ...]]


def changed(before: Topology, rng: random.Random) -> Topology:
    """Another legal topology of the same nodes: some zones stay, some go, some are new."""
    spec = dict(topology_document(before)["spec"])  # type: ignore[call-overload]
    while True:
        other = random_legal_topology(rng, nodes_max=len(before.nodes), joined=True)
        drawn = topology_document(other)["spec"]["zones"]  # type: ignore[index]
        names = dict(
            zip(other.nodes, rng.sample(sorted(before.nodes), len(other.nodes)), strict=True)
        )
        kept = {name: zone for name, zone in spec["zones"].items() if rng.random() < 0.7}
        fresh = {
            f"N{name}": renamed(zone, names) for name, zone in drawn.items() if rng.random() < 0.5
        }
        try:
            after = topology_from_mapping({**spec, "zones": {**kept, **fresh}})
        except Exception:  # noqa: BLE001 - two links of the same nodes, and the like
            continue
        if is_legal(after) and not list(unchangeable(before, after, str)):
            return after


def renamed(zone: Mapping[str, Any], names: Mapping[str, str]) -> Mapping[str, Any]:
    found = dict(zone)
    for end in {"from", "to"} & found.keys():
        found[end] = names[found[end]]
    if "nodes" in found:
        found["nodes"] = [names[node] for node in found["nodes"]]
    if "links" in found:
        found["links"] = [[names[node] for node in link] for link in found["links"]]
    found.pop("filter", None)
    return found


def paths_of(topology: Topology) -> Paths:
    return {
        (source, way.nodes[-1]): way.nodes
        for source in topology.nodes
        for way in naive_ways(topology, source)
    }


class Load:
    """Every node publishes, all the time."""

    def __init__(self, topology: Topology, backend: SimulatedBackend) -> None:
        self.published = dict.fromkeys(topology.nodes, 0)
        self._topology = topology
        self._writers = {name: one.writer("load") for name, one in backend.kafka.items()}

    def publish(self) -> None:
        for node, declared in self._topology.nodes.items():
            topic = TopicNames("mesh.").ingress(node, MessageClass.GUARANTEED)
            self._writers[declared.kafka].produce(
                topic, b"", b"k", headers=[(SUBJECT_HEADER, b"a/b")]
            )
            self.published[node] += 1


@pytest.mark.parametrize("seed", range(8))
def test_random_changes_under_load(seed: int) -> None:
    """Spec: K27, K28."""
    before = random_legal_topology(rng := random.Random(seed), nodes_max=6, lanes_max=2)
    try_changes(seed, rng, [before, changed(before, rng)])


@pytest.mark.parametrize("seed", [0, 1, DOUBLED])
def test_random_changes_in_a_row_over_links_that_lag_all_the_time(seed: int) -> None:
    """What came by a walk that one change ended, never comes again by one that the next begins.

    Spec: K28.
    """
    first = random_legal_topology(rng := random.Random(seed), nodes_max=6, lanes_max=2)
    second = changed(first, rng)
    try_changes(seed, rng, [first, second, changed(second, rng)])


def try_changes(seed: int, rng: random.Random, topologies: Sequence[Topology]) -> None:
    """Put one after the other in force, and judge what came of all that was published."""
    before = topologies[0]
    backend = SimulatedBackend(before, seed)
    driver = Driver(
        before,
        backend,
        Tally(before, backend.kafka, backend.now_ms),
        MeshView(before, backend.kafka, backend.now_ms),
        workers={name: rng.randint(1, node.lanes) for name, node in before.nodes.items()},
        proposals={
            number: Proposal(mesh=Mesh(spec={}, topology=one))
            for number, one in enumerate(topologies[1:])
        },
    )
    for node in before.nodes:
        run_step(driver, 0, Subscribe(node=node, endpoint="s", filter=">"))
    run_step(driver, 0, Settle())
    late = [list(link.ends) for link in before.links if rng.random() < 0.5]
    for link in late:  # so that much is on its way when nodes hold
        run_step(driver, 0, Slow(link=link, delay_ms=3_000))
    load = Load(before, backend)
    backend.accompany([load.publish])
    paths = [paths_of(one) for one in topologies]
    for number, (old, new) in enumerate(pairwise(paths)):
        outcome = run_step(driver, number, Apply(timeout=120))
        if any(new.get(pair) != way for pair, way in old.items()):
            assert outcome["pauses_ms"]
    soon = dict(load.published)
    for link in late:
        run_step(driver, 0, Heal(link=link))
    run_step(driver, 0, Settle())
    backend.part()
    run_step(driver, 0, Drain())
    for node in before.nodes:
        tally = driver.tally.endpoints[f"{node}/s"]
        assert (tally.count - tally.distinct, tally.disordered) == (0, 0)
        for source in before.nodes:
            pair = (source, node)
            ways = {one.get(pair) for one in paths} if source != node else {(node,)}
            came = {
                tuple(path.split(">")): count
                for path, count in tally.paths.items()
                if path.split(">")[0] == source
            }
            assert set(came) <= ways
            if None not in ways:
                assert sum(came.values()) == load.published[source], (pair, came)
            elif paths[-1].get(pair):
                assert sum(came.values()) >= load.published[source] - soon[source], (pair, came)
