"""Many workers in one process under a virtual clock, with everything that a schedule does to them.

As `mesh.lab.world`, but a node may have several workers, workers die inside their calls, and a
worker with nothing to do sleeps until something changes, as `Intake.read` does.
"""

from __future__ import annotations

import heapq
import itertools
import random
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from mesh.errors import TransportDeniedError, TransportError
from mesh.lab.world import VirtualClock, kafka_of
from mesh.lane.lane import Lane
from mesh.model.control import EndpointKind, Subscription
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topology import Node, Topology
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_faults import CrashNow
from mesh.transport.port import Writer
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from mesh.worker.process.intake import PolledIntake
from mesh.worker.worker import Worker
from tests.sim.late_commits import LateCommits
from tests.sim.swarm.damage import Damage
from tests.sim.swarm.eras import Eras, Everything
from tests.sim.swarm.faults import Beside, SwarmFaults, aside
from tests.sim.swarm.losses import LossBook
from tests.sim.swarm.nemesis import begin
from tests.sim.swarm.operators import Operators
from tests.sim.swarm.outages import Outages
from tests.sim.swarm.plan import Plan, Step
from tests.sim.swarm.seeds import Family
from tests.sim.swarm.strangers import Strangers
from tests.sim.swarm.watch import Message, ViolationError, Watch, Wish

WAIT_MS = 100
"""How long a worker waits for records at most, as in `mesh.worker.main`."""
TURN_MAX_MS = 1_000
"""A turn of a worker waits for brokers for less than this, whoever is away. Spec: DESIGN 4.2."""
RETRY_MS = 1_000
BACK_MS = (30, 200, 800, 2500)
"""How long after a crash a worker is started again."""


