"""Every view as a table: the button, the key t, and what only the table shows."""

from __future__ import annotations

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from mesh.model.control import EndpointKind
from mesh.model.queues import QueuePolicy
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import RoleKey, RoleRequest
from mesh.model.trees import Address, tree_id
from mesh.wire.tree_apps import encode_request, role_key
from tests.browser.conftest import Auditor, Open
from tests.component.api.conftest import Api

VIEWS = ("Map", "Interest", "Trace", "Audit", "Findings", "Plan", "Queues", "Roles", "Nodes")
DUPLICATE = {"endpoint": "ny2/billing", "ids": ["mesh.tk3.in.g/0/0/0"]}


def test_every_view_has_a_table_by_button_and_by_key(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """The key turns back what the button did, and nothing is left of it in the address."""
    auditor.finds("duplicate", "twice", **DUPLICATE)
    auditor.certifies("ny2/billing")
    api.lives(2)
    page = open_page("/map")
    button = page.get_by_role("button", name="Table", exact=True)
    colour = "one => getComputedStyle(one).backgroundColor"
    for view in VIEWS:
        page.get_by_role("navigation").get_by_role("link", name=view).click()
        page.get_by_role("heading", name=view, exact=True, level=1).wait_for(state="attached")
        expect(button, view).to_have_attribute("aria-pressed", "false")
        before = button.evaluate(colour)
        button.click()
        expect(button, view).to_have_attribute("aria-pressed", "true")
        page.mouse.move(0, 0)
        assert button.evaluate(colour) != before
        expect(page).to_have_url(re.compile(f"{view.lower()}.*table=1"))
        page.keyboard.press("t")
        expect(button, view).to_have_attribute("aria-pressed", "false")
        expect(page).not_to_have_url(re.compile("table="))


def test_a_list_shows_as_a_table_all_that_the_csv_has(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """Columns that nobody needs at first sight."""
    auditor.finds("duplicate", "twice", **DUPLICATE)
    queue = {"kind": EndpointKind.QUEUE, "policy": QueuePolicy.ANY}
    api.mesh.subscribe("tk2", "jobs", "work/>", **queue)
    topic, writer = TopicNames("mesh.").roles("ny1"), api.mesh.world.kafka["right"].writer("app")
    request = encode_request(RoleRequest(Address(tree_id("trading"), "pricing")))
    with api.turn:
        writer.produce(topic, request, role_key(RoleKey("desk", "trading", "pricing")), 0)
        writer.flush()
    api.lives(2)
    page = open_page("/nodes")
    for place, column in (
        ("/nodes", "epoch"),
        ("/queues", "deliveries at most"),
        ("/roles", "tree id"),
        ("/findings", "finding"),
        ("/interest", "scope"),
        ("/interest?subject=acme/a", "scope"),
    ):
        page.goto(f"{api.url}{place}")
        expect(page.get_by_role("table").first).to_be_visible()
        header = page.get_by_role("columnheader", name=column, exact=True)
        expect(header).to_have_count(0)
        page.keyboard.press("t")
        expect(header.first).to_be_visible()
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save as CSV").first.click()
        assert column in saved.value.path().read_text().splitlines()[0].split(",")
        assert Axe().run(page).violations_count == 0


def test_on_a_phone_findings_are_a_table_for_who_wants_one(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    auditor.finds("duplicate", "twice", **DUPLICATE)
    api.lives(1)
    page = open_page("/findings", width=360)
    expect(page.locator("main").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.get_by_role("table")).to_contain_text("ny2/billing")
    expect(page.locator("main").get_by_role("listitem")).to_have_count(0)
