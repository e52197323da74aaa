"""`mesh up`: a whole mesh on this machine, kept running. Spec: DESIGN 8, DESIGN 10."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mesh.cli.progress import Reporter


def up(
    file: Annotated[Path, typer.Argument(help="Topology file.")],
    workers: Annotated[int, typer.Option(min=1, max=16, help="Worker processes per node.")] = 1,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            help="Keep data and logs in this folder; by default a scratch folder, removed at "
            "the end.",
        ),
    ] = None,
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(help="NAME=HOST:PORT of a Kafka cluster that runs already. Repeatable."),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            "--timeout",
            min=1,
            help="Give up after this many seconds in which no further node began to serve.",
        ),
    ] = 120.0,
    duration: Annotated[
        float, typer.Option("--for", min=0, help="Seconds to run; 0: until Ctrl-C.")
    ] = 0.0,
) -> None:
    """Run every node of a topology, on embedded Kafka where it names no address.

    A worker or broker that dies is started again. The mesh becomes the selected context, so that
    other commands find it. Ctrl-C or SIGTERM stops everything.
    """
    from mesh.config.kafka_options import addresses_of
    from mesh.config.legal import load_legal_topology
    from mesh.config.published import as_yaml_file
    from mesh.local.stopping import Stopping, run_stoppable, work_folder
    from mesh.local.up import run_up, software_for
    from mesh.operate.changes.founding import OtherInForceError

    topology = load_legal_topology(file)
    addresses = addresses_of(bootstrap or [], topology.kafka)
    progress = Reporter()

    def work(stopping: Stopping) -> int:
        with work_folder(directory, "mesh-up", stopping, progress) as folder:
            try:
                return run_up(
                    topology,
                    file.absolute(),
                    folder,
                    addresses=addresses,
                    software=software_for(topology, addresses, os.environ, progress),
                    workers=workers,
                    patience_s=patience,
                    duration_s=duration,
                    stopping=stopping,
                    progress=progress,
                )
            except OtherInForceError as error:
                if directory is not None:  # brokers that stop now tell it to nobody
                    kept = folder / "in-force.yaml"
                    kept.write_text(as_yaml_file(error.standing.document), encoding="utf-8")
                    progress(f"what is in force is in {kept}")
                raise

    sys.exit(run_stoppable(work, progress=progress))
