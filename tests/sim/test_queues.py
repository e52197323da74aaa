"""Queues of all policies on random legal topologies: who must get what, by an oracle of its own."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import (
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
from mesh.model.queues import Queue, QueuePolicy
from mesh.transport.port import TopicPartition
from mesh.wire.state import decode_ledger
from tests.sim.drawn import random_filter, random_subject
from tests.sim.meshes import Way, naive_copies, naive_matches, naive_ways, random_legal_topology
from tests.sim.test_faults import with_faults

POLICIES = ["every", "local", "home", "any"]


@dataclass
class Counts:
    """Messages per link, per endpoint, and per (endpoint, path)."""

    links: Counter[str] = field(default_factory=Counter)
    endpoints: Counter[str] = field(default_factory=Counter)
    paths: Counter[tuple[str, str]] = field(default_factory=Counter)

    def delivered(self, wish: Subscribe, way: tuple[str, ...], count: int) -> None:
        name = f"{wish.node}/{wish.endpoint}"
        self.endpoints[name] += count
        self.paths[name, ">".join(way)] += count


def random_queues(seed: int, *, joined: bool) -> tuple[Scenario, dict[str, str]]:
    """Return a scenario, and the policy of each queue by name."""
    rng = random.Random(seed)
    topology = random_legal_topology(rng, joined=joined)
    nodes = sorted(topology.nodes)
    policies = {f"q{number}": rng.choice(POLICIES) for number in range(2)}
    declared = {
        name: Queue(
            name=name.upper(),
            policy=QueuePolicy(policy),
            home=rng.choice(nodes) if policy == "home" else None,
        )
        for name, policy in policies.items()
        if policy == "home" or rng.random() < 0.5
    }
    topology = replace(topology, queues={one.name: one for one in declared.values()})
    wishes = []
    for _ in range(rng.randint(4, 14)):
        name = rng.choice([*policies, *policies, "channel"])
        wish: dict[str, object] = {"node": rng.choice(nodes), "endpoint": name}
        if name in policies:
            wish["kind"] = "queue"
            if name not in declared or rng.random() < 0.5:
                wish["policy"] = policies[name]
        # Few members would ever match the same message by filters drawn at random.
        filter_ = rng.choice([">", "a/>", "*", "*/*", random_filter(rng)])
        wishes.append(Subscribe.model_validate({**wish, "filter": filter_}))
    steps = list[Step](wishes)
    steps.append(Settle())
    for _ in range(rng.randint(3, 10)):
        message = {
            "node": rng.choice(nodes),
            "subject": random_subject(rng),
            "count": rng.randint(1, 4),
            "key": rng.choice([None, "k"]),
            "class": rng.choice(["guaranteed", "guaranteed", "direct"]),
        }
        steps.append(Publish.model_validate(message))
    steps.append(Drain())
    scenario = Scenario(
        name=f"queues-{seed}", seed=seed, audit=False, topology=topology, steps=tuple(steps)
    )
    return scenario, policies


def expected(scenario: Scenario, policies: dict[str, str]) -> Counts:
    """Return what must happen, straight from the words of DESIGN 6, DMR-9, EMS-12 and UM-7."""
    counts = Counts()
    topology = scenario.topology
    wishes = [named for named in scenario.steps if isinstance(named, Subscribe)]
    for named in scenario.steps:
        message = named
        if not isinstance(message, Publish):
            continue
        matching = {
            (one.node, one.endpoint): one
            for one in wishes
            if naive_matches(one.filter, message.subject)
        }
        to_all: dict[str, list[str]] = {}
        for one in wishes:
            if policies.get(one.endpoint, "every") == "every":
                to_all.setdefault(one.node, []).append(one.filter)
        copies = naive_copies(topology, message.node, message.subject, to_all)
        source = Way((message.node,))
        crossed = {way.links[-1] for way in copies.values()}
        ways = {one.nodes[-1]: one for one in naive_ways(topology, message.node)}
        plain = {node: one for node, one in ways.items() if not any(one.filters)} | {
            message.node: source
        }
        for name in {one.endpoint for one in matching.values()}:
            members = [one for one in matching.values() if one.endpoint == name]
            policy = policies.get(name, "every")
            if policy in ("every", "local"):
                for one in members:
                    way = source if one.node == message.node else copies.get(one.node)
                    is_due = way is not None and (
                        policy == "every" or way is source or way.filters[-1] is not None
                    )
                    if way is not None and is_due:
                        counts.delivered(one, way.nodes, message.count)
                continue
            near = [one for one in members if one.node in plain]
            if policy == "home":
                home = topology.queues[name.upper()].home
                near = [one for one in near if one.node == home and len(plain[one.node].nodes) <= 2]
            if near:
                best = min(near, key=lambda one: (len(plain[one.node].nodes), one.node))
                counts.delivered(best, plain[best.node].nodes, message.count)
                crossed.update(plain[best.node].links)
        for link in crossed:
            counts.links[link] += message.count
    return counts


@pytest.mark.parametrize("seed", range(20))
def test_faults_lose_and_double_nothing_of_queues(seed: int) -> None:
    """Members die and links are cut: each message waits for whom it was for, in order.

    Spec: DESIGN 6, DMR-6, K21.
    """
    calm, policies = random_queues(seed, joined=False)
    scenario = with_faults(calm, random.Random(seed))
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    counts = expected(scenario, policies)
    assert result["ok"], result["steps"]
    endpoints = result["endpoints"]
    assert isinstance(endpoints, dict)
    found = {
        name: (one["count"], one["distinct"], one["disordered"])
        for name, one in endpoints.items()
        if one["count"]
    }
    assert found == {name: (n, n, 0) for name, n in counts.endpoints.items()}


@pytest.mark.parametrize("joined", [False, True], ids=["plain", "joined"])
@pytest.mark.parametrize("seed", range(30))
def test_every_message_comes_to_whom_its_queues_policies_say(seed: int, *, joined: bool) -> None:
    """Spec: DESIGN 6, DMR-9, EMS-12, UM-7, K26. A message crosses a link once, whoever wants it."""
    scenario, policies = random_queues(seed, joined=joined)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    counts = expected(scenario, policies)
    assert result["ok"], result["steps"]
    endpoints, links = result["endpoints"], result["links"]
    assert isinstance(endpoints, dict)
    assert isinstance(links, dict)
    assert {
        (name, path): count
        for name, one in endpoints.items()
        for path, count in one["paths"].items()
    } == dict(counts.paths)
    assert {name: one["messages"] for name, one in links.items() if one["messages"]} == dict(
        +counts.links
    )
    assert all(one["missing"] == one["duplicates"] == 0 for one in endpoints.values()), endpoints


def dropped_at(backend: SimulatedBackend, node: str) -> Counter[str]:
    """Return what a node's ledger says went nowhere, by reason."""
    reader = backend.kafka["k"].reader("test")
    reader.assign({TopicPartition(f"mesh.{node}.ledger", 0): 0})
    found = Counter[str]()
    while records := reader.read(0.0, 100):
        for record in records:
            for one in decode_ledger(record.value() or b"").dropped:
                found[one.reason] += one.messages
    return found


