"""The auditor's port: probes and metrics, served beside it from what it publishes. Spec: DESIGN 7.

`/startupz`: it has looked around once: until then a JVM starts, and state is read. `/livez`: it
looks around, whatever Kafka does. `/readyz`: it has told how far it is. `/metrics`: figures of the
newest status, and what was published since the start.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from mesh.transport.probes import PLAIN, Answer, ProbeServer
from streaming.connectors.sink import SinkRecord
from streaming.job.outputs import STATUS

LIVE_S = 120.0
"""Longest time between two looks around: a batch over millions of records may take a minute."""

STATUS_AGE_MAX_S = 30.0
"""A status older than this says that the auditor is stuck: it is written every few seconds."""


@dataclass(slots=True, eq=False)
class AuditPort(Collector):
    """What the auditor tells, and the thread that passes it on.

    Attributes:
        now_s: Monotonic clock.
    """

    now_s: Callable[[], float] = time.monotonic
    _looked_s: float = field(init=False)
    _has_looked: bool = False
    _told_s: float | None = None
    _status: Mapping[str, Any] = field(default_factory=dict)
    _findings: Counter[str] = field(default_factory=Counter)
    _certificates: Counter[bool] = field(default_factory=Counter)
    _canaries: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _server: ProbeServer = field(init=False)
    _registry: CollectorRegistry = field(default_factory=CollectorRegistry)

    def __post_init__(self) -> None:
        """Be alive from the start."""
        self._looked_s = self.now_s()
        self._server = ProbeServer(self.answer)
        self._registry.register(self)

    def looked(self) -> None:
        """Note that the auditor has looked around."""
        self._looked_s, self._has_looked = self.now_s(), True

    def see(self, outputs: Sequence[SinkRecord]) -> None:
        """Note what was published."""
        for one in outputs:
            table = one.topic.rpartition(".")[2]
            if table == "status" and one.key == STATUS and one.value is not None:
                self._status, self._told_s = json.loads(one.value), self.now_s()
            elif table == "findings" and one.value is not None:
                self._findings[json.loads(one.value)["kind"]] += 1
            elif table == "certificates" and one.value is not None:
                self._certificates[bool(json.loads(one.value)["equal"])] += 1
            elif table == "canaries" and one.value is not None:
                self._canaries[one.key] = json.loads(one.value)

    def answer(self, path: str) -> Answer:
        """Return what is at a path."""
        idle_s = self.now_s() - self._looked_s
        is_live = idle_s < LIVE_S
        match path.partition("?")[0]:
            case "/startupz":
                text = b"looks around\n" if self._has_looked else b"has not looked around yet\n"
                return _verdict(self._has_looked), text, PLAIN
            case "/livez":
                return _verdict(is_live), f"looked around {idle_s:.1f} s ago\n".encode(), PLAIN
            case "/readyz":
                is_fresh = (
                    self._told_s is not None and self.now_s() - self._told_s < STATUS_AGE_MAX_S
                )
                text = b"tells how far it is\n" if is_fresh else b"has not told how far it is\n"
                return _verdict(is_live and is_fresh), text, PLAIN
            case "/metrics":
                return HTTPStatus.OK, generate_latest(self._registry), CONTENT_TYPE_LATEST
            case _:
                return HTTPStatus.NOT_FOUND, b"/livez /startupz /readyz /metrics\n", PLAIN

    def collect(self) -> Iterator[Metric]:
        """Yield every family of metrics."""
        status = self._status
        told_s = self._looked_s if self._told_s is None else self._told_s
        for name, text, value in (
            ("mesh_audit_idle_seconds", "Since it looked around.", self.now_s() - self._looked_s),
            ("mesh_audit_status_age_seconds", "Since the newest status.", self.now_s() - told_s),
            ("mesh_audit_findings", "Findings that stand.", status.get("findings", 0)),
            ("mesh_audit_uncertified", "Ranges that wait.", status.get("uncertified", 0)),
            ("mesh_audit_batch", "Number of the newest batch.", status.get("batch", -1)),
        ):
            yield GaugeMetricFamily(name, text, value=value)
        lagging = GaugeMetricFamily(
            "mesh_audit_lagging", "1 if reading a Kafka cluster lags.", labels=["kafka"]
        )
        unread = GaugeMetricFamily(
            "mesh_audit_unread", "1 if a Kafka cluster cannot be read.", labels=["kafka"]
        )
        for kafka, told in status.get("sources", {}).items():
            lagging.add_metric([kafka], bool(told["lagging"]))
            unread.add_metric([kafka], told["unread"] is not None)
        published = CounterMetricFamily(
            "mesh_audit_findings_published", "Findings, new or changed.", labels=["kind"]
        )
        for kind, count in sorted(dict(self._findings).items()):
            published.add_metric([kind], count)
        certificates = CounterMetricFamily(
            "mesh_audit_certificates", "Certificates published.", labels=["equal"]
        )
        for is_equal in (True, False):
            certificates.add_metric([str(is_equal).lower()], self._certificates[is_equal])
        yield from (lagging, unread, published, certificates)
        latency = GaugeMetricFamily(
            "mesh_audit_canary_seconds", "How long the newest canary took.", labels=["way"]
        )
        canaries = CounterMetricFamily(
            "mesh_audit_canaries", "Canaries, by what became of them.", labels=["way", "what"]
        )
        for way, told in sorted(self._canaries.items()):
            if told["latency_ms"] is not None:
                latency.add_metric([way], told["latency_ms"] / 1000)
            for what in ("sent", "arrived", "lost"):
                canaries.add_metric([way, what], told[what])
        yield from (latency, canaries)

    def start(self, address: str) -> int:
        """Listen; return the port that was taken, which matters if 0 was asked for.

        Raises:
            ConfigError: The address has another form.
            StartError: It cannot be listened on.
        """
        return self._server.start(address)

    def stop(self) -> None:
        """Listen no more."""
        self._server.stop()


def _verdict(holds: bool) -> HTTPStatus:
    return HTTPStatus.OK if holds else HTTPStatus.SERVICE_UNAVAILABLE
