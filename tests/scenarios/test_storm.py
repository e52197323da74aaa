"""Storms on the simulator: calm in the end, repeatable, and red when a bug is planted.

Spec: DESIGN 6, DESIGN 8, K11, K16, reliability.md 4-6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mesh.lab.checker.history import HeldRecord, read_history
from mesh.lab.checker.judge import check
from mesh.lab.contents import HeldRecords
from mesh.lab.load import Publisher
from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario, load_scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Storm
from mesh.lane.lane import Lane
from mesh.transport.kafka.settings import TRANSACTION_TIMEOUT_MS
from mesh.transport.memory import MemoryAdmin, MemoryKafka
from mesh.transport.memory_clients import MemoryWriter
from mesh.transport.port import Record, TopicPartition
from mesh.worker.lanes.owned import Lanes
from tests.kafka.fleets import EXAMPLES


def stormy(seed: int, **changes: object) -> Scenario:
    calm = load_scenario(EXAMPLES / "storm.yaml")
    what = {"seed": seed, "seconds": 6, "every_s": 0.6, "rate": 60, **changes}
    steps = [
        named.model_copy(update=what) if isinstance(named, Storm) else named for named in calm.steps
    ]
    return replace(calm, seed=seed, steps=tuple(steps))


def run(scenario: Scenario, history: Path | None = None) -> Mapping[str, object]:
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    return run_scenario(scenario, backend, backend_name="sim", history=history)


@pytest.mark.parametrize("seed", range(4))
def test_a_storm_loses_and_doubles_nothing(seed: int) -> None:
    result = run(stormy(seed))
    checker = result["checker"]
    assert checker["anomalies"] == []
    assert result["ok"] is checker["ok"] is True
    assert checker["published"]["ok"] > 200
    assert checker["published"]["failed"] > 0
    assert checker["delivered"] >= checker["owed"] > 500
    assert sum(checker["faults"].values()) > 3
    assert 0 < checker["longest_silence_ms"] < 6_000


def test_a_storm_fails_when_a_worker_ended_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedBackend, "guarded", lambda _backend: ["a-0: KeyError: 'x'"])
    result = run(stormy(1, seconds=2, rate=20))
    assert result["ok"] is False
    assert result["checker"]["workers_fallen"] == ["a-0: KeyError: 'x'"]
    assert result["steps"][-1]["detail"]["error"] == (
        "a worker ended by itself: a-0: KeyError: 'x'; see `workers_fallen`"
    )


def test_nothing_is_judged_while_a_transaction_may_hide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers may write the markers of a commit after they have answered it."""
    told = MemoryAdmin.stable_ends

    def before_the_last_marker(
        admin: MemoryAdmin, places: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        ends = told(admin, places)
        return {at: max(0, end - (".ep." in at.topic)) for at, end in ends.items()}

    monkeypatch.setattr(MemoryAdmin, "stable_ends", before_the_last_marker)
    result = run(stormy(1, seconds=2, rate=20))
    assert result["ok"] is False
    assert "has an open transaction" in result["steps"][-1]["detail"]["error"]
    assert {one["kind"] for one in result["checker"]["anomalies"]} <= {"unseen"}


def test_what_a_publisher_left_open_hides_nothing_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """What others were told is accepted stands behind it, until brokers end it."""
    kafka: dict[str, MemoryKafka] = {}
    parted_ms: list[int] = []
    is_told, advance, part = Publisher.publish_due, SimulatedBackend.advance, SimulatedBackend.part

    def publish_due(publisher: Publisher) -> None:
        if publisher.node not in kafka:
            kafka[publisher.node] = publisher.kafka
            writer = publisher.kafka.writer("given-up", f"given-up-{publisher.node}")
            writer.begin()
            for number in range(publisher.partitions):
                writer.produce(f"mesh.{publisher.node}.in.g", b"never seen", b"k", number)
        is_told(publisher)

    def part_(backend: SimulatedBackend) -> None:
        parted_ms.append(backend.now_ms())
        part(backend)

    def advance_(backend: SimulatedBackend, at_most_s: float = 1.0) -> None:
        if parted_ms and backend.now_ms() - parted_ms[0] > TRANSACTION_TIMEOUT_MS:
            for node, of in kafka.items():
                of.end_transactions(f"given-up-{node}")
        advance(backend, at_most_s)

    monkeypatch.setattr(Publisher, "publish_due", publish_due)
    monkeypatch.setattr(SimulatedBackend, "part", part_)
    monkeypatch.setattr(SimulatedBackend, "advance", advance_)
    result = run(stormy(1, seconds=2, rate=20, transactions=0))
    checker = result["checker"]
    assert checker["anomalies"] == []
    assert checker["ok"]
    assert checker["delivered"] >= checker["owed"] > 0


def test_the_same_seed_is_the_same_storm() -> None:
    """Spec: DESIGN 4.2."""
    assert run(stormy(7)) == run(stormy(7))


def test_a_history_can_be_judged_again(tmp_path: Path) -> None:
    result = run(stormy(3, seconds=3), tmp_path / "history.jsonl")
    verdict = check(read_history(tmp_path / "history.jsonl")).document()
    assert {key: result["checker"][key] for key in verdict} == verdict


def kinds(result: Mapping[str, object]) -> set[str]:
    assert result["ok"] is False
    return {one["kind"] for one in result["checker"]["anomalies"]}


def test_planted_one_delivery_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    true, seen = HeldRecords._held, []

    def forgetful(self: HeldRecords, record: Record) -> HeldRecord | None:
        held = true(self, record)
        if held is not None and held.payload.startswith("g-"):
            seen.append(held)
            return None if len(seen) == 50 else held
        return held

    monkeypatch.setattr(HeldRecords, "_held", forgetful)
    result = run(stormy(1, seconds=3))
    assert kinds(result) == {"lost"}
    [anomaly] = result["checker"]["anomalies"]
    assert anomaly["ids"] == [seen[49].payload]


def test_planted_a_commit_that_never_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    true, commits = MemoryWriter.commit, []

    def sloppy(self: MemoryWriter) -> None:
        if ".lane." in (self.transactional_id or "") and self._touched:
            commits.append(self)
            if len(commits) % 100 == 0:
                self.abort()
                return
        true(self)

    monkeypatch.setattr(MemoryWriter, "commit", sloppy)
    scenario = stormy(1, seconds=3, faults=["cut"])
    *calm, storm = scenario.steps
    impatient = storm.model_copy(update={"timeout": 5})
    result = run(replace(scenario, steps=(*calm, impatient)))
    # On its way to another node the gap is noticed, and the link waits for a repair.
    assert kinds(result) == {"unseen"}


def test_planted_a_takeover_that_reads_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    true = Lanes._begin_with

    def rewinding(self: Lanes, lane: Lane, now: int) -> None:
        found = lane.progress.next
        for at in [one for one in found if ".in.g" in one.topic]:
            found[at] = max(0, found[at] - 2)
        true(self, lane, now)

    monkeypatch.setattr(Lanes, "_begin_with", rewinding)
    assert "duplicated" in kinds(run(stormy(1, faults=["kill"])))
