"""The auditor follows a change of the topology on `mesh.config`, and goes on after a restart."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from mesh.config.published import published_text
from mesh.model.control import Change, Identity, Stage, TopicIdentity
from mesh.model.interest_inputs import CHANGE
from mesh.model.state import Cut, Ledger
from mesh.model.topology import Node, Topology, Zone, ZoneKind
from mesh.wire.control import encode_change, encode_config, encode_identity
from mesh.wire.keys import change_key, config_key
from mesh.wire.state import encode_ledger
from streaming.audits.eras import SETTLE_S
from streaming.job import auditor
from streaming.tables.topics import audited_pattern
from tests.streaming.conftest import Bench
from tests.streaming.planted import NEW_YEAR_MS, PARTITIONS, Plant, chain_topology, topic_id
from tests.streaming.test_planted import found

pytestmark = pytest.mark.spark


def with_d() -> Topology:
    """The chain, and a fourth node at its end."""
    chain = chain_topology()
    links = [("a", "b"), ("b", "c"), ("c", "d")]
    return Topology(
        name=chain.name,
        kafka=chain.kafka,
        nodes={**chain.nodes, "d": Node(name="d", kafka="k2", partitions=PARTITIONS)},
        zones={"Z": Zone.of_links("Z", ZoneKind.MULTI_HOP, links)},
        prefix=chain.prefix,
        audit_kafka="k1",
    )


def put_in_force(plant: Plant, number: int, topology: Topology, *stages: Stage) -> None:
    text = published_text(topology)
    for stage in stages:
        plant.put("config", 0, change_key(), encode_change(Change(number, stage, text)))
    plant.put("config", 0, config_key(), encode_config(number, text))


def routed_anew(plant: Plant, node: str, partition: int, position: int) -> None:
    """A lane says from where on it routes by topology 2."""
    name = f"mesh.{node}.in.g"
    cut = Cut(name, topic_id(name), partition, position, CHANGE, 2)
    ledger = Ledger(node=node, lane=0, lane_epoch=1, cuts=[cut])
    plant.put(f"{node}.ledger", 0, b"0", encode_ledger(ledger))


def test_a_restart_counts_nothing_twice_and_new_topics_are_audited_from_offset_0(bench, plant):
    """d wrote and lost a message before the auditor was told that there is a d. Spec: K-12, K28."""
    put_in_force(plant, 1, chain_topology())
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    assert found(bench) == []
    topics = [f"mesh.d.{name}" for name in ("in.g", "to.c.g")]
    assert all(re.fullmatch(audited_pattern("mesh."), topic) for topic in topics)
    identity = Identity(
        node="d",
        uuid="uuid-d",
        epoch=1,
        cluster_id="x",
        lanes=1,
        topics=[TopicIdentity(topic, topic_id(topic), PARTITIONS) for topic in topics],
    )
    plant.put("d.control", 0, b"identity", encode_identity(identity))
    plant.cut("d", "d.in.g", 0, "d", plant.subscribe("d", "s1", "acme/>"))
    plant.publish("d", "acme/x", 3)
    plant.deliver("d/s1", [0, 2], ["d"], origin="d.in.g")
    plant.progress("d", "d.in.g", 0, 3)
    bench.take()
    bench.restart()
    put_in_force(plant, 2, with_d(), Stage.HOLD, Stage.SWITCH, Stage.RUN)
    missing = [("missing", "d/s1", "", 1, 1)]
    assert found(bench) == missing
    published = [one for one in bench.outputs if one.topic == "mesh.audit.findings"]
    bench.restart()
    plant.carry(5, ["c/s1"])
    assert found(bench) == missing
    assert [one for one in bench.outputs if one.topic == "mesh.audit.findings"] == published
    certificate = bench.certificates["mesh.a.in.g/0", "c/s1"]
    assert (certificate.expected, certificate.delivered) == (10, 10)


def test_a_node_that_a_change_takes_off_misses_nothing_that_is_published_after(bench, plant):
    """Up to the cut of the new topology it must get all, and nothing behind it. Spec: K28, K31."""
    put_in_force(plant, 1, chain_topology())
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"], lost=[4])
    zones = {"Z": Zone.of_links("Z", ZoneKind.MULTI_HOP, [("a", "b")])}
    chain = chain_topology()
    nodes = {name: chain.nodes[name] for name in "ab"}
    shorter = Topology(
        name=chain.name,
        kafka=chain.kafka,
        nodes=nodes,
        zones=zones,
        prefix=chain.prefix,
        audit_kafka="k1",
    )
    for partition in range(PARTITIONS):
        routed_anew(plant, "a", partition, 5 if partition == 0 else 0)
    put_in_force(plant, 2, shorter, Stage.SWITCH, Stage.RUN)
    offsets = plant.publish("a", "acme/x", 5)
    plant.progress("a", "a.in.g", 0, offsets[-1] + 1)
    assert found(bench) == [("missing", "c/s1", "", 4, 4)]
    bench.wait(SETTLE_S + 5)
    plant.frame("b->c", offsets, path=["a", "b"], source="a.to.b.g", span=(5, 5))
    assert ("unplanned-path", "b->c", "a>b", 5, 9) in found(bench)


def fully_linked(*nodes: str) -> Topology:
    """One zone of one hop, all on one Kafka cluster."""
    chain = chain_topology()
    return replace(
        chain,
        nodes={one: Node(name=one, kafka="k1", partitions=PARTITIONS) for one in nodes},
        zones={"Z": Zone.of_links("Z", ZoneKind.ONE_HOP, [*itertools.combinations(nodes, 2)])},
    )


def test_a_loss_does_not_wait_for_nodes_that_could_not_have_brought_it(
    spark: SparkSession, plant: Plant, tmp_path: Path
) -> None:
    """A change brings d, which is not started yet, and b stands still: neither passes on to c."""
    bench = Bench(spark, plant, tmp_path, fully_linked("a", "b", "c"), home=lambda _: "k1")
    put_in_force(plant, 1, fully_linked("a", "b", "c"))
    version = plant.subscribe("c", "s1", "acme/>")
    for number in range(PARTITIONS):
        plant.cut("a", "a.in.g", 0, "c", version, partition=number)
    assert found(bench) == []
    put_in_force(plant, 2, fully_linked(*"abcd"), Stage.SWITCH, Stage.RUN)
    offsets = plant.publish("a", "acme/x", 5)
    for other in "bcd":
        at = plant.frame(f"a->{other}", offsets, path=["a"], source="a.in.g")
        plant.send("a", f"a.to.{other}.g", 0, "a.in.g", offsets[-1])
    plant.progress("a", "a.in.g", 0, offsets[-1] + 1)
    plant.accept("c", "a.to.c.g", 0, "a.in.g", offsets[-1])
    plant.progress("c", "a.to.c.g", 0, at + 1)
    plant.deliver("c/s1", [0, 1, 3, 4], ["a", "c"])
    assert found(bench) == [("missing", "c/s1", "", 2, 2)]


@pytest.mark.parametrize("is_planned_late", [False, True])
def test_a_wall_clock_that_jumps_changes_no_verdict(bench, plant, monkeypatch, is_planned_late):
    """It is put forward and back by a day between any two looks at it."""
    jumps = itertools.cycle([0, 86_400_000, -86_400_000])
    monkeypatch.setattr(auditor, "wall_ms", lambda: NEW_YEAR_MS + next(jumps))
    put_in_force(plant, 1, chain_topology())
    plant.cuts_everywhere("c", plant.subscribe("c", "s1", "acme/>"))
    plant.carry(5, ["c/s1"])
    plant.frame("b->d", [0], path=["a", "b"], source="a.to.b.g", span=(0, 0))
    bench.take("mesh.config")
    if is_planned_late:
        bench.wait(5)
    zones = {"Z": Zone.of_links("Z", ZoneKind.MULTI_HOP, [("a", "b"), ("b", "c"), ("b", "d")])}
    put_in_force(plant, 2, replace(with_d(), zones=zones), Stage.SWITCH, Stage.RUN)
    assert found(bench) == ([("unplanned-path", "b->d", "a>b", 0, 0)] if is_planned_late else [])
