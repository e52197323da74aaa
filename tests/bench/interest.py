"""What many filters cost: told to all neighbours, changed again and again, taken back.

A node with so many filters, and neighbours that are fully linked with it and each other. Told are
the seconds until all filters are applied and acknowledged everywhere, the same for their end, and
which share of a core each worker spends on so many changes a second: a neighbour forwards with the
rest of its core. What workers do without changes is not counted.

On the simulator one process does the work of all nodes, so the seconds are the sum of what on real
brokers happens side by side; Kafka itself costs next to nothing there.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import write_topology
from mesh.errors import StartError
from mesh.lab.backend import Backend
from mesh.lab.real import RealBackend
from mesh.lab.simulated import SimulatedBackend
from mesh.local.fleet import Fleet
from mesh.model.control import Subscription
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.operate.changes.founding import publish
from mesh.transport.node_topics import config_topic, node_topics
from mesh.transport.port import TopicPartition
from mesh.wire.control import decode_acknowledgement
from mesh.wire.keys import subscribed_key, subscription_key
from mesh.wire.subscriptions import encode_subscription
from mesh.worker.process.logs import set_up_logs
from tests.bench.command import at_least, carry_out, parser_of, say

HUB = "hub"
GOAL_S, GOAL_SHARE = 30.0, 0.05
LIMIT_MS = 600_000
STEP_MS = 50
"""Changes are written so often."""

Cpu = Callable[[], Mapping[str, float]]
"""CPU seconds that each node's worker has used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is measured."""

    filters: int
    neighbours: int
    kind: str
    rate: int
    seconds: int
    covering: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured.

    Attributes:
        told_s, withdrawn_s: Wall time until everybody had acknowledged.
        told_cpu_s, withdrawn_cpu_s: CPU of each worker meanwhile.
        shares: Of a core, by node, for changes alone.
        changes: A second, as they were taken.
    """

    backend: str
    load: Load
    told_s: float
    told_cpu_s: Mapping[str, float]
    withdrawn_s: float
    withdrawn_cpu_s: Mapping[str, float]
    shares: Mapping[str, float]
    changes: float


class TimedBackend(SimulatedBackend):
    """Knows how much CPU the turns of each worker took."""

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology, 1)
        self.cpu_s: Counter[str] = Counter()

    def _turn(self, name: str) -> None:
        begun_s = time.process_time()
        super()._turn(name)
        self.cpu_s[name] += time.process_time() - begun_s


class Clients:
    """Writes subscriptions of the hub, and waits until they are known everywhere."""

    def __init__(self, topology: Topology, backend: Backend) -> None:
        self.backend = backend
        self.complete = -1
        self._names = TopicNames(topology.prefix)
        self._kafka = backend.kafka["k"]
        self._writer = self._kafka.writer("bench-interest")
        self._reader = self._kafka.reader("bench-interest")
        self._reader.assign({TopicPartition(self._names.control(HUB), 0): 0})

    def write(self, numbers: Sequence[int], *, wanted: bool) -> None:
        """Subscribe with these filters, or end it."""
        value = encode_subscription(Subscription()) if wanted else None
        for number in numbers:
            key = subscription_key("bench", f"acme/site-{number % 997}/line-{number}/*")
            self._writer.produce(self._names.clients(HUB), value, key, 0)
        if self._writer.flush():
            raise StartError("Kafka did not take all subscriptions")

    def look(self) -> None:
        """Read how far they are known everywhere."""
        for record in self._reader.read(0.0, 100_000):
            if record.key() == subscribed_key() and (value := record.value()) is not None:
                self.complete = max(self.complete, decode_acknowledgement(value).complete)

    def wait(self) -> None:
        """Let time pass until all that is written is known everywhere."""
        place = TopicPartition(self._names.clients(HUB), 0)
        last = self._kafka.admin().ends([place])[place] - 1
        deadline = self.backend.now_ms() + LIMIT_MS
        while self.complete < last:
            if self.backend.now_ms() > deadline:
                raise StartError(f"known everywhere up to {self.complete}, not {last}")
            self.backend.advance()
            self.look()

    def rest(self, length_ms: int) -> None:
        """Let time pass."""
        until = self.backend.now_ms() + length_ms
        while self.backend.now_ms() < until:
            self.backend.advance()

    def close(self) -> None:
        """Release the clients."""
        self._writer.close()
        self._reader.close()


def topology(load: Load) -> Topology:
    """Return the mesh: fully linked, or a star of single links."""
    names = [f"n{number}" for number in range(1, load.neighbours + 1)]
    zone: dict[str, object] = {"kind": load.kind}
    if load.kind == "multi-hop":
        zone["links"] = [[HUB, name] for name in names]
    else:
        zone["nodes"] = [HUB, *names]
    spec = {"kafka": {"k": {}}, "nodes": {n: {} for n in (HUB, *names)}, "zones": {"Z": zone}}
    return topology_from_mapping({**spec, "covering": load.covering})


@contextmanager
def stage(backend: str, load: Load, directory: Path) -> Iterator[tuple[Backend, Cpu]]:
    """Start the mesh."""
    wanted = topology(load)
    if backend == "sim":
        simulated = TimedBackend(wanted)
        begin(wanted, simulated)
        yield simulated, lambda: dict(simulated.cpu_s)
        return
    file = directory / "mesh.yaml"
    write_topology(wanted, file)
    fleet = Fleet.start(wanted, file, directory, progress=say)
    try:
        real = RealBackend(fleet)
        try:
            begin(fleet.topology, real)
            yield real, lambda: {n: sum(p.cpu_s() for p in w) for n, w in fleet.workers.items()}
        finally:
            real.close()
    finally:
        fleet.stop()


def begin(wanted: Topology, backend: Backend) -> None:
    """Make topics and start the nodes."""
    admin = backend.kafka["k"].admin()
    admin.create([config_topic(wanted)])
    for node in wanted.nodes:
        admin.create(node_topics(wanted, node))
    publish(wanted, backend.kafka)
    for node in wanted.nodes:
        backend.start(node)


def measure(backend: str, load: Load, directory: Path) -> Found:
    """Tell, change and withdraw."""
    with stage(backend, load, directory) as (place, cpu):
        clients = Clients(topology(load), place)
        try:
            clients.write([-1], wanted=True)
            clients.wait()
            before, begun_s = cpu(), time.monotonic()
            clients.write(range(load.filters), wanted=True)
            clients.wait()
            told_s, told_cpu = time.monotonic() - begun_s, spent(cpu(), before)
            say(f"{load.filters} filters are known everywhere after {told_s:.1f} s")
            shares, changes = changing(clients, cpu, load)
            before, begun_s = cpu(), time.monotonic()
            clients.write(range(load.filters), wanted=False)
            clients.wait()
            withdrawn_s, withdrawn_cpu = time.monotonic() - begun_s, spent(cpu(), before)
        finally:
            clients.close()
    return Found(
        backend=backend,
        load=load,
        told_s=told_s,
        told_cpu_s=told_cpu,
        withdrawn_s=withdrawn_s,
        withdrawn_cpu_s=withdrawn_cpu,
        shares=shares,
        changes=changes,
    )


def changing(clients: Clients, cpu: Cpu, load: Load) -> tuple[Mapping[str, float], float]:
    """Return which share of a core each node needs for changes, and how many there were."""
    length_ms = load.seconds * 1000
    begun = cpu()
    clients.rest(length_ms)
    idle = spent(cpu(), begun)
    begun, begun_ms = cpu(), clients.backend.now_ms()
    done = 0
    while (gone_ms := clients.backend.now_ms() - begun_ms) < length_ms:
        due = load.rate * gone_ms // 1000
        # Each is wanted and ended again, one after the other.
        ends = [load.filters + number // 2 for number in range(done, due) if number % 2]
        starts = [load.filters + number // 2 for number in range(done, due) if not number % 2]
        clients.write(starts, wanted=True)
        clients.write(ends, wanted=False)
        done = due
        clients.rest(STEP_MS)
    clients.wait()
    seconds = (clients.backend.now_ms() - begun_ms) / 1000
    used = spent(cpu(), begun)
    return {n: used[n] / seconds - idle[n] / load.seconds for n in used}, done / seconds


def spent(now: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Return the difference."""
    return {node: now[node] - before.get(node, 0.0) for node in now}


