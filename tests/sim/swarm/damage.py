"""How logs are damaged on purpose, what operators do about it, and clients that read endpoints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mesh.model.control import Pause, Stop, StopReason
from mesh.model.frames import MessageClass
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicPartition
from mesh.wire.control import decode_stop, encode_pause, encode_stop
from mesh.wire.keys import (
    PauseKey,
    StopKey,
    SubjectPauseKey,
    accept_key,
    parse_control_key,
    pause_key,
    subject_pause_key,
)
from mesh.worker.lanes.owned import Lanes
from tests.sim.swarm.losses import GROUP, LossBook
from tests.sim.swarm.moves import LEVELS
from tests.sim.swarm.plan import Step

if TYPE_CHECKING:
    from tests.sim.swarm.world import SwarmWorld

LOOK_MS = 500
"""How often the operator looks, and clients read."""
NARROW_BYTES = 700
SUBJECTS = (*LEVELS, *(f"{one}/{other}" for one in LEVELS for other in LEVELS))


class Damage:
    """One world in which something is lost on purpose.

    Attributes:
        world: What is damaged.
        book: What is lost, and said of it.
        wishes: Records on `mesh.config` that end in time: node and key.
        narrow: Topics that refuse large records.
        lives: How often partitions of ingresses were cut off.
    """

    def __init__(self, world: SwarmWorld, book: LossBook) -> None:
        self.world = world
        self.book = book
        self.wishes: dict[tuple[str, bytes], None] = {}
        self.narrow: dict[str, None] = {}
        self.lives: Counter[tuple[str, int]] = Counter()
        self._seen_ms: dict[tuple[str, Stop], int] = {}
        self._nudged = 0
        world.after(LOOK_MS, self._look)

    # -- faults ---------------------------------------------------------------------------------

    def begin(self, step: Step) -> None:
        """Let one fault begin."""
        who, more = step.who, step.more
        match step.word:
            case "truncate":
                self._truncate(who, int(str(more["partition"])), int(str(more["records"])))
            case "overtake":
                self._overtake(who, int(str(more["partition"])), float(str(more["share"])))
            case "remake":
                self._remake(who, again=bool(more["again"]))
            case "rest":
                self._wish(who, pause_key(PauseKey(who, str(more["from"]))), step)
            case "hush":
                self._wish(who, subject_pause_key(SubjectPauseKey(who, str(more["filter"]))), step)
            case "narrow":
                self.narrow[who] = None
        self._keep_narrow()

    def _kafka(self, topic: str) -> MemoryKafka | None:
        found = [one for one in self.world.kafka.values() if topic in one.topics]
        return found[0] if found else None

    def _truncate(self, topic: str, number: int, records: int) -> None:
        kafka = self._kafka(topic)
        if kafka is None:
            return
        logs = kafka.topics[topic].logs
        at = TopicPartition(topic, number % len(logs))
        log = logs[at.partition]
        before = log.end
        end = kafka.truncate(at, records)
        if end == before:
            return
        self.world.reached["log cut off"] += 1
        self.world.watch.rewind(topic, at.partition, end)
        if topic in self.world.oracle.ingresses:
            self.lives[topic, at.partition] += 1
            self._vanish(topic, at.partition, kafka.topics[topic].info.topic_id, end)

    def _owner(self, topic: str) -> str:
        return self.world.oracle.ingresses[topic][0]

    def _vanish(self, topic: str, partition: int, topic_id: bytes, end: int) -> None:
        """Note what an ingress lost before its node had read it: nobody can know of that."""
        watch, node = self.world.watch, self.world.oracle.ingresses[topic][0]
        stop = self.book.stops.get((node, topic, partition))
        read = watch.passed.get((node, topic, partition), 0)
        if stop is not None:
            # Of one that was recreated nothing is read before that is accepted.
            read = 0 if stop.reason == StopReason.RECREATED else stop.first
        for message in watch.published.values():
            if message.identity[:2] == (topic_id, partition):
                offset = message.identity[2]
                if offset >= max(end, read):
                    self.book.vanished.add(message.payload)

    def _overtake(self, topic: str, number: int, share: float) -> None:
        kafka = self._kafka(topic)
        if kafka is None:
            return
        logs = kafka.topics[topic].logs
        log = logs[number % len(logs)]
        before = log.start + int((log.stable - log.start) * share)
        if before > log.start:
            self.world.reached["records deleted"] += 1
            kafka.delete_before({TopicPartition(topic, log.partition): before})

    def _remake(self, topic: str, *, again: bool) -> None:
        kafka = self._kafka(topic)
        is_waiting = any(
            place[1] == topic and stop.reason == StopReason.RECREATED
            for place, stop in self.book.stops.items()
        )
        if kafka is None or is_waiting or not self.is_known(topic):
            return  # nobody could tell what stood in one that came and went
        self.world.reached["topic recreated" if again else "topic deleted"] += 1
        parts = len(kafka.topics[topic].logs)
        if topic in self.world.oracle.ingresses:
            for partition in range(parts):
                if not self.world.watch.passed.get((self._owner(topic), topic, partition)):
                    # Who never read of a topic cannot tell it from the one that follows.
                    self._vanish(topic, partition, kafka.topics[topic].info.topic_id, 0)
        (kafka.recreate if again else kafka.delete_topic)(topic)
        for partition in range(parts):
            self.world.watch.rewind(topic, partition, 0)

    def is_known(self, topic: str) -> bool:
        """Return whether all who read a topic have noticed which one it is."""
        kafka = self._kafka(topic)
        return kafka is not None and not any(
            at.topic == topic and source.topic_id != kafka.topics[topic].info.topic_id
            for worker in self.world.workers.values()
            if worker.lanes is not None
            for lane in worker.lanes.owned.values()
            for at, source in lane.sources.items()
        )

    def may_publish(self, node: str, topic: str, partition: int) -> bool:
        """Return whether new records would not hide what a log has lost: nobody could tell."""
        kafka = self._kafka(topic)
        if kafka is None or not self.is_known(topic):
            return False
        stop = self.book.stops.get((node, topic, partition))
        end = kafka.topics[topic].logs[partition].end
        if stop is not None:
            if stop.reason == StopReason.TRUNCATED:
                return end >= stop.first
            return stop.reason == StopReason.RECREATED or end >= max(stop.next, 0)
        at = TopicPartition(topic, partition)
        positions = [
            lane.position(at)
            for worker in self.world.workers.values()
            if worker.lanes is not None
            for lane in worker.lanes.owned.values()
            if at in lane.sources
        ]
        return end >= max([self.world.watch.passed.get((node, topic, partition), 0), *positions])

    def _keep_narrow(self) -> None:
        for topic in self.narrow:
            if (kafka := self._kafka(topic)) is not None:
                kafka.topics[topic].message_bytes_max = NARROW_BYTES

    # -- operators ------------------------------------------------------------------------------

    def _write(self, node: str, key: bytes, value: bytes | None) -> None:
        kafka = self.world.kafka[self.world.topology.nodes[node].kafka]
        if kafka.available:
            self.world._clients[kafka.name].produce(self.world.oracle.names.config(), value, key, 0)

    def _wish(self, node: str, key: bytes, step: Step) -> None:
        self.world.reached[f"operator: {step.word}"] += 1
        self._write(node, key, encode_pause(Pause("")))
        self.wishes[node, key] = None
        lasts = int(str(step.more["for"]))
        self.world.after(
            lasts, lambda: None if self.world.mending else self._write(node, key, None)
        )

    def _look(self) -> None:
        """Accept what is lost after a while, and read the endpoints that have limits."""
        self._keep_narrow()
        if self.book.stops:
            for node in self.world.topology.nodes:
                self._consent(node)
        if self.world.mending or self.world.clock.ms // LOOK_MS % 9 == 0:
            self._read_endpoints()
        self.world.after(LOOK_MS, self._look)

    def _consent(self, node: str) -> None:
        name = self.world.oracle.names.control(node)
        kafka = self.world.kafka[self.world.topology.nodes[node].kafka]
        told: dict[StopKey, Stop] = {}
        log = kafka.topics[name].logs[0]
        for record in log.entries[: log.stable - log.start]:
            if record is None or not (record.key() or b"").startswith(b"stop "):
                continue
            key = parse_control_key(record.key() or b"")
            assert isinstance(key, StopKey)
            told.pop(key, None)
            if (value := record.value()) is not None:
                told[key] = decode_stop(value)
        after_ms = LOOK_MS if self.world.mending else self.world.plan.consent_ms
        for stop in told.values():
            since = self._seen_ms.setdefault((node, stop), self.world.clock.ms)
            if self.world.clock.ms - since >= after_ms and stop not in self.book.consents:
                self.book.consents.add(stop)
                key = accept_key(node, stop.topic, stop.partition)
                self._write(node, key, encode_stop(stop))

    def _read_endpoints(self) -> None:
        for kafka in self.world.kafka.values():
            places = {
                TopicPartition(topic, log.partition): log.stable
                for topic, made in kafka.topics.items()
                if ".ep." in topic
                for log in made.logs
            }
            kafka.commit_group(GROUP, places)

    # -- the end ----------------------------------------------------------------------------------

    def mend(self) -> None:
        """End what operators wished; endpoints stay narrow: what they refuse is put aside."""
        for node, key in self.wishes:
            self._write(node, key, None)
        for topic in [one for one in self.narrow if ".ep." not in one]:
            del self.narrow[topic]
            if (kafka := self._kafka(topic)) is not None:
                kafka.topics[topic].message_bytes_max = 1_000_000
        self.world.after(LOOK_MS, self._read_endpoints)

    def nudge(self) -> bool:
        """Publish once more everywhere: a frame that vanished shows when the next one comes.

        Returns:
            Whether this was the first time.
        """
        self._nudged += 1
        if self._nudged > 1:
            return False
        for node, declared in self.world.topology.nodes.items():
            for partition in range(declared.partitions):
                for subject in SUBJECTS:
                    self.world.publish_at(node, partition, subject)
        return True

    def _not_read(self, lanes: Lanes) -> str:
        node = lanes.machine.node
        for topic, readers in self.world.oracle.readers.items():
            is_data = topic in self.world.oracle.outboxes or topic in self.world.oracle.ingresses
            kafka = self._kafka(topic)
            if node not in readers or not is_data or kafka is None:
                continue
            for partition in range(len(kafka.topics[topic].logs)):
                lane = lanes.owned.get(partition % self.world.topology.nodes[node].lanes)
                at = TopicPartition(topic, partition)
                if lane is None:
                    continue
                end = kafka.topics[topic].logs[partition].end
                if at not in lane.sources or lane.position(at) > end:
                    return str(at)
        return ""

    def unfinished(self) -> str:
        """Return what is still stopped or not noticed yet, or nothing."""
        if self.book.stops:
            return f"stopped: {next(iter(self.book.stops.values()))}"
        for topic, (_, of) in self.world.oracle.ingresses.items():
            if of is MessageClass.GUARANTEED and not self.is_known(topic):
                return f"{topic} is another one, and nobody has noticed"
        for topic, (_, _, of) in self.world.oracle.outboxes.items():
            is_there = self._kafka(topic) is not None
            if of is MessageClass.GUARANTEED and is_there and not self.is_known(topic):
                return f"{topic} is another one, and nobody has noticed"
        for name, worker in self.world.workers.items():
            assert worker.lanes is not None
            if left := self._not_read(worker.lanes):
                return f"{name} does not read {left}"
            if worker.lanes.overfull or worker.lanes.sources.gate.waiting:
                return f"{name} has yet to displace or to read what was paused"
        return ""
