"""Schedules by hand that aim at one rare state each; only the order of turns is drawn.

The number of such a schedule is 1000 times that of its drill, plus which order of turns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from mesh.config.topology_file import topology_from_mapping
from mesh.model.frames import MessageClass
from mesh.transport.memory_faults import Outcome
from tests.sim.swarm.oracle import Oracle
from tests.sim.swarm.plan import Plan, Step
from tests.sim.swarm.seeds import Family, Seed, seeds

GUARANTEED, DIRECT = MessageClass.GUARANTEED, MessageClass.DIRECT
Drawn = tuple[Sequence[str], Sequence[Step], Sequence[Step], int]
"""Workers, moves, faults, session timeout."""


@functools.cache
def _pair(lanes: int) -> Oracle:
    nodes = {name: {"kafka": "k", "lanes": lanes, "partitions": lanes} for name in ("a", "b")}
    zones = {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}}
    return Oracle(topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones}))


def _subscribe(at: int, node: str, endpoint: str, filter_: str, of: MessageClass) -> Step:
    return Step(at, "subscribe", node, {"endpoint": endpoint, "filter": filter_, "of": of})


def _publish(at: int, node: str, count: int, of: MessageClass) -> Step:
    more = {"subject": "x", "count": count, "key": "", "of": of}
    return Step(at, "publish", node, more)


def _slow_mate(turns: int) -> Drawn:
    """A mate learns late of a subscription: nobody may be told of it before its lane has cut."""
    moves = [_subscribe(500, "a", "e0", "x", GUARANTEED)]
    moves += [_publish(at, "b", 2, GUARANTEED) for at in range(550, 1200, 50)]
    stall = Step(450, "stall", "mesh.a.clients", {"by": turns % 2, "for": 800})
    return ["a/0", "a/1", "b/0"], moves, [stall], 6000


def _lane_fails_in_a_cut(turns: int) -> Drawn:
    """Messages are in the same fetch as a subscription at whose cut the lane fails."""
    moves = [_subscribe(0, "b", "e0", ">", GUARANTEED)]
    for index in range(8):
        at = 400 + 130 * index
        moves += [
            _subscribe(at, "a", f"e{index}", "x", GUARANTEED),
            _publish(at, "a", 2, GUARANTEED),
        ]
    storm = {"every": 3 + 2 * (turns % 3), "outcome": Outcome.FAILED, "for": 1100}
    return ["a/0", "b/0"], moves, [Step(380, "storm", "a/0", storm)], 6000


def _zombie_with_reservation(turns: int) -> Drawn:
    """A worker does not hear that its mate has taken its lane, and has direct reserved."""
    moves = [_subscribe(0, "a", "e0", ">", DIRECT), _subscribe(0, "b", "e0", ">", DIRECT)]
    moves += [_publish(at, "a", 1, DIRECT) for at in range(300, 2200, 30)]
    deaf = Step(500 + turns % 7, "deaf", f"a/{turns % 2}", {"for": 2200})
    return ["a/0", "a/1", "b/0"], moves, [deaf], 500


def _tiny_start(turns: int) -> Drawn:
    """A node finds messages waiting when it starts, and learns of interest bit by bit."""
    moves = [_subscribe(20 * index, "b", "e0", f"y{index}", GUARANTEED) for index in range(12)]
    moves += [_subscribe(400, "b", "e0", "x", GUARANTEED), _publish(650, "a", 8, GUARANTEED)]
    moves += [_publish(1400, "a", 1, GUARANTEED)]
    stop = Step(600 + turns % 9, "stop", "a/0", {"back": 200, "tiny": True})
    return ["a/0", "b/0"], moves, [stop], 500


def _kill_with_reservation(turns: int) -> Drawn:
    """A worker dies while direct copies go ahead of their commit."""
    moves = [_subscribe(0, "a", "e0", ">", DIRECT), _subscribe(0, "b", "e0", ">", DIRECT)]
    moves += [_publish(at, "a", 2, DIRECT) for at in range(300, 1200, 20)]
    kill = Step(700 + 7 * (turns % 20), "kill", "a/0", {"back": 30})
    return ["a/0", "b/0"], moves, [kill], 500


def _commits_go_wrong(turns: int) -> Drawn:
    """Some commits fail or are never answered while messages flow."""
    moves = [_subscribe(0, node, "e0", ">", GUARANTEED) for node in ("a", "b")]
    moves += [_publish(at, "a", 2, GUARANTEED) for at in range(300, 1500, 40)]
    outcome = list(Outcome)[turns % 3]
    storm = {"every": 6 + 2 * (turns % 4), "outcome": outcome, "for": 900}
    return ["a/0", "b/0"], moves, [Step(400, "storm", "a/0", storm)], 6000


def _direct_commits_go_wrong(turns: int) -> Drawn:
    """The same for direct messages, which go into the transactions of guaranteed endpoints too."""
    workers, _, faults, session_ms = _commits_go_wrong(turns)
    moves = [_subscribe(0, node, "e0", ">", GUARANTEED) for node in ("a", "b")]
    moves += [_subscribe(0, "a", "e1", ">", DIRECT)]
    moves += [_publish(at, "a", 2, DIRECT) for at in range(300, 1500, 40)]
    return workers, moves, faults, session_ms


DRILLS: Sequence[tuple[int, Callable[[int], Drawn]]] = (
    (2, _slow_mate),
    (1, _lane_fails_in_a_cut),
    (1, _zombie_with_reservation),
    (1, _tiny_start),
    (1, _kill_with_reservation),
    (1, _commits_go_wrong),
    (1, _direct_commits_go_wrong),
)
"""Lanes of its nodes, and what happens; numbered from 1."""


def drill(seed: Seed) -> Plan:
    """Return the schedule of a drill.

    Raises:
        ValueError: There is no such drill.
    """
    number, turns = divmod(seed.number, 1000)
    if not 1 <= number <= len(DRILLS):
        raise ValueError(f"no drill {number}: there are 1 to {len(DRILLS)}, as in drills/2005")
    lanes, make = DRILLS[number - 1]
    workers, moves, faults, session_ms = make(turns)
    return Plan(seed, _pair(lanes), workers, moves, faults, session_ms)


def drill_seeds(each: int) -> list[Seed]:
    """Return so many seeds of each drill."""
    drills = range(1, len(DRILLS) + 1)
    return seeds(Family.DRILLS, (1000 * drill + turns for drill in drills for turns in range(each)))
