"""What the tree layer writes: frames, records for applications, and ends of requests.

One plain idempotent writer, so that records of a topic stay in order. An application's topic is
created for its first record; until then its records wait.
Spec: tree_layer 12; kafka.md 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from mesh.errors import LocalProtocolError, TransportError
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.model.tree_apps import RoutesTold
from mesh.model.trees import Address
from mesh.transport.node_topics import app_topic
from mesh.transport.port import Admin, KafkaCluster, Writer
from mesh.trees.applications.effects import DropLease, Effect, Tell, WriteRole
from mesh.trees.outputs import Transmit
from mesh.wire.tree_apps import encode_request, lease_key, role_key, routes_key, written_by
from mesh.wire.tree_events import encode_event
from mesh.wire.trees import encode_frame
from mesh.worker.process.questions import Questions

RETRY_MS = 1_000
WAITING_MAX = 1_000
"""Records that wait for the topic of an application; beyond that the oldest are dropped."""

WAITING_BYTES_MAX = 64 << 20
"""Size of all that waits this way; an application for which more comes loses its oldest records."""

APPS_AT_ONCE = 200
"""Topics created in one go. After a refusal each is created alone: one name may be the cause."""

TOPICS_MAX = 10_000
"""Topics of applications at a node, gone ones included: made-up names have no end, and whoever may
request roles could have the brokers create any number of topics."""

GONE_MAX = 1_000
"""Gone applications for which something waits: made-up names have no end."""

log = structlog.get_logger()


@dataclass(slots=True)
class TreeWriter:
    """Writes for one incarnation.

    Attributes:
        topology, node: Whose.
        home: The node's own Kafka cluster.
        questions: Create topics beside the loop.
        epoch: Of the incarnation.
        lost: Records that were not written.
        frames: Frames written, by kind.
    """

    topology: Topology
    node: str
    home: KafkaCluster
    questions: Questions
    epoch: int
    lost: int = 0
    frames: Counter[str] = field(default_factory=Counter)
    _writer: Writer = field(init=False)
    _names: TopicNames = field(init=False)
    _admin: Admin = field(init=False)
    _made: dict[str, None] = field(default_factory=dict)
    _waiting: dict[str, list[bytes]] = field(default_factory=dict)
    _waiting_bytes: int = 0
    _tried_ms: int | None = None
    _at_once: int = APPS_AT_ONCE

    def __post_init__(self) -> None:
        """Open the writer."""
        self._writer = self.home.writer("trees", is_prompt=True)
        self._names = TopicNames(self.topology.prefix)
        self._admin = self.home.admin()

    def perform(self, effects: Sequence[Effect]) -> None:
        """Write the effects of a step, in order."""
        for effect in effects:
            match effect:
                case Transmit():
                    self._transmit(effect)
                case Tell(app, told):
                    self._tell(app, encode_event(told, self.epoch))
                case WriteRole(key, request):
                    self._write(role_key(key), encode_request(request))
                case DropLease(app):
                    self._write(lease_key(app), None)

    def tell_routes(self, address: Address, told: RoutesTold | None, epoch: int) -> None:
        """Write what is known of the way to a role; None if nothing is known any more."""
        value = None if told is None else encode_event(told, epoch)
        self._writer.produce(self._names.routes(self.node), value, routes_key(address), 0)

    def _write(self, key: bytes, value: bytes | None) -> None:
        """Write to `roles`, where others write too: the node must recognise its own records."""
        topic = self._names.roles(self.node)
        self._writer.produce(topic, value, key, 0, headers=written_by(self.epoch))

    def _transmit(self, effect: Transmit) -> None:
        try:
            key, value = encode_frame(effect.frame)
        except LocalProtocolError as error:
            # Its number is missing then, so that the neighbour considers the link down.
            log.warning("trees.not_written", link=effect.link, fault=str(error))
            return
        self.frames[key.decode()] += 1
        self._writer.produce(self._names.to_trees(self.node, effect.link), value, key, 0)

    def _tell(self, app: str, value: bytes) -> None:
        if app in self._made:
            self._writer.produce(self._names.app(self.node, app), value, None, 0)
            return
        waiting = self._waiting.setdefault(app, [])
        waiting.append(value)
        self._waiting_bytes += len(value)
        while waiting and (
            len(waiting) > WAITING_MAX or self._waiting_bytes > WAITING_BYTES_MAX
        ):  # fmt: skip
            self._waiting_bytes -= len(waiting.pop(0))
            self.lost += 1

    def see_to(self, now_ms: int) -> None:
        """Create topics of applications that get their first record."""
        is_rest = self._tried_ms is not None and now_ms - self._tried_ms < RETRY_MS
        if not self._waiting or is_rest:
            return
        apps = list(self._waiting)[: self._at_once]
        try:
            answer = self.questions.answer(("trees", "apps"), partial(self._make, apps))
        except TransportError as error:
            self._tried_ms, self._at_once = now_ms, 1
            self._waiting[apps[0]] = self._waiting.pop(apps[0])
            log.warning("trees.no_topic", apps=apps[:5], fault=str(error))
            return
        if answer is None:
            return
        made, refused = answer
        self._at_once = min(APPS_AT_ONCE, 2 * self._at_once)
        for app in made:
            self._made[app] = None
            for value in self._no_longer_waiting(app):
                self._tell(app, value)
        if refused:
            self._tried_ms = now_ms
            for app in refused:
                if app in self._waiting:
                    self._waiting[app] = self._waiting.pop(app)
            text = f"{TOPICS_MAX} applications have topics here; see `mesh role clean`"
            log.warning("trees.no_topic", apps=refused[:5], fault=text)

    def _make(self, apps: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
        """Create topics; return their applications, and those for which there is no room."""
        specs = {app: app_topic(self.topology, self.node, app) for app in apps}
        standing = dict.fromkeys(self._admin.named(self._names.app(self.node, "")))
        fresh = [app for app, spec in specs.items() if spec.name not in standing]
        refused = fresh[max(0, TOPICS_MAX - len(standing)) :]
        made = {app: spec for app, spec in specs.items() if app not in refused}
        self._admin.create(list(made.values()))
        return list(made), refused

    def _no_longer_waiting(self, app: str) -> Sequence[bytes]:
        waited = self._waiting.pop(app, [])
        self._waiting_bytes -= sum(map(len, waited))
        return waited

    def forget(self, apps: Collection[str]) -> None:
        """Keep nothing of applications that are no longer among these.

        Some applications' waiting records are kept: one that slept too long is notified.
        """
        for app in [app for app in self._made if app not in apps]:
            del self._made[app]
        for app in [app for app in self._waiting if app not in apps][:-GONE_MAX]:
            self.lost += len(self._no_longer_waiting(app))

    def count_lost(self) -> int:
        """Return how many records brokers did not take, perhaps because a topic was deleted."""
        if failed := self._writer.failed():
            self.lost += failed
            self._made.clear()  # the next record creates a missing topic
            log.warning("trees.lost", records=failed)
        return failed

    def close(self, patience_s: float) -> None:
        """Write what was requested, as far as time permits, and release everything."""
        if patience_s > 0:
            self._writer.flush(patience_s)
        self._writer.close()
