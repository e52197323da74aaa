"""Real Kafka clusters. The modules of this package are the only ones that talk to Kafka."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

from mesh.errors import TransportDeniedError
from mesh.transport.kafka.admin import cluster_id
from mesh.transport.kafka.asking import DEADLINE_S
from mesh.transport.kafka.consumer import KafkaConsumer
from mesh.transport.kafka.faults import Site
from mesh.transport.kafka.health import Begins, Health, StallDetector
from mesh.transport.kafka.inspection import InspectingAdmin
from mesh.transport.kafka.logs import HIDDEN
from mesh.transport.kafka.member import KafkaMembership
from mesh.transport.kafka.pulse import Pulse
from mesh.transport.kafka.reader import KafkaReader
from mesh.transport.kafka.settings import (
    BATCH_BYTES_MAX,
    Settings,
    admin_settings,
    consumer_settings,
    member_settings,
    reader_settings,
    secrets_in,
    writer_settings,
)
from mesh.transport.kafka.unpacking import IsClosed, PackedBatches, find_end
from mesh.transport.kafka.writer import KafkaWriter
from mesh.transport.port import MEMBER_TIMEOUT_MS, PATIENCE_MS, TopicPartition

__all__ = ["RealKafka", "cluster_id"]

MEMBER_TIMEOUT_FLOOR = "group.min.session.timeout.ms"

_Made = TypeVar("_Made", KafkaReader, KafkaWriter, KafkaMembership, KafkaConsumer)

MEMBER_TIMEOUT_LEAST_MS = 2_000
"""The shortest member timeout requested where brokers allow it: a worker may pause for a moment."""


class RealKafka:
    """One Kafka cluster. Making it does no input or output; its ports connect.

    Args:
        name: Its name in the topology file; used in error texts.
        options: librdkafka options, including `bootstrap.servers`.
        client_prefix: Start of every client id: `mesh-<node>` for a worker.
        batch_bytes_max: Largest batch on the wire: what the mesh's own topics allow, which is
            `maxMessageBytes` and 100 kB. Spec: K6.
        answer_within_s: How long brokers may take to answer a question before they count as away.
        waited: Called whenever a wait for the end of a transaction is over, in the waiting thread:
            it shows watchers that the thread lives.
    """

    def __init__(
        self,
        name: str,
        options: Mapping[str, str],
        *,
        client_prefix: str = "mesh",
        batch_bytes_max: int = BATCH_BYTES_MAX,
        answer_within_s: float = DEADLINE_S,
        waited: Callable[[], None] = lambda: None,
    ) -> None:
        secrets = secrets_in(options)
        HIDDEN.secrets |= dict.fromkeys(secrets)
        self._site = Site(name, options.get("bootstrap.servers", "?"), secrets)
        self._options = dict(options)
        self._prefix = client_prefix
        self._batch_bytes_max = batch_bytes_max
        self._answer_within_s = answer_within_s
        self._waited = waited
        self._lock = threading.Lock()
        self._admin: InspectingAdmin | None = None
        self._health = Health(lambda: self.admin().ask())
        self._made: list[KafkaReader | KafkaWriter | KafkaMembership | KafkaConsumer] = []
        self._pulse = Pulse(self._transactional)

    def reader(
        self,
        name: str,
        *,
        patience_ms: int = PATIENCE_MS,
        gathers: bool = False,
        topics: Collection[str] = (),
    ) -> KafkaReader:
        """Return a new reader; see the port for its patience, and for topics known early."""
        client_id = f"{self._prefix}-{name}"
        settings = reader_settings(self._options, client_id, patience_ms, gathers=gathers)
        asking = (self._stalls(), self._begins(), self._packed(settings))
        return self._keep(KafkaReader(self._site, name, settings, self._health, *asking, topics))

    def _stalls(self) -> StallDetector:
        return StallDetector(lambda places: self.admin().asked_ends(places))

    def _begins(self) -> Begins:
        return Begins(lambda places: self.admin().asked_begins(places))

    def _packed(self, settings: Settings) -> PackedBatches:
        def find(place: TopicPartition, offset: int, is_closed: IsClosed) -> int:
            asked = self.admin().asked_ends([place])[place]
            return find_end(self._site, settings, place, offset, asked, is_closed)

        return PackedBatches(find)

    def writer(
        self,
        name: str,
        transactional_id: str | None = None,
        *,
        tells: bool = False,
        is_prompt: bool = False,
        patience_ms: int | None = None,
    ) -> KafkaWriter:
        """Return a new writer. With an id, predecessors are fenced and their transactions ended.

        One that tells calls back for each record that was written, too: not on the data path.

        Raises:
            TransportUnavailableError: No broker answers, or none took the id in time.
            TransportDeniedError: The brokers refuse the id or this client.
        """
        settings = writer_settings(
            self._options,
            f"{self._prefix}-{name}",
            transactional_id,
            self._batch_bytes_max,
            is_prompt=is_prompt,
            patience_ms=patience_ms,
        )
        if tells:
            settings["delivery.report.only.error"] = False
        writer = self._keep(
            KafkaWriter(self._site, name, settings, transactional_id, self._waited, patience_ms)
        )
        if transactional_id is not None:
            self._pulse.begin()
        return writer

    def _transactional(self) -> Sequence[KafkaWriter]:
        with self._lock:
            writers = [one for one in self._made if isinstance(one, KafkaWriter)]
        return [one for one in writers if one.transactional_id is not None and not one.is_closed]

    def membership(self, name: str, group: str, topic: str) -> KafkaMembership:
        """Join the group that shares out the partitions of `topic`."""
        client_id = f"{self._prefix}-{name}"
        timeout_ms = self._least_member_timeout_ms()  # so long a silent worker keeps its lanes
        settings = member_settings(self._options, client_id, group, timeout_ms)
        return self._keep(KafkaMembership(self._site, name, settings, topic))

    def _least_member_timeout_ms(self) -> int:
        """Return the shortest member timeout that every broker accepts. Spec: K15.

        Raises:
            TransportUnavailableError: No broker answers.
        """
        try:
            brokers = self.admin().broker_settings().values()
        except TransportDeniedError:
            return MEMBER_TIMEOUT_MS  # without that right, use what stock brokers accept
        floor = max((int(one[MEMBER_TIMEOUT_FLOOR]) for one in brokers), default=MEMBER_TIMEOUT_MS)
        return min(MEMBER_TIMEOUT_MS, max(MEMBER_TIMEOUT_LEAST_MS, floor))

    def consumer(self, name: str, group: str, topic: str) -> KafkaConsumer:
        """Join a group of consumers of `topic`; `name` ends the client id that others see."""
        settings = consumer_settings(self._options, f"{self._prefix}-{name}", group)
        asking = (self._stalls(), self._begins(), self._packed(settings))
        agrees = self.admin().agrees_until
        return self._keep(KafkaConsumer(self._site, name, group, settings, topic, *asking, agrees))

    def admin(self) -> InspectingAdmin:
        """Return the one admin of this Kafka cluster."""
        with self._lock:
            if self._admin is None:
                settings = admin_settings(self._options, f"{self._prefix}-admin")
                self._admin = InspectingAdmin(self._site, settings, self._answer_within_s)
            return self._admin

    def _keep(self, made: _Made) -> _Made:
        with self._lock:
            self._made = [one for one in self._made if not one.is_closed]
            self._made.append(made)
        return made

    def close(self) -> None:
        """Release everything that was created here; no thread may be reading any more."""
        with self._lock:
            made, self._made = self._made, []
            self._admin = None
        self._pulse.end()
        for one in made:
            one.close()
