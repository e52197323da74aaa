"""Whole records by fastavro, for everything that is not on the hot path.

The wire's rules are defined only here: the major version comes first, an unknown one is named and
refused, and nothing may follow the record. Spec: K10, schemas/COMPATIBILITY.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Generic, TypeVar

from fastavro import schemaless_reader, schemaless_writer

from mesh.errors import DecodeError, LocalProtocolError, UnknownVersionError
from mesh.wire.varint import read_zigzag
from schemas import VERSION, parsed

T = TypeVar("T")

Fields = Mapping[str, Any]
"""A record as fastavro sees it; it never leaves this package."""

#: What fastavro raises on bytes that are not what the schema says, and JSON within it.
_NOT_AVRO = (
    EOFError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError,
)  # fmt: skip


def check_version(name: str, version: int) -> None:
    """Refuse a major version that this program does not know.

    Raises:
        UnknownVersionError: Names the record and both versions.
    """
    if version != VERSION:
        raise UnknownVersionError(
            f"{name}: version {version} is unknown, this program reads version {VERSION}:"
            " update it, or the writer"
        )


@dataclass(frozen=True)
class RecordCodec(Generic[T]):
    """Bytes of one kind of record and the value they stand for.

    Attributes:
        name: Name of the schema.
        to_fields: Fields of a value, without `version`; a missing one takes its default.
        from_fields: The value of decoded fields; raises ValueError on what it cannot mean.
    """

    name: str
    to_fields: Callable[[T], Fields]
    from_fields: Callable[[Fields], T]

    def encode(self, value: T) -> bytes:
        """Return the bytes of the value.

        Raises:
            LocalProtocolError: The value does not fit the schema.
        """
        buffer = BytesIO()
        try:
            fields = {"version": VERSION, **self.to_fields(value)}
            schemaless_writer(buffer, parsed(self.name), fields)
        except _NOT_AVRO as error:
            raise LocalProtocolError(
                f"{self.name}: {value!r} cannot be encoded: {error}"
            ) from error
        return buffer.getvalue()

    def decode(self, data: bytes) -> T:
        """Return the value of the bytes; fields of newer minor versions are ignored.

        Raises:
            DecodeError: The bytes are not such a record, or more than one.
            UnknownVersionError: Its major version is not known here.
        """
        if not data:
            raise DecodeError(f"{self.name}: the record is empty")
        check_version(self.name, read_zigzag(data, 0)[0])
        buffer = BytesIO(data)
        try:
            value = self.from_fields(schemaless_reader(buffer, parsed(self.name), None))
        except _NOT_AVRO as error:
            raise DecodeError(
                f"{self.name}: not a record of version {VERSION}: {_cause(error)}"
            ) from error
        if buffer.tell() != len(data):
            raise DecodeError(f"{self.name}: {len(data) - buffer.tell()} bytes too many")
        return value


def _cause(error: Exception) -> str:
    text = str(error).partition("\n")[0]
    return text or "the bytes end too early"
