"""Records between applications and the tree layer of their node: JSON, one `kcat` line each.

On `roles` the key says who, and which role; on `sends` it is the application. What is sent is
text, or base64 under the same key with 64 behind it. Spec: kafka.md 1; tree_layer 8, 13.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping

from mesh.codec.json_fields import JsonFields, shown
from mesh.errors import DecodeError
from mesh.model import trees
from mesh.model.names import name_fault
from mesh.model.tree_apps import (
    LEASE_MS,
    Answered,
    AnswerGiven,
    AppSaid,
    AppTold,
    Delivered,
    ExclusiveCleared,
    Expired,
    LeaseSaid,
    Loss,
    PartitionSuspected,
    Refused,
    RoleKey,
    RoleLost,
    RoleSaid,
    RoleTaken,
    RoleWish,
    SendWanted,
    Served,
    TreeEvicted,
    Unpartitioned,
)
from mesh.model.tree_frames import Cause, Options, ReplyKind
from mesh.model.trees import Address, Colour, Extent, InstanceId, MessageId, TreeId, tree_id

Fields = Mapping[str, object]

_OPTIONS = ("one_way", "one_instance", "one_response", "local_realm")
_SEND = (
    *("do", "node", "call", "tree", "role", "payload", "payload64", "header", "header64"),
    *(*_OPTIONS, "iid", "protocol"),
)
_ANSWER = ("do", "node", "id", "payload", "payload64", "last", "grant", "give_up", "granted")


# -- roles --------------------------------------------------------------------------------


def role_key(key: RoleKey) -> bytes:
    """Return the key of a wish on `roles`: `APP TREE ROLE`."""
    return " ".join(key).encode()


def lease_key(app: str) -> bytes:
    """Return the key of an application's lease on `roles`: `APP`."""
    return app.encode()


def encode_wish(wish: RoleWish | None) -> bytes | None:
    """Return the value of a wish; None is its end."""
    if wish is None:
        return None
    fields: dict[str, object] = {"exclusive": wish.is_exclusive, "extent": wish.extent}
    if wish.protocol:
        fields["protocol"] = wish.protocol
    if wish.iid:
        fields["iid"] = f"{wish.iid:x}"
    if wish.is_polite:
        fields["polite"] = True
    return _json(fields)


def encode_lease(lease_ms: int, hello: str = "") -> bytes:
    """Return the value of a lease."""
    return _json({"lease_s": lease_ms / 1000, **({"hello": hello} if hello else {})})


def decode_roles(key: bytes | None, value: bytes | None) -> RoleSaid | LeaseSaid:
    """Return what a record of `roles` says.

    Raises:
        DecodeError: It says nothing that can be meant; one line, and what to write.
    """
    parts = _key(key).split(" ")
    app = _app(parts[0])
    if len(parts) == 1:
        return _lease(app, value)
    if len(parts) != len(RoleKey._fields):
        raise DecodeError("the key must be `APP`, or `APP TREE ROLE` with one space between")
    named = RoleKey(app, *parts[1:])
    address = _address(named.tree, named.role)
    return RoleSaid(named, None if value is None else _wish(address, JsonFields(value)))


def _lease(app: str, value: bytes | None) -> LeaseSaid:
    if value is None:
        return LeaseSaid(app, None)
    fields = JsonFields(value)
    said = LeaseSaid(app, fields.seconds_ms("lease_s", LEASE_MS), fields.text("hello", ""))
    fields.end(("lease_s", "hello"))
    return said


def _wish(address: Address, fields: JsonFields) -> RoleWish:
    wish = RoleWish(
        address,
        fields.flag("exclusive"),
        fields.word("extent", Extent, Extent.CLOUD),
        _protocol(fields),
        InstanceId(fields.hexadecimal("iid", 0)),
        fields.flag("polite"),
    )
    fields.end(("exclusive", "extent", "protocol", "iid", "polite"))
    if wish.is_polite and not wish.is_exclusive:
        raise DecodeError("polite goes with exclusive; write both, or none of them")
    return wish


