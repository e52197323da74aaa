"""What nodes know of the ways to roles, as their `routes` topics tell whoever only looks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from mesh.client.roles import Roles
from mesh.config.topology_file import topology_from_mapping
from mesh.model.topics import TopicNames
from mesh.operate.documents.role_routes import role_routes_document
from mesh.transport.port import TopicPartition
from mesh.transport.reading import read_logs
from mesh.trees.settings import Settings
from mesh.worker.trees import telling
from tests.component.in_memory_mesh import CHAIN, Mesh


@pytest.fixture
def mesh() -> Iterator[Mesh]:
    made = Mesh(topology_from_mapping(CHAIN), trees=Settings())
    made.pause(5)
    yield made
    made.close()


@pytest.fixture
def ends(mesh: Mesh) -> Sequence[Roles]:
    """An application at a, and one at c that has a role; a has sent to it once."""
    asking, host = (mesh.client(node).roles("app", lease_s=600).open() for node in ("a", "c"))
    host.add("desk-7", "pricing")
    mesh.pause(2)
    _send(mesh, asking, "pricing", host)
    mesh.pause(2)
    return asking, host


def _send(mesh: Mesh, asking: Roles, role: str, *hosts: Roles) -> None:
    call = asking.send("desk-7", role, b"?", timeout_s=60)
    deadline = mesh.now_ms() + 30_000
    while not call.is_done:
        assert mesh.now_ms() < deadline, call
        for one in hosts:
            one.step()
            while one._messages:
                one._messages.popleft().answer(b"!")
        asking.step()


def _told(mesh: Mesh, **beats: bool) -> dict[str, Any]:
    view = mesh.view()
    view.refresh()
    told = role_routes_document(mesh.seen(view, beats))
    view.close()
    return told


def _ways(told: dict[str, Any]) -> list[tuple[object, ...]]:
    return [tuple(one[key] for key in ("node", "link", "hops", "to")) for one in told["routes"]]


WAYS = [("a", "b", 2, "c"), ("b", "c", 1, "c"), ("c", "", 0, "c")]


def _written(mesh: Mesh, node: str) -> int:
    kafka = mesh.world.kafka[mesh.topology.nodes[node].kafka]
    place = TopicPartition(TopicNames("mesh.").routes(node), 0)
    return sum(1 for _ in read_logs(kafka, [place]))


def test_each_node_tells_its_next_link_how_old_it_is_and_what_it_came_by(
    mesh: Mesh, ends: Sequence[Roles]
) -> None:
    told = _told(mesh)
    assert _ways(told) == WAYS
    assert told["unknown"] == []
    assert {one["role"] for one in told["routes"]} == {"pricing"}
    known = {str(route.link): route for route in ends[0].routes("desk-7", "pricing").routes}["b"]
    way = told["routes"][0]
    assert (way["certain"], way["reason"], way["scope"]) == (True, str(known.reason), "cloud")
    assert way["instance"] == f"{known.iid:x}"
    assert abs(mesh.now_ms() - known.age_ms - way["since_ms"]) < 1_000
    assert told["routes"][2]["since_ms"] is None


def test_what_stays_as_it_is_is_not_written_again(mesh: Mesh, ends: Sequence[Roles]) -> None:
    """Neither for sends that follow it; a mesh without roles writes nothing at all."""
    written = [_written(mesh, node) for node in "abc"]
    assert min(written) > 0
    for _ in range(3):
        _send(mesh, ends[0], "pricing", ends[1])
        mesh.pause(3)
    assert [_written(mesh, node) for node in "abc"] == written
    silent = Mesh(topology_from_mapping(CHAIN), trees=Settings())
    silent.pause(20)
    assert [_written(silent, node) for node in "abc"] == [0, 0, 0]
    silent.close()


def test_a_role_that_is_given_up_leads_nowhere(mesh: Mesh, ends: Sequence[Roles]) -> None:
    ends[1].remove("desk-7", "pricing")
    mesh.pause(3)
    assert _told(mesh)["routes"] == []


def test_a_role_that_ends_while_words_are_lost_leads_nowhere(
    mesh: Mesh, ends: Sequence[Roles]
) -> None:
    """All is told again then, and of what is known no more that it is."""
    ends[1].remove("desk-7", "pricing")
    for _ in range(30):
        for worker in mesh.world.workers.values():
            worker.tree_service._now.teller.forget()  # type: ignore[union-attr]
        mesh.pause(0.1)
    mesh.pause(2)
    assert _told(mesh)["routes"] == []


def test_what_a_former_incarnation_knew_is_not_told(mesh: Mesh, ends: Sequence[Roles]) -> None:
    """A restart forgets every route, and nobody told it of the end of a role meanwhile."""
    before = _written(mesh, "b")
    mesh.world.kill("b")
    ends[1].remove("desk-7", "pricing")
    mesh.pause(2)
    assert _told(mesh, b=False)["unknown"] == ["b"]
    mesh.world.start("b")
    mesh.pause(15)
    assert _written(mesh, "b") == before
    assert "b" not in [one["node"] for one in _told(mesh)["routes"]]
    assert _told(mesh)["unknown"] == []


def test_of_a_silent_kafka_cluster_and_an_older_release_no_routes_are_known(
    mesh: Mesh, ends: Sequence[Roles]
) -> None:
    assert ends
    mesh.world.kafka["left"].admin().delete([TopicNames("mesh.").routes("a")])
    told = _told(mesh)
    assert (_ways(told), told["unknown"]) == (WAYS[1:], ["a"])
    mesh.world.kafka["right"].available = False
    told = _told(mesh)
    assert (told["routes"], told["unknown"]) == ([], ["a", "b", "c"])


def test_a_deleted_topic_is_recreated_and_filled(mesh: Mesh, ends: Sequence[Roles]) -> None:
    assert ends
    mesh.pause(12)  # the node has looked which topics it has
    mesh.world.kafka["left"].admin().delete([TopicNames("mesh.").routes("a")])
    mesh.pause(15)
    assert _ways(_told(mesh)) == WAYS


def test_of_too_many_roles_those_used_last_are_told(
    mesh: Mesh, ends: Sequence[Roles], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names that are made up have no end."""
    monkeypatch.setattr(telling, "ROLES_MAX", 3)
    for number in range(5):
        ends[0].add(f"tree-{number}", "made-up")
    mesh.pause(3)
    assert len([one for one in _told(mesh)["routes"] if one["node"] == "a"]) == 3


def test_what_a_stranger_writes_there_is_passed_over(mesh: Mesh, ends: Sequence[Roles]) -> None:
    assert ends
    writer = mesh.world.kafka["left"].writer("stranger")
    for key, value in (
        (b"\xff", b"{}"),
        (b"x y", b"\xff"),
        (b"k", b'{"event":"expired"}'),
        (b"z", None),
    ):
        writer.produce(TopicNames("mesh.").routes("a"), value, key, 0)
    writer.flush()
    assert _ways(_told(mesh)) == WAYS


def test_what_still_holds_is_said_again_before_the_topic_forgets_it(
    mesh: Mesh, ends: Sequence[Roles], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And many roles are looked at in turn: all of them are told, some seconds later."""
    monkeypatch.setattr(telling, "AGAIN_MS", 10_000)
    monkeypatch.setattr(telling, "AT_ONCE", 1)
    before = _written(mesh, "a")
    for number in range(3):
        ends[0].add(f"tree-{number}", "more")
    mesh.pause(6)
    assert _written(mesh, "a") == before + 3
    mesh.pause(20)
    assert _written(mesh, "a") >= before + 3 + 4
    assert len({one["tree_id"] for one in _told(mesh)["routes"]}) == 4
