"""A page that is left open: it outlives its server, and is not torn from whoever uses it."""

from __future__ import annotations

import threading

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Auditor, Open
from tests.component.api.conftest import Api

LOST = "The feed of changes is lost"
BACK_MS = 15_000


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
    page.evaluate("window.lost = performance.now()")
    page.wait_for_function(
        "seconds => performance.now() - window.lost >= seconds * 1000",
        arg=away_s,
        timeout=60_000,
    )
    api.serve(port=api.port, begun=False)
    _wait_until_refused(api)
    expect(page.locator("#trouble")).to_contain_text(LOST)
    api.lives(1)
    expect(page.locator("#trouble")).to_be_empty(timeout=BACK_MS)
    with api.turn:
        api.mesh.world.kill("ny2")
    api.lives(15)
    ny2 = page.get_by_label("node ny2", exact=True)
    expect(ny2).to_have_attribute("aria-description", "down", timeout=BACK_MS)


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
    expect(page.locator("#trouble")).to_be_empty(timeout=BACK_MS)
    with api.turn:
        api.mesh.world.kill("ny2")
    api.lives(15)
    page.evaluate("window.told = performance.now()")
    page.wait_for_function("() => performance.now() - window.told > 1000")  # the feed has told it
    assert len(held) == 1
    held[0].continue_()
    ny2 = page.get_by_label("node ny2", exact=True)
    expect(ny2).to_have_attribute("aria-description", "down", timeout=BACK_MS)


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
    expect(page.locator("main")).to_contain_text("tk2/late", timeout=BACK_MS)
    expect(page.locator("#trouble")).to_be_empty(timeout=BACK_MS)


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
    expect(page.locator("#trouble")).to_be_empty(timeout=70_000)


def _everything_is_read_anew(api: Api, page: Page) -> None:
    """Have the page read all again, as after a cut, and wait until that is on screen."""
    page.evaluate("document.querySelector('main > div').id = 'before'")
    run = api.feed._run
    api.stop()
    expect(page.locator("#trouble")).to_contain_text(LOST)
    api.serve(port=api.port)
    assert api.feed._run != run
    api.lives(1)
    page.locator("#before").wait_for(state="detached", timeout=BACK_MS)


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
    expect(news).to_be_visible(timeout=BACK_MS)  # the list is read every five seconds
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
    expect(panel).to_contain_text("new/>", timeout=BACK_MS)
    expect(link).to_be_focused()


def test_a_login_that_has_run_out_leads_back_to_what_was_on_screen(open_page: Open) -> None:
    """The page finds out by an answer; the way back stands in the address of the login."""
    page = open_page("/map")
    page.route("**/api/v1/**", lambda route: route.fulfill(status=401, json={}))
    page.get_by_role("link", name="Queues").click()
    page.wait_for_url("**/login?to=%2Fqueues", timeout=BACK_MS)
