"""Random meshes with all features at once, and what is owed to whom."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from mesh.config.located import dotted
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import topology_spec
from mesh.lab.proposals import Mesh, propose
from mesh.lab.scenario import Scenario
from mesh.lab.steps import Apply, Drain, Kill, Publish, Settle, Start, Step, Subscribe
from mesh.model.topology import Topology
from tests.sim.controls import Rules, random_controls, random_filter, random_subject
from tests.sim.meshes import Way, naive_matches, naive_ways, random_legal_topology
from tests.sim.test_selectors import random_headers

VERDICTS = {
    'subject.startsWith("a")': lambda subject, headers: subject.startswith("a"),
    'subject != "b"': lambda subject, headers: subject != "b",
    'headers["k"] == "1"': lambda subject, headers: headers.get("k") == "1",
    'has(headers.j) || subject == "b"': lambda subject, headers: "j" in headers or subject == "b",
}


UNDECLARED = {"q2": "any", "q3": "local"}
DECLARED = ("q0", "q1")


@dataclass(frozen=True)
class Phase:
    """What is in force for a while, and who asks for what then."""

    spec: Mapping[str, object]
    wishes: Sequence[Subscribe]

    @cached_property
    def topology(self) -> Topology:
        return topology_from_mapping(self.spec)

    @cached_property
    def rules(self) -> Rules:
        return Rules(self.topology, self.spec["interest"])  # type: ignore[arg-type]

    def policy(self, wish: Subscribe) -> str | None:
        """Return what of an endpoint's wish crosses links; None if the mesh refuses it. K13."""
        if wish.kind == "channel":
            return "every"
        declared = self.spec["queues"].get(wish.endpoint.upper())  # type: ignore[attr-defined]
        if declared is not None and wish.policy not in (None, declared["policy"]):
            return None
        policy = wish.policy or "every" if declared is None else declared["policy"]
        return None if wish.noexport and policy in ("home", "any") else policy

    def lets(self, way: Way, message: Publish) -> bool:
        """Return whether every selector on a way lets a message pass. Spec: EMS-14."""
        return all(
            VERDICTS[one["when"]](message.subject, message.headers)
            for one in self.spec["selectors"]  # type: ignore[attr-defined]
            if f"{one['link'][0]}->{one['link'][1]}" in way.links
        )

    def carries(self, way: Way, message: Publish) -> bool:
        """Return whether messages of its class cross every link on a way. Spec: DMR-11."""
        return message.class_ == "direct" or self.barred.isdisjoint(way.links)

    @cached_property
    def barred(self) -> frozenset[str]:
        """The ways over links that carry only direct messages."""
        zones = [zone for zone in self.topology.zones.values() if zone.direct_only]
        ends = [link.ends for zone in zones for link in zone.links]
        return frozenset(f"{a}->{b}" for pair in ends for a, b in (pair, pair[::-1]))


@dataclass
class Owed:
    """Who must get one message, who may, and the links that it crosses, once each."""

    must: dict[str, None] = field(default_factory=dict)
    may: dict[str, None] = field(default_factory=dict)
    links: dict[str, None] = field(default_factory=dict)


def owed(phase: Phase, message: Publish) -> Owed:
    """Return the fate of a message: DESIGN 3 and 6, EMS-11, EMS-12, EMS-14, DMR-11, DMR-12, UM-7."""
    source, subject, found = message.node, message.subject, Owed()
    rules = phase.rules
    policies = [(wish, phase.policy(wish)) for wish in phase.wishes]
    exported: dict[str, list[str]] = {}
    for wish, policy in policies:
        if policy == "every" and not wish.noexport:
            exported.setdefault(wish.node, []).append(wish.filter)
    copies = rules.copies(source, subject, exported)
    copies = {
        node: way
        for node, way in copies.items()
        if phase.lets(way, message) and phase.carries(way, message)
    }
    found.links = {way.links[-1]: None for way in copies.values()}
    ways = {source: Way((source,))}
    for way in naive_ways(phase.topology, source):
        if not phase.carries(way, message):
            continue
        if not any(way.filters) and not any(rules.keeps(node, subject) for node in way.nodes):
            ways[way.nodes[-1]] = way
    shared: dict[str, dict[str, None]] = {}
    passed: dict[str, None] = {}
    for wish, policy in policies:
        if policy in ("home", "any") and naive_matches(wish.filter, subject):
            home = phase.topology.queues[wish.endpoint.upper()].home if policy == "home" else None
            is_near = wish.node in ways and (not home or len(ways[wish.node].nodes) <= 2)
            if is_near and home in (None, wish.node):
                shared.setdefault(wish.endpoint, {})[wish.node] = None
    for queue, nodes in shared.items():
        best = min(nodes, key=lambda node: (len(ways[node].nodes), node))
        found.must[f"{best}/{queue}"] = None
        found.links.update(dict.fromkeys(ways[best].links))
        passed.update(dict.fromkeys(ways[best].nodes))
    for wish, policy in policies:
        if policy not in ("every", "local") or not naive_matches(wish.filter, subject):
            continue
        at_end = copies.get(wish.node)
        if wish.node == source or (
            at_end is not None and (policy == "every" or at_end.filters[-1] is not None)
        ):
            found.must[f"{wish.node}/{wish.endpoint}"] = None
        elif wish.noexport and policy == "every" and wish.node in passed:
            found.may[f"{wish.node}/{wish.endpoint}"] = None  # what comes for others of its node
    return found


