"""What is released says one version everywhere, and the changelog what is in it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.version import Version
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
HEADING = re.compile(r"(\d+\.\d+\.\d+)(, not yet released|, \d{4}-\d{2}-\d{2})")


def test_the_version_has_release_notes_and_is_the_charts() -> None:
    """Its section is the first one; each has a date or none yet, and begins with a sentence."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    _, *sections = re.split(r"^## ", text, flags=re.MULTILINE)
    found: list[Version] = []
    for heading, _, rest in (section.partition("\n") for section in sections):
        match = HEADING.fullmatch(heading)
        assert match is not None, f"{heading}: no version with a date, or `, not yet released`"
        found.append(Version(match[1]))
        assert rest[:1].isalpha(), f"{heading}: begins without what has to be done"
    assert str(found[0]) == project["version"]
    assert found == sorted(set(found), reverse=True)
    chart = YAML(typ="safe").load((ROOT / "helm/trellis-mesh/Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (project["version"],) * 2
