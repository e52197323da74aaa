"""Bytes of what a lane writes about itself: progress, ledger, dead letters. Spec: K12, K25.

Encoders raise LocalProtocolError, decoders DecodeError and UnknownVersionError, as in
`mesh.codec.control`.
"""

from __future__ import annotations

from collections.abc import Sequence

from mesh.codec.records import Fields, RecordCodec
from mesh.model.frames import Era, MessageClass
from mesh.model.state import (
    Cut,
    DeadLetter,
    DeliveredCount,
    Dropped,
    EraBegan,
    InForce,
    Ledger,
    NotForwarded,
    Progress,
    ProgressKind,
    Refused,
    SentCount,
    SourceRange,
    Standby,
)


def _in_force_fields(versions: Sequence[InForce]) -> Sequence[Fields]:
    return [{"scope": one.scope, "epoch": one.epoch, "number": one.number} for one in versions]


def _in_force(fields: Fields) -> Sequence[InForce]:
    return tuple(InForce(**entry) for entry in fields["in_force"])


_PROGRESS = RecordCodec[Progress](
    "progress",
    lambda value: {
        "kind": value.kind.value,
        "offset": value.offset,
        "topic": value.topic,
        "topic_id": value.topic_id,
        "partition": value.partition,
        "source_partition": value.source_partition,
        "in_force": _in_force_fields(value.in_force),
        "ahead": value.ahead,
        "generation": value.generation,
        "reason": value.reason,
        "link": value.link,
        "leader_epoch": value.leader_epoch,
        "eras": [
            {"first": began.first, "domain": began.era.domain, "number": began.era.number}
            for began in value.eras
        ],
        "refused": [{"offset": one.offset, "after": one.after} for one in value.refused],
    },
    lambda fields: Progress(
        kind=ProgressKind(fields["kind"]),
        offset=fields["offset"],
        topic=fields["topic"],
        partition=fields["partition"],
        topic_id=fields["topic_id"],
        source_partition=fields["source_partition"],
        in_force=_in_force(fields),
        ahead=fields["ahead"],
        generation=fields["generation"],
        reason=fields["reason"],
        link=fields["link"],
        leader_epoch=fields["leader_epoch"],
        eras=tuple(
            EraBegan(began["first"], Era(began["domain"], began["number"]))
            for began in fields["eras"]
        ),
        refused=tuple(Refused(**one) for one in fields["refused"]),
    ),
)

_STANDBY = RecordCodec[Standby](
    "standby",
    lambda value: {"in_force": _in_force_fields(value.in_force)},
    lambda fields: Standby(_in_force(fields)),
)


def _ledger_fields(value: Ledger) -> Fields:
    return {
        "node": value.node,
        "lane": value.lane,
        "lane_epoch": value.lane_epoch,
        "sources": [
            {
                "topic": of.topic,
                "topic_id": of.topic_id,
                "partition": of.partition,
                "first": of.first,
                "next": of.next,
                "messages": of.messages,
            }
            for of in value.sources
        ],
        "sent": [
            {
                "neighbour": to.neighbour,
                "class": to.message_class.value,
                "messages": to.messages,
                "frames": to.frames,
                "repair": to.repair,
            }
            for to in value.sent
        ],
        "delivered": [
            {"endpoint": to.endpoint, "class": to.message_class.value, "messages": to.messages}
            for to in value.delivered
        ],
        **_refusals(value),
        "cuts": [
            {
                "topic": cut.topic,
                "topic_id": cut.topic_id,
                "partition": cut.partition,
                "position": cut.position,
                "uuid": cut.uuid,
                "clients_offset": cut.clients_offset,
            }
            for cut in value.cuts
        ],
    }


def _refusals(value: Ledger) -> Fields:
    return {
        "not_forwarded": [
            {
                "neighbour": to.neighbour,
                "reason": to.reason,
                "class": to.message_class.value,
                "messages": to.messages,
            }
            for to in value.not_forwarded
        ],
        "dropped": [
            {
                "reason": of.reason,
                "topic": of.topic,
                "partition": of.partition,
                "messages": of.messages,
            }
            for of in value.dropped
        ],
    }


def _ledger(fields: Fields) -> Ledger:
    return Ledger(
        node=fields["node"],
        lane=fields["lane"],
        lane_epoch=fields["lane_epoch"],
        sources=tuple(SourceRange(**of) for of in fields["sources"]),
        sent=tuple(SentCount(**_classed(to)) for to in fields["sent"]),
        delivered=tuple(DeliveredCount(**_classed(to)) for to in fields["delivered"]),
        not_forwarded=tuple(NotForwarded(**_classed(to)) for to in fields["not_forwarded"]),
        dropped=tuple(Dropped(**of) for of in fields["dropped"]),
        cuts=tuple(Cut(**cut) for cut in fields["cuts"]),
    )


def _classed(fields: Fields) -> Fields:
    """Return the fields under the model's names: `class` is a word of Python's own."""
    renamed = {key: value for key, value in fields.items() if key != "class"}
    return {**renamed, "message_class": MessageClass(fields["class"])}


_LEDGER = RecordCodec[Ledger]("ledger", _ledger_fields, _ledger)

_TARGET, _IDENTITY = "letter.target", "letter.identity"
"""Entries of `ext` of a dead letter."""

_DEAD_LETTER = RecordCodec[DeadLetter](
    "dead_letter",
    lambda value: {
        "reason": value.reason,
        "detail": value.detail,
        "topic": value.topic,
        "topic_id": value.topic_id,
        "partition": value.partition,
        "offset": value.offset,
        "key_size": value.key_size,
        "value_size": value.value_size,
        "headers_size": value.headers_size,
        "ext": {
            name: text.encode()
            for name, text in ((_TARGET, value.target), (_IDENTITY, value.identity))
            if text
        },
    },
    lambda fields: DeadLetter(
        reason=fields["reason"],
        detail=fields["detail"],
        topic=fields["topic"],
        partition=fields["partition"],
        offset=fields["offset"],
        topic_id=fields["topic_id"],
        key_size=fields["key_size"],
        value_size=fields["value_size"],
        headers_size=fields["headers_size"],
        target=fields["ext"].get(_TARGET, b"").decode(),
        identity=fields["ext"].get(_IDENTITY, b"").decode(),
    ),
)

encode_progress, decode_progress = _PROGRESS.encode, _PROGRESS.decode
encode_standby, decode_standby = _STANDBY.encode, _STANDBY.decode
encode_ledger, decode_ledger = _LEDGER.encode, _LEDGER.decode
encode_dead_letter, decode_dead_letter = _DEAD_LETTER.encode, _DEAD_LETTER.decode
