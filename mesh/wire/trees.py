"""Frames of the tree layer: the Kafka key is the kind, the value an Avro record of its own schema.

The fields of a schema are those of its class in `mesh.model.tree_frames`, by name; the encoding of
each field type is defined only here. Spec: tree_layer 4; kafka.md 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints
from uuid import UUID

from mesh.errors import DecodeError
from mesh.model import tree_frames as said
from mesh.model.names import name_fault as node_fault
from mesh.model.tree_frames import Body, Frame
from mesh.model.trees import (
    Address,
    Colour,
    Extent,
    InstanceId,
    MessageId,
    TreeId,
    clock_of,
    name_fault,
)
from mesh.wire.records import Fields, RecordCodec

ID_BYTES = 16
CLOCK_MAX = (1 << 31) - 1
"""No mesh gets this far, and an instance's id has room for it."""

SEQ_END, HOPS_END = 1 << 48, 1 << 16
"""Higher values were not written by a node: counting on from them must still fit."""

_KNOWN = 65_536

KINDS: Mapping[type, str] = {
    said.Hello: "hello",
    said.Bye: "bye",
    said.Ping: "ping",
    said.Pong: "pong",
    said.Publish: "publish",
    said.Bulk: "bulk",
    said.RecoveryRequest: "recovery_request",
    said.RecoveryAnswer: "recovery_answer",
    said.RecoveryDone: "recovery_done",
    said.Edge: "edge",
    said.RouteBreak: "route_break",
    said.Send: "send",
    said.Reply: "reply",
    said.Reopen: "reopen",
    said.ColourSpread: "colour",
    said.Heal: "heal",
    said.HealNotice: "heal_notice",
    said.GetTrees: "get_trees",
    said.Trees: "trees",
}
"""Class of a body -> the key of its records; the schema's name is this with `tree_` before it."""

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


