"""When a storm does what: ordinary steps at moments drawn from a seed, and nothing else.

So the same file and seed are the same storm, on the simulator and on real brokers.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mesh.lab import steps
from mesh.model.topology import Topology

CALM = 0.25
"""Share of the slots in which nothing happens."""

LENGTHS_MS: Mapping[steps.FaultName, tuple[int, int]] = {
    "kill": (200, 4_000),
    "stop": (200, 4_000),
    "pause": (300, 9_000),  # up to well above the member timeout of 6 s
    "cut": (500, 8_000),
    "slow": (1_000, 8_000),
    "kill_broker": (300, 4_000),
    "clock": (500, 5_000),
}
"""Shortest and longest time from a fault to its end."""

JUMP_S = 3_600


@dataclass(frozen=True, slots=True)
class TimedFault:
    """One fault of a storm.

    Attributes:
        kind: Its word in `faults`.
        target: Node, link or Kafka cluster; never hit by two faults at a time.
        at_ms, until_ms: From the storm's beginning to its own, and to its end.
        begin, end: The steps that make and end it.
    """

    kind: steps.FaultName
    target: str
    at_ms: int
    until_ms: int
    begin: steps.Fault
    end: steps.Fault


@dataclass(frozen=True, slots=True)
class StormStep:
    """A step of a storm.

    Attributes:
        at_ms: When it is due, from the storm's beginning.
        step: What to do.
        begins: The fault that begins with it; none where one ends.
    """

    at_ms: int
    step: steps.Fault
    begins: steps.FaultName | None = None


def storm_schedule(
    topology: Topology, step: steps.Storm, workers: Mapping[str, int] | None = None
) -> Sequence[TimedFault]:
    """Return the faults of a storm, by the time they begin; all end before the storm does.

    A quarter of the slots, one each `every_s`, stays without a fault, and so does one for which
    every target of its kind is hit already.

    Args:
        topology: Nodes, links and Kafka clusters to be hit.
        step: Seed, length and kinds of faults.
        workers: Processes of nodes that have more than one, of which one alone may be killed.
    """
    rng = random.Random(step.seed)
    length_ms, slot_ms = int(step.seconds * 1000), int(step.every_s * 1000)
    busy: dict[str, int] = {}
    faults: list[TimedFault] = []
    for slot in range(0, length_ms, slot_ms):
        # Drawn whether or not they are used: each slot is the same whatever the others did.
        is_calm, at_ms = rng.random() < CALM, slot + rng.randrange(slot_ms)
        kind = rng.choice(step.faults)
        until_ms = min(at_ms + rng.randint(*LENGTHS_MS[kind]), length_ms)
        chance = random.Random(rng.random())
        free = [one for one in _targets(kind, topology) if busy.get(one, 0) < at_ms]
        if is_calm or not free or at_ms >= until_ms:
            continue
        target = chance.choice(free)
        busy[target] = until_ms
        begin, end = _steps(kind, target, chance, workers or {})
        faults.append(TimedFault(kind, target, at_ms, until_ms, begin, end))
    return sorted(faults, key=lambda fault: fault.at_ms)


def moments(faults: Sequence[TimedFault]) -> Sequence[StormStep]:
    """Return the beginnings and ends of faults in the order of time."""
    found = [StormStep(one.at_ms, one.begin, one.kind) for one in faults]
    found += [StormStep(one.until_ms, one.end) for one in faults]
    return sorted(found, key=lambda moment: moment.at_ms)


def _targets(kind: steps.FaultName, topology: Topology) -> Sequence[str]:
    match kind:
        case "kill" | "stop" | "pause" | "clock":
            return list(topology.nodes)
        case "cut" | "slow":
            return [" ".join(link.ends) for link in topology.links]
        case "kill_broker":
            return list(topology.kafka)


def _steps(
    kind: steps.FaultName, target: str, chance: random.Random, workers: Mapping[str, int]
) -> tuple[steps.Fault, steps.Fault]:
    """Return the steps that make and end a fault."""
    match kind:
        case "kill":
            count = workers.get(target, 1)
            worker = chance.choice([None, *range(count)]) if count > 1 else None
            kill = steps.Kill(node=target, worker=worker)
            return kill, steps.Start(node=target, worker=worker)
        case "stop":
            return steps.Stop(node=target), steps.Start(node=target)
        case "pause":
            return steps.Pause(node=target), steps.Resume(node=target)
        case "cut":
            return steps.Cut(link=target.split()), steps.Heal(link=target.split())
        case "slow":
            slow = steps.Slow(
                link=target.split(),
                delay_ms=chance.choice([20, 50, 200, 500]),
                loss=chance.choice([0.0, 0.05, 0.2]),
            )
            return slow, steps.Heal(link=target.split())
        case "kill_broker":
            return steps.KillBroker(kafka=target), steps.StartBroker(kafka=target)
        case "clock":
            jump_s = chance.choice([-JUMP_S, JUMP_S])
            begin = steps.Clock(node=target, jump_s=jump_s)
            return begin, steps.Clock(node=target, jump_s=-jump_s)
