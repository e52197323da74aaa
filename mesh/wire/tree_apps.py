"""Records between applications and the tree layer of their node: JSON, one `kcat` line each.

On `roles` the key names the application, and the role; on `sends` only the application. Content is
text, or base64 under the same key followed by 64. Spec: kafka.md 1; tree_layer 8, 13.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress

from mesh.errors import DecodeError
from mesh.model import trees
from mesh.model.names import name_fault
from mesh.model.record_headers import BY_HEADER, Headers
from mesh.model.tree_apps import (
    LEASE_MS,
    AnswerGiven,
    AppSaid,
    ExclusiveCleared,
    LeaseSaid,
    NewsKind,
    NewsWanted,
    Resumed,
    RoleKey,
    RoleRequest,
    RoleSaid,
    RoutesAsked,
    SendWanted,
    SnoopEnded,
    SnoopWanted,
    TreeEvicted,
)
from mesh.model.tree_frames import Options
from mesh.model.trees import Address, Extent, InstanceId, MessageId, TreeId, tree_id
from mesh.wire.json_fields import JsonFields, shown

Fields = Mapping[str, object]

OPTIONS = ("one_way", "one_instance", "one_response", "local_realm")
_SEND = (
    *("do", "node", "call", "tree", "role", "payload", "payload64", "header", "header64"),
    *(*OPTIONS, "iid", "protocol"),
)
WORDS = (
    *("send", "answer", "clear", "evict", "routes", "snoop", "unsnoop", "resume"),
    *(str(one) for one in NewsKind),
)
"""The values that `do` may have."""

_EPOCH_DIGITS = 20
_ANSWER = ("do", "node", "id", "payload", "payload64", "last", "grant", "give_up", "granted")


# -- roles --------------------------------------------------------------------------------


def role_key(key: RoleKey) -> bytes:
    """Return the key of a request on `roles`: `APP TREE ROLE`."""
    return " ".join(key).encode()


def lease_key(app: str) -> bytes:
    """Return the key of an application's lease on `roles`: `APP`."""
    return app.encode()


def routes_key(address: Address) -> bytes:
    """Return the key of a record of `routes`: `TREE ROLE`, the tree by its UUID."""
    return " ".join(address).encode()


def encode_request(request: RoleRequest | None) -> bytes | None:
    """Return the value of a request; None is its end."""
    if request is None:
        return None
    fields: dict[str, object] = {"exclusive": request.is_exclusive, "extent": request.extent}
    if request.protocol:
        fields["protocol"] = request.protocol
    if request.iid:
        fields["iid"] = f"{request.iid:x}"
    if request.is_polite:
        fields["polite"] = True
    return json_bytes(fields)


def encode_lease(lease_ms: int, hello: str = "") -> bytes:
    """Return the value of a lease."""
    return json_bytes({"lease_s": lease_ms / 1000, **({"hello": hello} if hello else {})})


def written_by(epoch: int) -> Headers:
    """Return the headers of a node's own record on `roles`, under its epoch."""
    return [(BY_HEADER, b"%d" % epoch)]


def decode_roles(
    key: bytes | None, value: bytes | None, headers: Headers = ()
) -> RoleSaid | LeaseSaid:
    """Parse a record of `roles`.

    Raises:
        DecodeError: It has no valid meaning; one line, and what to write.
    """
    parts = _key(key).split(" ")
    app = _app(parts[0])
    by = _written_by(headers)
    if len(parts) == 1:
        return _lease(app, value, by)
    if len(parts) != len(RoleKey._fields):
        raise DecodeError("the key must be `APP`, or `APP TREE ROLE` with one space between")
    named = RoleKey(app, *parts[1:])
    address = read_address(named.tree, named.role)
    return RoleSaid(named, None if value is None else _request(address, JsonFields(value)), by)


def _written_by(headers: Headers) -> int:
    for name, mark in headers:
        if name == BY_HEADER and mark and mark.isdigit() and len(mark) < _EPOCH_DIGITS:
            return int(mark)
    return 0


def _lease(app: str, value: bytes | None, by: int) -> LeaseSaid:
    if value is None:
        return LeaseSaid(app, None, by=by)
    fields = JsonFields(value)
    lease_ms, hello = fields.seconds_ms("lease_s", LEASE_MS), fields.label("hello", "")
    said = LeaseSaid(app, lease_ms, hello, by)
    fields.end(("lease_s", "hello"))
    return said


