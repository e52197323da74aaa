"""Find, read and parse the schema files that ship beside this module."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from fastavro import parse_schema

#: The only major version that this program writes and reads.
VERSION = 1

_FOLDERS = ("data", "control", "state", "tree", "audit")


@cache
def _files() -> dict[str, str]:
    found: dict[str, str] = {}
    # A folder without files exists neither in a fresh clone nor in a wheel.
    for folder in filter(lambda place: place.is_dir(), map(files("schemas").joinpath, _FOLDERS)):
        for entry in folder.iterdir():
            name, dot, ending = entry.name.partition(".")
            if dot and ending == f"v{VERSION}.avsc":
                found[name] = entry.read_text(encoding="utf-8")
    return found


def names() -> Sequence[str]:
    """Return the names of all schemas, sorted."""
    return sorted(_files())


def text(name: str) -> str:
    """Return the schema as JSON text, as Spark's ``from_avro`` wants it.

    Raises:
        KeyError: No schema has that name.
    """
    return _files()[name]


@cache
def parsed(name: str) -> Any:
    """Return the schema parsed by fastavro, for its schemaless readers and writers.

    Raises:
        KeyError: No schema has that name.
    """
    return parse_schema(json.loads(text(name)))
