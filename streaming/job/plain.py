"""State as plain JSON values and back, by the types that the state's classes declare.

Dataclasses and tuples become lists, dictionaries lists of pairs: their keys are seldom text. Fields
that a constructor does not take are left out.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

_UNIONS = (Union, types.UnionType)
_SEQUENCES = (list, tuple, Sequence)

Encoder = Callable[[Any], Any]


def to_plain(value: object) -> Any:
    """Return an instance of a dataclass as JSON can hold it."""
    kind: Any = type(value)
    encoder = _encoder(kind)
    return value if encoder is None else encoder(value)


@cache
def _encoder(kind: Any) -> Encoder | None:
    """Return what makes values of a declared type plain; None: JSON takes them as they are.

    It is made once for a type, and most parts of a state need nothing: to ask each value what it
    is took four fifths of the auditor's Python where endpoints are many.
    """
    kind = _built_in(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in _UNIONS:
        (inner,) = [one for one in arguments if one is not types.NoneType]
        return _optional(_encoder(inner))
    if origin in (dict, Mapping):
        return _pairs(*map(_encoder, arguments))
    if origin in _SEQUENCES:
        return _sequence_encoder(origin, arguments)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return None if issubclass(kind, (str, int)) else lambda value: value.value
    if isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, tuple)):
        return _record(kind)
    return None


def _optional(inner: Encoder | None) -> Encoder | None:
    if inner is None:
        return None
    return lambda value: None if value is None else inner(value)


def _pairs(key: Encoder | None, value: Encoder | None) -> Encoder:
    if key is None and value is None:
        return lambda known: list(known.items())
    if value is None:
        of_key = key or _as_it_is
        return lambda known: [(of_key(one), of) for one, of in known.items()]
    of_value = value
    if key is None:
        return lambda known: [(one, of_value(of)) for one, of in known.items()]
    of_both = key
    return lambda known: [(of_both(one), of_value(of)) for one, of in known.items()]


def _as_it_is(value: Any) -> Any:
    return value


def _sequence_encoder(origin: Any, arguments: Sequence[Any]) -> Encoder | None:
    if origin is tuple and arguments[-1] is not Ellipsis:
        return _parts([_encoder(one) for one in arguments], list)
    inner = _encoder(arguments[0])
    if inner is None:
        return None
    return lambda values: [inner(one) for one in values]


def _record(kind: type) -> Encoder | None:
    hints = _hints(kind)
    if not is_dataclass(kind):
        return _parts([_encoder(hints[name]) for name in hints], list)
    names = _names(kind)
    encoders = [_encoder(hints[name]) for name in names]
    if len(names) == 1:
        return _parts(encoders, lambda value: [getattr(value, names[0])]) or (
            lambda value: [getattr(value, names[0])]
        )
    get = attrgetter(*names)
    return _parts(encoders, lambda value: list(get(value))) or get


def _parts(
    encoders: Sequence[Encoder | None], parts_of: Callable[[Any], list[Any]]
) -> Encoder | None:
    """Return what encodes those parts of a value that need it; None if none does."""
    needed = [(at, encode) for at, encode in enumerate(encoders) if encode is not None]
    if not needed:
        return None

    def encode(value: Any) -> Any:
        parts = parts_of(value)
        for at, one in needed:
            parts[at] = one(parts[at])
        return parts

    return encode


def from_plain(kind: Any, plain: Any) -> Any:
    """Return the value of a declared type that `to_plain` made plain.

    Args:
        kind: The type.
        plain: What was made of the value.
    """
    if (built_in := _built_in(kind)) is not kind:
        return get_origin(kind)(from_plain(built_in, plain))
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


def _built_in(kind: Any) -> Any:
    """Return the dictionary that a declared type is one of; else the type itself."""
    origin = get_origin(kind)
    if origin is dict or not (isinstance(origin, type) and issubclass(origin, dict)):
        return kind
    (base,) = origin.__orig_bases__  # type: ignore[attr-defined]  # every subclass of one has it
    return base[get_args(kind)]


def _sequence(origin: Any, arguments: Sequence[Any], plain: Any) -> Any:
    if origin is list:
        return [from_plain(arguments[0], one) for one in plain]
    if origin is tuple and arguments[-1] is not Ellipsis:
        parts = zip(arguments, plain, strict=True)
        return tuple(from_plain(of, one) for of, one in parts)
    return tuple(from_plain(arguments[0], one) for one in plain)


def _instance(kind: type, plain: Any) -> Any:
    if is_dataclass(kind):
        return _made(kind, _names(kind), plain)
    if issubclass(kind, tuple):
        return _made(kind, list(_hints(kind)), plain)
    return kind(plain) if issubclass(kind, Enum) else plain


def _made(kind: Any, names: Sequence[str], plain: Any) -> Any:
    hints = _hints(kind)
    values = zip(names, plain, strict=True)
    return kind(**{name: from_plain(hints[name], one) for name, one in values})


@cache
def _names(kind: Any) -> list[str]:
    return [one.name for one in fields(kind) if one.init]


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    return get_type_hints(kind)
