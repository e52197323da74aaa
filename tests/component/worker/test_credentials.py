"""Secrets that change on disk are taken in by a worker that runs. Spec: DESIGN 10."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mesh.config.references import files_of
from mesh.errors import ConfigError, Problem, TransportDeniedError
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import KafkaCluster
from mesh.worker.process import credentials
from mesh.worker.process.credentials import LOOK_MS, RETRY_MS, SHARE_MS, Renewal, turn_ms
from tests.said import Said


@dataclass
class Bench:
    """A renewal whose clock we turn; `makes` is what making clients does next."""

    file: Path
    ms: int = 0
    makes: Callable[[], Mapping[str, KafkaCluster]] | None = None
    renewal: Renewal = field(init=False)
    own: MemoryKafka = field(init=False)
    far: MemoryKafka = field(init=False)

    def __post_init__(self) -> None:
        self.file.write_text("old")
        self.own = MemoryKafka("own", now_ms=lambda: self.ms)
        self.far = MemoryKafka("far", now_ms=lambda: self.ms)
        self.renewal = Renewal([self.file], "own", 5_000, lambda: self.ms, self.make)

    def make(self) -> Mapping[str, KafkaCluster]:
        return self.makes() if self.makes else {"own": self.own, "far": self.far}

    def pass_time(self, ms: int) -> Mapping[str, KafkaCluster] | None:
        """Let time pass in turns; a trial has all the real time that it wants."""
        end_ms = self.ms + ms
        while self.ms < end_ms:
            self.ms += 100
            found = self.renewal.poll()
            if self.renewal._trial is not None:
                self.renewal._trial.join(10)
                found = self.renewal.poll()
            if found is not None:
                return found
        return None


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "password")


def rotate(file: Path, text: str) -> None:
    """Replace a file as Kubernetes does: another one under the same name."""
    fresh = file.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.replace(file)


def test_files_that_stay_renew_nothing(bench: Bench) -> None:
    assert bench.pass_time(60_000) is None


def test_a_changed_file_brings_clients_in_the_worker_s_turn(bench: Bench) -> None:
    """Not at once: other workers of the node go first, or after it."""
    rotate(bench.file, "new")
    assert bench.pass_time(5_000) is None
    found = bench.pass_time(LOOK_MS + 1_000)
    assert found == {"own": bench.own, "far": bench.far}
    assert bench.pass_time(60_000) is None  # once


def test_a_secret_that_does_not_work_is_left_and_tried_again(said: Said, bench: Bench) -> None:
    """The old clients serve until it does; a secret that cannot be read is no different."""

    def denied() -> Mapping[str, KafkaCluster]:
        raise TransportDeniedError("SASL authentication failed")

    def unreadable() -> Mapping[str, KafkaCluster]:
        raise ConfigError([Problem(code="UNRESOLVED", message="cannot be read")])

    rotate(bench.file, "wrong")
    for makes in (denied, unreadable):
        bench.makes = makes
        assert bench.pass_time(RETRY_MS) is None
    faults = [one["fault"] for one in said.of("credentials.refused")]
    assert faults[0] == "SASL authentication failed"
    assert "cannot be read" in faults[-1]
    bench.makes = None
    assert bench.pass_time(RETRY_MS) is not None


def test_only_the_own_kafka_cluster_must_answer(bench: Bench) -> None:
    """A neighbour that is away holds up nobody; without the own one the old clients stay."""
    bench.own.available = False
    rotate(bench.file, "new")
    assert bench.pass_time(RETRY_MS) is None
    bench.own.available, bench.far.available = True, False
    assert bench.pass_time(RETRY_MS) is not None


def test_a_trial_never_holds_up_the_loop(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers that are slow to answer are asked in a thread."""
    answering = threading.Event()
    monkeypatch.setattr(credentials, "LOOK_MS", 0)

    def slow() -> Mapping[str, KafkaCluster]:
        answering.wait(10)
        return {"own": bench.own}

    bench.makes = slow
    rotate(bench.file, "new")
    bench.renewal.poll()
    bench.ms += 5_000
    bench.renewal.poll()
    assert bench.renewal.poll() is None  # in the loop it would have waited, and be there
    answering.set()
    assert bench.pass_time(100) == {"own": bench.own}


def test_workers_take_turns_within_a_minute() -> None:
    """Of one node far apart; of different nodes at different moments."""
    turns = [turn_ms(f"mesh-tk1-{place}", "tk1") for place in range(3)]
    assert [later - sooner for sooner, later in itertools.pairwise(turns)] == [
        SHARE_MS,
        SHARE_MS,
    ]
    assert max(turns) < 60_000 - LOOK_MS
    assert turn_ms("mesh-tk1-3", "tk1") == turns[0]
    assert turn_ms("localhost", "tk1") != turn_ms("localhost", "ny1")


def test_files_are_those_that_options_lead_to() -> None:
    """References and paths of certificates, each once."""
    options = {
        "sasl.password": "${file:/etc/p}${file:/etc/q}",
        "sasl.username": "${env:USER}",
        "ssl.ca.location": "/etc/ca.crt",
        "ssl.key.location": "/etc/p",
        "bootstrap.servers": "a:1",
    }
    assert files_of(options) == ["/etc/p", "/etc/q", "/etc/ca.crt"]
    assert files_of({"ssl.ca.location": "probe"}) == []
