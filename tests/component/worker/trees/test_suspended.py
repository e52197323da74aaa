"""The tree layer of nodes whose own Kafka cluster is away for a while: it waits, and blames nobody.

In the chain a is on one Kafka cluster, b and c are on the one that goes away.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mesh.client.roles import Roles
from mesh.errors import TransportUnavailableError
from mesh.model.effects import Relinked
from mesh.model.tree_apps import Expired, PartitionSuspected, Served, Unpartitioned
from mesh.view.mesh_view import MeshView
from mesh.wire.control import encode_heartbeat
from mesh.wire.keys import heartbeat_key
from mesh.worker.control.leadership import Led, take_control
from mesh.worker.process.errands import Steps
from mesh.worker.trees.service import HOLD_MS, TreeService
from tests.component.in_memory_mesh import Mesh
from tests.component.worker.trees.applications import finished, live, payloads

LONG_S = 30
"""Longer than neighbours may be silent, or miss heartbeats."""


def service(mesh: Mesh, node: str) -> TreeService:
    found = mesh.world.workers[node].tree_service
    assert found is not None
    return found


def colours(mesh: Mesh, nodes: str) -> set[str]:
    return {service(mesh, node).colour for node in nodes}


def away(mesh: Mesh, seconds: float, *others: Roles) -> None:
    """The Kafka cluster of b and c answers nobody for so long."""
    mesh.world.kill_broker("right")
    live(mesh, seconds, *others)
    mesh.world.start_broker("right")


class Chain:
    """An application at each node, what it is told, and a role that the one at c hosts."""

    def __init__(self, mesh: Mesh) -> None:
        self.a, self.b, self.c = (mesh.client(node).roles("app").open() for node in "abc")
        self.told: dict[str, list[object]] = {"a": [], "b": [], "c": []}
        for one, told in zip((self.a, self.b, self.c), self.told.values(), strict=True):
            one.listener = told.append
        self.iid = self.c.add("desk-7", "pricing")
        live(mesh, 2, *self.all)

    @property
    def all(self) -> tuple[Roles, Roles, Roles]:
        return self.a, self.b, self.c


@pytest.mark.parametrize("seconds", [5, LONG_S])
def test_neighbours_in_the_same_outage_are_not_blamed(mesh: Mesh, seconds: float) -> None:
    """No colours, no nulls, no loss of memory. Spec: tree_layer 12 (b)."""
    chain, before = Chain(mesh), colours(mesh, "bc")
    epochs = [service(mesh, node)._now.id for node in "bc"]  # type: ignore[union-attr]
    call = chain.b.send("desk-7", "pricing", b"before")
    live(mesh, 0.4, chain.a, chain.b)  # between two PINGs: what is on its way then is lost, a gap
    away(mesh, seconds, chain.a)
    live(mesh, 3, chain.a, chain.b)  # c has yet to answer
    assert not call.replies
    assert payloads(finished(call, chain.c)) == ["c: before"]
    live(mesh, 12, *chain.all)
    assert [service(mesh, node)._now.id for node in "bc"] == epochs  # type: ignore[union-attr]
    assert PartitionSuspected("c") not in chain.told["b"]
    assert PartitionSuspected("b") not in chain.told["c"]
    assert not any(isinstance(one, Served) for told in chain.told.values() for one in told)
    assert list(chain.c.held.values()) == [chain.iid]
    is_cut = PartitionSuspected("b") in chain.told["a"]
    assert is_cut is (seconds > 10)
    assert (before == colours(mesh, "abc")) is not is_cut
    assert any(isinstance(one, Unpartitioned) for one in chain.told["a"]) is is_cut
    again = finished(chain.a.send("desk-7", "pricing", b"after"), chain.c)
    assert payloads(again) == ["c: after"]


def test_one_that_comes_back_later_from_the_same_outage_is_not_blamed(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine one takes its lead long before another. Spec: tree_layer 12 (b)."""
    chain = Chain(mesh)
    call = chain.b.send("desk-7", "pricing", b"before")
    back_ms = mesh.now_ms() + 5_000 + 20_000

    def late(*how: Any) -> Steps[Led]:
        if how[1] == "c" and mesh.now_ms() < back_ms:
            raise TransportUnavailableError("not yet")
        return (yield from take_control(*how))

    monkeypatch.setattr("mesh.worker.control.leadership.take_control", late)
    away(mesh, 5, chain.a)
    live(mesh, 18, chain.a, chain.b)
    assert service(mesh, "c").figures is None
    live(mesh, 12, *chain.all)
    assert payloads(finished(call, chain.c)) == ["c: before"]
    assert PartitionSuspected("c") not in chain.told["b"]


def test_leases_begin_anew_where_nobody_could_renew_them(mesh: Mesh) -> None:
    """Ten seconds, of which seven are over as the outage begins. Spec: tree_layer 12 (b), 13."""
    chain = Chain(mesh)
    live(mesh, 7, chain.a, chain.b)
    away(mesh, 5, chain.a)
    live(mesh, 7, chain.a, chain.b)
    assert not any(isinstance(one, Expired) for one in chain.told["c"])
    assert "app" in service(mesh, "c")._now.apps.names  # type: ignore[union-attr]
    live(mesh, 1, *chain.all)
    assert list(chain.c.held.values()) == [chain.iid]