def random_wishes(rng: random.Random, nodes: Sequence[str]) -> list[Subscribe]:
    wishes: dict[tuple[str, str, str], Subscribe] = {}
    for _ in range(rng.randint(6, 18)):
        node, filter_ = rng.choice(nodes), rng.choice(["a/>", ">", random_filter(rng)])
        name = rng.choice(["e0", "e1", *DECLARED, *DECLARED, *UNDECLARED])
        wish: dict[str, object] = {"node": node, "endpoint": name, "filter": filter_}
        wish["noexport"] = rng.random() < (0.1 if name[0] == "q" else 0.3)
        if name[0] == "q":
            wish["kind"] = "queue"
            wish["policy"] = UNDECLARED.get(name)
            wish["filter"] = filter_ = rng.choice([">", "a/>", "*", filter_])
        wishes[node, name, filter_] = Subscribe.model_validate(wish)
    return list(wishes.values())


def random_rest(
    rng: random.Random, topology: Topology, wishes: Sequence[Subscribe]
) -> dict[str, object]:
    """Draw all that stands in a spec beside nodes and zones."""
    nodes = sorted(topology.nodes)
    ways = [pair for link in topology.links for pair in (link.ends, link.ends[::-1])]
    senders = [way for way in ways if topology.sends(*way)]
    policies = {name: rng.choice(["every", "local", "home", "any", "any"]) for name in DECLARED}
    asked = [(one.node, one.endpoint, one.filter) for one in wishes]
    controls = random_controls(rng, nodes, asked)
    return {
        "interest": controls if rng.random() < 0.6 else [],
        "selectors": [
            {"link": list(way), "from": way[0], "when": rng.choice(list(VERDICTS))}
            for way in rng.choices(senders, k=rng.randint(0, len(senders)))
        ],
        "queues": {
            name.upper(): {
                "policy": policy,
                "home": rng.choice(nodes) if policy == "home" else None,
            }
            for name, policy in policies.items()
        },
        "covering": rng.random() < 0.5,
    }


def random_message(rng: random.Random, nodes: Sequence[str], *, most: int = 4) -> Step:
    message = {
        "node": rng.choice(nodes),
        "subject": random_subject(rng),
        "count": rng.randint(1, most),
        "key": rng.choice([None, "k1"]),
        "headers": random_headers(rng),
    }
    return Publish.model_validate(message)


def faulty(rng: random.Random, nodes: Sequence[str]) -> Iterator[Step]:
    """Yield messages while nodes die and come again; in the end all are up."""
    down: dict[str, None] = {}
    for _ in range(rng.randint(6, 14)):
        move = rng.choice(["publish", "publish", "kill", "start"])
        if move == "publish":
            yield random_message(rng, nodes)
        elif move == "kill" and (up := [node for node in nodes if node not in down]):
            down[node := rng.choice(up)] = None
            yield Kill(node=node)
        elif move == "start" and down:
            del down[node := rng.choice(list(down))]
            yield Start(node=node)
    for node in down:
        yield Start(node=node)
    yield Settle()


def random_interplay(
    seed: int, *, changes: int = 0, faults: bool = False, losses: bool = False
) -> tuple[Scenario, list[Phase]]:
    """Return a scenario, and what is in force from its start and from each `apply` on."""
    rng = random.Random(f"interplay {seed}")
    drawn = random_legal_topology(
        rng, nodes_max=rng.choice([4, 7]), lanes_max=2, joined=seed % 3 == 0
    )
    nodes = sorted(drawn.nodes)
    wishes = random_wishes(rng, nodes)
    bare = {"interest": [], "selectors": [], "queues": {}, "covering": False}
    spec: dict[str, object] = {**topology_spec(drawn), **bare}
    phases, proposals = list[Phase](), {}
    steps = list[Step](wishes)
    mesh: Mesh | None = None
    for number in range(changes + 1):
        rest = random_rest(rng, drawn, wishes)
        phases.append(Phase({**spec, **rest}, wishes))
        if mesh is None:
            mesh = Mesh(spec=phases[0].spec, topology=phases[0].topology)
        else:
            proposal = propose(mesh, rest, dotted)
            assert proposal.mesh is not None, proposal.problems
            mesh, proposals[len(steps)] = proposal.mesh, proposal
            steps.append(Apply())
        steps.append(Settle())
        if faults and number == 0:
            steps += faulty(rng, nodes)
        else:
            for _ in range(rng.randint(6, 12)):
                steps.append(random_message(rng, nodes))
                if losses:
                    steps.append(Drain())
        if losses:  # what comes behind shows the holes
            said = [named for named in steps if isinstance(named, Publish)]
            steps += [one.model_copy(update={"count": 4, "key": None}) for one in said]
        steps.append(Drain())
    scenario = Scenario(
        name=f"interplay-{seed}",
        seed=seed,
        audit=False,
        topology=phases[0].topology,
        steps=tuple(steps),
        proposals=proposals,
    )
    return scenario, phases
