"""Publishes the feed at an even rate, as any client would: plain records on ingress topics."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from mesh.errors import MeshError
from mesh.lab.demo.feed import FlightFeed
from mesh.lab.demo.pace import TICK_S, FlightPace
from mesh.local.fleet import Fleet
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.transport.port import KafkaCluster, Writer

_END_S = 1.0


@dataclass(slots=True)
class FlightPublisher:
    """A thread that publishes until its time is over or it is stopped.

    Attributes:
        fleet: The mesh.
        feed: What is published.
        pace: When flights are due, and after how many it ends.
        flights: Flights published so far.
        messages: Messages published so far, of both classes.
        published: Messages so far, by (node, class, subject).
        failed: Messages that Kafka did not take.
        fault: What ended it early, or None.
        cpu_s: CPU seconds of the thread so far.
    """

    fleet: Fleet
    feed: FlightFeed
    pace: FlightPace
    flights: int = 0
    messages: int = 0
    published: Counter[tuple[str, MessageClass, str]] = field(default_factory=Counter)
    failed: int = 0
    fault: MeshError | None = None
    cpu_s: float = 0.0
    _kafka: dict[str, KafkaCluster] = field(default_factory=dict)
    _writers: dict[str, Writer] = field(default_factory=dict)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to publish."""
        self._thread = threading.Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether there is more to come."""
        return self._thread is not None and self._thread.is_alive()

    def counts(self) -> Mapping[tuple[str, MessageClass, str], int]:
        """Return a copy of `published`, safe while the thread runs."""
        return self.published.copy()

    def abandon(self) -> None:
        """Publish nothing more; what is not acknowledged may be lost."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_END_S)

    def _run(self) -> None:
        try:
            self._open()
            self._publish()
            if not self._stop.is_set():
                self.failed = sum(writer.flush() for writer in self._writers.values())
        except MeshError as error:
            self.fault = error
        finally:
            for kafka in self._kafka.values():
                kafka.close()

    def _open(self) -> None:
        for declared in self.fleet.topology.nodes.values():
            if declared.kafka not in self._kafka:
                kafka = self._kafka[declared.kafka] = self.fleet.kafka(declared.kafka, "mesh-demo")
                self._writers[declared.kafka] = kafka.writer("feed")

    def _publish(self) -> None:
        feed = self.feed
        # Bound once: this is called for every message.
        ways = {
            (node, message_class): (
                self._writers[declared.kafka].produce,
                self.fleet.topology.names.ingress(node, message_class),
            )
            for node, declared in self.fleet.topology.nodes.items()
            for message_class in MessageClass
        }
        pace = self.pace
        started_s = time.monotonic()
        while not self._stop.is_set() and (pace.total is None or self.flights < pace.total):
            for _ in range(pace.due(time.monotonic() - started_s, self.flights)):
                for message in feed.messages(self.flights):
                    produce, topic = ways[message.node, message.message_class]
                    headers = [(SUBJECT_HEADER, message.subject.encode())]
                    produce(topic, message.payload, message.key, headers=headers)
                    self.messages += 1
                    self.published[message.node, message.message_class, message.subject] += 1
                self.flights += 1
            self.cpu_s = time.thread_time()
            self._stop.wait(TICK_S)
