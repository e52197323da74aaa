"""Moments gone by, and everything that goes wrong: said in words, on every view, and half-drawn never."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from mesh.api.guard import Access
from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Change, Stage
from tests.browser.conftest import MARKUP, SPEC, Auditor, Open, is_read
from tests.component.api.conftest import Api, MakeApi

LONG_AGO = "at=2h"


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/map?link=tk1->ny1", "What was kept off this link then is not on record"),
        ("/map?node=ny2", "not on record"),
        ("/nodes", "Endpoints that have ended since then are not on record"),
        ("/queues", "What waited in queues then, and who consumed from them, is not on record"),
        ("/roles", "The routes to roles then are not on record"),
        ("/roles", "No application is on record that had a role then"),
        (
            "/interest?subject=acme/a&from=tk3",
            "Which nodes and links were up then is not on record",
        ),
        ("/plan", "a plan is made of now, not of then"),
        ("/trace?id=mesh.tk3.in.g/0/0", "Nothing of this message had been written by then"),
        ("/audit", "blind"),
    ],
)
def test_each_view_says_what_is_not_on_record(
    api: Api, open_page: Open, place: str, says: str
) -> None:
    """Two hours ago nobody had subscribed, and nobody watched: nothing of now is shown as then."""
    page = open_page(f"{place}{'&' if '?' in place else '?'}{LONG_AGO}")
    is_read(page)
    expect(page.locator("body")).to_contain_text(says)
    expect(page.locator("#trouble")).to_contain_text("are not on record")
    assert "ny2/billing" not in page.locator("body").inner_text()
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "false")


def test_a_moment_gone_by_is_drawn_from_the_record(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """Rates and bytes of the link, an endpoint that has ended since, and what nobody wrote."""
    api.lives(140)
    minute = {"from_ms": 60_000, "to_ms": 120_000, "minutes": 1}
    crossed = {"guaranteed": 6_000, "guaranteed_bytes": 7_654_321, "control": 3, "waited": 0}
    auditor.says("minutes", "tk1->ny1 1", {"link": "tk1->ny1", **minute, **crossed})
    auditor.says("minutes", "left 1", {"kafka": "left", **minute})
    span = {"from_ms": 30_000, "to_ms": 125_000, "kind": "channel", "class": "guaranteed"}
    auditor.says("subscriptions", "ny2/gone", {"endpoint": "ny2/gone", "filter": "old/>", **span})
    api.lives(6)
    page = open_page("/map?link=tk1->ny1&at=1970-01-01T00:01:30Z")
    panel = page.get_by_role("complementary", name="Details")
    expect(panel).to_contain_text("100/s")
    expect(panel).to_contain_text("7\u2009654\u2009321 bytes, 3 changes of interest")
    page.get_by_role("link", name="Nodes").click()
    expect(page.locator("main")).to_contain_text("ny2/gone")
    expect(page.locator("main")).to_contain_text(
        "Endpoints of right that have ended since then are not on record."
    )
    page.get_by_role("button", name="Live").click()
    expect(page.locator("main")).not_to_contain_text("ny2/gone")


def test_the_way_of_then_is_drawn_as_it_was(api: Api, open_page: Open) -> None:
    """With the tree, links as they stood, and what nobody wrote called so; a node was down."""
    api.lives(3)
    with api.turn:
        api.mesh.world.kill("ny2")
    api.lives(20)
    down = api.live.snapshot.seen.at_ms
    with api.turn:
        api.mesh.world.start("ny2")
        client = api.mesh.client("ny2")
        client.wait(client.unsubscribe("billing", "acme/>"))
    api.lives(20)
    at = datetime.fromtimestamp(down / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    page = open_page(f"/interest?subject=acme/a&from=tk3&at={at}")
    main = page.locator("main")
    expect(main).to_contain_text("published at tk3 then?")
    expect(main).to_contain_text(f"as of 01-01 {at[11:19]}")
    expect(main).to_contain_text("ny1 → ny2 is unknown")
    expect(page.locator("svg.tree")).to_be_visible()
    expect(main).to_contain_text("endpoints that have ended since are not on record")
    page.get_by_role("button", name="Live").click()
    expect(main).to_contain_text("Nobody gets it: 0 links crossed · as of now")


def test_a_time_in_the_future_is_refused_in_a_line(api: Api, open_page: Open) -> None:
    """Nothing is drawn of it, it is not asked again and again, and Live leads back."""
    page = open_page("/map?at=2999-01-01T00:00:00Z")
    expect(page.locator("main")).to_contain_text("is in the future; give a time in the past")
    assert page.locator("svg.map").count() == 0
    page.get_by_role("button", name="Live").click()
    expect(page.get_by_label("node tk1", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("/map?node=nobody", "no node"),
        ("/map?link=tk1->nobody", "nobody"),
        ("/interest?subject=a//b&from=tk1", "empty level"),
        ("/interest?subject=acme/a&from=nobody", "no node"),
        ("/trace?id=nothing", "is not a message"),
        ("/trace?id=mesh.tk3.in.g/0/999999", "Nothing of this message is left"),
        ("/queues?letters=nobody", "no node"),
        ("/map?at=yesterday", "is not a time"),
        ("/map?q=zz", "No node, Kafka cluster or zone is called “zz”"),
        ("/map?kafka=zz", "No Kafka cluster is called “zz”"),
        ("/map?link=zz", "No link is called “zz”"),
        ("/audit?cell=zz/none 0", "no node is called 'zz'"),
        ("/nothing-like-that?q=1", "there is nothing at /nothing-like-that"),
    ],
)
def test_what_is_not_there_is_said_in_a_line(
    api: Api, open_page: Open, place: str, says: str
) -> None:
    """Unknown names, filters that are none, and times that are none."""
    page = open_page(place, waits="nothing" not in place or "trace" in place)
    expect(page.locator("body")).to_contain_text(says)
    assert "Traceback" not in page.locator("body").inner_text()


def test_ten_thousand_findings_are_shown_as_far_as_anybody_reads(
    api: Api, auditor: Auditor, open_page: Open, tmp_path: Path
) -> None:
    """The newest two hundred, and all of them in the CSV; the page answers meanwhile."""
    writer = api.mesh.world.kafka["left"].writer("many")
    with api.turn:
        for number in range(10_000):
            finding = {"kind": "duplicate", "text": f"number {number}", "ids": []}
            key = f"{number}".encode()
            writer.produce("mesh.audit.findings", json.dumps(finding).encode(), key, 0)
        writer.flush()
    auditor.speaks("ny2/billing")
    api.lives(2)
    page = open_page("/findings")
    expect(page.get_by_role("heading", name="10\u2009000 findings")).to_be_visible()
    assert page.locator("tbody tr").count() == 200
    expect(page.get_by_role("status")).to_contain_text("10000 findings open")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    saved.value.save_as(tmp_path / "findings.csv")
    assert len((tmp_path / "findings.csv").read_text().splitlines()) == 10_001
    page.get_by_role("link", name="Map").click()
    expect(page.get_by_label("node tk1", exact=True)).to_be_visible()


def test_a_kafka_cluster_that_is_down_is_named_and_the_rest_is_shown(
    api: Api, open_page: Open
) -> None:
    """On every view, and it comes back by itself."""
    page = open_page("/map")
    with api.turn:
        api.mesh.world.kafka["right"].available = False
    api.lives(15)
    expect(page.locator("#trouble")).to_contain_text("Kafka cluster right does not answer")
    expect(page.get_by_label("node tk2", exact=True)).to_have_attribute("aria-description", "up")
    expect(page.get_by_label("node ny1", exact=True)).not_to_have_attribute(
        "aria-description", "up"
    )
    for view in ("nodes", "queues", "roles", "interest?subject=acme/a&from=tk3", "audit"):
        page.goto(f"{api.url}/{view}")
        is_read(page)
        expect(page.locator("#trouble")).to_contain_text("Kafka cluster right does not answer")
        assert page.locator("main").inner_text().strip() != ""
    page.goto(f"{api.url}/roles")
    expect(page.locator("main")).to_contain_text("Kafka cluster does not answer: ny1, ny2")
    page.goto(f"{api.url}/interest?subject=other/a")
    expect(page.locator("main")).to_contain_text("Kafka cluster does not answer: ny1, ny2")
    expect(page.locator("main")).to_contain_text("Nobody that can be reached wants anything")
    page.goto(f"{api.url}/interest?subject=acme/a&from=tk3")
    told = page.get_by_role("row").filter(has_text="tk1 → ny1")
    expect(told).to_contain_text("what ny1 asks for cannot be known now")
    passed = page.get_by_role("row").filter(has_text="it comes here").filter(has_text="ny1")
    expect(passed).to_contain_text("what endpoints here ask for cannot be known now")
    expect(passed).to_contain_text("not known")
    for view, empty in (("queues", "No subscribed queue is known"), ("nodes", "tk2")):
        page.goto(f"{api.url}/{view}")
        expect(page.locator("main")).to_contain_text("What is subscribed now at ny1, ny2 cannot")
        expect(page.locator("main")).to_contain_text(empty)
    page.goto(f"{api.url}/map?link=tk1->ny1")
    panel = page.get_by_role("complementary", name="Details")
    expect(panel).to_contain_text("Not known: the Kafka cluster of ny1 does not answer")
    page.goto(f"{api.url}/nodes?at=1s")
    expect(page.locator("main")).to_contain_text("What was subscribed then at ny1, ny2 cannot")
    page.goto(f"{api.url}/map")
    with api.turn:
        api.mesh.world.kafka["right"].available = True
    api.lives(20)
    expect(page.get_by_label("node ny1", exact=True)).to_have_attribute("aria-description", "up")
    expect(page.locator("#trouble")).to_be_empty()


def test_a_split_is_shown_in_colours_and_words_since_when(
    api: Api, auditor: Auditor, open_page: Open
) -> None:
    """Each node says its part; a heal ends it, but one that leaves others apart."""
    page = open_page("/map")
    auditor.finds("split", "parts", ids=["tk1,tk2,tk3", "ny1,ny2"], first_seen_ms=3_600_000)
    auditor.speaks("ny2/billing")
    api.lives(2)
    main = page.locator("main")
    expect(main).to_contain_text("split since 01:00:00: part 1: tk1, tk2, tk3 | part 2: ny1, ny2")
    expect(page.get_by_label("node ny2", exact=True)).to_have_attribute(
        "aria-description", "part 2"
    )
    expect(page.get_by_label("node ny2", exact=True)).to_have_class(re.compile("part-1"))
    expect(page.get_by_role("status")).to_contain_text("the mesh is split")
    left = {"ids": ["tk1,tk2,tk3,ny1", "ny2"], "link": "ny1-ny2", "first_seen_ms": 7_200_000}
    auditor.finds("heal", "in part", **left)
    auditor.speaks("ny2/billing")
    api.lives(2)
    expect(main).to_contain_text("split since 02:00:00: part 1: tk1, tk2, tk3, ny1 | part 2: ny2")
    auditor.finds("heal", "whole", ids=[])
    auditor.speaks("ny2/billing")
    api.lives(2)
    expect(main).not_to_contain_text("split since")
    expect(page.get_by_role("status")).not_to_contain_text("split")


def test_what_nobody_has_joined_is_no_split(chromium: Browser, api_of: MakeApi) -> None:
    """Colours tell of parts; the demo's topology has two that no link joins."""
    east, west = ([f"{zone}{number}" for number in (1, 2, 3)] for zone in ("east", "west"))
    spec = {
        "kafka": {"left": None},
        "nodes": {node: {"kafka": "left"} for node in (*east, *west)},
        "zones": {
            "EAST": {"kind": "one-hop", "nodes": east},
            "WEST": {"kind": "one-hop", "nodes": west},
        },
    }
    api = api_of(topology_from_mapping(spec, name="two"), runs=False)
    page = chromium.new_page()
    page.goto(f"{api.url}/map")
    main, east1 = page.locator("main"), page.get_by_label("node east1", exact=True)
    expect(east1).to_have_attribute("aria-description", "never")
    with page.expect_response("**/findings?*kind=heal*") as asked:
        api._publish({"at_ms": 1, "parts": [east, west], "nodes": {"east1": ("up", 0)}})
    asked.value.finished()
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
    expect(east1).to_have_attribute("aria-description", "up")
    expect(main).not_to_contain_text("split")
    api._publish({"at_ms": 2, "parts": [east[:1], east[2:], west]})
    expect(main).to_contain_text("split: part 1: east1 | part 2: east3 | part 3: west1")
    page.close()


