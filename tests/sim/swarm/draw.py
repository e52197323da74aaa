"""What a seed draws: a mesh, what clients do there, and what goes wrong.

What would prove nothing is drawn again before it runs.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.sim.swarm.beside import draw_change_beside_a_cut
from tests.sim.swarm.drills import drill
from tests.sim.swarm.intrusions import draw_hostile, draw_intrusions
from tests.sim.swarm.moves import draw_more_moves, draw_moves, draw_wishes
from tests.sim.swarm.oracle import POOL, oracle
from tests.sim.swarm.outages import bounded, draw_outages
from tests.sim.swarm.plan import Plan, Step, in_order
from tests.sim.swarm.seeds import BROOD, Family, Seed
from tests.sim.swarm.shifts import draw_changes
from tests.sim.swarm.troubles import draw_faults, draw_losses

CALM_SHARE = 0.25
"""So many schedules have no fault at all."""
SLOW = (0, 0, 3, 12, 50)
"""How late the steps of takings come: at once, soon, or after lanes may have moved on."""
LENGTHS_MS = (600, 1_000, 1_500, 2_500)
STARTING_MS = (1_500, 2_000, 3_000)
"""So long clients do something: of a mesh at rest, and of one that starts meanwhile."""
LONG_MS = (1_500, 3_000, 5_000, 8_000)
"""Likewise where something is lost."""
SPARE = {Family.CHANGES: [1], Family.STRANGERS: [1, 2], Family.OUTAGES: [1, 1, 2]}
"""How many workers a node with one lane has."""
CONSENTS_MS = {Family.LOSSES: [300, 2_000, 8_000], Family.STRANGERS: [2_000]}
"""After how long operators accept losses, where there may be some."""
UNDISTURBED_SHARE = 0.5
"""In so many schedules strangers do all that goes wrong: then nobody else may be late."""
Disturb = Callable[[random.Random, Plan, int], Iterator[Step]]
"""Yields what disturbs a mesh, for so many ms, and what clients do there meanwhile."""
CLIENTS_DO = ("subscribe", "unsubscribe", "publish")


@functools.lru_cache(maxsize=256)
def opening(family: Family, brood: int) -> Plan:
    """Return what comes before the schedules of a brood that begin on one mesh at rest."""
    return _mesh(Seed(family, brood * BROOD), f"brood {family}/{brood}")


def draw(seed: Seed) -> Plan:
    """Return the schedule of a seed."""
    if seed.family is Family.DRILLS:
        return drill(seed)
    plan = _mesh(seed, str(seed))
    if seed.is_forked:
        before = opening(seed.family, seed.brood)
        plan = replace(before, seed=seed, moves=(), before=before)
    rng = random.Random(f"schedule {seed}")
    return HAPPEN.get(seed.family, _faults)(rng, plan)


def _mesh(seed: Seed, drawn_by: str) -> Plan:
    """Draw a mesh to which nothing happens; only subscriptions are there."""
    rng = random.Random(f"mesh {drawn_by}")
    made = oracle(
        rng.randrange(POOL),
        joined=seed.has_joins,
        limited=seed.family is Family.LOSSES,
        brief=seed.family is Family.STRANGERS,
    )
    if seed.family is Family.OUTAGES and not seed.is_changing:
        made = bounded(rng, made, joined=seed.has_joins)
    nodes = made.topology.nodes
    # Who drives changes waits for everybody: a worker without a lane would make that no truer.
    spare = SPARE.get(seed.family, [1, 1, 1, 2])
    workers = [
        f"{node}/{number}"
        for node in sorted(nodes)
        for number in range(rng.choice([1, 1, 2] if nodes[node].lanes > 1 else spare))
    ]
    return Plan(
        seed,
        made,
        workers,
        moves=draw_wishes(rng, sorted(nodes), seed.family),
        faults=(),
        session_ms=rng.choice([500, 500, 500, 500, 1500, 1500, 6000]),
        slow=rng.choice(SLOW),
        consent_ms=rng.choice(CONSENTS_MS[seed.family]) if seed.family in CONSENTS_MS else 0,
        targets=() if seed.is_changing else None,
        crew=workers,
    )


def _faults(rng: random.Random, plan: Plan) -> Plan:
    length = rng.choice(STARTING_MS if plan.before is None else LENGTHS_MS)
    moves = draw_moves(rng, plan, sorted(plan.oracle.topology.nodes), length)
    faults: list[Step] = []
    if rng.random() >= CALM_SHARE:
        faults = draw_faults(rng, plan.oracle, plan.workers, length)
    return replace(plan, moves=moves, faults=faults)


def _losses(rng: random.Random, plan: Plan) -> Plan:
    length = rng.choice(LONG_MS)
    plan = _faults(rng, plan)
    more = draw_more_moves(rng, sorted(plan.oracle.topology.nodes), length)
    lost = draw_losses(rng, plan.oracle, length)
    return replace(
        plan, moves=in_order([*plan.moves, *more]), faults=in_order([*plan.faults, *lost])
    )


def _strangers(rng: random.Random, plan: Plan) -> Plan:
    plan = _disturbed(rng, plan, draw_intrusions)
    hostile = draw_hostile(plan, LENGTHS_MS[0])
    return replace(plan, moves=in_order([*hostile, *plan.moves]))


def _outages(rng: random.Random, plan: Plan) -> Plan:
    if plan.seed.is_changing:
        return draw_change_beside_a_cut(rng, plan)
    return _disturbed(rng, plan, draw_outages)


def _disturbed(rng: random.Random, plan: Plan, more: Disturb) -> Plan:
    """Return what clients do and what disturbs them; in half of the schedules nothing else does."""
    length = rng.choice(LONG_MS)
    if rng.random() < UNDISTURBED_SHARE:
        moves = draw_moves(rng, plan, sorted(plan.oracle.topology.nodes), length)
        plan = replace(plan, moves=moves)
    else:
        plan = _faults(rng, plan)
    steps = list(more(rng, plan, length))
    done = [step for step in steps if step.word in CLIENTS_DO]
    faults = [step for step in steps if step not in done]
    return replace(
        plan, moves=in_order([*plan.moves, *done]), faults=in_order([*plan.faults, *faults])
    )


HAPPEN = {
    Family.LOSSES: _losses,
    Family.CHANGES: draw_changes,
    Family.STRANGERS: _strangers,
    Family.OUTAGES: _outages,
}
