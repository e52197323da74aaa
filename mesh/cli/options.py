"""Options and arguments that several commands take: one name for each meaning.

Those that say which mesh is meant stand in `target`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mesh.errors import wrong_input

if TYPE_CHECKING:
    from mesh.model.frames import MessageClass


def checked_name(param: typer.CallbackParam, value: str | list[str] | None) -> Any:
    """Return the name, or names, of an option or argument; what no topology could name is refused.

    So it is known before any Kafka cluster is asked which names there are.

    Raises:
        ConfigError: One is no name.
    """
    from mesh.model.names import name_fault

    for one in [value] if isinstance(value, str) else value or ():
        if (fault := name_fault(one)) is not None:
            raise wrong_input((param.metavar or param.opts[0]).rstrip("."), fault, code="BAD_NAME")
    return value


def checked_zone(text: str) -> str:
    """Return a name of a zone, or what may be a title: whoever gives that is told the name later.

    Raises:
        ConfigError: It can be neither.
    """
    from mesh.config.shapes import is_one_line
    from mesh.model.names import name_fault

    if (fault := name_fault(text)) is not None and not (text and is_one_line(text)):
        raise wrong_input("ZONE", fault, code="BAD_NAME")
    return text


def checked_filter(text: str) -> str:
    """Return the filter of an argument.

    Raises:
        ConfigError: It is none; the text says why.
    """
    from mesh.model.subject import filter_fault

    if (fault := filter_fault(text)) is not None:
        raise wrong_input("FILTER", fault)
    return text


OtherTopologyArgument = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="A topology file (default: the topology in force)."),
]

NodeArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="Name of the node.", callback=checked_name)
]
NodeOption = Annotated[
    str, typer.Option("--node", "-n", help="The node next to you.", callback=checked_name)
]
OnlyNodeOption = Annotated[
    str | None,
    typer.Option("--node", "-n", help="Only what belongs to this node.", callback=checked_name),
]
EndArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="One end of the link.", callback=checked_name)
]
OtherEndArgument = Annotated[
    str, typer.Argument(metavar="NODE", help="The other end.", callback=checked_name)
]
ZoneArgument = Annotated[
    str, typer.Argument(metavar="ZONE", help="Its name, not its title.", callback=checked_zone)
]

ClassOption = Annotated[str, typer.Option("--class", help="guaranteed or direct.")]
HeaderOption = Annotated[
    list[str] | None,
    typer.Option(help="NAME=VALUE of the message, in order: selectors may ask for it. Repeatable."),
]
CountOption = Annotated[int | None, typer.Option(min=1, help="Print that many messages and end.")]

TreeArgument = Annotated[str, typer.Argument(metavar="TREE", help="Name or UUID of the tree.")]
RoleArgument = Annotated[str, typer.Argument(metavar="ROLE", help="Its name.")]
ReplyTimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0.1, help="Seconds to wait for the last reply.")
]

YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
AllowDeleteOption = Annotated[
    bool,
    typer.Option(
        "--allow-delete",
        help="Delete topics that nobody needs any more, with unread messages in them.",
    ),
]
ChangeWaitOption = Annotated[
    float | None,
    typer.Option(
        "--wait",
        min=0,
        help="Seconds to allow (default 60); if given, also waits for nodes that are down.",
    ),
]
AcceptGapOption = Annotated[
    bool, typer.Option("--accept-gap", help="Accept the loss of exactly what is shown.")
]
ResumeWaitOption = Annotated[
    float, typer.Option("--wait", min=0, help="Seconds to wait until it reads on.")
]

WHY_CHARS_MAX = 200


def _checked_why(text: str) -> str:
    from mesh.config.shapes import is_one_line

    if len(text) > WHY_CHARS_MAX or not is_one_line(text):
        message = f"write one line of at most {WHY_CHARS_MAX} characters, none of them for control"
        raise wrong_input("--why", message)
    return text


WhyOption = Annotated[
    str, typer.Option(help="Why, for others who see the pause.", callback=_checked_why)
]
ProbesOption = Annotated[
    str | None,
    typer.Option(
        "--listen",
        metavar="HOST:PORT",
        help="Serve probes and Prometheus metrics on this address; `:8080` listens on all.",
    ),
]


def check_not_read(option: str, written: Path | None, *read: Path | None) -> None:
    """Refuse to write over a file that the same command line names to be read.

    Raises:
        ConfigError: It is one of those, by whatever name.
    """
    for one in read:
        with suppress(OSError):  # one is not there, and whoever wants it says so
            if written is not None and one is not None and one.samefile(written):
                message = f"{written} is read by this command, and would be lost; name another file"
                raise wrong_input(option, message)


def class_of(text: str) -> MessageClass:
    """Return the class that an option names.

    Raises:
        ConfigError: It is not one.
    """
    from mesh.model.frames import MessageClass

    known = [str(one) for one in MessageClass]
    if text not in known:
        raise wrong_input(f"--class {text}", f"write {' or '.join(known)}")
    return MessageClass(text)


def headers_of(options: list[str]) -> list[tuple[str, bytes]]:
    """Return the headers that `NAME=VALUE` options name, in order.

    Raises:
        ConfigError: One has another form.
    """
    found: list[tuple[str, bytes]] = []
    for option in options:
        name, equals, value = option.partition("=")
        if not (name and equals):
            raise wrong_input(f"--header {option}", "write NAME=VALUE")
        if not name.isprintable():
            raise wrong_input(f"--header {option}", "the name is not UTF-8 or cannot be printed")
        found.append((name, os.fsencode(value)))
    return found
