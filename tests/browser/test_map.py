"""The map in a real browser: links as they become, and what a link or node tells of itself."""

from __future__ import annotations

from playwright.sync_api import expect

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Pause
from mesh.view.operator_records import write_config
from mesh.wire.control import encode_pause
from mesh.wire.keys import PauseKey, pause_key
from tests.browser.conftest import SPEC, Auditor, Open
from tests.component.api.conftest import Api
from tests.component.in_memory_mesh import put_in_force


def test_the_map_shows_links_as_they_become(api: Api, open_page: Open) -> None:
    """Elements are named and focusable; states have a word; places stay where they are."""
    page = open_page("/map")
    node = page.get_by_label("node tk1", exact=True)
    link = page.get_by_label("link tk1 to ny1", exact=True)
    assert node.get_attribute("tabindex") == link.get_attribute("tabindex") == "0"
    expect(link).to_have_attribute("aria-description", "up")
    expect(page.get_by_label("link ny1 to tk1", exact=True)).to_have_attribute(
        "aria-description", "idle"
    )
    api.mesh.subscribe("tk2", "late", "late/>")
    api.lives(3)
    expect(page.get_by_label("link ny1 to tk1", exact=True)).to_have_attribute(
        "aria-description", "up"
    )
    place = node.locator("circle").get_attribute("cx")
    with api.turn:
        api.mesh.world.kill("ny1")
    api.lives(15)
    expect(page.get_by_label("node ny1", exact=True)).to_have_attribute("aria-description", "down")
    expect(page.locator("svg.map")).to_contain_text("WO down")
    assert node.locator("circle").get_attribute("cx") == place


def test_a_link_tells_how_long_it_takes(api: Api, auditor: Auditor, open_page: Open) -> None:
    """Where the auditor sends canaries, and not that they are off."""
    on = {**SPEC, "audit": {"kafka": "left", "canary": True}}
    put_in_force(1, topology_from_mapping(on, name="worldwide"), api.mesh.world.kafka)
    counts = {"sent": 9, "arrived": 7, "lost": 2, "latency_ms": 41.5, "slowest_ms": 60.2}
    auditor.says("canaries", "tk1->ny1", {"way": "tk1->ny1", **counts})
    api.lives(2)
    page = open_page("/map?link=tk1-%3Eny1")
    panel = page.get_by_role("complementary", name="Details")
    told = "Latency: 41.5 ms by the newest canary, 60.2 ms by the slowest of the last six; 2 were lost."
    expect(panel).to_contain_text(told)
    page = open_page("/map?link=ny1-%3Etk1")
    panel = page.get_by_role("complementary", name="Details")
    expect(panel).to_contain_text("Latency: no canary has come yet.")


