"""Roles on real brokers: what a request and its reply cost beside a direct message, how many a node
takes, and how soon a role is found again after a kill, a cut and a heal.

Requests go from a over b to an application at c, in the run and on the mesh in which direct
messages go over one link. Delays count from the moment when a request should have been sent.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from mesh.client.role_messages import Call
from mesh.client.roles import Roles
from mesh.errors import StartError
from mesh.local.jars import find_kafka
from mesh.model.tree_apps import PartitionSuspected, Unpartitioned
from mesh.model.tree_frames import ReplyKind
from tests.bench import quiet
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.recovery import takeovers
from tests.bench.stage import Stage, last_words, refuse_fallen

TREE = "bench"
FAR, NEAR = "far", "near"
"""Roles: two links away, at c, and one, at b."""

WAIT_S = 60.0
LONG_LEASE_S = 600.0
RATE, MANY = 50, 500


@dataclass(slots=True, kw_only=True)
class Found:
    """All that was measured; times in ms of requests, in seconds of the rest."""

    direct_ms: Mapping[str, float]
    request_ms: Mapping[str, float]
    many_ms: Mapping[str, float]
    many_sent: int
    many_answered: int
    takeover_s: Sequence[float] = ()
    again_s: Sequence[float] = ()
    cut_told_s: Sequence[float] = ()
    heal_told_s: Sequence[float] = ()
    first_send_s: Sequence[float] = ()

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        ratio = {cut: self.request_ms[cut] / self.direct_ms[cut] for cut in ("p50", "p99")}
        lost = self.many_sent - self.many_answered
        again = _p95(self.again_s) - _p95(self.takeover_s) if self.again_s else None
        return [
            Goal(f"request and reply over two links at {RATE}/s, p50 to direct", 3.0, ratio["p50"]),
            Goal(f"request and reply over two links at {RATE}/s, p99 to direct", 3.5, ratio["p99"]),
            Goal(f"at {MANY}/s over one link, requests without answer", 0, lost),
            Goal(f"at {MANY}/s over one link, p99, ms", 1_000, self.many_ms["p99"]),
            Goal("kill -9 of a bridge to the role found again, p95 beyond takeover, s", 3.0, again),
            Goal("a cut told at both ends, s, worst", 12.0, max(self.cut_told_s, default=None)),
            Goal("a heal told at both ends, s, worst", 3.0, max(self.heal_told_s, default=None)),
            Goal("first send behind a heal, s, worst", 2.0, max(self.first_send_s, default=None)),
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        told = {name: getattr(self, name) for name in self.__slots__}
        return {**told, "goals": [goal.as_json() for goal in self.goals()]}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""

        def line(name: str, ms: Mapping[str, float]) -> str:
            return f"{name:<34}" + "".join(f"{cut} {value:8.1f}  " for cut, value in ms.items())

        def times(name: str, seconds: Sequence[float]) -> str:
            return f"{name:<34}" + ", ".join(f"{one:.1f}" for one in seconds)

        return [
            line(f"direct, one link, {RATE}/s, ms", self.direct_ms),
            line(f"request, two links, {RATE}/s, ms", self.request_ms),
            line(f"request, one link, {MANY}/s, ms", self.many_ms),
            f"{self.many_answered} of {self.many_sent} answered at {MANY}/s",
            times("takeover of b, s", self.takeover_s),
            times("role behind b found again, s", self.again_s),
            times("cut told at both ends, s", self.cut_told_s),
            times("heal told at both ends, s", self.heal_told_s),
            times("first send behind a heal, s", self.first_send_s),
            *(goal_line(goal.as_json()) for goal in self.goals()),
        ]


@dataclass(slots=True)
class Host:
    """An application that answers in a thread of its own, and notes what it is told."""

    roles: Roles
    news: list[tuple[float, object]] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def serve(self) -> None:
        """Answer until the end."""
        self.roles.listener = lambda told: self.news.append((time.monotonic(), told))
        while not self.stop.is_set():
            self.roles.step(0.05)
            for message in self.roles.taken():
                message.answer(message.payload)


@contextmanager
def hosting(stage: Stage, node: str, role: str) -> Iterator[Host]:
    """Have an application answer for a role at a node, for a while."""
    host = Host(_application(stage, node, f"host-{role}"))
    host.roles.add(TREE, role, timeout_s=WAIT_S)
    thread = threading.Thread(target=host.serve, daemon=True)
    thread.start()
    try:
        yield host
    finally:
        host.stop.set()
        thread.join(10)
        host.roles.close()


def _application(stage: Stage, node: str, name: str) -> Roles:
    kafka = stage.fleet.kafka("here", f"bench-{name}")
    return Roles(kafka, stage.fleet.topology, node, name, lease_s=LONG_LEASE_S).open(WAIT_S)


def requests(
    asker: Roles, role: str, *, rate: int, length_s: float
) -> tuple[Mapping[str, float], int, int]:
    """Send evenly; return delays in ms, how many were sent, and how many answered."""
    warm = int(rate * quiet.WARM_S)
    count = warm + int(rate * length_s)
    open_: dict[int, tuple[float, Call]] = {}
    delays: dict[int, float] = {}
    began_s = time.monotonic() + 0.1
    sent = 0
    while sent < count or (open_ and time.monotonic() < began_s + count / rate + WAIT_S):
        now_s = time.monotonic()
        while sent < count and now_s >= began_s + sent / rate:
            call = asker.send(TREE, role, b"%d" % sent, timeout_s=WAIT_S)
            open_[sent] = (began_s + sent / rate, call)
            sent += 1
        asker.step(min(0.002, max(0.0, began_s + sent / rate - now_s)))
        now_s = time.monotonic()
        for number in [number for number, (_, call) in open_.items() if call.is_done]:
            due_s, call = open_.pop(number)
            if any(one.kind is ReplyKind.DATA for one in call.replies):
                delays[number] = (now_s - due_s) * 1000
    kept = [delay for number, delay in delays.items() if number >= warm]
    if not kept:
        raise StartError(f"nobody answered for role {role}")
    return quiet.percentiles(kept), count - warm, len(kept)


def until_answered(stage: Stage, asker: Roles, role: str, *, every_s: float = 0.2) -> float:
    """Send again and again; return when the first answer came."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        refuse_fallen(stage.fleet)
        call = asker.send(TREE, role, b"?", timeout_s=WAIT_S)
        next_s = time.monotonic() + every_s
        while time.monotonic() < next_s or not call.is_done:
            asker.step(0.01)
            if any(one.kind is ReplyKind.DATA for one in call.replies):
                return time.monotonic()
            if time.monotonic() > next_s + 1:
                break
    logs = "\n".join(f"{node}:\n{last_words(stage.fleet, node)}" for node in "abc")
    raise StartError(f"role {role} was not found within {WAIT_S:.0f} s; last words\n{logs}")


