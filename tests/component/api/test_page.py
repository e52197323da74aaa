"""The page's files: served at each view's address, from the package, and free of markup by names."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pytest

from mesh.api.guard import Access
from mesh.api.page_files import VIEWS
from mesh.config.topology_file import topology_from_mapping
from mesh.transport.memory_faults import MemoryFaults
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


def _first(api: Api) -> Any:
    body = api.ask("/map").body.decode()
    data = re.search(r'<script id="first" type="application/json">(.*?)</script>', body, re.DOTALL)
    assert data is not None
    return json.loads(data[1])


def test_what_is_shown_first_stands_in_the_page(api: Api) -> None:
    """As the lists have it, but for what brokers would have to be asked for; kept by no browser."""
    api.lives(2)
    first, links = _first(api), api.get("links")["items"]
    assert first["mesh"] == api.get("mesh")
    assert first["nodes"] == api.get("nodes")["items"]
    unasked = {"backlog_frames": None, "backlog_messages": None}
    assert first["links"] == [{**one, **unasked} for one in links]
    assert links[0]["backlog_frames"] is not None
    assert first["id"] == f"{api.feed._run}-{api.feed._last}"
    assert api.ask("/map").headers["cache-control"] == "no-store"


class AskedForNothing(MemoryFaults):
    """Brokers that nobody should ask."""

    def asked(self, question: str, about: Sequence[str]) -> None:
        raise AssertionError(f"{question} was asked about {about}")

    def fetch_limit(self, client: str, limit: int) -> int:
        raise AssertionError(f"{client} has read {limit}")


def test_the_page_waits_for_no_broker(api: Api) -> None:
    """However slow they are, and although a node has an endpoint whose topic could be gone."""
    api.mesh.subscribe("c", "e", "acme/>")
    api.lives(3)
    for kafka in api.mesh.world.kafka.values():
        kafka.faults = AskedForNothing()
    assert [node["endpoints"] for node in _first(api)["nodes"]] == [0, 0, 1]


def test_a_mesh_that_is_not_read_yet_is_no_first_view(api_of: MakeApi) -> None:
    """The page asks for it then, again and again."""
    assert _first(api_of(topology_from_mapping(CHAIN), begun=False)) is None


def test_no_name_ends_the_data_in_the_page(api_of: MakeApi) -> None:
    """What stands between two tags is data until the first `</script`, whatever its type."""
    title = '</script><script>alert(1)</script><!-- \\ " &'
    zones = {"Z": {"kind": "one-hop", "nodes": ["a", "b"], "title": title}}
    nodes = {"a": {"kafka": "k"}, "b": {"kafka": "k"}}
    spec = {"kafka": {"k": None}, "nodes": nodes, "zones": zones}
    api = api_of(topology_from_mapping(spec))
    assert _first(api)["mesh"]["zones"][0]["title"] == title
    assert api.ask("/map").body.count(b"<!--") == 0


def test_behind_a_proxy_the_page_makes_addresses_below_its_path(api_of: MakeApi) -> None:
    """`--root-path /trellis`."""
    api = api_of(topology_from_mapping(CHAIN), access=Access(root_path="/trellis"))
    body = api.ask("/map").body.decode()
    assert 'content="/trellis"' in body
    assert 'src="/trellis/static/main.js"' in body
    assert "{root}" not in body


@pytest.mark.parametrize("below", ["", "/trellis"])
def test_what_is_in_front_may_leave_the_path_on(api_of: MakeApi, below: str) -> None:
    """An Ingress of Kubernetes rewrites nothing; others take the path off."""
    access = Access(root_path="/trellis", token="t")
    api = api_of(topology_from_mapping(CHAIN), access=access)
    for path in ("/", "/map", "/static/main.js", "/api/v1/nodes"):
        assert api.ask(f"{below}{path}", Authorization="Bearer t").status == 200
    assert api.ask(f"{below}/livez").status in (200, 503)
    sent = api.ask(f"{below}/map?at=5m", Accept="text/html")
    assert sent.headers["location"] == "/trellis/login?to=%2Fmap%3Fat%3D5m"
    assert api.ask(f"{below}/login").status == 200
    assert api.ask("/trellisx/map", Authorization="Bearer t").status == 404


@pytest.mark.parametrize("root", ["/api", "/static"])
def test_a_path_that_begins_as_ours_do_is_taken_off_by_who_is_in_front(
    api_of: MakeApi, root: str
) -> None:
    """Else nobody could know whether it was."""
    api = api_of(topology_from_mapping(CHAIN), access=Access(root_path=root))
    assert api.ask("/api/v1/nodes").status == 200
    assert api.ask("/static/main.js").status == 200


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
    data = '<script id="first" type="application/json">{first}</script>'  # no script, by its type
    assert re.search(r"<script(?! (type=\"module\" )?src)", text.replace(data, "")) is None
    assert re.search(r"\son\w+=|\sstyle=", text) is None
    assert text.count('role="status"') == 1
