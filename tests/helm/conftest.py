"""The chart, rendered by a real Helm in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import helm_python
import pytest
from ruamel.yaml import YAML

CHART = Path(__file__).parents[2] / "helm" / "trellis-mesh"

Manifest = Mapping[str, Any]
Render = Callable[..., Sequence[Manifest]]


def manifests_of(files: Mapping[str, str]) -> list[Manifest]:
    """Parse what Helm rendered, without the notes."""
    yaml = YAML(typ="safe")
    return [
        manifest
        for path, text in sorted(files.items())
        if path.endswith(".yaml")
        for manifest in yaml.load_all(text)
        if manifest
    ]


@pytest.fixture(scope="session")
def render() -> Render:
    """`render(values, name="rel")`: the manifests of a release."""
    chart = helm_python.Chart.load(str(CHART))

    def rendered(values: Mapping[str, Any], name: str = "rel") -> Sequence[Manifest]:
        return manifests_of(chart.render(dict(values), name=name, namespace="mesh"))

    return rendered