def rows(found: Found) -> Sequence[str]:
    """Return the figures as lines for people."""
    load = found.load
    worst = max(share for node, share in found.shares.items() if node != HUB)
    covering = ", covering" if load.covering else ""
    mesh = f"{load.filters} filters, {load.neighbours} neighbours, {load.kind}{covering}"
    share = f"{100 * worst:.1f} % of a neighbour's core (goal {100 * GOAL_SHARE:g})"
    return [
        f"{mesh}, on {found.backend}",
        f"known everywhere {_took(found.told_s, found.told_cpu_s)}",
        f"withdrawn everywhere {_took(found.withdrawn_s, found.withdrawn_cpu_s)}",
        f"{found.changes:.0f} changes/s: {share}, {100 * found.shares[HUB]:.1f} % of the hub's",
    ]


def _took(seconds: float, cpu_s: Mapping[str, float]) -> str:
    busiest = max(used for node, used in cpu_s.items() if node != HUB)
    workers = f"hub {cpu_s[HUB]:.1f}, neighbours {busiest:.1f} each at most"
    used = f"CPU of all workers {sum(cpu_s.values()):.1f} s ({workers})"
    return f"after {seconds:.1f} s (goal {GOAL_S:g}); {used}"


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("interest", __doc__)
    parser.add_argument("--backend", choices=("sim", "kafka"), default="sim")
    parser.add_argument("--filters", type=at_least(1), default=100_000)
    parser.add_argument("--neighbours", type=at_least(1), default=8)
    kinds = ("cluster", "one-hop", "multi-hop")
    parser.add_argument("--kind", choices=kinds, default="cluster", help="of the zone")
    parser.add_argument("--rate", type=at_least(1), default=1_000, help="changes a second")
    parser.add_argument("--seconds", type=at_least(1), default=10, help="how long they last")
    parser.add_argument("--covering", action="store_true", help="offer no covered filter")
    options = parser.parse_args(arguments)
    set_up_logs(level=logging.ERROR)
    load = Load(
        filters=options.filters,
        neighbours=options.neighbours,
        kind=options.kind,
        rate=options.rate,
        seconds=options.seconds,
        covering=options.covering,
    )
    return carry_out(options, partial(measure, options.backend, load), rows, asdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
