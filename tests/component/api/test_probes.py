"""Whether the server is to be restarted, and whether it is to be asked, are two questions."""

from __future__ import annotations

import pytest

from tests.component.api.conftest import Api
from tests.said import Said


def test_a_mesh_that_cannot_be_looked_at_is_told_and_needs_no_restart(
    said: Said, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is answered is then as old as the last look: feeds say how old, and nobody is sent."""
    monkeypatch.setattr(api.live._thread, "is_alive", lambda: True)
    for kafka in api.mesh.world.kafka.values():
        kafka.available = False
    api.lives(70)
    assert [api.ask(probe).status for probe in ("/livez", "/readyz")] == [200, 200], "it is seen"

    def fails() -> None:
        raise RuntimeError("whatever it is")

    monkeypatch.setattr(api.live.watch, "look", fails)
    api.lives(70)
    assert [api.ask(probe).status for probe in ("/livez", "/readyz")] == [200, 503]
    assert api.live.idle_s >= 60
    assert [one["log_level"] for one in said.of("look.failed")][-1] == "error"
    monkeypatch.undo()
    monkeypatch.setattr(api.live._thread, "is_alive", lambda: True)
    api.lives(1)
    assert api.ask("/readyz").status == 200
