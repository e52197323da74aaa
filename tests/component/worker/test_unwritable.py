"""A control topic that takes nothing stops what is told by it, and nothing else.

Spec: DESIGN 4.6, K16, K20, K23, K24.
"""

from __future__ import annotations

import pytest

from mesh.errors import TransportFencedError
from mesh.transport.headers import headers_of
from mesh.transport.memory_faults import Call, MemoryFaults
from mesh.transport.port import TopicPartition
from mesh.wire.keys import identity_key
from tests.component.worker.conftest import SmallMesh, subject
from tests.said import Said

LINK, LOG = "mesh.b.to.a.c", "mesh.b.control.log"


def begun(mesh: SmallMesh, ms: int) -> int:
    """Return how many transactions begin in so long."""
    before = mesh.kafka._transactions_begun
    mesh.run(ms)
    return mesh.kafka._transactions_begun - before


def hears_what_b_wants(mesh: SmallMesh) -> None:
    """What b wants is known to c, and b is heard there."""
    mesh.subscribe("b", "late", "q")
    mesh.run(20_000)
    mesh.write("mesh.c.in.g", b"1", headers=[subject("q")])
    mesh.run(5_000)
    assert [record.value() for record in mesh.read("mesh.b.ep.late")] == [b"1"]


def hears_a_again(mesh: SmallMesh) -> None:
    """All is as if nothing had been: what b says on its link to a comes there."""
    mesh.run(30_000)
    heard = mesh.world.workers["a"]._listener.link_states
    before = heard["b"].beat
    mesh.run(5_000)
    assert heard["b"].beat > before
    mesh.publish(b"2", [subject("q")])
    mesh.run(5_000)
    found = {record.value() for record in mesh.read("mesh.b.ep.late")}
    assert found == {b"1", b"2"}


@pytest.mark.parametrize("topic", [LINK, LOG])
def test_who_leads_touches_nothing_that_has_no_leader(mesh: SmallMesh, topic: str) -> None:
    """A look finds it first, and the node is led under its usual id. Spec: K20."""
    place = TopicPartition(topic, 0)
    mesh.kafka.leaderless.add(place)
    mesh.kafka.changes += 1
    hears_what_b_wants(mesh)
    assert not mesh.kafka.is_prepared(mesh.names.control_transactions("b"))
    mesh.kafka.leaderless.clear()
    mesh.kafka.changes += 1
    hears_a_again(mesh)


class LeaderLost(MemoryFaults):
    """Lets a partition lose its leader inside a transaction that has touched it."""

    def __init__(self, mesh: SmallMesh, topic: str) -> None:
        self.kafka, self.topic = mesh.kafka, topic

    def called(self, call: Call, client: str, what: str) -> None:
        if call is Call.PRODUCE and what == self.topic:
            self.kafka.leaderless.add(TopicPartition(what, 0))
            self.kafka.changes += 1
            self.kafka.faults = None


def test_a_node_is_led_on_while_a_transaction_waits_for_one_of_its_links(
    said: Said, mesh: SmallMesh
) -> None:
    """Its id is held until the partition has a leader again: the spare one serves. Spec: K16.

    A worker that has slept since it led under the spare id cannot write any more once another one
    leads under the usual id.
    """
    mesh.kafka.faults = LeaderLost(mesh, LINK)
    hears_what_b_wants(mesh)
    held = mesh.names.control_transactions("b")
    assert mesh.kafka.is_prepared(held)
    assert by_spare(mesh)
    [told, *_] = said.of("control.held")
    assert (told["log_level"], told["text"]) == ("warning", "the node is led under its spare id")
    assert held in told["fault"]
    mesh.write("mesh.b.control", None, key=identity_key())  # by a stranger: it says so once more
    mesh.run()
    assert by_spare(mesh)
    sleeper = mesh.kafka._writers[mesh.names.spare_transactions("b")]
    mesh.kafka.leaderless.clear()
    mesh.kafka.changes += 1
    hears_a_again(mesh)
    assert by_spare(mesh) is (mesh.kafka._writers.get(held) is None)
    for _ in range(2):
        mesh.world.kill("b")
        mesh.world.start("b")
        mesh.run()
        assert not by_spare(mesh)
    with pytest.raises(TransportFencedError):
        sleeper.begin()


