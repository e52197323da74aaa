"""The page's server beside the demo: what it takes, and how soon it shows what is in a topic."""

from __future__ import annotations

import http.client
import json
import random
import selectors
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from urllib.parse import quote, urlsplit

from playwright.sync_api import Browser, expect

from mesh.transport.kafka import RealKafka
from tests.bench.command import say
from tests.bench.demo import Demo, running_demo
from tests.bench.meter import cpu_s

DEMO_S = 420
SETTLE_S = 45
SHARE_S = 40
VIEWERS = 50
VIEWS = 8
CHANGES = 40
TRACES = 10


def _percent(pid: int, seconds: float) -> float:
    """Return what a process takes of a core for a while."""
    before, begun = cpu_s(pid), time.monotonic()
    time.sleep(seconds)
    return 100 * (cpu_s(pid) - before) / (time.monotonic() - begun)


def _with_viewers(address: str, pid: int) -> float:
    """Return the same while fifty follow the feed."""
    netloc = urlsplit(address).netloc
    connections = [http.client.HTTPConnection(netloc, timeout=10) for _ in range(VIEWERS)]
    reading = selectors.DefaultSelector()
    for one in connections:
        one.request("GET", "/api/v1/events")
        answer = one.getresponse()
        reading.register(answer, selectors.EVENT_READ)
    before, begun = cpu_s(pid), time.monotonic()
    while (passed := time.monotonic() - begun) < SHARE_S:
        for key, _ in reading.select(timeout=max(0.0, min(1.0, SHARE_S - passed))):
            key.fileobj.read1(65_536)  # type: ignore[union-attr]
    used = cpu_s(pid) - before
    for one in connections:
        one.close()
    return 100 * used / (time.monotonic() - begun)


def _delays(browser: Browser, demo: Demo) -> Sequence[float]:
    """Return how long findings take from their topic to the page, in seconds, sorted."""
    addresses = dict(one.split("=", 1) for one in demo.options if "=" in one)
    kafka = RealKafka("tokyo", {"bootstrap.servers": addresses["tokyo"]})
    writer = kafka.writer("measuring")
    page = browser.new_page()
    page.goto(f"{demo.address}/map")
    count = page.locator("#views a[href*='/findings'] .count")
    took = []
    for number in range(CHANGES):
        time.sleep(random.uniform(0.2, 1.2))
        is_new = number % 2 == 0
        shown = f"{count.text_content() or ''}"
        value = {"kind": "duplicate", "text": "written by a measurement", "ids": []}
        text = json.dumps(value).encode() if is_new else None
        writer.produce("mesh.audit.findings", text, b"measuring", 0)
        writer.flush()
        begun = time.monotonic()
        expect(count).not_to_have_text(shown, timeout=30_000)
        took.append(time.monotonic() - begun)
    page.close()
    writer.close()
    kafka.close()
    return sorted(took)


def _traces(address: str) -> float:
    """Return how long the slowest of ten traces takes, in seconds; a minute is given up at."""
    took = []
    for offset in range(TRACES):
        begun = time.monotonic()
        path = quote(f"mesh.ny1.in.g/0/{offset * 37}")
        url = f"{address}/api/v1/trace/{path}"
        with suppress(TimeoutError), urllib.request.urlopen(url, timeout=60) as answer:
            answer.read()
        took.append(time.monotonic() - begun)
    return max(took)


def measured_demo(
    browser: Browser, directory: Path, first_view: Callable[[str, str], float]
) -> Mapping[str, float | None]:
    """Run the demo, and return what its page's server takes.

    Args:
        browser: Looks at it.
        directory: For the demo's output.
        first_view: Times how long an address takes until something labelled is drawn; the median
            of eight is told.
    """
    say(f"the demo, for at most {DEMO_S} s")
    with running_demo(directory, DEMO_S) as demo:
        address, server = demo.address, demo.server
        time.sleep(SETTLE_S)  # the past is read, the auditor has begun
        idle = _percent(server.pid, SHARE_S)
        say(f"{VIEWERS} viewers")
        viewed = _with_viewers(address, server.pid)
        first = median(first_view(f"{address}/map", "node ny1") for _ in range(VIEWS))
        say(f"{CHANGES} changes")
        delays = _delays(browser, demo)
        return {
            "first_view_s": first,
            "idle_percent": idle,
            "viewers_percent": viewed,
            "rss_mb": server.memory_info().rss / 1e6,
            "delay_p50_s": delays[len(delays) // 2],
            "delay_p95_s": delays[int(len(delays) * 0.95)],
            "trace_s": _traces(address),
        }
