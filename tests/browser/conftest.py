"""A real browser, and a simulated mesh with an auditor whose words the test chooses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from mesh.config.topology_file import topology_from_mapping
from mesh.transport.port import TopicSpec
from tests.chromium import WAIT_MS, chromium
from tests.component.api.conftest import Api, MakeApi, api_of

__all__ = ["api_of", "chromium"]  # the fixtures

TABLES = ("findings", "certificates", "links", "canaries", "status", "minutes", "subscriptions")
BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}
MARKUP = "<img src=x onerror=window.hacked=1 <b>bold</b><script>window.hacked=1</script>"

SPEC: Mapping[str, Any] = {
    "kafka": {"left": None, "right": None},
    "nodes": {
        "tk1": {"kafka": "left"},
        "tk2": {"kafka": "left"},
        "tk3": {"kafka": "left"},
        "ny1": {"kafka": "right"},
        "ny2": {"kafka": "right"},
    },
    "zones": {
        "TK": {"kind": "one-hop", "nodes": ["tk1", "tk2", "tk3"], "title": MARKUP},
        "WO": {"kind": "multi-hop", "links": [["tk1", "ny1"]]},
        "NY": {"kind": "one-hop", "nodes": ["ny1", "ny2"]},
    },
    "audit": {"kafka": "left"},
}


@dataclass
class Auditor:
    """Writes what an auditor would, of the simulated mesh."""

    api: Api
    kafka: str = "left"

    def __post_init__(self) -> None:
        names = [f"mesh.audit.{one}" for one in TABLES]
        specs = [TopicSpec(name=name, partitions=1, settings=BROKER_TIME) for name in names]
        self._kafka = self.api.mesh.world.kafka[self.kafka]
        self._kafka.admin().create(specs)
        self._writer = self._kafka.writer("auditor")

    def says(self, table: str, key: str, value: Mapping[str, object] | None) -> None:
        """Write one thing."""
        text = None if value is None else json.dumps(value).encode()
        with self.api.turn:
            self._writer.produce(f"mesh.audit.{table}", text, key.encode(), 0)
            self._writer.flush()

    def certifies(self, endpoint: str, *, equal: bool = True) -> None:
        """Write a certificate, and that nothing waits."""
        certificate = {
            "source": "mesh.tk3.in.g[0]",
            "block": 0,
            "from": 0,
            "to": 9,
            "endpoint": endpoint,
            "expected": 10,
            "delivered": 10 if equal else 11,
            "equal": equal,
            "partial": True,
        }
        self.says("certificates", f"c {endpoint}", certificate)
        self.speaks(endpoint)

    def speaks(self, *endpoints: str) -> None:
        """Write a status."""
        status = {
            "at_ms": self.api.mesh.now_ms(),
            "batch": 7,
            "uncertified": 0,
            "waiting": [],
            "endpoints": list(endpoints),
        }
        self.says("status", "position", status)

    def finds(self, kind: str, text: str, **more: object) -> None:
        """Write a finding."""
        self.says("findings", f"{kind} {text}", {"kind": kind, "text": text, "ids": [], **more})


@pytest.fixture
def api(api_of: MakeApi) -> Api:
    """Five nodes on two Kafka clusters; ny2 wants what is under acme."""
    api = api_of(topology_from_mapping(SPEC, name="worldwide"))
    api.mesh.subscribe("ny2", "billing", "acme/>")
    api.lives(3)
    return api


@pytest.fixture
def auditor(api: Api) -> Auditor:
    """Its auditor, which has not said anything yet."""
    return Auditor(api)


Open = Callable[..., Page]


@pytest.fixture
def open_page(chromium: Browser, api: Api) -> Iterator[Open]:
    """`open_page("/map")`: a page that must not have a fault; width and colours may be chosen, and
    another server than that of `api`."""
    faults: list[str] = []
    contexts = []

    def opened(
        path: str,
        *,
        width: int = 1440,
        scheme: str = "light",
        waits: bool = True,
        site: str = api.url,
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda message: faults.append(message.text) if message.type == "error" else None,
        )
        page.goto(f"{site}{path}")
        if waits:
            page.locator("main h1").wait_for(state="attached")
        return page

    yield opened
    for context in contexts:
        context.close()
    # What a test itself brings about, and networks of containers that come and go on this machine.
    told = ("status of 4", "ERR_CONNECTION_RE", "ERR_NETWORK_CHANGED")  # refused, or reset
    assert [one for one in faults if not any(why in one for why in told)] == []


def is_read(page: Page) -> None:
    """Wait until a view shows what it has read."""
    page.locator("main h1").wait_for(state="attached")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
