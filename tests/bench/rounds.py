"""Rounds: every contender once on the same broker, forwards and backwards in turn."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

import psutil

from mesh.errors import MeshError, StartError
from mesh.local.jars import Progress
from tests.bench.contenders import Contender
from tests.bench.counting import Numbers
from tests.bench.meter import OTHER_CORE, OWN_CORE, Meter, Wire, pin
from tests.bench.settings import PEERS, Settings
from tests.bench.stage import NODES, Stage

REST_S = 0.3
"""Between loading and release: the broker finishes what the load left it."""


MEMORY_MIN = 1 << 30
"""With less left, programs are read again from disk while they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One contender in one round.

    Attributes:
        wall_s: From release to the last sign of work.
        cpu: CPU seconds of the contender's processes per million messages.
        broker: Likewise of the broker.
        written, sent: Bytes per message that the broker wrote to its logs, and sent to clients.
        foreign: CPU of everybody else, as a share of one core.
        checked: Messages whose numbers were checked where they arrived; 0 where a later
            measurement does.
    """

    wall_s: float
    cpu: float
    broker: float
    written: float
    sent: float
    foreign: float
    checked: int


@dataclass(slots=True)
class Round:
    """One round; `disturbed` says who was, or is empty."""

    figures: dict[str, Figure] = field(default_factory=dict)
    disturbed: str = ""

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return asdict(self)


class Rounds:
    """Runs rounds of the same contenders.

    Attributes:
        gone: Peers that broke down in a round, and how; they take no further part.

    Args:
        stage: The broker and the nodes.
        contenders: Those that follow on each other stand together; these groups change order.
        others: Processes of ours beside workers, contenders and broker.
        settings: Sizes and limits.
        progress: Told how it goes.
    """

    def __init__(
        self,
        stage: Stage,
        contenders: Sequence[Sequence[Contender]],
        others: Sequence[int],
        settings: Settings,
        progress: Progress,
    ) -> None:
        self._stage = stage
        self._contenders = contenders
        self._others = others
        self._settings = settings
        self._progress = progress
        self.gone: dict[str, str] = {}
        self._names = [one.name for group in contenders for one in group]
        self._count = 0

    def run(self, count: int) -> Round:
        """Run one round of `count` messages per contender.

        Raises:
            StartError: A message of ours is missing where it should be, or there twice.
        """
        self._count += 1
        done = Round()
        for group in self._contenders[:: 1 if self._count % 2 else -1]:
            for contender in group:
                if contender.name in self.gone:
                    continue
                try:
                    figure = done.figures[contender.name] = self._measure(contender, count)
                except MeshError as error:
                    if contender.name not in PEERS:
                        raise
                    self.gone[contender.name] = str(error).splitlines()[0]
                    self._progress(f"  {contender.name} is out: {self.gone[contender.name]}")
                    continue
                self._progress(
                    f"  {contender.name:<18} {figure.cpu:6.2f} CPU-s/M, broker {figure.broker:5.2f}, "
                    f"{count / figure.wall_s / 1e6:5.2f} M/s, foreign {figure.foreign:4.0%}"
                )
                if figure.foreign > self._settings.foreign and not done.disturbed:
                    done.disturbed = f"{contender.name}: others used {figure.foreign:.0%} of a core"
        available = psutil.virtual_memory().available
        if available < MEMORY_MIN and not done.disturbed:
            done.disturbed = f"only {available >> 20} MB of memory are left"
        self._stage.forget()
        done.figures = {name: done.figures[name] for name in self._names if name in done.figures}
        return done

    def _measure(self, contender: Contender, count: int) -> Figure:
        contender.prepare(count)
        measured = [process.pid for process in contender.processes()]
        for pid in measured:
            pin(pid, OWN_CORE)
        time.sleep(REST_S)
        broker = self._stage.broker
        meter = Meter(
            {
                "contender": measured,
                "broker": broker.pids,
                "others": [pid for pid in self._ours() if pid not in measured],
            }
        )
        wire = Wire(broker.pids, [broker.data()])
        began_s = time.monotonic()
        contender.release()
        done_s = contender.wait(count)
        usage, traffic = meter.read(), wire.read()
        arrived = contender.finish(count)
        refuse_faults(contender.name, arrived)
        for pid in measured:
            pin(pid, OTHER_CORE)
        millions = count / 1e6
        return Figure(
            wall_s=done_s - began_s,
            cpu=usage.cpu_s["contender"] / millions,
            broker=usage.cpu_s["broker"] / millions if contender.uses_kafka else 0.0,
            written=traffic.written / count if contender.uses_kafka else 0.0,
            sent=traffic.sent / count if contender.uses_kafka else 0.0,
            foreign=usage.foreign,
            checked=sum(one.expected for one in arrived),
        )

    def _ours(self) -> Sequence[int]:
        workers = [self._stage.worker(node).pid for node in NODES]
        programs = [p.pid for group in self._contenders for one in group for p in one.processes()]
        return list(dict.fromkeys([*workers, *programs, *self._others]))


def refuse_faults(name: str, arrived: Sequence[Numbers]) -> None:
    """Make sure that everything arrived once.

    Raises:
        StartError: It did not.
    """
    for one in arrived:
        if not one.is_whole:
            raise StartError(
                f"{name}: of {one.expected} messages in {one.topic} {one.missing} are missing, "
                f"{one.surplus} are there twice or should not be there"
            )
