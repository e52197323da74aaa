"""What applications are told by the tree layer of their node: JSON on `app.APP`.

Spec: kafka.md 1; tree_layer 8, 13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mesh.codec.json_fields import JsonFields, shown
from mesh.codec.tree_apps import (
    OPTIONS,
    Fields,
    content_fields,
    json_bytes,
    place_fields,
    read_address,
    read_tree,
)
from mesh.errors import DecodeError
from mesh.model.tree_apps import (
    Answered,
    AppTold,
    ColourChanged,
    ColourReason,
    Delivered,
    Expired,
    JoinTold,
    KnownRoute,
    Loss,
    PartitionSuspected,
    Refused,
    RoleLost,
    RoleTaken,
    RouteReason,
    RoutesTold,
    Served,
    Snooped,
    SplitTold,
    TreeBuilt,
    Unpartitioned,
)
from mesh.model.tree_frames import Cause, Options, ReplyKind
from mesh.model.trees import Colour, Extent, InstanceId, MessageId


def encode_told(told: AppTold) -> bytes:
    """Return the value of a record of `app.APP`; `event` says what it is."""
    return json_bytes(_told(told))


def _told(told: AppTold) -> Fields:
    match told:
        case Delivered():
            return _message(told)
        case Snooped():
            return _snooped(told)
        case Answered():
            cause = {} if told.cause is None else {"cause": told.cause}
            items = [content_fields("text", item) for item in told.items]
            said = {"call": told.call, "kind": told.kind, "last": told.is_last, "items": items}
            return {"event": "reply", **said, **cause}
        case RoleTaken():
            kept = {"exclusive": told.is_exclusive, "extent": told.extent}
            instance = {**place_fields(told.address), "iid": f"{told.iid:x}"}
            return {"event": "role_taken", **instance, "granted": told.is_granted, **kept}
        case RoleLost():
            instance = {**place_fields(told.address), "iid": f"{told.iid:x}"}
            return {"event": "role_lost", **instance, "why": told.why}
        case Refused():
            place = {} if told.address is None else place_fields(told.address)
            why = {"call": told.call, "code": told.code, "text": told.text}
            return {"event": "refused", **why, **place}
        case PartitionSuspected():
            return {"event": "link_lost", "link": told.link}
        case Unpartitioned():
            ends = {"id": f"{told.id:x}", "scope": told.scope, "near": told.near, "far": told.far}
            sides = {"near_colour": told.near_colour, "far_colour": told.far_colour}
            before = {key: str(one) for key, one in sides.items() if one is not None}
            return {"event": "heal", **ends, "colour": str(told.colour), **before}
        case ColourChanged():
            old = {} if told.old is None else {"old": str(told.old)}
            return {
                "event": "colour",
                "scope": told.scope,
                **old,
                "new": str(told.new),
                "reason": told.reason,
            }
        case TreeBuilt():
            protocol = {"protocol": told.protocol} if told.protocol else {}
            return {"event": "tree_built", "tree": told.tree, **protocol}
        case SplitTold():
            return {"event": "split", "reached": list(told.reached), "lost": list(told.lost)}
        case JoinTold():
            nodes = {"reached": list(told.reached), "lost": list(told.lost)}
            return {"event": "joined", **nodes, "joined": list(told.joined)}
        case Served():
            hello = {"hello": told.hello} if told.hello else {}
            return {"event": "served", "uuid": told.uuid, "epoch": told.epoch, **hello}
        case Expired():
            return {"event": "expired"}
        case RoutesTold():
            return _routes(told)


def _message(told: Delivered) -> Fields:
    return {
        "event": "message",
        "id": f"{told.mid:x}",
        **place_fields(told.address),
        "iid": f"{told.iid:x}",
        **content_fields("payload", told.payload),
        **(content_fields("header", told.header) if told.header else {}),
        **({"protocol": told.protocol} if told.protocol else {}),
        "wants_answer": told.wants_answer,
        "endpoint": told.is_endpoint,
        "hops": told.hops,
    }


def _snooped(told: Snooped) -> Fields:
    return {
        "event": "snooped",
        **({"token": f"{told.token:x}"} if told.token else {}),
        "id": f"{told.mid:x}",
        **place_fields(told.address),
        **({"iid": f"{told.iid:x}"} if told.iid else {}),
        **({"protocol": told.protocol} if told.protocol else {}),
        **(content_fields("header", told.header) if told.header else {}),
        "options": [name for name in OPTIONS if getattr(told.options, name)],
        "items": [content_fields("text", item) for item in told.items],
        "link": told.link,
        "hops": told.hops,
        "has_role": told.has_role,
        **({} if told.kind is None else {"kind": told.kind, "last": told.is_last}),
        **({"endpoint": True} if told.is_endpoint else {}),
    }


def _snooped_told(app: str, fields: JsonFields) -> Snooped:
    options = fields.texts("options")
    return Snooped(
        app,
        MessageId(fields.hexadecimal("token", 0)),
        MessageId(fields.hexadecimal("id")),
        read_address(fields.text("tree"), fields.text("role")),
        InstanceId(fields.hexadecimal("iid", 0)),
        fields.text("protocol", ""),
        Options(**{name: True for name in OPTIONS if name in options}),
        fields.content("header") or b"",
        fields.contents("items"),
        fields.text("link"),
        fields.number("hops"),
        fields.flag("has_role"),
        fields.word("kind", ReplyKind) if fields.has("kind") else None,
        fields.flag("last"),
        fields.flag("endpoint"),
    )


def _routes(told: RoutesTold) -> Fields:
    return {
        "event": "routes",
        "call": told.call,
        **place_fields(told.address),
        "certain": told.is_certain,
        "routes": [
            {"scope": one.scope, "iid": f"{one.iid:x}", "link": one.link, "seq": one.seq,
             "hops": one.hops, "reason": one.reason, "age_s": one.age_ms / 1000}
            for one in told.routes
        ],
        "links": list(told.links),
        "colour": told.colour,
    }  # fmt: skip


def _routes_told(app: str, fields: JsonFields) -> RoutesTold:
    return RoutesTold(
        app,
        fields.text("call"),
        read_address(fields.text("tree"), fields.text("role")),
        fields.flag("certain"),
        tuple(
            KnownRoute(
                one.word("scope", Extent),
                InstanceId(one.hexadecimal("iid")),
                one.text("link"),
                one.number("seq"),
                one.number("hops"),
                one.word("reason", RouteReason, RouteReason.HERE),
                one.age_ms("age_s"),
            )
            for one in fields.objects("routes")
        ),
        fields.texts("links"),
        fields.text("colour"),
    )


def _colour(text: str) -> Colour:
    try:
        return Colour.labelled(text)
    except ValueError as error:
        raise DecodeError(f"no colour is {shown(text)}") from error


def _colour_if_told(fields: JsonFields, key: str) -> Colour | None:
    label = fields.text(key, "")
    return _colour(label) if label else None


def decode_told(app: str, value: bytes) -> AppTold:
    """Return what a record of `app.APP` tells; keys of later releases are passed over.

    Raises:
        DecodeError: It is no such record.
    """
    fields = JsonFields(value)
    event = fields.text("event")
    read = _READERS.get(event)
    if read is None:
        raise DecodeError(f"unknown event {shown(event)}")
    return read(app, fields)


def _message_told(app: str, fields: JsonFields) -> Delivered:
    return Delivered(
        app,
        MessageId(fields.hexadecimal("id")),
        read_address(fields.text("tree"), fields.text("role")),
        InstanceId(fields.hexadecimal("iid")),
        fields.text("protocol", ""),
        fields.content("header") or b"",
        fields.content("payload") or b"",
        fields.flag("wants_answer"),
        fields.flag("endpoint"),
        fields.number("hops"),
    )


def _reply_told(app: str, fields: JsonFields) -> Answered:
    cause = fields.text("cause", "")
    return Answered(
        app,
        fields.text("call"),
        fields.word("kind", ReplyKind),
        fields.flag("last"),
        fields.contents("items"),
        Cause(cause) if cause in set(Cause) else None,
    )


def _role_taken(app: str, fields: JsonFields) -> RoleTaken:
    return RoleTaken(
        app,
        read_address(fields.text("tree"), fields.text("role")),
        InstanceId(fields.hexadecimal("iid")),
        fields.flag("granted"),
        fields.flag("exclusive"),
        fields.word("extent", Extent, Extent.CLOUD),
    )


def _role_lost(app: str, fields: JsonFields) -> RoleLost:
    address = read_address(fields.text("tree"), fields.text("role"))
    return RoleLost(app, address, InstanceId(fields.hexadecimal("iid")), fields.word("why", Loss))


def _refused(app: str, fields: JsonFields) -> Refused:
    tree, role = fields.text("tree", ""), fields.text("role", "")
    asked = read_address(tree, role) if tree else None
    return Refused(app, fields.text("call"), fields.text("code"), fields.text("text"), asked)


def _heal(_: str, fields: JsonFields) -> Unpartitioned:
    return Unpartitioned(
        MessageId(fields.hexadecimal("id")),
        fields.word("scope", Extent),
        fields.text("near"),
        fields.text("far"),
        _colour(fields.text("colour")),
        _colour_if_told(fields, "near_colour"),
        _colour_if_told(fields, "far_colour"),
    )


def _colour_told(_: str, fields: JsonFields) -> ColourChanged:
    return ColourChanged(
        fields.word("scope", Extent),
        _colour_if_told(fields, "old"),
        _colour(fields.text("new")),
        fields.word("reason", ColourReason),
    )


def _tree_built(_: str, fields: JsonFields) -> TreeBuilt:
    return TreeBuilt(read_tree(fields.text("tree")), fields.text("protocol", ""))


def _joined(_: str, fields: JsonFields) -> JoinTold:
    return JoinTold(fields.texts("reached"), fields.texts("lost"), fields.texts("joined"))


def _served(app: str, fields: JsonFields) -> Served:
    return Served(app, fields.text("uuid"), fields.number("epoch"), fields.text("hello", ""))


_READERS: Mapping[str, Callable[[str, JsonFields], AppTold]] = {
    "message": _message_told,
    "reply": _reply_told,
    "snooped": _snooped_told,
    "role_taken": _role_taken,
    "role_lost": _role_lost,
    "refused": _refused,
    "link_lost": lambda _, fields: PartitionSuspected(fields.text("link")),
    "heal": _heal,
    "colour": _colour_told,
    "tree_built": _tree_built,
    "joined": _joined,
    "split": lambda _, fields: SplitTold(fields.texts("reached"), fields.texts("lost")),
    "served": _served,
    "expired": lambda app, _: Expired(app),
    "routes": _routes_told,
}
"""What `event` says -> how the rest is read."""
