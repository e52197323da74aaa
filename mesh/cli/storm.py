"""What people see of a storm: the faults that happened, and the checker's verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from mesh.cli.render import grid


def storm_table(result: Mapping[str, Any]) -> RenderableType:
    """Return the verdict on a run with a storm."""
    errors = [
        f"step {number}, {step['step']}: {step['detail'].get('error', 'failed')}"
        for number, step in enumerate(result["steps"])
        if not step["ok"]
    ]
    head = f"{result['name']} on {result['backend']}: {'ok' if result['ok'] else 'NOT OK'}"
    checker = result.get("checker")
    if checker is None:
        return Group(head, *errors, "no verdict: the storm did not come to its end")
    silence_s = checker["longest_silence_ms"] / 1000
    return Group(
        head,
        *errors,
        grid(("FAULT", "TIMES"), list(checker["faults"].items())),
        *verdict_lines(checker),
        f"longest silence at an endpoint: {silence_s:.1f} s",
        f"workers that ended by themselves: {len(checker['workers_fallen'])}",
        *(f"  {fallen}" for fallen in checker["workers_fallen"]),
    )


def verdict_lines(checker: Mapping[str, Any]) -> Sequence[str]:
    """Return the counts and the anomalies of a verdict, a line each."""
    published = checker["published"]
    outcomes = f"{published['ok']} acknowledged, {published['failed']} failed or aborted"
    lines = [
        f"published: {outcomes}, {published['unknown']} unknown",
        f"delivered: {checker['delivered']} records; {checker['owed']} were owed",
    ]
    if not checker["anomalies"]:
        return [*lines, "anomalies: none"]
    lines.append("anomalies:")
    for one in checker["anomalies"]:
        lines.append(f"  {one['kind']}: {one['text']}")
        lines.append(f"    {', '.join(one['ids'])}")
    return lines
