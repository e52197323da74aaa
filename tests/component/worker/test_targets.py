"""A target that nobody can write stops nothing else: it is left out before anything touches it.

Spec: K20, R12. What a transaction that touches a partition without a leader does to its id is
`test_a_partition_without_leader_holds_an_id`, on the twin, which does there what three real brokers
were seen to do.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mesh.errors import TransportError, TransportUnavailableError, TransportUnknownError
from mesh.model.frames import MessageClass
from mesh.model.inputs import EndpointMade
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_faults import MemoryFaults
from mesh.transport.port import Copies, TopicPartition, TopicSpec
from mesh.wire.state import decode_ledger
from mesh.worker.topics.targets import SPARE_MAX
from tests.component.worker.conftest import CHAIN, SmallMesh, subject
from tests.said import Said

REFUSAL = "Broker: Request parameters do not satisfy the configured policy"


def values(mesh: SmallMesh, topic: str) -> list[bytes | None]:
    return [record.value() for record in mesh.read(topic)]


def status(mesh: SmallMesh, node: str) -> str:
    worker = mesh.world.workers[node]
    assert worker.machine is not None
    return " ".join(one.reason for one in worker.machine.learner.faults.endpoints.values())


def holds(mesh: SmallMesh, node: str) -> set[str]:
    lanes = mesh.world.workers[node].lanes
    return {target for lane in lanes.owned.values() for target in lane.held_targets}


# -- refused topics -------------------------------------------------------------------------------


def test_a_refused_topic_costs_its_endpoint_alone(said: Said, mesh: SmallMesh) -> None:
    """Other subscriptions come into force, messages flow, and the state of the endpoint is told."""
    bad = mesh.names.endpoint("c", "bad")
    mesh.kafka.refused[bad] = REFUSAL
    mesh.subscribe("c", "bad", "x/>")
    mesh.subscribe("c", "good", "x/>")
    mesh.run(4_000)
    mesh.publish(b"1", [subject("x/1")])
    mesh.run(8_000)
    assert values(mesh, mesh.names.endpoint("c", "good")) == [b"1"]
    assert values(mesh, mesh.names.endpoint("c", "s")) == [b"1"]
    assert REFUSAL in status(mesh, "c")
    [told] = said.of("endpoint.refused")
    assert (told["endpoint"], REFUSAL in told["fault"]) == ("bad", True)
    assert mesh.world.troubles == 0
    for _ in range(2):
        mesh.world.kill("c")
        mesh.world.start("c")
        mesh.run(4_000)
        assert mesh.world.workers["c"].is_ready
    mesh.publish(b"2", [subject("x/1")])
    mesh.run(4_000)
    mesh.kafka.refused.clear()
    mesh.run(40_000)
    assert values(mesh, bad) == [b"1", b"2"]
    assert values(mesh, mesh.names.endpoint("c", "good")) == [b"1", b"2"]
    assert not holds(mesh, "c")
    assert status(mesh, "c") == ""


def test_nobody_waits_for_a_refused_direct_endpoint(mesh: SmallMesh) -> None:
    """What it does not get is counted, and the state of the endpoint says why."""
    mesh.kafka.refused[mesh.names.endpoint("c", "bad")] = REFUSAL
    mesh.subscribe("c", "bad", "x/>", b'{"class": "direct"}')
    mesh.run()
    mesh.publish(b"1", [subject("x/1")])
    mesh.run(6_000)
    assert values(mesh, mesh.names.endpoint("c", "s")) == [b"1"]
    assert dropped(mesh, "c") == {"not_writable": 1}
    assert REFUSAL in status(mesh, "c")
    mesh.kafka.refused.clear()
    mesh.run(20_000)
    assert status(mesh, "c") == ""


def test_a_direct_message_for_an_endpoint_that_waits_for_its_topic_is_counted(
    mesh: SmallMesh,
) -> None:
    """What is guaranteed comes when the topic is there; nobody keeps a direct message so long."""
    bad = mesh.names.endpoint("c", "bad")
    mesh.kafka.refused[bad] = REFUSAL
    mesh.subscribe("c", "bad", "x/>")
    mesh.run()
    assert bad in holds(mesh, "c")
    mesh.publish(b"1", [subject("x/1")])
    mesh.write(mesh.names.ingress("a", MessageClass.DIRECT), b"2", headers=[subject("x/1")])
    mesh.run()
    assert sorted(filter(None, values(mesh, mesh.names.endpoint("c", "s")))) == [b"1", b"2"]
    assert dropped(mesh, "c") == {"not_writable": 1}
    mesh.kafka.refused.clear()
    mesh.run(40_000)
    assert values(mesh, bad) == [b"1"]


def test_what_the_open_batch_has_written_is_not_written_again(mesh: SmallMesh) -> None:
    """A target is left out in the midst of a transaction: the catch-up begins behind that."""
    worker = mesh.world.workers["c"]
    endpoint = mesh.names.endpoint("c", "s")
    for index in range(20):
        mesh.publish(b"%d" % index, [subject("x")])
    [lane] = worker.lanes.owned.values()
    mesh.world.run_until(lambda: lane.batch is not None and bool(lane.batch.readings), 10_000)
    worker._service.targets._refused[endpoint] = "for a moment"
    mesh.run(1_000)
    assert holds(mesh, "c") == {endpoint}
    del worker._service.targets._refused[endpoint]
    mesh.run(20_000)
    assert not holds(mesh, "c")
    assert values(mesh, endpoint) == [b"%d" % index for index in range(20)]


def test_a_refusal_that_nobody_waits_for_any_more_is_forgotten(mesh: SmallMesh) -> None:
    bad = mesh.names.endpoint("c", "bad")
    mesh.kafka.refused[bad] = REFUSAL
    mesh.subscribe("c", "bad", "x/>")
    mesh.run()
    mesh.subscribe("c", "bad", "x/>", None)
    mesh.run(15_000)
    assert mesh.world.workers["c"]._service.targets._asked == {}
    assert mesh.world.workers["c"]._service.targets._refused == {}


def dropped(mesh: SmallMesh, node: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in mesh.read(mesh.names.ledger(node)):
        for drop in decode_ledger(record.value()).dropped:
            found[drop.reason] = found.get(drop.reason, 0) + drop.messages
    return found


# -- partitions without a leader ------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["no leader", "1 of 2 copies in sync"])
def test_a_partition_that_takes_nothing_holds_up_neither_lane_nor_takeover(
    mesh: SmallMesh, fault: str
) -> None:
    """The second endpoint gets everything, also from a successor; the first one when it can."""
    slow = mesh.names.endpoint("c", "slow")
    mesh.subscribe("c", "slow", ">")
    mesh.run()
    place = TopicPartition(slow, 0)
    if fault == "no leader":
        mesh.kafka.leaderless.add(place)
    else:
        mesh.kafka.topics[slow].settings["min.insync.replicas"] = "2"
        mesh.kafka.kept[place] = Copies(3, 1)
        mesh.run(61_000)  # how many must be in sync is asked once a minute
    mesh.run(3_000)
    assert slow in holds(mesh, "c")
    for index in range(20):
        mesh.publish(b"%d" % index, [subject("x")])
        mesh.run(200)
        assert slow in holds(mesh, "c") or mesh.world.workers["c"].lanes.owned == {}
        if index == 10:
            mesh.world.kill("c")
            mesh.world.start("c")
    mesh.run(3_000)
    assert values(mesh, mesh.names.endpoint("c", "s")) == [b"%d" % index for index in range(20)]
    mesh.run(6_000)
    assert fault in status(mesh, "c")
    mesh.kafka.leaderless.clear()
    mesh.kafka.kept.clear()
    mesh.run(20_000)
    assert values(mesh, slow) == [b"%d" % index for index in range(20)]
    assert not holds(mesh, "c")


def test_a_link_whose_outbox_has_no_leader_waits_alone(mesh: SmallMesh) -> None:
    mesh.subscribe("a", "here", ">")
    mesh.run()
    outbox = mesh.names.outbox("a", "b", MessageClass.GUARANTEED)
    mesh.kafka.leaderless.add(TopicPartition(outbox, 0))
    mesh.run(3_000)
    mesh.publish(b"1", [subject("x")])
    mesh.run(3_000)
    assert values(mesh, mesh.names.endpoint("a", "here")) == [b"1"]
    assert mesh.delivered() == []
    mesh.kafka.leaderless.clear()
    mesh.run(20_000)
    assert [record.value() for record in mesh.delivered()] == [b"1"]


def test_direct_copies_for_it_are_discarded_and_counted(mesh: SmallMesh) -> None:
    """They make nobody wait, and the state of the endpoint says why. Spec: D2, D3."""
    mesh.subscribe("c", "live", ">", b'{"class": "direct"}')
    mesh.run()
    live = mesh.names.endpoint("c", "live")
    mesh.kafka.leaderless.add(TopicPartition(live, 0))
    mesh.run(3_000)
    mesh.write(mesh.names.ingress("a", MessageClass.DIRECT), b"1", headers=[subject("x")])
    mesh.run(6_000)
    assert dropped(mesh, "c")["not_writable"] == 1
    assert [record.value() for record in mesh.delivered()] == [b"1"]
    assert "partition 0 has no leader; what comes for it meanwhile is discarded" in status(
        mesh, "c"
    )
    mesh.kafka.leaderless.clear()
    mesh.run(10_000)
    assert status(mesh, "c") == ""


def test_a_partition_without_leader_holds_an_id() -> None:
    """What the look is for: the twin does what three real brokers do."""
    kafka = MemoryKafka("k")
    kafka.admin().create([TopicSpec(name=name, partitions=1) for name in ("good", "gone")])
    writer = kafka.writer("w", "id")
    writer.begin()
    writer.produce("good", b"1", partition=0)
    writer.produce("gone", b"1", partition=0)
    kafka.leaderless.add(TopicPartition("gone", 0))
    writer.commit()
    with pytest.raises(TransportUnknownError):
        writer.begin()
    with pytest.raises(TransportUnavailableError, match="without a leader"):
        kafka.writer("w", "id")
    kafka.leaderless.clear()
    kafka.writer("w", "id").begin()


# -- what waiting costs ---------------------------------------------------------------------------


class Costs(MemoryFaults):
    """Adds up how long the calls of one turn would wait."""

    def __init__(self) -> None:
        self.waited_ms = 0

    def costs(self, what: str, ms: int) -> None:
        self.waited_ms += ms


def test_calls_of_the_twin_cost_what_real_ones_wait() -> None:
    kafka, costs = MemoryKafka("k"), Costs()
    kafka.faults = costs
    kafka.available = False
    with pytest.raises(TransportError):
        kafka.admin().ends([])
    assert costs.waited_ms == 500
    with pytest.raises(TransportError):
        kafka.writer("w", "id")
    assert costs.waited_ms == 15_500


def test_an_endpoint_that_becomes_guaranteed_while_its_topic_is_made_has_one_that_keeps_all(
    mesh: SmallMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What brokers were asked meanwhile says nothing of it: lanes wait for its own answer."""

    class Slow:
        """Answers each question when it is asked for the second time."""

        def __init__(self) -> None:
            self.open: dict[str, Callable[[], object]] = {}

        def is_open(self, what: str) -> bool:
            return what in self.open

        def answer(self, key: tuple[str, ...], ask: Callable[[], object]) -> object:
            if key[0] in self.open:
                return self.open.pop(key[0])()
            self.open[key[0]] = ask
            return None

    service, topic = mesh.world.workers["c"]._service, mesh.names.endpoint("c", "late")
    assert service is not None
    targets = service.targets
    monkeypatch.setattr(targets, "questions", Slow())
    targets.ensure("late", MessageClass.DIRECT, 0)
    assert not [*targets.see_to(0)]
    targets.ensure("late", MessageClass.GUARANTEED, 0)
    assert not [*targets.see_to(0)]
    assert mesh.kafka.admin().settings([topic])[topic]["retention.bytes"] != "-1"
    assert not [*targets.see_to(0)]
    assert [*targets.see_to(0)] == [EndpointMade("late")]
    assert mesh.kafka.admin().settings([topic])[topic]["retention.bytes"] == "-1"


