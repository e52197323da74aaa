"""What each fault of a schedule does to a world, and how everything is mended in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mesh.transport.memory_faults import Call, Outcome
from tests.sim.swarm.faults import Armed
from tests.sim.swarm.plan import Step

if TYPE_CHECKING:
    from tests.sim.swarm.world import SwarmWorld

TINY_MS = 600
"""How long a worker may get one record per fetch after its start."""


def begin(world: SwarmWorld, step: Step) -> None:
    """Let one fault begin; those that last end by themselves."""
    who, more, faults = step.who, step.more, world.faults
    lasts = int(str(more.get("for", 0)))
    if world.damage is not None:
        world.damage.begin(step)
    if world.strangers is not None:
        world.strangers.begin(step)
    if world.outages is not None:
        world.outages.begin(step)
    match step.word:
        case "change" | "abort" | "disable" if world.operators is not None:
            world.operators.begin(step)
        case "join":
            world.start(who)
        case "kill" | "stop" | "leave":
            _end_worker(world, step)
        case "crash" | "outcome":
            outcome = Outcome(str(more["outcome"])) if "outcome" in more else None
            one = Armed(Call(str(more["call"])), int(str(more["nth"])), outcome)
            faults.armed.setdefault(who, []).append(one)
        case "storm":
            faults.storms[who] = (int(str(more["every"])), Outcome(str(more["outcome"])))
            _later(world, lasts, lambda: faults.storms.pop(who, None))
        case "pause" if who in world.workers:
            world.reached["worker paused"] += 1
            world.paused[who] = world.clock.ms + lasts
            world._schedule(who, lasts)
        case "cut":
            ends = (who, str(more["from"]))
            _count(world.cuts, ends, 1)
            world.recut(*ends)
            _later(world, lasts, lambda: (_count(world.cuts, ends, -1), world.recut(*ends)))
        case "brokers":
            if _has_open_batch(world, who):
                world.reached["brokers leave with a batch open"] += 1
            kafka = world.kafka[who]
            kafka.available = False
            _later(world, lasts, lambda: setattr(kafka, "available", True))
        case "late" | "tiny" | "deaf":
            held = {"late": faults.late, "tiny": faults.tiny, "deaf": faults.deaf}[step.word]
            world.reached[f"{step.word} worker"] += 1
            _count(held, who, 1)
            _later(world, lasts, lambda: _count(held, who, -1))
        case "stall":
            pairs = [(f"mesh-{node}/{more['by']}", who) for node in world.oracle.readers[who]]
            for kafka in world.kafka.values():
                kafka.blocked.update(pairs)
                _later(world, lasts, lambda kafka=kafka: kafka.blocked.difference_update(pairs))
        case "deny":
            kafka = next((one for one in world.kafka.values() if who in one.topics), None)
            if kafka is None:
                return
            kafka.denied[who] = "no right to write"
            _later(world, lasts, lambda: kafka.denied.pop(who, None))
        case _:
            pass


def mend(world: SwarmWorld) -> None:
    """End every fault and start whatever was there at the start."""
    world.mending = True
    world.faults.armed.clear()
    world.faults.storms.clear()
    world.faults.deaf.clear()
    world.faults.late.clear()
    world.faults.tiny.clear()
    world.cuts.clear()
    world.paused.clear()
    for kafka in world.kafka.values():
        kafka.available = True
        kafka.blocked.clear()
        kafka.denied.clear()
    world.recut(*world.topology.nodes)
    if world.damage is not None:
        world.damage.mend()
    if world.strangers is not None:
        world.strangers.mend()
    if world.outages is not None:
        world.outages.mend()
    if world.operators is not None:
        world.operators.mend()
    for name in world.plan.crew or world.plan.workers:
        world.start(name)
    for name in list(world.workers):
        world._schedule(name, 1)


def _end_worker(world: SwarmWorld, step: Step) -> None:
    name = step.who
    worker = world.workers.get(name)
    if worker is None:
        return
    if step.word == "kill":
        world._note_end(name, "kill")
        world.drop(name)
    else:
        world.act(name, worker.close)
        world.reached["worker stopped in good order"] += name in world.workers
        world.drop(name)
    if step.word != "leave":
        world.after(int(str(step.more["back"])), lambda: _start_again(world, name, step))


def _start_again(world: SwarmWorld, name: str, step: Step) -> None:
    if step.more.get("tiny") and not world.mending:
        _count(world.faults.tiny, name, 1)
        _later(world, TINY_MS, lambda: _count(world.faults.tiny, name, -1))
    world.start(name)


def _count(counted: dict, key: object, by: int) -> None:
    counted[key] = counted.get(key, 0) + by
    if counted[key] <= 0:
        del counted[key]


def _later(world: SwarmWorld, ms: int, action: Callable[[], object]) -> None:
    """End a fault in time, unless everything has been mended by then."""
    world.after(ms, lambda: None if world.mending else action())


def _has_open_batch(world: SwarmWorld, kafka: str) -> bool:
    return any(
        lane.batch is not None
        for name, worker in world.workers.items()
        if world.topology.nodes[name.partition("/")[0]].kafka == kafka and worker.lanes
        for lane in worker.lanes.owned.values()
    )
