"""The topics of endpoints: there before anything is delivered, made with few requests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mesh.errors import TransportDeniedError
from mesh.runtime.topics.upkeep import AT_ONCE
from mesh.transport.memory import MemoryAdmin
from mesh.transport.port import TopicSpec
from tests.component.runtime.conftest import SmallMesh, subject


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """Return what Kafka is asked to make from now on, request by request."""
    requests: list[Sequence[str]] = []
    create = MemoryAdmin.create

    def record(admin: MemoryAdmin, topics: Sequence[TopicSpec]) -> None:
        requests.append([topic.name for topic in topics])
        create(admin, topics)

    monkeypatch.setattr(MemoryAdmin, "create", record)
    return requests


def test_kafka_is_asked_once_for_many_filters(mesh: SmallMesh, asked: list[Sequence[str]]) -> None:
    """A request per filter would keep a node with many from starting. Spec: K13."""
    for number in range(500):
        mesh.subscribe("c", "many", f"x/{number}")
    mesh.run(1_000)
    assert asked == [[mesh.names.endpoint("c", "many")]]
    mesh.publish(b"1", [subject("x/499")])
    mesh.run()
    assert len(mesh.read(mesh.names.endpoint("c", "many"))) == 1


def test_a_request_asks_for_so_many_endpoints_at_most(
    mesh: SmallMesh, asked: list[Sequence[str]]
) -> None:
    """Spec: K13."""
    names = [f"e{number}" for number in range(2 * AT_ONCE + 1)]
    for name in names:
        mesh.subscribe("c", name, "x")
    mesh.run(1_000)
    assert [len(request) for request in asked] == [AT_ONCE, AT_ONCE, 1]
    assert all(mesh.names.endpoint("c", name) in mesh.kafka.topics for name in names)


def test_what_was_deleted_is_made_again_for_who_subscribes_again(mesh: SmallMesh) -> None:
    """Spec: K13."""
    topic = mesh.names.endpoint("c", "s")
    mesh.kafka.delete_topic(topic)
    mesh.subscribe("c", "s", ">")
    mesh.run(1_000)
    assert topic in mesh.kafka.topics


def test_a_topic_that_must_not_be_made_ends_the_worker_with_the_brokers_words(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever starts it again sees why; nothing is delivered meanwhile. Spec: K13."""

    def refuse(_admin: MemoryAdmin, _topics: Sequence[TopicSpec]) -> None:
        raise TransportDeniedError("not authorized")

    monkeypatch.setattr(MemoryAdmin, "create", refuse)
    mesh.subscribe("c", "new", "x")
    with pytest.raises(TransportDeniedError, match="not authorized"):
        mesh.run(1_000)
