"""A page that is left open: it outlives its server, and is not torn from whoever uses it."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from mesh.api.guard import Access
from mesh.config.topology_file import topology_from_mapping
from tests.browser.conftest import SPEC, Auditor, Open
from tests.component.api.conftest import Api, MakeApi

LOST = "The feed of changes is lost"


def _wait_until_refused(api: Api) -> None:
    """Wait until the page has asked for the feed, and was told that the server still starts."""
    tick = threading.Event()
    for _ in range(200):
        if api.refused_feeds:
            return
        tick.wait(0.1)
    raise AssertionError("the page did not ask for the feed again")


@pytest.mark.parametrize("away_s", [0, 30])
def test_a_page_comes_back_with_its_server(api: Api, open_page: Open, away_s: int) -> None:
    """At once or later, though a server that starts answers 503 at first; then it is told again."""
    page = open_page("/map")
    api.stop()
    expect(page.locator("#trouble")).to_contain_text(LOST)
    expect(page.get_by_role("status")).to_contain_text("Not known now; last: No audit")
    page.evaluate("window.lost = performance.now()")
    page.wait_for_function(
        "seconds => performance.now() - window.lost >= seconds * 1000",
        arg=away_s,
    )
    api.serve(port=api.port, begun=False)
    _wait_until_refused(api)
    expect(page.locator("#trouble")).to_contain_text(LOST)
    api.lives(1)
    expect(page.locator("#trouble")).to_be_empty()
    expect(page.get_by_role("status")).not_to_contain_text("Not known now")
    with api.turn:
        api.mesh.world.kill("ny2")
    api.lives(15)
    ny2 = page.get_by_label("node ny2", exact=True)
    expect(ny2).to_have_attribute("aria-description", "down")


@pytest.mark.parametrize("part", ["main.js", "format.js"])
def test_a_page_of_which_a_part_did_not_come_says_so_and_is_loaded_again(
    api: Api, open_page: Open, part: str
) -> None:
    """As where the network changes under a browser: an empty page would be left, for ever."""
    page = open_page("/map")
    page.route(f"**/static/{part}", lambda route: route.abort("connectionreset"))
    page.reload()
    expect(page.locator("#trouble")).to_contain_text("A part of this page could not be loaded")
    page.unroute(f"**/static/{part}")
    expect(page.get_by_label("node tk1", exact=True)).to_be_visible()
    expect(page.locator("#trouble")).to_be_empty()


def test_a_change_that_comes_while_all_is_read_is_on_screen(api: Api, open_page: Open) -> None:
    """What was read before it is drawn after it."""
    page = open_page("/map")
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/api/v1/links?*", hold, times=1)
    api.stop()
    expect(page.locator("#trouble")).to_contain_text(LOST)
    api.serve(port=api.port)
    expect(page.locator("#trouble")).to_be_empty()
    with api.turn:
        api.mesh.world.kill("ny2")
    api.lives(15)
    page.evaluate("window.told = performance.now()")
    page.wait_for_function("() => performance.now() - window.told > 1000")  # the feed has told it
    assert len(held) == 1
    held[0].continue_()
    ny2 = page.get_by_label("node ny2", exact=True)
    expect(ny2).to_have_attribute("aria-description", "down")


def test_what_changed_meanwhile_is_shown(api: Api, open_page: Open) -> None:
    """The new server knows no id of the old one: the page reads all anew."""
    page = open_page("/nodes")
    expect(page.locator("main")).to_contain_text("ny2/billing")
    api.stop()
    expect(page.locator("#trouble")).to_contain_text(LOST)
    with api.turn:
        api.mesh.subscribe("tk2", "late", "late/>")
        api.mesh.pause(2)
    api.serve(port=api.port)
    api.lives(1)
    expect(page.locator("main")).to_contain_text("tk2/late")
    expect(page.locator("#trouble")).to_be_empty()


def test_a_connection_that_says_nothing_is_given_up(
    api: Api, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hangs, or a line cut without a word: the browser itself would wait for ever."""
    monkeypatch.setattr("mesh.api.routes.PING_S", 1)
    monkeypatch.setattr("mesh.api.feed.PING_S", 1)
    page = open_page("/map")
    expect(page.locator("#trouble")).to_be_empty()
    api.is_mute = True
    expect(page.locator("#trouble")).to_contain_text(LOST)
    api.is_mute = False
    expect(page.locator("#trouble")).to_be_empty()


