"""Roles that one holds alone: how they move, who gets them, and who does not."""

from __future__ import annotations

import pytest

from mesh.errors import RoleRefusedError
from mesh.model.tree_apps import (
    RoleRequest,
)
from mesh.model.tree_frames import ReplyKind
from mesh.model.trees import Address, tree_id
from mesh.view.role_requests import role_requests
from mesh.worker.trees.incarnation import HEAR_MS
from tests.component.in_memory_mesh import Mesh
from tests.component.worker.trees.applications import Open, asked, finished, live, payloads


def test_a_role_moves_to_who_asked_for_it_and_no_restart_brings_it_back(
    mesh: Mesh, application: Open
) -> None:
    """Grant and give up. Spec: tree_layer 5.13, 13."""
    host, sender, other = application("c"), application("a"), application("b")
    host.add("desk-7", "lead", exclusive=True)
    call = sender.send("desk-7", "lead", b"yours?")
    asked(host).grant(b"take it", give_up=True)
    finished(call, host, other)
    assert [one.kind for one in call.replies] == [ReplyKind.DATA]
    assert (len(host.held), len(sender.held)) == (0, 1)
    for node in ("c", "a"):
        mesh.world.kill(node)
        mesh.world.start(node)
        live(mesh, 15, host, sender, other)
        assert (len(host.held), len(sender.held)) == (0, 1)
        call = finished(other.send("desk-7", "lead", b"who?"), sender, host)
        assert payloads(call) == ["a: who?"]


def test_a_role_that_moves_to_who_has_it_already_is_what_it_was(
    mesh: Mesh, application: Open
) -> None:
    """What stands for it, here and at the client, was the former request. Spec: tree_layer 5.13, 13."""
    host, sender, other = application("c"), application("a"), application("b")
    sender.add("desk-7", "pricing")
    host.add("desk-7", "pricing", protocol="v2")
    call = sender.send("desk-7", "pricing", b"yours?", protocol="v2")
    asked(host).grant(b"take it", give_up=True)
    finished(call, host, other)
    for _ in range(2):
        live(mesh, 15, host, sender, other)
        stand = role_requests(mesh.world.kafka["left"], "mesh.a.roles")
        assert {key.tree: one.request.protocol for key, one in stand.items()} == {"desk-7": "v2"}
        assert [request.protocol for request in sender._requests._requests.values()] == ["v2"]
        assert (len(host.held), len(sender.held)) == (0, 1)
        call = finished(other.send("desk-7", "pricing", b"who?", protocol="v2"), sender)
        assert payloads(call) == ["a: who?"]
        mesh.world.kill("a")
        mesh.world.start("a")


def test_an_exclusive_role_that_is_held_is_refused(application: Open) -> None:
    host, sender = application("c"), application("a")
    host.add("desk-7", "lead", exclusive=True)
    finished(sender.send("desk-7", "lead", b"1"), host)
    with pytest.raises(RoleRefusedError, match="EXCLUSIVE_HELD"):
        sender.add("desk-7", "lead")
    assert not sender.held


def test_30_a_role_is_taken_politely_only_if_nobody_holds_it(mesh: Mesh, application: Open) -> None:
    """Granted, denied, and of two at one moment exactly one. Spec: tree_layer 5.4, 11 (30)."""
    host, other, third = application("c"), application("a"), application("b")
    assert host.add("desk-7", "lead", exclusive=True, polite=True)
    with pytest.raises(RoleRefusedError, match="EXCLUSIVE_HELD"):
        other.add("desk-7", "lead", exclusive=True, polite=True)
    assert len(host.held) == 1
    host.remove("desk-7", "lead")
    live(mesh, 2, host, other, third)
    request = RoleRequest(Address(tree_id("desk-7"), "lead"), is_exclusive=True, is_polite=True)
    for one in (other, third):
        one._requests.want("desk-7", request)
    live(mesh, 10, host, other, third)
    assert sorted(len(one.held) for one in (other, third)) == [0, 1]