def _request(address: Address, fields: JsonFields) -> RoleRequest:
    request = RoleRequest(
        address,
        fields.flag("exclusive"),
        fields.word("extent", Extent, Extent.CLOUD),
        _protocol(fields),
        InstanceId(fields.hexadecimal("iid", 0)),
        fields.flag("polite"),
    )
    fields.end(("exclusive", "extent", "protocol", "iid", "polite"))
    if request.is_polite and not request.is_exclusive:
        raise DecodeError("polite goes with exclusive; write both, or none of them")
    return request


# -- sends --------------------------------------------------------------------------------


def encode_said(said: AppSaid) -> tuple[bytes, bytes]:
    """Return (key, value) of a record of `sends`."""
    fields: Fields
    match said:
        case SendWanted():
            fields = {
                "do": "send",
                "call": said.call,
                **place_fields(said.address),
                **content_fields("payload", said.payload),
                **(content_fields("header", said.header) if said.header else {}),
                **{name: True for name in OPTIONS if getattr(said.options, name)},
                **({"iid": f"{said.iid:x}"} if said.iid else {}),
                **({"protocol": said.protocol} if said.protocol else {}),
            }
        case AnswerGiven():
            fields = {
                "do": "answer",
                "id": f"{said.mid:x}",
                **({} if said.payload is None else content_fields("payload", said.payload)),
                **({} if said.is_last else {"last": False}),
                **({"grant": True} if said.grants else {}),
                **({"give_up": True} if said.gives_up else {}),
                **({"granted": said.granted} if said.granted else {}),
            }
        case ExclusiveCleared():
            fields = {"do": "clear", **place_fields(said.address)}
        case TreeEvicted():
            fields = {"do": "evict", "tree": said.tree}
        case RoutesAsked():
            fields = {"do": "routes", "call": said.call, **place_fields(said.address)}
        case SnoopWanted():
            fields = {"do": "snoop", **_watched(said), **({"hold": True} if said.holds else {})}
        case SnoopEnded():
            fields = {"do": "unsnoop", **_watched(said)}
        case NewsWanted():
            fields = {"do": said.of, **({"end": True} if said.ends else {})}
        case Resumed():
            fields = {
                "do": "resume",
                "token": f"{said.token:x}",
                **({"consume": True} if said.is_consumed else {}),
                **({} if said.payload is None else content_fields("payload", said.payload)),
            }
    return said.app.encode(), json_bytes(fields)


def call_named(value: bytes | None) -> str:
    """Return the `call` of an otherwise meaningless record, "" if it has none."""
    try:
        return JsonFields(value or b"").label("call", "")
    except DecodeError:
        return ""


def decode_said(node: str, key: bytes | None, value: bytes | None) -> AppSaid:
    """Parse a record of `sends` for this node.

    Args:
        node: Whose topic it is: a record may name the node, and then must name this one.
        key: Names the application.
        value: A JSON object; what to do is in its field `do`.

    Returns:
        What the application wants.

    Raises:
        DecodeError: It has no valid meaning; one line, and what to write.
    """
    app = _app(_key(key))
    if value is None:
        raise DecodeError("the value is missing; write a JSON object")
    fields = JsonFields(value)
    if (named := fields.text("node", node)) != node:
        raise DecodeError(f"it is for node {shown(named)}, and this is {node}; write it there")
    match do := fields.text("do"):
        case "send":
            return _send(app, fields)
        case "answer":
            return _answer(app, fields)
        case "clear":
            cleared = ExclusiveCleared(app, read_address(fields.text("tree"), fields.text("role")))
            fields.end(("do", "node", "tree", "role"))
            return cleared
        case "evict":
            evicted = TreeEvicted(app, read_tree(fields.text("tree")))
            fields.end(("do", "node", "tree"))
            return evicted
        case "routes":
            place = read_address(fields.text("tree"), fields.text("role"))
            asked = RoutesAsked(app, fields.label("call"), place)
            fields.end(("do", "node", "call", "tree", "role"))
            return asked
        case "snoop" | "unsnoop":
            return _snoop(app, do, fields)
        case "splits" | "colours" | "trees":
            wanted = NewsWanted(app, NewsKind(do), fields.flag("end"))
            fields.end(("do", "node", "end"))
            return wanted
        case "resume":
            return _resume(app, fields)
        case _:
            raise DecodeError(f"do must be one of {', '.join(WORDS)}, not {shown(do)}")


