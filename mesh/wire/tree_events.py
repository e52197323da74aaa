"""Events that the tree layer of a node sends to its applications: JSON on `app.APP`.

Spec: kafka.md 1; tree_layer 8, 13.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from mesh.errors import DecodeError
from mesh.model.tree_apps import (
    Answered,
    AppTold,
    ColourChanged,
    ColourReason,
    Delivered,
    Expired,
    KnownRoute,
    NodesFound,
    NodesLost,
    PartitionSuspected,
    Refused,
    RoleLoss,
    RoleLost,
    RoleTaken,
    RouteReason,
    RoutesTold,
    Served,
    Snooped,
    TreeBuilt,
    Unpartitioned,
)
from mesh.model.tree_frames import Cause, Options, ReplyKind
from mesh.model.trees import Colour, Extent, InstanceId, MessageId
from mesh.wire.json_fields import JsonFields, shown
from mesh.wire.tree_apps import (
    OPTIONS,
    Fields,
    content_fields,
    json_bytes,
    place_fields,
    read_address,
    read_tree,
)


class EventRecord(NamedTuple):
    """A record of `app.APP`.

    Attributes:
        epoch: The node's epoch when it wrote this; 0 if an earlier release does not say.
        event: The event.
    """

    epoch: int
    event: AppTold


def encode_event(event: AppTold, epoch: int) -> bytes:
    """Return the value of a record of `app.APP`; `event` says what it is.

    Args:
        event: The event.
        epoch: The node's: a reader that knows a later one ignores events of an earlier one.
    """
    return json_bytes({**_event_fields(event), "epoch": epoch})


def _event_fields(event: AppTold) -> Fields:
    match event:
        case Delivered():
            return _message(event)
        case Snooped():
            return _snooped(event)
        case Answered():
            cause = {} if event.cause is None else {"cause": event.cause}
            items = _item_fields(event.items)
            said = {"call": event.call, "kind": event.kind, "last": event.is_last, "items": items}
            return {"event": "reply", **said, **cause}
        case RoleTaken():
            protocol = {"protocol": event.protocol} if event.protocol else {}
            instance = {**place_fields(event.address), "iid": f"{event.iid:x}"}
            kept = {"exclusive": event.is_exclusive, "extent": event.extent, **protocol}
            return {"event": "role_taken", **instance, "granted": event.is_granted, **kept}
        case RoleLost():
            instance = {**place_fields(event.address), "iid": f"{event.iid:x}"}
            return {"event": "role_lost", **instance, "why": event.why}
        case Refused():
            place = {} if event.address is None else place_fields(event.address)
            why = {"call": event.call, "code": event.code, "text": event.text}
            return {"event": "refused", **why, **place}
        case PartitionSuspected():
            return {"event": "link_lost", "link": event.link}
        case Unpartitioned():
            ends = {
                "id": f"{event.id:x}",
                "scope": event.scope,
                "near": event.near,
                "far": event.far,
            }
            sides = {"near_colour": event.near_colour, "far_colour": event.far_colour}
            before = {key: str(one) for key, one in sides.items() if one is not None}
            return {"event": "heal", **ends, "colour": str(event.colour), **before}
        case ColourChanged():
            old = {} if event.old is None else {"old": str(event.old)}
            return {
                "event": "colour",
                "scope": event.scope,
                **old,
                "new": str(event.new),
                "reason": event.reason,
            }
        case TreeBuilt():
            protocol = {"protocol": event.protocol} if event.protocol else {}
            return {"event": "tree_built", "tree": event.tree, **protocol}
        case NodesLost():
            return {"event": "split", "reached": list(event.reached), "lost": list(event.lost)}
        case NodesFound():
            nodes = {"reached": list(event.reached), "lost": list(event.lost)}
            return {"event": "found", **nodes, "found": list(event.found)}
        case Served():
            hello = {"hello": event.hello} if event.hello else {}
            return {"event": "served", "uuid": event.uuid, **hello}
        case Expired():
            return {"event": "expired"}
        case RoutesTold():
            return _routes(event)


def _message(event: Delivered) -> Fields:
    return {
        "event": "message",
        "id": f"{event.mid:x}",
        **place_fields(event.address),
        "iid": f"{event.iid:x}",
        **content_fields("payload", event.payload),
        **(content_fields("header", event.header) if event.header else {}),
        **({"protocol": event.protocol} if event.protocol else {}),
        "wants_answer": event.wants_answer,
        "endpoint": event.is_endpoint,
        "hops": event.hops,
    }


def _snooped(event: Snooped) -> Fields:
    return {
        "event": "snooped",
        **({"token": f"{event.token:x}"} if event.token else {}),
        "id": f"{event.mid:x}",
        **place_fields(event.address),
        **({"iid": f"{event.iid:x}"} if event.iid else {}),
        **({"protocol": event.protocol} if event.protocol else {}),
        **(content_fields("header", event.header) if event.header else {}),
        "options": [name for name in OPTIONS if getattr(event.options, name)],
        "items": _item_fields(event.items),
        "link": event.link,
        "hops": event.hops,
        "has_role": event.has_role,
        **({} if event.kind is None else {"kind": event.kind, "last": event.is_last}),
        **({"endpoint": True} if event.is_endpoint else {}),
    }


def _item_fields(items: tuple[bytes, ...]) -> Sequence[Fields]:
    size = sum(map(len, items))
    return [content_fields("text", item, size - len(item)) for item in items]


def _read_snooped(app: str, fields: JsonFields) -> Snooped:
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


def _routes(event: RoutesTold) -> Fields:
    return {
        "event": "routes",
        "call": event.call,
        **place_fields(event.address),
        "certain": event.is_certain,
        "routes": [
            {"scope": one.scope, "iid": f"{one.iid:x}", "link": one.link, "seq": one.seq,
             "hops": one.hops, "reason": one.reason, "age_s": one.age_ms / 1000}
            for one in event.routes
        ],
        "links": list(event.links),
        "colour": event.colour,
        **({"more": True} if event.has_more else {}),
    }  # fmt: skip


def _read_routes(app: str, fields: JsonFields) -> RoutesTold:
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
        fields.flag("more"),
    )


def _colour(text: str) -> Colour:
    try:
        return Colour.labelled(text)
    except ValueError as error:
        raise DecodeError(f"no colour is {shown(text)}") from error


def _read_colour_if_present(fields: JsonFields, key: str) -> Colour | None:
    label = fields.text(key, "")
    return _colour(label) if label else None


def decode_event(app: str, value: bytes) -> EventRecord:
    """Parse a record of `app.APP`; keys of later releases are ignored.

    Raises:
        DecodeError: It is no such record.
    """
    fields = JsonFields(value)
    event, epoch = fields.text("event"), fields.number("epoch", 0)
    if event == "served":
        return EventRecord(epoch, Served(app, fields.text("uuid"), epoch, fields.text("hello", "")))
    read = _READERS.get(event)
    if read is None:
        raise DecodeError(f"unknown event {shown(event)}")
    return EventRecord(epoch, read(app, fields))


def _read_message(app: str, fields: JsonFields) -> Delivered:
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


def _read_reply(app: str, fields: JsonFields) -> Answered:
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
        fields.text("protocol", ""),
    )


def _role_lost(app: str, fields: JsonFields) -> RoleLost:
    address = read_address(fields.text("tree"), fields.text("role"))
    return RoleLost(
        app, address, InstanceId(fields.hexadecimal("iid")), fields.word("why", RoleLoss)
    )


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
        _read_colour_if_present(fields, "near_colour"),
        _read_colour_if_present(fields, "far_colour"),
    )


def _read_colour(_: str, fields: JsonFields) -> ColourChanged:
    return ColourChanged(
        fields.word("scope", Extent),
        _read_colour_if_present(fields, "old"),
        _colour(fields.text("new")),
        fields.word("reason", ColourReason),
    )


def _tree_built(_: str, fields: JsonFields) -> TreeBuilt:
    return TreeBuilt(read_tree(fields.text("tree")), fields.text("protocol", ""))


def _found(_: str, fields: JsonFields) -> NodesFound:
    return NodesFound(fields.texts("reached"), fields.texts("lost"), fields.texts("found"))


_READERS: Mapping[str, Callable[[str, JsonFields], AppTold]] = {
    "message": _read_message,
    "reply": _read_reply,
    "snooped": _read_snooped,
    "role_taken": _role_taken,
    "role_lost": _role_lost,
    "refused": _refused,
    "link_lost": lambda _, fields: PartitionSuspected(fields.text("link")),
    "heal": _heal,
    "colour": _read_colour,
    "tree_built": _tree_built,
    "found": _found,
    "split": lambda _, fields: NodesLost(fields.texts("reached"), fields.texts("lost")),
    "expired": lambda app, _: Expired(app),
    "routes": _read_routes,
}
"""Value of `event` -> how the rest is read."""
