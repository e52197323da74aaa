"""Frames of the tree layer: what goes in comes out, and damaged bytes are refused, never more."""

import random
from dataclasses import replace
from typing import get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mesh.errors import DecodeError, RemoteProtocolError, UnknownVersionError
from mesh.model.names import NAME_PATTERN
from mesh.model.names import name_fault as node_fault
from mesh.model.tree_frames import (
    Body,
    Bulk,
    Cause,
    Frame,
    Heal,
    Hello,
    KnownInstance,
    KnownRole,
    Publish,
    Reply,
    ReplyKind,
    Send,
    Trees,
)
from mesh.model.trees import Colour, Extent, InstanceId, MessageId, TreeId, name_fault
from mesh.trees.inputs import FrameRead
from mesh.wire.trees import CLOCK_MAX, HOPS_END, KINDS, decode_frame, encode_frame
from tests.property.effort import examples
from tests.sim.trees.world import World
from tests.unit.wire.tree_bodies import BODIES

MUTATIONS = 100_000
SEND = next(body for body in BODIES if isinstance(body, Send))
IDS = st.integers(0, (1 << 128) - 1)
INSTANCES = st.integers(0, (1 << 127) - 1)
NAMES = st.text(min_size=1, max_size=20).filter(lambda text: name_fault(text) is None)
NODES = st.from_regex(NAME_PATTERN, fullmatch=True).filter(lambda text: node_fault(text) is None)
NAMED = {
    "role": NAMES,
    "protocol": st.just("") | NAMES,
    "realm": st.just("") | NODES,
    "near": NODES,
    "far": NODES,
}
"""Fields that are names."""

COLOURS = st.builds(Colour, st.integers(0, CLOCK_MAX), IDS.map(MessageId))
VALUES: dict[object, st.SearchStrategy[object]] = {
    int: st.integers(0, HOPS_END - 1),
    InstanceId: INSTANCES,
    tuple[InstanceId, ...]: st.lists(INSTANCES, max_size=3).map(tuple),
    MessageId: IDS,
    TreeId: st.uuids().map(str),
    Colour: COLOURS,
    Colour | None: st.none() | COLOURS,
}
"""Type of a field -> what it may be."""


def body(kind: type[Body]) -> st.SearchStrategy[Body]:
    hints = get_type_hints(kind)
    fields = {
        name: VALUES[hint] if hint in VALUES else st.from_type(hint) for name, hint in hints.items()
    }
    return st.builds(kind, **fields | {name: NAMED[name] for name in fields if name in NAMED})


SIMPLE = [kind for kind in KINDS if kind not in (Bulk, Reply, Trees)]
INSTANCE = st.builds(KnownInstance, INSTANCES, st.booleans(), VALUES[int], VALUES[int])
KNOWN = st.builds(
    KnownRole, VALUES[TreeId], NAMES, st.booleans(), st.lists(INSTANCE, max_size=3).map(tuple)
)
TREES = st.builds(Trees, IDS, st.none() | COLOURS, st.lists(KNOWN, max_size=3).map(tuple))
PUBLISHES = st.lists(body(Publish), min_size=1, max_size=3).map(lambda many: Bulk(tuple(many)))
REPLIES = st.builds(
    Reply,
    IDS,
    st.sampled_from(ReplyKind),
    st.booleans(),
    st.lists(st.binary(), max_size=3).map(tuple),
    st.none() | st.sampled_from(Cause),
)


@examples(500)
@given(st.one_of([*map(body, SIMPLE), PUBLISHES, REPLIES, TREES]))
def test_a_frame_comes_back_as_it_was(said: Body) -> None:
    frame = Frame(1 << 32, 1, said)
    assert decode_frame(*encode_frame(frame)) == frame


