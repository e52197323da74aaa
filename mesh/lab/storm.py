"""A storm: random faults under steady load, then everything healed, drained and judged.

The judge is `mesh.lab.checker`; it hears only what clients were told and what endpoints hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.lab.checker.history import History, Publish, SubscriptionSpan, write_history
from mesh.lab.checker.judge import check
from mesh.lab.checker.reach import origins
from mesh.lab.clients import ScenarioSubscription
from mesh.lab.contents import HeldRecords, read_all
from mesh.lab.driver import Driver
from mesh.lab.faults import StepFailedError
from mesh.lab.load import Publisher, SilenceWatch
from mesh.lab.open_transactions import open_transactions
from mesh.lab.queue_accounts import policy_of
from mesh.lab.schedule import moments, storm_schedule
from mesh.lab.steps import Storm
from mesh.model.frames import MessageClass
from mesh.model.queues import QueuePolicy
from mesh.model.topics import TopicNames
from mesh.transport.port import TopicPartition, place_of


def run_storm(driver: Driver, number: int, step: Storm, timeout_s: float) -> Mapping[str, object]:
    """Run a storm and leave the checker's verdict with the driver.

    Args:
        driver: The mesh, with its subscriptions.
        number: Of the step.
        step: Seed, length, load and faults.
        timeout_s: For the settle before it, and for the settle and the drain after it, each.

    Returns:
        What there is to say about the step.

    Raises:
        StepFailedError: It did not settle, heal or drain in time, or something is wrong.
    """
    driver.settle(number, timeout_s)
    driver.backend.guard()
    storm = _Storm(driver, step)
    faults = storm.blow()
    wrong = ""
    try:
        driver.settle(number, timeout_s)
        storm.drain(number, timeout_s)
    except StepFailedError as error:
        wrong = str(error)
    verdict = storm.judge(is_drained=not wrong)
    fallen = driver.backend.guarded()
    if fallen and not wrong:
        wrong = f"a worker ended by itself: {fallen[0]}; see `workers_fallen`"
    driver.verdict = {
        **verdict,
        "faults": dict(sorted(faults.items())),
        "longest_silence_ms": storm.longest_silence_ms,
        "workers_fallen": fallen,
    }
    if wrong or not verdict["ok"]:
        raise StepFailedError(wrong or "the checker found anomalies; see `checker`")
    return {"faults": sum(faults.values()), "delivered": verdict["delivered"]}


@dataclass(slots=True)
class _Storm:
    """One storm: its clients, and what is known before it begins.

    Attributes:
        driver, step: The mesh and what to do.
    """

    driver: Driver
    step: Storm
    _names: TopicNames = field(init=False)
    _began_ms: int = field(init=False)
    _begins: dict[TopicPartition, int] = field(default_factory=dict)
    _publishers: list[Publisher] = field(default_factory=list)
    _watches: list[SilenceWatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._names = self.driver.topology.names
        self._began_ms = self.driver.backend.now_ms()
        for kafka, places in self._ingresses().items():
            self._begins |= self.driver.backend.kafka[kafka].admin().ends(places)
        self._make_clients()

    @property
    def longest_silence_ms(self) -> int:
        """The longest time in which nothing came to an endpoint while the storm blew."""
        return max((watch.longest_ms for watch in self._watches), default=0)

    def _ingresses(self) -> Mapping[str, Sequence[TopicPartition]]:
        """Return the ingress partitions of each Kafka cluster."""
        found: dict[str, list[TopicPartition]] = {}
        for node, declared in self.driver.topology.nodes.items():
            here = found.setdefault(declared.kafka, [])
            for message_class in MessageClass:
                ingress = self._names.ingress(node, message_class)
                here += TopicPartition.all_of(ingress, declared.partitions)
        return found

    def _make_clients(self) -> None:
        step = self.step
        direct, transactional = float(step.direct), float(step.transactions)
        plain = max(0.0, 1.0 - direct - transactional)
        each = step.rate / len(self.driver.topology.nodes)
        for node in self.driver.topology.nodes:
            guaranteed, is_direct = MessageClass.GUARANTEED, MessageClass.DIRECT
            self._publish(f"g-{node}", node, guaranteed, each * plain)
            self._publish(f"d-{node}", node, is_direct, each * direct)
            self._publish(f"t-{node}", node, guaranteed, each * transactional, in_transactions=True)
        for kafka in self.driver.topology.kafka:
            topics = {t: count for t, (at, _, count) in self._endpoints().items() if at == kafka}
            self._watches.append(
                SilenceWatch(self.driver.backend.kafka[kafka], topics, self.driver.backend.now_ms)
            )

    def _publish(
        self,
        name: str,
        node: str,
        message_class: MessageClass,
        rate: float,
        *,
        in_transactions: bool = False,
    ) -> None:
        if rate <= 0:
            return
        declared = self.driver.topology.nodes[node]
        self._publishers.append(
            Publisher(
                name=name,
                node=node,
                topic=self._names.ingress(node, message_class),
                partitions=declared.partitions,
                kafka=self.driver.backend.kafka[declared.kafka],
                rate=rate,
                guaranteed=message_class is MessageClass.GUARANTEED,
                transactional_id=f"lab-storm-{name}" if in_transactions else None,
                now_ms=self.driver.backend.now_ms,
                seed=self.step.seed,
            )
        )

    def _endpoints(self) -> Mapping[str, tuple[str, str, int]]:
        """Return every endpoint topic: its Kafka cluster, its name, its partitions."""
        nodes = self.driver.topology.nodes
        return {
            self._names.endpoint(subscription.node, subscription.endpoint): (
                nodes[subscription.node].kafka,
                subscription.place,
                nodes[subscription.node].partitions,
            )
            for subscription in self._judged()
        }

    def _judged(self) -> Sequence[ScenarioSubscription]:
        """Return the subscriptions that the checker knows how to judge: to get all there is."""
        topology = self.driver.topology
        return [
            subscription
            for subscription in self.driver.clients.subscriptions
            if policy_of(subscription, topology) in (None, QueuePolicy.EVERY)
        ]

    # -- the storm itself -----------------------------------------------------------------

    def blow(self) -> Mapping[str, int]:
        """Run every fault at its moment under load, to the last end; return by kind what began."""
        driver, backend = self.driver, self.driver.backend
        begun: Counter[str] = Counter()
        schedule = storm_schedule(driver.topology, self.step, driver.workers)
        tasks: list[Callable[[], None]] = [one.publish_due for one in self._publishers]
        backend.accompany([*tasks, *(watch.look for watch in self._watches)])
        driver.faults.is_hasty = True
        try:
            for moment in moments(schedule):
                self._wait_until(self._began_ms + moment.at_ms)
                driver.faults.run(moment.step)
                if moment.begins is not None:
                    begun[moment.begins] += 1
            self._wait_until(self._began_ms + int(self.step.seconds * 1000))
        finally:
            driver.faults.is_hasty = False
            backend.part()
            for publisher in self._publishers:
                publisher.close()
            for watch in self._watches:
                watch.close()
        driver.faults.await_brokers()
        return begun

    def _wait_until(self, at_ms: int) -> None:
        backend = self.driver.backend
        while backend.now_ms() < at_ms:
            backend.advance()

    def drain(self, number: int, timeout_s: float) -> None:
        """Wait until everything is delivered, what open transactions hide at first included.

        Raises:
            StepFailedError: It is not, in time.
        """
        driver = self.driver
        ends: Mapping[TopicPartition, int] | None = None
        while ends != driver.tally.ends:
            ends = dict(driver.tally.ends)
            driver.wait(timeout_s, self._hidden)
            driver.drain(number, timeout_s)

    def _hidden(self) -> Sequence[str]:
        """Return what stands behind open transactions, and is seen by nobody yet."""
        places = {kafka: list(parts) for kafka, parts in self._ingresses().items()}
        topology = self.driver.topology
        for node, declared in topology.nodes.items():
            found = places.setdefault(declared.kafka, [])
            for link in topology.links_of(node):
                for message_class in MessageClass if topology.sends(node, link.other(node)) else ():
                    outbox = self._names.outbox(node, link.other(node), message_class)
                    found += TopicPartition.all_of(outbox, declared.partitions)
        for topic, (kafka, _, partitions) in self._endpoints().items():
            places[kafka] += TopicPartition.all_of(topic, partitions)
        return open_transactions(self.driver.backend.kafka, places)

    # -- the verdict ----------------------------------------------------------------------

    def judge(self, *, is_drained: bool) -> Mapping[str, object]:
        """Return what the checker says of what clients were told and endpoints hold."""
        history = History(
            publishes=self._told(),
            subscriptions=self._subscriptions(),
            origins=origins(self.driver.topology),
            held=HeldRecords(
                self.driver.backend.kafka,
                self._endpoints(),
                self._topic_ids(),
                self._begins,
                self.driver.backend.now_ms,
            ),
            drained=is_drained,
        )
        if self.driver.history is not None:
            write_history(self.driver.history, history)
        return check(history).document()

    def _told(self) -> Sequence[Publish]:
        """Return every publish, with its offset where the ingress has it."""
        offsets: dict[tuple[str, str], int] = {}
        for kafka, places in self._ingresses().items():
            cluster = self.driver.backend.kafka[kafka]
            for record in read_all(cluster, places, self.driver.backend.now_ms):
                if record.offset() >= self._begins.get(place_of(record), 0):
                    payload = (record.value() or b"").decode(errors="replace")
                    offsets[record.topic(), payload] = record.offset()
        return [
            replace(one, offset=offsets.get((one.topic, one.payload)))
            for publisher in self._publishers
            for one in publisher.published
        ]

    def _subscriptions(self) -> Sequence[SubscriptionSpan]:
        """Return every subscription: in force for the whole storm, or ended before it."""
        return [
            SubscriptionSpan(
                endpoint=subscription.place,
                filter=subscription.filter_,
                guaranteed=subscription.message_class is MessageClass.GUARANTEED,
                invoked_ms=0,
                effective_ms=self._began_ms,
                ending_ms=None if subscription.ended_at is None else 0,
                ended_ms=None if subscription.ended_at is None else self._began_ms - 1,
            )
            for subscription in self._judged()
        ]

    def _topic_ids(self) -> Mapping[bytes, str]:
        found: dict[bytes, str] = {}
        for kafka, places in self._ingresses().items():
            topics = list({place.topic: None for place in places})
            described = self.driver.backend.kafka[kafka].admin().describe(topics)
            found |= {info.topic_id: name for name, info in described.items()}
        return found
