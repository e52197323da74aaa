"""Every drill, planted in the records of a mesh that really ran, is found as what it is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from mesh.operate.audit.drills import DrillKind, Planted
from mesh.operate.audit.planting import Planter
from tests.component.in_memory_mesh import Mesh
from tests.streaming.drawn import copy_of
from tests.streaming.planted import chain_topology

pytestmark = pytest.mark.spark

FORGERIES_S = 70
"""A topic that does not exist is looked for so long, and a bit."""


def test_every_drill_is_found_and_nothing_else(bench, plant):
    """Beside healthy traffic; each finding names the endpoint, the message and its records."""
    topology = replace(chain_topology(), allows_drills=True)
    mesh = Mesh(topology)
    mesh.subscribe("c", "s", "acme/>")
    mesh.publish("a", "acme/x")
    view = mesh.view()
    view.refresh()
    planter = Planter(mesh.seen(view))
    planted = [planter.plant(drill, "a", "c") for drill in DrillKind]
    mesh.publish("a", "acme/y")
    mesh.pause(5)
    view.close()
    plant.logs.clear()
    bench.ids = copy_of(mesh, plant)
    bench.restart()
    bench.settle()
    bench.clock_s += FORGERIES_S
    bench.wait(3)
    found = bench.auditor.state.register.findings.values()
    assert sorted((one.kind.value, one.endpoint) for one in found) == sorted(
        (one.drill.finding, one.endpoint) for one in planted
    )
    for one in planted:
        (finding,) = [each for each in found if each.endpoint == one.endpoint]
        is_named(one, finding)
    mesh.close()


def is_named(planted: Planted, finding) -> None:
    """Check that a finding leads to the message, and to what was forged."""
    told = {
        "kind": finding.kind.value,
        "endpoint": finding.endpoint,
        "ids": list(finding.ids),
        "evidence": list(finding.evidence),
    }
    assert planted.is_told_by(told)
    if planted.drill is not DrillKind.FORGED_ORIGIN:
        assert finding.ids == (planted.message,)
    if planted.drill is not DrillKind.LOSS:
        topic, offset = planted.records[-1][0].topic, planted.records[-1][1]
        assert any(
            text.startswith(f"{topic}/0@") and int(re.split("[@-]", text)[-1]) >= offset
            for text in finding.evidence
        )
