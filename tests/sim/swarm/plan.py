"""What one seed draws: a topology, what clients do, and what goes wrong, all by virtual time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.frames import MessageClass
from mesh.transport.memory_faults import Call, Outcome
from tests.sim.swarm.eras import Eras
from tests.sim.swarm.oracle import POOL, Oracle, oracle

LEVELS = ("a", "b")
CHANGING = range(5_000_000, 6_000_000)
CALM_SHARE = 0.25
"""So many schedules have no fault at all."""

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
LARGE = 700
"""Bytes of a message that a narrow target refuses."""
LASTS_MS = (*(30, 200, 800, 2500) * 8, 11_000)
"""How long faults last; seldom so long that neighbours are taken for down. Spec: K32."""
SLOW = (0, 0, 3, 12, 50)
"""How late the steps of takings come: at once, soon, or after lanes may have moved on."""
PAUSES_MS = (*(300, 700, 700, 2200) * 4, 7000)
"""How long workers stand still: shorter and longer than the session timeout."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens at one moment of virtual time, in ms.

    Attributes:
        word: What.
        who: A node, a worker (`node/number`), a Kafka cluster or a topic.
        more: The rest, by name.
    """

    at: int
    word: str
    who: str
    more: Mapping[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in self.more.items())
        return f"{self.at:6d} ms  {self.word} {self.who} {told}".rstrip()


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule.

    Attributes:
        seed: Decides also the order of turns.
        oracle: The topology and what it demands.
        workers: The workers that are there from the start.
        moves: What clients do.
        faults: What goes wrong; each mends itself.
        session_ms: How long a silent member keeps its lanes.
        slow: Each step of a taking comes at most so many looks late.
        consent_ms: After how long an operator accepts a loss; 0 if nothing is lost on purpose.
        targets: The topologies that operators may put in force.
        crew: All workers that may be there, those of new nodes included; if that may change.
    """

    seed: int
    oracle: Oracle
    workers: Sequence[str]
    moves: Sequence[Step]
    faults: Sequence[Step]
    session_ms: int
    slow: int = 0
    consent_ms: int = 0
    targets: Sequence[Oracle] = ()
    crew: Sequence[str] = ()

    def lines(self) -> list[str]:
        """Return the schedule as people read it."""
        lines: list[str] = []
        for number, one in enumerate([self.oracle, *self.targets]):
            if self.targets:
                lines.append(f"target {number - 1}" if number else "topology")
            lines += one.lines()
        lines.append(f"workers {', '.join(self.workers)}; session timeout {self.session_ms} ms")
        lines.append(f"steps of takings come up to {self.slow} looks late")
        steps = sorted([*self.moves, *self.faults], key=lambda step: step.at)
        return lines + [str(step) for step in steps]


def draw(seed: int) -> Plan:
    """Return the schedule of a seed."""
    rng = random.Random(f"plan {seed}")
    is_lossy = has_losses(seed)
    made = oracle(rng.randrange(POOL), joined=has_joins(seed), limited=is_lossy)
    nodes = sorted(made.topology.nodes)
    workers = [
        f"{node}/{number}"
        for node in nodes
        for number in range(rng.choice([1, 1, 2] if made.topology.nodes[node].lanes > 1 else [1, 1, 1, 2]))
    ]  # fmt: skip
    length = rng.choice([600, 1500, 1500, 3000])
    moves = draw_moves(random.Random(f"moves {seed}"), nodes, length)
    faults: list[Step] = []
    if rng.random() >= CALM_SHARE:
        faults = draw_faults(random.Random(f"faults {seed}"), made, workers, length)
    session_ms = rng.choice([500, 500, 500, 500, 1500, 1500, 6000])
    slow = random.Random(f"slow {seed}").choice(SLOW)
    if not is_lossy:
        return Plan(seed, made, workers, moves, faults, session_ms, slow)
    lossy = random.Random(f"losses {seed}")
    length = lossy.choice([2_000, 6_000, 12_000, 20_000])
    moves = sorted([*moves, *_more_moves(lossy, made, length)], key=lambda step: step.at)
    faults = sorted([*faults, *_losses(lossy, made, length)], key=lambda step: step.at)
    consent_ms = lossy.choice([300, 2_000, 8_000])
    return Plan(seed, made, workers, moves, faults, session_ms, slow, consent_ms)


def has_joins(seed: int) -> bool:
    """Say whether the topology of a seed has joins: those of every second thousand have."""
    return seed // 1000 % 2 == 1


