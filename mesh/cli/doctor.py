"""`mesh doctor`: is this mesh well, and if not, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType

from mesh.cli import looking
from mesh.cli.faults import wrong_input
from mesh.cli.looking import Look, look
from mesh.cli.render import Output, OutputOption, View, grid, render
from mesh.cli.target import BootstrapOption, ContextOption, FileOption

if TYPE_CHECKING:
    from mesh.client.health import Check

EXIT_UNHEALTHY = 10
_AGAIN_S = 1.0


def mount(app: typer.Typer) -> None:
    """Put the command of this module on the command line."""
    app.command()(doctor)


def doctor(
    category: Annotated[
        list[str] | None,
        typer.Option(help="kafka, topics, nodes, links, interest or delivery; repeatable."),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to look again until nothing fails.")
    ] = 0.0,
    file: FileOption = None,
    bootstrap: BootstrapOption = None,
    context: ContextOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check Kafka, topics, nodes, links, interest and delivery. Exit code 10: something failed."""
    from mesh.client.health import Result

    chosen = _chosen(category or [])
    deadline_ms = looking.now_ms() + int(wait * 1000)
    while True:
        checks = _checks(chosen, file, bootstrap, context)
        is_well = all(check.result is not Result.FAILED for check in checks)
        if is_well or looking.now_ms() >= deadline_ms:
            break
        looking.pause(_AGAIN_S)
    data = _as_mapping(checks, ok=is_well)
    render(View(data=data, table=lambda: _table(data["categories"])), output)
    raise typer.Exit(0 if is_well else EXIT_UNHEALTHY)


def _chosen(names: Sequence[str]) -> Sequence[Any]:
    from mesh.client.health import Category

    for name in names:
        if name not in list(Category):
            raise wrong_input(f"--category {name}", f"write one of {', '.join(Category)}")
    return [Category(name) for name in names] or list(Category)


def _checks(
    chosen: Sequence[Any], file: Any, bootstrap: list[str] | None, context: str | None
) -> Sequence[Check]:
    from mesh.client.health import Examination, examine
    from mesh.runtime.provision import node_topics

    def see(seen: Look) -> Examination:
        return Examination(
            topology=seen.topology,
            kafka=seen.kafka,
            view=seen.view,
            beats=seen.beats,
            expected={node: node_topics(seen.topology, node) for node in seen.topology.nodes},
            pause=looking.pause,
        )

    with look(file, bootstrap, context, needs_kafka=False) as seen:
        return list(examine(see(seen), chosen))


def _as_mapping(checks: Sequence[Check], *, ok: bool) -> dict[str, Any]:
    grouped: dict[str, list[dict[str, str]]] = {}
    for check in checks:
        grouped.setdefault(str(check.category), []).append(
            {
                "description": check.description,
                "result": str(check.result),
                "hint": check.hint,
                "error": check.error,
            }
        )
    return {
        "ok": ok,
        "categories": [{"name": name, "checks": found} for name, found in grouped.items()],
    }


def _table(categories: Sequence[Mapping[str, Any]]) -> RenderableType:
    rows = [
        (group["name"], check["result"], check["description"], check["error"], check["hint"])
        for group in categories
        for check in group["checks"]
    ]
    return grid(("ABOUT", "RESULT", "CHECK", "FOUND", "DO THIS"), rows)