def killed(stage: Stage, asker: Roles, *, kills: int) -> list[float]:
    """Kill the bridge and start it at once; return when the role behind it answers again."""
    found = []
    for _ in range(kills):
        until_answered(stage, asker, FAR)
        killed_s = time.monotonic()
        stage.fleet.kill_node("b")
        stage.fleet.start_node("b")
        found.append(until_answered(stage, asker, FAR) - killed_s)
    return found


def cut_and_healed(
    stage: Stage, asker: Roles, ends: Sequence[Host], *, times: int
) -> Mapping[str, Sequence[float]]:
    """Cut the link b-c and heal it; return when both ends were told, and the first answer."""
    found: dict[str, list[float]] = {"cut": [], "heal": [], "send": []}
    for _ in range(times):
        until_answered(stage, asker, FAR)
        found["cut"].append(_told(ends, PartitionSuspected, partial(_cut, stage, True)))
        found["heal"].append(_told(ends, Unpartitioned, partial(_cut, stage, False)))
        began_s = time.monotonic()
        found["send"].append(until_answered(stage, asker, FAR) - began_s)
    return found


def _cut(stage: Stage, is_cut: bool) -> None:
    stage.fleet.cut("b", ["c"] if is_cut else [])
    stage.fleet.cut("c", ["b"] if is_cut else [])


def _told(ends: Sequence[Host], kind: type, happen: Callable[[], None]) -> float:
    """Return after how many seconds the last end was told."""
    for end in ends:
        end.news.clear()
    began_s = time.monotonic()
    happen()
    deadline_s = began_s + WAIT_S
    while time.monotonic() < deadline_s:
        firsts = [
            min((at for at, told in end.news if isinstance(told, kind)), default=None)
            for end in ends
        ]
        if None not in firsts:
            return max(one for one in firsts if one is not None) - began_s
        time.sleep(0.02)
    raise StartError(f"{kind.__name__} was not told within {WAIT_S:.0f} s")


def measure(directory: Path, *, seconds: float, kills: int, cuts: int) -> Found:
    """Measure all, in one run on one mesh."""
    with Stage(directory, find_kafka(progress=say), say) as stage, contextlib.ExitStack() as stack:
        stage.start_nodes()
        far = stack.enter_context(hosting(stage, "c", FAR))
        near = stack.enter_context(hosting(stage, "b", NEAR))
        asker = _application(stage, "a", "asker")
        stack.callback(asker.close)
        for role in (FAR, NEAR):
            until_answered(stage, asker, role)
        say(f"direct at {RATE}/s")
        names = stage.names
        direct = quiet.one_way(
            stage, f"{names.prefix}a.in.d", names.endpoint("b", "near-d"), "near-d/x/y",
            rate=RATE, length_s=seconds,
        )  # fmt: skip
        say(f"requests at {RATE}/s")
        request, _, _ = requests(asker, FAR, rate=RATE, length_s=seconds)
        say(f"requests at {MANY}/s")
        many, sent, answered = requests(asker, NEAR, rate=MANY, length_s=seconds)
        found = Found(direct_ms=direct, request_ms=request, many_ms=many, many_sent=sent,
                      many_answered=answered)  # fmt: skip
        if cuts:
            say("cuts and heals")
            told = cut_and_healed(stage, asker, (near, far), times=cuts)
            found.cut_told_s, found.heal_told_s = told["cut"], told["heal"]
            found.first_send_s = told["send"]
        if kills:
            say("kills")
            source, target = f"{names.prefix}a.in.g", names.endpoint("b", "near-g")
            found.takeover_s = takeovers(stage, "b", source, target, kills=kills)
            found.again_s = killed(stage, asker, kills=kills)
    return found


def _p95(seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1] if len(seconds) > 1 else max(seconds)


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("roles", __doc__)
    parser.add_argument("--seconds", type=at_least(1), default=60, help="of each load")
    parser.add_argument("--kills", type=at_least(0), default=10)
    parser.add_argument("--cuts", type=at_least(0), default=5)
    options = parser.parse_args(arguments)
    run = partial(measure, seconds=options.seconds, kills=options.kills, cuts=options.cuts)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
