"""The chart, rendered by a real Helm in this process."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml
from kubernetes_validate import utils  # type: ignore[import-untyped]

CHART = Path(__file__).parents[2] / "helm" / "trellis-mesh"

# Read anew for each manifest, they are most of what a validation costs.
utils.schema_contents = functools.cache(utils.schema_contents)

Manifest = Mapping[str, Any]
Render = Callable[..., Sequence[Manifest]]


class AsHelmReads(yaml.CSafeLoader):
    """YAML 1.1, in which `on` is no name; and a key that comes twice is a fault."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"twice in one mapping: {keys} {node.start_mark}"
        return super().construct_mapping(node, deep)


def manifests_of(files: Mapping[str, str]) -> list[Manifest]:
    """Parse what Helm rendered, without the notes."""
    return [
        manifest
        for path, text in sorted(files.items())
        if path.endswith(".yaml")
        for manifest in yaml.load_all(text, Loader=AsHelmReads)
        if manifest
    ]


@pytest.fixture(scope="session")
def render() -> Render:
    """`render(values, name="rel")`: the manifests of a release."""
    chart = helm_python.Chart.load(str(CHART))

    def rendered(values: Mapping[str, Any], name: str = "rel") -> Sequence[Manifest]:
        return manifests_of(chart.render(dict(values), name=name, namespace="mesh"))

    return rendered
