"""What the auditor has not certified in time makes a run fail, in one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.lab import real
from mesh.lab.backend import AuditResult
from mesh.lab.real import RealBackend
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.world import World
from mesh.operate.audit.latest import POSITION
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicSpec

PAIR = {
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}},
    "zones": {"Z": {"kind": "one-hop", "links": [["a", "b"]]}},
}


class Auditor:
    """A process that runs until it is stopped."""

    def is_alive(self) -> bool:
        return True

    def stop(self, _limit_s: float) -> None:
        pass


class Brokers:
    """A fleet without processes."""

    def __init__(self) -> None:
        self.topology = topology_from_mapping(PAIR)
        self.world = World(self.topology, seed=1)
        topics = [f"mesh.audit.{name}" for name in ("findings", "certificates", "status")]
        self.only = self.world.kafka["k"]
        self.only.admin().create([TopicSpec(name=name, partitions=1) for name in topics])

    def kafka(self, name: str, _client: str) -> MemoryKafka:
        return self.world.kafka[name]

    def write(self, table: str, key: str, content: Mapping[str, Any]) -> None:
        writer = self.only.writer("auditor")
        writer.produce(f"mesh.audit.{table}", json.dumps(content).encode(), key.encode(), 0)
        writer.flush()


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    monkeypatch.setattr(real, "AUDIT_MS", 200)
    monkeypatch.setattr(real, "spawn_auditor", lambda _: Auditor())
    return Brokers()


def audited(brokers: Brokers, delivered: Mapping[str, int]) -> AuditResult:
    backend = RealBackend(brokers)  # type: ignore[arg-type]
    backend.begin_audit()
    found = backend.audit(delivered)
    assert found is not None
    return found


def certify(brokers: Brokers, endpoint: str, count: int, *, equal: bool = True) -> None:
    content = {"endpoint": endpoint, "delivered": count, "equal": equal}
    brokers.write("certificates", endpoint, content)


def test_what_is_not_certified_in_time_is_named(brokers: Brokers) -> None:
    """Endpoint, how many are and how many should be; what is certified is not named."""
    brokers.write("status", POSITION.decode(), {"state": "live"})
    certify(brokers, "b/s", 7)
    certify(brokers, "b/t", 9)
    certify(brokers, "b/u", 5, equal=False)
    found = audited(brokers, {"b/s": 10, "b/t": 9, "b/u": 5, "b/v": 0})
    told = "messages not certified within 0 s: b/s 7 of 10, b/u 0 of 5; the auditor is at batch "
    assert found.fault == told + "0 and waits for no block that it knows"
    assert len(found.certificates) == 3


def test_it_is_told_how_far_the_auditor_is_and_what_it_waits_for(brokers: Brokers) -> None:
    """Which blocks, and why: so a slow machine can be told from a lost message."""
    block = {"source": "mesh.a.in.g/2", "block": 3, "to": 12_299, "reason": "b has not read it"}
    waiting = [{**block, "endpoint": f"b/e{number}"} for number in range(7)]
    brokers.write("status", POSITION.decode(), {"batch": 17, "uncertified": 9, "waiting": waiting})
    told = audited(brokers, {"b/s": 1}).fault
    assert "is at batch 17 and waits for b/e0 of mesh.a.in.g/2 block 3 up to 12299" in told
    assert "(b has not read it)" in told
    assert told.endswith("4 more")


def test_an_auditor_that_says_nothing_certifies_nothing(brokers: Brokers) -> None:
    """Also where there was nothing to certify: nobody has looked for findings."""
    assert audited(brokers, {}).fault == "the auditor has said nothing within 0 s"


def test_what_is_certified_is_no_fault(brokers: Brokers) -> None:
    brokers.write("status", POSITION.decode(), {"state": "live"})
    certify(brokers, "b/s", 10)
    assert audited(brokers, {"b/s": 10}).fault == ""


@pytest.mark.parametrize("fault", ["", "messages not certified within 120 s: b/s 7 of 10"])
def test_a_run_that_is_not_certified_is_not_ok(
    fault: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Spec: lab.md 2 (a missed deadline is not ok)."""
    spec = {"mesh": PAIR, "steps": [{"settle": {}}]}
    document = {"apiVersion": "mesh/v1", "kind": "Scenario", "metadata": {"name": "x"}}
    file = tmp_path / "x.yaml"
    file.write_text(json.dumps({**document, "spec": spec}))
    scenario = load_scenario(file)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    monkeypatch.setattr(backend, "audit", lambda _: AuditResult([], [], fault))
    result = run_scenario(scenario, backend, backend_name="kafka")
    assert result["ok"] is not bool(fault)
    assert result["audit"] == {"findings": [], "certificates": []}
    told = {"step": "audit", "ok": False, "detail": {"error": fault}}
    assert ([one for one in result["steps"] if not one["ok"]] == [told]) is bool(fault)


@pytest.mark.parametrize(
    ("expected", "kinds", "fault"),
    [
        ({}, [], ""),
        ({}, ["duplicate", "loop", "duplicate"], "2 duplicate, 1 loop"),
        ({}, ["stalled", "unproven"], ""),
        ({"split": 1}, ["split"], ""),
        ({"split": 1}, ["split", "heal", "split"], "1 heal, 2 split and not 1"),
        ({"split": 2}, ["split"], "1 findings split, expected 2"),
    ],
)
def test_findings_that_nobody_expected_fail_a_run_and_so_do_those_that_lack(
    expected: dict[str, int],
    kinds: list[str],
    fault: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """It used to be ok whatever the auditor found. Spec: lab.md 1 (`expect`), lab.md 2."""
    steps = [{"expect": {"findings": expected, "timeout": 1}}] if expected else []
    spec = {"audit": True, "mesh": PAIR, "steps": [*steps, {"settle": {}}]}
    document = {"apiVersion": "mesh/v1", "kind": "Scenario", "metadata": {"name": "x"}}
    file = tmp_path / "x.yaml"
    file.write_text(json.dumps({**document, "spec": spec}))
    scenario = load_scenario(file)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    findings = [{"kind": kind} for kind in kinds]
    monkeypatch.setattr(backend, "audit", lambda _: AuditResult(findings, []))
    monkeypatch.setattr(backend, "found", lambda: {kind: kinds.count(kind) for kind in kinds})
    result = run_scenario(scenario, backend, backend_name="kafka")
    assert result["ok"] is not bool(fault)
    told = " ".join(str(one["detail"]) for one in result["steps"] if not one["ok"])
    assert fault in told


def test_where_nobody_audits_findings_are_not_asked_for(tmp_path: Path) -> None:
    """The same file runs on the simulator."""
    spec = {"audit": True, "mesh": PAIR, "steps": [{"expect": {"findings": {"split": 1}}}]}
    document = {"apiVersion": "mesh/v1", "kind": "Scenario", "metadata": {"name": "x"}}
    file = tmp_path / "x.yaml"
    file.write_text(json.dumps({**document, "spec": spec}))
    scenario = load_scenario(file)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    assert run_scenario(scenario, backend, backend_name="sim")["ok"]