class SwarmWorld:
    """One schedule being run.

    Attributes:
        workers: The running workers, by `node/number`.
        reached: Counts rare states.
        turns: Turns taken so far.
        mending: Whether nothing goes wrong any more: the second phase.
        paused: Workers that take no turns, until when.
        cuts: Links that are cut, how many times over.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.oracle = plan.oracle if plan.targets is None else Eras([plan.oracle])
        self.clock = VirtualClock()
        self.reached: Counter[str] = Counter()
        self.turns = 0
        self.mending = False
        self.workers: dict[str, Worker] = {}
        self._heap: list[tuple[int, float, int, str, Callable[[], None] | None]] = []
        self._count = itertools.count()
        self._due: dict[str, int] = {}
        self.paused: dict[str, int] = {}
        self.cuts: Counter[tuple[str, str]] = Counter()
        self._messages = 0
        self.kafka: dict[str, MemoryKafka] = {}
        self._clients: dict[str, Writer] = {}
        self.watch = Watch(self.oracle, self.kafka, self.clock.now_ms, self.reached)
        self.damage: Damage | None = None
        self.operators: Operators | None = None
        self.strangers: Strangers | None = None
        self.outages: Outages | None = None
        self.faults = SwarmFaults(self.reached, self.watch.drain, dirty=self.watch.dirty)
        self._expect(plan)
        for name, kafka in self.kafka.items():
            kafka.admin().create(self.oracle.specs.get(name, ()))
        if isinstance(self.oracle, Eras):
            self.operators = Operators(self, self.oracle)
        if plan.consent_ms:
            self.watch.book = LossBook(self.oracle, self.kafka, self.reached)
            self.damage = Damage(self, self.watch.book)
            self.faults.changed = self.watch.changed
        if plan.seed.family is Family.STRANGERS:
            self.strangers = self.watch.strangers = Strangers(self)
        if plan.seed.family is Family.OUTAGES:
            self.outages = Outages(self)
        for worker in plan.workers:
            self.after(self._random.randrange(30), lambda worker=worker: self.start(worker))

    def follow(self, plan: Plan) -> None:
        """Go on with another schedule on the same mesh."""
        self.reached.clear()
        here = list(self.kafka)
        self._expect(plan)
        if self.operators is not None:
            self.operators.prepare({n: one for n, one in self.kafka.items() if n not in here})

    def _expect(self, plan: Plan) -> None:
        """Have happen what a schedule says, from now on."""
        self.plan = plan
        self._random = random.Random(f"turns {plan.seed}")
        self._slow_random = random.Random(f"slow {plan.seed}")
        self._commit_random = random.Random(f"commits {plan.seed}")
        if isinstance(self.oracle, Eras):
            self.oracle.widen(plan.targets or ())
        for name in self.topology.kafka:
            if name not in self.kafka:
                kafka = self.kafka[name] = MemoryKafka(name, now_ms=self.clock.now_ms)
                self._clients[name] = kafka.writer("client")
                kafka.session_timeout_ms = plan.session_ms
                kafka.faults = self.faults
        for step in plan.moves:
            self.after(step.at, lambda step=step: self._move(step))
        for step in plan.faults:
            self.after(step.at, lambda step=step: begin(self, step))

    @property
    def topology(self) -> Topology | Everything:
        """What there ever is."""
        return self.oracle.topology

    # -- time ---------------------------------------------------------------------------------

    def at(self, ms: int, action: Callable[[], None]) -> None:
        """Have something happen at a moment of virtual time."""
        heapq.heappush(self._heap, (ms, self._random.random(), next(self._count), "", action))

    def after(self, ms: int, action: Callable[[], None]) -> None:
        """Have something happen so many ms from now."""
        self.at(self.clock.ms + ms, action)

    def run(self, until_ms: int) -> None:
        """Advance to a moment of virtual time."""
        while self._heap and self._heap[0][0] <= until_ms:
            at, _, _, name, action = heapq.heappop(self._heap)
            if action is not None:
                self.clock.ms = max(self.clock.ms, at)
                action()
                self._follow()
            elif self._due.get(name) == at and name in self.workers:
                self.clock.ms = max(self.clock.ms, at)
                self._turn(name)
        self.clock.ms = max(self.clock.ms, until_ms)

    def _schedule(self, name: str, wait_ms: int) -> None:
        due = self.clock.ms + wait_ms
        if (until := self.paused.get(name, 0)) > due:
            due = until
        self._due[name] = due
        heapq.heappush(self._heap, (due, self._random.random(), next(self._count), name, None))

    def _turn(self, name: str) -> None:
        self.turns += 1
        worker = self.workers[name]
        had_lanes = None if worker.lanes is None else dict(worker.lanes.owned)
        self.faults.waited_ms = 0
        was_read = self.act(name, lambda: worker.turn(0))
        is_timed = self.strangers is not None or self.outages is not None
        if is_timed and self.faults.waited_ms >= TURN_MAX_MS:
            raise ViolationError("a turn waited", f"{name} for {self.faults.waited_ms} ms")
        if name not in self.workers:
            return
        self._note_lanes(name, worker, had_lanes or {})
        wait_ms = self._random.randint(1, 8)
        if not was_read:
            wait_ms += int(worker.patience(WAIT_MS / 1000) * 1000)
        self._schedule(name, wait_ms)
        self._follow()
        is_beside = worker.background is not None and worker.background.is_waiting
        if worker.lanes is not None and not is_beside:  # what is committed there shows later
            for lane in worker.lanes.owned.values():
                for difference in self.watch.folds.unlike(lane):
                    raise ViolationError("life is not recovery", f"{name}: {difference}")

    def _rest(self) -> int:
        """Draw how many looks late a step of a taking comes."""
        return self._slow_random.randint(0, self.plan.slow) if self.plan.slow else 0

    def _late_commit(self) -> int:
        """Draw how many looks late the outcome of a commit shows: in one schedule of four."""
        is_late = self.plan.seed.number % 4 == 3 and not self.mending
        return self._commit_random.randint(0, self.plan.slow) if is_late else 0

    def _is_early(self) -> bool:
        return self._commit_random.random() < 0.5

    def _commit_awaited(self) -> None:
        self.reached["a commit was waited for"] += 1

    def _follow(self) -> None:
        """Judge what was committed, and wake those who wait for it."""
        self.watch.drain()
        touched = self.watch.touched
        if not touched:
            return
        nodes = {node: None for topic in touched for node in self.oracle.readers.get(topic, ())}
        touched.clear()
        soon = self.clock.ms + 10
        for name in self.workers:
            is_concerned = name.partition("/")[0] in nodes and self._due.get(name, 0) > soon
            if is_concerned and self.paused.get(name, 0) <= self.clock.ms:
                self._schedule(name, self._random.randint(1, 8))

    def act(self, name: str, act: Callable[[], object]) -> object:
        """Act as a worker; if it dies or fails in it, see to that."""
        self.faults.actor = name
        try:
            return act()
        except CrashNow:
            self._note_end(name, "crash")
            self.drop(name)
            self.after(self._random.choice(BACK_MS), lambda: self.start(name))
        except TransportError as error:
            if self.strangers is not None and isinstance(error, TransportDeniedError):
                raise ViolationError("a process ended", f"{name}: {error}") from error
            # What `mesh.worker.main` does: a new worker, a second later.
            self.reached[f"worker starts anew: {type(error).__name__}"] += 1
            worker = self.workers.get(name)
            if worker is not None:
                del self.workers[name]
                self.act(name, worker.abandon)
            self.after(RETRY_MS, lambda: self.start(name))
        except ViolationError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise ViolationError(f"worker raised {kind}", f"{name}: {error}") from error
        finally:
            self.faults.actor = ""
        return None

    # -- workers ------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start a worker, unless it runs."""
        node = name.partition("/")[0]
        if name in self.workers or node not in self.there():
            return
        file = self.plan.oracle.topology
        if self.operators is not None:
            file = self.operators.file_of(node)

        def make() -> None:
            clusters = kafka_of(file, node, self.kafka)
            readers = {kafka: one.reader(f"mesh-{name}") for kafka, one in clusters.items()}
            intake = PolledIntake(readers)
            self.workers[name] = Worker(
                file,
                node,
                clusters,
                readers,
                intake,
                self.clock,
                Beside(self._rest, self.faults),
                lambda: f"u-{node}",
                connect=lambda _, kafka: (
                    self.kafka[kafka],
                    self.kafka[kafka].reader(f"mesh-{name}"),
                ),
                commits=LateCommits(
                    self._late_commit,
                    self._is_early,
                    self._commit_awaited,
                    partial(aside, self.faults),
                ),
            )
            self.workers[name].isolate(self._cut_of(node))

        self.act(name, make)
        if name in self.workers:
            self._schedule(name, self._random.randint(1, 8))

    def there(self) -> Mapping[str, Node]:
        """Return the nodes that are to run."""
        return self.topology.nodes if self.operators is None else self.operators.there()

    def is_read(self, topic: str) -> bool:
        """Return whether somebody is to read a topic to its end."""
        return self.operators is None or self.operators.is_read(topic)

    def drop(self, name: str) -> None:
        """Forget a worker as it is: volatile state goes, durable state stays."""
        self.workers.pop(name, None)
        self.paused.pop(name, None)
        self.faults.armed.pop(name, None)

    def _cut_of(self, node: str) -> list[str]:
        cut = [ends for ends, times in self.cuts.items() if times > 0 and node in ends]
        return sorted({a if b == node else b for a, b in cut})

    def recut(self, *nodes: str) -> None:
        """Tell the workers of these nodes whom they cannot reach now."""
        for name, worker in list(self.workers.items()):
            if (node := name.partition("/")[0]) in nodes:
                self.act(name, lambda worker=worker, node=node: worker.isolate(self._cut_of(node)))

    # -- clients ------------------------------------------------------------------------------

    def _move(self, step: Step) -> None:
        node, more = step.who, step.more
        kafka = self.kafka[self.topology.nodes[node].kafka]
        if not kafka.available:
            self.reached["client found no broker"] += 1
            return
        if self.operators is not None and not self.operators.serves(step):
            self.reached["client found no node"] += 1
            return
        if step.word == "publish":
            self._publish(kafka, node, step)
            return
        key = subscription_key(str(more["endpoint"]), str(more["filter"]))
        topic = self.oracle.names.clients(node)
        log = kafka.topics[topic].logs[0]
        offset, value = log.end, None
        same = [
            wish
            for wish in self.watch.wishes
            if (wish.node, wish.endpoint, wish.filter_) == (node, more["endpoint"], more["filter"])
            and wish.ended is None
        ]
        if step.word == "subscribe":
            of = MessageClass(more["of"])
            value = encode_subscription(Subscription(EndpointKind.CHANNEL, of))
            if not same:
                self.watch.wishes.append(
                    Wish(node, str(more["endpoint"]), str(more["filter"]), of, offset)
                )
        else:
            for wish in same:
                wish.ended = offset
        self._clients[kafka.name].produce(topic, value, key, 0)

    def _publish(self, kafka: MemoryKafka, node: str, step: Step) -> None:
        more = step.more
        of = MessageClass(more["of"])
        topic = self.oracle.names.ingress(node, of)
        made = kafka.topics.get(topic)
        if made is None:
            self.reached["client found no topic"] += 1
            return
        key = str(more["key"]).encode() or None
        subjects = str(more["subject"]).split(",")
        for index in range(int(str(more["count"]))):
            subject = subjects[index % len(subjects)]
            self._messages += 1
            number = self._messages if key is None else zlib.crc32(key)
            partition = number % len(made.logs)
            self._put(node, partition, subject, key, of, int(str(more.get("size", 0))))

    def publish_at(self, node: str, partition: int, subject: str) -> None:
        """Publish one more guaranteed message, on a partition of the ingress."""
        self._messages += 1
        self._put(node, partition, subject, None, MessageClass.GUARANTEED, 0)

    def _put(
        self,
        node: str,
        partition: int,
        subject: str,
        key: bytes | None,
        of: MessageClass,
        size: int,
    ) -> None:
        topic = self.oracle.names.ingress(node, of)
        is_lossy = self.damage is not None and of is MessageClass.GUARANTEED
        if is_lossy and not self.damage.may_publish(node, topic, partition):
            self.reached["message would hide a loss"] += 1
            return
        kafka = self.kafka[self.topology.nodes[node].kafka]
        made = kafka.topics[topic]
        headers = [(SUBJECT_HEADER, subject.encode())]
        payload = (b"m%d" % self._messages).ljust(size, b".")
        identity = (made.info.topic_id, partition, made.logs[partition].end)
        self._clients[kafka.name].produce(topic, payload, key, partition, headers=headers)
        place = (topic, partition)
        life = 0 if self.damage is None else self.damage.lives[place]
        if (former := self.watch.published.get(identity)) is not None:
            self.watch.former[identity].append(former)
        self.watch.published[identity] = Message(
            identity, node, place, subject, payload, key, of, self.clock.ms, life
        )

    # -- rare states ----------------------------------------------------------------------------

    def _note_lanes(self, name: str, worker: Worker, before: Mapping[int, Lane]) -> None:
        after = {} if worker.lanes is None else worker.lanes.owned
        if any(after.get(number) not in (None, lane) for number, lane in before.items()):
            self.reached["lane retaken in one turn"] += 1
        node = name.partition("/")[0]
        for other, mate in self.workers.items():
            if other != name and other.partition("/")[0] == node and mate.lanes is not None:
                self.reached["two workers of a node run"] += 1
                if not after.keys().isdisjoint(mate.lanes.owned):
                    self.reached["two workers hold one lane"] += 1

    def _note_end(self, name: str, how: str) -> None:
        """Note in what state a worker dies."""
        worker = self.workers.get(name)
        if worker is None or worker.lanes is None:
            return
        if worker.machine is not None and worker.machine._round is not None:
            self.reached[f"{how} in a round"] += 1
        for lane in worker.lanes.owned.values():
            if lane.batch is not None:
                self.reached[f"{how} with a batch open"] += 1
            if any(lane.direct.ahead.values()):
                self.reached[f"{how} with direct reserved"] += 1
            if lane.direct.ready:
                self.reached[f"{how} with direct copies not written"] += 1
