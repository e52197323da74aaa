"""`mesh top`: the busiest links first, what is not up, and how far all is proven."""

from __future__ import annotations

import itertools

import pytest

from mesh.operate.watch import Watch
from tests.component.cli.conftest import Chain, Run


def test_top_shows_the_busiest_link_first(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates of the last seconds; a look at a mesh without an auditor says that nothing is proven."""
    mesh, file = chain
    mesh.subscribe("c", "all", ">")
    look, looks = Watch.look, itertools.count(1)

    def busy(watch: Watch) -> None:
        if next(looks) < 3:  # what was read is told once a second
            for _ in range(5):
                mesh.publish("b", "x/y")
            mesh.publish("a", "x/y")
        look(watch)

    monkeypatch.setattr(Watch, "look", busy)
    monkeypatch.setattr("mesh.transport.clock.wall_ms", mesh.now_ms)
    data = run("top", "--count", "4", "-f", file, "-o", "json").data
    assert [one["link"] for one in data["links"]][:2] == ["b->c", "a->b"]
    assert data["links"][0]["guaranteed_per_s"] > data["links"][1]["guaranteed_per_s"] > 0
    assert data["links"][0]["waiting"] == 0
    assert data["nodes"] == {"a": "up", "b": "up", "c": "up"}
    assert data["proof"]["state"] == "none"


def test_top_names_what_is_not_up(run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """In words, above the table."""
    mesh, file = chain
    monkeypatch.setattr("mesh.transport.clock.wall_ms", mesh.now_ms)
    mesh.pause(2)
    mesh.world.kill("b")
    mesh.pause(30)
    out = run("top", "--count", "2", "-f", file).out
    assert "No audit" in out
    assert "2 nodes up; b down" in out
    assert "a->b" in out


def test_what_is_not_known_is_no_zero(
    run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rates of a Kafka cluster that does not answer; and links that carry nothing stand first."""
    mesh, file = chain
    monkeypatch.setattr("mesh.transport.clock.wall_ms", mesh.now_ms)
    look = Watch.look

    def fails(watch: Watch) -> None:
        look(watch)
        mesh.world.kafka["right"].available = False

    monkeypatch.setattr(Watch, "look", fails)
    mesh.pause(2)
    data = run("top", "--count", "20", "-f", file, "-o", "json").data
    rates = {one["link"]: one["guaranteed_per_s"] for one in data["links"]}
    assert rates["b->a"] is None
    assert rates["a->b"] is not None
    states = [one["state"] == "up" for one in data["links"]]
    assert states == sorted(states)
    mesh.world.kafka["right"].available = True
    mesh.pause(10)
    out = run("top", "--count", "20", "-f", file).out
    assert "Kafka cluster right" in out
    assert "?" in next(line for line in out.splitlines() if "b->a" in line)
