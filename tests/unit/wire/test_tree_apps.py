"""What applications and the tree layer write each other: both ways, and what is refused."""

import json
import random
import sys
from collections.abc import Callable
from functools import partial

import pytest

from mesh.errors import DecodeError
from mesh.model.tree_apps import (
    Answered,
    AnswerGiven,
    AppSaid,
    AppTold,
    ColourChanged,
    ColourReason,
    Delivered,
    ExclusiveCleared,
    Expired,
    KnownRoute,
    LeaseSaid,
    NewsKind,
    NewsWanted,
    NodesFound,
    NodesLost,
    PartitionSuspected,
    Refused,
    Resumed,
    RoleKey,
    RoleLoss,
    RoleLost,
    RoleRequest,
    RoleSaid,
    RoleTaken,
    RouteReason,
    RoutesAsked,
    RoutesTold,
    SendWanted,
    Served,
    Snooped,
    SnoopEnded,
    SnoopWanted,
    TreeBuilt,
    TreeEvicted,
    Unpartitioned,
)
from mesh.model.tree_frames import Cause, Options, ReplyKind
from mesh.model.trees import Address, Colour, Extent, InstanceId, MessageId, tree_id
from mesh.transport.node_topics import HEADROOM_BYTES
from mesh.trees.replying import ITEM_BYTES
from mesh.wire.tree_apps import (
    decode_roles,
    decode_said,
    encode_lease,
    encode_request,
    encode_said,
    lease_key,
    role_key,
    written_by,
)
from mesh.wire.tree_events import EventRecord, decode_event, encode_event

MUTATIONS = 100_000
PLACE = Address(tree_id("desk-7"), "pricing")
IID, MID = InstanceId((1 << 127) + 5), MessageId(77)
SAID: list[AppSaid] = [
    SendWanted("me", "c1", PLACE, b"text", b"\xff\x00", Options(one_way=True), IID, "v2"),
    SendWanted("me", "c1", PLACE),
    AnswerGiven("me", MID, b"\xfe", is_last=False),
    AnswerGiven("me", MID, b"yours", grants=True, gives_up=True, granted="other"),
    AnswerGiven("me", MID),
    ExclusiveCleared("me", PLACE),
    TreeEvicted("me", PLACE.tree),
    RoutesAsked("me", "c1", PLACE),
    SnoopWanted("me", PLACE.tree, "v2", holds=True),
    SnoopWanted("me", None),
    SnoopEnded("me", PLACE.tree),
    Resumed("me", MID, payload=b"\xfe"),
    Resumed("me", MID, is_consumed=True),
    NewsWanted("me", NewsKind.SPLITS),
    NewsWanted("me", NewsKind.COLOURS, ends=True),
    NewsWanted("me", NewsKind.TREES),
]
EVENTS: list[AppTold] = [
    Delivered("me", MID, PLACE, IID, "v2", b"\xff", b"text", True, False, 3),
    Snooped("me", MID, MID, PLACE, IID, "v2", Options(one_way=True), b"\xff", (b"a",), "ny1", 2, True),
    Snooped("me", MessageId(0), MID, PLACE, InstanceId(0), "", Options(), b"", (b"a", b""), "", 0,
            False, ReplyKind.NULL, True, True),
    Answered("me", "c1", ReplyKind.DATA, True, (b"one", b"\xff\xfe", b"")),
    Answered("me", "c1", ReplyKind.NULL, False, (), Cause.LINK_DOWN),
    RoleTaken("me", PLACE, IID, True, True, Extent.REALM),
    RoleTaken("me", PLACE, IID, True, protocol="v2"),
    RoleLost("me", PLACE, IID, RoleLoss.GRANTED),
    Refused("me", "c1", "BAD_NAME", "role: nothing", PLACE),
    Refused("me", "c1", "BAD_OPTIONS", "drop one"),
    PartitionSuspected("ny1"),
    Unpartitioned(MID, Extent.CLOUD, "b", "c", Colour(7, 9)),
    Unpartitioned(MID, Extent.REALM, "b", "c", Colour(7, 9), Colour(5, 1), Colour(7, 9)),
    ColourChanged(Extent.CLOUD, None, Colour(7, 9), ColourReason.ASKED),
    ColourChanged(Extent.REALM, Colour(5, 1), Colour(7, 9), ColourReason.LINK_LOST),
    TreeBuilt(PLACE.tree),
    TreeBuilt(PLACE.tree, "v2"),
    NodesLost(("a", "b"), ("c",)),
    NodesFound(("a", "b"), ("c",), ("b",)),
    Served("me", "uuid", 4, "word"),
    Expired("me"),
    RoutesTold(
        "me", "c1", PLACE, True,
        (KnownRoute(Extent.CLOUD, IID, "", 3, 0), KnownRoute(Extent.REALM, IID, "tk2", 4, 2,
                                                                  RouteReason.MOVED, 1_500)),
        ("tk2",), "5-00",
    ),
    RoutesTold("me", "c1", PLACE, False, (), (), "", has_more=True),
]  # fmt: skip


