"""What holds on every view of the page, in a real browser."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect

from mesh.api.guard import Access
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Pause
from mesh.operate.minutes import MINUTE_MS
from mesh.view.operator_records import write_config
from mesh.wire.control import encode_pause
from mesh.wire.keys import PauseKey, pause_key
from tests.browser.conftest import MARKUP, SPEC, Auditor, Open, is_read
from tests.chromium import WAIT_MS
from tests.component.api.conftest import Api, MakeApi

VIEWS = ("Map", "Interest", "Trace", "Audit", "Findings", "Plan", "Queues", "Roles", "Nodes")
PLACES = (
    "/map",
    "/map?table=1",
    "/map?link=tk1->ny1",
    "/map?node=ny2",
    "/interest",
    "/interest?subject=acme/a&from=tk3",
    "/trace",
    "/trace?id=mesh.tk3.in.g/0/0",
    "/audit",
    "/audit?table=1",
    "/findings",
    "/plan",
    "/queues?letters=tk1",
    "/roles",
    "/nodes",
)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_view_has_an_accessibility_fault(
    api: Api, auditor: Auditor, open_page: Open, scheme: str
) -> None:
    """axe-core finds none, on any view, with findings, a certificate that differs and a panel."""
    api.mesh.publish("tk3", "acme/a")
    auditor.certifies("ny2/billing", equal=False)
    auditor.finds("duplicate", "twice", endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/0"])
    auditor.finds("split", "parts", ids=["tk1,tk2,tk3", "ny1,ny2"])
    auditor.finds("unproven", "gone", endpoint="ny2/billing")
    api.lives(2)
    page = open_page("/map", scheme=scheme)
    found: dict[str, list[str]] = {}
    for place in PLACES:
        page.goto(f"{api.url}{place}")
        is_read(page)
        for one in Axe().run(page).response["violations"]:
            targets = [node["target"] for node in one["nodes"]][:3]
            found.setdefault(place, []).append(f"{one['id']}: {one['help']} {targets}")
    assert found == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_login_has_no_accessibility_fault(
    api_of: MakeApi, open_page: Open, scheme: str
) -> None:
    """Nor has it when it says that a token is wrong."""
    api = api_of(topology_from_mapping(SPEC), access=Access(token="right"))
    page = open_page("/map", scheme=scheme, waits=False, site=api.url)
    form = page.locator("main").bounding_box()
    assert form is not None
    assert abs(form["x"] + form["width"] / 2 - 1440 / 2) < 2  # in the middle
    assert Axe().run(page).response["violations"] == []
    page.get_by_label("Token").fill("wrong")
    page.get_by_label("Token").press("Enter")
    expect(page.get_by_role("alert")).to_have_text("That is not the token.")
    assert Axe().run(page).response["violations"] == []


def test_the_frame_is_on_every_view(api: Api, auditor: Auditor, open_page: Open) -> None:
    """Name, proof, search, time, and the rail; the names that scripts rely on hold."""
    auditor.certifies("ny2/billing")
    api.lives(2)
    page = open_page("/map")
    expect(page.locator("#mesh-name")).to_have_text("worldwide")
    rail = page.get_by_role("navigation", name="Views").get_by_role("link")
    assert [text.split()[0] for text in rail.all_inner_texts()] == list(VIEWS)
    expect(page.get_by_label("Time", exact=True)).to_have_attribute("type", "range")
    for name in VIEWS:
        page.get_by_role("link", name=name).click()
        expect(page).to_have_url(re.compile(f"/{name.lower()}"))
        assert page.get_by_role("status").count() == 1
        expect(page.get_by_role("status")).to_have_text("Proven, no findings")
        expect(page.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")


def test_the_status_speaks_only_when_the_state_changes(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """The age passes beside it; a screen reader is not told each second."""
    auditor.certifies("ny2/billing")
    api.lives(2)
    page = open_page("/map")
    expect(page.get_by_role("status")).to_have_text("Proven, no findings")
    page.evaluate(
        "() => { window.told = []; new MutationObserver(() => window.told.push("
        "document.querySelector('[role=status]').textContent)).observe("
        "document.querySelector('[role=status]'), "
        "{childList: true, characterData: true, subtree: true}); }"
    )
    age = page.locator("#proof-age")
    before = age.inner_text()
    expect(age).not_to_have_text(before)
    auditor.speaks("ny2/billing")
    api.lives(1)
    assert page.evaluate("window.told") == []
    auditor.finds("duplicate", "twice", endpoint="ny2/billing")
    api.lives(1)
    expect(page.get_by_role("status")).to_have_text("1 finding open")
    assert page.evaluate("window.told") == ["1 finding open"]
    expect(page.get_by_role("link", name="Findings")).to_contain_text("1")


def test_every_drawing_is_also_a_table(api: Api, open_page: Open) -> None:
    """By the button and by the key t, but not while somebody types."""
    page = open_page("/map")
    page.keyboard.press("t")
    expect(page.get_by_role("table")).to_contain_text("tk1 → ny1")
    expect(page).to_have_url(re.compile("table=1"))
    page.get_by_role("button", name="Table").click()
    expect(page.locator("svg.map")).to_be_visible()
    find = page.get_by_label("Find", exact=True)
    find.focus()
    page.keyboard.type("t")
    expect(find).to_have_value("t")
    expect(page.locator("svg.map")).to_be_visible()


def test_rows_are_safe_in_a_spreadsheet(open_page: Open) -> None:
    """What begins like a formula is text; quotes and lines are kept together."""
    page = open_page("/map")
    text = page.evaluate(
        "() => import('/static/table.js').then((m) => m.csv([{name: 'a', of: (r) => r}], "
        "['=1+1', '-5', '-x', 'say \"hi\"', 'b,c']))"
    )
    assert text == 'a\r\n\'=1+1\r\n-5\r\n\'-x\r\n"say ""hi"""\r\n"b,c"\r\n'


