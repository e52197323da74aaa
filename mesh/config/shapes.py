"""Pydantic's complaints about a document, as located problems that say what to do.

Spec: lab.md 3.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, TypeVar, Union, get_args, get_origin
from unicodedata import category

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from mesh.config.located import KeyPath, Locate
from mesh.config.nearest import nearest
from mesh.config.scalars import DURATION_RULE
from mesh.errors import Problem

Shape = TypeVar("Shape", bound="StrictModel")

UNKNOWN_KEY = "UNKNOWN_KEY"
"""Code of the problem that a key is none of those that there are."""

_SHOWN_MAX = 60


class StrictModel(BaseModel):
    """Base of all models of files: no unknown keys and no conversions.

    A model is built when it is first asked to check something: one that stands in another is built
    with that alone, and a command that reads no such file builds none.
    """

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, populate_by_name=True, defer_build=True
    )


def is_one_line(text: str) -> bool:
    """Return whether a text may be printed for people as it is."""
    return not any(category(one) in _STEERING or one in _TURNING for one in text)


def _one_line(value: object) -> object:
    if isinstance(value, str) and not is_one_line(value):
        raise PydanticCustomError("one_line", "must be one line without control characters")
    return value


_STEERING = ("Cc", "Cs", "Zl", "Zp")
_TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

OneLine = Annotated[str, BeforeValidator(_one_line)]
"""Text that people read: it steers no terminal, and turns nothing that stands beside it."""


def check_shape(
    model: type[Shape], value: object, locate: Locate
) -> tuple[Shape | None, list[Problem]]:
    """Check a document against a model.

    Returns:
        The model's instance and no problems, or None and all problems.
    """
    try:
        return model.model_validate(value), []
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=True)
        return None, [_problem(model, fault, locate) for fault in faults]


def shown(value: object) -> str:
    """Return a value as YAML would have it, short enough for one line."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = repr(value)
    return text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "..."


def _problem(model: type[StrictModel], error: ErrorDetails, locate: Locate) -> Problem:
    path: KeyPath = tuple(error["loc"])
    code, message = _wording(model, error, path)
    return Problem(code=code, message=message, where=locate(path))


def _wording(model: type[StrictModel], error: ErrorDetails, path: KeyPath) -> tuple[str, str]:
    kind = error["type"]
    if kind == "extra_forbidden":
        return UNKNOWN_KEY, f"unknown key{nearest(str(path[-1]), _keys_at(model, path[:-1]))}"
    if kind == "missing":
        return "MISSING_KEY", "this key is required; add it"
    got = shown(error["input"])
    if kind == "string_type" and path[-1] in _DURATIONS:
        return "WRONG_TYPE", f"must be {DURATION_RULE}; got {got}"
    if kind in _WANTED:
        return "WRONG_TYPE", _WANTED[kind](got)
    context = error.get("ctx", {})
    if kind in _LIMITS:
        limit = context.get(_LIMITS[kind][1])
        return "OUT_OF_RANGE", f"must be {_LIMITS[kind][0]} {limit}; got {got}"
    if kind in {"too_short", "too_long"}:
        wanted = context.get("min_length", context.get("max_length"))
        wanted = "at least 1" if wanted == 1 else wanted
        length = context.get("actual_length")
        return "WRONG_LENGTH", f"has {length} item{'' if length == 1 else 's'}; write {wanted}"
    if kind == "literal_error":
        wanted = str(context.get("expected", "")).replace("'", "")
        return "WRONG_VALUE", f"must be {wanted}; got {got}"
    return "WRONG_VALUE", f"{error['msg'].rstrip('.')}; got {got}"


_WANTED: Mapping[str, Callable[[str], str]] = {
    "string_type": lambda got: f"must be text; got {got}" + _quote_hint(got),
    "int_type": lambda got: f"must be a whole number; got {got}",
    "int_from_float": lambda got: f"must be a whole number; got {got}",
    "float_type": lambda got: f"must be a number; got {got}",
    "finite_number": lambda got: f"must be a finite number; got {got}",
    "bool_type": lambda got: f"must be true or false; got {got}",
    "list_type": lambda got: f"must be a list; got {got}",
    "dict_type": lambda got: f"must be a mapping; got {got}" + _empty_hint(got),
    "model_type": lambda got: f"must be a mapping; got {got}" + _empty_hint(got),
    "model_attributes_type": lambda got: f"must be a mapping; got {got}" + _empty_hint(got),
}

_DURATIONS = ("keep", "age", "outboxAge", "maxAge", "pingEvery")
"""Keys whose text is a duration."""

_LIMITS: Mapping[str, tuple[str, str]] = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "string_too_short": ("text of a length of at least", "min_length"),
    "string_too_long": ("text of a length of at most", "max_length"),
}


def _empty_hint(got: str) -> str:
    return "; write {} if there is nothing to say" if got == "nothing" else ""


def _quote_hint(got: str) -> str:
    """Advise quotes, without the text: `1e3`, `0x1F`, `007` and `True` were written otherwise."""
    if got == "nothing":
        return "; write null in quotes if that is the text"
    return "" if got in {"a list", "a mapping"} else "; put it in quotes, as it stands"


def _keys_at(model: object, path: KeyPath) -> Sequence[str]:
    """Return the keys that a model allows at a path, for the nearest match."""
    for part in path:
        model = _below(_bare(model), part)
    model = _bare(model)
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [field.alias or name for name, field in model.model_fields.items()]
    return ()


def _below(model: object, part: str | int) -> object:
    if isinstance(model, type) and issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
        return None
    arguments = get_args(model)
    return arguments[-1] if arguments else None


def _bare(model: object) -> object:
    """Return a type without Annotated and without its None."""
    while True:
        origin = get_origin(model)
        if origin is Annotated:
            model = get_args(model)[0]
        elif origin in {Union, types.UnionType}:
            model = next(part for part in get_args(model) if part is not type(None))
        else:
            return model
