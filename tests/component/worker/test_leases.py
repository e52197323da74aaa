"""Leases of subscriptions end, whatever becomes of who is to write that. Spec: K13."""

from __future__ import annotations

import pytest

from mesh.transport.memory_faults import Call, MemoryFaults, Outcome
from tests.component.worker.conftest import SmallMesh


class LosesEnd(MemoryFaults):
    """Has the first transaction fail that writes to `clients`: there the mesh writes ends alone."""

    def __init__(self, outcome: Outcome, clients: str) -> None:
        self.outcome: Outcome | None = outcome
        self._clients = clients
        self._is_ending = False

    def called(self, call: Call, client: str, what: str) -> Outcome | None:
        if client != "control":
            return None
        if call is Call.PRODUCE:
            self._is_ending |= what == self._clients
        elif call is Call.COMMIT and self._is_ending:
            told, self.outcome = self.outcome, None
            return told
        return None


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.UNKNOWN_ABORTED])
def test_the_end_of_a_lease_that_was_not_committed_is_written_later(
    mesh: SmallMesh, outcome: Outcome
) -> None:
    """The same worker leads again, and remembers the lease."""
    asked = mesh.world.workers["c"].machine.learner.clients.wanted.asked
    mesh.kafka.faults = faults = LosesEnd(outcome, mesh.names.clients("c"))
    mesh.subscribe("c", "leased", "y", b'{"lease_s": 3}')
    mesh.run(2_000)
    assert ("leased", "y") in asked
    mesh.run(6_000)
    assert faults.outcome is None
    assert ("leased", "y") not in asked
