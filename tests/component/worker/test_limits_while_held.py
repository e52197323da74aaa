"""What grows too old in an endpoint that takes nothing for a while goes by one letter. R14, K20.

Only what stands in its log can, and whoever writes a held target has the lane's second writer.
"""

from __future__ import annotations

import pytest

from tests.component.worker.limited import AT, FULL, limited, losses, publish, pushed_out, there


@pytest.mark.parametrize("killed_ms", [None, 0, 1_300, 2_600, 5_200, 9_100])
def test_each_message_is_there_or_one_dead_letter(killed_ms: int | None) -> None:
    """Its worker dies at any moment while it is held, while it is written, or as the oldest go."""
    mesh = limited("dead-letter", age="12s")
    publish(mesh, 0, 6)
    mesh.kafka.leaderless.add(AT)
    publish(mesh, 6, 12)
    mesh.run(8_000)  # what stands there has grown too old, what waits has not come there
    mesh.kafka.leaderless.discard(AT)
    if killed_ms is not None:
        mesh.run(killed_ms)
        mesh.world.kill("c")
        mesh.run(1_000)
        mesh.world.start("c")
    publish(mesh, 12, 15)
    mesh.run(40_000)
    assert sorted(pushed_out(mesh) + there(mesh, FULL)) == list(range(15))
    assert pushed_out(mesh) == list(range(len(pushed_out(mesh))))
    assert {loss.reason for loss in losses(mesh)} == {"endpoint_expired"}