# -- sends --------------------------------------------------------------------------------


def encode_said(said: AppSaid) -> tuple[bytes, bytes]:
    """Return (key, value) of a record of `sends`."""
    fields: Fields
    match said:
        case SendWanted():
            fields = {
                "do": "send",
                "call": said.call,
                **_place(said.address),
                **_content("payload", said.payload),
                **(_content("header", said.header) if said.header else {}),
                **{name: True for name in _OPTIONS if getattr(said.options, name)},
                **({"iid": f"{said.iid:x}"} if said.iid else {}),
                **({"protocol": said.protocol} if said.protocol else {}),
            }
        case AnswerGiven():
            fields = {
                "do": "answer",
                "id": f"{said.mid:x}",
                **({} if said.payload is None else _content("payload", said.payload)),
                **({} if said.is_last else {"last": False}),
                **({"grant": True} if said.grants else {}),
                **({"give_up": True} if said.gives_up else {}),
                **({"granted": said.granted} if said.granted else {}),
            }
        case ExclusiveCleared():
            fields = {"do": "clear", **_place(said.address)}
        case TreeEvicted():
            fields = {"do": "evict", "tree": said.tree}
    return said.app.encode(), _json(fields)


def decode_said(node: str, key: bytes | None, value: bytes | None) -> AppSaid:
    """Return what a record of `sends` says to this node.

    Raises:
        DecodeError: It says nothing that can be meant; one line, and what to write.
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
            cleared = ExclusiveCleared(app, _address(fields.text("tree"), fields.text("role")))
            fields.end(("do", "node", "tree", "role"))
            return cleared
        case "evict":
            evicted = TreeEvicted(app, _tree(fields.text("tree")))
            fields.end(("do", "node", "tree"))
            return evicted
        case _:
            raise DecodeError(f"do must be one of send, answer, clear, evict, not {shown(do)}")


def _send(app: str, fields: JsonFields) -> SendWanted:
    sent = SendWanted(
        app,
        fields.text("call"),
        _address(fields.text("tree"), fields.text("role")),
        fields.content("payload") or b"",
        fields.content("header") or b"",
        Options(**{name: fields.flag(name) for name in _OPTIONS}),
        InstanceId(fields.hexadecimal("iid", 0)),
        _protocol(fields),
    )
    fields.end(_SEND)
    return sent


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
    if given.granted and (fault := trees.name_fault(given.granted)):
        raise DecodeError(f"granted: {fault}")
    return given


# -- what applications are told -----------------------------------------------------------


def encode_told(told: AppTold) -> bytes:
    """Return the value of a record of `app.APP`; `event` says what it is."""
    return _json(_told(told))


def _told(told: AppTold) -> Fields:
    match told:
        case Delivered():
            return _message(told)
        case Answered():
            cause = {} if told.cause is None else {"cause": told.cause}
            items = [_content("text", item) for item in told.items]
            said = {"call": told.call, "kind": told.kind, "last": told.is_last, "items": items}
            return {"event": "reply", **said, **cause}
        case RoleTaken():
            kept = {"exclusive": told.is_exclusive, "extent": told.extent}
            instance = {**_place(told.address), "iid": f"{told.iid:x}"}
            return {"event": "role_taken", **instance, "granted": told.is_granted, **kept}
        case RoleLost():
            instance = {**_place(told.address), "iid": f"{told.iid:x}"}
            return {"event": "role_lost", **instance, "why": told.why}
        case Refused():
            place = {} if told.address is None else _place(told.address)
            why = {"call": told.call, "code": told.code, "text": told.text}
            return {"event": "refused", **why, **place}
        case PartitionSuspected():
            return {"event": "link_lost", "link": told.link}
        case Unpartitioned():
            ends = {"id": f"{told.id:x}", "scope": told.scope, "near": told.near, "far": told.far}
            return {"event": "heal", **ends, "colour": str(told.colour)}
        case Served():
            hello = {"hello": told.hello} if told.hello else {}
            return {"event": "served", "uuid": told.uuid, "epoch": told.epoch, **hello}
        case Expired():
            return {"event": "expired"}


def _message(told: Delivered) -> Fields:
    return {
        "event": "message",
        "id": f"{told.mid:x}",
        **_place(told.address),
        "iid": f"{told.iid:x}",
        **_content("payload", told.payload),
        **(_content("header", told.header) if told.header else {}),
        **({"protocol": told.protocol} if told.protocol else {}),
        "wants_answer": told.wants_answer,
        "endpoint": told.is_endpoint,
        "hops": told.hops,
    }


def decode_told(app: str, value: bytes) -> AppTold:
    """Return what a record of `app.APP` tells; keys of later releases are passed over.

    Raises:
        DecodeError: It is no such record.
    """
    fields = JsonFields(value)
    match event := fields.text("event"):
        case "message":
            return Delivered(
                app,
                MessageId(fields.hexadecimal("id")),
                _address(fields.text("tree"), fields.text("role")),
                InstanceId(fields.hexadecimal("iid")),
                fields.text("protocol", ""),
                fields.content("header") or b"",
                fields.content("payload") or b"",
                fields.flag("wants_answer"),
                fields.flag("endpoint"),
                fields.number("hops"),
            )
        case "reply":
            cause = fields.text("cause", "")
            return Answered(
                app,
                fields.text("call"),
                fields.word("kind", ReplyKind),
                fields.flag("last"),
                fields.contents("items"),
                Cause(cause) if cause in set(Cause) else None,
            )
        case "role_taken" | "role_lost":
            address = _address(fields.text("tree"), fields.text("role"))
            iid = InstanceId(fields.hexadecimal("iid"))
            if event == "role_taken":
                extent = fields.word("extent", Extent, Extent.CLOUD)
                is_granted, is_exclusive = fields.flag("granted"), fields.flag("exclusive")
                return RoleTaken(app, address, iid, is_granted, is_exclusive, extent)
            return RoleLost(app, address, iid, fields.word("why", Loss))
        case "refused":
            tree, role = fields.text("tree", ""), fields.text("role", "")
            asked = _address(tree, role) if tree else None
            call, code = fields.text("call"), fields.text("code")
            return Refused(app, call, code, fields.text("text"), asked)
        case "link_lost":
            return PartitionSuspected(fields.text("link"))
        case "heal":
            return Unpartitioned(
                MessageId(fields.hexadecimal("id")),
                fields.word("scope", Extent),
                fields.text("near"),
                fields.text("far"),
                _colour(fields.text("colour")),
            )
        case "served":
            uuid, epoch = fields.text("uuid"), fields.number("epoch")
            return Served(app, uuid, epoch, fields.text("hello", ""))
        case "expired":
            return Expired(app)
        case _:
            raise DecodeError(f"unknown event {shown(event)}")


# -- parts --------------------------------------------------------------------------------


def _json(fields: Fields) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace")


def _content(key: str, data: bytes) -> Fields:
    try:
        return {key: data.decode()}
    except UnicodeDecodeError:
        return {f"{key}64": b64encode(data).decode()}


def _place(address: Address) -> Fields:
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


def _tree(name: str) -> TreeId:
    try:
        return tree_id(name)
    except ValueError as error:
        raise DecodeError(f"tree: {error}") from error


def _address(tree: str, role: str) -> Address:
    if fault := trees.name_fault(role):
        raise DecodeError(f"role: {fault}")
    return Address(_tree(tree), role)


def _protocol(fields: JsonFields) -> str:
    name = fields.text("protocol", "")
    if name and (fault := trees.name_fault(name)):
        raise DecodeError(f"protocol: {fault}")
    if name.startswith("$"):
        raise DecodeError(f"protocol: {shown(name)} begins with $, which is the mesh's own")
    return name


def _colour(text: str) -> Colour:
    clock, _, id_ = text.partition("-")
    try:
        return Colour(int(clock), int(id_, 16))
    except ValueError as error:
        raise DecodeError(f"no colour is {shown(text)}") from error
