"""What a worker that listens costs: memory and a core at rest, and scrapes.

One broker, a hub and its neighbours. The hub listens; it is scraped as often as Prometheus does
while it rests, and then many times in a row.
"""

from __future__ import annotations

import sys
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

from mesh.local.jars import find_kafka
from mesh.local.ports import LOOPBACK, free_port
from mesh.local.processes import spawn
from tests.bench import meter
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.stage import Sink, Stage, wait_for

HUB = "h"
TOPOLOGY = """\
apiVersion: mesh/v1
kind: Mesh
metadata: {{name: hub}}
spec:
  kafka: {{here: {{}}}}
  nodes: {{{nodes}}}
  zones:
    STAR: {{kind: multi-hop, links: [{links}]}}
"""
SETTLE_S = 10.0
EVERY_S = 15.0
"""How often the chart's PodMonitor has Prometheus scrape."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was measured at the hub.

    Attributes:
        links: How many it has.
        rss_mb: Resident size at rest.
        core: Share of a core that it uses at rest, scrapes included.
        scrapes_ms: How long each scrape of many took.
        series: How many it tells.
        body_bytes: Of a scrape.
    """

    links: int
    rss_mb: float
    core: float
    scrapes_ms: Sequence[float]
    series: int
    body_bytes: int

    def goals(self) -> Sequence[Goal]:
        """Return what is promised."""
        return [
            Goal("at rest, resident MB", 120, self.rss_mb),
            Goal("at rest, share of a core", 0.02, self.core),
            Goal(f"scrape of {self.links} links, p50, ms", 20, median(self.scrapes_ms)),
            Goal("series", 2_000, self.series),
        ]

    def as_json(self) -> dict[str, object]:
        """Return it as plain values."""
        return {**asdict(self), "goals": [goal.as_json() for goal in self.goals()]}

    def rows(self) -> Sequence[str]:
        """Return it as lines for people."""
        worst = f"  {len(self.scrapes_ms)} scrapes of {self.body_bytes / 1e3:.0f} kB, "
        worst += f"worst {max(self.scrapes_ms):.1f} ms"
        return [*(goal_line(goal.as_json()) for goal in self.goals()), worst]


def star(neighbours: Sequence[str]) -> str:
    """Return the file of a mesh in which all are linked to the hub."""
    nodes = ", ".join(f"{node}: {{kafka: here}}" for node in (HUB, *neighbours))
    return TOPOLOGY.format(nodes=nodes, links=", ".join(f"[{HUB}, {node}]" for node in neighbours))


def scraped(port: int) -> tuple[float, bytes]:
    """Return how long a scrape took, in ms, and what came."""
    began_s = time.perf_counter()
    with urllib.request.urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=10) as answer:
        body = answer.read()
    return (time.perf_counter() - began_s) * 1e3, body


def start_hub(stage: Stage) -> int:
    """Start the hub's worker anew, with a port that it returns, and wait until it serves."""
    fleet, port = stage.fleet, free_port()
    for former in fleet.workers[HUB]:
        former.kill()
    fleet.ready_file(HUB).unlink(missing_ok=True)
    command = [*fleet.command(HUB, 0), "--listen", f"{LOOPBACK}:{port}"]
    log = fleet.directory / "log" / f"{HUB}-listens.log"
    fleet.workers[HUB] = [spawn(command, name="hub", log=log)]
    wait_for(fleet, fleet.ready_file(HUB).exists, "ready")
    return port


def measure(directory: Path, *, links: int, seconds: float, scrapes: int) -> Found:
    """Measure the hub at rest, and then scrapes."""
    neighbours = [f"n{number}" for number in range(1, links + 1)]
    sinks = [Sink("all", node, f"{node}/>") for node in neighbours]
    with Stage(directory, find_kafka(progress=say), say, star(neighbours), sinks) as stage:
        stage.start_nodes()
        port = start_hub(stage)
        hub = stage.worker(HUB)
        time.sleep(SETTLE_S)
        say(f"at rest, for {seconds:.0f} s")
        cpu_s, began_s = meter.cpu_s(hub.pid), time.monotonic()
        while (left_s := began_s + seconds - time.monotonic()) > 0:
            scraped(port)
            time.sleep(min(EVERY_S, left_s))
        core = (meter.cpu_s(hub.pid) - cpu_s) / (time.monotonic() - began_s)
        rss_mb = hub.rss() / 1e6
        say(f"{scrapes} scrapes")
        found = [scraped(port) for _ in range(scrapes)]
    lines = found[-1][1].decode().splitlines()
    return Found(
        links=links,
        rss_mb=rss_mb,
        core=core,
        scrapes_ms=[took_ms for took_ms, _ in found],
        series=sum(not line.startswith("#") for line in lines),
        body_bytes=len(found[-1][1]),
    )


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("port", __doc__)
    parser.add_argument("--links", type=at_least(1), default=16, help="of the hub")
    parser.add_argument("--seconds", type=at_least(10), default=60, help="at rest")
    parser.add_argument("--scrapes", type=at_least(1), default=100, help="in a row")
    options = parser.parse_args(arguments)
    asked = {"links": options.links, "seconds": options.seconds, "scrapes": options.scrapes}
    run = partial(measure, **asked)
    return carry_out(options, run, Found.rows, Found.as_json, Found.goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
