"""The table of values in the chart's README, made of values.yaml and its comments.

`python -m tests.helm.values_table` writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

CHART = Path(__file__).parents[2] / "helm" / "trellis-mesh"
VALUES, README = CHART / "values.yaml", CHART / "README.md"
BEGIN, END = "<!-- values -->\n", "<!-- end of values -->\n"
KEY = re.compile(r"( *)([A-Za-z]+):(?: +([^#]*[^# ]))?(?: +# (.*))?")
REMARK = re.compile(r"( *)# (.*)")


def lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield (path, default, meaning) of each line of a values file that has a key.

    What a key means stands behind it, or above it at the same depth. The default of a mapping
    whose keys have lines of their own is empty.
    """
    above: list[str] = []
    path: list[str] = []
    for line in text.splitlines():
        if remark := REMARK.fullmatch(line):
            is_first = not above
            if is_first or above[0] == remark[1]:
                above += [remark[1], remark[2]] if is_first else [remark[2]]
        elif key := KEY.fullmatch(line):
            indent, name, default, behind = key.groups()
            path[len(indent) // 2 :] = [name]
            told = above[1:] if above and above[0] == indent else []
            yield ".".join(path), default or "", " ".join([*told, *([behind] if behind else [])])
            above = []
        else:
            assert not line, f"not understood: {line}"
            above = []


def leaves(values: Mapping[str, Any], below: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and default of every value."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{below}{name}.")
        else:
            yield f"{below}{name}", value


def table() -> str:
    """Return the table, with the marks around it."""
    rows = ["| value | default | what it is |", "|---|---|---|"]
    for path, default, meaning in lines(VALUES.read_text(encoding="utf-8")):
        shown = f"`{default}`" if default else ""
        rows.append(f"| `{path}` | {shown} | {meaning.replace('|', chr(92) + '|')} |")
    return f"{BEGIN}{chr(10).join(rows)}\n{END}"


def page() -> str:
    """Return the README as it should be."""
    before, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{table()}{rest.partition(END)[2]}"


def defaults() -> Mapping[str, Any]:
    """Return the values as Helm reads them."""
    read: Mapping[str, Any] = YAML(typ="safe").load(VALUES.read_text(encoding="utf-8"))
    return read


if __name__ == "__main__":
    README.write_text(page(), encoding="utf-8")
