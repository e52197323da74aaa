"""One record of each kind that the auditor writes, but for its status."""

from __future__ import annotations

from collections.abc import Sequence

from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.finding_register import Finding
from streaming.connectors.sink import SinkRecord
from streaming.job.outputs import take_outputs
from streaming.job.state import State


def written(state: State, names: TopicNames) -> Sequence[SinkRecord]:
    """Return findings of all kinds, certificates, hours, minutes, and a finding taken back."""
    state.register.now_ms = 1_700_000_000_000
    for kind in FindingKind:
        state.register.add(Finding(kind=kind, text="t", ids=("x/0/0/1",), path=("a", "b")))
    certificate = next(iter(state.certifier.unpublished.values()))
    state.certifier.hours.close(certificate, state.register.now_ms)
    state.minutes.clocks["k"] = 130 * 60_000
    outputs = [*take_outputs(state, names, {"a->in": 2.5}, ["k"], is_last=True)]
    state.register.withdraw(next(iter(state.register.findings)))
    return [*outputs, *take_outputs(state, names, {})]
