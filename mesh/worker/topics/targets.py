"""The targets of lanes: endpoints' topics are created, unwritable targets are left out. K20.

A broker may refuse an endpoint's topic: a policy, a right, a quota. Somebody else may have created
it, with fewer partitions than are written. A partition may lack a leader, or the required number of
in-sync copies. So nothing is handed over for a target before a look has found it writable; the
leader's control topics are checked in the same way. All these requests run beside the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

import structlog

from mesh.errors import TransportDeniedError, TransportError
from mesh.lane.unwritable import Unwritable
from mesh.model.effects import Relinked
from mesh.model.frames import MessageClass
from mesh.model.inputs import EndpointMade
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.node_topics import endpoint_topic
from mesh.transport.port import Admin, KafkaCluster, TopicPartition, TopicSpec
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.questions import Questions
from mesh.worker.topics.own_topics import dispensable
from mesh.worker.topics.provision import MAKE_MS, set_to_keep
from mesh.worker.topics.writable import Looked, look

LOOK_MS = 1_000
"""Time between two looks; a slow look is followed by a rest of twenty times its duration."""

RETRY_MS, REFUSED_MS = 1_000, 10_000
"""How soon to request a topic again that could not be created, or was refused."""

FIRST_LOOK_MS = 3_000
"""How long lanes wait for the first look at most: without one they would find out by failing."""

IN_SYNC_MS = 60_000
"""How often to ask how many copies of a partition must be in sync."""

SPARE_MAX = 64
"""How many names of gone endpoints may be remembered, besides twice as many as exist."""

AT_ONCE = 100
"""How many topics one request creates."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Asked:
    """The topic of an endpoint that should exist.

    Attributes:
        message_class: Of the endpoint.
        since_ms: Since when it is requested.
        due_ms: When it is tried next.
    """

    message_class: MessageClass
    since_ms: int
    due_ms: int = 0


