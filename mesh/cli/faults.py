"""Errors that commands raise themselves."""

from __future__ import annotations

from mesh.errors import ConfigError, Problem


def wrong_input(where: str, message: str, *, code: str = "BAD_VALUE") -> ConfigError:
    """Return the error for one wrong option or value: exit code 2."""
    return ConfigError([Problem(code=code, message=message, where=where)])
