"""Every value has its default, its check and its line in the chart's README."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.helm.values_table import CHART, README, VALUES, defaults, leaves, lines, page


def declared(schema: Mapping[str, Any], below: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Yield the path of each value that a schema knows by its name."""
    for name, one in below.get("properties", {}).items():
        found = one
        if "$ref" in one:
            found = schema["definitions"][one["$ref"].rpartition("/")[2]]
        if "properties" in found:
            yield from declared(schema, found, f"{at}{name}.")
        else:
            yield f"{at}{name}"


def test_the_readme_has_the_table_of_values() -> None:
    """Generated from values.yaml, so that neither says what the other does not."""
    assert README.read_text(encoding="utf-8") == page(), "run: python -m tests.helm.values_table"


def test_the_table_has_every_value_and_says_what_it_is() -> None:
    """A line of its own, or one in a mapping on one line; said there or of what it belongs to."""
    rows = {path: (default, told) for path, default, told in lines(VALUES.read_text("utf-8"))}
    assert len(rows) == len(list(lines(VALUES.read_text("utf-8"))))
    for path, _ in leaves(defaults()):
        parts = path.split(".")
        above = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
        nearest = next(one for one in above if one in rows)
        assert nearest == path or parts[-1] in rows[nearest][0], path
        assert any(rows[one][1] for one in above if one in rows), f"{path}: say what it is"


def test_every_value_that_is_checked_has_a_default() -> None:
    """What the schema accepts stands in values.yaml; what may be left out there is known here."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    known = {path for path, _ in leaves(defaults())}
    mappings = {path.rpartition(".")[0] for path in known}
    optional = {
        f"{probe}Probe.initialDelaySeconds" for probe in ("startup", "liveness", "readiness")
    }
    optional |= {f"{of}resources.claims" for of in ("", "audit.", "dashboard.", "evaluationKafka.")}
    optional |= {f"topology.spec.{part}" for part in ("kafka", "nodes", "zones")}
    assert {one for one in declared(schema, schema) if one not in mappings} - known == optional
