"""`mesh node run`: one worker process. Spec: K15."""

from __future__ import annotations

import os
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from mesh.cli.options import NodeArgument, ProbesOption
from mesh.config.nearest import check_node
from mesh.errors import missing_package, wrong_input


def run(
    node: NodeArgument,
    file: Annotated[Path, typer.Option("-f", "--file", help="Topology file.")],
    bootstrap: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=HOST:PORT of a Kafka cluster, before what the file says. Repeatable."
        ),
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="File that exists while the node serves here.")
    ] = None,
    listen: ProbesOption = None,
    log_level: Annotated[
        str, typer.Option(help="debug, info, warning or error: what is logged.")
    ] = "info",
    traces: Annotated[
        bool,
        typer.Option(
            "--traces",
            help="Send a span per committed batch to OTEL_EXPORTER_OTLP_ENDPOINT.",
        ),
    ] = False,
    cuts_file: Annotated[Path | None, typer.Option(hidden=True)] = None,
) -> None:
    """Serve a node until SIGTERM. Several workers may serve one node."""
    from mesh.config.kafka_options import addresses_of
    from mesh.config.legal import load_legal_topology
    from mesh.config.topology_file import load_topology
    from mesh.model.topology import with_addresses
    from mesh.worker.main import WorkerProcess
    from mesh.worker.process.logs import set_up_logs

    legal = load_legal_topology(file)
    topology = with_addresses(legal, addresses_of(bootstrap or [], legal.kafka))
    check_node(topology, node, f"{file}: spec.nodes")
    for name in {topology.nodes[n].kafka: None for n in [node, *topology.neighbours(node)]}:
        if topology.kafka[name].is_embedded:
            raise wrong_input(
                f"{file}: spec.kafka.{name}",
                "has no bootstrap.servers: add it, give --bootstrap, or use `mesh up`",
            )
    set_up_logs(level=level_of(log_level))
    if ready_file is not None:
        _check_may_go(ready_file)
    for path in (ready_file, cuts_file):
        if path is not None:
            _make_room(path)
    port = None
    if listen is not None:
        from mesh.worker.http.server import Port

        port = Port(node)
        port.start(listen)
    with ExitStack() as opened:
        spans = None
        if traces:
            if find_spec("opentelemetry") is None:
                raise missing_package("OpenTelemetry is not installed", "otel")
            from mesh.worker.http.spans import exported_spans

            spans = opened.enter_context(exported_spans(node, os.environ))
        WorkerProcess(
            topology,
            node,
            os.environ,
            ready_file=ready_file,
            cuts_file=cuts_file,
            port=port,
            read_file=lambda: load_topology(file).kafka,
            traces=spans,
        ).run()


def level_of(text: str) -> int:
    """Return the level of logs that an option names.

    Raises:
        ConfigError: It is not one.
    """
    known = {"debug": 10, "info": 20, "warning": 30, "error": 40}
    if text.lower() not in known:
        raise wrong_input(f"--log-level {text}", f"write one of {', '.join(known)}")
    return known[text.lower()]


def _check_may_go(path: Path) -> None:
    """Refuse as ready file what no worker has left there: it is removed at the start."""
    from mesh.worker.main import READY

    try:
        if not path.is_file():
            return
        with path.open("rb") as file:
            is_ours = READY.startswith(file.read(len(READY) + 1))
    except OSError:  # whoever writes it says why not
        return
    if not is_ours:
        text = f"{path} is another file, and would be removed; name one for this alone"
        raise wrong_input("--ready-file", text)


def _make_room(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        text = f"cannot be written: {error.strerror}; name another"
        raise wrong_input(str(path), text) from error
