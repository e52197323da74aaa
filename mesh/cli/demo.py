"""`mesh demo`: a real feed over three Kafka clusters, certified live. Spec: DESIGN 10."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mesh.cli.progress import Reporter
from mesh.cli.render import Output, OutputOption, console, grid, render

if TYPE_CHECKING:
    from mesh.lab.demo.report import Report


def demo(
    duration: Annotated[
        float,
        typer.Option(
            min=0, help="Seconds of traffic before the final account; 0: run until Ctrl-C."
        ),
    ] = 0.0,
    rate: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=20_000,
            show_default=False,
            help="Flights per second. By default 1000, and until Ctrl-C no more than the auditor "
            "proves on this machine.",
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Run the auditor, which needs Spark.")
    ] = True,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Keep data and logs in a new folder below this one; by default a scratch folder, "
            "removed at the end.",
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the flights of a year over three real Kafka clusters and thirteen nodes, and audit it.

    Three one-hop zones joined by a multi-hop chain, and two clusters joined by an external link.
    Exit code 10: something was missing, doubled or found.
    """
    import tempfile

    from mesh.lab.demo.run import DemoSettings, run_demo
    from mesh.local.software import archive_spark, prepare_kafka
    from mesh.local.stopping import Stopping, run_stoppable, work_folder

    progress = Reporter()

    def work(stopping: Stopping) -> int:
        chosen = None
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            chosen = Path(tempfile.mkdtemp(prefix="demo-", dir=directory))
            progress(f"data and logs: {chosen}")
        software = prepare_kafka(progress=progress)
        with work_folder(chosen, "mesh-demo", stopping, progress) as folder:
            settings = DemoSettings(
                folder=folder,
                software=software,
                duration_s=duration,
                rate=rate,
                is_audited=audit,
                console=console(is_error=True) if output is Output.TABLE else None,
            )
            report = run_demo(settings, stopping=stopping, progress=progress)
        progress("stopped; no process is left")
        if report is None:
            return 0
        render(report.data, lambda: _tables(report), output)
        if audit and not stopping.is_noticed:  # who has stopped it wants no more of it
            archive_spark(progress=progress)
        return report.exit_code

    sys.exit(run_stoppable(work, progress=progress))


def _tables(report: Report) -> RenderableType:
    """Return endpoints, links, and what is to be said about them."""
    data = report.data
    endpoints, links = data["endpoints"], data["links"]
    assert isinstance(endpoints, dict)
    assert isinstance(links, dict)
    summary = (
        f"{data['published']:,} messages published, {data['delivered']:,} delivered; "
        f"{data['certificates']:,} certificates cover {data['certified']:,} deliveries; "
        f"first delivery after {data['first_delivery_s']} s; {data['memory_mb']:,} MB"
        f"{_certified_after(data)}"
    )
    verdict = report.faults or ["nothing missing, nothing doubled, nothing found"]
    return Group(
        grid(
            ("ENDPOINT", "CLASS", "EXPECTED", "DELIVERED", "MISSING", "DUPLICATES"),
            [(name, *row.values()) for name, row in endpoints.items()],
        ),
        grid(
            ("LINK", "MESSAGES", "FRAMES", "DIRECT", "PER SECOND"),
            [(name, *row.values()) for name, row in links.items()],
        ),
        *(Text(line) for line in (summary, *verdict)),
    )


def _certified_after(data: Mapping[str, object]) -> str:
    """Return when the first and the last certificate came; nothing without an auditor."""
    first, last = data["first_certificate_s"], data["last_certificate_s"]
    if first is None:
        return ""
    came = "" if last is None else f", the last {last} s after the last delivery"
    return f"; first certificate {first} s after the first message{came}"
