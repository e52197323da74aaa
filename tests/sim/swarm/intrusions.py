"""What a number draws of strangers: what they write, and what brokers do meanwhile."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from mesh.model.frames import MessageClass
from tests.sim.swarm.moves import random_filter, random_subject
from tests.sim.swarm.plan import Plan, Step
from tests.sim.swarm.strangers import ODD, STRANGE, STRAY

LASTS_MS = (500, 2_000, 6_000, 12_000)
"""How long a topic is refused or a partition has no leader."""
STALLS_MS = (300, 800, 1_500)
"""How long nobody reads an outbox before frames vanish there."""
PARTED_MS = 14_000
"""How long a standby does not hear a neighbour: longer than a node waits for a silent one."""
HIDING_SHARE, HIDDEN_MS = 0.03, 130_000
"""How often, and for how long, groups are hidden: what was read is deleted once a minute."""
HOSTILE_SHARE, HOSTILE = 0.1, "hostile"
"""How often a client has filters of more wildcard shapes than are looked up one by one, and what
its endpoint is called. It wants all besides, so no copy that it gets is needless: what others get
must be what they asked for."""
STRANGERS = ("e2", "e3")
"""Endpoints that come into being under what strangers do."""


def draw_intrusions(rng: random.Random, plan: Plan, length: int) -> Iterator[Step]:
    """Yield what strangers do, what brokers do to them, and what clients do there."""
    if rng.random() < HIDING_SHARE:
        yield Step(300, "hide", rng.choice(sorted(plan.oracle.topology.kafka)), {"for": HIDDEN_MS})
        return
    # Each schedule has its own kinds: some states need the same fault again and again.
    kinds = rng.sample(sorted(STRANGE), rng.randint(1, 4))
    weighted = [kind for kind, times in STRANGE.items() for _ in range(times) if kind in kinds]
    # What two outboxes have lost of the same message nobody can send again.
    torn = rng.choice(sorted(_outboxes(plan, MessageClass.GUARANTEED)))
    for _ in range(rng.choice([1, 2, 3, 5, 8])):
        yield from _draw(rng, plan, rng.randrange(300, length), rng.choice(weighted), torn)


def draw_hostile(plan: Plan, length: int) -> Iterator[Step]:
    """Yield what a client with too many shapes asks for; it is drawn beside all else."""
    rng = random.Random(f"hostile {plan.seed}")
    if rng.random() >= HOSTILE_SHARE:
        return
    node, at = rng.choice(sorted(plan.oracle.topology.nodes)), rng.randrange(length // 2)
    shapes = ["/".join(levels) for levels in itertools.product("*a", repeat=7) if "*" in levels]
    for filter_ in (">", *rng.sample(shapes, 100)):
        more = {"endpoint": HOSTILE, "filter": filter_, "of": MessageClass.GUARANTEED}
        yield Step(at, "subscribe", node, more)


def _outboxes(plan: Plan, of: MessageClass) -> list[str]:
    return [name for name, (_, _, its) in plan.oracle.outboxes.items() if its is of]


def _draw(rng: random.Random, plan: Plan, at: int, word: str, torn: str) -> Iterator[Step]:
    names, nodes = plan.oracle.names, sorted(plan.oracle.topology.nodes)
    node, partition = rng.choice(nodes), rng.randrange(6)
    fresh = names.endpoint(node, rng.choice(STRANGERS))
    match word:
        case "odd":
            topic, what = rng.choice(sorted(plan.oracle.ingresses)), rng.choice(sorted(ODD))
            yield Step(at, word, topic, {"partition": partition, "what": what})
        case "stray":
            outbox = rng.choice(sorted(plan.oracle.outboxes))
            outbox = rng.choice([outbox, torn, torn])
            yield Step(
                at, word, outbox, {"partition": partition, "what": rng.choice(sorted(STRAY))}
            )
        case "vanish":
            yield Step(at, word, torn, {"for": rng.choice(STALLS_MS)})
        case "refuse":
            yield Step(at, word, fresh, {"for": rng.choice(LASTS_MS)})
            yield _subscribe(rng, at + 20, node, fresh)
        case "leaderless":
            usual = [names.endpoint(node, f"e{number}") for number in (0, 1)]
            topic = rng.choice([*usual, fresh, rng.choice(sorted(plan.oracle.outboxes))])
            if topic in plan.oracle.outboxes and partition % 3 == 0:
                topic = names.to_control(*plan.oracle.outboxes[topic][:2])
            yield Step(at, word, topic, {"partition": partition, "for": rng.choice(LASTS_MS)})
            for later in (500, 4_500, 5_500):
                yield _publish(rng, at + later, rng.choice(nodes))
        case "made":
            yield Step(at, word, fresh, {})
            yield _subscribe(rng, at + 20, node, fresh)
            for _ in range(rng.choice([1, 3])):
                later = at + rng.choice([300, 1_000, 3_000])
                yield Step(later, "expire", plan.oracle.topology.nodes[node].kafka)
        case "expire":
            yield Step(at, word, plan.oracle.topology.nodes[node].kafka)
        case "apart":
            yield from _parted(rng, plan, at)


def _subscribe(rng: random.Random, at: int, node: str, topic: str) -> Step:
    more = {"filter": random_filter(rng), "of": MessageClass.GUARANTEED}
    return Step(at, "subscribe", node, {"endpoint": topic.rpartition(".")[2], **more})


def _publish(rng: random.Random, at: int, node: str) -> Step:
    more = {"subject": random_subject(rng), "count": 2, "key": "", "of": MessageClass.GUARANTEED}
    return Step(at, "publish", node, more)


def _parted(rng: random.Random, plan: Plan, at: int) -> Iterator[Step]:
    """Have the mate of a worker that dies know less than it: what a neighbour wants is new."""
    topology = plan.oracle.topology
    paired = [name.removesuffix("/1") for name in plan.workers if name.endswith("/1")]
    paired = [node for node in paired if topology.neighbours(node)]
    if not paired:
        return
    node = rng.choice(paired)
    neighbour = rng.choice(sorted(topology.neighbours(node)))
    deaf, dies = rng.sample(range(2), 2)
    yield Step(at, "apart", f"{node}/{deaf}", {"from": neighbour, "for": PARTED_MS})
    wanted, other = rng.sample(STRANGERS, 2)
    more = {"filter": ">", "of": MessageClass.GUARANTEED}
    yield Step(at + 200, "subscribe", neighbour, {"endpoint": wanted, **more})
    if rng.random() < 0.3:  # all that the one who is deaf knows of that filter
        live = {"endpoint": "live", "filter": ">", "of": MessageClass.DIRECT}
        yield Step(max(0, at - 250), "subscribe", neighbour, live)
    end = at + rng.choice([1_500, 2_500, 5_000])
    if rng.random() < 0.5:  # what is kept of the first is written anew before that
        yield _subscribe(rng, at + 2_600, neighbour, other)
    yield Step(end, "kill", f"{node}/{dies}", {"back": PARTED_MS, "tiny": False})
    for _ in range(3):
        yield _publish(rng, end + rng.choice([500, 2_500, 7_500]), node)
