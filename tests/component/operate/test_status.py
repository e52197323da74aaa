"""Status, links, checks, traces and audit reports, read from the topics alone."""

from __future__ import annotations

import json

import pytest

from mesh.errors import ConfigError
from mesh.operate.audit.latest import Audited
from mesh.operate.audit.trail import AuditTrail
from mesh.operate.links.flows import link_flows
from mesh.operate.messages.trace import Tracer
from mesh.operate.status import node_statuses
from mesh.transport.port import TopicSpec
from tests.component.in_memory_mesh import Mesh
from tests.component.operate.examined import examination, failed


def test_a_calm_mesh_is_well(mesh: Mesh) -> None:
    mesh.subscribe("c", "e", "acme/>")
    mesh.publish("a", "acme/x")
    mesh.pause(2.0)
    at = examination(mesh)
    statuses = node_statuses(at)
    assert [(one.node, one.state, one.is_well) for one in statuses] == [
        (node, "up", True) for node in "abc"
    ]
    assert statuses[2].is_known_everywhere is True
    flows = link_flows(at)
    assert {(one.source, one.target): one.wanted for one in flows} == {
        ("a", "b"): 1,
        ("b", "a"): 0,
        ("b", "c"): 1,
        ("c", "b"): 0,
    }
    assert {(one.state, one.backlog_frames, one.backlog_messages) for one in flows} == {
        ("up", 0, 0)
    }
    assert failed(mesh) == {}


def test_a_dead_node_is_down_and_its_messages_wait(mesh: Mesh) -> None:
    mesh.subscribe("c", "e", "acme/>")
    mesh.world.kill("c")
    mesh.publish("a", "acme/x")
    mesh.publish("a", "acme/y")
    mesh.pause(12.0)
    at = examination(mesh)
    statuses = {one.node: one for one in node_statuses(at)}
    assert (statuses["c"].state, statuses["b"].links["c"]) == ("down", "down")
    assert statuses["b"].is_well is False
    flows = link_flows(at)
    [waiting] = [one for one in flows if (one.source, one.target) == ("b", "c")]
    assert (waiting.state, waiting.backlog_messages) == ("unknown", 2)
    faults = failed(mesh)
    assert faults["node c serves"] == "sends no heartbeats"
    assert faults["link b-c (Z) is up at both ends"] == "b sees it down, c sees it unknown"


def test_nothing_is_read_yet_of_an_outbox_that_was_recreated(mesh: Mesh) -> None:
    """How far its reader had come in the former one says nothing."""
    mesh.subscribe("c", "e", "acme/>")
    for _ in range(6):
        mesh.publish("a", "acme/x")
    mesh.pause(2.0)
    mesh.world.kafka["right"].recreate("mesh.b.to.c.g")
    for _ in range(3):
        mesh.publish("a", "acme/y")
    mesh.pause(2.0)
    at = examination(mesh)
    flows = link_flows(at)
    [waiting] = [one for one in flows if (one.source, one.target) == ("b", "c")]
    assert (waiting.backlog_frames, waiting.backlog_messages) == (3, 3)


def test_kafka_that_is_away_is_told_apart_from_a_dead_node(mesh: Mesh) -> None:
    mesh.pause(3.0)
    mesh.world.kill("a")
    mesh.world.kafka["left"].available = False
    at = examination(mesh)
    assert next(one.state for one in node_statuses(at)) == ("unreachable")
    assert "no broker answers" in failed(mesh)["Kafka cluster left answers and is its own"]


def test_refused_messages_are_a_warning_and_traced_to_their_reason(mesh: Mesh) -> None:
    mesh.world.kafka["left"].writer("x").produce("mesh.a.in.g", b"no subject", None, 1)
    mesh.pause(2.0)
    assert failed(mesh) == {
        "a has refused nothing and put nothing aside": "1 dead letters in mesh.a.dlq: 1 NO_SUBJECT"
    }
    tracer = Tracer(mesh.topology, mesh.world.kafka)
    found = tracer.trace(tracer.find("mesh.a.in.g/1/0"))
    assert found.is_routed
    assert found.letter is not None
    assert found.letter.reason == "NO_SUBJECT"


def test_a_message_is_traced_over_every_hop(mesh: Mesh) -> None:
    mesh.subscribe("c", "e", "acme/>")
    mesh.subscribe("b", "other", "elsewhere/>")
    for number in range(3):
        mesh.publish("a", "acme/x", str(number).encode())
    mesh.pause(2.0)
    [first, *_] = mesh.client("c").deliveries("e").read(1.0)
    tracer = Tracer(mesh.topology, mesh.world.kafka)
    found = tracer.trace(tracer.find(str(first.identity)))
    assert found.ingress.identity == first.identity
    assert found.subject == "acme/x"
    assert [(one.source, one.target) for one in found.frames] == [("a", "b"), ("b", "c")]
    [delivery] = found.deliveries
    assert (delivery.node, delivery.endpoint, delivery.path) == ("c", "e", ("a", "b", "c"))
    by_name = f"{found.ingress.place.topic}/{first.identity.partition}/{first.identity.offset}"
    assert tracer.find(by_name) == found.ingress
    mesh.client("c").unsubscribe("e", "acme/>")
    mesh.pause(2.0)
    assert tracer.trace(found.ingress).deliveries == [delivery]


