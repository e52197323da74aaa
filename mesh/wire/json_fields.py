"""A stranger's JSON object, parsed key by key; one line says what is wrong."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64Error
from collections.abc import Iterable
from enum import StrEnum
from typing import TypeVar

from mesh.errors import DecodeError

E = TypeVar("E", bound=StrEnum)

LABEL_BYTES_MAX = 200
_SHOWN_MAX = 80
_DIGITS = re.compile("[0-9a-fA-F]{1,32}")


class JsonFields:
    """The keys of an object that have not been taken yet.

    Args:
        data: The bytes of the record, or a parsed object from within another object.

    Raises:
        DecodeError: They are no JSON object. Every method raises it too, for a value that its key
            cannot have.
    """

    def __init__(self, data: object) -> None:
        found = _read(data) if isinstance(data, bytes) else data
        if not isinstance(found, dict):
            raise DecodeError(f"the value is no JSON object: {shown(found)}")
        self._left: dict[str, object] = found

    def has(self, key: str) -> bool:
        """Return whether a key is present and has not been taken yet."""
        return key in self._left

    def text(self, key: str, default: str | None = None) -> str:
        """Take a text; without a default it must be there."""
        value = self._left.pop(key, default)
        if value is None:
            raise DecodeError(f"{key} is missing; write a text")
        if not isinstance(value, str):
            raise DecodeError(f"{key} must be a text, not {shown(value)}")
        return value

    def label(self, key: str, default: str | None = None) -> str:
        """Take a text that others repeat: at most 200 bytes, so that their records can hold it."""
        value = self.text(key, default)
        if (size := len(value.encode("utf-8", "surrogatepass"))) > LABEL_BYTES_MAX:
            raise DecodeError(f"{key} has {size} bytes; at most {LABEL_BYTES_MAX} are allowed")
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Take true or false."""
        value = self._left.pop(key, default)
        if not isinstance(value, bool):
            raise DecodeError(f"{key} must be true or false, not {shown(value)}")
        return value

    def seconds_ms(self, key: str, default_ms: int) -> int:
        """Take a time in seconds, above 0 and at most a day, in milliseconds."""
        value = self._left.pop(key, None)
        if value is None:
            return default_ms
        # As given: a whole number may be larger than any float.
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _DAY_S:
            raise DecodeError(f"{key} must be seconds above 0, at most a day, not {shown(value)}")
        return max(1, int(value * 1000))

    def age_ms(self, key: str) -> int:
        """Take an age in seconds, in milliseconds; 0 if it is not there."""
        value = self._left.pop(key, 0)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
            raise DecodeError(f"{key} must be seconds from 0 on, not {shown(value)}")
        return round(value * 1000)

    def number(self, key: str, default: int | None = None) -> int:
        """Take a whole number that is not below 0."""
        value = self._left.pop(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise DecodeError(f"{key} must be a whole number, not {shown(value)}")
        return value

    def word(self, key: str, kind: type[E], default: E | None = None) -> E:
        """Take one of a few words."""
        value = self._left.pop(key, default)
        words = [one.value for one in kind]
        if value not in words:
            raise DecodeError(f"{key} must be one of {', '.join(words)}, not {shown(value)}")
        return kind(str(value))

    def hexadecimal(self, key: str, default: int | None = None) -> int:
        """Take a number of 128 bits as it is shown: at most 32 hexadecimal digits."""
        text = self._left.pop(key, None)
        if text is None and default is not None:
            return default
        if text is None:
            raise DecodeError(f"{key} is missing; write at most 32 hexadecimal digits")
        if not isinstance(text, str) or _DIGITS.fullmatch(text) is None:
            raise DecodeError(f"{key} must be at most 32 hexadecimal digits, not {shown(text)}")
        return int(text, 16)

    def content(self, key: str) -> bytes | None:
        """Take bytes: a text, or base64 under the key followed by 64; None if there is neither."""
        text, coded = self._left.pop(key, None), self._left.pop(f"{key}64", None)
        if text is None and coded is None:
            return None
        if text is not None and coded is not None:
            raise DecodeError(f"{key} and {key}64 are both there; write one of them")
        value, name = (text, key) if coded is None else (coded, f"{key}64")
        if not isinstance(value, str):
            raise DecodeError(f"{name} must be a text, not {shown(value)}")
        try:
            return value.encode() if coded is None else b64decode(value, validate=True)
        except (UnicodeEncodeError, NotBase64Error, ValueError) as error:
            raise DecodeError(f"{name} cannot be read: {error}") from error

    def contents(self, key: str) -> tuple[bytes, ...]:
        """Take a list of contents, each an object with `text` or `text64`."""
        return tuple(one.content("text") or b"" for one in self.objects(key))

    def objects(self, key: str) -> list[JsonFields]:
        """Take a list of objects."""
        return [JsonFields(one) for one in self._list(key)]

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a list of texts."""
        texts = self._list(key)
        for one in texts:
            if not isinstance(one, str):
                raise DecodeError(f"{key} must be texts, not {shown(one)}")
        return tuple(map(str, texts))

    def _list(self, key: str) -> list[object]:
        listed = self._left.pop(key, [])
        if not isinstance(listed, list):
            raise DecodeError(f"{key} must be a list, not {shown(listed)}")
        return listed

    def end(self, known: Iterable[str]) -> None:
        """Refuse keys that were not taken: otherwise a typing error would go unnoticed."""
        for key in self._left:
            raise DecodeError(f"{shown(key)} is no key here; there are {', '.join(known)}")


_DAY_S = 86_400


def _read(data: bytes) -> object:
    try:
        # Parse as text: the parser itself might take it for UTF-16 by its looks.
        return json.loads(data.decode("utf-8-sig"), object_pairs_hook=_each_once)
    except UnicodeDecodeError as error:
        raise DecodeError(f"the value is no UTF-8 text: {error.reason}; write JSON") from error
    except RecursionError as error:
        raise DecodeError("the value is nested too deep; write an object of few levels") from error
    except ValueError as error:
        text = str(error).partition("\n")[0]
        raise DecodeError(f"the value is no JSON: {text}; write an object") from error


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return an object of these keys; refuse a repeated one, whose first value would be lost."""
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise DecodeError(f"{shown(name)} is there twice; write it once")
        found[name] = value
    return found


def shown(value: object) -> str:
    """Return a value as one short line; JSON that was just readable may be too deep to write."""
    try:
        return json.dumps(value, default=str)[:_SHOWN_MAX]
    except RecursionError:
        return "what is nested so deep"
