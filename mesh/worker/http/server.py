"""The worker's port: probes and metrics, served beside the loop and never by it.

`/livez`: the loop makes progress, whatever Kafka does. `/startupz`: the worker has begun.
`/readyz`: the node serves here. `/metrics`: figures of the last second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.process_collector import ProcessCollector

from mesh.transport.probes import PLAIN, Answer, ProbeServer
from mesh.worker.http.figures import Figures, figures_of
from mesh.worker.http.metrics import CertificateMetrics, WorkerMetrics
from mesh.worker.worker import Worker

LIVE_S = 25.0
"""A loop that has not gone round for this long counts as dead. A commit may take ten seconds."""

DEAF_S = 15.0
"""How long the Kafka cluster of a standby worker may stay silent: slow does not mean away."""

FIGURES_S = 1.0
"""How often figures are taken."""

NOT_FOUND = b"/livez /startupz /readyz /metrics\n"


@dataclass(slots=True)
class Port:
    """What the loop reports, and the thread that serves it over HTTP.

    The loop calls `progressed` whenever it goes round and `see` with its worker; everything else
    happens in a thread of its own, on values that nobody changes any more.

    Attributes:
        node: The node that the worker serves.
        now_s: Monotonic clock.
        figures: The newest; None before the worker has begun.
        certificates: Files that may hold certificates, by Kafka cluster.
    """

    node: str
    now_s: Callable[[], float] = time.monotonic
    figures: Figures | None = None
    certificates: Mapping[str, Sequence[Path]] = field(default_factory=dict)
    _progressed_s: float = field(init=False)
    _seen_s: float = field(init=False)
    _loop: int = 0
    _would_hear_s: float = field(init=False)
    _server: ProbeServer = field(init=False)
    _registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        """Register every metric."""
        self._progressed_s = self.now_s()
        self._seen_s = self._progressed_s - FIGURES_S
        self._would_hear_s = self._progressed_s
        self._server = ProbeServer(self.answer)
        latest = lambda: self.figures or Figures()  # noqa: E731
        self._registry.register(WorkerMetrics(self.node, latest, self.idle_s))
        self._registry.register(CertificateMetrics(self.node, lambda: self.certificates))
        ProcessCollector(registry=self._registry)

    def progressed(self) -> None:
        """Note that the loop has gone round."""
        self._loop, self._progressed_s = threading.get_ident(), self.now_s()

    def waited(self) -> None:
        """Note that a wait for brokers has ended, if it was the loop that waited.

        Of all that the loop does, only ending its own transactions takes as long as brokers let it:
        a flush and an abort, each within its deadline, together longer than a live loop may stall.
        """
        if threading.get_ident() == self._loop:
            self._progressed_s = self.now_s()

    def see(self, worker: Worker) -> None:
        """Note that the loop has gone round, and now and then the state of its worker."""
        self.progressed()
        is_news = self.figures is None or self.figures.is_ready != worker.is_ready
        if is_news or self._progressed_s - self._seen_s >= FIGURES_S:
            self._seen_s = self._progressed_s
            figures = figures_of(worker)
            if figures.would_hear:
                self._would_hear_s = self._seen_s
            # A standby without Kafka could take over from nobody.
            is_deaf = self._seen_s - self._would_hear_s > DEAF_S
            self.figures = replace(figures, is_ready=False) if is_deaf else figures

    def forget(self) -> None:
        """Note that there is no worker just now."""
        self.progressed()
        if self.figures is not None:
            self.figures = Figures()

    def idle_s(self) -> float:
        """Return for how many seconds the loop has not gone round."""
        return self.now_s() - self._progressed_s

    def answer(self, path: str) -> Answer:
        """Return the response for a path."""
        figures, idle_s = self.figures, self.idle_s()
        is_live = idle_s < LIVE_S
        match path.partition("?")[0]:
            case "/livez":
                return (*_verdict(is_live, f"the loop went round {idle_s:.1f} s ago"), PLAIN)
            case "/startupz":
                return (*_verdict(is_live and figures is not None, "the worker has begun"), PLAIN)
            case "/readyz":
                is_ready = is_live and figures is not None and figures.is_ready
                return (*_verdict(is_ready, f"node {self.node} serves here"), PLAIN)
            case "/metrics":
                return HTTPStatus.OK, generate_latest(self._registry), CONTENT_TYPE_LATEST
            case _:
                return HTTPStatus.NOT_FOUND, NOT_FOUND, PLAIN

    def start(self, address: str) -> int:
        """Listen; return the port that was taken, which matters if 0 was requested.

        Raises:
            ConfigError: The address has another form.
            StartError: The address is not available.
        """
        return self._server.start(address)

    def stop(self) -> None:
        """Stop listening."""
        self._server.stop()


def _verdict(holds: bool, text: str) -> tuple[HTTPStatus, bytes]:
    if holds:
        return HTTPStatus.OK, f"ok: {text}\n".encode()
    return HTTPStatus.SERVICE_UNAVAILABLE, f"not so: {text}\n".encode()