class AvroForm(NamedTuple):
    """The Avro form of a type, both ways."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


class Added(NamedTuple):
    """A field added by a minor version, as an entry of `ext`; empty ones are left out."""

    entry: str
    write: Callable[[Any], bytes]
    read: Callable[[bytes], Any]


def encode_frame(frame: Frame) -> tuple[bytes, bytes]:
    """Return (key, value) of a frame's record.

    Raises:
        LocalProtocolError: The frame does not fit its schema.
    """
    kind = KINDS[type(frame.body)]
    return kind.encode(), CODECS[kind].encode(frame)


def decode_frame(key: bytes, value: bytes) -> Frame:
    """Return the frame of a record.

    Raises:
        DecodeError: There is no such kind, or the value is no such record.
        UnknownVersionError: Its major version is not known here.
    """
    codec = CODECS.get(key.decode("utf-8", "replace"))
    if codec is None:
        raise DecodeError(f"tree frame: unknown kind {key[:40]!r}")
    return codec.decode(value)


@lru_cache(maxsize=_KNOWN)
def _tree_bytes(tree: TreeId) -> bytes:
    return UUID(tree).bytes


@lru_cache(maxsize=_KNOWN)
def _tree(data: bytes) -> TreeId:
    return TreeId(str(UUID(bytes=data)))


def _same(value: T) -> T:
    return value


def _natural(value: int) -> int:
    if value < 0:
        raise ValueError(f"{value} is below zero")
    return value


def _named(what: str, fault_of: Callable[[str], str | None], *, may_lack: bool = False) -> AvroForm:
    """Return the form of a name that follows a rule."""

    def read(name: str) -> str:
        if (name or not may_lack) and (fault := fault_of(name)):
            raise ValueError(f"{what}: {fault}")
        return name

    return AvroForm(_same, read)


def _clock(value: int) -> int:
    if not 0 <= value <= CLOCK_MAX:
        raise ValueError(f"no Lamport clock is {value}")
    return value


def _below(most: int) -> Callable[[int], int]:
    def read(value: int) -> int:
        if not 0 <= value < most:
            raise ValueError(f"{value} is below zero, or more than any mesh comes to")
        return value

    return read


def _instance(data: bytes) -> InstanceId:
    iid = InstanceId(_number(data))
    _clock(clock_of(iid))
    return iid


def _id(value: int) -> bytes:
    return value.to_bytes(ID_BYTES, "big")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _word(kind: type[E]) -> AvroForm:
    words = {one.value: one for one in kind}

    def read(text: str) -> E:
        if text not in words:
            raise ValueError(f"unknown word {text[:40]!r}")
        return words[text]

    return AvroForm(str, read)


def _record(kind: type, names: Mapping[str, AvroForm]) -> AvroForm:
    """Return the form of a class whose fields have these."""
    items = list(names.items())

    def write(value: object) -> Fields:
        return {name: form.write(getattr(value, name)) for name, form in items}

    def read(found: Fields) -> Any:
        return kind(**{name: form.read(found[name]) for name, form in items})

    return AvroForm(write, read)


def _optional(form: AvroForm) -> AvroForm:
    return AvroForm(
        lambda value: None if value is None else form.write(value),
        lambda value: None if value is None else form.read(value),
    )


def _several(form: AvroForm) -> AvroForm:
    return AvroForm(
        lambda values: [form.write(one) for one in values],
        lambda values: tuple(form.read(one) for one in values),
    )


PLAIN = AvroForm(_same, _same)
ID = AvroForm(_id, _number)
TREE = AvroForm(_tree_bytes, _tree)
CLOCK = AvroForm(_same, _clock)
ROLE = _named("role", name_fault)
NAMED = {
    "role": ROLE,
    "protocol": _named("protocol", name_fault, may_lack=True),
    "realm": _named("realm", node_fault, may_lack=True),
    "near": _named("near", node_fault),
    "far": _named("far", node_fault),
    "clock": CLOCK,
    "seq": AvroForm(_same, _below(SEQ_END)),
    "hops": AvroForm(_same, _below(HOPS_END)),
    "spew": AvroForm(_same, _below(HOPS_END)),
}
"""Fields whose meaning their type does not show."""


def _labelled(label: bytes) -> Colour:
    colour = Colour.labelled(label.decode())
    _clock(colour.clock)
    return colour


def _text(value: object) -> bytes:
    return str(value).encode()


def _joined(mids: Iterable[MessageId]) -> bytes:
    return b"".join(_id(one) for one in mids)


def _parted(data: bytes) -> tuple[MessageId, ...]:
    if len(data) % ID_BYTES:
        raise ValueError(f"{len(data)} bytes are no ids, one behind the other")
    starts = range(0, len(data), ID_BYTES)
    return tuple(MessageId(_number(data[at : at + ID_BYTES])) for at in starts)


ADDED: Mapping[str, Added] = {
    "near_colour": Added("heal.near", _text, _labelled),
    "far_colour": Added("heal.far", _text, _labelled),
    "had": Added("reply.had", _joined, _parted),
    "hop_ms": Added("recovery.hop", _text, lambda data: _natural(int(data))),
}
"""Fields added by a minor version: colours by their labels, numbers in decimal digits, ids of
messages one after the other."""


FORMS: dict[Any, AvroForm] = {
    int: AvroForm(_same, _natural),
    bool: PLAIN,
    str: PLAIN,
    bytes: PLAIN,
    MessageId: ID,
    InstanceId: AvroForm(_id, _instance),
    TreeId: TREE,
    Address: _record(Address, {"tree": TREE, "role": ROLE}),
    Colour: _record(Colour, {"clock": CLOCK, "id": ID}),
    tuple[bytes, ...]: _several(PLAIN),
} | {
    one: _word(one)
    for one in (Extent, said.BreakReason, said.EdgePhase, said.ReplyKind, said.Cause)
}
"""Type of a field -> its form. Classes of bodies and what they hold are added below."""


def _form(kind: Any) -> AvroForm:
    if kind in FORMS:
        return FORMS[kind]
    parts = get_args(kind)
    if type(None) in parts:
        return _optional(_form(parts[0]))
    if parts:
        return _several(_form(parts[0]))
    FORMS[kind] = _record(kind, _fields(kind))
    return FORMS[kind]


def _fields(kind: type) -> Mapping[str, AvroForm]:
    hints = get_type_hints(kind)
    names = [one.name for one in fields_of(kind) if one.name not in ADDED]
    return {name: NAMED.get(name) or _form(hints[name]) for name in names}


def _entries(body: Body, names: Iterable[str]) -> Mapping[str, bytes]:
    values = {name: getattr(body, name) for name in names}
    return {ADDED[name].entry: ADDED[name].write(value) for name, value in values.items() if value}


def _added(ext: Mapping[str, bytes], names: Iterable[str]) -> Mapping[str, Any]:
    forms = {name: ADDED[name] for name in names}
    return {name: one.read(ext[one.entry]) for name, one in forms.items() if one.entry in ext}


def _codec(kind: type[Body]) -> RecordCodec[Frame]:
    form = _form(kind)
    added = [one.name for one in fields_of(kind) if one.name in ADDED]

    def to_fields(frame: Frame) -> Fields:
        ext = _entries(frame.body, added) if added else {}
        place = {"session": frame.session, "number": frame.number, "ext": ext}
        return {**place, **form.write(frame.body)}

    def from_fields(found: Fields) -> Frame:
        body = form.read(found)
        if added:
            body = replace(body, **_added(found["ext"], added))
        return Frame(_natural(found["session"]), _natural(found["number"]), body)

    return RecordCodec(f"tree_{KINDS[kind]}", to_fields, from_fields)


CODECS: Mapping[str, RecordCodec[Frame]] = {word: _codec(kind) for kind, word in KINDS.items()}