def has_losses(seed: int) -> bool:
    """Say whether logs lose records, and more, in the schedule of a seed.

    That is so in thousands that end in 8, and in 9 with joins; all others stay what they were.
    """
    return seed // 1000 % 10 in (8, 9) and not has_changes(seed)


def has_changes(seed: int) -> bool:
    """Say whether the topology changes in the schedule of a seed: see `shifts.py`."""
    return seed in CHANGING


def random_filter(rng: random.Random) -> str:
    """Return a filter over few levels, so that many match."""
    levels = [rng.choice([*LEVELS, "*"]) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.4:
        levels[-1] = ">"
    return "/".join(levels)


def draw_moves(rng: random.Random, nodes: Sequence[str], length: int) -> list[Step]:
    """Return what clients do at some nodes."""
    moves: list[Step] = []
    wishes: list[tuple[str, str, str]] = []
    classes: dict[tuple[str, str], MessageClass] = {}

    def subscribe(at: int) -> None:
        node, endpoint = rng.choice(nodes), f"e{rng.randrange(2)}"
        # An endpoint has one class.
        drawn = rng.choice([MessageClass.GUARANTEED] * 3 + [MessageClass.DIRECT])
        of = classes.setdefault((node, endpoint), drawn)
        filter_ = random_filter(rng)
        wishes.append((node, endpoint, filter_))
        moves.append(
            Step(at, "subscribe", node, {"endpoint": endpoint, "filter": filter_, "of": of})
        )

    for _ in range(rng.choice([1, 1, 2, 3, 5])):
        subscribe(rng.choice([0, 0, 0, rng.randrange(400)]))
    is_changing = rng.random() < 0.5
    for _ in range(rng.choice([2, 4, 4, 8, 12])):
        at = rng.randrange(100, length)
        if is_changing and rng.random() < 0.25:
            if wishes and rng.random() < 0.5:
                node, endpoint, filter_ = wishes.pop(rng.randrange(len(wishes)))
                more = {"endpoint": endpoint, "filter": filter_}
                moves.append(Step(at, "unsubscribe", node, more))
            else:
                subscribe(at)
            if rng.random() < 0.5:
                continue
            # What changes the routing meets messages in the same fetch.
            place = moves[-1].who
        else:
            place = rng.choice(nodes)
        subjects = [
            "/".join(rng.choice(LEVELS) for _ in range(rng.randint(1, 2)))
            for _ in range(rng.choice([1, 1, 2]))
        ]
        more = {
            "subject": ",".join(subjects),
            "count": rng.choice([1, 1, 2, 3, 8]),
            "key": rng.choice(["", "", "k"]),
            "of": rng.choice([MessageClass.GUARANTEED] * 2 + [MessageClass.DIRECT]),
        }
        moves.append(Step(at, "publish", place, more))
    return sorted(moves, key=lambda step: step.at)


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


def _more_moves(rng: random.Random, made: Oracle, length: int) -> Iterator[Step]:
    """Yield what clients do besides: messages over a longer time, some of them large."""
    nodes = sorted(made.topology.nodes)
    for _ in range(rng.choice([6, 12, 24])):
        more = {
            "subject": "/".join(rng.choice(LEVELS) for _ in range(rng.randint(1, 2))),
            "count": rng.choice([1, 2, 4]),
            "key": rng.choice(["", "k"]),
            "of": MessageClass.GUARANTEED,
            "size": rng.choice([0, 0, 0, 0, LARGE]),
        }
        yield Step(rng.randrange(300, length), "publish", rng.choice(nodes), more)


def _losses(rng: random.Random, made: Oracle, length: int) -> Iterator[Step]:
    kinds = rng.sample(LOSSES, rng.randint(1, 4))
    outboxes = [name for name, (_, _, of) in made.outboxes.items() if of is MessageClass.GUARANTEED]
    ingresses = [one for one, (_, of) in made.ingresses.items() if of is MessageClass.GUARANTEED]
    nodes = sorted(made.topology.nodes)
    # What an announcement is lost with can be told of no more: one kind of log loses records.
    damaged = sorted(ingresses) if rng.random() < 0.5 else [rng.choice(sorted(outboxes))]
    for _ in range(rng.choice([1, 2, 3, 5, 8])):
        at, word = rng.randrange(300, length), rng.choice(kinds)
        log = rng.choice(damaged)
        lasts = rng.choice([500, 3_000, 9_000])
        match word:
            case "truncate":
                more = {"partition": rng.randrange(6), "records": rng.choice([1, 1, 2, 5])}
                yield Step(at, word, log, more)
            case "overtake":
                share = rng.choice([0.5, 1.0, 1.0])
                yield Step(at, word, log, {"partition": rng.randrange(6), "share": share})
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