def by_spare(mesh: SmallMesh) -> bool:
    """Return whether b is led under its spare id."""
    told = [one for one in mesh.read("mesh.b.control") if one.key() == identity_key()]
    return bool(headers_of(told[-1]))


@pytest.mark.parametrize("topic", [LINK, LOG])
def test_a_topic_that_is_deleted_and_refused_costs_what_it_is_for(
    mesh: SmallMesh, topic: str
) -> None:
    mesh.kafka.refused[topic] = "no more topics"
    mesh.kafka.delete_topic(topic)
    usual = begun(mesh, 10_000)
    hears_what_b_wants(mesh)
    assert begun(mesh, 30_000) <= 3.3 * usual
    mesh.kafka.refused.clear()
    hears_a_again(mesh)
    assert mesh.read(topic)


def test_a_link_whose_control_topic_refuses_keeps_nothing_from_the_others(
    said: Said, mesh: SmallMesh
) -> None:
    """The leader goes on without it: what b wants is known to c, and b is heard there."""
    usual = begun(mesh, 30_000)
    mesh.kafka.denied[LINK] = "no right"
    mesh.run(5_000)
    mesh.subscribe("b", "late", "q")
    mesh.run(20_000)
    mesh.write("mesh.c.in.g", b"1", headers=[subject("q")])
    mesh.run(5_000)
    assert [record.value() for record in mesh.read("mesh.b.ep.late")] == [b"1"]
    assert begun(mesh, 30_000) < 1.2 * usual  # it is tried seldom
    told = said.of("control.left_out")
    assert {(one["log_level"], one["topic"]) for one in told} == {("error", LINK)}
    assert [one["again_in_ms"] for one in told][:3] == [1_000, 2_000, 4_000]
    assert "no right" in told[0]["fault"]


def test_what_was_left_out_is_told_once_its_topic_takes_records(
    said: Said, mesh: SmallMesh
) -> None:
    """What a wants meanwhile is acknowledged then: it knows that b has heard of it. Spec: K24."""
    mesh.kafka.denied[LINK] = "no right"
    mesh.run(5_000)
    mesh.subscribe("a", "early", "q")
    mesh.run(10_000)
    heard = mesh.world.workers["a"]._listener.link_states
    before = heard["b"].beat
    mesh.run(5_000)
    assert heard["b"].beat == before
    del mesh.kafka.denied[LINK]
    mesh.run(30_000)
    assert heard["b"].beat > before
    assert said.of("control.taken_in") == [{"log_level": "warning", "topic": LINK}]
    mesh.write("mesh.c.in.g", b"1", headers=[subject("q")])
    mesh.run(5_000)
    assert [record.value() for record in mesh.read("mesh.a.ep.early")] == [b"1"]


@pytest.mark.parametrize("topic", ["mesh.a.control", "mesh.a.learned"])
def test_a_leader_that_can_write_nothing_rests_between_its_tries(
    said: Said, mesh: SmallMesh, topic: str
) -> None:
    usual = begun(mesh, 30_000)
    mesh.kafka.denied[topic] = "no right"
    mesh.run(5_000)
    mesh.subscribe("a", "early", "q")
    assert begun(mesh, 30_000) < usual + 2 * 30_000 // 500
    if topic == "mesh.a.control":  # the other one is written seldom
        fault = {"log_level": "warning", "fault": f"Kafka cluster k: topic {topic}: no right"}
        assert said.of("control.lost") == [fault]
        assert fault in said.of("node.not_led")
    del mesh.kafka.denied[topic]
    mesh.run(5_000)
    mesh.write("mesh.c.in.g", b"1", headers=[subject("q")])
    mesh.run(5_000)
    assert [record.value() for record in mesh.read("mesh.a.ep.early")] == [b"1"]
