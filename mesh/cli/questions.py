"""What a command asks people at a terminal before it goes on."""

from __future__ import annotations

import sys

import typer

from mesh.cli.render import say
from mesh.errors import wrong_input


def is_asked() -> bool:
    """Return whether a person can be asked something."""
    return sys.stdin is not None and sys.stdin.isatty()


def confirm(question: str, otherwise: str) -> None:
    """Have a person agree, and end the command if they do not.

    Args:
        question: What to agree to.
        otherwise: What is told if they do not.
    """
    if not typer.confirm(question, err=True):
        say(otherwise)
        raise typer.Exit(2)


def confirm_deletion(what: str, *, of: str = "") -> None:
    """Have a person agree to a deletion, and end the command if they do not.

    Args:
        what: What is deleted.
        of: What goes with it.

    Raises:
        ConfigError: There is nobody to ask.
    """
    if not is_asked():
        text = f"cannot ask for confirmation without a terminal; give --yes to delete {what}"
        raise wrong_input("--yes", text)
    confirm(f"delete {what}{of}?", "nothing was deleted")