def test_names_of_endpoints_that_are_gone_are_not_remembered(mesh: SmallMesh) -> None:
    """Ten thousand endpoints a day, each of its own name, leave nothing in a worker."""
    for number in range(120):
        mesh.subscribe("c", f"once{number}", "x/>")
        if number:
            mesh.subscribe("c", f"once{number - 1}", "x/>", None)
        mesh.run(300)
    mesh.run(3_000)
    targets = mesh.world.workers["c"]._service.targets
    assert targets is not None
    assert len(targets._known) <= SPARE_MAX + 2 * 3
    assert len(targets._made) <= SPARE_MAX + 2 * 3
    mesh.publish(b"1", [subject("x/1")])
    mesh.run(4_000)
    assert values(mesh, mesh.names.endpoint("c", "once119")) == [b"1"]


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_topic_that_a_reader_made_is_written_once_it_is_wide_enough(lanes: int) -> None:
    """Brokers make what an ordinary consumer asks for, and with few partitions. Spec: K2, K20."""
    mesh = SmallMesh({**CHAIN, "nodes": {"a": {}, "b": {}, "c": {"lanes": lanes}}})
    late = mesh.names.endpoint("c", "late")
    mesh.kafka.admin().create([TopicSpec(name=late, partitions=1)])
    mesh.subscribe("c", "late", ">")
    mesh.run()
    for partition in range(4):
        mesh.publish(b"%d" % partition, [subject("x")], partition=partition)
    mesh.run(20_000)
    assert mesh.world.troubles == 0
    assert sorted(record.value() for record in mesh.delivered()) == [b"0", b"1", b"2", b"3"]
    assert "late cannot be written: it has 1 of 4 partitions" in status(mesh, "c")
    mesh.kafka.grow(late, 4)
    mesh.run(20_000)
    found = {record.value(): record.partition() for record in mesh.read(late)}
    assert found == {b"%d" % number: number for number in range(4)}
    assert len(mesh.read(late)) == 4
    assert status(mesh, "c") == ""
