"""`mesh demo`: a real feed over three Kafka clusters, certified live. Spec: DESIGN 10."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from mesh.cli.render import Output, OutputOption, View, render
from mesh.cli.up import Reporter


def demo(
    duration: Annotated[
        float, typer.Option(min=0, help="Seconds of traffic, then an account; 0: until Ctrl-C.")
    ] = 0.0,
    rate: Annotated[float, typer.Option(min=1, max=20_000, help="Flights per second.")] = 1000.0,
    audit: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Run the auditor, which needs Spark.")
    ] = True,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Folder that gets a new one for data and logs, kept; else a scratch one, removed.",
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the flights of a year over three real Kafka clusters and thirteen nodes, and audit it.

    Three one-hop zones joined by a multi-hop chain, and two clusters joined by an external link.
    Exit code 10: something was missing, doubled or found.
    """
    import tempfile

    from mesh.cli.demo_tables import tables_of
    from mesh.lab.demo.run import DemoSettings, run_demo
    from mesh.local.class_archive import prepare_kafka
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
                is_for_people=output is Output.TABLE,
            )
            report = run_demo(settings, stopping=stopping, progress=progress)
        progress("stopped; no process is left")
        if report is None:
            return 0
        render(View(data=report.data, table=lambda: tables_of(report)), output)
        return report.exit_code

    sys.exit(run_stoppable(work, progress=progress))