@pytest.mark.parametrize("said", SAID, ids=lambda one: type(one).__name__)
def test_what_an_application_says_comes_back_as_it_was(said: AppSaid) -> None:
    assert decode_said("tk1", *encode_said(said)) == said


@pytest.mark.parametrize("event", EVENTS, ids=lambda one: type(one).__name__)
def test_an_event_for_an_application_comes_back_as_it_was(event: AppTold) -> None:
    assert decode_event("me", encode_event(event, 4)) == EventRecord(4, event)


def test_requests_and_leases_come_back_as_they_were() -> None:
    key = RoleKey("me", "desk-7", "pricing")
    request = RoleRequest(PLACE, is_exclusive=True, extent=Extent.REALM, protocol="v2", iid=IID)
    assert decode_roles(role_key(key), encode_request(request)) == RoleSaid(key, request)
    assert decode_roles(role_key(key), None) == RoleSaid(key, None)
    assert decode_roles(lease_key("me"), encode_lease(2_500, "x")) == LeaseSaid("me", 2_500, "x")
    assert decode_roles(lease_key("me"), None) == LeaseSaid("me", None)
    own = written_by(7)
    assert decode_roles(role_key(key), None, own) == RoleSaid(key, None, by=7)
    assert decode_roles(lease_key("me"), None, own) == LeaseSaid("me", None, by=7)
    for mark in (b"", b"x", b"9" * 40, None):
        assert decode_roles(lease_key("me"), None, [("mesh-by", mark)]) == LeaseSaid("me", None)


