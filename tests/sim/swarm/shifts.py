"""What goes on in schedules of live changes: topologies that follow each other, and who drives."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mesh.model.frames import MessageClass
from tests.sim.swarm.eras import Eras
from tests.sim.swarm.moves import draw_moves, random_filter, random_subject
from tests.sim.swarm.oracle import Oracle
from tests.sim.swarm.plan import Plan, Step, in_order
from tests.sim.swarm.targets import next_topologies
from tests.sim.swarm.troubles import draw_fault, draw_faults

CALM_SHARE = 0.2
LAGGING_SHARE = 0.6
"""So often readers of links lag when a change begins, until sources hold and on."""
AROUND = ("cut", "cut", "cut", "cut", "late", "pause", "stall", "storm", "kill", "tiny")
AFTER_MS = 2_000
"""So long clients go on after the last change has begun."""


def draw_changes(rng: random.Random, plan: Plan) -> Plan:
    """Return what happens to a mesh whose topology changes."""
    first, seed = plan.oracle, plan.seed
    count = rng.choice([1, 1, 2, 2, 3])
    after = next_topologies(rng, first.topology, count, joined=seed.has_joins)
    targets = [Oracle(one) for one in after]
    every = Eras([first, *targets])
    nodes = sorted(every.topology.nodes)
    crew = [
        *plan.crew,
        *(
            f"{node}/{number}"
            for node in nodes
            if node not in first.topology.nodes
            for number in range(rng.choice([1, 1, min(2, every.topology.nodes[node].lanes)]))
        ),
    ]
    length = rng.choice([2_000, 3_000, 3_000, 6_000])
    moves = [*draw_moves(rng, plan, nodes, length), *_load(rng, nodes, length)]
    steps = _lagging(rng, every, _changes(rng, len(targets), length))
    if rng.random() >= CALM_SHARE:
        steps += draw_faults(rng, every, crew, length)
        steps += _disabled(rng, every, length)
    if rng.random() < 0.5:
        steps += _around(rng, every, crew, steps)
    return replace(plan, moves=in_order(moves), faults=in_order(steps), targets=targets, crew=crew)


def _load(rng: random.Random, nodes: Sequence[str], length: int) -> Iterator[Step]:
    """Yield wishes of many, and messages all the time."""
    for node in nodes:
        if rng.random() < 0.7:
            of = MessageClass.GUARANTEED
            more = {"endpoint": "s", "filter": rng.choice([">", ">", random_filter(rng)]), "of": of}
            yield Step(rng.choice([0, 0, 0, rng.randrange(length)]), "subscribe", node, more)
    every_ms = rng.choice([20, 40, 80])
    for at in range(150, length + AFTER_MS, every_ms):
        more = {
            "subject": random_subject(rng),
            "count": rng.choice([1, 1, 2]),
            "key": rng.choice(["", "k"]),
            "of": rng.choice([MessageClass.GUARANTEED] * 4 + [MessageClass.DIRECT]),
        }
        yield Step(at, "publish", rng.choice(nodes), more)


def _changes(rng: random.Random, count: int, length: int) -> Iterator[Step]:
    for number in range(count):
        at = rng.randrange(100, max(200, length * (number + 1) // count))
        more: dict[str, object] = {"to": number, "for": rng.choice([1_500, 3_000])}
        how = rng.random()
        if how < 0.25:
            more |= {"looks": rng.choice([1, 2, 5, 20, 60, 80, 100])}
        elif how < 0.45:
            more |= {"crash": rng.choice([1, 2, 3, 4, 5, 6, 8])}
        if how < 0.45:
            more |= {"again": rng.choice([0, 30, 300, 1_500])}
        yield Step(at, "change", "operator", more)
        if rng.random() < 0.25:
            yield Step(at + rng.choice([1_050, 1_200, 1_500, 2_500]), "abort", "operator", {})


def _lagging(rng: random.Random, every: Eras, steps: Iterable[Step]) -> list[Step]:
    """Return the steps with outboxes that nobody can read when they begin.

    Whoever changes the topology must wait for them: nothing else stands long in links.
    """
    found = []
    for step in steps:
        if step.word == "change" and rng.random() < LAGGING_SHARE:
            topics = rng.sample(sorted(every.outboxes), rng.randint(1, len(every.outboxes)))
            lags = tuple((topic, rng.choice([800, 1_500, 3_000])) for topic in topics)
            step = replace(step, more={**step.more, "lags": lags})
        found.append(step)
    return found


def _around(
    rng: random.Random, every: Eras, crew: Sequence[str], steps: Sequence[Step]
) -> Iterator[Step]:
    """Yield what goes wrong while sources hold: then old links carry something for longer."""
    for change in [step for step in steps if step.word == "change"]:
        for _ in range(rng.choice([1, 2, 3])):
            at = change.at + rng.choice([0, 300, 700, 900, 1_000, 1_100])
            yield draw_fault(rng, every, crew, at, rng.choice(AROUND))


def _disabled(rng: random.Random, every: Eras, length: int) -> Iterator[Step]:
    while rng.random() < 0.2:
        ends = rng.sample(rng.choice(list(every.topology.links)).ends, 2)
        lasts = rng.choice([300, 1_500, 4_000])
        yield Step(rng.randrange(length), "disable", ends[0], {"from": ends[1], "for": lasts})
