"""The topics of endpoints: there before anything is delivered, made with few requests."""

from __future__ import annotations

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportDeniedError, TransportUnavailableError
from mesh.model.frames import MessageClass
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicSpec
from mesh.worker.topics.provision import set_node_topics
from mesh.worker.topics.targets import AT_ONCE
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said

DENIED = TransportDeniedError("not you")


@pytest.fixture
def asked(mesh: SmallMesh) -> AdminFaults:
    """Return what Kafka is asked from now on, request by request."""
    faults = mesh.kafka.faults = AdminFaults()
    return faults


def test_kafka_is_asked_once_for_many_filters(mesh: SmallMesh, asked: AdminFaults) -> None:
    """A request per filter would keep a node with many from starting. Spec: K13."""
    for number in range(500):
        mesh.subscribe("c", "many", f"x/{number}")
    mesh.run(1_000)
    assert asked.about("create") == [[mesh.names.endpoint("c", "many")]]
    mesh.publish(b"1", [subject("x/499")])
    mesh.run()
    assert len(mesh.read(mesh.names.endpoint("c", "many"))) == 1


def test_a_request_asks_for_so_many_endpoints_at_most(mesh: SmallMesh, asked: AdminFaults) -> None:
    """Spec: K13."""
    names = [f"e{number}" for number in range(2 * AT_ONCE + 1)]
    for name in names:
        mesh.subscribe("c", name, "x")
    mesh.run(1_000)
    assert [len(request) for request in asked.about("create")] == [AT_ONCE, AT_ONCE, 1]
    assert all(mesh.names.endpoint("c", name) in mesh.kafka.topics for name in names)


def test_what_was_deleted_is_recreated_for_who_subscribes_again(mesh: SmallMesh) -> None:
    """Spec: K13."""
    topic = mesh.names.endpoint("c", "s")
    mesh.kafka.delete_topic(topic)
    mesh.subscribe("c", "s", ">")
    mesh.run(1_000)
    assert topic in mesh.kafka.topics


def test_what_was_made_for_direct_messages_deletes_no_guaranteed_ones(mesh: SmallMesh) -> None:
    """Kafka would delete unread ones beyond the limit, and nobody would notice. Spec: K5, K13."""
    topic = mesh.names.endpoint("c", "e")
    mesh.subscribe("c", "e", ">", b'{"class": "direct"}')
    mesh.run(1_000)
    assert mesh.kafka.topics[topic].settings["retention.bytes"] == str(256 << 20)
    mesh.subscribe("c", "e", ">", None)
    mesh.run(1_000)
    mesh.subscribe("c", "e", ">", b'{"class": "guaranteed"}')
    mesh.run(1_000)
    assert mesh.kafka.topics[topic].settings["retention.bytes"] == "-1"
    mesh.subscribe("c", "e", ">", None)
    mesh.run(1_000)
    mesh.subscribe("c", "e", ">", b'{"class": "direct"}')
    mesh.run(1_000)
    assert mesh.kafka.topics[topic].settings["retention.bytes"] == "-1"  # unread ones wait there


def test_a_topic_that_a_client_made_by_reading_it_keeps_what_it_must(mesh: SmallMesh) -> None:
    """As brokers make it where `auto.create.topics.enable` is on. Spec: K5."""
    topic = mesh.names.endpoint("c", "early")
    settings = {"retention.ms": "604800000", "cleanup.policy": "compact"}
    mesh.kafka.admin().create([TopicSpec(name=topic, partitions=4, settings=settings)])
    mesh.subscribe("c", "early", ">")
    mesh.run(1_000)
    found = mesh.kafka.topics[topic].settings
    assert (found["retention.ms"], found["cleanup.policy"]) == ("-1", "delete")
    assert int(found["max.message.bytes"]) == 110_000


