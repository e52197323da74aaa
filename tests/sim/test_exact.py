"""Exactness on random legal topologies: one copy per link, none unwanted, each endpoint once."""

from __future__ import annotations

import pytest

from mesh.lab.run import run_scenario
from mesh.lab.scenario import Scenario
from mesh.lab.simulated import SimulatedBackend
from tests.sim.drawn import expected, random_scenario


def assert_exact(scenario: Scenario) -> None:
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    links, endpoints, paths = expected(scenario)
    assert result["ok"], result["steps"]
    found_links = {name: link["messages"] for name, link in result["links"].items()}
    assert {name: n for name, n in found_links.items() if n} == dict(links)
    for name, endpoint in result["endpoints"].items():
        assert endpoint["count"] == endpoint["distinct"] == endpoints[name]
        assert endpoint["missing"] == endpoint["disordered"] == 0
        assert endpoint["paths"] == {p: n for (e, p), n in paths.items() if e == name}


@pytest.mark.parametrize("seed", range(60))
def test_every_wanted_message_crosses_each_link_once(seed: int) -> None:
    """Spec: DESIGN 1, DESIGN 3."""
    assert_exact(random_scenario(seed))


@pytest.mark.parametrize("seed", range(1000, 1020))
def test_several_lanes_change_nothing(seed: int) -> None:
    """Spec: K2, K14."""
    assert_exact(random_scenario(seed, lanes_max=3))


@pytest.mark.parametrize("seed", range(2000, 2060))
def test_joins_carry_what_they_select_and_each_copy_goes_once(seed: int) -> None:
    """Spec: UM-1, UM-5, UM-6, UM-10, DESIGN 3."""
    assert_exact(random_scenario(seed, lanes_max=2, joined=True))