def test_nothing_is_written_by_who_does_not_lead(mesh: Mesh) -> None:
    chain = Chain(mesh)
    before = service(mesh, "b")._now
    assert before is not None
    written = before.writer.frames.total()
    mesh.world.kill_broker("right")
    live(mesh, LONG_S, chain.a)
    assert before.writer.frames.total() <= written + 4  # before the loss was noticed
    assert service(mesh, "b").figures is None


def test_an_incarnation_waits_for_a_minute_and_no_longer(mesh: Mesh) -> None:
    """What is older than that is not worth much. Spec: tree_layer 12, hold_down."""
    chain = Chain(mesh)
    before = service(mesh, "c")._now
    away(mesh, HOLD_MS / 1000 + 5, chain.a)
    assert service(mesh, "c")._now is None
    live(mesh, 15, *chain.all)
    after = service(mesh, "c")._now
    assert before is not None
    assert after is not None
    assert after.id != before.id
    assert payloads(finished(chain.a.send("desk-7", "pricing", b"?"), chain.c)) == ["c: ?"]


def test_where_another_has_led_meanwhile_the_memory_is_gone(mesh: Mesh) -> None:
    """What it said and promised this one does not know. Spec: tree_layer 12, 13."""
    chain = Chain(mesh)
    view = MeshView(mesh.topology, mesh.world.kafka, mesh.now_ms)
    view.refresh()
    beat = view.nodes["c"].heartbeat
    assert beat is not None
    mesh.world.kill_broker("right")
    live(mesh, 5, chain.a)
    before = service(mesh, "c")._now
    mesh.world.start_broker("right")
    writer = mesh.world.kafka["right"].writer("successor")
    later = encode_heartbeat(type(beat)(**{**_fields(beat), "epoch": beat.epoch + 1}))
    writer.produce("mesh.c.control", later, heartbeat_key(), 0)
    live(mesh, 15, *chain.all)
    after = service(mesh, "c")._now
    assert before is not None
    assert after is not None
    assert after.id == (before.id[0], before.id[1] + 2)
    assert payloads(finished(chain.a.send("desk-7", "pricing", b"?"), chain.c)) == ["c: ?"]


def _fields(beat: object) -> dict[str, object]:
    return {name: getattr(beat, name) for name in type(beat).__dataclass_fields__}  # type: ignore[attr-defined]


def test_a_lead_that_was_taken_in_vain_was_nobody_else_s(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka comes back partition by partition: who has written a new epoch may not read on."""
    chain, tried = Chain(mesh), Counter[str]()

    def in_vain(*how: Any) -> Steps[Led]:
        steps, node = take_control(*how), how[1]
        try:
            while True:
                yield next(steps)
                is_introduced = "control" in steps.gi_frame.f_locals
                if is_introduced and tried[node] < 2:
                    tried[node] += 1
                    steps.throw(TransportUnavailableError("not yet"))
        except StopIteration as end:
            return end.value

    monkeypatch.setattr("mesh.worker.control.leadership.take_control", in_vain)
    before = [service(mesh, node)._now.id for node in "bc"]  # type: ignore[union-attr]
    away(mesh, 5, chain.a)
    live(mesh, 15, *chain.all)
    assert tried == {"b": 2, "c": 2}
    assert [service(mesh, node)._now.id for node in "bc"] == before  # type: ignore[union-attr]


def test_a_change_of_the_topology_does_not_wait(mesh: Mesh) -> None:
    """Links that are gone would have to be told of, which only a leader may."""
    Chain(mesh)
    mesh.world.kill_broker("right")
    live(mesh, 5)
    held = service(mesh, "c")
    assert held._now is not None
    held.relink(Relinked(mesh.topology, ("b",), ()), mesh.now_ms())
    assert held._now is None


def test_what_is_read_meanwhile_has_an_end(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mesh.worker.trees.service.HELD_MAX", 3)
    chain = Chain(mesh)
    mesh.world.kill_broker("right")
    live(mesh, 9, chain.a)
    assert service(mesh, "b")._now is None  # a went on to send PING
    assert service(mesh, "c")._now is not None


def test_what_is_read_meanwhile_has_an_end_however_few_it_is(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten thousand messages of the largest size would be nine gigabytes."""
    monkeypatch.setattr("mesh.worker.trees.service.HELD_BYTES_MAX", 100_000)
    chain = Chain(mesh)
    for _ in range(2):
        finished(chain.a.send("desk-7", "pricing", b"?"), chain.c)
    mesh.world.kill_broker("right")
    live(mesh, 3, chain.a)
    assert service(mesh, "b")._now is not None
    for _ in range(3):
        chain.a.send("desk-7", "pricing", bytes(40_000))
    live(mesh, 3, chain.a)
    assert service(mesh, "b")._now is None
