"""Record keys: what compaction keeps apart, and what is no key."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import is_dataclass
from typing import get_args

import pytest

from mesh.errors import DecodeError, LocalProtocolError
from mesh.model.control import Ownership, Scope, Stop
from mesh.model.facts import (
    Accepted,
    EpochRaised,
    ErasBegun,
    Fact,
    Gap,
    Halted,
    Held,
    InterestInForce,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncations,
)
from mesh.model.frames import MessageClass, SourcePartition, TopicPartition
from mesh.model.joins import JoinRow
from mesh.wire import keys
from mesh.wire.keys import (
    LEARNED_KEYS,
    NEIGHBOUR_KEYS,
    NODE_KEYS,
    OPERATOR_KEYS,
    AcceptKey,
    AckKey,
    AdvertKey,
    ChangeKey,
    ControlKey,
    DisableKey,
    HeartbeatKey,
    IdentityKey,
    LearnedKey,
    LinkKey,
    LinksKey,
    MarkKey,
    PauseKey,
    RepairKey,
    StandbyKey,
    StopKey,
    SubjectPauseKey,
    SubscribedKey,
    accept_key,
    ack_key,
    advert_key,
    change_key,
    config_key,
    disable_key,
    fact_key,
    heartbeat_key,
    identity_key,
    learned_key,
    link_key,
    links_key,
    mark_key,
    parse_control_key,
    parse_key,
    parse_subscription_key,
    pause_key,
    repair_key,
    standby_key,
    stop_key,
    subject_pause_key,
    subscribed_key,
    subscription_key,
)

SCOPE = Scope("WO", "ny1", Ownership.FOREIGN)
JOINED_SCOPE = Scope("DB", "d", Ownership.OWN, JoinRow(2, 10))
TOPIC = bytes(range(16))
HEX = "000102030405060708090a0b0c0d0e0f"


KEYS: Sequence[tuple[bytes, str, ControlKey]] = (
    (identity_key(), "identity", IdentityKey()),
    (heartbeat_key(), "heartbeat", HeartbeatKey()),
    (link_key(), "link", LinkKey()),
    (subscribed_key(), "subscribed", SubscribedKey()),
    (change_key(), "change", ChangeKey()),
    (mark_key(SCOPE), "mark WO:ny1/foreign", MarkKey(SCOPE)),
    (ack_key(SCOPE), "ack WO:ny1/foreign", AckKey(SCOPE)),
    (
        advert_key(SCOPE, "acme/a b/東京/>"),
        "advert WO:ny1/foreign acme/a b/東京/>",
        AdvertKey(SCOPE, "acme/a b/東京/>"),
    ),
    (stop_key("mesh.a.in.g", 2), "stop mesh.a.in.g 2", StopKey("mesh.a.in.g", 2)),
    (
        accept_key("b", "mesh.a.to.b.g", 2),
        "accept b mesh.a.to.b.g 2",
        AcceptKey("b", "mesh.a.to.b.g", 2),
    ),
    (pause_key(PauseKey("b", "a")), "pause b a *", PauseKey("b", "a")),
    (pause_key(PauseKey("b", "a", 2)), "pause b a 2", PauseKey("b", "a", 2)),
    (disable_key(DisableKey("b", "a")), "disable b a", DisableKey("b", "a")),
    (
        subject_pause_key(SubjectPauseKey("b", "a b/>")),
        "pause-subject b a b/>",
        SubjectPauseKey("b", "a b/>"),
    ),
    (
        repair_key(TOPIC, 3, 1, MessageClass.DIRECT),
        f"repair {HEX} 3 1 direct",
        RepairKey(TOPIC, 3, 1, MessageClass.DIRECT),
    ),
    (links_key("6f1c"), "links 6f1c", LinksKey("6f1c")),
    (standby_key("a/1"), "standby a/1", StandbyKey("a/1")),
    (learned_key("tk1", SCOPE), "learned tk1 WO:ny1/foreign", LearnedKey("tk1", SCOPE)),
    (learned_key("tk1", SCOPE, 2), "learned tk1 WO:ny1/foreign 2", LearnedKey("tk1", SCOPE, 2)),
    (
        advert_key(JOINED_SCOPE, "$node/u"),
        "advert DB:d/own/2.10 $node/u",
        AdvertKey(JOINED_SCOPE, "$node/u"),
    ),
    (mark_key(JOINED_SCOPE), "mark DB:d/own/2.10", MarkKey(JOINED_SCOPE)),
)


@pytest.mark.parametrize(("key", "text", "parsed"), KEYS)
def test_control_keys_are_text_and_come_back(key: bytes, text: str, parsed: ControlKey) -> None:
    """Each key is written as the schemas say and read as what it was made of."""
    assert key == text.encode()
    assert parse_control_key(key) == parsed


@pytest.mark.parametrize(("key", "text", "parsed"), KEYS)
def test_a_key_belongs_to_the_topics_of_one_kind(key: bytes, text: str, parsed: ControlKey) -> None:
    """Whoever reads a topic hears nothing of keys that only stand elsewhere."""
    read: list[ControlKey] = []
    for kinds in (NODE_KEYS, NEIGHBOUR_KEYS, LEARNED_KEYS, OPERATOR_KEYS):
        with suppress(DecodeError):
            read.append(parse_key(key, kinds))
    assert read == [parsed]


def test_every_control_key_comes_back() -> None:
    """What mypy cannot see: a key that is written, and that nobody can read."""
    written = {type(parsed) for _, _, parsed in KEYS}
    assert written == set(get_args(ControlKey))
    classes = {one for one in vars(keys).values() if is_dataclass(one)}
    assert written == {one for one in classes if one.__module__ == keys.__name__}


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\xff",
        b"identity ",
        b"identity x",
        b"identities",
        b"link x",
        b"mark",
        b"mark WO:ny1",
        b"mark WO:ny1/theirs",
        b"mark WO:ny1/own x",
        b"mark :ny1/own",
        b"advert WO:ny1/own",
        b"advert WO:ny1/own ",
        b"learned  WO:ny1/own",
        b"learned tk1",
        b"links",
        b"links ",
        b"links 6f1c 77aa",
        b"repair 00 3 1 direct",
        f"repair {HEX} 3 direct".encode(),
        f"repair {HEX} 03 1 direct".encode(),
        f"repair {HEX} 3 1 slow".encode(),
        f"repair {HEX.upper()} 3 1 direct".encode(),
        *(
            f"{words} {number}".encode()
            for words in (
                "pause b a",
                "accept b mesh.a.to.b.g",
                "stop mesh.a.in.g",
                "learned tk1 WO:ny1/foreign",
            )
            for number in ("2\r", "02", "1_0", "+2", "-2", "\t2", "\u0662", "")
        ),
        b"learned tk1 WO:ny1/foreign 0",
    ],
)
def test_what_is_no_control_key_is_refused(key: bytes) -> None:
    """A key that we would write differently would be a second key for the same thing."""
    with pytest.raises(DecodeError, match="not a control key"):
        parse_control_key(key)


def test_a_subscription_key_is_an_endpoint_and_the_rest() -> None:
    """A filter may hold spaces, an endpoint may not."""
    assert subscription_key("billing", "acme/a b/>") == b"billing acme/a b/>"
    assert parse_subscription_key(b"billing acme/a b/>") == ("billing", "acme/a b/>")


@pytest.mark.parametrize(
    "key", [b"", b"billing", b"billing ", b" acme/>", b"\xff acme", b"billing \xed\xa0\x80"]
)
def test_what_is_no_subscription_key_is_refused(key: bytes) -> None:
    """Clients write these keys by hand; the text says what one looks like."""
    with pytest.raises(DecodeError, match="subscription's key"):
        parse_subscription_key(key)


@pytest.mark.parametrize(("endpoint", "filter_"), [("", "a"), ("a b", "c"), ("a", "")])
def test_a_subscription_key_that_would_not_come_back_is_not_made(
    endpoint: str, filter_: str
) -> None:
    """What cannot be read is not written."""
    with pytest.raises(LocalProtocolError):
        subscription_key(endpoint, filter_)


def test_keys_of_facts_are_one_per_position() -> None:
    """Compaction keeps the newest of each position and never mixes two."""
    places = [TopicPartition(f"mesh.a.to.b.{letter}", part) for letter in "gd" for part in (0, 1)]
    sources = [SourcePartition(id_, part) for id_ in (TOPIC, bytes(16)) for part in (0, 1)]
    facts: list[Fact] = [EpochRaised(1), InterestInForce(1, ())]
    for at in places:
        stop = Stop(at.topic, at.partition, TOPIC, "truncated", 1)
        facts += [SourceAt(at, TOPIC, 1), Halted(stop), ErasBegun(at, 1, ())]
        facts += [Truncations(at, TOPIC, ())]
        facts += [PartlyTaken(at, TOPIC, block, ()) for block in (0, 1)]
        for of in sources:
            facts += [Sent(at, of, 1), Accepted(at, of, 1)]
            facts += [Gap(at, of, 1, 0, is_open=True), Held(at, of, 1, 1)]
    assert {type(one) for one in facts} == set(get_args(Fact))
    keys = [fact_key(one.key) for one in facts]
    assert len(set(keys)) == len(keys)
    assert keys[:3] == [b"epoch", b"interest", b"source mesh.a.to.b.g 0"]
    assert f"sent mesh.a.to.b.g 1 {HEX} 1".encode() in keys
    assert b"refused mesh.a.to.b.d 1 1" in keys


def test_the_topology_has_one_key() -> None:
    """Compaction of mesh.config keeps one topology."""
    assert config_key() == b"topology"
