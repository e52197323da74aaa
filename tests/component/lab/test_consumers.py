"""A consumer that a scenario has join is known to others when the next step begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.lab.driver import Driver
from mesh.lab.play import run_step
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Consume
from mesh.lab.tally import Tally
from mesh.view.mesh_view import MeshView

STRANDED = Path(__file__).parents[3] / "examples" / "scenarios" / "queue-any-stranded.yaml"


@pytest.mark.parametrize("policy", ["any", "every"])
def test_who_consumes_is_told_to_the_other_members(policy: str) -> None:
    """Else messages go to whoever is heard of first, be it farther away; of a queue of which
    each node has all nothing is told."""
    scenario = load_scenario(STRANDED)
    backend = SimulatedBackend.of(scenario)
    tally = Tally(scenario.topology, backend.kafka, backend.now_ms)
    view = MeshView(scenario.topology, backend.kafka, backend.now_ms)
    driver = Driver(scenario.topology, backend, tally, view)
    for number, step in enumerate(scenario.steps):
        if isinstance(step, Consume):
            break
        if policy == "every" and step.word == "subscribe":
            step = step.model_copy(update={"endpoint": "all", "policy": policy})
        if step.word in ("subscribe", "settle"):
            run_step(driver, number, step)
    queue = "all" if policy == "every" else "jobs"
    run_step(driver, number, Consume(node="c", queue=queue))
    view.refresh()
    heartbeat = view.nodes["c"].heartbeat
    assert heartbeat is not None
    told = [(one.queue, one.node) for one in heartbeat.queues if one.room]
    assert told == ([] if policy == "every" else [("jobs", "c")])
    driver.close()
