"""When a worker becomes a member of the group that serves its node. Spec: K15."""

from __future__ import annotations

from mesh.errors import TransportUnavailableError
from mesh.worker.lanes.takeover_waits import WORKER_LEARNS_FIRST_MS
from tests.component.admin_faults import AdminFaults
from tests.component.worker.conftest import SmallMesh


def test_brokers_that_do_not_all_tell_of_groups_keep_no_worker_out() -> None:
    """One that is silent for good made each worker end, and the next, before it had begun."""
    mesh = SmallMesh()
    mesh.world.stop("a")
    silent = TransportUnavailableError("list consumer groups: the answer did not come")
    mesh.kafka.faults = AdminFaults(has_members=silent)
    mesh.world.start("a")
    begun = mesh.world.workers["a"]
    mesh.run(2 * WORKER_LEARNS_FIRST_MS)
    assert mesh.world.workers["a"] is begun
    assert begun.is_ready
