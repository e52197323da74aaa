"""What `mesh doctor` prints for monitoring programs: Nagios and Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from mesh.cli.render import printable

_LEVELS = {"ok": 0, "warning": 1, "failed": 2}
_WORDS = ("OK", "WARNING", "CRITICAL")


class DoctorOutput(StrEnum):
    """How the checks are printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAGIOS = "nagios"
    PROMETHEUS = "prometheus"


def _checks(categories: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for group in categories:
        for check in group["checks"]:
            yield group["name"], check


def worst_level(categories: Sequence[Mapping[str, Any]]) -> int:
    """Return the worst result as Nagios and Prometheus count: 0 ok, 1 warning, 2 failed."""
    return max((_LEVELS[check["result"]] for _, check in _checks(categories)), default=0)


def nagios_lines(categories: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the status line with performance data, then one line per check that is not well."""
    found = list(_checks(categories))
    counts = Counter(str(check["result"]) for _, check in found)
    word = _WORDS[worst_level(categories)]
    yield (
        f"MESH {word} - {counts['failed']} failed, {counts['warning']} warnings, "
        f"{len(found)} checks | failed={counts['failed']} warnings={counts['warning']} "
        f"checks={len(found)}"
    )
    for name, check in found:
        if check["result"] != "ok":
            line = f"{check['result']}: {name}: {check['description']}: {check['error']}"
            # What is behind a bar counts as performance data.
            told = f"{line} ({check['hint']})".replace("|", "/").replace("\n", " ")
            yield printable(told)


def prometheus_lines(categories: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the text format that node exporters collect from files."""
    found = list(_checks(categories))
    yield "# HELP mesh_doctor_check_result What a check found: 0 ok, 1 warning, 2 failed."
    yield "# TYPE mesh_doctor_check_result gauge"
    for name, check in found:
        labels = _labels(category=name, check=check["description"])
        yield f"mesh_doctor_check_result{labels} {_LEVELS[check['result']]}"
    yield "# HELP mesh_doctor_figure Numbers behind the checks."
    yield "# TYPE mesh_doctor_figure gauge"
    for name, check in found:
        for figure, value in check["figures"].items():
            labels = _labels(category=name, check=check["description"], figure=figure)
            yield f"mesh_doctor_figure{labels} {value}"


def _labels(**labels: str) -> str:
    escaped = (
        (key, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for key, value in labels.items()
    )
    return "{" + ",".join(f'{key}="{value}"' for key, value in escaped) + "}"
