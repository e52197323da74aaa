"""Steady load on a mesh from within the cluster, and a verdict on what became of it.

Runs in a pod of the node's image, where the topology and its addresses are those of a context.
Publishes at every node until the file STOP is there, then waits until all of it has arrived and
prints what the checker of storms says, as JSON.   usage: load.py RATE STOP
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mesh.client import connect, load_topology
from mesh.config.context import current_context
from mesh.lab.checker.history import HeldRecord, History, Publish, SubscriptionSpan
from mesh.lab.checker.judge import check
from mesh.lab.checker.reach import origins
from mesh.lab.contents import HeldRecords, read_all
from mesh.lab.load import Publisher, SilenceWatch
from mesh.model.frames import MessageClass
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology, with_addresses
from mesh.transport.port import KafkaCluster, TopicPartition
from mesh.view.connection import open_kafka

ENDPOINT = "load"
TURN_S = 0.02
WARM_S = 3.0
ARRIVES_S = 60.0


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Load:
    """Publishers at all nodes, and an endpoint at each that wants everything of everyone."""

    def __init__(self, rate: float) -> None:
        here = current_context()
        assert here is not None, "no context in this pod"
        self.topology: Topology = with_addresses(load_topology(here.file), here.addresses)
        self.kafka: Mapping[str, KafkaCluster] = open_kafka(self.topology)
        self.names = TopicNames(self.topology.prefix)
        self.places = {
            name: TopicPartition(self.names.ingress(name, MessageClass.GUARANTEED), number)
            for name, node in self.topology.nodes.items()
            for number in range(node.partitions)
        }
        for node in self.topology.nodes:
            with connect(self.topology, node) as client:
                client.wait(client.subscribe(ENDPOINT, "storm/>"))
        self.began_ms = now_ms()
        self.begins = self._ends()
        each = rate / len(self.topology.nodes)
        self.publishers = [
            Publisher(
                name=f"{node}-{self.began_ms}",
                node=node,
                topic=self.names.ingress(node, MessageClass.GUARANTEED),
                partitions=declared.partitions,
                kafka=self.kafka[declared.kafka],
                rate=each,
                guaranteed=True,
                transactional_id=None,
                now_ms=now_ms,
                seed=1,
            )
            for node, declared in self.topology.nodes.items()
        ]
        self.watches = {
            node: SilenceWatch(
                self.kafka[declared.kafka],
                {self.names.endpoint(node, ENDPOINT): declared.partitions},
                now_ms,
            )
            for node, declared in self.topology.nodes.items()
        }

    def _ingresses(self) -> Mapping[str, Sequence[TopicPartition]]:
        found: dict[str, list[TopicPartition]] = {name: [] for name in self.topology.kafka}
        for node, declared in self.topology.nodes.items():
            topic = self.names.ingress(node, MessageClass.GUARANTEED)
            found[declared.kafka] += [TopicPartition(topic, n) for n in range(declared.partitions)]
        return {name: places for name, places in found.items() if places}

    def _ends(self) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for name, places in self._ingresses().items():
            found |= self.kafka[name].admin().ends(places)
        return found

    def run(self, stop: Path) -> None:
        """Publish until told to stop; says `begun` when it has come to run evenly."""
        warm_s: float | None = time.monotonic() + WARM_S
        while not stop.exists():
            for publisher in self.publishers:
                publisher.publish_due()
            for watch in self.watches.values():
                watch.look()
            if warm_s is not None and time.monotonic() > warm_s:
                warm_s = None
                for watch in self.watches.values():
                    watch.longest_ms = 0
                _say("begun")
            time.sleep(TURN_S)
        for publisher in self.publishers:
            publisher.close()
        for watch in self.watches.values():
            watch.close()

    def verdict(self) -> Mapping[str, object]:
        """Wait until all has arrived, and judge."""
        end_s = time.monotonic() + ARRIVES_S
        while True:
            said = check(self._history())
            is_late = time.monotonic() > end_s
            if (
                said.ok
                or is_late
                or any(one.kind not in ("lost", "unseen") for one in said.anomalies)
            ):
                silence = {node: watch.longest_ms / 1000 for node, watch in self.watches.items()}
                return {**said.document(), "silence_s": silence}
            time.sleep(1)

    def _history(self) -> History:
        began = self.began_ms
        return History(
            publishes=self._told(),
            subscriptions=[
                SubscriptionSpan(
                    endpoint=f"{node}/{ENDPOINT}",
                    filter="storm/>",
                    guaranteed=True,
                    invoked_ms=0,
                    effective_ms=began,
                )
                for node in self.topology.nodes
            ],
            origins=origins(self.topology),
            held=list(self._held()),
            drained=True,
        )

    def _told(self) -> Sequence[Publish]:
        offsets: dict[tuple[str, str], int] = {}
        for name, places in self._ingresses().items():
            for record in read_all(self.kafka[name], places, now_ms):
                payload = (record.value() or b"").decode(errors="replace")
                offsets[record.topic(), payload] = record.offset()
        return [
            replace(one, offset=offsets.get((one.topic, one.payload)))
            for publisher in self.publishers
            for one in publisher.published
        ]

    def _held(self) -> Sequence[HeldRecord]:
        ids: dict[bytes, str] = {}
        for name, places in self._ingresses().items():
            topics = list({place.topic: None for place in places})
            described = self.kafka[name].admin().describe(topics)
            ids |= {info.topic_id: topic for topic, info in described.items()}
        endpoints = {
            self.names.endpoint(node, ENDPOINT): (
                declared.kafka,
                f"{node}/{ENDPOINT}",
                declared.partitions,
            )
            for node, declared in self.topology.nodes.items()
        }
        return list(HeldRecords(self.kafka, endpoints, ids, self.begins, now_ms))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    load = Load(float(sys.argv[1]))
    load.run(Path(sys.argv[2]))
    _say(json.dumps(load.verdict()))


main()