def test_rows_of_every_list_are_saved_as_csv(
    api: Api, auditor: Auditor, open_page: Open, tmp_path: Path
) -> None:
    """With the names of the columns, by the button."""
    api.mesh.publish("tk3", "acme/a")
    auditor.finds("duplicate", "twice", endpoint="ny2/billing", ids=["mesh.tk3.in.g/0/0/0"])
    auditor.certifies("ny2/billing")
    api.lives(2)
    page = open_page("/map")
    for place, header in (
        ("/map?table=1", "link,state,guaranteed"),
        ("/interest", "node,wanted by,filter"),
        ("/interest?subject=acme/a&from=tk3&table=1", "link,zone,because"),
        ("/trace?id=mesh.tk3.in.g/0/0", "step,where,record"),
        ("/audit?table=1", "endpoint,messages,minutes equal"),
        ("/findings", "kind,first seen,where"),
        ("/queues", "queue,policy,node"),
        ("/roles", "tree,role,held"),
        ("/nodes", "node,Kafka cluster,state"),
    ):
        page.goto(f"{api.url}{place}")
        is_read(page)
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save as CSV").first.click()
        saved.value.save_as(tmp_path / "rows.csv")
        assert (tmp_path / "rows.csv").read_text().startswith(header), place


@contextmanager
def _portal(body: str) -> Iterator[str]:
    """Serve one page of somebody else; yield its origin."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(self.server.body)  # type: ignore[attr-defined]

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    server.body = body.encode()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_portal_shows_one_view_without_the_frame(chromium: Browser, api_of: MakeApi) -> None:
    """`?embed`, where the operator names it: neither search nor rail, and how far all is proven."""
    page = chromium.new_page()
    with _portal("") as portal:
        access = Access(embedders=(portal,))
        api = api_of(topology_from_mapping(SPEC, name="worldwide"), access=access)
        api.lives(2)
        stranger = api_of(topology_from_mapping(SPEC, name="worldwide"))
        page.goto(portal)
        for url in (api.url, stranger.url):
            page.evaluate(
                "url => { const frame = document.createElement('iframe'); frame.src = url; frame.width = 800; "
                "document.body.append(frame); }",
                f"{url}/map?embed",
            )
        framed = page.frame_locator("iframe >> nth=0")
        expect(framed.get_by_label("node tk1", exact=True)).to_be_visible()
        expect(framed.get_by_role("status")).to_contain_text("No audit")
        expect(framed.locator("nav")).to_be_hidden()
        expect(framed.get_by_label("Find", exact=True)).to_be_hidden()
        expect(framed.get_by_role("button", name="Menu")).to_be_hidden()
        shown = framed.locator("main").bounding_box()
        assert shown is not None
        assert shown["width"] == 800
        framed.get_by_label("node tk1", exact=True).press("Enter")
        expect(framed.get_by_role("heading", name="tk1", exact=True)).to_be_visible()
        expect(framed.get_by_label("Find", exact=True)).to_be_hidden()  # whatever is done there
        refused = page.frame_locator("iframe >> nth=1")
        expect(refused.locator("#main")).to_have_count(0)
    page.close()


def test_hostile_dead_letters_are_text(api: Api, open_page: Open) -> None:
    """What a stranger wrote where subjects are read."""
    writer = api.mesh.world.kafka["left"].writer("stranger")
    with api.turn:
        for subject in (f"{MARKUP}//", "a\u202e//b", "=cmd//", "x" * 300):
            header = ("mesh-subject", subject.encode())
            writer.produce("mesh.tk1.in.g", b"payload", None, 0, headers=[header])
        writer.flush()
    api.lives(5)
    page = open_page("/queues?letters=tk1")
    is_read(page)
    expect(page.locator("main")).to_contain_text("<script>window.hacked=1</script>")
    expect(page.locator("main")).to_contain_text("a\\u202e//b")
    assert "payload" not in page.locator("main table").last.inner_text()
    assert page.locator("main img, main script, main b").count() == 0
    assert page.evaluate("window.hacked") is None
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_large_mesh_asks_for_a_filter_first(chromium: Browser, api_of: MakeApi) -> None:
    """Above 60 nodes: Kafka clusters as a table, from there into one; a filter draws what it names."""
    nodes = [f"n{number}" for number in range(64)]
    spec = {
        "kafka": {"left": None, "right": None},
        "nodes": {
            node: {"kafka": "left" if number < 32 else "right"} for number, node in enumerate(nodes)
        },
        "zones": {
            "WO": {"kind": "multi-hop", "links": [["n0", node] for node in nodes[1:]]},
        },
    }
    api = api_of(topology_from_mapping(spec, name="large"), runs=False)
    page = chromium.new_page()
    page.goto(f"{api.url}/map")
    expect(page.locator("main")).to_contain_text("64 nodes are too many to read at once")
    assert page.locator("svg.map").count() == 0
    row = page.get_by_role("row").filter(has_text="left")
    expect(row).to_contain_text("32")
    api._publish({"at_ms": 1, "nodes": {f"n{number}": ("up", 0) for number in range(31)}})
    expect(row.get_by_role("cell").nth(3)).to_have_text("1")  # not up
    page.get_by_role("button", name="left", exact=True).click()
    expect(page.get_by_label("node n1", exact=True)).to_be_visible()
    page.get_by_label("Filter", exact=True).fill("n63")
    page.keyboard.press("Enter")
    expect(page.get_by_label("node n63", exact=True)).to_be_visible()
    expect(page.locator(".node")).to_have_count(1)
    page.close()


def test_nodes_are_found_and_told_apart_by_long_names(chromium: Browser, api_of: MakeApi) -> None:
    """Names that begin alike and have a `-` in them: on the map, and as ends of a link."""
    spec = {
        "kafka": {"left": None},
        "nodes": {"production-eu-1": {"kafka": "left"}, "production-eu-2": {"kafka": "left"}},
        "zones": {"Z": {"kind": "multi-hop", "links": [["production-eu-1", "production-eu-2"]]}},
    }
    api = api_of(topology_from_mapping(spec, name="long"), runs=False)
    page = chromium.new_page()
    page.goto(f"{api.url}/map")
    for name in ("produ…n-eu-1", "produ…n-eu-2"):
        expect(page.locator("svg.map .name").filter(has_text=name)).to_have_count(1)
    find = page.get_by_label("Find", exact=True)
    for text in ("production-eu-1 -> production-eu-2", "PRODUCTION-EU-1 to production-eu-2"):
        page.goto(f"{api.url}/audit")
        find.fill(text)
        find.press("Enter")
        expect(page).to_have_url(re.compile(r"/map\?link=production-eu-1-%3Eproduction-eu-2$"))
    page.close()


def test_a_file_that_is_no_topology_by_its_size_is_not_read(
    open_page: Open, tmp_path: Path
) -> None:
    """A hundred megabytes in a field of text would stop the browser."""
    (tmp_path / "large.yaml").write_bytes(b"#" * 2_000_000)
    page = open_page("/plan")
    page.get_by_label("Topology file").set_input_files(tmp_path / "large.yaml")
    expect(page.locator("main")).to_contain_text("large.yaml has 2\u2009000\u2009000 bytes")
    assert page.get_by_label("Topology", exact=True).input_value() == ""


def test_a_topology_that_came_later_is_not_drawn_as_that_of_then(api: Api, open_page: Open) -> None:
    """Of a moment before the last change it is said so."""
    change = Change(number=0, stage=Stage.RUN, topology="")
    api.lives(5)
    with api.turn:
        api.live.watch._view.change, api.live.watch._view.change_ms = change, api.mesh.now_ms()
    api.lives(3)
    page = open_page("/map?at=6s")
    expect(page.locator("#trouble")).to_contain_text("those of the topology in force since")
    page.goto(f"{api.url}/interest?subject=acme/a&from=tk3&at=6s")
    expect(page.locator("main")).to_contain_text("ways of before that are not on record")
    expect(page.locator("main").get_by_role("table")).to_be_visible()
    page.goto(f"{api.url}/map?at=1s")
    expect(page.get_by_role("button", name="Live")).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#trouble")).not_to_contain_text("topology in force since")