def test_an_address_shows_a_colleague_the_same(api: Api, open_page: Open) -> None:
    """View, subject, node and panel stand in it."""
    page = open_page("/interest?subject=acme/a&from=tk3&node=tk1&view=constructor")
    expect(page.get_by_label("Subject", exact=True)).to_have_value("acme/a")
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("tk1")
    page.get_by_role("link", name="Map").click()
    page.go_back()
    expect(page.get_by_label("From node", exact=True)).to_have_value("tk3")


def test_the_past_is_never_drawn_as_now(api: Api, open_page: Open) -> None:
    """What is not on record is said so, on the map and in words."""
    api.lives(130)
    page = open_page("/map?at=2h")
    expect(page.locator("#trouble")).to_contain_text("not on record")
    link = page.get_by_label("link tk1 to ny1", exact=True)
    expect(link).to_have_attribute("aria-description", "not on record")
    page.get_by_role("button", name="Live").click()
    expect(link).to_have_attribute("aria-description", "up")
    slider = page.get_by_label("Time", exact=True)
    slider.focus()
    slider.press("ArrowLeft")
    expect(page).to_have_url(re.compile("at=19"))
    expect(link).to_have_attribute("aria-description", "up")


def test_hostile_names_are_shown_and_do_nothing(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """Filters, titles, reasons and findings of a stranger are text on every view."""
    long = "x" * 240
    for number, filter_ in enumerate(
        (":x", "a\u05d0\u05d1/b", long, "<img src=x onerror=alert(1)")
    ):
        api.mesh.subscribe("tk2", f"e{number}", filter_)
    paused = pause_key(PauseKey("ny1", "tk1", None))
    write_config(api.mesh.seen().home_of("ny1"), "mesh.", paused, encode_pause(Pause(MARKUP)))
    api.mesh.publish("tk3", ":x")
    auditor.certifies(f"tk2/{MARKUP}", equal=False)
    auditor.finds(
        "duplicate", MARKUP, endpoint=MARKUP, ids=[MARKUP, "mesh.tk3.in.g/0/0/0"], link=MARKUP
    )
    auditor.finds(MARKUP, "\u202eevil", endpoint="tk2/e0", first_seen_ms=9e15)
    auditor.says("certificates", "bare", {"endpoint": "tk2/e0", "equal": False})
    api.lives(8)
    page = open_page("/map")
    subject = quote("<img src=x onerror=alert(1)", safe="")
    minute_ms = api.mesh.now_ms() // MINUTE_MS * MINUTE_MS
    hostile = (
        f"/audit?cell=tk2/e0%20{minute_ms}",
        f"/interest?subject={subject}&from=tk1",
        f"/trace?id={quote(MARKUP)}",
        "/map?node=%3Cb%3E",
    )
    for place in (*PLACES, *hostile, f"/interest?subject={long}&from=tk1"):
        page.goto(f"{api.url}{place}")
        is_read(page)
        assert page.locator("img, main script, main b").count() == 0, place
        assert page.evaluate("window.hacked") is None, place
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        assert re.search("NaN|undefined", page.locator("body").inner_text()) is None, place
    page.goto(f"{api.url}/findings")
    expect(page.locator("main")).to_contain_text("<script>window.hacked=1</script>")
    expect(page.locator("main")).to_contain_text("\\u202eevil")
    page.goto(f"{api.url}/map?link=tk1->ny1")
    expect(page.get_by_role("complementary", name="Details")).to_contain_text("<b>bold</b>")


def test_an_illegal_plan_is_refused_with_both_walks_and_the_edit(api: Api, open_page: Open) -> None:
    """A file is chosen or written; the smallest edit is told; nothing changes."""
    page = open_page("/plan")
    page.get_by_label("Topology", exact=True).fill(
        "apiVersion: mesh/v1\nkind: Mesh\nmetadata: {name: worldwide}\nspec:\n"
        "  kafka: {left: {}, right: {}}\n"
        "  nodes: {tk1: {kafka: left}, tk2: {kafka: left}, tk3: {kafka: left},"
        " ny1: {kafka: right}, ny2: {kafka: right}}\n"
        "  zones:\n    TK: {kind: one-hop, nodes: [tk1, tk2, tk3]}\n"
        "    WO: {kind: multi-hop, links: [[tk1, ny1], [tk3, ny1]]}\n"
        "    NY: {kind: one-hop, nodes: [ny1, ny2]}\n"
    )
    page.get_by_role("button", name="Plan", exact=True).click()
    main = page.locator("main")
    expect(main).to_contain_text("Refused")
    assert page.locator(".walk").count() >= 2
    expect(main).to_contain_text("remove link")
    page.get_by_role("button", name="Table").click()
    row = main.get_by_role("table").get_by_role("row").last
    expect(row).to_contain_text(re.compile("tk1.*→.*remove link"))
    page.locator("main").focus()
    page.keyboard.press("t")
    expect(page.locator(".walk").first).to_be_visible()
    page.get_by_label("Topology", exact=True).fill("kind: Scenario")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(main).to_contain_text("must be Mesh")


@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_is_cut_off_at_any_width(api: Api, open_page: Open, width: int) -> None:
    """From a phone to a wall: no view is wider than its window; narrow, the rail is a menu."""
    page = open_page("/map", width=width)
    for place in PLACES:
        page.goto(f"{api.url}{place}")
        is_read(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    page.goto(f"{api.url}/map")
    is_read(page)
    if width == 360:
        expect(page.get_by_role("table")).to_contain_text("tk1 → ny1")
        page.get_by_role("button", name="Menu").click()
        page.get_by_role("link", name="Nodes").click()
        expect(page.locator("main")).to_contain_text("5 nodes")
    else:
        node = page.get_by_label("node tk1", exact=True).locator("circle").bounding_box()
        assert node is not None
        assert node["width"] < 90, "a few nodes fill a wall"


def test_eight_tabs_share_one_feed(api: Api, chromium: Browser) -> None:
    """HTTP/1.1 allows six connections: all tabs are told, and none hangs."""
    context = chromium.new_context()
    pages = [context.new_page() for _ in range(8)]
    for page in pages:
        page.set_default_timeout(WAIT_MS)
        page.goto(f"{api.url}/map")
        page.get_by_label("node tk1", exact=True).wait_for()
    with api.turn:
        api.mesh.world.kill("ny2")
    api.lives(15)
    for page in pages:
        expect(page.get_by_label("node ny2", exact=True)).to_have_attribute(
            "aria-description", "down"
        )
    assert api.feeds == 1
    context.close()