def test_a_link_tells_what_it_carries_and_why_not(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """Chosen by keyboard on the map; what the auditor counted; its commands exist."""
    counts = {"messages": 2100, "frames": 40, "repairs": 0, "direct": 30, "direct_read": 30}
    auditor.says("links", "tk1->ny1", {"link": "tk1->ny1", **counts, "dropped": {}})
    api.mesh.publish("tk1", "acme/a")
    api.mesh.publish("tk1", "other")
    api.lives(2)
    page = open_page("/map")
    link = page.get_by_label("link tk1 to ny1", exact=True)
    link.focus()
    page.keyboard.press("Enter")
    panel = page.get_by_role("complementary", name="Details")
    expect(panel).to_be_focused()
    expect(panel).to_contain_text("tk1 → ny1")
    expect(panel).to_contain_text("acme/>")
    expect(panel).to_contain_text("ny2/billing")
    expect(panel).to_contain_text("nobody behind this link wants it")
    expect(panel).to_contain_text("2\u2009100 messages in 40 frames")
    expect(panel).to_contain_text("sent equals read")
    expect(panel).to_contain_text("Latency: canaries are off.")
    expect(panel).to_contain_text("mesh link pause tk1 ny1")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(link).to_be_focused()


def test_a_node_tells_its_endpoints_and_what_waits_in_them(api: Api, open_page: Open) -> None:
    """Kind and class, filters, how far it is certified, and the slowest of its readers."""
    page = open_page("/map?node=ny2")
    panel = page.get_by_role("complementary", name="Details")
    for told in ("billing", "channel, guaranteed", "acme/>", "no certificate yet"):
        expect(panel).to_contain_text(told)
    expect(panel).to_contain_text("no consumer group reads it")
    expect(panel).to_contain_text("mesh endpoint list --node ny2")


def test_three_links_refuse_for_three_reasons_that_read_differently(
    api: Api, open_page: Open
) -> None:
    """Nobody behind it, came over the zone, no walk: each in a sentence of its own."""
    page = open_page("/interest")
    page.get_by_label("Subject", exact=True).fill("acme/a")
    page.get_by_label("From node", exact=True).fill("tk3")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("1 endpoint on 1 node, 3 links crossed")
    refused = page.get_by_role("table").last.locator("tbody tr")
    told = {row.split("\t")[0]: row.split("\t")[1] for row in refused.all_inner_texts()}
    assert "nobody behind this link wants it" in told["tk3 → tk2"]
    assert "no endpoint here asks for it" in told["tk1"]
    assert next(iter(told)) == "tk3"  # nodes first
    assert "one-hop zone does not go on" in told["tk1 → tk2"]
    assert "came over this link" in told["tk1 → tk3"]
    assert len({told[name] for name in ("tk3 → tk2", "tk1 → tk2", "tk1 → tk3")}) == 3
    home = api.mesh.seen().home_of("ny1")
    pause = pause_key(PauseKey("ny1", "tk1", None))
    with api.turn:
        write_config(home, "mesh.", pause, encode_pause(Pause("stocktaking")))
    api.lives(3)
    expect(page.locator("main")).to_contain_text("tk1 → ny1 is paused")
    expect(page.get_by_role("row").filter(has_text="tk1 → ny1")).to_contain_text("stocktaking")
    expect(page.locator("main")).to_contain_text("ny1 asks for acme/>")
    carried = page.get_by_role("row").filter(has_text="tk1 → ny1")
    expect(carried).to_contain_text("ny2/billing")


def test_an_endpoint_that_gets_nothing_is_named_with_what_it_asks_for(
    api: Api, open_page: Open
) -> None:
    """Whoever misses something there looks for its name, and sees why."""
    for name, filter_ in (("late", "late/>"), ("most", "acme/*/*")):
        api.mesh.subscribe("tk2", name, filter_)
    api.lives(2)
    page = open_page("/interest?subject=acme/a&from=tk3")
    rows = page.get_by_role("table").last.get_by_role("row")
    tk2 = rows.filter(has=page.get_by_role("cell", name="tk2", exact=True))
    expect(tk2).to_contain_text("late: late/>, most: acme/*/*")
    tk1 = rows.filter(has=page.get_by_role("cell", name="tk1", exact=True))
    expect(tk1).to_contain_text("it has no endpoint")
    api.mesh.subscribe("tk1", "board", "board/>")
    api.lives(2)
    expect(tk1).to_contain_text("board: board/>")


def test_drawings_are_read_on_a_phone_too(api: Api, open_page: Open) -> None:
    """They are moved about in, and not shrunk until nobody can read a name."""
    page = open_page("/map?table=0", width=360)
    circle = page.get_by_label("node tk1", exact=True).locator("circle").bounding_box()
    assert circle is not None
    assert circle["width"] > 30
    page.goto(f"{api.url}/interest?subject=acme/a&from=tk3")
    rows = page.get_by_role("table").last.locator("tbody tr")
    expect(rows.first).to_be_visible()
    assert rows.first.evaluate("one => one.clientHeight") < 80  # not one word above the other
    tree = page.locator("svg.tree")
    expect(tree).to_be_visible()
    box = tree.locator("circle").first.bounding_box()
    assert box is not None
    assert box["width"] > 30
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