def test_damaged_frames_are_refused_and_nothing_else_happens() -> None:
    """Bytes changed, cut and added, a hundred thousand times: a frame, or one clear error."""
    chance = random.Random(1)
    records = [encode_frame(Frame(1 << 32, 1, body)) for body in BODIES]
    refused, told = 0, list[str]()
    for _ in range(MUTATIONS):
        key, value = chance.choice(records)
        damaged = bytearray(value)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(damaged) + 1)
            match chance.randrange(3):
                case 0:
                    damaged[at : at + 1] = bytes([chance.randrange(256)])
                case 1:
                    del damaged[at:]
                case _:
                    damaged[at:at] = chance.randbytes(chance.randint(1, 12))
        try:
            decode_frame(key, bytes(damaged))
        except RemoteProtocolError as error:
            refused += 1
            told.append(str(error))
    assert refused > MUTATIONS // 10
    assert not [one for one in told if "\n" in one or not one]


COLOUR = Colour(3, 5)


@pytest.mark.parametrize(
    "said",
    [
        Heal(MessageId(1), Extent.CLOUD, "n" * 65, "b", COLOUR),
        Heal(MessageId(1), Extent.CLOUD, "a", "", COLOUR),
        Heal(MessageId(1), Extent.CLOUD, "a", "b", COLOUR, Colour(3, 1 << 128)),
        Heal(MessageId(1), Extent.CLOUD, "a", "b", COLOUR, None, Colour(3, -5)),
        Hello("u", 1, 0, "r" * 1_000_000, None, None, 1),
        replace(SEND, protocol="p" * 201),
        replace(SEND, protocol="a b"),
    ],
)
def test_what_no_node_is_called_is_refused(said: Body) -> None:
    """Else it would go through the mesh, and be told to applications in records that are too large.

    Fields of `ext` are read as strictly as all others.
    """
    with pytest.raises(DecodeError):
        decode_frame(*encode_frame(Frame(1, 1, said)))


@pytest.mark.parametrize("key", [b"", b"\xff", b"sends", b"tree_send"])
def test_an_unknown_kind_is_named(key: bytes) -> None:
    with pytest.raises(DecodeError, match="unknown kind"):
        decode_frame(key, b"\x02")


def test_another_major_version_is_named() -> None:
    key, value = encode_frame(Frame(1, 1, BODIES[1]))
    with pytest.raises(UnknownVersionError, match="version 2"):
        decode_frame(key, b"\x04" + value[1:])


def test_damaged_frames_break_no_node() -> None:
    """What can still be read is acted on, whatever it says: a node never fails of it."""
    chance = random.Random(3)
    mesh = World([("a", "b"), ("b", "c"), ("c", "a")], seed=5, realms={"a": "r", "b": "r"})
    mesh.log = []
    for node, role in (("a", "x"), ("c", "x"), ("c", "y")):
        mesh.role(node, role, is_exclusive=role == "y")
    for node in "abc":
        mesh.run()
        for options in ({}, {"one_instance": True}, {"one_response": True}, {"one_way": True}):
            mesh.send(node, "x", **options)
    mesh.cut("a", "b")
    mesh.run()
    mesh.heal("a", "b")
    mesh.run()
    records = [encode_frame(frame) for _, _, to, frame in mesh.log if to == "b"]
    node = mesh.nodes["b"]
    links = list(node._node.links)
    acted = 0
    for _ in range(MUTATIONS):
        key, value = chance.choice(records)
        damaged = bytearray(value)
        for _ in range(chance.randint(0, 3)):
            at = chance.randrange(1, len(damaged))
            damaged[at] = chance.randrange(256)
        try:
            frame = decode_frame(key, bytes(damaged))
        except RemoteProtocolError:
            continue
        link = chance.choice(links)
        end = node._node.links[link]
        if chance.random() < 0.9:  # as if it came in its place
            end.is_up = True
            frame = replace(frame, session=end.theirs, number=end.read + 1)
        acted += 1
        node.step(FrameRead(link, frame), mesh.now_ms)
    assert acted > MUTATIONS // 4
