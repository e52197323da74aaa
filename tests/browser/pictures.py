"""Pictures of every view for the docs: `python -m tests.browser.pictures [URL]`.

They are of meshes in memory: one of the demo's topology and kind of traffic that is well, one with
what such a mesh does not have (findings, queues, dead letters, roles), one that an hour of the audit
has gone by. With the address of a page, as `make demo` prints it, the first are taken of that. They
go to docs/img. Somebody looks at them before a release; tests look at the page itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random

import structlog
from playwright.sync_api import sync_playwright

from mesh.api.guard import Access
from mesh.client import Address, EndpointKind, QueuePolicy, RoleRequest
from mesh.config.topology_file import load_topology, topology_from_mapping
from mesh.lab.demo.endpoints import ENDPOINTS
from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import RoleKey
from mesh.model.trees import tree_id
from mesh.trees.settings import Settings
from mesh.wire.tree_apps import encode_lease, encode_request, lease_key, role_key
from streaming.audits.rules import RULES
from tests.browser.conftest import SPEC, Auditor
from tests.chromium import chromium_path
from tests.component.api.conftest import Api
from tests.component.in_memory_mesh import Mesh

FOLDER = Path(__file__).parents[2] / "docs" / "img"
WIDTH, HEIGHT = 1440, 900
SHOTS = (
    ("map", "/map?link=ny1->pa1", WIDTH, "light"),
    ("map-dark", "/map?node=ny1", WIDTH, "dark"),
    ("map-narrow", "/map", 360, "light"),
    ("interest", "/interest?subject=flights/JFK/AA/LAX&from=ny2", WIDTH, "light"),
    ("trace", "/trace?id=mesh.ny1.in.g/0/5", WIDTH, "light"),
    ("plan", "/plan", WIDTH, "light"),
    ("nodes", "/nodes", WIDTH, "dark"),
)
IN_MEMORY = (
    ("findings", "/findings", WIDTH, "light"),
    ("queues", "/queues?letters=tk1", WIDTH, "light"),
    ("roles", "/roles", WIDTH, "light"),
)
FLOWS: Sequence[tuple[str, MessageClass, str, int]] = (
    ("ny1", MessageClass.GUARANTEED, "flights", 9),
    ("ny2", MessageClass.GUARANTEED, "flights", 7),
    ("ny3", MessageClass.GUARANTEED, "flights", 6),
    ("sg2", MessageClass.GUARANTEED, "alerts", 3),
    ("ld2", MessageClass.DIRECT, "board", 2),
)
"""Who publishes how many of what a second."""

LEVELS: Mapping[str, Sequence[Sequence[str]]] = {
    "flights": (
        ("JFK", "LGA", "EWR"),
        ("AA", "DL", "UA", "US", "B6"),
        ("LAX", "ATL", "SFO", "PBI"),
    ),
    "alerts": (("cancelled", "late"), ("EWR", "JFK")),
    "board": (("EWR", "LGA"), ("ORD", "ATL", "BOS")),
}
FLOWS_S = 75
HOUR = (("audit", "/audit?cell=ny2/orders%20{doubled_ms}", WIDTH, "light"),)
PLAN = FOLDER.parents[1] / "mesh" / "lab" / "demo" / "topology.yaml"


@contextmanager
def demo_in_memory() -> Iterator[str]:
    """Give the address of a page of the demo's topology, well and certified."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    api = Api(Mesh(load_topology(PLAN)), Access())
    try:
        api.live.look()
        auditor, chance = Auditor(api, "tokyo"), Random(36)
        for one in ENDPOINTS:
            for filter_ in one.filters:
                api.mesh.subscribe(one.node, one.endpoint, filter_, message_class=one.message_class)
        clients = {node: api.mesh.client(node) for node, *_ in FLOWS}
        for _ in range(FLOWS_S):
            with api.turn:
                for node, message_class, kind, rate in FLOWS:
                    for _ in range(chance.randint(rate - 1, rate + 1)):
                        subject = "/".join([kind, *map(chance.choice, LEVELS[kind])])
                        clients[node].publish(subject, b"a flight", message_class=message_class)
                    clients[node].flush()
            api.lives(1)
        for one in ENDPOINTS:
            if not one.is_direct:
                auditor.certifies(one.name)
        auditor.speaks(*(one.name for one in ENDPOINTS if not one.is_direct))
        api.lives(2)
        yield api.url
    finally:
        api.close()


