"""As much waits for a neighbour as may: the link waits alone, or nothing more is taken. R14."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import BackpressureError
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.operate.doctor import Category
from mesh.operate.links.flows import link_flows
from mesh.operate.status import node_statuses
from mesh.transport.port import TopicPartition
from mesh.worker.limits.backlog import SAMPLES_MAX, Backlog
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.examined import failed, unwell

SIZE = 1_000
LIMIT = 10 * SIZE


def test_what_was_written_since_the_reader_came_by_waits() -> None:
    backlog = Backlog()
    assert backlog.look(0, 0, 0, 0) == (0, 0)
    assert backlog.look(2, 0, 100, 1_000) == (100, 0)
    assert backlog.look(4, 0, 250, 2_000) == (250, 1_000)
    # Offset 1 is the marker of the first transaction: who has read offset 0 has read all of it.
    assert backlog.look(4, 1, 250, 3_000) == (150, 1_000)
    assert backlog.look(4, 3, 250, 9_000) == (0, 0)
    assert backlog.look(6, 3, 300, 9_500) == (50, 0)


def test_what_waited_before_the_count_began_is_old() -> None:
    backlog = Backlog()
    assert backlog.look(100, 3, 0, 0) == (0, 0)
    assert backlog.look(102, 3, 70, 5_000) == (70, 5_000)
    assert backlog.look(102, 101, 70, 6_000) == (0, 0)


def test_the_oldest_moment_is_not_forgotten_however_many_there_are() -> None:
    """A day of steady traffic must count as a day. Spec: R14."""
    backlog = Backlog()
    assert backlog.look(0, 0, 0, 0) == (0, 0)
    looks = 5 * SAMPLES_MAX
    for number in range(1, looks):
        waits, age_ms = backlog.look(2 * number, 0, 100 * number, 500 * number)
        assert (waits, age_ms) == (100 * number, 500 * (number - 1))


def test_the_oldest_are_found_that_are_too_many_or_too_old() -> None:
    backlog = Backlog()
    for number in range(11):
        backlog.look(2 * number, 0, 100 * number, 1_000 * number)
    assert backlog.beyond(300, 1e9, 1_000, 10_000) == 14
    assert backlog.beyond(1e9, 4_000, 1_000, 10_000) == 10
    assert backlog.beyond(0, 1e9, 1_000, 10_000) == 20
    assert backlog.beyond(1e9, 1e9, 1_000, 10_000) == 0


def star(when_full: str, **limit: object) -> Topology:
    return topology_from_mapping(
        {
            "kafka": {"k": {}},
            "nodes": {"a": {"lanes": 1}, "b": {}, "c": {}},
            "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["a", "c"]]}},
            "limits": [{"link": ["a", "b"], **limit, "whenFull": when_full}],
        }
    )


def delivered(mesh: Mesh, node: str) -> list[bytes]:
    topic = mesh.world.kafka["k"].topics[f"mesh.{node}.ep.e"]
    return [r.value() or b"" for log in topic.logs for r in log.entries if r is not None]


def waiting(mesh: Mesh) -> int:
    """Return the bytes in the outbox of a to b."""
    logs = mesh.world.kafka["k"].topics["mesh.a.to.b.g"].logs
    return sum(len(r.value() or b"") for log in logs for r in log.entries if r is not None)


def state(mesh: Mesh, link: str) -> tuple[str, str]:
    view = mesh.view()
    view.refresh()
    beats = {node: node in mesh.world.workers for node in "abc"}
    flows = link_flows(mesh.seen(view, beats))
    view.close()
    [flow] = [one for one in flows if f"{one.source}->{one.target}" == link]
    return flow.state, flow.reason


def begin(mesh: Mesh) -> None:
    for node in "bc":
        mesh.subscribe(node, "e", ">")
    mesh.world.kill("b")


@pytest.mark.parametrize("limit", [{"outboxBytes": LIMIT}, {"outboxAge": "3s"}])
def test_a_link_that_is_full_waits_alone(
    mesh_of: Callable[[Topology], Mesh], limit: dict[str, object]
) -> None:
    """Spec: DMR-11, R14."""
    mesh = mesh_of(star("stop", **limit))
    begin(mesh)
    for number in range(60):
        mesh.publish("a", "x", b"%03d" % number + b"x" * SIZE)
        mesh.pause(0.2)
    mesh.pause(2)
    assert len(delivered(mesh, "c")) == 60
    held = waiting(mesh)
    assert 0 < held < 40 * SIZE
    assert state(mesh, "a->b")[0] == "full"
    assert "this link waits alone" in state(mesh, "a->b")[1]
    mesh.world.start("b")
    mesh.pause(40)
    assert sorted(delivered(mesh, "b")) == sorted(delivered(mesh, "c"))
    assert state(mesh, "a->b") == ("up", "")


def test_a_link_that_is_full_may_have_clients_refused(
    mesh_of: Callable[[Topology], Mesh],
) -> None:
    """The node reads no more of plain clients; ours are told. Direct goes on. Spec: DMR-11, R14."""
    mesh = mesh_of(star("reject", outboxBytes=LIMIT))
    begin(mesh)
    client = mesh.client("a")
    taken, refusals = 0, list[str]()
    for number in range(60):
        try:
            client.publish("x", b"%03d" % number + b"x" * SIZE)
        except BackpressureError as error:
            refusals.append(str(error))
        else:
            taken += client.flush()
        mesh.pause(0.2)
    assert taken + len(refusals) == 60
    assert all("because of its link to b: outbox full" in text for text in refusals)
    assert state(mesh, "a->c") == ("up", "")
    assert 10 <= taken < 30
    client.publish("x", b"now", message_class=MessageClass.DIRECT)
    assert client.flush() == 1
    plain = mesh.world.kafka["k"].writer("plain")
    for number in range(20):
        plain.produce("mesh.a.in.g", b"p", partition=number % 4, headers=[("mesh-subject", b"x")])
    assert plain.flush() == 0
    mesh.pause(3)
    assert delivered(mesh, "c").count(b"p") == 0
    mesh.world.start("b")
    mesh.pause(20)
    assert (delivered(mesh, "c").count(b"p"), delivered(mesh, "b").count(b"p")) == (20, 20)
    client.publish("x", b"again")
    client.close()


def test_an_endpoint_that_is_full_is_told_to_clients_and_people(
    mesh_of: Callable[[Topology], Mesh],
) -> None:
    """Spec: R14."""
    spec = {
        "kafka": {"k": {}},
        "nodes": {"a": {}, "b": {}},
        "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"]]}},
        "limits": [{"endpoint": "e", "node": "a", "bytes": LIMIT, "whenFull": "reject"}],
    }
    mesh = mesh_of(topology_from_mapping(spec))
    mesh.subscribe("a", "e", ">")
    client, refusals = mesh.client("a"), list[str]()
    for number in range(60):
        try:
            client.publish("x", b"%03d" % number + b"x" * SIZE)
        except BackpressureError as error:
            refusals.append(str(error))
        else:
            client.flush()
        mesh.pause(0.4)
    assert 10 < len(refusals) < 50
    assert all("because of its endpoint e: endpoint full: 10000 bytes" in one for one in refusals)
    mesh.publish("b", "x", b"not refused")
    view = mesh.view()
    view.refresh()
    [status] = node_statuses(mesh.seen(view))[:1]
    assert [(one.endpoint, one.state) for one in status.endpoints_full] == [("e", "full")]
    assert not status.is_well
    [check] = [one for one in unwell(mesh, Category.DELIVERY) if "its limit" in one.description]
    assert check.hint == "see why the endpoint's slowest group does not read; or raise the limit"
    view.close()
    places = [TopicPartition("mesh.a.ep.e", partition) for partition in range(4)]
    mesh.world.kafka["k"].commit_group("g", mesh.world.kafka["k"].admin().stable_ends(places))
    mesh.pause(15)
    client.publish("x", b"again")


def test_what_an_endpoint_has_given_up_is_told_by_the_doctor(
    mesh_of: Callable[[Topology], Mesh],
) -> None:
    """As long as the worker runs, and after that by its dead letters. Spec: R14, R12."""
    spec = {
        "kafka": {"k": {}},
        "nodes": {"a": {}},
        "limits": [{"endpoint": "e", "bytes": LIMIT, "whenFull": "dead-letter"}],
    }
    mesh = mesh_of(topology_from_mapping(spec))
    mesh.subscribe("a", "e", ">")
    for number in range(40):
        mesh.publish("a", "x", b"%03d" % number + b"x" * SIZE)
        mesh.pause(0.3)
    mesh.pause(10)
    told = failed(mesh, Category.DELIVERY)
    lost = int(told["nothing at a has reached its limit"].split(" messages")[0].rpartition(" ")[2])
    assert told["nothing at a has reached its limit"].startswith(
        f"in endpoint e: {lost} messages became"
    )
    assert told["a has refused nothing and put nothing aside"].endswith(f"{lost} ENDPOINT_FULL")
    topic = mesh.world.kafka["k"].topics["mesh.a.ep.e"]
    kept = [r for log in topic.logs for r in log.entries if r is not None and r.value()]
    assert (lost > 10, len(kept)) == (True, 40 - lost)
