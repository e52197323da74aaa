"""What strangers do to a mesh, and brokers that refuse, are away or delete: schedules of `strangers`.

What a stranger wrote is a dead letter of its place, exactly one, and costs nobody anything else.
Spec: DESIGN 6, R12, K5, K20.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mesh.model.record_headers import SUBJECT_HEADER
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicPartition, TopicSpec
from mesh.wire.header import MAGIC
from tests.sim.swarm.losses import RESTING
from tests.sim.swarm.plan import Step
from tests.sim.swarm.published import ViolationError

if TYPE_CHECKING:
    from tests.sim.swarm.published import Message
    from tests.sim.swarm.world import SwarmWorld

FOUND_MS = 3_500
"""So soon after its leader has gone a partition is touched by nobody."""
LOOK_MS = 250
SETTLED_MS = 15_000
"""So long after a fault what it concerned may still be late."""

_Headers = Sequence[tuple[str, bytes]]
SUBJECT = (SUBJECT_HEADER, b"a")
ODD_NAME = b"bad\xff\xfe".decode(errors="surrogateescape")
ODD: Mapping[str, tuple[str, _Headers]] = {
    "a name that is not UTF-8": ("POISON", [SUBJECT, (ODD_NAME, b"1")]),
    "no subject": ("NO_SUBJECT", []),
    "two subjects": ("NO_SUBJECT", [SUBJECT, SUBJECT]),
    "a subject that is not UTF-8": ("INVALID_SUBJECT", [(SUBJECT_HEADER, b"a/\xff")]),
    "a wildcard": ("INVALID_SUBJECT", [(SUBJECT_HEADER, b"a/*")]),
    "a reserved level": ("INVALID_SUBJECT", [(SUBJECT_HEADER, b"$node/x")]),
}
"""What is wrong with records in an ingress -> why they are refused, and their headers."""
STRAY: Mapping[str, tuple[bytes | None, bytes | None]] = {
    "no key": (None, b"junk"),
    "an order": (b"order-17", b"{}"),
    "JSON": (b'{"id":1}', b"{}"),
    "a schema's number": (b"\0\0\0\0\7abc", b"\0\0\0\0\7"),
    "the magic alone": (MAGIC, b""),
    "the magic and noise": (MAGIC + b"\x02\xff\xff\xff\xff\xff\xff", None),
}
"""What is wrong with records in an outbox -> key and value; each is refused as CODEC."""
DELETING = {"cleanup.policy": "delete", "retention.ms": "604800000", "retention.bytes": "1000"}
"""How a stranger makes an endpoint's topic: Kafka deletes there, read or not."""