@pytest.mark.parametrize("is_known", [True, False], ids=["4.0", "3.5"])
def test_an_endpoint_takes_what_is_ahead_of_its_brokers_clock(
    mesh: SmallMesh, *, is_known: bool
) -> None:
    """A broker that knows no such limit is asked for none. Spec: DESIGN 6."""
    topic, limit = mesh.names.endpoint("c", "early"), "message.timestamp.after.max.ms"
    settings = {limit: "3600000"} if is_known else {}
    mesh.kafka.admin().create([TopicSpec(name=topic, partitions=4, settings=settings)])
    mesh.subscribe("c", "early", ">")
    mesh.run(1_000)
    found = mesh.kafka.topics[topic].settings
    assert found.get(limit) == (str((1 << 63) - 1) if is_known else None)


def test_settings_that_may_not_be_looked_at_are_told(said: Said) -> None:
    """Of data, and of what is compacted: the one may be allowed without the other."""
    kafka = MemoryKafka("k")
    kafka.faults = AdminFaults(settings=DENIED)
    set_node_topics(kafka.admin(), topology_from_mapping(CHAIN), "b")
    assert said.of("topics.not_compared") == [{"log_level": "warning", "fault": "not you"}] * 2


def test_a_topic_that_cannot_be_made_yet_is_asked_for_again(said: Said, mesh: SmallMesh) -> None:
    away = TransportUnavailableError("no broker answers")
    mesh.kafka.faults = AdminFaults(create=away, times=1)
    mesh.subscribe("c", "early", ">")
    mesh.run(8_000)
    assert said.of("endpoints.not_made") == [{"log_level": "warning", "fault": str(away)}]
    assert mesh.names.endpoint("c", "early") in mesh.kafka.topics


def test_settings_that_may_not_be_set_are_told_and_stop_nobody(said: Said, mesh: SmallMesh) -> None:
    mesh.kafka.faults = AdminFaults(change=DENIED)
    topic = mesh.names.endpoint("c", "early")
    mesh.kafka.admin().create([TopicSpec(name=topic, partitions=4)])
    mesh.subscribe("c", "early", ">")
    mesh.run(1_000)
    assert [one["topic"] for one in said.of("endpoint.unsafe")] == [topic]
    mesh.publish(b"1", [subject("x")])
    mesh.run()
    assert len(mesh.read(topic)) == 1


def test_ingresses_and_outboxes_that_somebody_else_made_keep_and_take_all_they_must(
    said: Said, mesh: SmallMesh
) -> None:
    """When a node begins, so when its links come up; where it may not, it says so. Spec: K5, K6."""
    names = [
        mesh.names.outbox("b", "c", MessageClass.GUARANTEED),
        mesh.names.ingress("b", MessageClass.GUARANTEED),
    ]
    admin = mesh.kafka.admin()
    less = {"max.message.bytes": "20000", "retention.bytes": "1000", "retention.ms": "1000"}
    for name in names:
        admin.change(name, less)
    mesh.world.kill("b")
    mesh.kafka.faults = AdminFaults(change=DENIED)
    mesh.world.start("b")
    mesh.run()
    assert [one["topic"] for one in said.of("topic.unsafe")] == sorted(
        names, key=lambda name: ".in." not in name
    )
    mesh.kafka.faults = None
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run()
    for name in names:
        found = admin.settings([name])[name]
        kept = [found[key] for key in ("retention.bytes", "retention.ms")]
        assert (kept, found["max.message.bytes"]) == (["-1", "-1"], "110000")
    mesh.write(names[1], bytes(9_000), headers=[subject("x")])
    mesh.run()
    assert [len(one.value() or b"") for one in mesh.delivered()] == [9_000]


def test_what_is_to_stay_stays_in_a_topic_that_somebody_else_made(mesh: SmallMesh) -> None:
    """Brokers make `clients` for who subscribes before the node's first start. Spec: kafka.md 1."""
    names = [mesh.names.clients("b"), mesh.names.progress("b"), mesh.names.to_control("b", "c")]
    admin = mesh.kafka.admin()
    for name in names:
        admin.change(name, {"cleanup.policy": "delete"})
    mesh.world.kill("b")
    mesh.world.start("b")
    mesh.run()
    assert {admin.settings([name])[name]["cleanup.policy"] for name in names} == {"compact"}