def test_the_shortest_request_and_lease_are_an_empty_object() -> None:
    """What a person types with kcat."""
    assert decode_roles(b"me desk-7 pricing", b"{}") == RoleSaid(
        RoleKey("me", "desk-7", "pricing"), RoleRequest(PLACE)
    )
    assert decode_roles(b"me", b"{}") == LeaseSaid("me", 10_000)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (None, b"{}", "key is missing"),
        (b"\xff", b"{}", "no UTF-8"),
        (b"me  pricing", b"{}", "tree: a name is empty"),
        (b"me desk-7", b"{}", "APP TREE ROLE"),
        (b"me desk-7 pricing more", b"{}", "APP TREE ROLE"),
        (b"m.e", b"{}", "application: 'm.e' is not a name"),
        (b"me", b'{"lease_s": 0}', "lease_s must be seconds above 0"),
        (b"me", b'{"lease_s": true}', "lease_s must be seconds"),
        (b"me", b'{"lease_s": 1' + b"0" * 400 + b"}", "lease_s must be seconds above 0"),
        (b"me", b'{"lease_s": NaN}', "lease_s must be seconds above 0"),
        (b"me", b'{"hello": "' + b"x" * 201 + b'"}', "hello has 201 bytes"),
        (b"me", b'{"lease": 5}', '"lease" is no key here'),
        (b"me desk-7 pricing", b"[]", "no JSON object"),
        (b"me desk-7 pricing", b"{", "no JSON"),
        (b"me desk-7 pricing", "{}".encode("utf-16"), "no UTF-8 text"),
        (b"me desk-7 pricing", b'{"a": ' + b"[" * 9_999, "nested too deep"),
        (b"me desk-7 pricing", b'{"exclusive": "yes"}', "exclusive must be true or false"),
        (b"me desk-7 pricing", b'{"extent": "moon"}', "extent must be one of cloud, realm, node"),
    ],
)
def test_a_request_that_is_none_is_refused_in_a_line(
    key: bytes | None, value: bytes, told: str
) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_roles(key, value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"do": "send", "tree": "t", "role": "r"}, "call is missing"),
        ({"do": "send", "call": "c", "role": "r"}, "tree is missing"),
        ({"do": "send", "call": "c", "tree": "t", "role": "a b"}, "role: 'a b' has spaces"),
        ({"do": "send", "call": "c", "tree": "t", "role": "r", "oneway": True}, '"oneway" is no'),
        ({"do": "send", "call": "c", "tree": "t", "role": "r", "node": "ny1"}, "this is tk1"),
        ({"do": "send", "call": "c", "tree": "t", "role": "r", "iid": "g"}, "iid must be"),
        (
            {"do": "send", "call": "c", "tree": "t", "role": "r", "payload": "", "payload64": ""},
            "write one of them",
        ),
        ({"do": "answer"}, "id is missing"),
        ({"do": "answer", "id": "g"}, "id must be"),
        ({"do": "answer", "id": "5", "payload64": "*"}, "payload64 cannot be read"),
        (
            {"do": "send", "call": "x" * 201, "tree": "t", "role": "r"},
            "call has 201 bytes; at most 200 are allowed",
        ),
        ({"do": "colours", "end": 1}, "end must be true or false"),
        ({"do": "trees", "tree": "t"}, '"tree" is no key here'),
        ({"do": "answer", "id": "5", "granted": "r"}, "granted goes with grant"),
        ({"do": "fly"}, "do must be one of"),
        ({"do": "resume"}, "token is missing"),
        ({"do": "resume", "token": "5", "consume": True, "payload": "x"}, "drop one"),
        ({"do": "snoop", "tree": "a b"}, "tree: 'a b' has spaces"),
        ({"do": "unsnoop", "hold": True}, '"hold" is no key here'),
        ({}, "do is missing"),
    ],
)
def test_a_send_that_is_none_is_refused_in_a_line(said: dict[str, object], told: str) -> None:
    with pytest.raises(DecodeError) as caught:
        decode_said("tk1", b"me", json.dumps(said).encode())
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def decode_said_by_app(data: bytes) -> AppSaid:
    return decode_said("a", b"app", data)


def decode_told_to_app(data: bytes) -> EventRecord:
    return decode_event("app", data)


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        (decode_said_by_app, '{"do": "send", "call": %s}'),
        (decode_said_by_app, '{"do": "answer", "id": %s}'),
        (decode_said_by_app, "%s"),
        (partial(decode_roles, b"app"), '{"lease_s": %s}'),
        (partial(decode_roles, b"app desk-7 pricing"), '{"extent": %s}'),
        (decode_told_to_app, '{"event": "reply", "kind": "data", "call": "c", "items": %s}'),
        (decode_told_to_app, '{"event": "split", "reached": [%s], "lost": []}'),
    ],
)
def test_what_is_nested_deep_is_refused_however_deep(
    decode: Callable[[bytes], object], said: str
) -> None:
    """What can just be read may be too deep to be shown: that ended who read it."""
    most = sys.getrecursionlimit()
    for opened, closed in (("[", "]"), ('{"a": ', "}")):
        for depth in (5, *range(most - 150, most), 10_000):
            data = said % (opened * depth + "1" + closed * depth)
            with pytest.raises(DecodeError):
                decode(data.encode())


