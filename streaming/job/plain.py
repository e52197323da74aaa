"""State as plain JSON values and back, by the types that the state's classes declare.

Dataclasses and tuples become lists, dictionaries lists of pairs: their keys are seldom text.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

_UNIONS = (Union, types.UnionType)
_SEQUENCES = (list, tuple, Sequence)


def to_plain(value: object) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        return [to_plain(getattr(value, one.name)) for one in fields(value)]
    if isinstance(value, Mapping):
        return [[to_plain(key), to_plain(one)] for key, one in value.items()]
    if isinstance(value, (list, tuple)):
        return [to_plain(one) for one in value]
    return value


def from_plain(kind: Any, plain: Any) -> Any:
    """Return the value of a declared type that `to_plain` made plain."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        if plain is None:
            return None
        (inner,) = [one for one in arguments if one is not types.NoneType]
        return from_plain(inner, plain)
    if origin in (dict, Mapping):
        keys, values = arguments
        return {from_plain(keys, key): from_plain(values, one) for key, one in plain}
    if origin in _SEQUENCES:
        return _sequence(origin, arguments, plain)
    if isinstance(kind, type):
        return _instance(kind, plain)
    return plain


def _sequence(origin: Any, arguments: Sequence[Any], plain: Any) -> Any:
    if origin is list:
        return [from_plain(arguments[0], one) for one in plain]
    if origin is tuple and arguments[-1] is not Ellipsis:
        return tuple(from_plain(of, one) for of, one in zip(arguments, plain, strict=True))
    return tuple(from_plain(arguments[0], one) for one in plain)


def _instance(kind: type, plain: Any) -> Any:
    if is_dataclass(kind):
        names = [one.name for one in fields(kind)]
        return _made(kind, names, plain)
    if issubclass(kind, tuple):
        return _made(kind, list(_hints(kind)), plain)
    return kind(plain) if issubclass(kind, Enum) else plain


def _made(kind: Any, names: Sequence[str], plain: Any) -> Any:
    hints = _hints(kind)
    values = zip(names, plain, strict=True)
    return kind(**{name: from_plain(hints[name], one) for name, one in values})


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)
