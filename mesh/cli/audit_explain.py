"""`mesh audit explain`: one finding with its rule, its records and what to do. Spec: DESIGN 7."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType

from mesh.cli import trace
from mesh.cli.audit import audited
from mesh.cli.render import Output, OutputOption, grid, in_utc, render
from mesh.cli.session import Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import ConfigError, wrong_input


def explain(
    finding: Annotated[
        str,
        typer.Argument(
            metavar="FINDING",
            help="Id of the finding, or how it begins; `mesh audit report` lists them.",
        ),
    ],
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Explain one finding: which rule is broken, which records show it, and what to do.

    Of the first message that it names all records are shown, hop by hop.
    """
    from mesh.operate.audit.advice import first_id
    from mesh.operate.documents.messages import trace_document
    from mesh.operate.messages.trace import Tracer

    found = audited(target)
    one = found.finding(finding)
    if one is None:
        text = "names no finding, or several; `mesh audit report` lists them"
        raise wrong_input("FINDING", f"{finding[:60]!r} {text}")
    certificates = found.certificates_of(one)
    seen, way = None, None
    for id_ in list(one.get("ids") or [])[:1]:
        with open_session(target, heard=Heard.NOBODY) as mesh:
            tracer = Tracer(mesh.topology, mesh.kafka)
            try:
                seen = tracer.trace(tracer.find(first_id(str(id_))))
            except ConfigError:
                continue  # a range of records, parts of a mesh: no message to follow
            way = trace_document(seen)
    data: dict[str, Any] = {"finding": one, "certificates": list(certificates), "message": way}

    def table() -> RenderableType:
        parts = [*_lines(one), *_certified(data)]
        if seen is not None and way is not None:
            parts += ["", "all records of the first message:", trace.table_of(seen, way)]
        return Group(*parts)

    render(data, table, output)


def _lines(one: Mapping[str, Any]) -> list[RenderableType]:
    where = one.get("link") or one.get("endpoint") or one.get("source") or ""
    lines = [f"{one.get('kind')} at {where}: {one.get('text')}"]
    first, last = one.get("first_seen_ms"), one.get("last_seen_ms")
    if isinstance(first, int) and isinstance(last, int):
        again = "" if first == last else f", grew until {in_utc(last)}"
        lines.append(f"found {in_utc(first)}{again}, by run {one.get('run')}")
    ids = [str(id_) for id_ in one.get("ids") or []]
    fields = [
        ("rule", one.get("rule")),
        ("node", one.get("node")),
        ("path", one.get("path")),
        ("messages", ", ".join(ids[:5]) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")),
        ("records", ", ".join(one.get("evidence") or [])),
        ("what to do", one.get("what_to_do")),
    ]
    return [*lines, *(f"{name}: {value}" for name, value in fields if value)]


def _certified(data: Mapping[str, Any]) -> list[RenderableType]:
    rows = [
        (
            one.get("endpoint"),
            f"{one.get('from')}..{one.get('to')}",
            one.get("expected"),
            one.get("delivered"),
            "yes" if one.get("equal") else "no",
        )
        for one in data["certificates"]
    ]
    if not rows:
        return []
    return ["", grid(("ENDPOINT", "OFFSETS", "EXPECTED", "DELIVERED", "EQUAL"), rows)]
