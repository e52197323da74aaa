"""The page in a real browser: what it says, how it is found, and that nobody is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from mesh.api.guard import Access
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Pause
from mesh.model.topics import TopicNames
from mesh.model.tree_apps import RoleKey, RoleRequest
from mesh.model.trees import Address, tree_id
from mesh.operate.minutes import MINUTE_MS
from mesh.trees.settings import Settings
from mesh.view.operator_records import write_operator_record
from mesh.wire.control import encode_pause
from mesh.wire.keys import PauseKey, pause_key
from mesh.wire.tree_apps import encode_lease, encode_request, lease_key, role_key
from tests.browser.conftest import MARKUP, SPEC, Auditor, Open
from tests.chromium import WAIT_MS
from tests.component.api.conftest import Api, MakeApi
from tests.component.in_memory_mesh import put_in_force

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


def _is_read(page: Page) -> None:
    page.locator("main h1").wait_for(state="attached")
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


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
        _is_read(page)
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
    topology, kafka = api.mesh.topology, api.mesh.world.kafka
    pause = pause_key(PauseKey("ny1", "tk1", None))
    with api.turn:
        write_operator_record(topology, kafka, "ny1", pause, encode_pause(Pause("stocktaking")))
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


def test_a_trace_looks_at_older_records_only_when_asked(api: Api, open_page: Open) -> None:
    """It says what it did not look at, and that there may be more."""
    for _ in range(40):
        api.mesh.publish("tk3", "acme/a")  # on every partition some
    api.lives(2)
    page = open_page("/trace?id=mesh.tk3.in.g/0/0&last=1")
    expect(page.locator("main")).to_contain_text("there may be more in records that were not")
    expect(page.locator("main")).to_contain_text("There may be more in mesh.tk3.to.tk1.g/0")
    page.goto(f"{api.url}/trace?id=mesh.tk3.in.g/0/0")
    expect(page.locator("main")).to_contain_text("1 delivery, 3 frames on its way.")
    expect(page.locator("main")).not_to_contain_text("not looked at")


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


def test_a_trace_shows_what_was_found_of_the_message(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """A forged record lies where no way of the message leads: the finding tells where."""
    api.mesh.publish("tk3", "acme/a")
    at = {"endpoint": "tk2/other", "evidence": ["mesh.tk2.ep.other/0@7-8"]}
    auditor.finds("duplicate", "came twice", ids=["mesh.tk3.in.g/0/0/0-3"], **at)
    auditor.finds("duplicate", "of another", ids=["mesh.tk3.in.g/0/0/4-9"], **at)
    api.lives(2)
    page = open_page("/findings")
    page.get_by_role("button", name="mesh.tk3.in.g/0/0/0-3").click()
    main = page.locator("main")
    expect(main).to_contain_text("1 finding names it, with the records")
    expect(main).to_contain_text("mesh.tk2.ep.other/0@7-8")
    expect(main).not_to_contain_text("of another")


def test_a_trace_tells_when_each_record_was_written(api: Api, open_page: Open) -> None:
    """Also a delivery, whose record has the time of its publisher."""
    for _ in range(40):
        api.mesh.publish("tk3", "acme/a")  # on every partition some
    api.lives(2)
    page = open_page("/trace?id=mesh.tk3.in.g/0/0")
    row = page.get_by_role("row").filter(has_text="delivered")
    expect(row).to_contain_text("ny2/billing")
    expect(row.get_by_role("cell").nth(3)).to_have_text(re.compile(r"^\d\d:\d\d:\d\d\.\d{3}$"))


def test_findings_are_counted_as_the_frame_counts_them(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """What is no fault is a note; what to do stands in words and commands, without their marks."""
    told = {"endpoint": "ny2/billing", "what_to_do": "See `mesh trace ID`, and its log."}
    auditor.finds("duplicate", "twice", ids=["mesh.tk3.in.g/0/0/0"], **told)
    auditor.finds("split", "parts", ids=["tk1,tk2,tk3", "ny1,ny2"])
    auditor.finds("silent-link", "nothing comes", link="tk1->ny1")
    auditor.speaks("ny2/billing")
    api.lives(2)
    page = open_page("/findings")
    expect(page.get_by_role("status")).to_contain_text("1 finding open")
    expect(page.get_by_role("heading", name="1 finding and 2 notes")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="duplicate")
    expect(row).to_contain_text("See mesh trace ID, and its log.")
    expect(row.locator("code").filter(has_text=re.compile("^mesh trace ID$"))).to_be_visible()
    page.goto(f"{api.url}/findings?kind=gap")
    expect(page.locator("main")).to_contain_text("No findings of kind gap; there are others.")
    expect(page.get_by_label("Kind", exact=True)).to_have_value("gap")
    page.goto(f"{api.url}/map?link=tk1->ny1")
    panel = page.get_by_role("complementary", name="Details")
    expect(panel.locator(".pill.warn").filter(has_text="silent-link")).to_be_visible()


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
    topology, kafka = api.mesh.topology, api.mesh.world.kafka
    write_operator_record(
        topology, kafka, "ny1", pause_key(PauseKey("ny1", "tk1", None)), encode_pause(Pause(MARKUP))
    )
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
        _is_read(page)
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


def test_an_even_wall_says_what_it_means(api: Api, auditor: Auditor, open_page: Open) -> None:
    """In a sentence, and by how high its cells are filled; what is unusual stands first."""
    for name, filter_ in (("an-even-one", "acme/a"), ("zone", "acme/z")):
        api.mesh.subscribe("ny2", name, filter_)
    api.lives(2)
    for _ in range(12):
        api.mesh.publish("tk3", "acme/a")
    for name in ("billing", "an-even-one", "zone"):
        auditor.certifies(f"ny2/{name}")
    api.lives(2)
    page = open_page("/audit")
    main, rows = page.locator("main"), page.locator(".wall tbody tr")
    even = "3 endpoints got what they were owed, each message once, in every minute"
    expect(main).to_contain_text(even)
    expect(rows.nth(0)).to_contain_text("an-even-one12")
    expect(rows.nth(0).get_by_role("button").last).to_have_class(re.compile("level-4"))
    expect(rows.nth(2).get_by_role("button").last).not_to_have_class(re.compile("level-[1-4]"))
    label = rows.nth(0).get_by_role("button").last
    expect(label).to_have_attribute("aria-label", re.compile(r"equal, 12 messages$"))
    minute = page.locator(".wall thead span").filter(has_text="00:00").last.bounding_box()
    beside = "one => { const range = new Range(); range.selectNodeContents(one); return range.getBoundingClientRect().left; }"
    assert minute is not None
    assert minute["x"] + minute["width"] <= page.locator(".wall thead .total").evaluate(beside)
    auditor.finds("duplicate", "twice", endpoint="ny2/zone", ids=["mesh.tk3.in.g/0/0/0"])
    api.lives(1)
    expect(main).to_contain_text("1 of 3 endpoints had minutes that are not equal")
    expect(rows.nth(0)).to_contain_text("zone")
    cell = rows.nth(0).get_by_role("button").last.bounding_box()
    hour = page.locator(".wall thead span").filter(has_text="00:00").last.bounding_box()
    assert cell is not None
    assert hour is not None
    assert hour["y"] + hour["height"] <= cell["y"] + 1
    tops = "all => [...new Set(all.map((one) => one.getBoundingClientRect().top))].length"
    assert (
        rows.nth(0).get_by_role("button").evaluate_all(tops) == 1
    )  # with a sign in it, or without


def test_the_wall_is_walked_by_keys_and_opens_below(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """A cell that differs opens its findings, without a dialogue."""
    auditor.certifies("ny2/billing", equal=False)
    auditor.finds(
        "duplicate", "2 messages twice", endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/0"]
    )
    api.lives(2)
    page = open_page("/audit")
    _is_read(page)
    cells = page.locator(".wall tbody tr").first.get_by_role("button")
    assert cells.count() == 60
    expect(page.locator("main")).to_contain_text("not equal 1")
    cells.first.focus()
    for _ in range(59):
        page.keyboard.press("ArrowRight")
    expect(page.locator(":focus")).to_have_attribute("aria-label", re.compile("not equal$"))
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("2 messages twice")
    expect(page.locator("main")).to_contain_text("mesh trace mesh.tk3.in.g/0/0/0")
    expect(page.get_by_role("dialog")).to_have_count(0)
    spoken = page.get_by_role("table").filter(has_text="Certificates that speak for it")
    expect(spoken).to_contain_text("not equal")


@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_is_cut_off_at_any_width(api: Api, open_page: Open, width: int) -> None:
    """From a phone to a wall: no view is wider than its window; narrow, the rail is a menu."""
    page = open_page("/map", width=width)
    for place in PLACES:
        page.goto(f"{api.url}{place}")
        _is_read(page)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
    page.goto(f"{api.url}/map")
    _is_read(page)
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


def test_without_an_auditor_nothing_is_called_proven(api: Api, open_page: Open) -> None:
    """No findings is no proof."""
    page = open_page("/findings")
    expect(page.get_by_role("status")).to_contain_text("No audit")
    expect(page.locator("main")).to_contain_text("nothing is proven")


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


def test_on_a_phone_findings_stand_one_below_the_other(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """What, the proof and what to do are in sight without moving a table about."""
    auditor.finds("duplicate", "twice", endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/0"])
    api.lives(1)
    page = open_page("/findings", width=360)
    item = page.locator("main").get_by_role("listitem")
    expect(item).to_have_count(1)
    for told in ("duplicate", "ny2/billing", "twice", "mesh trace mesh.tk3.in.g/0/0/0"):
        expect(item).to_contain_text(told)
    box = item.get_by_role("button", name="mesh.tk3.in.g/0/0/0").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 360
    expect(page.get_by_role("table")).to_have_count(0)
