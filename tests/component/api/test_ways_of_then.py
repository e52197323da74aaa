"""Where a message would have gone at a moment gone by, and what else can be told of then."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import Change, Stage
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import TopicSpec
from mesh.wire.control import encode_change
from mesh.wire.keys import change_key
from tests.component.api.conftest import Api, MakeApi
from tests.component.in_memory_mesh import CHAIN

QUESTION = "explain?subject=acme/a&from=a"


@pytest.fixture
def audited() -> Topology:
    return topology_from_mapping({**CHAIN, "audit": {"kafka": "left"}})


def _now(api: Api) -> int:
    return api.live.snapshot.seen.at_ms


def _at(api: Api, path: str, at_ms: int) -> Any:
    return api.get(f"{path}{'&' if '?' in path else '?'}at={_text(at_ms)}")


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _reached(told: dict[str, Any]) -> dict[str, list[str]]:
    return {one["node"]: one["endpoints"] for one in told["reached"]}


def test_the_way_of_then_is_told_by_what_was_wanted_then(api: Api) -> None:
    """Before and after a subscription, and once it has ended; the answer of now is another one."""
    api.lives(3)
    before = _now(api)
    api.mesh.subscribe("c", "orders", "acme/>")
    api.lives(3)
    during, (now, then) = _now(api), (api.get(QUESTION), _at(api, QUESTION, _now(api)))
    assert {**then, **now} == then
    assert (then["at_ms"], then["has_states"]) == (during, True)
    assert _reached(then) == {"a": [], "b": [], "c": ["orders"]}
    client = api.mesh.client("c")
    client.wait(client.unsubscribe("orders", "acme/>"))
    api.lives(3)
    assert _reached(api.get(QUESTION)) == {"a": []}
    assert list(_reached(_at(api, QUESTION, during))) == ["a", "b", "c"]
    assert _reached(_at(api, QUESTION, before)) == {"a": []}


def test_an_endpoint_that_ended_is_on_record_where_the_auditor_wrote_it(
    api_of: MakeApi, audited: Topology
) -> None:
    """Else nobody is said to have wanted nothing: it is not on record."""
    api = api_of(audited)
    api.lives(70)
    moment = 65_000
    told = _at(api, QUESTION, moment)
    assert told["ends_unknown"] == ["a", "b", "c"]
    assert {one["wants"] for one in told["not_reached"]} == {None}
    assert {one["wants"] for one in api.get(QUESTION)["not_reached"]} == {False}
    kafka = api.mesh.world.kafka["left"]
    kafka.admin().create([TopicSpec(name="mesh.audit.minutes", partitions=1, settings={})])
    with api.turn:
        writer = kafka.writer("auditor")
        for name in ("left", "right"):
            read = {"kafka": name, "from_ms": 60_000, "to_ms": 120_000, "minutes": 1}
            writer.produce("mesh.audit.minutes", json.dumps(read).encode(), name.encode(), 0)
        writer.flush()
    api.lives(6)
    told = _at(api, QUESTION, moment)
    assert told["ends_unknown"] == []
    assert {one["wants"] for one in told["not_reached"]} == {False}
    kafka.available = False
    api.lives(8)
    assert _at(api, QUESTION, moment)["ends_unknown"] == ["a", "b", "c"]


def test_a_node_that_was_down_then_waits_for_its_messages(api: Api) -> None:
    """Of a time before this server looked on, states are not on record, and said to be so."""
    api.mesh.subscribe("c", "orders", "acme/>")
    api.lives(3)
    with api.turn:
        api.mesh.world.kill("c")
    api.lives(20)
    down = _now(api)
    with api.turn:
        api.mesh.world.start("c")
    api.lives(20)
    waits = {one["node"]: one["waits"] for one in _at(api, QUESTION, down)["reached"]}
    assert waits == {"a": False, "b": False, "c": True}
    assert not any(one["waits"] for one in api.get(QUESTION)["reached"])
    assert _at(api, QUESTION, 0)["has_states"] is False


def test_ways_of_a_former_topology_are_refused(api: Api) -> None:
    """`route` and `explain` go by the topology in force: before it they say since when it is."""
    api.lives(3)
    before = _now(api)
    with api.turn:
        key, value = change_key(), encode_change(Change(0, Stage.RUN, ""))
        writer = api.mesh.world.kafka["left"].writer("operator")
        writer.produce(TopicNames("mesh.").config(), value, key, 0)
        writer.flush()
    api.lives(3)
    for path in (QUESTION, "route?from=a&to=c"):
        refusal = api.refused(f"/api/v1/{path}&at={_text(before)}", 422)
        assert "the topology in force is of 1970-01-01T00:00:" in refusal
        assert "NOT_ON_RECORD" in refusal
        assert _at(api, path, _now(api))
        assert "is in the future" in api.refused(f"/api/v1/{path}&at=2999-01-01", 422)


def test_links_of_a_zone_had_the_states_of_then(api: Api) -> None:
    api.lives(3)
    well = _now(api)
    with api.turn:
        api.mesh.world.kill("c")
    api.lives(20)

    def states(at_ms: int) -> list[dict[str, str | None]]:
        return [one["states"] for one in _at(api, "zones", at_ms)["items"][0]["states"]]

    assert states(well) == [{"a": "up", "b": "up"}, {"b": "up", "c": "up"}]
    assert states(_now(api))[0] == {"a": "up", "b": "up"}
    assert states(_now(api))[1]["b"] == "down"
    assert states(0) == [{"a": None, "b": None}, {"b": None, "c": None}]


def test_dead_letters_are_those_that_were_written_by_then(api: Api) -> None:
    """Each says when; of a moment before nobody had refused anything."""
    api.lives(2)
    moments = []
    for _ in range(2):
        moments.append(_now(api))
        topic = TopicNames("mesh.").ingress("a", MessageClass.GUARANTEED)
        with api.turn:
            writer = api.mesh.world.kafka["left"].writer("app")
            writer.produce(topic, b"no subject", None, 0)
            writer.flush()
        api.lives(3)
    letters = [_at(api, "dead-letters?node=a", at_ms)["items"] for at_ms in (*moments, _now(api))]
    assert [len(one) for one in letters] == [0, 1, 2]
    assert letters[2] == api.get("dead-letters?node=a")["items"]
    assert moments[0] < letters[2][0]["written_ms"] <= moments[1]


def test_what_is_given_twice_is_refused(api: Api) -> None:
    """Nobody can know which of both was meant; headers are many."""
    assert "more than once" in api.refused("/api/v1/nodes?at=1s&at=2s", 422)
    assert api.get(f"{QUESTION}&header=a=1&header=b=2")


def test_who_has_anything_at_all_is_told_that_it_is_the_same(api: Api) -> None:
    """`If-None-Match: *`, or the tag among others. Source: RFC 9110, 13.1.2."""
    tag = api.ask("/api/v1/zones").headers["etag"]
    for known in (tag, f'"x", W/{tag}', "*"):
        assert api.ask("/api/v1/zones", if_none_match=known).status == 304
    assert api.ask("/api/v1/zones", if_none_match='"x"').status == 200
    assert api.ask("/static/main.js", if_none_match="*").status == 304
