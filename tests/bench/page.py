"""The page and its API: what they cost, and how soon something is on screen.

`python -m tests.bench.page` draws a mesh of 200 nodes in the distribution's Chromium and feeds it
changes every second; `--demo` also starts the demo, and measures the server beside it.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import structlog
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topology import Topology
from mesh.transport.port import TopicSpec
from mesh.worker.process.logs import set_up_logs
from tests.bench.command import at_least, carry_out, parser_of, say
from tests.bench.goals import Goal, goal_line
from tests.bench.page_demo import measured_demo
from tests.chromium import chromium_path
from tests.component.api.conftest import Api
from tests.component.in_memory_mesh import Mesh

ZONE_NODES, ZONES, KAFKAS = 6, 34, 4
NODES = 200
LABELS = 50
"""Links whose label comes and goes, and changes, every second."""

HOUR_S = 3_600
DAY_MINUTES = 24 * 60
FINDINGS_A_MINUTE = 10


@dataclass(slots=True)
class Found:
    """What was measured, each with its unit in its name; None was not."""

    nodes: int = 0
    directions: int = 0
    first_view_s: float | None = None
    first_view_wide_s: float | None = None
    main_thread_percent: float | None = None
    main_thread_parts: Mapping[str, float] = field(default_factory=dict)
    heap_mb: float | None = None
    heap_growth_mb: float | None = None
    elements_growth: float | None = None
    history_views_s: Mapping[str, float] = field(default_factory=dict)
    demo: Mapping[str, float | None] = field(default_factory=dict)


def goals(found: Found) -> Sequence[Goal]:
    """Return what is promised."""
    demo = found.demo
    return [
        Goal("first view, 200 nodes, s", 2, found.first_view_wide_s),
        Goal("main thread, % of a core", 5, found.main_thread_percent),
        Goal("heap growth in 3,600 changes, MB", 1, found.heap_growth_mb),
        Goal("24 h of history, slowest view, s", 2, max(found.history_views_s.values(), default=None)),
        Goal("first view beside the demo, s", 2, demo.get("first_view_s")),
        Goal("server, RSS in MB", 150, demo.get("rss_mb")),
        Goal("server without viewers, % of a core", 3, demo.get("idle_percent")),
        Goal("server, 50 viewers, % of a core", 20, demo.get("viewers_percent")),
        Goal("topic to page, p95, s", 2.5, demo.get("delay_p95_s")),
        Goal("trace, slowest of ten, s", 3, demo.get("trace_s")),
    ]  # fmt: skip


def wide_topology() -> Topology:
    """Return 200 nodes in zones of six, a chain of gateways between them."""
    nodes = [f"n{number}" for number in range(NODES)]
    members = [nodes[first : first + ZONE_NODES] for first in range(0, NODES, ZONE_NODES)]
    gateways = [one[0] for one in members]
    zones: dict[str, object] = {
        f"Z{number}": {"kind": "one-hop", "nodes": one} for number, one in enumerate(members)
    }
    zones["WO"] = {
        "kind": "multi-hop",
        "links": [list(pair) for pair in pairwise(gateways)],
    }
    return topology_from_mapping(
        {
            "kafka": {f"k{number}": None for number in range(KAFKAS)},
            "nodes": {
                node: {"kafka": f"k{number * KAFKAS // NODES}"} for number, node in enumerate(nodes)
            },
            "zones": zones,
        },
        name="wide",
    )


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def _served(topology: Topology) -> Iterator[Api]:
    """Serve a mesh none of whose nodes runs: what the page gets is said by the measurement."""
    api = Api(Mesh(topology, runs=False), _open_access())
    api.live.look()
    try:
        yield api
    finally:
        api.close()


def _open_access() -> Any:
    from mesh.api.guard import Access

    return Access()


def _first_view(browser: Browser, url: str, label: str) -> float:
    """Return the seconds until the map is drawn in a browser that has nothing yet."""
    context = browser.new_context()
    page = context.new_page()
    begun = time.monotonic()
    page.goto(url)
    page.get_by_label(label, exact=True).wait_for()
    took = time.monotonic() - begun
    context.close()
    return took


def _change(topology: Topology, number: int) -> dict[str, Any]:
    links = {}
    for place, link in enumerate(topology.links):
        for source, target in (link.ends, link.ends[::-1]):
            is_odd = place < LABELS and number % 2 == 1
            rate = 1.0 + (place * 37 + number * 101) % 5_000
            links[f"{source}->{target}"] = ("paused" if is_odd else "up", rate, rate / 10, 1, "")
    nodes = dict.fromkeys(topology.nodes, ("up", number % 7))
    return {"at_ms": int(time.time() * 1000), "nodes": nodes, "links": links}


def _feed(api: Api, topology: Topology, count: int, every_s: float) -> None:
    begun = time.monotonic()
    for number in range(count):
        api._publish(_change(topology, number))
        time.sleep(max(0.0, begun + (number + 1) * every_s - time.monotonic()))


def _swept(cdp: CDPSession) -> Mapping[str, float]:
    cdp.send("HeapProfiler.collectGarbage")
    return _metrics(cdp)


def _metrics(cdp: CDPSession) -> Mapping[str, float]:
    told = cdp.send("Performance.getMetrics")["metrics"]
    return {one["name"]: one["value"] for one in told}


def _measure_wide(browser: Browser, found: Found, seconds: int, updates: int) -> None:
    topology = wide_topology()
    found.nodes, found.directions = len(topology.nodes), 2 * len(topology.links)
    say(f"a mesh of {found.nodes} nodes and {found.directions} directions of links")
    with _served(topology) as api:
        found.first_view_wide_s = _first_view(browser, f"{api.url}/map?q=n", "node n0")
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto(f"{api.url}/map?q=n&link=n0->n1")
        page.get_by_label("node n0", exact=True).wait_for()
        cdp = page.context.new_cdp_session(page)
        # CPU time of the thread, not time on the wall: others use this machine too.
        cdp.send("Performance.setTimeDomain", {"timeDomain": "threadTicks"})
        cdp.send("Performance.enable")
        _feed(api, topology, 5, 1.0)
        before = _metrics(cdp)
        begun = time.monotonic()
        _feed(api, topology, seconds, 1.0)
        after = _metrics(cdp)
        passed = time.monotonic() - begun
        parts = ("TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration")
        used = {part: 100 * (after[part] - before[part]) / passed for part in parts}
        found.main_thread_percent = used["TaskDuration"]
        found.main_thread_parts = used
        swept = _swept(cdp)
        say(f"{updates} changes, as in an hour")
        _feed(api, topology, updates, 0.03)
        end = _change(topology, 0) | {"links": {"n0->n1": ("down", 0.0, 0.0, 1, "")}}
        api._publish(end)
        page.locator("[aria-label='link n0 to n1'][aria-description=down]").wait_for(
            timeout=300_000
        )
        last = _swept(cdp)
        found.heap_mb = last["JSHeapUsedSize"] / 1e6
        found.heap_growth_mb = (last["JSHeapUsedSize"] - swept["JSHeapUsedSize"]) / 1e6
        found.elements_growth = last["Nodes"] - swept["Nodes"]
        page.close()


def _measure_history(browser: Browser, found: Found) -> None:
    """Look at a moment twelve hours ago, of a mesh of 20 nodes with a day of findings."""
    nodes = [f"n{number}" for number in range(20)]
    topology = topology_from_mapping(
        {
            "kafka": {"one": None},
            "nodes": {node: {"kafka": "one"} for node in nodes},
            "zones": {"Z": {"kind": "one-hop", "nodes": nodes}},
            "audit": {"kafka": "one"},
        },
        name="a-day",
    )
    mesh = Mesh(topology, runs=False)
    mesh.pause((DAY_MINUTES + 60) * 60)
    _write_a_day(mesh, nodes)
    api = Api(mesh, _open_access())
    api.live.look()
    try:
        at_ms = api.live.snapshot.seen.at_ms - DAY_MINUTES // 2 * 60_000
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_ms / 1000))
        _first_view(browser, f"{api.url}/map", "node n0")
        found.history_views_s = {
            view: _shown_at(browser, f"{api.url}/{view}?at={at}")
            for view in ("map", "audit", "findings", "nodes", "interest")
        }
    finally:
        api.close()


def _write_a_day(mesh: Mesh, nodes: Sequence[str]) -> None:
    from json import dumps

    kafka = mesh.world.kafka["one"]
    names = [f"mesh.audit.{one}" for one in ("findings", "certificates", "status")]
    kafka.admin().create([TopicSpec(name=name, partitions=1, settings={}) for name in names])
    writer = kafka.writer("auditor")
    end_ms = mesh.now_ms()

    def say_at(table: str, key: str, value: Mapping[str, object], at_ms: int) -> None:
        text = dumps(value).encode()
        writer.produce(f"mesh.audit.{table}", text, key.encode(), 0, timestamp=at_ms)

    for minute in range(DAY_MINUTES):
        at_ms = end_ms - (DAY_MINUTES - minute) * 60_000
        say_at("status", "position", {"at_ms": at_ms, "batch": minute, "uncertified": 0}, at_ms)
        for number in range(FINDINGS_A_MINUTE):
            node = nodes[(minute + number) % len(nodes)]
            key = f"{minute}-{number}"
            finding = {
                "kind": "duplicate",
                "id": key,
                "endpoint": f"{node}/all",
                "text": f"a message was delivered twice to {node}/all",
                "ids": [f"mesh.{node}.in.g/0/0/{minute}"],
            }
            say_at("findings", key, finding, at_ms)
        for node in nodes:
            certificate = {
                "source": f"mesh.{node}.in.g[0]",
                "block": minute,
                "from": 0,
                "to": 9,
                "endpoint": f"{node}/all",
                "expected": 10,
                "delivered": 10,
                "equal": True,
            }
            say_at("certificates", f"{node} {minute}", certificate, at_ms)
    writer.flush()


def _shown_at(browser: Browser, url: str) -> float:
    """Return the seconds until a view of the past is read and drawn."""
    context = browser.new_context()
    page = context.new_page()
    begun = time.monotonic()
    page.goto(url)
    page.locator("main h1").wait_for(state="attached")
    _wait_until_read(page)
    took = time.monotonic() - begun
    context.close()
    return took


def _wait_until_read(page: Page) -> None:
    page.locator("main [aria-busy=true]").first.wait_for(state="detached")


def measure(seconds: int, updates: int, has_demo: bool, directory: Path) -> Found:
    """Measure everything."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    found = Found()
    with _browser() as browser:
        _measure_wide(browser, found, seconds, updates)
        say("a day of history")
        _measure_history(browser, found)
        if has_demo:
            found.demo = measured_demo(browser, directory, partial(_first_view, browser))
    return found