@dataclass(slots=True)
class Strangers:
    """What strangers and brokers do to one world.

    Attributes:
        strange: Places of records that must become dead letters -> why.
        letters: Of which there are so many by now.
        since: Partitions without a leader, and since when.
        late: Topics that a fault concerns -> until when what is in them may be late.
        touched: Transactional ids that a partition without leader holds, as far as they are judged.
        held_until: Until when lanes may stand still that such a partition held.
    """

    world: SwarmWorld
    strange: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    letters: Counter[tuple[TopicPartition, int]] = field(default_factory=Counter)
    since: dict[TopicPartition, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    touched: dict[str, None] = field(default_factory=dict)
    held_until: int = 0

    def __post_init__(self) -> None:
        """Look now and then."""
        self.world.after(LOOK_MS, self._look)

    # -- faults -----------------------------------------------------------------------------------

    def begin(self, step: Step) -> None:
        """Let one fault begin."""
        who, more, lasts = step.who, step.more, int(str(step.more.get("for", 0)))
        kafka = self._kafka(who)
        match step.word:
            case "odd" if kafka is not None:
                reason, headers = ODD[str(more["what"])]
                self._write(kafka, step, reason, b"key", b"odd", headers)
            case "stray" if kafka is not None:
                self._write(kafka, step, "CODEC", *STRAY[str(more["what"])])
            case "vanish" if kafka is not None:
                self._hide(kafka, who, lasts)
            case "refuse":
                self._refuse(who, lasts)
            case "leaderless" if kafka is not None:
                self._orphan(kafka, TopicPartition(who, int(str(more["partition"]))), lasts)
            case "made" if kafka is None:
                self._make(who)
            case "expire":
                self._expire(self.world.kafka[who])
            case "hide":
                self._hide_groups(self.world.kafka[who], lasts)
            case "apart" if who in self.world.workers:
                self._part(who, str(more["from"]), lasts)
            case _:
                pass

    def _kafka(self, topic: str) -> MemoryKafka | None:
        return next((one for one in self.world.kafka.values() if topic in one.topics), None)

    def _late(self, topic: str, lasts: int) -> None:
        until = self.world.clock.ms + lasts + SETTLED_MS
        self.late[topic] = max(until, self.late.get(topic, 0))

    def _later(self, ms: int, action) -> None:
        self.world.after(ms, lambda: None if self.world.mending else action())

    def _write(
        self,
        kafka: MemoryKafka,
        step: Step,
        reason: str,
        key: bytes | None,
        value: bytes | None,
        headers: _Headers = (),
    ) -> None:
        if not kafka.available:
            return
        logs = kafka.topics[step.who].logs
        log = logs[int(str(step.more["partition"])) % len(logs)]
        at = TopicPartition(step.who, log.partition)
        if at in kafka.leaderless or step.who in kafka.denied:
            return
        self.strange.setdefault(at, {})[log.end] = reason
        self.world.reached[f"stranger wrote {step.more['what']}"] += 1
        writer = self.world._clients[kafka.name]
        writer.produce(step.who, value, key, log.partition, headers=headers)

    def _hide(self, kafka: MemoryKafka, topic: str, lasts: int) -> None:
        """Let nobody read an outbox for a while, then have some of what is not read vanish."""
        readers = {
            (f"mesh-{name}", topic)
            for name in self.world.workers
            if name.partition("/")[0] in self.world.oracle.readers[topic]
        }
        if readers & kafka.blocked:
            return  # its end would let them read what is to vanish
        self._late(topic, lasts)
        kafka.blocked.update(readers)
        begin = {log.partition: log.end for log in kafka.topics[topic].logs}

        def vanish() -> None:
            if not readers <= kafka.blocked:
                return  # they have read on meanwhile, and no broker takes that back
            for log in kafka.topics[topic].logs if topic in kafka.topics else ():
                # The last one stays: behind it nobody would look for what is missing.
                for offset in range(max(begin[log.partition], log.start), log.stable - 1):
                    at = TopicPartition(topic, log.partition)
                    index = offset - log.start
                    if log.entries[index] is None or offset in self.strange.get(at, {}):
                        continue
                    log.entries[index] = None
                    self.world.reached["frame vanished"] += 1
                kafka.touch(log)
            kafka.blocked.difference_update(readers)

        self._later(lasts, vanish)

    def _refuse(self, topic: str, lasts: int) -> None:
        kafka = self.world.kafka[self.world.topology.nodes[_node_of(topic)].kafka]
        if topic in kafka.topics:
            return
        self._late(topic, lasts)
        kafka.refused[topic] = "the policy refuses it"
        self.world.reached["topic refused"] += 1
        self._later(lasts, lambda: kafka.refused.pop(topic, None))

    def _orphan(self, kafka: MemoryKafka, at: TopicPartition, lasts: int) -> None:
        at = TopicPartition(at.topic, at.partition % len(kafka.topics[at.topic].logs))
        self._late(at.topic, lasts)
        kafka.leaderless.add(at)
        self.since[at] = self.world.clock.ms
        what = "control topic of a link" if at.topic.endswith(".c") else "partition"
        self.world.reached[f"{what} without leader"] += 1
        kafka.changes += 1

        def lead() -> None:
            kafka.leaderless.discard(at)
            self.since.pop(at, None)
            kafka.changes += 1

        self._later(lasts, lead)

    def _expire(self, kafka: MemoryKafka) -> None:
        """Have Kafka delete what its topics' own limits let it."""
        for name, topic in list(kafka.topics.items()):
            limit = topic.settings.get("retention.bytes", "-1")
            if ".ep." not in name or limit == "-1" or not self._is_promised(name):
                continue
            self.world.reached["Kafka deleted from an endpoint"] += 1
            kafka.delete_before(
                {TopicPartition(name, log.partition): log.stable for log in topic.logs}
            )

    def _is_promised(self, topic: str) -> bool:
        """Return whether an endpoint is a guaranteed one by now."""
        names = self.world.oracle.names
        return any(
            names.endpoint(wish.node, wish.endpoint) == topic and wish.of.value == "guaranteed"
            for wish in self.world.watch.wishes
            if wish.settled_ms is not None
        )

    def _make(self, topic: str) -> None:
        """Have a client make an endpoint's topic by using it before the node does."""
        node = self.world.topology.nodes[_node_of(topic)]
        kafka = self.world.kafka[node.kafka]
        if not kafka.available or topic in kafka.refused:
            return
        kafka.create_topic(TopicSpec(name=topic, partitions=node.partitions, settings=DELETING))
        self.world.reached["endpoint's topic made by a stranger"] += 1

    def _hide_groups(self, kafka: MemoryKafka, lasts: int) -> None:
        """Have a group that rests at the beginning, and brokers that show not all groups."""
        places = {
            TopicPartition(name, log.partition): log.start
            for name, topic in kafka.topics.items()
            if ".ep." in name
            for log in topic.logs
        }
        kafka.commit_group(RESTING, places)
        kafka.hides_groups = True
        self.world.reached["consumer groups hidden"] += 1
        self._later(lasts, lambda: setattr(kafka, "hides_groups", False))

    def _part(self, name: str, neighbour: str, lasts: int) -> None:
        """Have one worker alone not reach a neighbour: its mate goes on hearing it."""
        worker = self.world.workers[name]
        self.world.reached["one of two workers hears a neighbour"] += 1
        self.world.act(name, lambda: worker.isolate([neighbour]))

        def join() -> None:
            if self.world.workers.get(name) is worker:
                self.world.act(name, lambda: worker.isolate(self.world._cut_of(_node_of(name))))

        self._later(lasts, join)

    # -- what must hold ---------------------------------------------------------------------------

    def is_strange(self, topic: str, partition: int, offset: int) -> bool:
        """Return whether a record is a stranger's."""
        return offset in self.strange.get(TopicPartition(topic, partition), ())

    def letter(self, topic: str, partition: int, offset: int, reason: str) -> bool:
        """Take note of a dead letter; say whether it is of a stranger's record, as it must be."""
        at = TopicPartition(topic, partition)
        expected = self.strange.get(at, {}).get(offset)
        if expected is None:
            return False
        if reason != expected:
            raise ViolationError("dead letter", f"{reason}, not {expected}: {at} {offset}")
        self.letters[at, offset] += 1
        self.world.reached[f"dead letter: {reason}"] += 1
        return True

    def finish(self) -> None:
        """Have every stranger's record that somebody reads be one dead letter.

        Raises:
            ViolationError: It is not.
        """
        for at, strange in self.strange.items():
            for offset, reason in strange.items():
                times = self.letters[at, offset]
                # A successor skips what direct copies may have gone ahead of, and counts it.
                is_skipped = not times and at.topic.endswith(".d")
                if times != 1 and not is_skipped:
                    text = f"{times} dead letters {reason} of {at} {offset}"
                    raise ViolationError("swallowed", text)

    def _look(self) -> None:
        """Have nobody touch a partition of which a look must have told that it has no leader."""
        now = self.world.clock.ms
        for worker in self.world.workers.values():
            if worker.machine is not None and worker.machine.router.table._index.widened:
                self.world.reached["filters of too many shapes"] += 1
        for kafka in self.world.kafka.values():
            for writer, places in kafka._prepared.items():
                held = places & kafka.leaderless
                if not held:
                    self.touched.pop(writer, None)
                    continue
                if writer in self.touched:
                    continue
                self.touched[writer] = None
                at = min(held)
                self.world.reached["leader lost inside a transaction"] += 1
                self.held_until = max(self.held_until, now + SETTLED_MS + 12_000)
                if self.is_calm and now - self.since.get(at, now) > FOUND_MS:
                    text = f"{writer} wrote to {at}, {now - self.since[at]} ms without a leader"
                    raise ViolationError("touched what has no leader", text)
        self.world.after(LOOK_MS, self._look)

    @property
    def is_calm(self) -> bool:
        """Whether nothing but strangers disturbs this schedule, and looks come soon."""
        kinds = {step.word for step in self.world.plan.faults}
        is_alone = kinds <= {*STRANGE, "hide"}
        return is_alone and self.world.plan.slow <= 3 and not self.world.mending

    def is_late(self, message: Message, node: str, endpoint: str) -> bool:
        """Return whether a message may be late at an endpoint: a fault lies on its way."""
        oracle, names, now = self.world.oracle, self.world.oracle.names, self.world.clock.ms
        path = oracle.way_to[message.node, node].nodes if message.node != node else (node,)
        topics = [names.outbox(a, b, message.of) for a, b in itertools.pairwise(path)]
        for a, b in itertools.pairwise(path):  # repairs are asked for there, and found
            topics += [names.to_control(a, b), names.to_control(b, a)]
        if self.held_until > now:
            return True
        return any(self.late.get(one, 0) > now for one in (*topics, names.endpoint(node, endpoint)))

    def mend(self) -> None:
        """End what lasts."""
        for kafka in self.world.kafka.values():
            kafka.leaderless.clear()
            kafka.refused.clear()
            kafka.hides_groups = False
            kafka.changes += 1
        self.since.clear()


STRANGE: Mapping[str, int] = {
    "odd": 3, "stray": 3, "vanish": 3, "refuse": 2, "leaderless": 3, "made": 2, "expire": 1, "apart": 2,
}  # fmt: skip
"""What strangers and brokers do, and how often; besides, seldom and alone, `hide`."""


def _node_of(name: str) -> str:
    """Return the node of a topic (`mesh.n0.ep.e0`) or of a worker (`n0/1`)."""
    return name.split(".")[1] if name.startswith("mesh.") else name.partition("/")[0]