@contextmanager
def mesh_in_memory() -> Iterator[str]:
    """Give the address of a page whose mesh has what a demo that is well does not have."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    zones = {**SPEC["zones"], "TK": {"kind": "one-hop", "nodes": ["tk1", "tk2", "tk3"]}}
    topology = topology_from_mapping({**SPEC, "zones": zones}, name="worldwide")
    api = Api(Mesh(topology, trees=Settings()), Access())
    try:
        api.live.look()
        auditor = Auditor(api)
        for node in ("ny2", "tk2"):
            queue = {"kind": EndpointKind.QUEUE, "policy": QueuePolicy.ANY}
            api.mesh.subscribe(node, "invoices", "billing/>", **queue)
        api.mesh.subscribe("ny2", "orders", "acme/>")
        for number in range(40):
            api.mesh.publish("tk3", "billing/eu", b"%d" % number)
        with api.turn:
            shared, alone = {"quotes": False}, {"quotes": False, "limits": True}
            for kafka, node, app, roles in (
                ("left", "tk1", "desk", shared),
                ("right", "ny2", "risk", alone),
            ):
                writer, topic = api.mesh.world.kafka[kafka].writer("app"), TopicNames("mesh.")
                writer.produce(topic.ingress(node, MessageClass.GUARANTEED), b"no subject", None, 0)
                writer.produce(topic.roles(node), encode_lease(600_000), lease_key(app), 0)
                for role, is_exclusive in roles.items():
                    wish = RoleRequest(Address(tree_id("trading"), role), is_exclusive=is_exclusive)
                    key = role_key(RoleKey(app, "trading", role))
                    writer.produce(topic.roles(node), encode_request(wish), key, 0)
                writer.flush()
        auditor.certifies("ny2/orders", equal=False)
        source, twice = "mesh.tk3.in.g", "mesh.tk3.in.g/0/0/7"
        at = {"endpoint": "ny2/orders", "source": source, "ids": [twice]}
        parts = ["tk1,tk2,tk3", "ny1,ny2"]
        for kind, text, more in (
            (FindingKind.DUPLICATE, f"{twice} was delivered twice, at offsets 7 and 8", at),
            (FindingKind.CORRUPT, f"what was delivered as {twice} is not what was published", at),
            (FindingKind.SPLIT, "tk1, tk2, tk3 hear nothing of ny1, ny2", {"ids": parts}),
        ):
            known = {"id": f"{kind}-3f7a2c", "what_to_do": RULES[kind].advice}
            auditor.finds(kind, text, **more, **known)
        api.lives(4)
        yield api.url
    finally:
        api.close()


MINUTES, MINUTE_MS = 62, 60_000
DOUBLED, GONE, DEAF = range(31, 33), range(14, 21), range(47, 50)
"""Minutes in which something came twice, was deleted unread, and the auditor was not heard."""

WISHES = (
    ("ny2", "orders", "acme/orders/>"),
    ("ny2", "billing", "acme/orders/*"),
    ("ny1", "ops", "acme/>"),
    ("tk1", "arrivals", "acme/arrivals/>"),
    ("tk2", "board", "acme/arrivals/*"),
    ("tk3", "log", ">"),
    ("ny1", "alerts", "acme/alerts"),
)


@contextmanager
def an_hour_in_memory() -> Iterator[tuple[str, int]]:
    """Give the address of a page that has seen an hour go by, and a minute that was not equal."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    zones = {**SPEC["zones"], "TK": {"kind": "one-hop", "nodes": ["tk1", "tk2", "tk3"]}}
    api = Api(Mesh(topology_from_mapping({**SPEC, "zones": zones}, name="worldwide")), Access())
    try:
        api.live.look()
        auditor = Auditor(api)
        for wish in WISHES:
            api.mesh.subscribe(*wish)
        client = api.mesh.client("tk3")
        begun_ms = api.mesh.now_ms() // MINUTE_MS * MINUTE_MS
        for minute in range(MINUTES):
            with api.turn:
                for number in range(3 + (minute * 7) % 11):
                    client.publish(f"acme/orders/{number}", b"1")
                for number in range((minute * 5) % 8):
                    client.publish(f"acme/arrivals/{number}", b"1")
                client.flush()
                while api.mesh.now_ms() < begun_ms + (minute + 1) * MINUTE_MS - 500:
                    api.mesh.pause(15)
                    api.live.look()
            _audit(auditor, begun_ms, minute)
        api.lives(6)
        yield api.url, begun_ms + DOUBLED[0] * MINUTE_MS
    finally:
        api.close()


