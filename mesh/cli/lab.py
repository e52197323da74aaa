"""`mesh lab`: scenarios and storms on the simulator or on real Kafka. Spec: lab.md 1, 2."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group

from mesh.cli.lab_tables import run_table, storm_table, verdict_lines
from mesh.cli.options import check_not_read
from mesh.cli.render import Output, OutputOption, render_verdict
from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.lab.scenario import Scenario
    from mesh.local.stopping import Stopping


class BackendName(StrEnum):
    """Where a scenario runs."""

    SIM = "sim"
    KAFKA = "kafka"


ScenarioArgument = Annotated[Path, typer.Argument(help="A scenario file (kind: Scenario).")]
BackendOption = Annotated[
    BackendName, typer.Option(help="The simulator, or real brokers and processes.")
]
HistoryOption = Annotated[
    Path | None,
    typer.Option(help="File for the history of a storm, which `mesh lab check` can judge again."),
]


def run(
    file: ScenarioArgument,
    backend: BackendOption = BackendName.SIM,
    history: HistoryOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a scenario; the result goes to standard output, everything else to standard error.

    Exit codes: 0 ok, 10 not ok, 2 bad file or illegal mesh, 1 could not run.
    """
    from mesh.lab.scenario import load_scenario

    check_not_read("--history", history, file)
    scenario = load_scenario(file)
    if history is not None and not any(step.word == "storm" for step in scenario.steps):
        text = "is for storms, and there is none in it; leave --history out"
        raise wrong_input(str(file), f"--history {text}", code="NO_STORM")
    level = logging.ERROR if backend is BackendName.SIM else logging.WARNING
    result = _result(scenario, backend, history, level)
    said = [one.model_dump(by_alias=True, exclude_unset=True) for one in scenario.steps]
    render_verdict(result, lambda: run_table(result, said), output)


def storm(
    file: ScenarioArgument,
    backend: BackendOption = BackendName.KAFKA,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the random faults (default: the file's).")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(min=0.01, max=10_000, help="Length in minutes (default: the file's)."),
    ] = None,
    rate: Annotated[
        int | None,
        typer.Option(min=1, max=100_000, help="Messages a second (default: the file's)."),
    ] = None,
    history: HistoryOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run a scenario that has a storm, with another seed or load, and print its verdict.

    Exit codes: as for `run`.
    """
    from mesh.lab.scenario import load_scenario, with_storm

    check_not_read("--history", history, file)
    seconds = None if minutes is None else 60 * minutes
    scenario = with_storm(load_scenario(file), file, seed=seed, seconds=seconds, rate=rate)
    # Brokers die on purpose here: what clients say of it would drown the verdict.
    logging.getLogger("mesh.kafka").setLevel(logging.CRITICAL)
    result = _result(scenario, backend, history, logging.CRITICAL)
    render_verdict(result, lambda: storm_table(result), output)


def check(
    file: Annotated[Path, typer.Argument(help="A history that a storm has written.")],
    output: OutputOption = Output.TABLE,
) -> None:
    """Judge a history file once more.

    Exit codes: 0 ok, 10 anomalies, 2 bad file.
    """
    from mesh.lab.checker.history import read_history
    from mesh.lab.checker.judge import check as judged

    verdict = judged(read_history(file)).document()
    render_verdict(verdict, lambda: Group(*verdict_lines(verdict)), output)


def _result(
    scenario: Scenario, backend: BackendName, history: Path | None, level: int
) -> Mapping[str, Any]:
    from mesh.lab.checker.history import check_writable
    from mesh.worker.process.logs import set_up_logs

    if history is not None:
        check_writable(history)
    set_up_logs(level=level)
    if backend is BackendName.SIM:
        return _simulated(scenario, history)
    return _on_kafka(scenario, history)


def _simulated(scenario: Scenario, history: Path | None) -> Mapping[str, Any]:
    from mesh.lab.run import run_scenario
    from mesh.lab.simulated import SimulatedBackend

    backend = SimulatedBackend.of(scenario)
    return run_scenario(scenario, backend, backend_name="sim", history=history)


def _on_kafka(scenario: Scenario, history: Path | None) -> Mapping[str, Any]:
    """Run on brokers and worker processes of this machine; nothing of it is left behind.

    SIGINT and SIGTERM stop everything and end the program.
    """
    from mesh.cli.progress import Reporter
    from mesh.local.stopping import run_stoppable, work_folder

    progress = Reporter()
    results: list[Mapping[str, Any]] = []

    def work(stopping: Stopping) -> int:
        with work_folder(None, "mesh-lab", stopping, progress) as folder:
            results.append(_in_folder(scenario, history, folder, stopping, progress))
        return 0

    code = run_stoppable(work, progress=progress)
    if code:
        sys.exit(code)
    return results[0]


def _in_folder(
    scenario: Scenario, history: Path | None, folder: Path, stopping: Stopping, progress: Any
) -> Mapping[str, Any]:
    from mesh.config.topology_writer import write_topology
    from mesh.lab.real import RealBackend
    from mesh.lab.run import run_scenario
    from mesh.local.fleet import Fleet

    def report(message: str) -> None:
        stopping.check()
        progress(message)

    file = folder / "mesh.yaml"
    write_topology(scenario.topology, file)
    fleet = Fleet.start(scenario.topology, file, folder, apart=scenario.apart, progress=report)
    try:
        backend = RealBackend(fleet)
        try:
            report(f"running {len(scenario.steps)} steps")
            return run_scenario(
                scenario, backend, backend_name="kafka", history=history, report=report
            )
        finally:
            backend.close()
    finally:
        progress("stopping workers and brokers")
        fleet.stop()