def rows(found: Found) -> Sequence[str]:
    """Return the figures as lines for people."""
    load = os.getloadavg()[0]
    history = ", ".join(f"{view} {took:.2f}" for view, took in found.history_views_s.items())
    return [
        f"{found.nodes} nodes, {found.directions} directions of links; load {load:.1f}",
        *(goal_line(goal.as_json()) for goal in goals(found)),
        f"a moment of a day with {DAY_MINUTES * FINDINGS_A_MINUTE} findings, s: {history}",
        "main thread, % of a core: "
        + ", ".join(f"{part} {share:.1f}" for part, share in found.main_thread_parts.items()),
        f"heap after all {found.heap_mb:.1f} MB, {found.elements_growth:.0f} elements more",
    ]


def as_json(found: Found) -> dict[str, object]:
    """Return the figures and goals as plain values."""
    return {
        **asdict(found),
        "load": os.getloadavg()[0],
        "goals": [goal.as_json() for goal in goals(found)],
    }


def main(arguments: Sequence[str]) -> int:
    """Measure and tell; return the exit code."""
    parser = parser_of("page", __doc__)
    parser.add_argument("--seconds", type=at_least(5), default=30, help="of changes each second")
    parser.add_argument("--updates", type=at_least(10), default=HOUR_S, help="changes for the heap")
    parser.add_argument("--demo", action="store_true", help="the server beside the demo too")
    options = parser.parse_args(arguments)
    set_up_logs(level=logging.ERROR)
    run = partial(measure, options.seconds, options.updates, options.demo)
    return carry_out(options, run, rows, as_json, goals)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