def _audit(auditor: Auditor, begun_ms: int, minute: int) -> None:
    """Write what an auditor says at the end of a minute; the newest two wait."""

    def spoke_of(minutes: range) -> dict[str, int]:
        first, last = minutes[0], minutes[-1] + 1
        return {
            "first_ms": begun_ms + first * MINUTE_MS,
            "last_ms": begun_ms + last * MINUTE_MS - 1,
        }

    if minute in DEAF:
        return
    names = [f"{node}/{endpoint}" for node, endpoint, _ in WISHES[:-1]]
    if minute < MINUTES - 2:
        for name in names:
            is_equal = name != "ny2/orders" or minute not in DOUBLED
            count = {"expected": 8, "delivered": 8 if is_equal else 9, "equal": is_equal}
            block = {"source": "mesh.tk3.in.g[0]", "block": minute, "from": 8 * minute}
            time = spoke_of(range(minute - 3 if minute - 1 in DEAF else minute, minute + 1))
            certificate = {**block, "to": 8 * minute + 7, "endpoint": name, **count, **time}
            auditor.says("certificates", f"{name} {minute}", certificate)
    known = {"first_seen_ms": begun_ms + (minute + 1) * MINUTE_MS, "id": "dup-3f7a2c"}
    if minute == DOUBLED[-1]:
        ids = ["mesh.tk3.in.g/0/0/251-253"]
        text = "3 messages came twice to ny2/orders; both copies came over ny1->ny2"
        at = {"endpoint": "ny2/orders", "what_to_do": RULES[FindingKind.DUPLICATE].advice}
        auditor.finds(FindingKind.DUPLICATE, text, ids=ids, **at, **known, **spoke_of(DOUBLED))
    if minute == GONE[-1]:
        text = "records of tk2/board were deleted before the auditor read them"
        at = {"endpoint": "tk2/board", "what_to_do": RULES[FindingKind.UNPROVEN].advice}
        auditor.finds(FindingKind.UNPROVEN, text, **at, **known, **spoke_of(GONE))
    waits = [{"source": "mesh.tk3.in.g[0]", "block": MINUTES, "endpoint": name} for name in names]
    status = {"at_ms": auditor.api.mesh.now_ms(), "batch": minute, "uncertified": len(waits)}
    auditor.says("status", "position", {**status, "waiting": waits, "endpoints": names})


def take(url: str, shots: Sequence[tuple[str, str, int, str]]) -> None:
    """Take pictures of the mesh behind an address."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        for name, place, width, scheme in shots:
            context = browser.new_context(
                viewport={"width": width, "height": HEIGHT},
                color_scheme="dark" if scheme == "dark" else "light",
            )
            page = context.new_page()
            page.set_default_timeout(60_000)
            page.goto(f"{url.rstrip('/')}{place}")
            page.locator("main h1").wait_for(state="attached")
            page.locator("[aria-busy=true]").first.wait_for(state="detached")
            if name == "plan":
                illegal = PLAN.read_text().replace("[tk1, ny1], ", "[tk1, ny1], [tk3, ny1], ")
                page.get_by_label("Topology", exact=True).fill(illegal)
                page.get_by_role("button", name="Plan", exact=True).click()
                page.get_by_text("Refused").wait_for()
            page.screenshot(path=FOLDER / f"{name}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    with nullcontext(sys.argv[1]) if len(sys.argv) > 1 else demo_in_memory() as address:
        take(address, SHOTS)
    if len(sys.argv) == 1:
        with mesh_in_memory() as address:
            take(address, IN_MEMORY)
        with an_hour_in_memory() as (address, doubled_ms):
            [(name, place, width, scheme)] = HOUR
            take(address, [(name, place.format(doubled_ms=doubled_ms), width, scheme)])
