"""What goes wrong in a schedule: faults that mend themselves, and losses."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from mesh.model.frames import MessageClass
from mesh.transport.memory_faults import Call, Outcome
from tests.sim.swarm.eras import Eras
from tests.sim.swarm.moves import random_filter
from tests.sim.swarm.oracle import Oracle
from tests.sim.swarm.plan import Step

CRASH_CALLS = (
    Call.OPEN, Call.OPENED, Call.BEGIN, Call.PRODUCE, Call.COMMIT, Call.COMMITTED,
    Call.CREATE, Call.CREATED, Call.READ, Call.POLL,
)  # fmt: skip
FAULTS = (
    "kill", "stop", "crash", "crash", "outcome", "outcome", "pause", "cut",
    "brokers", "late", "tiny", "stall", "join", "leave", "deny", "storm", "storm", "deaf",
)  # fmt: skip
LOSSES = ("truncate", "truncate", "overtake", "overtake", "remake", "rest", "hush", "narrow")
"""What is lost on purpose, stands still because somebody wants it, or is refused for what it is."""
LASTS_MS = (*(30, 200, 800, 2500) * 8, 11_000)
"""How long faults last; seldom so long that neighbours are taken for down. Spec: K32."""
SLOW = (0, 0, 3, 12, 50)
"""How late the steps of takings come: at once, soon, or after lanes may have moved on."""
PAUSES_MS = (*(300, 700, 700, 2200) * 4, 7000)
"""How long workers stand still: shorter and longer than the session timeout."""


def draw_faults(
    rng: random.Random, made: Oracle | Eras, workers: Sequence[str], length: int
) -> list[Step]:
    """Return what goes wrong."""
    # Each schedule has its own kinds: some states need the same fault again and again.
    kinds = rng.sample(sorted(set(FAULTS)), rng.randint(1, 4))
    weighted = [kind for kind in FAULTS if kind in kinds]
    found = []
    for _ in range(rng.choice([1, 1, 2, 3, 6])):
        at = rng.randrange(0 if rng.random() < 0.2 else 150, length)
        found.append(draw_fault(rng, made, workers, at, rng.choice(weighted)))
    return sorted(found, key=lambda step: step.at)


def draw_fault(
    rng: random.Random, made: Oracle | Eras, workers: Sequence[str], at: int, word: str
) -> Step:
    """Return a fault of one kind."""
    worker = rng.choice(workers)
    topology = made.topology
    back = rng.choice(LASTS_MS)
    match word:
        case "crash":
            call = rng.choice(CRASH_CALLS)
            nth = rng.choice([1, 1, 2, 3, rng.randint(1, 30)])
            return Step(at, word, worker, {"call": call, "nth": nth, "back": back})
        case "outcome":
            call = rng.choice([Call.BEGIN, Call.COMMIT, Call.COMMIT, Call.COMMIT])
            nth = rng.choice([1, 1, 2, 3, 5])
            more = {"call": call, "outcome": rng.choice(list(Outcome)), "nth": nth}
            return Step(at, word, worker, more)
        case "storm":
            more = {"every": rng.choice([3, 5, 6, 6, 10]), "outcome": rng.choice(list(Outcome))}
            return Step(at, word, worker, {**more, "for": back})
        case "cut":
            link = rng.choice(topology.links)
            return Step(at, word, link.ends[0], {"from": link.ends[1], "for": back})
        case "brokers":
            return Step(at, word, rng.choice(sorted(topology.kafka)), {"for": back})
        case "stall":
            more = {"by": rng.choice([0, 0, 1]), "for": back}
            return Step(at, word, rng.choice(sorted(made.readers)), more)
        case "deny":
            topic = rng.choice(sorted([*made.outboxes, *_progress(made)]))
            return Step(at, word, topic, {"for": back})
        case "join":
            node = worker.partition("/")[0]
            return Step(at, word, f"{node}/{rng.randrange(2, 4)}", {})
        case "pause" | "deaf":
            return Step(at, word, worker, {"for": rng.choice(PAUSES_MS)})
        case "kill" | "stop":
            return Step(at, word, worker, {"back": back, "tiny": rng.random() < 0.4})
        case "leave":
            return Step(at, word, worker, {})
        case _:
            return Step(at, word, worker, {"for": back})


def draw_losses(rng: random.Random, made: Oracle, length: int) -> Iterator[Step]:
    kinds = rng.sample(LOSSES, rng.randint(1, 4))
    outboxes = [name for name, (_, _, of) in made.outboxes.items() if of is MessageClass.GUARANTEED]
    ingresses = [one for one, (_, of) in made.ingresses.items() if of is MessageClass.GUARANTEED]
    nodes = sorted(made.topology.nodes)
    share = rng.random()
    damaged = sorted(ingresses) if share < 0.5 else [rng.choice(sorted(outboxes))]
    if meet := 0.24 < share < 0.35:  # announcements of a loss may be lost themselves
        damaged = [*damaged, rng.choice(sorted(outboxes))]
    for _ in range(rng.choice([1, 2, 3, 5, 8])):
        at, word = rng.randrange(300, length), rng.choice(kinds)
        log = rng.choice(damaged)
        lasts = rng.choice([500, 2_000, 5_000])
        match word:
            case "truncate":
                more = {"partition": rng.randrange(6), "records": rng.choice([1, 1, 2, 5])}
                yield Step(at, word, log, more)
            case "overtake":
                share = rng.choice([0.5, 1.0, 1.0])
                yield Step(at, word, log, {"partition": rng.randrange(6), "share": share})
            case "remake" if meet and log in ingresses:
                pass  # what an announcement of that is lost with can be told of no more
            case "remake":
                yield Step(at, word, log, {"again": rng.random() < 0.7})
            case "rest":
                link = made.topology.links[rng.randrange(len(made.topology.links))]
                reader, writer = rng.sample(link.ends, 2)
                yield Step(at, word, reader, {"from": writer, "for": lasts})
            case "hush":
                more = {"filter": random_filter(rng), "for": lasts}
                yield Step(at, word, rng.choice(nodes), more)
            case "narrow":
                endpoints = [made.names.endpoint(node, f"e{at}") for node in nodes for at in (0, 1)]
                yield Step(at, word, rng.choice(endpoints + sorted(outboxes)), {})


def _progress(made: Oracle | Eras) -> list[str]:
    return [made.names.progress(node) for node in made.topology.nodes]
