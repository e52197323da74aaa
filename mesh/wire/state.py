"""Bytes of what a lane records about itself: facts, ledger, dead letters. Spec: K12, K25.

Encoders raise LocalProtocolError, decoders DecodeError and UnknownVersionError, as in
`mesh.wire.control`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from mesh.model.control import Stop
from mesh.model.facts import (
    Accepted,
    EpochRaised,
    EraBegan,
    ErasBegun,
    Fact,
    Gap,
    Halted,
    Held,
    InForce,
    InterestInForce,
    PartFrame,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncation,
    Truncations,
)
from mesh.model.frames import NONE_OFFSET, Era, MessageClass, SourcePartition, TopicPartition
from mesh.model.state import (
    Cut,
    DeadLetter,
    DeliveredCount,
    Dropped,
    Ledger,
    NotForwarded,
    SentCount,
    SourceRange,
    Standby,
)
from mesh.wire.records import Fields, RecordCodec

_NO_SOURCE = SourcePartition(b"", -1)
_LEFT, _OPEN = "left", "open"
"""Reasons: a source whose link was removed, a chain that is broken."""

_LEFT_IN = "source.kafka"
_LEFT_CLUSTER = "source.cluster"
"""Entries of `ext` of a source whose link was removed: name and identity of the Kafka cluster in
which it was then."""


def _left_in(fact: SourceAt) -> Mapping[str, bytes]:
    entries = {_LEFT_IN: fact.kafka, _LEFT_CLUSTER: fact.cluster_id}
    return {name: text.encode() for name, text in entries.items() if text}


def _in_force_fields(versions: Sequence[InForce]) -> Sequence[Fields]:
    return [{"scope": one.scope, "epoch": one.epoch, "number": one.number} for one in versions]


def _in_force(fields: Fields) -> Sequence[InForce]:
    return tuple(InForce(**entry) for entry in fields["in_force"])


def _progress_fields(noted: tuple[Fact, int]) -> Fields:
    """Return the fields of a fact: `progress.v1` has one record for all, and `kind` says which."""
    fact, link = noted
    fields: Fields
    source = _NO_SOURCE
    match fact:
        case Sent(source=source):
            fields, link = {"offset": fact.last, "ahead": fact.since}, fact.link
        case Accepted(source=source):
            fields = {"offset": fact.last}
        case Gap(source=source):
            reason = _OPEN if fact.is_open else ""
            fields = {"offset": fact.last, "ahead": fact.attempts, "reason": reason}
        case Held(source=source):
            fields = {"offset": fact.next, "ahead": fact.number}
        case SourceAt():
            fields = {
                "offset": fact.next,
                "topic_id": fact.topic_id or None,
                "ahead": fact.ahead,
                "generation": fact.generation,
                "reason": _LEFT if fact.is_unlinked else "",
                "leader_epoch": fact.leader_epoch,
                "behind": fact.behind,
                "ext": _left_in(fact) if fact.is_unlinked else {},
            }
        case EpochRaised():
            fields = {"offset": fact.epoch}
        case InterestInForce():
            fields = {"offset": fact.clients, "in_force": _in_force_fields(fact.versions)}
        case Halted(stop):
            fields = {
                "offset": stop.first,
                "topic_id": stop.topic_id or None,
                "ahead": -1 if stop.next == NONE_OFFSET else stop.next - stop.first,
                "generation": stop.generation,
                "reason": stop.reason,
            }
        case ErasBegun():
            eras = [
                {"first": one.first, "domain": one.era.domain, "number": one.era.number}
                for one in fact.eras
            ]
            fields = {"offset": fact.told_at, "eras": eras}
        case Truncations():
            each = [asdict(one) for one in fact.each]
            fields = {"offset": 0, "topic_id": fact.topic_id or None, "truncations": each}
        case PartlyTaken():
            frames = [{"offset": one.offset, "after": one.after} for one in fact.frames]
            fields = {"offset": fact.block, "topic_id": fact.topic_id or None, "refused": frames}
    return {
        "kind": fact.word,
        "topic": fact.at.topic,
        "topic_id": source.topic_id or None,
        "partition": fact.at.partition,
        "source_partition": source.partition,
        "in_force": (),
        "link": link,
        **fields,
    }


def _at(fields: Fields) -> TopicPartition:
    return TopicPartition(fields["topic"], fields["partition"])


def _of(fields: Fields) -> tuple[TopicPartition, SourcePartition]:
    """Return the place of a fact, and the source of the chain that it is about."""
    return _at(fields), SourcePartition(_topic_id(fields), fields["source_partition"])


def _topic_id(fields: Fields) -> bytes:
    return fields["topic_id"] or b""


def _source_at(fields: Fields) -> SourceAt:
    return SourceAt(
        _at(fields),
        _topic_id(fields),
        fields["offset"],
        ahead=fields["ahead"],
        generation=fields["generation"],
        is_unlinked=fields["reason"] == _LEFT,
        kafka=fields["ext"].get(_LEFT_IN, b"").decode(),
        leader_epoch=fields["leader_epoch"],
        behind=fields["behind"],
        cluster_id=fields["ext"].get(_LEFT_CLUSTER, b"").decode(),
    )


def _halted(fields: Fields) -> Halted:
    at, offset, ahead = _at(fields), fields["offset"], fields["ahead"]
    end = offset + ahead if ahead >= 0 else NONE_OFFSET
    stop = Stop(
        at.topic,
        at.partition,
        _topic_id(fields),
        fields["reason"],
        offset,
        end,
        fields["generation"],
    )
    return Halted(stop)


def _eras_begun(fields: Fields) -> ErasBegun:
    eras = tuple(
        EraBegan(one["first"], Era(one["domain"], one["number"])) for one in fields["eras"]
    )
    return ErasBegun(_at(fields), fields["offset"], eras)


def _truncations(fields: Fields) -> Truncations:
    each = tuple(Truncation(**one) for one in fields["truncations"])
    return Truncations(_at(fields), _topic_id(fields), each)


def _partly_taken(fields: Fields) -> PartlyTaken:
    frames = tuple(PartFrame(**one) for one in fields["refused"])
    return PartlyTaken(_at(fields), _topic_id(fields), fields["offset"], frames)


READERS: Mapping[str, Callable[[Fields], Fact]] = {
    EpochRaised.word: lambda fields: EpochRaised(fields["offset"]),
    InterestInForce.word: lambda fields: InterestInForce(fields["offset"], _in_force(fields)),
    SourceAt.word: _source_at,
    Halted.word: _halted,
    ErasBegun.word: _eras_begun,
    Truncations.word: _truncations,
    PartlyTaken.word: _partly_taken,
    Sent.word: lambda fields: Sent(*_of(fields), fields["offset"], fields["ahead"], fields["link"]),
    Accepted.word: lambda fields: Accepted(*_of(fields), fields["offset"]),
    Gap.word: lambda fields: Gap(
        *_of(fields), fields["offset"], fields["ahead"], is_open=bool(fields["reason"])
    ),
    Held.word: lambda fields: Held(*_of(fields), fields["ahead"], fields["offset"]),
}
"""Word of a fact -> its decoder."""


def _fact(fields: Fields) -> Fact:
    reader = READERS.get(kind := fields["kind"])
    if reader is None:
        raise ValueError(f"a fact of the kind {kind!r} is unknown")
    return reader(fields)


_PROGRESS = RecordCodec[tuple[Fact, int]](
    "progress", _progress_fields, lambda fields: (_fact(fields), fields["link"])
)
"""A fact, and the number of the topology that made the link of its outbox."""


def encode_fact(fact: Fact, link: int = 0) -> bytes:
    """Return the bytes of a fact.

    Args:
        fact: The fact.
        link: Number of the topology that made the link of its outbox; 0 for one from the files,
            and for all other facts. `Sent` has it itself.
    """
    return _PROGRESS.encode((fact, link))


def decode_fact(data: bytes) -> Fact:
    """Return the fact of the bytes.

    Raises:
        DecodeError: They are none.
        UnknownVersionError: Its major version is not known here.
    """
    fact, _ = _PROGRESS.decode(data)
    return fact


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
    """Return the fields under the model's names: `class` is a keyword of Python."""
    renamed = dict(fields)
    renamed["message_class"] = MessageClass(renamed.pop("class"))
    return renamed


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

encode_standby, decode_standby = _STANDBY.encode, _STANDBY.decode
encode_ledger, decode_ledger = _LEDGER.encode, _LEDGER.decode
encode_dead_letter, decode_dead_letter = _DEAD_LETTER.encode, _DEAD_LETTER.decode
