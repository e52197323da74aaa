"""When the state is saved: with each batch and each finding, and seldom for what is repeated."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from mesh.model.control import Subscription
from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.block import Certificate
from streaming.audits.finding_register import Finding
from streaming.audits.interest import EndpointKey
from streaming.connectors.sink import SinkRecord
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.outputs import ENDPOINTS_MAX
from streaming.job.publisher import STATUS_EVERY_S, AuditPublisher
from streaming.job.snapshots import Snapshots
from streaming.job.state import State
from tests.streaming.planted import chain_topology


@dataclass
class Written:
    """An auditor that publishes, and what it wrote."""

    folder: Path
    outputs: list[SinkRecord] = field(default_factory=list)
    clock_s: float = 100.0

    def __post_init__(self) -> None:
        self.state = State.of(chain_topology())
        self.snapshots = Snapshots(self.folder)
        names, kafka_clusters = TopicNames("mesh."), AuditedKafkaClusters("mesh.")
        told = (names, self.snapshots, kafka_clusters, self.outputs.extend, lambda: self.clock_s)
        self.publisher = AuditPublisher(*told)
        self.state.batch = 0
        self.publish()

    def publish(self, *, is_last: bool = False) -> None:
        self.publisher.publish(self.state, {}, is_last=is_last)

    def certify(self, last: int) -> None:
        told = Certificate("mesh.a.in.g/0", 0, 0, last, "b/s", last, last, equal=True, partial=True)
        self.state.certifier.unpublished[told.key] = told

    @property
    def certified(self) -> list[str]:
        return [one.value or "" for one in self.outputs if one.topic == "mesh.audit.certificates"]

    def saved(self) -> State:
        state = self.snapshots.load()
        assert state is not None
        return state


@pytest.fixture
def written(tmp_path: Path) -> Written:
    return Written(tmp_path)


def test_certificates_between_two_batches_are_written_at_once_and_saved_by_and_by(
    written: Written,
) -> None:
    written.clock_s += 1
    written.certify(7)
    written.state.colours.found = 3
    written.publish()
    assert len(written.certified) == 1
    assert written.saved().colours.found == 0
    written.clock_s += STATUS_EVERY_S
    written.certify(8)
    written.publish()
    assert written.saved().colours.found == 3


@pytest.mark.parametrize("why", ["batch", "finding", "subscription", "last"])
def test_what_would_not_come_again_is_saved_at_once(written: Written, why: str) -> None:
    written.state.colours.found = 3
    if why == "batch":
        written.state.batch += 1
    elif why == "finding":
        written.state.register.add(Finding(kind=FindingKind.GAP, text="a gap"))
    elif why == "subscription":
        endpoint = EndpointKey("b", "s")
        written.state.interest.subscribe(endpoint, "x", Subscription(), 1)
        written.state.interest.unsubscribe(endpoint, "x", 2)
    written.publish(is_last=why == "last")
    assert written.saved().colours.found == 3


def test_endpoints_beside_the_status_are_written_again_where_they_are_others(
    written: Written,
) -> None:
    """A reader of the compacted topic has the newest of each, and the status comes every 5 s."""
    count = 2 * ENDPOINTS_MAX + 5

    def told() -> list[str]:
        written.outputs.clear()
        written.clock_s += STATUS_EVERY_S
        written.publish()
        return [one.key for one in written.outputs if one.topic == "mesh.audit.status"]

    for number in range(count):
        endpoint = EndpointKey("b", f"s{number:06}")
        written.state.interest.subscribe(endpoint, "x", Subscription(), 1)
    assert told() == ["endpoints 1", "endpoints 2", "position"]
    assert told() == ["position"]
    written.state.interest.subscribe(EndpointKey("b", f"s{count}"), "x", Subscription(), 1)
    assert told() == ["endpoints 2", "position"]
