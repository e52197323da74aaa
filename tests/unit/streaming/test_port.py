"""The auditor's port tells what it publishes, and whether it still looks around."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from http import HTTPStatus

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mesh.errors import ConfigError, StartError
from streaming.connectors.sink import SinkRecord
from streaming.job.port import LIVE_S, STATUS_AGE_MAX_S, AuditPort


class Clock:
    """Time that we turn."""

    s = 100.0

    def __call__(self) -> float:
        return self.s


def status(**more: object) -> SinkRecord:
    told = {"batch": 4, "findings": 2, "uncertified": 1, "sources": {}, **more}
    return SinkRecord("mesh.audit.status", "position", json.dumps(told))


def figures(port: AuditPort) -> dict[tuple[str, str], float]:
    """Return every sample by name and the one label that it may have."""
    _, body, _ = port.answer("/metrics")
    return {
        (sample.name, ",".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_an_auditor_that_stands_still_is_not_live() -> None:
    """Looking around keeps it alive, whatever it publishes."""
    clock = Clock()
    port = AuditPort(clock)
    clock.s += LIVE_S - 1
    assert port.answer("/livez")[0] is HTTPStatus.OK
    clock.s += 2
    assert port.answer("/livez")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    port.looked()
    assert port.answer("/livez")[0] is HTTPStatus.OK


def test_it_has_begun_once_it_has_looked_around() -> None:
    """A start takes longer on a busy machine than one that has begun may stand still."""
    clock = Clock()
    port = AuditPort(clock)
    assert port.answer("/startupz")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    clock.s += LIVE_S + 1
    port.looked()
    assert port.answer("/startupz")[0] is HTTPStatus.OK


def test_it_is_ready_while_its_status_is_fresh() -> None:
    """One that cannot write any more is blind."""
    clock = Clock()
    port = AuditPort(clock)
    assert port.answer("/readyz")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    port.see([status()])
    assert port.answer("/readyz")[0] is HTTPStatus.OK
    clock.s += STATUS_AGE_MAX_S + 1
    port.looked()
    assert port.answer("/readyz")[0] is HTTPStatus.SERVICE_UNAVAILABLE
    assert figures(port)["mesh_audit_status_age_seconds", ""] == STATUS_AGE_MAX_S + 1


def test_figures_are_those_of_what_was_published() -> None:
    """Of the newest status, and counts of findings and certificates; what is taken back counts not."""
    port = AuditPort(Clock())
    sources = {
        "k1": {"batch": 3, "lagging": True, "unread": None},
        "k2": {"batch": 1, "lagging": False, "unread": "no broker answers"},
    }
    loss = json.dumps({"kind": "missing"})
    port.see([status(), SinkRecord("mesh.audit.findings", "f", loss), status(sources=sources)])
    port.see([SinkRecord("mesh.audit.findings", "f", None)])
    port.see([SinkRecord("mesh.audit.certificates", "c", json.dumps({"equal": True}))])
    found = figures(port)
    assert found["mesh_audit_findings", ""] == 2
    assert found["mesh_audit_uncertified", ""] == 1
    assert found["mesh_audit_findings_published_total", "missing"] == 1
    assert found["mesh_audit_certificates_total", "true"] == 1
    assert found["mesh_audit_certificates_total", "false"] == 0
    assert found["mesh_audit_lagging", "k1"] == found["mesh_audit_unread", "k2"] == 1
    assert found["mesh_audit_lagging", "k2"] == found["mesh_audit_unread", "k1"] == 0


def test_it_answers_over_http_and_refuses_what_it_cannot_listen_on() -> None:
    """A port in use, and an address without one, are each a clear line."""
    port, other = AuditPort(), AuditPort()
    number = port.start("127.0.0.1:0")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{number}/livez", timeout=5) as answer:
            assert answer.status == HTTPStatus.OK
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{number}/else", timeout=5)
        with pytest.raises(StartError, match="Address already in use; name another address"):
            other.start(f"127.0.0.1:{number}")
    finally:
        port.stop()
    with pytest.raises(ConfigError, match="write HOST:PORT"):
        other.start("8080")


def test_canaries_are_told_by_way() -> None:
    port = AuditPort(Clock())
    told = {"sent": 3, "arrived": 2, "lost": 1, "latency_ms": 250.0}
    port.see([SinkRecord("mesh.audit.canaries", "a->b", json.dumps(told))])
    port.see([SinkRecord("mesh.audit.canaries", "b->a", json.dumps({**told, "latency_ms": None}))])
    found = figures(port)
    assert found["mesh_audit_canary_seconds", "a->b"] == 0.25
    assert ("mesh_audit_canary_seconds", "b->a") not in found
    assert found["mesh_audit_canaries_total", "a->b,lost"] == 1