def test_a_bounded_trace_says_what_it_left_out(mesh: Mesh) -> None:
    mesh.subscribe("b", "e", "acme/>")
    for _ in range(9):
        mesh.publish("a", "acme/x")
    mesh.pause(2.0)
    tracer = Tracer(mesh.topology, mesh.world.kafka, last=1)
    assert tracer.trace(tracer.find("mesh.a.in.g/0/0")).unseen


@pytest.mark.parametrize("text", ["", "x", "mesh.a.in.g/1", "mesh.a.in.g/1/-1", "mesh.z.in.g/0/0"])
def test_wrong_ids_are_refused(mesh: Mesh, text: str) -> None:
    with pytest.raises(ConfigError, match="TOPIC/PARTITION/OFFSET"):
        Tracer(mesh.topology, mesh.world.kafka).find(text)


def test_audit_tables_hold_the_newest_of_each_key(mesh: Mesh) -> None:
    kafka = mesh.world.kafka["left"]
    assert AuditTrail.read_once(mesh.topology, kafka, mesh.now_ms).audited().has_topics is False
    names = ("mesh.audit.findings", "mesh.audit.certificates")
    kafka.admin().create([TopicSpec(name=name, partitions=1) for name in names])
    writer = kafka.writer("auditor")
    for key, value in (
        (b"1", {"kind": "missing"}),
        (b"2", {"kind": "split"}),
        (b"1", None),
    ):
        writer.produce(names[0], None if value is None else json.dumps(value).encode(), key)
    for equal in (False, True):
        writer.produce(names[1], json.dumps({"endpoint": "c/e", "equal": equal}).encode(), b"x")
    found = AuditTrail.read_once(mesh.topology, kafka, mesh.now_ms).audited()
    assert found.findings == [{"kind": "split"}]
    assert found.certificates == [{"endpoint": "c/e", "equal": True}]


def audited(mesh: Mesh, *written: tuple[str, bytes, object]) -> Audited:
    """Return what is read of the auditor after records were written: table, key and value."""
    kafka = mesh.world.kafka["left"]
    tables = ("findings", "certificates", "status")
    kafka.admin().create([TopicSpec(name=f"mesh.audit.{one}", partitions=1) for one in tables])
    writer = kafka.writer("auditor")
    for table, key, value in written:
        data = None if value is None else json.dumps(value).encode()
        writer.produce(f"mesh.audit.{table}", data, key)
    return AuditTrail.read_once(mesh.topology, kafka, mesh.now_ms).audited()


def test_a_finding_that_somebody_removed_is_lacking(mesh: Mesh) -> None:
    """The auditor counts what it has told: a word of a stranger takes none of it back."""
    fault = ("findings", b"1", {"kind": "missing"})
    told = ("status", b"position", {"at_ms": 9_000, "findings": 1})
    gone = ("findings", b"1", None)
    (doubt, _) = audited(mesh, fault, told, gone).doubts(10_000)
    assert doubt == "findings that somebody removed from the auditor's topic: 1"


def test_a_finding_that_the_auditor_took_back_is_not_lacking(mesh: Mesh) -> None:
    fault = ("findings", b"1", {"kind": "missing"})
    told = [("status", b"position", {"at_ms": 9_000, "findings": count}) for count in (1, 0)]
    assert audited(mesh, fault, told[0], ("findings", b"1", None), told[1]).removed == 0


def test_a_status_of_somebody_else_counts_for_nothing(mesh: Mesh) -> None:
    """The oldest key came first: a record under another one stood for the auditor for good."""
    strange = ("status", b"other", {"at_ms": 9_000, "endpoints": ["a/x"]})
    assert list(audited(mesh, strange).doubts(10_000)) == ["no auditor has said anything here"]


def test_endpoints_that_the_status_has_no_room_for_are_beside_it(mesh: Mesh) -> None:
    """Records of former times, with higher numbers, count for nothing."""
    named = (("endpoints 1", "a/y"), ("endpoints 2", "a/z"), ("endpoints 3", "a/old"))
    parts = [("status", key.encode(), {"endpoints": [name]}) for key, name in named]
    status = {"at_ms": 9_000, "endpoints": ["a/x"], "more_endpoints": 2}
    found = audited(mesh, *parts, ("status", b"position", status))
    assert list(found.doubts(10_000)) == ["nothing is certified of a/x, a/y, a/z"]