def test_who_asked_politely_and_then_otherwise_holds_the_role(
    mesh: Mesh, application: Open
) -> None:
    """The answer to the polite question came later, from the role's own holder. Spec: tree_layer 5.4."""
    one, asking = application("a"), application("c")
    told: list[object] = []
    one.listener = told.append
    place = Address(tree_id("desk-7"), "lead")
    for is_polite in (True, False):
        request = RoleRequest(place, is_exclusive=True, is_polite=is_polite)
        one._requests.want("desk-7", request)
    live(mesh, 5, one, asking)
    assert told == []
    mesh.world.kill("a")
    mesh.world.start("a")
    live(mesh, 15, one, asking)
    assert list(one.held) == [place]
    assert payloads(finished(asking.send("desk-7", "lead", b"?"), one)) == ["a: ?"]


def test_a_holder_that_comes_back_takes_nothing_from_who_took_over(
    mesh: Mesh, application: Open
) -> None:
    """And none that comes back at once loses to what its former instance has left behind."""
    host, other, sender = application("c"), application("a"), application("b")
    host.add("desk-7", "lead", exclusive=True)
    finished(sender.send("desk-7", "lead", b"1"), host)
    mesh.world.kill("c")
    mesh.world.start("c")
    live(mesh, 15, host, other, sender)
    assert payloads(finished(sender.send("desk-7", "lead", b"2"), host)) == ["c: 2"]
    mesh.world.kill("c")
    other.clear("desk-7", "lead")
    live(mesh, 1, other)
    other.add("desk-7", "lead", exclusive=True)
    mesh.world.start("c")
    live(mesh, 15, host, other, sender)
    assert (len(host.held), len(other.held)) == (0, 1)
    assert payloads(finished(sender.send("desk-7", "lead", b"3"), host, other)) == ["a: 3"]


@pytest.mark.parametrize("polite", [False, True])
def test_a_holder_that_came_back_apart_from_all_loses_nothing_to_what_it_left_behind(
    mesh: Mesh, application: Open, *, polite: bool
) -> None:
    """It took its role without their clocks; far nodes know the former instance, a higher one.

    Politely too, while it waits to hear of others who took it at that moment.
    """
    host, sender = application("c"), application("a")
    for at in range(9):
        sender.add("desk-7", f"other-{at}")
    host.add("desk-7", "lead", exclusive=True, polite=polite)
    finished(sender.send("desk-7", "lead", b"1"), host)
    [before] = host.held.values()
    mesh.world.kill("c")
    mesh.world.cut("b", ["c"])
    mesh.world.cut("c", ["b"])
    mesh.world.start("c")
    apart = None
    while apart is None:
        live(mesh, 0.1, host, sender)
        served = mesh.world.workers["c"].tree_service.applications
        apart = served and served.node.held("app", Address(tree_id("desk-7"), "lead"))
    assert apart.iid < before
    for node in "bc":
        mesh.world.cut(node, [])
    live(mesh, 15, host, sender)
    assert len(host.held) == 1
    assert payloads(finished(sender.send("desk-7", "lead", b"2"), host)) == ["c: 2"]


def test_who_has_heard_no_neighbour_yet_serves_nobody_for_a_moment(
    mesh: Mesh, application: Open
) -> None:
    """It knows of no link that is up, which does not mean that nobody is there. Spec: tree_layer 5.4."""
    host = application("c")
    host.add("desk-7", "lead", exclusive=True)
    live(mesh, 1, host)
    mesh.world.kill("c")
    mesh.world.cut("b", ["c"])
    mesh.world.cut("c", ["b"])
    mesh.world.start("c")
    service = mesh.world.workers["c"].tree_service
    for _ in range(200):
        live(mesh, 0.1, host)
        if service._now is not None and service._now.has_roles:
            break
    assert HEAR_MS <= mesh.now_ms() - service._now.began_ms < HEAR_MS + 1_000
