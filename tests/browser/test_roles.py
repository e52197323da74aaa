"""Roles on trees in a real browser: who has them, and the routes to them."""

from __future__ import annotations

from playwright.sync_api import expect

from mesh.config.topology_file import topology_from_mapping
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import RoleKey, RoleRequest
from mesh.model.trees import Address, tree_id
from mesh.trees.settings import Settings
from mesh.wire.tree_apps import encode_lease, encode_request, lease_key, role_key
from tests.browser.conftest import MARKUP, SPEC, Open
from tests.component.api.conftest import Api, MakeApi


def test_roles_are_shown_with_who_has_them(api: Api, open_page: Open) -> None:
    """Node, application and lease; a name of a stranger is text."""
    key = RoleKey("desk", "trading", MARKUP.replace(" ", "_")[:60])
    request = encode_request(RoleRequest(Address(tree_id("trading"), key.role), is_exclusive=True))
    writer = api.mesh.world.kafka["right"].writer("app")
    topic = TopicNames("mesh.").roles("ny1")
    with api.turn:
        writer.produce(topic, encode_lease(60_000), lease_key("desk"), 0)
        writer.produce(topic, request, role_key(key), 0)
        writer.flush()
    api.lives(2)
    page = open_page("/roles")
    row = page.get_by_role("row").filter(has_text="desk")
    for told in ("trading", "<img_src=x", "by one alone", "ny1", "holds"):
        expect(row).to_contain_text(told)
    expect(page.locator("main")).to_contain_text("1 role")
    expect(page.locator("main")).to_contain_text("mesh role show")


def test_routes_to_a_role_are_shown_per_node(api_of: MakeApi, open_page: Open) -> None:
    """Which link is next, where it ends, how old it is and what it came by; a role can be chosen."""
    api = api_of(topology_from_mapping(SPEC, name="worldwide"), trees=Settings())
    api.lives(5)
    with api.turn:
        host = api.mesh.client("ny2").roles("desk", lease_s=600).open()
        for role in ("pricing", "risk"):
            host.add("trading", role)
    api.lives(4)
    page = open_page("/roles", site=api.url)
    routes = page.locator("main").get_by_role("table").last
    row = routes.get_by_role("row").filter(has_text="pricing").filter(has_text="tk2")
    for told in ("trading", "tk1", "ny2", "published", " s ago"):
        expect(row).to_contain_text(told)
    page.get_by_role("button", name="routes to risk").click()
    expect(page.get_by_role("heading", name="Routes to risk")).to_be_visible()
    expect(routes).not_to_contain_text("pricing")
    expect(page.get_by_label("Commands")).to_contain_text("mesh role route trading risk")
    page.get_by_role("button", name="link tk2 to tk1").click()
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("tk2 → tk1")
    page.get_by_role("button", name="Show all").click()
    expect(routes).to_contain_text("pricing")