def _send(app: str, fields: JsonFields) -> SendWanted:
    sent = SendWanted(
        app,
        fields.label("call"),
        read_address(fields.text("tree"), fields.text("role")),
        fields.content("payload") or b"",
        fields.content("header") or b"",
        Options(**{name: fields.flag(name) for name in OPTIONS}),
        InstanceId(fields.hexadecimal("iid", 0)),
        _protocol(fields),
    )
    fields.end(_SEND)
    return sent


def _snoop(app: str, do: str, fields: JsonFields) -> SnoopWanted | SnoopEnded:
    name = fields.text("tree", "")
    tree, protocol = read_tree(name) if name else None, _protocol(fields)
    if do == "unsnoop":
        fields.end(("do", "node", "tree", "protocol"))
        return SnoopEnded(app, tree, protocol)
    wanted = SnoopWanted(app, tree, protocol, fields.flag("hold"))
    fields.end(("do", "node", "tree", "protocol", "hold"))
    return wanted


def _resume(app: str, fields: JsonFields) -> Resumed:
    token = MessageId(fields.hexadecimal("token"))
    said = Resumed(app, token, fields.flag("consume"), fields.content("payload"))
    fields.end(("do", "node", "token", "consume", "payload", "payload64"))
    if said.is_consumed and said.payload is not None:
        raise DecodeError("consume goes without payload: what is taken out goes nowhere; drop one")
    return said


def _watched(said: SnoopWanted | SnoopEnded) -> Fields:
    tree = {} if said.tree is None else {"tree": said.tree}
    return {**tree, **({"protocol": said.protocol} if said.protocol else {})}


def _answer(app: str, fields: JsonFields) -> AnswerGiven:
    given = AnswerGiven(
        app,
        MessageId(fields.hexadecimal("id")),
        fields.content("payload"),
        fields.flag("last", default=True),
        fields.flag("grant"),
        fields.flag("give_up"),
        fields.text("granted", ""),
    )
    fields.end(_ANSWER)
    if given.granted and not given.grants:
        raise DecodeError("granted goes with grant; write both, or none of them")
    if given.granted and (fault := trees.name_fault(given.granted)):
        raise DecodeError(f"granted: {fault}")
    return given


# -- parts --------------------------------------------------------------------------------


def json_bytes(fields: Fields) -> bytes:
    """Return a record's value."""
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace")


_SIX = bytes(one for one in range(0x20) if one not in b"\b\t\n\f\r")
_TWO = b'\b\t\n\f\r"\\'
"""Bytes that JSON writes as two characters each."""
_READ_BYTES = 10_000
"""Text that people read is no longer; of what is, quotes and ends of lines count too."""


def content_fields(key: str, data: bytes, beside: int = 0) -> Fields:
    """Return bytes as text under a key, or as base64 under that key followed by 64.

    Base64 is used, too, where text would be longer: topics have room only for base64.

    Args:
        key: The key.
        data: The content.
        beside: How many other bytes the same record has.
    """
    more = 5 * (len(data) - len(data.translate(None, _SIX)))
    if len(data) + beside > _READ_BYTES:
        more += len(data) - len(data.translate(None, _TWO))
    if 3 * more <= len(data):
        with suppress(UnicodeDecodeError):
            return {key: data.decode()}
    return {f"{key}64": b64encode(data).decode()}


def place_fields(address: Address) -> Fields:
    """Return tree and role."""
    return {"tree": address.tree, "role": address.role}


def _key(key: bytes | None) -> str:
    if key is None:
        raise DecodeError("the key is missing; write the application's name there")
    try:
        return key.decode()
    except UnicodeDecodeError as error:
        raise DecodeError("the key is no UTF-8") from error


def _app(name: str) -> str:
    if fault := name_fault(name):
        raise DecodeError(f"application: {fault}")
    return name


def read_tree(name: str) -> TreeId:
    """Return the tree that a record names; raises as `read_address` does."""
    try:
        return tree_id(name)
    except ValueError as error:
        raise DecodeError(f"tree: {error}") from error


def read_address(tree: str, role: str) -> Address:
    """Return the address that a record names.

    Raises:
        DecodeError: A name is not valid.
    """
    if fault := trees.name_fault(role):
        raise DecodeError(f"role: {fault}")
    return Address(read_tree(tree), role)


def _protocol(fields: JsonFields) -> str:
    name = fields.text("protocol", "")
    if name and (fault := trees.name_fault(name)):
        raise DecodeError(f"protocol: {fault}")
    if name.startswith("$"):
        raise DecodeError(f"protocol: {shown(name)} begins with $, which is the mesh's own")
    return name
