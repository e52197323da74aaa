"""What is looked for by name, in a real browser, also before the page knows the mesh."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Open
from tests.component.api.conftest import Api


def test_what_is_looked_for_is_found(api: Api, open_page: Open) -> None:
    """A node, a link, a message and a subject, each where it is shown."""
    page = open_page("/audit")
    find = page.get_by_label("Find", exact=True)
    for text, address in (
        ("NY2", "/map?node=ny2"),
        ("tk1 -> ny1", "/map?link=tk1-%3Eny1"),
        ("mesh.tk3.in.g/0/0", "/trace?id=mesh.tk3.in.g%2F0%2F0"),
        ("acme/a", "/interest?subject=acme%2Fa"),
        ("acme/2027/11", "/interest?subject=acme%2F2027%2F11"),
    ):
        find.fill(text)
        find.press("Enter")
        expect(page).to_have_url(f"{api.url}{address}")


@contextmanager
def _late(page: Page, path: str) -> Iterator[None]:
    """Keep back what the page asks for until the end."""
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route(path, hold)
    yield
    for route in held:
        route.continue_()
    page.unroute(path)


def _know_nothing_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have pages ask for how the mesh is, as those of a server that starts."""
    monkeypatch.setattr("mesh.api.app._first", lambda *_: None)


def test_an_enter_before_the_mesh_is_known_is_answered_once_it_is(
    api: Api, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is faster than an answer, or than the scripts, has not looked for nothing."""
    _know_nothing_first(monkeypatch)
    page = open_page("/map")
    find = page.get_by_label("Find", exact=True)
    with _late(page, "**/api/v1/nodes?*"):
        page.goto(f"{api.url}/audit")
        find.fill("NY2")
        find.press("Enter")
        told = "“NY2” is looked for as soon as the mesh is known."
        expect(page.locator("#trouble")).to_have_text(told)
    expect(page).to_have_url(f"{api.url}/map?node=ny2")
    expect(page.locator("#trouble")).to_be_empty()
    with _late(page, "**/static/main.js"):
        page.goto(f"{api.url}/audit", wait_until="commit")
        find.fill("tk1 -> ny1")
        find.press("Enter")
        page.wait_for_url("**/audit?find=*", wait_until="commit")
    expect(page).to_have_url(f"{api.url}/map?link=tk1-%3Eny1")


def test_keys_before_the_mesh_is_known_do_what_they_do_later(
    api: Api, open_page: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table in place of a drawing that is not there yet; minutes back of a time not yet read."""
    _know_nothing_first(monkeypatch)
    api.lives(125)
    page = open_page("/map")
    time, back = page.get_by_label("Time", exact=True), "one => one.max - one.value"
    with _late(page, "**/api/v1/nodes?*"):
        page.goto(f"{api.url}/audit")
        page.keyboard.press("t")
        expect(page).to_have_url(f"{api.url}/audit?table=1")
        time.press("ArrowLeft")
        time.press("ArrowLeft")
        expect(page.locator("#trouble")).to_contain_text("The time is turned back as soon as")
    expect(page).to_have_url(re.compile(r"/audit\?table=1&at=1970"))  # by the clock of the server
    age = page.locator("#proof-age")
    expect(age).to_contain_text("as of")
    assert time.evaluate(back) == 2
    page.get_by_role("button", name="Live").click()
    expect(age).not_to_contain_text("as of")
    with _late(page, "**/api/v1/nodes?*"):
        time.press("ArrowLeft")
        expect(page).to_have_url(re.compile("at=1970"))
        page.evaluate("window.began = performance.now()")
        page.wait_for_function(
            "() => performance.now() - window.began > 1100"
        )  # what shows the age
        time.press("ArrowLeft")
        assert time.evaluate(back) == 2
    expect(age).to_contain_text("as of")
    assert time.evaluate(back) == 2
