"""Sends canaries and gets them back, as any client would: a thread for each Kafka cluster.

One that does not answer holds up its own canaries alone, and never the audit.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.errors import MeshError
from mesh.model.control import Subscription
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.following import Follower
from mesh.transport.kafka import RealKafka
from mesh.transport.port import KafkaCluster, Record, TopicPartition, Writer
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from streaming.audits.canaries import CANARY_ENDPOINT, Canaries, CanaryWay, filter_of, ways_of
from streaming.connectors.sink import SinkRecord
from streaming.job.outputs import canary_json

LEASE_S = 60
"""How long a node keeps the subscription of an auditor that has gone, in seconds."""

RENEW_S = 20.0
"""How often the subscriptions are renewed, in seconds."""

PULSE_S = 0.02
"""How often somebody looks whether a canary has come: what is measured is that exact."""

RETRY_S = 5.0
"""A Kafka cluster that failed is left alone for so long, in seconds."""


@dataclass(slots=True)
class Side:
    """The canaries of one Kafka cluster: those sent there, and those that come there.

    Attributes:
        name: Of the Kafka cluster.
        kafka: The way to it.
        canaries: All of them; used under `lock`.
        lock: What the sides share.
        clock: Seconds that only rise.
    """

    name: str
    kafka: KafkaCluster
    canaries: Canaries
    lock: threading.Lock
    clock: Callable[[], float] = time.monotonic
    _renewed_s: float = field(default=-RENEW_S, init=False)
    _known: dict[str, None] = field(default_factory=dict, init=False)
    _writer: Writer | None = field(default=None, init=False)
    _follower: Follower | None = field(default=None, init=False)

    def step(self, topology: Topology) -> None:
        """Ask for what is to come, take what came and send what is due.

        Raises:
            TransportError: Kafka does not answer, or refuses.
        """
        names = TopicNames(topology.prefix)
        if self._writer is None or self._follower is None:
            self._writer = self.kafka.writer(f"canaries-{self.name}")
            self._follower = Follower(
                self.kafka, f"canaries-{self.name}", lambda: int(self.clock() * 1000)
            )
        with self.lock:
            ways = list(self.canaries.ways)
        here = [name for name, node in topology.nodes.items() if node.kafka == self.name]
        targets = {way.target: None for way in ways if way.target in here}
        self._subscribe(topology, names, list(targets), self._writer, self._follower)
        for record in self._follower.glance():
            self._take(record)
        with self.lock:
            due = list(self.canaries.go(here, self.clock()))
            self.canaries.lapse(self.clock())
        for way, number in due:
            told = json.dumps({"run": self.canaries.run, "number": number}).encode()
            headers = [(SUBJECT_HEADER, way.subject.encode())]
            topic = names.ingress(way.source, MessageClass.DIRECT)
            self._writer.produce(topic, told, headers=headers)
        self._writer.failed()  # has the client library do its work; what failed is lost

    def _subscribe(
        self,
        topology: Topology,
        names: TopicNames,
        nodes: Sequence[str],
        writer: Writer,
        follower: Follower,
    ) -> None:
        now_s = self.clock()
        is_due = now_s - self._renewed_s >= RENEW_S
        for node in nodes:
            if node not in self._known:
                topic = names.endpoint(node, CANARY_ENDPOINT)
                partitions = topology.nodes[node].partitions
                follower.add([TopicPartition(topic, number) for number in range(partitions)])
            elif not is_due:
                continue
            self._known[node] = None
            subscription = Subscription(message_class=MessageClass.DIRECT, lease_s=LEASE_S)
            key = subscription_key(CANARY_ENDPOINT, filter_of(node))
            writer.produce(names.clients(node), encode_subscription(subscription), key, 0)
        if is_due:
            self._renewed_s = now_s

    def _take(self, record: Record) -> None:
        now_s = self.clock()
        subject = dict(record.headers() or ()).get(SUBJECT_HEADER) or b""
        way = CanaryWay.of(subject.decode(errors="replace"))
        try:
            told = json.loads(record.value() or b"")
            run, number = str(told["run"]), int(told["number"])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return  # somebody else publishes there
        if way is not None:
            with self.lock:
                self.canaries.come(way, run, number, now_s)

    def close(self) -> None:
        """Give back the clients."""
        if self._follower is not None:
            self._follower.close()
        self._writer = self._follower = None
        self._known.clear()


@dataclass(slots=True)
class Flock:
    """All canaries of an auditor; none fly before a topology wants some.

    Attributes:
        canaries: Who is where.
        kafka: Options of the clients of each Kafka cluster.
        stopping: Set when the auditor ends.
        say: Tells a person.
        topology: By which they go.
        lock: What the sides share.
    """

    canaries: Canaries
    kafka: Mapping[str, Mapping[str, str]]
    stopping: threading.Event
    say: Callable[[str], None]
    topology: Topology | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)
    _is_started: bool = False

    def follow(self, topology: Topology) -> None:
        """Go by another topology, if it is another."""
        if topology is self.topology:
            return
        ways = ways_of(topology) if topology.audit_canary else {}
        with self.lock:
            self.canaries.follow(ways, time.monotonic())
        self.topology = topology
        for name, options in self.kafka.items() if ways and not self._is_started else ():
            kafka = RealKafka(name, options, client_prefix="mesh-audit")
            side = Side(name, kafka, self.canaries, self.lock)
            threading.Thread(target=self._run, args=(side,), name=name, daemon=True).start()
        self._is_started |= bool(ways)

    def outputs(self) -> Sequence[SinkRecord]:
        """Return what is news of them, as records."""
        topology = self.topology
        if topology is None:
            return ()
        topic = TopicNames(topology.prefix).audit("canaries")
        with self.lock:
            changed = self.canaries.take_changed()
            return [
                SinkRecord(topic, str(way), canary_json(way, what, tally, int(time.time() * 1000)))
                for way, what, tally in changed
            ]

    def _run(self, side: Side) -> None:
        """Send and fetch at one Kafka cluster until the auditor ends; log an outage once."""
        silent = False
        while not self.stopping.wait(PULSE_S):
            try:
                if self.topology is not None:
                    side.step(self.topology)
                silent = False
            except MeshError as error:
                side.close()
                if not silent:
                    self.say(f"canaries at {side.name} wait: {error}")
                silent = True
                self.stopping.wait(RETRY_S)
