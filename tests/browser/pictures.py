"""Pictures of every view for the docs, taken of a mesh that runs: `make demo`, then

    python -m tests.browser.pictures http://127.0.0.1:8080

They go to docs/img. Somebody looks at them before a release; tests look at the page itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

from tests.chromium import chromium_path

FOLDER = Path(__file__).parents[2] / "docs" / "img"
WIDTH, HEIGHT = 1440, 900
SHOTS = (
    ("map", "/map?link=ny1->pa1", WIDTH, "light"),
    ("map-dark", "/map?node=ny1", WIDTH, "dark"),
    ("map-narrow", "/map", 360, "light"),
    ("interest", "/interest?subject=flights/JFK/AA/LAX&from=ny2", WIDTH, "light"),
    ("trace", "/trace?id=mesh.ny1.in.g/0/5", WIDTH, "light"),
    ("audit", "/audit", WIDTH, "light"),
    ("findings", "/findings", WIDTH, "light"),
    ("plan", "/plan", WIDTH, "light"),
    ("queues", "/queues", WIDTH, "light"),
    ("roles", "/roles", WIDTH, "light"),
    ("nodes", "/nodes", WIDTH, "dark"),
)
PLAN = FOLDER.parents[1] / "mesh" / "lab" / "demo" / "topology.yaml"


def take(url: str) -> None:
    """Take all pictures of the mesh behind an address."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), args=["--no-sandbox"])
        for name, place, width, scheme in SHOTS:
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
    take(sys.argv[1])