def _everything_is_read_anew(api: Api, page: Page) -> None:
    """Have the page read all again, as after a cut, and wait until that is on screen."""
    page.evaluate("document.querySelector('main > div').id = 'before'")
    run = api.feed._run
    api.stop()
    expect(page.locator("#trouble")).to_contain_text(LOST)
    api.serve(port=api.port)
    assert api.feed._run != run
    api.lives(1)
    page.locator("#before").wait_for(state="detached")


def test_a_view_that_is_drawn_anew_keeps_focus_and_what_is_half_written(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """Somebody on a row, and somebody in the midst of a word, go on where they were."""
    for name in ("first", "second"):
        auditor.finds("duplicate", name, endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/0"])
    api.lives(2)
    page = open_page("/findings")
    evidence = page.get_by_role("button", name="mesh.tk3.in.g/0/0/0")
    expect(evidence).to_have_count(2)
    evidence.nth(1).focus()
    _everything_is_read_anew(api, page)
    assert evidence.nth(1).evaluate("one => one === document.activeElement")
    page.goto(f"{api.url}/interest")
    subject = page.get_by_label("Subject", exact=True)
    subject.press_sequentially("acme/orders")
    subject.press("ArrowLeft")
    _everything_is_read_anew(api, page)
    expect(subject).to_be_focused()
    page.keyboard.type("X")
    expect(subject).to_have_value("acme/orderXs")


def test_news_do_not_move_somebody_who_goes_by_tab(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """A finding that comes while somebody is at another one is shown, and focus stays."""
    auditor.finds("duplicate", "first", endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/0"])
    api.lives(2)
    page = open_page("/findings")
    first = page.get_by_role("button", name="mesh.tk3.in.g/0/0/0")
    first.focus()
    auditor.finds("corrupt", "second", endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/1"])
    api.lives(1)
    news = page.get_by_role("button", name="mesh.tk3.in.g/0/0/1")
    expect(news).to_be_visible()  # the list is read every five seconds
    expect(first).to_be_focused()
    rail = page.get_by_role("link", name="Findings")
    rail.focus()
    auditor.finds("gap", "third", link="tk1->ny1")
    api.lives(1)
    expect(rail).to_contain_text("3")
    expect(rail).to_be_focused()


def test_a_panel_keeps_focus_while_its_numbers_change(api: Api, open_page: Open) -> None:
    """It is read every five seconds."""
    page = open_page("/map?node=tk1")
    panel = page.get_by_role("complementary", name="Details")
    link = panel.get_by_role("button", name="tk1 → ny1")
    link.focus()
    with api.turn:
        api.mesh.subscribe("tk1", "new", "new/>")
    api.lives(2)
    expect(panel).to_contain_text("new/>")
    expect(link).to_be_focused()


def test_escape_leads_back_to_what_was_asked_for_last(api: Api, open_page: Open) -> None:
    """By keyboard, from node to link while the panel is open."""
    page = open_page("/map")
    panel = page.get_by_role("complementary", name="Details")
    for name, told in (("node tk1", "tk1"), ("link ny1 to tk1", "ny1 → tk1")):
        drawn = page.get_by_label(name, exact=True)
        drawn.focus()
        drawn.press("Enter")
        expect(panel.get_by_role("heading", name=told, exact=True)).to_be_visible()
        expect(panel).to_be_focused()
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(page.get_by_label("link ny1 to tk1", exact=True)).to_be_focused()


def test_what_opens_beside_a_list_is_next_for_who_goes_by_keyboard(
    api: Api, open_page: Open
) -> None:
    """As on the map, whether a row or the search led there, and Escape leads back."""
    page = open_page("/nodes")
    panel = page.get_by_role("complementary", name="Details")
    row = page.get_by_role("region", name="Nodes").get_by_role("button", name="tk2")
    row.press("Enter")
    expect(panel.get_by_role("heading", name="tk2", exact=True)).to_be_visible()
    expect(panel).to_be_focused()
    page.keyboard.press("Escape")
    expect(row).to_be_focused()
    page.get_by_label("Find").fill("ny1")
    page.get_by_label("Find").press("Enter")
    expect(panel.get_by_role("heading", name="ny1", exact=True)).to_be_visible()
    expect(panel).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_label("Find")).to_be_focused()
    page.goto(f"{api.url}/nodes?node=tk1")
    expect(panel.get_by_role("heading", name="tk1", exact=True)).to_be_visible()
    expect(page.locator("body")).to_be_focused()


def test_a_login_that_has_run_out_leads_back_to_what_was_on_screen(open_page: Open) -> None:
    """The page finds out by an answer; the way back stands in the address of the login."""
    page = open_page("/map")
    page.route("**/api/v1/**", lambda route: route.fulfill(status=401, json={}))
    page.get_by_role("link", name="Queues").click()
    page.wait_for_url("**/login?to=%2Fqueues")


def test_a_view_that_only_follows_the_feed_leads_to_the_login_too(
    api_of: MakeApi, open_page: Open
) -> None:
    """A server that comes back with another token refuses the feed, and the map asks for no more."""
    api = api_of(topology_from_mapping(SPEC, name="worldwide"), access=Access(token="first"))
    page = open_page("/map", waits=False, site=api.url)
    page.get_by_label("Token").fill("first")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_label("node tk1", exact=True)).to_be_visible()
    expect(page.locator("#trouble")).to_be_empty()
    api.stop()
    api.access = Access(token="second")
    api.serve(port=api.port)
    page.wait_for_url("**/login?to=%2Fmap")


def test_a_server_that_is_away_is_asked_now_and_then(api: Api, open_page: Open) -> None:
    """Who goes back to now meanwhile sees then until now is known, and asks for it every 2 s."""
    api.lives(70)
    page = open_page("/map?at=65s")
    api.stop()
    expect(page.locator("#trouble")).to_contain_text(LOST)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.get_by_role("button", name="Live").click()
    expect(page.locator("#trouble")).to_contain_text("The server does not answer")
    page.evaluate("window.told = performance.now()")
    page.wait_for_function("() => performance.now() - window.told > 1000")
    assert 1 <= sum(one.endswith("/api/v1/mesh") for one in asked) <= 5
    expect(page.locator("#proof-age")).to_contain_text("as of")
    api.serve(port=api.port)
    api.lives(1)
    expect(page.locator("#proof-age")).not_to_contain_text("as of")
    link = page.get_by_label("link tk1 to ny1", exact=True)
    expect(link).to_have_attribute("aria-description", "up")


def test_what_was_read_stays_while_it_cannot_be_read_again(api: Api, open_page: Open) -> None:
    """With a line that says from when it is."""
    page = open_page("/nodes")
    main = page.locator("main")
    expect(main).to_contain_text("ny2/billing")
    api.stop()
    expect(main).to_contain_text("What stands here was read at")
    expect(main).to_contain_text("The server does not answer.")
    expect(main).to_contain_text("ny2/billing")
    api.serve(port=api.port)
    api.lives(1)
    expect(main).not_to_contain_text("What stands here was read at")


def test_lists_that_are_left_open_follow_the_mesh(api: Api, open_page: Open) -> None:
    """Rates, and endpoints that come, without anybody who asks for them."""
    page = open_page("/nodes")
    row = page.get_by_role("row").filter(has_text="tk3").first
    expect(row).to_contain_text("0/s")
    for _ in range(30):
        api.mesh.publish("tk3", "acme/a")
    api.mesh.subscribe("tk2", "late", "late/>")
    api.lives(2)
    expect(page.locator("main")).to_contain_text("tk2/late")
    expect(row).not_to_contain_text(" 0/s")
    expect(row.get_by_role("cell").nth(3)).not_to_have_text("0/s")


def test_a_table_of_links_stays_where_it_was_scrolled_to(api: Api, open_page: Open) -> None:
    """On a phone the map is one, and rates change each second; focus stays too."""
    page = open_page("/map", width=360)
    region = page.get_by_role("region", name="Links, both directions")
    button = region.get_by_role("button", name="tk3 → tk1")
    button.focus()
    region.evaluate("one => { one.scrollLeft = 60; }")
    rate = page.get_by_role("row").filter(has_text="tk3 → tk1").get_by_role("cell").nth(2)
    expect(rate).to_have_text("0/s")
    for _ in range(30):
        api.mesh.publish("tk3", "acme/a")
    api.lives(2)
    expect(rate).not_to_have_text("0/s")
    expect(button).to_be_focused()
    assert region.evaluate("one => one.scrollLeft") == 60


def test_a_browser_without_shared_workers_follows_too(chromium: Browser, api: Api) -> None:
    """As those of some phones."""
    page = chromium.new_page()
    page.add_init_script("delete window.SharedWorker")
    page.goto(f"{api.url}/map")
    ny2 = page.get_by_label("node ny2", exact=True)
    expect(ny2).to_have_attribute("aria-description", "up")
    with api.turn:
        api.mesh.world.kill("ny2")
    api.lives(15)
    expect(ny2).to_have_attribute("aria-description", "down")
    page.close()


def test_a_change_that_comes_late_turns_no_clock_back(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """After a cut the changes of ten minutes come at once: what was proven then is no younger."""
    auditor.certifies("ny2/billing")
    api.lives(8)
    page = open_page("/map")
    age = page.locator("#proof-age")
    expect(age).to_contain_text("until")
    late = {"at_ms": api.mesh.now_ms() - 60_000, "nodes": {"ny2": ("down", 1)}}
    api._publish(late)
    ny2 = page.get_by_label("node ny2", exact=True)
    expect(ny2).to_have_attribute("aria-description", "down")
    assert int(age.inner_text().split(", ")[1].split()[0]) >= 6


def test_a_server_that_looks_no_more_is_told(
    api: Api, auditor: Auditor, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its feed lives on; what it says is of long ago, and no proof of now."""
    monkeypatch.setattr("mesh.api.routes.PING_S", 1)
    auditor.certifies("ny2/billing")
    api.lives(2)
    page = open_page("/map")
    status = page.get_by_role("status")
    expect(status).to_have_text("Proven, no findings")
    api.live._looked_s -= 45
    told = "The server has not looked at the mesh for more than 30 s"
    expect(page.locator("#trouble")).to_contain_text(told)
    expect(status).to_contain_text("Not known now; last: Proven")
    api.lives(1)
    expect(page.locator("#trouble")).to_be_empty()


def test_what_changes_while_a_page_is_on_its_way_is_on_screen(api: Api, chromium: Browser) -> None:
    """A page begins with what stands in it; of two tabs the second joins a feed that runs."""
    context = chromium.new_context()
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    for victim, is_first in (("ny2", True), ("tk3", False)):
        page = context.new_page()
        page.route("**/static/feed.js", hold)
        with page.expect_request("**/static/feed.js"):
            page.goto(f"{api.url}/map", wait_until="commit")
        with api.turn:
            api.mesh.world.kill(victim)
        api.lives(15)
        assert bool(api.feeds) is not is_first
        page.evaluate("document.title")  # whatever the browser has told so far is heard by then
        held.pop().continue_()
        node = page.get_by_label(f"node {victim}", exact=True)
        expect(node).to_have_attribute("aria-description", "down")
    context.close()


def test_the_first_view_asks_for_nothing(api: Api, open_page: Open) -> None:
    """All that it shows stands in the page."""
    page = open_page("/map")
    page.route("**/api/v1/*", lambda _: None)
    page.goto(f"{api.url}/map")
    link = page.get_by_label("link tk1 to ny1", exact=True)
    expect(link).to_have_attribute("aria-description", "up")
    expect(page.get_by_role("status")).to_contain_text("No audit")
