"""The tree layer alone, on one core: messages a second, random lives a second, bytes per role."""

from __future__ import annotations

import itertools
import sys
import time
import tracemalloc
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from mesh.errors import StartError
from mesh.model.tree_apps import AnswerGiven, Delivered, RoleRequest, SendWanted
from mesh.model.trees import Address, tree_id
from mesh.trees.inputs import FrameRead, Input, LinkOpened, PortOpened, RolesAdded
from mesh.trees.machine import TreeNode
from mesh.trees.outputs import Transmit
from mesh.trees.settings import Settings
from tests.bench.command import at_least, carry_out, parser_of
from tests.bench.goals import Goal, goal_line
from tests.sim.trees.trial import run_trial

APP = "app"
LINE = ("a", "b", "c")
LIVES, LIFE_NODES = 60, 10
PER_TREE = 10
WARM = 10
PER_SEND = 4
"""Frames of a warm send over two links and of its reply."""

PLACE = Address(tree_id("bench"), "r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one core does, and what is kept."""

    frames_per_s: float
    lives_per_s: float
    bytes_per_role: float
    bytes_per_instance: float

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        lives = f"random lives a second of {LIFE_NODES} nodes"
        return [
            Goal("tree messages a second", 20_000, self.frames_per_s, at_least=True),
            Goal(lives, 8, self.lives_per_s, at_least=True),
            Goal("bytes per role that is known", 1_500, self.bytes_per_role),
            Goal("bytes per further instance of a role", 300, self.bytes_per_instance),
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {**asdict(self), "goals": [goal.as_json() for goal in self.goals()]}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        return [goal_line(goal.as_json()) for goal in self.goals()]


class Line:
    """Nodes in a row whose frames arrive at once."""

    def __init__(self, names: Sequence[str] = LINE) -> None:
        settings = Settings(ping_ms=0)
        self.nodes: Mapping[str, TreeNode] = {
            name: TreeNode(name, f"uuid-{name}", 1, number + 1, "", settings)
            for number, name in enumerate(names)
        }
        self.frames = 0
        self._waiting: deque[tuple[str, Transmit]] = deque()
        for name in names:
            self.step(name, PortOpened(APP))
        for one, other in itertools.pairwise(names):
            self.step(one, LinkOpened(other))
            self.step(other, LinkOpened(one))
        self.run()

    def step(self, name: str, input_: Input) -> None:
        """Give a node an input; its frames wait, what is for it is answered behind them."""
        outputs = self.nodes[name].step(input_, 0)
        self._waiting += [(name, one) for one in outputs if isinstance(one, Transmit)]
        for one in outputs:
            if isinstance(one, Delivered):
                self.step(name, AnswerGiven(APP, one.mid, b"answer"))

    def run(self) -> None:
        """Let all frames arrive, and what they cause."""
        while self._waiting:
            name, output = self._waiting.popleft()
            self.frames += 1
            self.step(output.link, FrameRead(name, output.frame))


def frames_per_s(sends: int) -> float:
    """Return how many frames of warm sends over two links are taken in a second of processor."""
    line = Line()
    line.step("c", RolesAdded(APP, (RoleRequest(PLACE),)))
    line.run()
    before, began_s = 0, 0.0
    for number in range(sends + WARM):
        if number == WARM:
            before, began_s = line.frames, time.process_time()
        line.step("a", SendWanted(APP, str(number), PLACE, b"payload"))
        line.run()
    spent_s = time.process_time() - began_s
    if line.frames - before != PER_SEND * sends:
        raise StartError(f"{line.frames - before} frames for {sends} sends: no route is warm")
    return PER_SEND * sends / spent_s


def lives_per_s() -> float:
    """Return how many random lives are lived in a second of processor."""
    began_s = time.process_time()
    for seed in range(LIVES):
        run_trial(seed, LIFE_NODES)
    return LIVES / (time.process_time() - began_s)


def bytes_kept(roles: int) -> tuple[float, float]:
    """Return what a node keeps per role that it hears of, and per further instance."""
    requests = [RoleRequest(Address(tree_id(f"t{n // PER_TREE}"), f"r{n}")) for n in range(roles)]
    line = Line()
    kept = []
    tracemalloc.start()
    for host in ("a", "c"):
        publishes: list[tuple[str, Transmit]] = []
        outputs = line.nodes[host].step(RolesAdded(APP, requests), 0)
        publishes += [(host, one) for one in outputs if isinstance(one, Transmit)]
        del outputs
        before = tracemalloc.get_traced_memory()[0]
        for _, output in publishes:
            for one in line.nodes["b"].step(FrameRead(host, output.frame), 0):
                if isinstance(one, Transmit) and one.link == host:
                    continue
        kept.append((tracemalloc.get_traced_memory()[0] - before) / roles)
    tracemalloc.stop()
    return kept[0], kept[1]


def measure(_directory: Path, *, sends: int, roles: int) -> Found:
    """Measure all."""
    role, instance = bytes_kept(roles)
    return Found(
        frames_per_s=frames_per_s(sends),
        lives_per_s=lives_per_s(),
        bytes_per_role=role,
        bytes_per_instance=instance,
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("roles_core", __doc__)
    parser.add_argument("--sends", type=at_least(1), default=5_000)
    parser.add_argument("--roles", type=at_least(10), default=10_000)
    options = parser.parse_args(arguments)
    run = partial(measure, sends=options.sends, roles=options.roles)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
