"""The swarm finds nothing new, reaches rare states, and repeats itself. Spec: reliability.md 6."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mesh.transport.memory_faults import Outcome
from tests.sim.swarm.child import ChildError, in_child
from tests.sim.swarm.draw import draw
from tests.sim.swarm.drills import drill_seeds
from tests.sim.swarm.plan import Step
from tests.sim.swarm.run import Result, run_plan, run_seed, run_seeds
from tests.sim.swarm.seeds import DRAWN, Family, Seed, seeds
from tests.sim.swarm.shrink import ddmin, shrink

pytestmark = pytest.mark.timeout(900)  # a minute of the processor, of which others want some

ROOT = Path(__file__).parents[3]
PLAIN = seeds(Family.PLAIN, (*range(200), 224))
JOINED = seeds(Family.JOINS, range(60))
LOSSY = seeds(Family.LOSSES, (*range(40), 202, 207))
CHANGED = seeds(Family.CHANGES, (*range(30), 40))  # of these, 40 alone has a driver die at `switch`
STRANGE = seeds(Family.STRANGERS, range(40))
OUT = seeds(Family.OUTAGES, range(24))
OTHERS = (JOINED, LOSSY, CHANGED, STRANGE, OUT)

RARE = (
    "commit failed (lane)",
    "commit unknown-committed (lane)",
    "commit unknown-aborted (lane)",
    "begin failed (lane)",
    "control.lost",
    "lane.failed",
    "lane.not_taken",
    "lane.taken_for_nothing",
    "two workers hold one lane",
    "two workers of a node run",
    "worker does not hear its group",
    "worker paused",
    "tiny worker",
    "late worker",
    "kill with direct reserved",
    "dropped: takeover",
    "crash at commit",
    "frame of several messages",
    "message behind an external link",
    "not forwarded: no_transit",
    "not forwarded: arrival_zone",
    "client found no broker",
    "worker stopped in good order",
)
"""States that a run of `PLAIN` must have reached: else it proves little."""


IDLE_MAX = 0.02
"""At most this many of them may owe nothing or carry nothing over a link."""


def assert_reached(results: Sequence[Result], wanted: Sequence[str]) -> None:
    """Sometimes-assertions: a swarm that never gets there finds nothing there."""
    reached: Counter[str] = Counter()
    for one in results:
        reached.update(one.reached)
    assert [state for state in wanted if not reached[state]] == []


Ran = Callable[[Sequence[Seed]], Sequence[Result]]


@pytest.fixture(scope="module")
def ran() -> Ran:
    """`ran(seeds)`: what came of schedules; each runs once, whoever asks, beside its whole brood."""
    found: dict[Seed, Result] = {}

    def results(wanted: Sequence[Seed]) -> Sequence[Result]:
        new = [one for one in wanted if one not in found]
        found.update(zip(new, run_seeds(new), strict=True))
        return [found[one] for one in wanted]

    return results


@pytest.fixture(scope="module")
def results(ran: Ran) -> Sequence[Result]:
    return ran(PLAIN)


def test_no_schedule_breaks_a_rule_that_holds(results: Sequence[Result]) -> None:
    """Spec: DESIGN 6, K11, K12, K16, K18, K25."""
    assert [one.detail for one in results if one.rule] == []


def test_schedules_prove_something(results: Sequence[Result]) -> None:
    """What owes nothing, or crosses no link, was drawn again before it ran."""
    idle = [one.seed for one in results if not (one.owed and one.carried)]
    assert len(idle) <= IDLE_MAX * len(results), idle
    assert {one.seed.is_forked for one in results} == {True, False}


def test_no_schedule_with_joins_breaks_a_rule(ran: Ran) -> None:
    """Spec: UM-1, UM-5, UM-10, K24, K25, K26."""
    found = ran(JOINED)
    assert [one.detail for one in found if one.rule] == []
    assert_reached(found, ("message behind 2 joins in a row", "not forwarded: filter"))


def test_no_schedule_with_losses_breaks_a_rule(ran: Ran) -> None:
    """Nothing is missing without a word, or reads on without a consent. Spec: R6, R12, R14."""
    found = ran(LOSSY)
    assert [one.detail for one in found if one.rule] == []
    assert_reached(
        found, ("stopped: truncated", "stopped: recreated", "dead letter: endpoint_full")
    )


def test_no_schedule_with_live_changes_breaks_a_rule(ran: Ran) -> None:
    """No loop, duplicate or loss while topologies change, nothing stale. Spec: K25, K27, K28."""
    found = ran(CHANGED)
    assert [one.detail for one in found if one.rule] == []
    assert_reached(
        found,
        (
            "change in force",
            "aborted by another",
            "driver died at hold",
            "driver died at switch",
            "gone on with at hold",
            "gone on with at switch",
            "node left",
            "link disabled",
        ),
    )


def test_no_schedule_with_strangers_breaks_a_rule(ran: Ran) -> None:
    """What others write, refuse or delete costs them alone. Spec: DESIGN 6, R12, K5, K20, K21."""
    found = ran(STRANGE)
    assert [one.detail for one in found if one.rule] == []
    assert_reached(
        found,
        (
            "consumer groups hidden",
            "dead letter: CODEC",
            "dead letter: POISON",
            "endpoint's topic made by a stranger",
            "filters of too many shapes",
            "frame vanished",
            "one of two workers hears a neighbour",
            "partition without leader",
            "topic refused",
        ),
    )


def test_no_schedule_with_outages_breaks_a_rule(ran: Ran) -> None:
    """Late answers, lost control topics, full links, long cuts. Spec: K16, K20, K23, K24, K28."""
    found = ran(OUT)
    assert [one.detail for one in found if one.rule] == []
    assert_reached(
        found,
        (
            "brokers answer late",
            "change in force beside a cut",
            "control topic lost its end",
            "control topic recreated",
            "control.read_again",
            "outbox.full",
            "outbox.relieved",
            "tombstone gone unread",
        ),
    )


def test_drills_break_no_rule() -> None:
    """Schedules by hand, several orders of turns each. Spec: K16, K18, K23, K25."""
    found = run_seeds(drill_seeds(5))
    assert [one.detail for one in found if one.rule] == []


def test_rare_states_are_reached(results: Sequence[Result]) -> None:
    """Sometimes-assertions: a swarm that never gets there finds nothing there."""
    assert_reached(results, RARE)


def test_a_seed_gives_the_same_trace_whatever_the_hash_seed(ran: Ran) -> None:
    """Everything committed, with offsets and virtual times. Spec: DESIGN 4.2, style.md 2.5."""
    wanted = [*PLAIN[:10], *(one for some in OTHERS for one in some[11:14])]
    traces = [one.trace for one in ran(wanted)]
    code = (
        "import sys\n"
        "from tests.sim.swarm.run import run_seeds\n"
        "from tests.sim.swarm.seeds import Seed\n"
        "print(*[one.trace for one in run_seeds(map(Seed.parse, sys.argv[1:]))])"
    )
    ours = os.environ.get("PYTHONHASHSEED")  # a random one, unless somebody has set it
    for hash_seed in [one for one in ("0", "1", "4711") if one != ours][:2]:
        told = subprocess.run(
            [sys.executable, "-c", code, *map(str, wanted)],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert told.stdout.split() == traces, f"hash seed {hash_seed}"


def test_seeds_differ(results: Sequence[Result]) -> None:
    """A trace that never changes would prove nothing."""
    assert len({one.trace for one in results}) == len(results)


@pytest.mark.parametrize("family", DRAWN)
def test_a_copy_of_a_mesh_at_rest_does_what_that_mesh_would_do(family: Family, ran: Ran) -> None:
    """Alone or in its brood, a seed means one schedule."""
    brood = seeds(family, range(1, 5))
    together, alone = ran(brood), [run_seed(seed) for seed in brood]
    assert [one.trace for one in together] == [one.trace for one in alone]
    assert [one.owed for one in together] == [one.owed for one in alone]


def test_what_fails_in_a_copy_is_told() -> None:
    """And one that dies is missed."""
    with pytest.raises(ChildError, match="ZeroDivisionError"):
        in_child(lambda: 1 // 0)
    with pytest.raises(ChildError, match="died without a word"):
        in_child(lambda: os._exit(3))
    assert in_child(lambda: 7) == 7


def test_a_failing_schedule_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not matter is left out; what is left still breaks the rule."""
    monkeypatch.setattr("mesh.lane.batch.DeliveredCount", lambda *_args: 1 / 0)
    failed = next(one for one in run_seeds(PLAIN) if one.rule == "worker raised ZeroDivisionError")
    plan, result = shrink(draw(failed.seed), "worker raised ZeroDivisionError")
    assert result.rule == "worker raised ZeroDivisionError"
    assert {step.word for step in plan.steps} <= {"publish", "subscribe"}
    assert len(plan.steps) <= 2
    assert run_plan(plan).trace == result.trace


def test_ddmin_keeps_exactly_what_is_needed() -> None:
    """Two steps that only together fail are found among many."""
    steps = [Step(at, "publish", "n0", {"count": at}) for at in range(20)]
    needed = [steps[3], steps[17]]
    assert ddmin(steps, lambda some: all(step in some for step in needed)) == needed


def test_schedules_are_drawn_with_and_without_faults() -> None:
    """About a quarter has none; all kinds of outcomes come."""
    plans = [draw(seed) for seed in seeds(Family.PLAIN, range(400))]
    calm = sum(not plan.faults for plan in plans)
    assert 60 < calm < 140
    drawn = {step.more.get("outcome") for plan in plans for step in plan.faults}
    assert drawn >= set(Outcome)
