"""What the page says of the chart, tried with the chart."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import helm_python
import pytest
from ruamel.yaml import YAML

from mesh.config.legal import load_legal_topology
from tests.helm.conftest import CHART, Render
from tests.helm.test_odd_values import BASE, over, well_formed

PAGE = CHART.parents[1] / "docs" / "kubernetes.md"


def test_the_values_of_the_page_give_a_mesh(render: Render, tmp_path: Path) -> None:
    """Those for Kafka of one's own: copied as they are, they render and are a legal topology."""
    text = PAGE.read_text(encoding="utf-8")
    [values] = [
        one for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "topology:" in one
    ]
    manifests = render(YAML(typ="safe").load(values))
    well_formed(manifests)
    [given] = [one for one in manifests if one["metadata"]["name"] == "rel-trellis-mesh-topology"]
    file = tmp_path / "mesh.yaml"
    file.write_text(given["data"]["mesh.yaml"], encoding="utf-8")
    assert set(load_legal_topology(file).nodes) == {"tk1", "ny1"}
    assert "rel-trellis-mesh-apply" in {one["metadata"]["name"] for one in manifests}


@pytest.mark.parametrize(
    ("values", "warns"),
    [
        (BASE, True),
        (over(BASE, "topology.apply.enabled", True), False),
        (over(BASE, "topology.compare.enabled", True), False),
    ],
)
def test_who_leaves_changes_to_nobody_is_told(values: Mapping[str, Any], warns: bool) -> None:
    """A topology that is changed later would come without a cut-over, or not at all."""
    chart = helm_python.Chart.load(str(CHART))
    files = chart.render(dict(values), name="rel", namespace="mesh")
    [notes] = [text for path, text in files.items() if path.endswith("NOTES.txt")]
    assert ("Nothing puts a changed topology in force" in notes) is warns
