"""The way of one message in a real browser: what was looked at, and what was found."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Auditor, Open
from tests.component.api.conftest import Api


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
