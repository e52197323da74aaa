"""Kafka clusters that answer late, control topics that lose what they held, links that are full.

Schedules of `outages`. None of it may lose or double a guaranteed message, leave interest wrong
once all is mended, or make a turn wait. Spec: DESIGN 4.2, 6, K16, K20, K23, K24, K25.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mesh.model.frames import MessageClass
from mesh.model.topology import Link, LinkLimit, Zone
from mesh.transport.memory import MemoryKafka
from tests.sim.swarm.moves import random_filter, random_subject
from tests.sim.swarm.oracle import POOL, Oracle, oracle
from tests.sim.swarm.plan import Plan, Step
from tests.sim.swarm.published import ViolationError

if TYPE_CHECKING:
    from tests.sim.swarm.world import SwarmWorld

OUTAGES: Mapping[str, int] = {"slow": 3, "lose": 3, "anew": 3, "forget": 2, "fill": 3}
"""What happens, and how often."""
ANSWERS_MS = (300, 1_000, 4_000)
"""How late brokers answer; from a second on no turn may have waited for one."""
LASTS_MS = (500, 2_000, 6_000)
CUTS_MS = (1_500, 3_000, 12_000)
"""How long nothing is heard over a link before tombstones are gone, or it is full."""
LOST = (1, 3, 10, 40)
"""So many records at most does a control topic lose at its end."""
RING, FULL_SHARE = 3, 0.4
"""So often each of at least so many nodes has a link to each other, and none holds much."""
OUTBOX_BYTES = (200, 1_000)
"""As much may wait on links that have a limit."""


def bounded(rng: random.Random, made: Oracle, *, joined: bool) -> Oracle:
    """Return a topology some of whose links may not hold much; often all of a full zone."""
    is_full = rng.random() < FULL_SHARE
    while is_full and not any(len(zone.links) >= RING for zone in _full(made)):
        made = oracle(rng.randrange(POOL), joined=joined)
    limits = {
        frozenset(link.ends): LinkLimit(outbox_bytes=rng.choice(OUTBOX_BYTES))
        for link in made.topology.links
        if is_full or rng.random() < 0.5
    }
    return Oracle(replace(made.topology, limits=limits))


def _full(made: Oracle) -> Iterator[Zone]:
    yield from (zone for zone in made.topology.zones.values() if zone.nodes)


def draw_outages(rng: random.Random, plan: Plan, length: int) -> Iterator[Step]:
    """Yield what goes wrong, and what clients do meanwhile."""
    # Each schedule has its own kinds: some states need the same fault again and again.
    kinds = rng.sample(sorted(OUTAGES), rng.randint(1, 3))
    weighted = [kind for kind, times in OUTAGES.items() for _ in range(times) if kind in kinds]
    for _ in range(rng.choice([1, 2, 3, 5])):
        yield from _draw(rng, plan, rng.randrange(300, length), rng.choice(weighted))


def _draw(rng: random.Random, plan: Plan, at: int, word: str) -> Iterator[Step]:
    made = plan.oracle
    nodes, link = sorted(made.topology.nodes), rng.choice(made.topology.links)
    node, other = rng.sample(link.ends, 2)
    told = rng.choice([made.names.control(node), made.names.to_control(node, other)])
    match word:
        case "slow":
            more = {"by": rng.choice(ANSWERS_MS), "for": rng.choice(LASTS_MS)}
            yield Step(at, word, rng.choice(sorted(made.topology.kafka)), more)
            if rng.random() < 0.5:  # who starts or takes over asks most
                back = {"back": rng.choice([200, 800]), "tiny": False}
                yield Step(at + rng.choice([100, 700]), "kill", rng.choice(plan.workers), back)
        case "lose":
            yield Step(at, word, told, {"records": rng.choice(LOST)})
        case "anew":
            yield Step(at, word, told)
        case "forget":
            lasts = rng.choice(CUTS_MS)
            yield Step(at, "cut", node, {"from": other, "for": lasts})
            yield from _changes_of_mind(rng, at, lasts, node)
            yield Step(at + lasts - 50, word, node, {"from": other})
        case "fill":
            yield from _filled(rng, plan, at, link)
    for _ in range(rng.choice([0, 1, 2])):
        later = at + rng.choice([300, 1_500, 6_000])
        yield _subscribe(rng, later, rng.choice(nodes))
        yield _publish(rng, later + rng.choice([0, 400]), rng.choice(nodes))


def _filled(rng: random.Random, plan: Plan, at: int, link: Link) -> Iterator[Step]:
    """Cut a link, or every one, and publish more than may wait there."""
    topology, lasts = plan.oracle.topology, rng.choice(CUTS_MS)
    is_all, nodes = rng.random() < 0.5, sorted(topology.nodes)
    for one in topology.links if is_all else (link,):
        yield Step(at, "cut", one.ends[0], {"from": one.ends[1], "for": lasts})
    for node in nodes if is_all else ():
        more = {"endpoint": "e2", "filter": ">", "of": MessageClass.GUARANTEED}
        yield Step(max(0, at - 1_000), "subscribe", node, more)
        for _ in range(6):
            yield _publish(rng, at + rng.randrange(lasts), node)
    for _ in range(rng.choice([4, 8, 16])):
        yield _publish(rng, at + rng.randrange(lasts + 2_000), rng.choice(nodes))


def _changes_of_mind(rng: random.Random, at: int, lasts: int, node: str) -> Iterator[Step]:
    """Want something and no more of it, while one who should know hears nothing."""
    wanted = [_subscribe(rng, at - 250, node), _subscribe(rng, at + 100, node)]
    for step in wanted:
        yield step
        if rng.random() < 0.7:
            more = {name: step.more[name] for name in ("endpoint", "filter")}
            yield Step(at + rng.randrange(200, lasts), "unsubscribe", node, more)


def _subscribe(rng: random.Random, at: int, node: str) -> Step:
    more = {"endpoint": "e2", "filter": random_filter(rng), "of": MessageClass.GUARANTEED}
    return Step(max(0, at), "subscribe", node, more)


def _publish(rng: random.Random, at: int, node: str) -> Step:
    more = {"subject": random_subject(rng), "count": 3, "key": "", "of": MessageClass.GUARANTEED}
    return Step(at, "publish", node, more)


@dataclass(slots=True)
class Outages:
    """What happens to one world."""

    world: SwarmWorld

    def begin(self, step: Step) -> None:
        """Let one fault begin."""
        world, who, more = self.world, step.who, step.more
        match step.word:
            case "slow":
                kafka, by_ms = world.kafka[who], int(str(more["by"]))
                kafka.answers_after_ms = by_ms
                world.reached["brokers answer late"] += 1
                world.after(int(str(more["for"])), lambda: setattr(kafka, "answers_after_ms", 0))
            case "lose" if (kafka := self._kafka(who)) is not None:
                self._lose(kafka, who, int(str(more["records"])))
            case "anew" if (kafka := self._kafka(who)) is not None:
                world.reached["control topic recreated"] += 1
                kafka.recreate(who)
                world.watch.rewind(who, 0, 0)
            case "due":
                self._judge_change()
            case "forget":
                self._forget(who, str(more["from"]))
            case _:
                pass

    def _judge_change(self) -> None:
        """Have a change be in force, though a link is cut that it does not concern.

        Raises:
            ViolationError: It still waits.
        """
        reached = self.world.reached
        if reached["change in force"]:
            reached["change in force beside a cut"] += 1
        elif not any(word.startswith("change refused") for word in reached):
            raise ViolationError("change waited", f"for a link that is cut: {+reached}")

    def _kafka(self, topic: str) -> MemoryKafka | None:
        return next((one for one in self.world.kafka.values() if topic in one.topics), None)

    def _lose(self, kafka: MemoryKafka, topic: str, records: int) -> None:
        log = kafka.topics[topic].logs[0]
        if log.transactions:
            return  # a leader that is elected uncleanly ends what is open
        before = log.end
        log.truncate(min(records, sum(one is not None for one in log.entries)))
        kafka.touch(log)
        if log.end < before:
            self.world.reached["control topic lost its end"] += 1
            self.world.watch.rewind(topic, 0, log.end)

    def _forget(self, node: str, other: str) -> None:
        """Have tombstones be gone that one end of a link has not read: compaction was sooner."""
        names = self.world.oracle.names
        for end, far in ((node, other), (other, node)):
            for topic in (names.control(end), names.to_control(end, far)):
                if (kafka := self._kafka(topic)) is not None:
                    self._compact(kafka, topic)

    def _compact(self, kafka: MemoryKafka, topic: str) -> None:
        log = kafka.topics[topic].logs[0]
        if log.transactions:
            return
        newest = {one.key(): one for one in log.entries if one is not None}
        for index, one in enumerate(log.entries):
            if one is None or (newest[one.key()] is one and one.value() is not None):
                continue
            self.world.reached["tombstone gone unread"] += one.value() is None
            log.entries[index] = None
        kafka.touch(log)

    def unfinished(self) -> str:
        """Return which subscription is not known everywhere yet, in words. Spec: K24."""
        open_ = [w for w in self.world.watch.wishes if w.ended is None and w.settled_ms is None]
        return f"{open_[0]} is not acknowledged" if open_ else ""

    def mend(self) -> None:
        """End what lasts."""
        for kafka in self.world.kafka.values():
            kafka.answers_after_ms = 0
