"""Proofs and findings in a real browser: the heatmap of certificates, and what was found."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Auditor, Open, is_read
from tests.component.api.conftest import Api


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


def test_an_even_heatmap_says_what_it_means(api: Api, auditor: Auditor, open_page: Open) -> None:
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
    main, rows = page.locator("main"), page.locator(".heatmap tbody tr")
    even = "3 endpoints got what they were owed, each message once, in every minute"
    expect(main).to_contain_text(even)
    expect(rows.nth(0)).to_contain_text("an-even-one12")
    expect(rows.nth(0).get_by_role("button").last).to_have_class(re.compile("level-4"))
    expect(rows.nth(2).get_by_role("button").last).not_to_have_class(re.compile("level-[1-4]"))
    label = rows.nth(0).get_by_role("button").last
    expect(label).to_have_attribute("aria-label", re.compile(r"equal, 12 messages$"))
    minute = page.locator(".heatmap thead span").filter(has_text="00:00").last.bounding_box()
    beside = "one => { const range = new Range(); range.selectNodeContents(one); return range.getBoundingClientRect().left; }"
    assert minute is not None
    assert minute["x"] + minute["width"] <= page.locator(".heatmap thead .total").evaluate(beside)
    auditor.finds("duplicate", "twice", endpoint="ny2/zone", ids=["mesh.tk3.in.g/0/0/0"])
    api.lives(1)
    expect(main).to_contain_text("1 of 3 endpoints had minutes that are not equal")
    expect(rows.nth(0)).to_contain_text("zone")
    cell = rows.nth(0).get_by_role("button").last.bounding_box()
    hour = page.locator(".heatmap thead span").filter(has_text="00:00").last.bounding_box()
    assert cell is not None
    assert hour is not None
    assert hour["y"] + hour["height"] <= cell["y"] + 1
    tops = "all => [...new Set(all.map((one) => one.getBoundingClientRect().top))].length"
    assert (
        rows.nth(0).get_by_role("button").evaluate_all(tops) == 1
    )  # with a sign in it, or without


def test_the_heatmap_is_walked_by_keys_and_opens_below(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """A cell that differs opens its findings, without a dialogue."""
    auditor.certifies("ny2/billing", equal=False)
    auditor.finds(
        "duplicate", "2 messages twice", endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/0"]
    )
    api.lives(2)
    page = open_page("/audit")
    is_read(page)
    cells = page.locator(".heatmap tbody tr").first.get_by_role("button")
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
    spoken = page.get_by_role("table").filter(has_text="Certificates that cover it")
    expect(spoken).to_contain_text("not equal")


def test_without_an_auditor_nothing_is_called_proven(api: Api, open_page: Open) -> None:
    """No findings is no proof."""
    page = open_page("/findings")
    expect(page.get_by_role("status")).to_contain_text("No audit")
    expect(page.locator("main")).to_contain_text("nothing is proven")


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
