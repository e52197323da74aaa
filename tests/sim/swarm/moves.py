"""What clients do in a schedule: subscriptions that come and go, and messages."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from mesh.model.frames import MessageClass
from tests.sim.meshes import naive_matches
from tests.sim.swarm.oracle import Oracle
from tests.sim.swarm.plan import Plan, Step, in_order
from tests.sim.swarm.seeds import Family

LEVELS = ("a", "b")
LARGE = 700
"""Bytes of a message that a narrow target refuses."""
KNOWN_MS = 300
"""So long after it began a wish is known everywhere, mostly."""
STARTED_MS = 1_000
"""So long after its start a mesh serves, mostly."""
PROMISED_MIN = 2
PUBLISHED = (4, 8, 8, 12, 20)
"""So often clients do something."""
GUARANTEED = MessageClass.GUARANTEED


def random_filter(rng: random.Random) -> str:
    """Return a filter over few levels, so that many match."""
    levels = [rng.choice([*LEVELS, "*"]) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.4:
        levels[-1] = ">"
    return "/".join(levels)


class Clients:
    """Draws what clients do, and knows what they want and of which class each endpoint is.

    Attributes:
        steps: What was drawn.
    """

    def __init__(
        self, rng: random.Random, nodes: Sequence[str], known: Sequence[Step] = ()
    ) -> None:
        self._rng = rng
        self._nodes = nodes
        self.steps: list[Step] = []
        self._wishes = [_wish_of(step) for step in known]
        self._classes = {_wish_of(step)[:2]: MessageClass(step.more["of"]) for step in known}

    def subscribe(self, at: int) -> None:
        """Want something at an endpoint, which has one class."""
        rng = self._rng
        node, endpoint = rng.choice(self._nodes), f"e{rng.randrange(2)}"
        drawn = rng.choice([MessageClass.GUARANTEED] * 3 + [MessageClass.DIRECT])
        of = self._classes.setdefault((node, endpoint), drawn)
        more = {"endpoint": endpoint, "filter": random_filter(rng), "of": of}
        self.steps.append(Step(at, "subscribe", node, more))
        self._wishes.append(_wish_of(self.steps[-1]))

    def change_mind(self, at: int) -> None:
        """End a subscription, or begin another."""
        if not self._wishes or self._rng.random() < 0.5:
            self.subscribe(at)
            return
        node, endpoint, filter_ = self._wishes.pop(self._rng.randrange(len(self._wishes)))
        self.steps.append(Step(at, "unsubscribe", node, {"endpoint": endpoint, "filter": filter_}))

    def publish(self, at: int, node: str | None = None) -> None:
        """Publish some messages at a node."""
        rng = self._rng
        subjects = [random_subject(rng) for _ in range(rng.choice([1, 1, 2]))]
        more = {
            "subject": ",".join(subjects),
            "count": rng.choice([1, 1, 2, 3, 8]),
            "key": rng.choice(["", "", "k"]),
            "of": rng.choice([MessageClass.GUARANTEED] * 2 + [MessageClass.DIRECT]),
        }
        self.steps.append(Step(at, "publish", node or rng.choice(self._nodes), more))


def random_subject(rng: random.Random) -> str:
    """Return a subject over few levels."""
    return "/".join(rng.choice(LEVELS) for _ in range(rng.randint(1, 2)))


def draw_wishes(rng: random.Random, nodes: Sequence[str], family: Family) -> list[Step]:
    """Return what clients want of a mesh before anything happens."""
    clients = Clients(rng, nodes)
    # Who wants nothing misses nothing: where losses are the point more is wanted.
    for _ in range(rng.choice([3, 4, 6] if family is Family.LOSSES else [1, 2, 2, 3])):
        clients.subscribe(0)
    return clients.steps


def draw_moves(rng: random.Random, plan: Plan, nodes: Sequence[str], length: int) -> list[Step]:
    """Return what clients do at some nodes; drawn again as long as it would prove nothing."""
    known = plan.moves if plan.before is None else plan.before.moves
    from_ms = STARTED_MS if plan.before is None else 0
    while True:
        moves = in_order(_moves(rng, nodes, length, known))
        if promised(plan.oracle, known, moves, from_ms) >= PROMISED_MIN:
            return [*plan.moves, *moves]


def _moves(
    rng: random.Random, nodes: Sequence[str], length: int, known: Sequence[Step]
) -> Sequence[Step]:
    clients = Clients(rng, nodes, known)
    for _ in range(rng.choice([0, 0, 1, 2])):
        clients.subscribe(rng.choice([0, 0, 0, rng.randrange(400)]))
    is_changing = rng.random() < 0.5
    for _ in range(rng.choice(PUBLISHED)):
        at = rng.randrange(length)
        if not is_changing or rng.random() >= 0.25:
            clients.publish(at)
            continue
        clients.change_mind(at)
        if rng.random() < 0.5:
            # What changes the routing meets messages in the same fetch.
            clients.publish(at, clients.steps[-1].who)
    return clients.steps


def draw_more_moves(rng: random.Random, nodes: Sequence[str], length: int) -> Iterator[Step]:
    """Yield what clients do besides: messages over a longer time, some of them large."""
    for _ in range(rng.choice([12, 24, 48])):
        more = {
            "subject": random_subject(rng),
            "count": rng.choice([1, 2, 4]),
            "key": rng.choice(["", "k"]),
            "of": MessageClass.GUARANTEED,
            "size": rng.choice([0, 0, 0, 0, LARGE]),
        }
        yield Step(rng.randrange(300, length), "publish", rng.choice(nodes), more)


def promised(oracle: Oracle, known: Sequence[Step], moves: Sequence[Step], from_ms: int) -> int:
    """Count what must come over links if nothing goes wrong: publications times guaranteed wishes.

    Args:
        oracle: Says where messages may go.
        known: What is wanted before anything else happens.
        moves: What clients do.
        from_ms: Whoever publishes sooner may find a mesh that does not serve yet.
    """
    since = {_wish_of(step): -KNOWN_MS for step in known}
    begun = [step for step in [*known, *moves] if step.word == "subscribe"]
    guaranteed = {_wish_of(step) for step in begun if step.more["of"] is GUARANTEED}
    for step in moves:
        if step.word == "subscribe":
            since.setdefault(_wish_of(step), step.at)
        elif step.word == "unsubscribe":
            since.pop(_wish_of(step), None)
    return sum(
        naive_matches(filter_, subject) and oracle.reaches(step.who, subject, node)
        for step in moves
        if step.word == "publish" and step.more["of"] is GUARANTEED
        for subject in str(step.more["subject"]).split(",")
        for (node, _, filter_), begins in since.items()
        if (node, _, filter_) in guaranteed and node != step.who
        if step.at >= max(begins + KNOWN_MS, from_ms)
    )


def _wish_of(step: Step) -> tuple[str, str, str]:
    return step.who, str(step.more["endpoint"]), str(step.more["filter"])
