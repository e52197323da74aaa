"""The feed: where it stands at once, then changes only, and nothing is missed over a cut."""

from __future__ import annotations

import asyncio
import http.client
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from mesh.api.feed import KEPT_MAX, Feed
from tests.component.api.conftest import Api
from tests.patience import PATIENCE_S


class Viewer:
    """Reads server-sent events."""

    def __init__(self, api: Api, last_id: str = "", path: str = "/api/v1/events") -> None:
        self._http = http.client.HTTPConnection(urlsplit(api.url).netloc, timeout=PATIENCE_S)
        headers = {"Last-Event-ID": last_id} if last_id else {}
        self._http.request("GET", path, headers=headers)
        answer = self._http.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        self._lines = iter(answer.readline, b"")
        self.id = ""

    def events(self) -> Iterator[tuple[str, dict[str, object]]]:
        kind, data = "", ""
        for raw in self._lines:
            name, _, value = raw.decode().rstrip("\r\n").partition(": ")
            if name == "id":
                self.id = value
            elif name == "event":
                kind = value
            elif name == "data":
                data = value
            elif not name and kind:
                yield kind, json.loads(data)
                kind, data = "", ""

    def close(self) -> None:
        self._http.close()


def test_a_new_viewer_is_told_where_the_feed_stands_then_changes(api: Api) -> None:
    """One event with an id at once; then only what differs."""
    api.lives(3)
    viewer = Viewer(api)
    events = viewer.events()
    assert next(events) == ("here", {"ping_s": 15})
    assert viewer.id
    api.mesh.subscribe("c", "all", ">")
    api.lives(1)
    kind, change = next(events)
    assert kind == "change"
    assert change["nodes"] == {"c": ["up", 1]}
    assert "proof" not in change
    viewer.close()


def test_after_a_cut_nothing_is_missed(api: Api) -> None:
    """The changes since the last id come, in order; others do not."""
    viewer = Viewer(api)
    events = viewer.events()
    next(events)
    for number in range(3):
        api.mesh.subscribe("c", f"e{number}", ">")
        api.lives(1)
    next(events)
    viewer.close()
    back = Viewer(api, viewer.id)
    events = back.events()
    found = [next(events)[1]["nodes"] for _ in range(2)]
    assert found == [{"c": ["up", 2]}, {"c": ["up", 3]}]
    back.close()


def test_a_viewer_that_cannot_set_headers_names_its_last_id_in_the_address(api: Api) -> None:
    """A browser's own feed sends no header when it is made anew."""
    api.lives(3)
    viewer = Viewer(api)
    next(viewer.events())
    viewer.close()
    api.mesh.subscribe("c", "all", ">")
    api.lives(1)
    back = Viewer(api, path=f"/api/v1/events?after={viewer.id}")
    kind, change = next(back.events())
    assert (kind, change["nodes"]) == ("change", {"c": ["up", 1]})
    back.close()


def test_a_feed_of_a_mesh_at_rest_says_that_it_lives(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an event, for a browser does not tell its page of comments."""
    monkeypatch.setattr("mesh.api.routes.PING_S", 1)
    viewer = Viewer(api)
    events = viewer.events()
    next(events)
    assert next(events) == ("ping", {"idle_s": 0.0})
    viewer.close()


def test_an_id_that_is_gone_is_said_so(api: Api) -> None:
    """Another run's, one from the future, and no id at all: the viewer reads all anew."""
    api.lives(1)
    run = api.feed._run
    for last_id in ("deadbeef-1", f"{run}-999999", f"{run}-", "x", "<img>", f"{run}-\xb2"):
        viewer = Viewer(api, last_id)
        assert next(viewer.events())[0] == "reset"
        viewer.close()


def test_a_mesh_at_rest_says_nothing(api: Api) -> None:
    """Changes only: a look that finds none is not told."""
    api.lives(12)
    before = api.feed._last
    api.lives(3)
    assert api.feed._last == before


def test_a_viewer_that_stood_still_for_too_long_reads_all_again() -> None:
    """What is kept no more, although its connection held, is not passed over in silence."""

    async def follow() -> list[tuple[str | None, object]]:
        feed = Feed()
        events = feed.follow()
        found = [await anext(events)]
        for number in range(KEPT_MAX + 5):
            feed.publish({"number": number})
        found.append(await anext(events))
        feed.publish({"number": "next"})
        found.append(await anext(events))
        await events.aclose()
        return [(one.event, json.loads(one.data)) for one in found]

    standing = {"ping_s": 15}
    changed = ("change", {"number": "next"})
    found = asyncio.run(asyncio.wait_for(follow(), 5))
    assert found == [("here", standing), ("reset", standing), changed]


def test_what_changes_while_a_viewer_takes_its_first_event_is_told() -> None:
    """The id that it was given is where it goes on from."""

    async def follow() -> object:
        feed = Feed()
        events = feed.follow()
        await anext(events)
        feed.publish({"number": 1})
        told = await anext(events)
        await events.aclose()
        return json.loads(told.data)

    assert asyncio.run(asyncio.wait_for(follow(), 5)) == {"number": 1}
