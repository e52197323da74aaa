"""What a change needs is made while others drain, and given back if the change is aborted."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.model.control import Change, Stage
from mesh.model.topology import Topology
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import BEGINNING, KafkaCluster, Reader, TopicPartition
from mesh.worker.control.topology_changes import TopologyChanges
from mesh.worker.control.topology_start import TopologyStart
from mesh.worker.process.errands import SteppedErrands
from mesh.worker.process.intake import PolledIntake
from tests.component.admin_faults import AdminFaults
from tests.said import Said

MARK = TopicPartition("mark", 0)
"""Assigned to every reader that is opened: a closed one reads nothing any more."""


def topology(*links: str) -> Topology:
    nodes = {name: {"kafka": "far" if name == "c" else "home"} for name in "abc"}
    zones = {"Z": {"kind": "multi-hop", "links": [list(link) for link in links]}}
    return topology_from_mapping({"kafka": {"home": {}, "far": {}}, "nodes": nodes, "zones": zones})


@dataclass
class Follower:
    """Node a, that opens other Kafka clusters as they come."""

    opened: list[Reader] = field(default_factory=list)
    home: MemoryKafka = field(default_factory=lambda: MemoryKafka("home"))
    changing: TopologyChanges = field(init=False)

    def __post_init__(self) -> None:
        readers = {"home": self.home.reader("mesh-a")}
        self.changing = TopologyChanges(
            "a",
            TopologyStart(topology("ab")),
            {"home": self.home},
            {"home": self.home.admin()},
            dict(readers),
            PolledIntake(dict(readers)),
            SteppedErrands(),
            self.connect,
        )

    def connect(self, _: Topology, name: str) -> tuple[KafkaCluster, Reader]:
        kafka = MemoryKafka(name)
        self.opened.append(kafka.reader("mesh-a"))
        self.opened[-1].assign({MARK: 7})
        return kafka, self.opened[-1]

    def follow(self, number: int, stage: Stage, target: Topology, turns: int = 5) -> list[Stage]:
        """The stages that the node is told of."""
        change = Change(number, stage, published_text(target))
        told = [one for _ in range(turns) for one in self.changing.follow(lambda _: change, 1_000)]
        return [one.stage for one in told]

    @property
    def closed(self) -> list[bool]:
        """Whether each reader of another Kafka cluster was given back."""
        return [reader.position(MARK) == BEGINNING for reader in self.opened]

    @property
    def outboxes(self) -> list[str]:
        return sorted(name for name in self.home.topics if ".to.c." in name)


def test_the_switch_finds_made_what_it_needs() -> None:
    """Spec: K28."""
    node = Follower()
    assert node.follow(2, Stage.HOLD, topology("ab", "ac")) == [Stage.HOLD]
    assert node.outboxes == [f"mesh.a.to.c.{kind}" for kind in "cdgt"]
    assert list(node.changing.readers) == ["home"]
    assert node.follow(2, Stage.SWITCH, topology("ab", "ac"), turns=1) == [Stage.SWITCH]
    assert list(node.changing.readers) == ["home", "far"]
    assert len(node.opened) == 1


def test_what_was_made_for_a_change_that_is_aborted_serves_no_other() -> None:
    """Spec: K28."""
    node = Follower()
    node.follow(2, Stage.HOLD, topology("ab", "ac"))
    assert node.follow(2, Stage.ABORT, topology("ab", "ac")) == [Stage.ABORT]
    assert node.closed == [True]
    node.follow(3, Stage.HOLD, topology("ab", "ac"))
    node.follow(4, Stage.HOLD, topology("ab", "bc"))  # the abort of 3 was written over
    assert node.closed == [True, True]
    assert node.follow(4, Stage.SWITCH, topology("ab", "bc"), turns=1) == [Stage.SWITCH]
    assert list(node.changing.readers) == ["home"]


def test_what_cannot_be_made_is_told_and_tried_again(said: Said) -> None:
    """The node is ready once it could. Spec: K28."""
    node = Follower()
    fault = "create topic: the brokers do not answer"
    node.home.faults = AdminFaults(create=TransportUnavailableError(fault))
    assert node.follow(2, Stage.HOLD, topology("ab", "ac")) == [Stage.HOLD]
    assert {one["fault"] for one in said.of("change.not_prepared")} == {fault}
    assert node.outboxes == []
