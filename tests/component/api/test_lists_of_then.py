"""Queues, roles and traces of a moment gone by, and the pages that lists come in."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.model.control import EndpointKind
from mesh.model.queues import QueuePolicy
from mesh.transport.port import TopicSpec
from mesh.trees.settings import Settings
from tests.component.api.conftest import Api, MakeApi
from tests.component.in_memory_mesh import CHAIN

WAITING = {"source": "mesh.a.in.g/0", "endpoint": "a/x"}
SHARED = {"kind": EndpointKind.QUEUE, "policy": QueuePolicy.ANY}


PLACES = [f"trace/mesh.a.in.g/{partition}/0" for partition in range(4)]


def _now(api: Api) -> int:
    return api.live.snapshot.seen.at_ms


def _text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat().replace("+00:00", "Z")


def _at(api: Api, path: str, at_ms: int) -> Any:
    return api.get(f"{path}{'&' if '?' in path else '?'}at={_text(at_ms)}")


@pytest.mark.parametrize("path", ["mesh", "nodes", "findings", "explain?subject=x&from=a"])
def test_who_asks_for_this_moment_does_not_ask_for_the_future(api: Api, path: str) -> None:
    """The server looked at the mesh a while ago: its clock has gone on, and so have others'."""
    api.lives(2)
    with api.turn:
        api.mesh.pause(0.7)
    assert api.mesh.now_ms() > _now(api)
    _at(api, path, api.mesh.now_ms())
    later = _text(api.mesh.now_ms() + 1)
    with_at = f"{path}{'&' if '?' in path else '?'}at={later}"
    assert "is in the future" in api.refused(f"/api/v1/{with_at}", 422)


def test_a_cursor_goes_on_in_its_own_list_alone(api: Api) -> None:
    """Elsewhere, or cut, it would leave out items without a word."""
    first = api.get("links?limit=3")
    assert len(api.get(f"links?limit=9&cursor={first['next']}")["items"]) == 1
    cursor = first["next"]
    for path in (
        f"nodes?cursor={cursor}",
        f"links?at=0s&cursor={cursor}",
        f"links?cursor={cursor}A",
        f"links?cursor={cursor[:-1]}",
        "links?cursor=a-%3Eb",
    ):
        assert "is not a cursor of this list" in api.refused(f"/api/v1/{path}", 422)


def test_what_is_known_of_now_alone_is_none_of_then(api_of: MakeApi) -> None:
    """Parts of the mesh, what waits for a certificate, the batch of the auditor."""
    api = api_of(topology_from_mapping({**CHAIN, "audit": {"kafka": "left"}}), trees=Settings())
    kafka = api.mesh.world.kafka["left"]
    kafka.admin().create([TopicSpec(name="mesh.audit.status", partitions=1, settings={})])
    api.lives(5)
    with api.turn:
        api.mesh.client("c").roles("desk", lease_s=600).open().add("desk-7", "pricing")
    status = {"batch": 7, "uncertified": 2, "waiting": [WAITING], "endpoints": ["a/x"]}
    with api.turn:
        writer = kafka.writer("auditor")
        writer.produce("mesh.audit.status", json.dumps(status).encode(), b"position", 0)
        writer.flush()
    api.lives(6)
    present, then = api.get("audit"), _at(api, "audit", _now(api))
    assert {name: present[name] for name in status} == status
    assert {name: then[name] for name in status} == dict.fromkeys(status)
    assert api.get("mesh")["parts"] == [["a", "b", "c"]]
    assert _at(api, "mesh", _now(api))["parts"] is None


def test_a_queue_of_then_has_the_members_of_then(api: Api) -> None:
    """What waited and who consumed is not on record, and null: not none."""
    api.lives(2)
    before = _now(api)
    api.lives(1)
    for node in ("a", "c"):
        api.mesh.subscribe(node, "jobs", "work/>", **SHARED)
    api.lives(3)
    during = _now(api)
    api.lives(1)
    api.mesh.subscribe("b", "jobs", "work/late", **SHARED)
    api.mesh.publish("a", "work/x")
    api.lives(3)
    assert _at(api, "queues", before)["items"] == []
    (queue,) = _at(api, "queues", during)["items"]
    (present,) = api.get("queues")["items"]
    assert [one["node"] for one in present["members"]] == ["a", "b", "c"]
    assert present["waiting"] == 1
    assert (queue["queue"], queue["policy"], queue["waiting"]) == ("jobs", "any", None)
    told = [(one["node"], one["kind"], one["filters"]) for one in queue["members"]]
    assert told == [("a", "any", ["work/>"]), ("c", "any", ["work/>"])]
    for name in ("consumers", "movers", "waiting", "dead_letters"):
        assert {one[name] for one in queue["members"]} == {None}
    with api.turn:
        api.mesh.world.kafka["right"].available = False
    api.lives(8)
    assert _at(api, "queues", during)["items"][0]["unknown"] == ["b", "c"]


def test_a_role_of_then_is_one_that_is_known_to_have_been_wanted(api_of: MakeApi) -> None:
    """Whether its lease held is said where that is sure; of others that may lack it is told."""
    api = api_of(topology_from_mapping(CHAIN), trees=Settings())
    api.lives(3)
    before = _now(api)
    api.lives(1)
    with api.turn:
        host = api.mesh.client("c").roles("desk", lease_s=20).open()
        host.add("desk-7", "pricing")
    api.lives(3)
    during = _now(api)
    api.lives(1)
    with api.turn:
        host.add("desk-8", "risk")
    api.lives(3)
    told = _at(api, "roles", during)
    assert [(one["role"], one["lease_holds"], one["colour"]) for one in told["items"]] == [
        ("pricing", True, None)
    ]
    assert told["ends_unknown"] == ["a", "b", "c"]
    assert [one["role"] for one in api.get("roles")["items"]] == ["pricing", "risk"]
    assert "ends_unknown" not in api.get("roles")
    assert _at(api, "roles", before)["items"] == []
    api.lives(60)
    assert [one["lease_holds"] for one in _at(api, "roles", _now(api))["items"]] in ([], [None] * 2)


def test_a_trace_of_then_has_what_was_written_by_then(api: Api) -> None:
    """Nothing before it was published, and all of it later; the answer of now is the command's."""
    api.mesh.subscribe("c", "orders", "acme/>")
    api.lives(2)
    before = _now(api)
    api.lives(2)
    api.mesh.publish("a", "acme/a", b"pay")
    api.lives(3)
    (path,) = (one for one in PLACES if api.get(one)["frames"])
    now, then = api.get(path), _at(api, path, _now(api))
    assert then == {**now, "at_ms": _now(api)}
    assert [one["link"] for one in now["frames"]] == ["a->b", "b->c"]
    none = _at(api, path, before)
    assert (none["frames"], none["deliveries"], none["ingress"]["there"]) == ([], [], False)
    first, second = (one["appended_ms"] for one in now["frames"])
    assert first < second
    half = _at(api, path, first)
    assert [one["link"] for one in half["frames"]] == ["a->b"]
    assert (half["deliveries"], half["ingress"]["routed"]) == ([], True)
