"""The page's files: served at each view's address, from the package, and free of markup by names."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from mesh.api.guard import Access
from mesh.api.page_files import VIEWS
from mesh.config.topology_file import topology_from_mapping
from tests.component.api.conftest import Api, MakeApi
from tests.component.in_memory_mesh import CHAIN

PAGE = files("mesh.api").joinpath("page")
SCRIPTS = {one.name: one.read_text() for one in PAGE.iterdir() if one.name.endswith(".js")}


def test_every_view_has_an_address(api: Api) -> None:
    """A link that a colleague sends shows the same view."""
    for path in ("/", *(f"/{view}" for view in VIEWS)):
        answer = api.ask(path)
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert b"/static/main.js" in answer.body
    assert api.ask("/nothing").status == 404


def test_files_are_served_with_their_type_and_a_tag(api: Api) -> None:
    """What the browser has already is not sent again; nothing outside of the folder is."""
    for name in SCRIPTS:
        answer = api.ask(f"/static/{name}")
        assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
        assert api.ask(f"/static/{name}", If_None_Match=answer.headers["etag"]).status == 304
    for name in ("nothing.js", "index.html", "..%2fapp.py", "%2e%2e/app.py"):
        assert api.ask(f"/static/{name}").status == 404


def test_the_browser_hears_of_all_modules_at_once(api: Api) -> None:
    """And asks for each but the worker, instead of for one after another as imports show up."""
    body = api.ask("/map").body.decode()
    imported = {name for text in SCRIPTS.values() for name in re.findall(r'from "\./(\S+)"', text)}
    assert {*re.findall(r'modulepreload" href="/static/(\S+)"', body), "feed.js"} == imported


def test_behind_a_proxy_the_page_makes_addresses_below_its_path(api_of: MakeApi) -> None:
    """`--root-path /trellis`."""
    api = api_of(topology_from_mapping(CHAIN), access=Access(root_path="/trellis"))
    body = api.ask("/map").body.decode()
    assert 'content="/trellis"' in body
    assert 'src="/trellis/static/main.js"' in body
    assert "{root}" not in body


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_no_script_reads_text_as_markup_or_loads_from_elsewhere(name: str) -> None:
    """Names of strangers are text."""
    text = SCRIPTS[name]
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|\.style\b"
    assert re.findall(banned, text) == []
    found = re.findall(r"https?://[^\"'` ]*", text)
    assert set(found) <= {"http://www.w3.org/2000/svg"}


def test_nothing_on_the_page_is_animated() -> None:
    """A transition on links redraws a thousand of them sixty times for each change."""
    text = PAGE.joinpath("page.css").read_text()
    assert re.findall(r"transition|animation|@keyframes", text) == []


def test_the_skeleton_has_no_script_or_style_of_its_own() -> None:
    """The policy would refuse it."""
    text = PAGE.joinpath("index.html").read_text()
    assert "<style" not in text
    assert re.search(r"<script(?! type=\"module\" src)", text) is None
    assert re.search(r"\son\w+=|\sstyle=", text) is None
    assert text.count('role="status"') == 1