@dataclass(slots=True)
class Targets:
    """Looks after the targets of one worker.

    Attributes:
        topology, node: Whose.
        home: The node's own Kafka cluster.
        lanes: The writing lanes; they are notified of what must not be written.
        questions: What waits for brokers.
        has_looked: Whether a look has covered all that is known.
        seen_ms: When the newest answered look began.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    lanes: Lanes
    questions: Questions
    started_ms: int
    _names: TopicNames = field(init=False)
    _asked: dict[str, _Asked] = field(default_factory=dict)
    _making: Mapping[str, MessageClass] = field(default_factory=dict)
    _known: dict[str, None] = field(default_factory=dict)
    _made: dict[str, None] = field(default_factory=dict)
    _refused: dict[str, str] = field(default_factory=dict)
    _seen: Looked = field(default_factory=Looked)
    _missed_ms: int = -REFUSED_MS
    _in_sync_ms: int = -IN_SYNC_MS
    _look_ms: int = 0
    _asked_ms: int = 0
    _asked_for: int = 0
    has_looked: bool = False
    seen_ms: int = -1

    def __post_init__(self) -> None:
        """Build what stays the same."""
        self._names = TopicNames(self.topology.prefix)

    @property
    def unwritable_control(self) -> frozenset[str]:
        """Unwritable control topics, among those that the node can be led without."""
        seen = self._seen
        if not (seen.away or seen.gone):
            return frozenset()
        return seen.unwritable(dispensable(self.topology, self.node))

    def relink(self, relinked: Relinked, now_ms: int) -> None:
        """Switch to the targets of another topology at once."""
        self.topology = relinked.topology
        self._look_ms = now_ms

    def ensure(self, endpoint: str, message_class: MessageClass, now_ms: int) -> None:
        """Make sure that an endpoint's topic exists soon."""
        if endpoint not in self._known:
            # A look that did not request it says nothing about it.
            self._known[endpoint] = None
            self._look_ms, self.has_looked = now_ms, False
        asked = self._asked.setdefault(endpoint, _Asked(message_class, now_ms, now_ms))
        asked.message_class = message_class  # it may be wanted with another class by now

    def may_begin(self, now_ms: int) -> bool:
        """Return whether lanes may write: a look has shown where that is possible."""
        return self.has_looked or now_ms - self.started_ms >= FIRST_LOOK_MS

    def see_to(self, now_ms: int) -> Iterator[EndpointMade]:
        """Do what is due, and have the lanes leave out what is unwritable."""
        yield from self._make(now_ms)
        self._forget()
        self._look(now_ms)
        whole = dict(self._refused)
        for endpoint, asked in self._asked.items():
            if endpoint not in self._made and now_ms - asked.since_ms >= MAKE_MS:
                whole.setdefault(self._topic(endpoint), "it is being made")
        gone = self._seen.gone and sorted(self._seen.gone.intersection(self._outboxes()))
        if gone:
            whole |= dict.fromkeys(gone, "it does not exist")
            if now_ms - self._missed_ms >= REFUSED_MS:
                self._missed_ms = now_ms
                self.lanes.refusals.topics.update(dict.fromkeys(gone))  # they are recreated
        parts = self._parts() if self._seen.away else {}
        self.lanes.hold_unwritable(Unwritable(whole, parts), now_ms)

    def _parts(self) -> Mapping[TopicPartition, str]:
        control = dispensable(self.topology, self.node)
        return {at: why for at, why in self._seen.away.items() if at.topic not in control}

    def _forget(self) -> None:
        """Forget endpoints that nobody wants: their names may never come again."""
        own = self.lanes.machine.learner.clients.wanted.endpoints
        if len(self._known) <= SPARE_MAX + 2 * len(own) or self.questions.is_open("targets"):
            return
        self._known = {name: None for name in self._known if name in own or name in self._asked}
        self._made = {name: None for name in self._made if name in self._known}

    def _topic(self, endpoint: str) -> str:
        return self._names.endpoint(self.node, endpoint)

    # -- making ---------------------------------------------------------------------------

    def _make(self, now_ms: int) -> Iterator[EndpointMade]:
        """Create topics of endpoints that are due, some at a time, beside the loop."""
        due = {name: one for name, one in self._asked.items() if one.due_ms <= now_ms}
        if not due and not self.questions.is_open("make"):
            return
        if not self.questions.is_open("make"):
            some = islice(due.items(), AT_ONCE)
            self._making = {name: one.message_class for name, one in some}
        specs = {
            name: endpoint_topic(self.topology, self.node, name, message_class)
            for name, message_class in self._making.items()
        }
        try:
            told = self.questions.answer(("make",), partial(_make, self.home.admin(), specs))
        except TransportError as error:
            log.warning("endpoints.not_made", fault=str(error))
            for one in due.values():
                one.due_ms = now_ms + RETRY_MS
            return
        for endpoint, refusal in (told or {}).items():
            asked = self._asked.get(endpoint)
            if asked is not None and asked.message_class is not self._making[endpoint]:
                continue  # its class has changed meanwhile, and it is requested again
            if refusal:
                self._refuse(endpoint, refusal, now_ms)
            else:
                self._asked.pop(endpoint, None)
                self._made[endpoint] = None
                self._refused.pop(self._topic(endpoint), None)
            yield EndpointMade(endpoint)

    def _refuse(self, endpoint: str, refusal: str, now_ms: int) -> None:
        topic = self._topic(endpoint)
        if self._refused.get(topic) != refusal:
            log.error("endpoint.refused", endpoint=endpoint, fault=refusal)
        self._refused[topic] = refusal
        self._made.pop(endpoint, None)
        if endpoint in self._asked:
            self._asked[endpoint].due_ms = now_ms + REFUSED_MS
        if endpoint not in self.lanes.machine.learner.clients.wanted.endpoints:
            self._asked.pop(endpoint, None)  # nobody wants it any more
            del self._refused[topic]

    # -- looking --------------------------------------------------------------------------

    def _look(self, now_ms: int) -> None:
        if self.lanes.has_failed and not self.questions.is_open("targets"):
            self.lanes.has_failed, self._look_ms = False, now_ms
        if now_ms < self._look_ms and not self.questions.is_open("targets"):
            return
        if not self.questions.is_open("targets"):
            self._asked_ms, self._asked_for = now_ms, len(self._known)
        is_old = now_ms - self._in_sync_ms >= IN_SYNC_MS
        known = {} if is_old else self._seen.in_sync
        try:
            looked = self.questions.answer(("targets",), self._looking(known))
        except TransportError:
            self._look_ms = now_ms + LOOK_MS
            return  # no answer: nothing is known to be worse than before
        if looked is None:
            return
        self._seen, self.seen_ms = looked, self._asked_ms
        self._in_sync_ms = now_ms if is_old else self._in_sync_ms
        self.has_looked = self._asked_for == len(self._known)
        rest_ms = max(LOOK_MS, 20 * (now_ms - self._asked_ms)) if self.has_looked else 0
        self._look_ms = now_ms + rest_ms

    def _outboxes(self) -> list[str]:
        links = self.lanes.machine.learner.links
        names = [one.neighbour for one in links if self.topology.sends(self.node, one.neighbour)]
        return [self._names.outbox(self.node, name, c) for name in names for c in MessageClass]

    def _looking(self, known: Mapping[str, int]) -> Callable[[], Looked]:
        own = self.lanes.machine.learner.clients.wanted.endpoints
        data = [*map(self._topic, own), *self._outboxes()]
        names = dict.fromkeys(data, self.topology.nodes[self.node].partitions)
        names |= dict.fromkeys(sorted(dispensable(self.topology, self.node)), 1)
        return partial(look, self.home.admin(), names, known)


def _make(admin: Admin, specs: Mapping[str, TopicSpec]) -> Mapping[str, str]:
    """Create endpoints' topics; return for each the reason of a refusal, or an empty text."""
    try:
        _create(admin, list(specs.values()))
    except TransportDeniedError:
        if len(specs) > 1:  # which of them it is shows one by one
            return {name: told for one in specs.items() for name, told in _make_one(admin, *one)}
        return dict(_make_one(admin, *next(iter(specs.items()))))
    return dict.fromkeys(specs, "")


def _create(admin: Admin, specs: Sequence[TopicSpec]) -> None:
    admin.create(specs)
    for topic, fault in set_to_keep(admin, specs).items():
        log.error("endpoint.unsafe", topic=topic, fault=fault, text="`mesh doctor` tells")


def _make_one(admin: Admin, name: str, spec: TopicSpec) -> Sequence[tuple[str, str]]:
    try:
        _create(admin, [spec])
    except TransportDeniedError as error:
        return [(name, str(error))]
    return [(name, "")]
