"""What a run of the lab prints: its steps, what came of them, and the verdict on a storm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any

from rich.console import Group, RenderableType

from mesh.cli.render import as_flow, grid

SAID_MAX = 300
"""So many characters of what a step says are shown."""


def run_table(result: Mapping[str, Any], written: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the result of a scenario for people.

    Args:
        result: The document that `-o json` prints. Spec: lab.md 2.
        written: What each step says in the file; the result may end before them, or have one
            more.
    """
    said = chain(written, repeat({}))
    steps = [
        (number, step["step"], _cut(as_flow(what)), _outcome(step), _told(step["detail"]))
        for number, (step, what) in enumerate(zip(result["steps"], said, strict=False))
    ]
    checker = result.get("checker")
    return Group(
        _head(result),
        grid(("", "STEP", "WHAT", "RESULT", "DETAIL"), steps),
        *(grid(columns, rows) for columns, rows in _of_messages(result) if rows),
        *(grid(columns, rows) for columns, rows in _of_roles(result) if rows),
        *(() if checker is None else verdict_lines(checker)),
    )


def _cut(said: str) -> str:
    """Return the beginning of what a step says: a payload may have a million characters."""
    return said if len(said) <= SAID_MAX else f"{said[:SAID_MAX]}..."


_Table = tuple[Sequence[str], Sequence[Sequence[object]]]


def _of_messages(result: Mapping[str, Any]) -> Sequence[_Table]:
    links = result["links"].items()
    endpoints = result["endpoints"].items()
    columns = ("COUNT", "DISTINCT", "DUPLICATES", "MISSING", "DISORDERED")
    return (
        (
            ("LINK", "MESSAGES", "FRAMES", "CONTROL"),
            [(name, link["messages"], link["frames"], link["control"]) for name, link in links],
        ),
        (
            ("ENDPOINT", *columns),
            [(name, *(one[column.lower()] for column in columns)) for name, one in endpoints],
        ),
        (
            ("ENDPOINT", "PATH", "COUNT"),
            [(name, path, count) for name, e in endpoints for path, count in e["paths"].items()],
        ),
        (("NOT FORWARDED", "COUNT"), list(result["not_forwarded"].items())),
    )


def _of_roles(result: Mapping[str, Any]) -> Sequence[_Table]:
    """Return what only scenarios with roles have."""
    counts = ("REPLIES", "NULLS", "NOT FOUND")
    sends = [
        (
            send["name"],
            send["from"],
            f"{send['tree']}/{send['role']}",
            " ".join(send["reached"]),
            *(send[count.lower().replace(" ", "_")] for count in counts),
        )
        for send in result.get("sends", ())
    ]
    holders = [(role, " ".join(nodes)) for role, nodes in result.get("roles", {}).items()]
    parts: dict[str, list[str]] = {}
    for node, colour in result.get("colours", {}).items():
        parts.setdefault(colour, []).append(node)
    coloured = [(colour, " ".join(nodes)) for colour, nodes in parts.items()]
    return (
        (("SEND", "FROM", "TO", "REACHED", *counts), sends),
        (("ROLE", "HELD BY"), holders),
        (("COLOUR AT THE END", "NODES"), coloured),
    )


def _head(result: Mapping[str, Any]) -> str:
    return f"{result['name']} on {result['backend']}: {'ok' if result['ok'] else 'NOT OK'}"


def _outcome(step: Mapping[str, Any]) -> str:
    return "ok" if step["ok"] else "FAILED"


def _told(detail: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key} {as_flow(value) if isinstance(value, dict) else value}"
        for key, value in detail.items()
        if value != {}
    )


def storm_table(result: Mapping[str, Any]) -> RenderableType:
    """Return the verdict on a run with a storm."""
    errors = [
        f"step {number}, {step['step']}: {step['detail'].get('error', 'failed')}"
        for number, step in enumerate(result["steps"])
        if not step["ok"]
    ]
    head = _head(result)
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