def test_what_a_proxy_cannot_send_home_is_counted() -> None:
    """Spec: EMS-12, DESIGN 4.4: no message disappears silently."""
    topology = topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {"r": {}, "p": {}, "t": {}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["r", "p"], ["p", "t"]]}},
            "queues": {"q": {"policy": "home", "home": "r"}},
        }
    )
    asked = {"endpoint": "q", "filter": ">", "kind": "queue"}
    steps = [
        *(Subscribe.model_validate({**asked, "node": node}) for node in "rpt"),
        Settle(),
        Publish(node="t", subject="x", count=4),
        Publish(node="p", subject="x", count=3),
        Drain(),
    ]
    scenario = Scenario(name="far", seed=1, audit=False, topology=topology, steps=tuple(steps))
    backend = SimulatedBackend(topology, 1)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert isinstance(result["endpoints"], dict)
    assert {name: one["count"] for name, one in result["endpoints"].items()} == {
        "p/q": 0,
        "r/q": 3,
        "t/q": 0,
    }
    assert dropped_at(backend, "t") == {"home_unreachable": 4}


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_copies_for_a_queue_that_left_come_or_are_counted(is_forgotten: bool) -> None:
    """They waited for a link; counted are they if the node cannot know of its queue any more.

    Spec: DESIGN 4.4, DESIGN 6.
    """
    topology = topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {"a": {}, "b": {}},
            "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
        }
    )
    wish = {"node": "b", "endpoint": "q", "filter": ">", "kind": "queue", "policy": "any"}
    steps = [
        Subscribe.model_validate(wish),
        Settle(),
        Cut(link=["a", "b"]),
        Publish(node="a", subject="x", count=4),
        Drain(),
        Unsubscribe(node="b", endpoint="q", filter=">"),
        Settle(),
        Kill(node="b"),
        Start(node="b"),
        Heal(link=["a", "b"]),
        Settle(),
        Drain(),
    ]
    scenario = Scenario(name="left", seed=1, audit=False, topology=topology, steps=tuple(steps))
    backend = Forgetful(topology, 1) if is_forgotten else SimulatedBackend(topology, 1)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert result["ok"], result["steps"]
    assert dropped_at(backend, "b") == ({"queue_left": 4} if is_forgotten else {})
    assert isinstance(result["endpoints"], dict)
    assert result["endpoints"]["b/q"]["count"] == (0 if is_forgotten else 4)


class Forgetful(SimulatedBackend):
    """Kafka compacts away what a tombstone follows, as it does some day: before a node starts."""

    def start(self, node: str, worker: int = 0) -> None:
        """Start a node that cannot read what was asked of it before."""
        topic = self.kafka["k"].topics.get(f"mesh.{node}.clients")
        entries = topic.logs[0].entries if topic is not None else []
        if entries and entries[-1] is not None and entries[-1].value() is None:
            entries[:-1] = [None] * (len(entries) - 1)
        super().start(node, worker)