@pytest.mark.parametrize(
    "value",
    [
        *('{"lease_s": 5, "lease_s": 9}', '{"lease_s": NaN}', '{"lease_s": 1e999}'),
        *('{"lease_s": -1}', '{"lease_s": 0}', '{"lease_s": 18446744073709551617}'),
        *('{"lease_s": "5"}', '{"lease_s": 86400.5}', '{"lease_s": 5} x', '{"lease_s": true}'),
        '{"lease_s": ' + "9" * 10_000 + "}",
    ],
)
def test_odd_numbers_and_keys_that_are_there_twice_are_refused(value: str) -> None:
    """The second one of two would count, and nobody be told."""
    with pytest.raises(DecodeError):
        decode_roles(b"app", value.encode())


def test_lone_surrogates_name_nothing_and_are_said_back_as_they_came() -> None:
    for key in ("tree", "role", "protocol"):
        said = {"do": "send", "call": "c", "tree": "t", "role": "r", key: "\ud800"}
        with pytest.raises(DecodeError):
            decode_said("a", b"app", json.dumps(said).encode())
    asked = decode_said(
        "a", b"app", b'{"do": "routes", "call": "\\ud800", "tree": "t", "role": "r"}'
    )
    assert isinstance(asked, RoutesAsked)
    told = RoutesTold("app", asked.call, asked.address, True, (), (), "")
    assert decode_event("app", encode_event(told, 1)).event == told


def test_damaged_records_of_applications_are_refused_and_nothing_else_happens() -> None:
    """Bytes changed, cut and added, a hundred thousand times: a record, or one clear error."""
    chance = random.Random(2)
    records = [encode_said(said) for said in SAID]
    records += [(b"me desk-7 pricing", b'{"exclusive": true}'), (b"me", b'{"lease_s": 5}')]
    told = list[str]()
    for _ in range(MUTATIONS):
        key, value = chance.choice(records)
        damaged = bytearray(key if chance.random() < 0.2 else value)
        is_key = bytes(damaged) == key
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged) + 1)
            damaged[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
        pair = (bytes(damaged), value) if is_key else (key, bytes(damaged))
        for decode in (lambda *pair: decode_said("tk1", *pair), decode_roles):
            try:
                decode(*pair)
            except DecodeError as error:
                told.append(str(error))
    assert len(told) > MUTATIONS
    assert not [one for one in told if "\n" in one or not one]


@pytest.mark.parametrize("data", [b"\0", b'"', b"\n", b"\\\x1f", b"\xff", b"x"])
@pytest.mark.parametrize("size", [30, 900_000])
def test_what_is_sent_fits_its_topic_whatever_it_is(data: bytes, size: int) -> None:
    """A record has room for four bytes for three of the content; text may need six for one."""
    payload = data * (size // len(data))
    said = SendWanted("me", "c1", PLACE, payload)
    key, value = encode_said(said)
    assert decode_said("a", key, value) == said
    assert len(value) <= max(2 * size, size * 4 // 3) + 200
    if size > 10_000:
        assert len(value) <= size * 4 // 3 + 200


@pytest.mark.parametrize("data", [b"\0", b'"', b"\n", b"\\", b"\xff", b"x", b'""""x'])
@pytest.mark.parametrize("size", [0, 1, 5, 100, 9_990, 10_001])
def test_what_is_collected_fits_its_topic_whatever_it_is(data: bytes, size: int) -> None:
    """Of short answers each was text, and all together more than the topic takes: none came."""
    most = 900_000
    item = (data * size)[:size]
    items = (item,) * ((most + ITEM_BYTES) // (size + ITEM_BYTES))
    told = Answered("me", "c" * 200, ReplyKind.DATA, True, items)
    value = encode_event(told, 7)
    assert decode_event("me", value).event == told
    assert len(value) <= most * 4 // 3 + HEADROOM_BYTES


def test_short_text_with_quotes_stays_readable() -> None:
    _, value = encode_said(SendWanted("me", "c1", PLACE, b'{"a": "b"}\n'))
    assert "payload" in json.loads(value)
