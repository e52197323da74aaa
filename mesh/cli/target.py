"""Which mesh a command speaks to: a file, or the context in force, with addresses on top."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mesh.cli.faults import wrong_input

if TYPE_CHECKING:
    from mesh.model.topology import Topology

FileOption = Annotated[
    Path | None, typer.Option("-f", "--file", help="Topology file; else the context in force.")
]
BootstrapOption = Annotated[
    list[str] | None,
    typer.Option(help="NAME=HOST:PORT of a Kafka cluster; wins over file and context. Repeatable."),
]
ContextOption = Annotated[
    str | None, typer.Option("-c", "--context", help="Context to use; see `mesh context ls`.")
]


def topology_of(
    file: Path | None, bootstrap: list[str] | None, context: str | None = None
) -> Topology:
    """Return the legal topology that a command speaks to, with every address that is known.

    Raises:
        ConfigError: There is none, it is wrong, or an option is.
    """
    from mesh.model.topology import with_addresses

    return with_addresses(*target_of(file, bootstrap, context))


def target_of(
    file: Path | None,
    bootstrap: list[str] | None,
    context: str | None = None,
    *,
    knows_all: bool = True,
) -> tuple[Topology, Mapping[str, str]]:
    """Return the legal topology that a command speaks to as its file says it, and addresses.

    Args:
        file: Option of the command.
        bootstrap: Option of the command.
        context: Option of the command.
        knows_all: Whether the file has every Kafka cluster that may be named.

    Raises:
        ConfigError: There is none, it is wrong, or an option is.
    """
    from mesh.config.context import context_named, current_context
    from mesh.config.legal import load_legal_topology

    addresses: dict[str, str] = {}
    if file is None:
        found = context_named(context) if context is not None else current_context()
        if found is None:
            raise wrong_input(
                "--file", "no topology: give -f FILE, or select a context by `mesh context use`"
            )
        file = found.file
        addresses.update(found.addresses)
    elif context is not None:
        raise wrong_input("--context", "is for commands without --file; leave one of them out")
    topology = load_legal_topology(file)
    if knows_all:
        check_addresses(bootstrap, topology)
    return topology, {**addresses, **addresses_of(bootstrap or [])}


def check_addresses(bootstrap: list[str] | None, topology: Topology) -> None:
    """Refuse an address of a Kafka cluster that does not exist.

    Raises:
        ConfigError: There is none of that name.
    """
    for name in addresses_of(bootstrap or []):
        if name not in topology.kafka:
            known = ", ".join(topology.kafka)
            raise wrong_input(
                f"--bootstrap {name}", f"no Kafka cluster is called {name}; known here: {known}"
            )


def addresses_of(options: list[str]) -> dict[str, str]:
    """Return `--bootstrap NAME=HOST:PORT` options as a mapping.

    Raises:
        ConfigError: One of them has another form, or a name has two.
    """
    from mesh.config.kafka_options import bootstrap_fault

    found: dict[str, str] = {}
    for option in options:
        name, equals, address = option.partition("=")
        if not (equals and name):
            raise wrong_input(f"--bootstrap {option}", "write NAME=HOST:PORT")
        if (fault := bootstrap_fault(address)) is not None:
            raise wrong_input(f"--bootstrap {option}", f"{fault}: NAME=HOST:PORT,HOST:PORT")
        if found.setdefault(name, address) != address:
            raise wrong_input(
                f"--bootstrap {option}",
                f"{name} is {found[name]} already; leave one out, or write {name}=HOST:PORT,...",
            )
    return found


def check_node(topology: Topology, node: str, where: str) -> str:
    """Return the name of a node that exists.

    Raises:
        ConfigError: No node is called that.
    """
    from mesh.config.shapes import nearest

    if node not in topology.nodes:
        hint = nearest(node, list(topology.nodes))
        raise wrong_input(where, f"no node is called {node!r}{hint}", code="UNKNOWN_NODE")
    return node


def quiet_client_library() -> None:
    """Keep connection trouble out of the way: commands say in one line what failed."""
    logging.getLogger("mesh.kafka").setLevel(logging.CRITICAL)


def say(line: str) -> None:
    """Write a line for people on standard error."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
