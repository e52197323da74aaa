"""A change that must come into force though a link is cut that it does not concern. Spec: K28.

One in five makes another link of that one instead: what is published meanwhile must not be lost.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mesh.core.lineage import links_made
from mesh.model.frames import MessageClass
from tests.sim.swarm.eras import Eras
from tests.sim.swarm.moves import STARTED_MS, draw_moves, random_subject
from tests.sim.swarm.oracle import Oracle
from tests.sim.swarm.plan import Plan, Step, in_order
from tests.sim.swarm.shifts import draw_changes
from tests.sim.swarm.targets import next_topologies

TRIES = 40
"""So many changes are drawn until walks over a link that stays go on otherwise behind it."""
QUIET_MS = 1_500
"""So long before the link is cut nobody publishes: what waits for walks that move is waited for."""
DOWN_MS = 8_000
"""So long after a cut its ends say that they do not hear each other."""
SLOW_MAX = 3
"""So many looks late what nodes take comes at most: a new one must beat soon."""
CUT_MS, IN_FORCE_MS, LONG_MS = 21_000, 12_000, 35_000
"""How long it is cut, and how soon the change must be in force; how long if that must wait."""

REMADE_EVERY = 5
"""Every so manyth number has a change that makes another link of the one that is cut."""
LATE_MS = 12_000
"""So long after the cut all publish again: what waits on that link would keep it from beginning."""

Ends = tuple[str, str]
Over = tuple[tuple[str, ...], bool, tuple[object, ...]]
"""A walk, whether it leads over a link from its first end, and by which zones it leads."""


def draw_change_beside_a_cut(rng: random.Random, plan: Plan) -> Plan:
    """Return a change, and a cut of a link that leads from and to the same nodes after it.

    Mostly walks over it go on otherwise behind it, so that its ends have something to tell.
    """
    if not plan.seed.number % REMADE_EVERY and (remade := _draw_remade(rng, plan)) is not None:
        return remade
    first, found = plan.oracle, []
    for _ in range(TRIES):
        joined = plan.seed.has_joins
        for target in map(Oracle, next_topologies(rng, first.topology, 1, joined=joined)):
            still = [ends for ends in _links(first, target) if _is_still(ends, first, target)]
            moved = [ends for ends in still if _over(ends, first) != _over(ends, target)]
            if moved:
                return _happen(rng, plan, target, rng.choice(moved))
            found += [(target, ends) for ends in still]
    if not found:  # whatever changes concerns every link
        return draw_changes(rng, plan)
    return _happen(rng, plan, *rng.choice(found))


def _draw_remade(rng: random.Random, plan: Plan) -> Plan | None:
    """Return a change that makes another link of one that is cut, under walks that stay."""
    first = plan.oracle
    for _ in range(TRIES):
        joined = plan.seed.has_joins
        for target in map(Oracle, next_topologies(rng, first.topology, 1, joined=joined)):
            before, then = links_made(first.topology), links_made(target.topology)
            if others := [
                ends
                for ends, made in before.items()
                if then.get(ends, made) != made and _reached(ends, first) & _reached(ends, target)
            ]:
                return _happen_to_it(rng, plan, target, rng.choice(others))
    return None


def _links(first: Oracle, after: Oracle) -> list[Ends]:
    """Return the links that are the same in both topologies, either way, as their ends see them."""
    before, then = links_made(first.topology), links_made(after.topology)
    return [ends for ends, made in before.items() if then.get(ends) == made]


def _is_still(ends: Ends, first: Oracle, after: Oracle) -> bool:
    return _reached(ends, first) == _reached(ends, after)


def _reached(ends: Ends, one: Oracle) -> set[tuple[str, str, bool]]:
    """Return who reaches whom over a link, and from which of its ends."""
    return {(path[0], path[-1], is_first) for path, is_first, _ in _over(ends, one)}


def _over(ends: Ends, one: Oracle) -> set[Over]:
    return {
        (path, hop == ends, tuple(_zones(path, one)))
        for path in one.ways
        for hop in itertools.pairwise(path)
        if hop in (ends, ends[::-1])
    }


def _zones(path: Sequence[str], one: Oracle) -> Iterator[object]:
    for hop in itertools.pairwise(path):
        zone = one.topology.zones[one.zone_from(*hop)]
        yield zone.name, zone.kind, zone.join


def _happen_to_it(rng: random.Random, plan: Plan, target: Oracle, ends: Ends) -> Plan:
    """Have all who stay publish again before the cut ends: nothing waits on that link till then."""
    length = 1_000 + (STARTED_MS if plan.before is None else 0)
    nodes = sorted(plan.oracle.topology.nodes)
    moves = list(draw_moves(rng, plan, nodes, length))
    cut_ms = length + QUIET_MS
    stay = [node for node in nodes if node in target.topology.nodes]
    late = range(cut_ms + LATE_MS, cut_ms + LONG_MS, rng.choice([200, 500]))
    moves += [_publish(rng, at, stay) for at in late]
    change_ms = cut_ms + rng.choice([DOWN_MS, LATE_MS - 500])
    steps = [
        Step(cut_ms, "cut", ends[0], {"from": ends[1], "for": LONG_MS}),
        Step(change_ms, "change", "operator", {"to": 0}),
    ]
    return _changed(plan, target, moves, steps)


def _publish(rng: random.Random, at: int, nodes: Sequence[str]) -> Step:
    more = {"subject": random_subject(rng), "count": 1, "key": "", "of": MessageClass.GUARANTEED}
    return Step(at, "publish", rng.choice(nodes), more)


def _happen(rng: random.Random, plan: Plan, target: Oracle, ends: Ends) -> Plan:
    first = plan.oracle
    nodes = sorted(first.topology.nodes)
    length = rng.choice([1_000, 3_000]) + (STARTED_MS if plan.before is None else 0)
    moves = list(draw_moves(rng, plan, nodes, length))
    cut_ms = length + QUIET_MS
    before, then = _over(ends, first), _over(ends, target)
    # What waits on that link is waited for if a walk over it moves: then nobody sends there.
    senders = {path[0] for path, *_ in before | then} if before != then else set()
    change_ms = cut_ms + (DOWN_MS if senders else rng.choice([-500, 100, 4_000]))
    due_ms = change_ms + IN_FORCE_MS
    free = [node for node in nodes if node in target.topology.nodes and node not in senders]
    meanwhile = range(cut_ms, due_ms, rng.choice([100, 400])) if free else ()
    moves += [_publish(rng, at, free) for at in meanwhile]
    steps = [
        Step(cut_ms, "cut", ends[0], {"from": ends[1], "for": CUT_MS}),
        Step(change_ms, "change", "operator", {"to": 0}),
        Step(due_ms, "due", "operator"),
    ]
    return _changed(plan, target, moves, steps)


def _changed(plan: Plan, target: Oracle, moves: Sequence[Step], faults: Sequence[Step]) -> Plan:
    new = {*Eras([plan.oracle, target]).topology.nodes} - {*plan.oracle.topology.nodes}
    return replace(
        plan,
        moves=in_order(moves),
        faults=in_order(faults),
        targets=[target],
        slow=min(plan.slow, SLOW_MAX),
        crew=[*plan.crew, *(f"{node}/0" for node in sorted(new))],
    )
