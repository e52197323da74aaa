"""Commands that are imported and built when they are named, and not before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from mesh.cli.commands import COMMANDS, Command, CommandGroup, Entry, Sections
from mesh.cli.render import standard_output


class LazyCommands(MutableMapping[str, Any]):
    """Commands by name, each built when it is asked for. Names and order cost nothing."""

    def __init__(self, entries: dict[str, Entry]) -> None:
        self._entries = entries
        self._built: dict[str, TyperCommand | TyperGroup] = {}

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if name not in self._built:
            self._built[name] = _built(name, self._entries[name])
        return self._built[name]

    def __setitem__(self, name: str, command: TyperCommand | TyperGroup) -> None:
        self._built[name] = command

    def __delitem__(self, name: str) -> None:
        del self._entries[name]
        self._built.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _show_help(ctx: Any, _param: object, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        with standard_output():
            typer.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


class Helpful:
    """Shows its help as any other output: where it cannot be written, that is what is said."""

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option; the library's own raises whatever the system said."""
        option: Any = super().get_help_option(ctx)  # type: ignore[misc]
        if option is not None:
            option.callback = _show_help
        return option


class LazyGroup(Helpful, TyperGroup):
    """A group of commands whose help is made from the table alone, under headings."""

    def __init__(self, *, sections: Sections = COMMANDS, **given: Any) -> None:
        super().__init__(**given)
        self._sections = sections
        entries = {name: one for part in sections.values() for name, one in part.items()}
        self.commands = LazyCommands(entries)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; `ls` is short for `list`, wherever there is one."""
        return super().get_command(ctx, "list" if cmd_name == "ls" else cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as the library calls it
        """Write the list of commands; the library's own would build each to ask what it does."""
        width = max(len(name) for part in self._sections.values() for name in part)
        for heading, part in self._sections.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), one.summary) for name, one in part.items()])


NUMBER_MAX: Mapping[type, float] = {float: 1e9, int: 10**18}
"""Thirty years in seconds, and more than Kafka can count: beyond them clocks and client libraries
overflow."""


class CountedCommand(Helpful, TyperCommand):
    """A command whose numbers can be counted with: none is `nan`, or larger than any clock."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the words of a command line; an empty path is none, and not the folder one is in.

        Raises:
            ConfigError: One is empty.
        """
        has_empty = any(word == "" or word.endswith("=") for word in args)
        left = super().parse_args(ctx, args)
        for one in self.params if has_empty else ():
            if ctx.params.get(one.name or "") == Path():
                from mesh.errors import wrong_input

                raise wrong_input(one.opts[0], "is empty; write a path")
        return left

    def invoke(self, ctx: Any) -> Any:
        """Check what was given, then do it.

        Raises:
            ConfigError: A number is not one of these.
        """
        for one in self.params:
            value = ctx.params.get(one.name or "")
            most = NUMBER_MAX.get(type(value))
            if most is not None and not abs(value) <= most:  # so of nan, which is below nothing
                from mesh.errors import wrong_input

                text = f"{str(value)[:40]} cannot be counted; write a number up to {most:,.0f}"
                raise wrong_input(one.opts[0], text)
        return super().invoke(ctx)


def _built(name: str, entry: Entry) -> TyperCommand | TyperGroup:
    match entry:
        case CommandGroup(summary, commands):
            return LazyGroup(
                sections={"Commands": commands},
                name=name,
                help=f"{summary}.",
                no_args_is_help=True,
                rich_markup_mode=None,
            )
        case Command(place):
            from mesh.cli.target import with_bundled_options

            module, function = place.split(":")
            alone = typer.Typer(add_completion=False, rich_markup_mode=None)
            alone.command(name, cls=CountedCommand)(
                with_bundled_options(getattr(import_module(f"mesh.cli.{module}"), function))
            )
            command: TyperCommand = cast("TyperCommand", typer.main.get_command(alone))
            return command
