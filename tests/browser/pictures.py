"""Pictures of every view for the docs, most of them taken of a mesh that runs: `make demo`, then

    python -m tests.browser.pictures http://127.0.0.1:8080
    python -m tests.browser.pictures

The second takes those of what a demo that is well does not have (findings, queues, dead letters,
roles) of a mesh in memory. They go to docs/img. Somebody looks at them before a release; tests look
at the page itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import structlog
from playwright.sync_api import sync_playwright

from mesh.api.guard import Access
from mesh.client import Address, EndpointKind, QueuePolicy, RoleWish
from mesh.codec.tree_apps import encode_lease, encode_wish, lease_key, role_key
from mesh.config.topology_file import topology_from_mapping
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import RoleKey
from mesh.model.trees import tree_id
from streaming.audits.findings import FindingKind
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
    ("audit", "/audit", WIDTH, "light"),
    ("plan", "/plan", WIDTH, "light"),
    ("nodes", "/nodes", WIDTH, "dark"),
)
IN_MEMORY = (
    ("findings", "/findings", WIDTH, "light"),
    ("queues", "/queues?letters=tk1", WIDTH, "light"),
    ("roles", "/roles", WIDTH, "light"),
)
PLAN = FOLDER.parents[1] / "mesh" / "lab" / "demo" / "topology.yaml"


@contextmanager
def mesh_in_memory() -> Iterator[str]:
    """Give the address of a page whose mesh has what a demo that is well does not have."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    zones = {**SPEC["zones"], "TK": {"kind": "one-hop", "nodes": ["tk1", "tk2", "tk3"]}}
    topology = topology_from_mapping({**SPEC, "zones": zones}, name="worldwide")
    api = Api(Mesh(topology), Access())
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
                    wish = RoleWish(Address(tree_id("trading"), role), is_exclusive=is_exclusive)
                    key = role_key(RoleKey(app, "trading", role))
                    writer.produce(topic.roles(node), encode_wish(wish), key, 0)
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
    if len(sys.argv) > 1:
        take(sys.argv[1], SHOTS)
    else:
        with mesh_in_memory() as address:
            take(address, IN_MEMORY)
