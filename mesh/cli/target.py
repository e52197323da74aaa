"""Which mesh a command line names: a file, or the context in force, with addresses on top."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.model.topology import Topology

BootstrapOption = Annotated[
    list[str] | None,
    typer.Option(help="NAME=HOST:PORT of a Kafka cluster, before file and context. Repeatable."),
]
FileOption = Annotated[
    Path | None,
    typer.Option("-f", "--file", help="Topology file (default: that of the context in force)."),
]
ContextOption = Annotated[
    str | None, typer.Option("-c", "--context", help="Context to use; see `mesh context list`.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A mesh as its file, or the file of its context, states it.

    Attributes:
        plain: The legal topology as the file says it.
        addresses: Where Kafka clusters are, by context and options; they win over the file.
        context: Name of the context; empty if a file was named.
        file: Where the topology is written.
    """

    plain: Topology
    addresses: Mapping[str, str]
    context: str = ""
    file: Path = Path()

    @property
    def topology(self) -> Topology:
        """The topology with every address that is known."""
        from mesh.model.topology import with_addresses

        return with_addresses(self.plain, self.addresses)


@dataclass(frozen=True, slots=True)
class Target:
    """The options by which a command line names a mesh; see `with_bundled_options`."""

    file: FileOption = None
    bootstrap: BootstrapOption = None
    context: ContextOption = None

    def stated(self) -> Stated:
        """Return the mesh as its file states it.

        Whether `bootstrap` names only Kafka clusters that exist is checked by `check_addresses`,
        when it is known which do.

        Raises:
            ConfigError: There is none, it is wrong, or an option is.
        """
        from mesh.config.context import context_named, current_context
        from mesh.config.kafka_options import addresses_of
        from mesh.config.legal import load_legal_topology

        given = addresses_of(self.bootstrap or ())
        if self.file is not None:
            if self.context is not None:
                message = "is for commands without --file; leave one of them out"
                raise wrong_input("--context", message)
            plain = load_legal_topology(self.file)
            return Stated(plain=plain, addresses=given, file=self.file)
        found = context_named(self.context) if self.context is not None else current_context()
        if found is None:
            raise wrong_input(
                "--file", "no topology: give -f FILE, or select a context by `mesh context use`"
            )
        plain = load_legal_topology(found.file)
        addresses = {**found.addresses, **given}
        return Stated(plain=plain, addresses=addresses, context=found.name, file=found.file)

    def check_addresses(self, topology: Topology) -> None:
        """Refuse an address of a Kafka cluster that does not exist.

        Raises:
            ConfigError: There is none of that name.
        """
        from mesh.config.kafka_options import addresses_of

        addresses_of(self.bootstrap or (), topology.kafka)


HERE = Target()
"""The context in force."""


def topology_of(target: Target) -> Topology:
    """Return the topology of a file or context, with every address that is known.

    Raises:
        ConfigError: There is none, it is wrong, or an option is.
    """
    stated = target.stated()
    target.check_addresses(stated.plain)
    return stated.topology


def with_bundled_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes each option of its bundles, such as `target`, by itself.

    A bundle is a parameter whose default is a dataclass: each field is an option.
    """
    signature = inspect.signature(command, eval_str=True)
    bundles: Mapping[str, Any] = {
        one.name: one.default for one in signature.parameters.values() if is_dataclass(one.default)
    }
    if not bundles:
        return command

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        for name, bundle in bundles.items():
            options = {one.name: given.pop(one.name) for one in fields(bundle)}
            given[name] = type(bundle)(**options)
        command(**given)

    parameters: list[inspect.Parameter] = []
    for one in signature.parameters.values():
        if one.name in bundles:
            of_bundle = inspect.signature(type(bundles[one.name]), eval_str=True).parameters
            parameters += [option.replace(kind=one.kind) for option in of_bundle.values()]
        else:
            parameters.append(one)
    with_options.__annotations__ = {one.name: one.annotation for one in parameters}
    vars(with_options)["__signature__"] = signature.replace(parameters=parameters)
    return with_options
