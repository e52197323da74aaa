"""What the golden bytes of schemas/vectors hold, as values of the model, and how they are written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader, schemaless_writer

from mesh.model.control import (
    Acknowledgement,
    Change,
    ChangeStatus,
    EndpointKind,
    Heartbeat,
    Identity,
    Interest,
    Lineage,
    LinkNumbers,
    LinkState,
    LinkStatus,
    Mark,
    OutboxPosition,
    Pause,
    RepairRequest,
    Stage,
    Stop,
    Subscription,
    TopicIdentity,
)
from mesh.model.facts import (
    EraBegan,
    ErasBegun,
    InForce,
    InterestInForce,
    PartFrame,
    PartlyTaken,
    Sent,
    SourceAt,
    Truncation,
    Truncations,
)
from mesh.model.frames import (
    Chain,
    Delivery,
    Era,
    FrameFlags,
    FrameHeader,
    FrameKind,
    Hop,
    Message,
    MessageClass,
    Origin,
    SourcePartition,
    TopicPartition,
)
from mesh.model.joins import Join
from mesh.model.links import Gate, GateStatus, HeldLink, NodeLinks
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
from mesh.model.tree_frames import Body, Frame, Heal, HealNotice, RecoveryDone, Reply
from mesh.wire import control, deliveries, frames, links, state, trees
from mesh.wire.blocks import NO_EXT
from mesh.wire.varint import zigzag
from schemas import parsed
from tests.unit.wire.tree_bodies import BODIES, HAD, HOPS, SIDES

INGRESS = bytes.fromhex("00112233445566778899aabbccddeeff")
OUTBOX = bytes.fromhex("ffeeddccbbaa99887766554433221100")
DOMAIN = bytes.fromhex("0123456789abcdef")
LINEAGE = Lineage(DOMAIN, (LinkNumbers("ny1", "tk1", 3, 2), LinkNumbers("pa1", "tk1", 7, 5)))
EXT = {"next.minor": b"\x00\xff", "other": b""}
GUARANTEED, DIRECT = MessageClass.GUARANTEED, MessageClass.DIRECT


@dataclass(frozen=True)
class Vector:
    """Golden bytes: what they hold, who writes them, and what the codec makes of them."""

    name: str
    schema: str
    describes: str
    value: object
    write: Callable[[], bytes]
    decode: Callable[[bytes], object]


def plain(
    schema: str,
    value: Any,
    encode: Callable[[Any], bytes],
    decode: Callable[[bytes], object],
    describes: str = "as this version writes it",
    name: str = "",
) -> Vector:
    return Vector(name or schema, schema, describes, value, partial(encode, value), decode)


def with_ext(vector: Vector) -> Vector:
    """Return the vector as a newer minor version would write it: our fields, and `ext`."""

    def write() -> bytes:
        fields = by_fastavro(vector.schema, vector.write())
        return of_fastavro(vector.schema, {**fields, "ext": fields["ext"] | EXT})

    describes = "as a newer minor version writes it: ext is filled"
    name = f"{vector.name}_ext"
    return Vector(name, vector.schema, describes, vector.value, write, vector.decode)


def by_fastavro(schema: str, data: bytes) -> dict[str, Any]:
    buffer = BytesIO(data)
    fields: dict[str, Any] = schemaless_reader(buffer, parsed(schema), None)
    assert buffer.tell() == len(data)
    return fields


def of_fastavro(schema: str, fields: Mapping[str, Any]) -> bytes:
    buffer = BytesIO()
    schemaless_writer(buffer, parsed(schema), fields)
    return buffer.getvalue()


CONTROL = [
    plain(
        "identity",
        Identity(
            node="tk1",
            uuid="6f1c2a5e-0d3b-4c86-9f27-5b8e1d4a7c90",
            epoch=3,
            cluster_id="MkU3OEVBNTcwNTJENDM2Qg",
            lanes=2,
            topics=(
                TopicIdentity("mesh.tk1.in.g", INGRESS, 4),
                TopicIdentity("mesh.tk1.to.ny1.g", OUTBOX, 4),
            ),
        ),
        control.encode_identity,
        control.decode_identity,
    ),
    plain(
        "advert",
        Interest(durable=True, live=False, static=True, clients_offset=41),
        control.encode_advert,
        control.decode_advert,
    ),
    plain(
        "mark",
        Mark(epoch=3, number=17, count=2, digest=(1 << 64) - 5, topic_id=INGRESS),
        control.encode_mark,
        control.decode_mark,
        "its hash is above 2^63 and so written as a negative number",
    ),
    plain(
        "heartbeat",
        Heartbeat(3, 900, True, (LinkStatus("ny1", "WO", "frozen", "no word since 09:14"),)),
        control.encode_heartbeat,
        control.decode_heartbeat,
    ),
    plain(
        "acknowledgement",
        Acknowledgement(3, 17, -1, (("ny1", "ld1"), ("ny1", "ny2")), INGRESS),
        control.encode_acknowledgement,
        control.decode_acknowledgement,
    ),
    plain(
        "link_state",
        LinkState(
            2,
            899,
            (OutboxPosition("mesh.ny1.to.tk1.g", OUTBOX, 0, 5_000_000_000, 4_999_000_000),),
        ),
        control.encode_link_state,
        control.decode_link_state,
    ),
    plain(
        "repair_request",
        RepairRequest("mesh.tk1.to.ny1.g", 1, INGRESS, 3, 1234),
        control.encode_repair_request,
        control.decode_repair_request,
    ),
    plain(
        "subscription",
        Subscription(EndpointKind.QUEUE, DIRECT, "home", 30),
        control.encode_subscription,
        control.decode_subscription,
    ),
    plain(
        "subscription",
        Subscription(noexport=True),
        control.encode_subscription,
        control.decode_subscription,
        "one that attracts nothing",
        "subscription_noexport",
    ),
    plain(
        "stop",
        Stop("mesh.a.to.b.g", 3, OUTBOX, "retention", 70, 90),
        control.encode_stop,
        control.decode_stop,
    ),
    plain(
        "pause",
        Pause("moving to Zürich"),
        control.encode_pause,
        control.decode_pause,
    ),
    plain(
        "learned",
        control.Learned(3, 17, ("acme/>", "$node/6f1c")),
        lambda value: control.encode_learned(*value),
        control.decode_learned,
    ),
    plain(
        "config",
        control.Config(7, '{"apiVersion": "mesh/v1", "metadata": {"name": "Zürich"}}', LINEAGE),
        lambda value: control.encode_config(*value),
        control.decode_config,
    ),
    plain(
        "change",
        Change(8, Stage.SWITCH, '{"apiVersion": "mesh/v1"}', ("tk1", "ny1"), LINEAGE),
        control.encode_change,
        control.decode_change,
    ),
    plain(
        "change_status",
        ChangeStatus(8, Stage.HOLD, is_done=True),
        control.encode_change_status,
        control.decode_change_status,
    ),
    plain(
        "node_links",
        NodeLinks(
            node="tk3",
            uuid="6f1c",
            cluster_id="J-8fK2",
            digest="0011223344556677",
            number=3,
            sequence=9,
            seen="8899aabbccddeeff",
            gate_number=2,
            links=(
                HeldLink("ny1", "XX", "one-hop", 7, "77aa"),
                HeldLink(
                    "tk1", "J", "join", 0, "", (Join(zone="J", source="tk3", target="tk1", hops=2),)
                ),
            ),
            gates=(GateStatus("ny1", Gate.REFUSED, "by two walks: ...", drains=True),),
        ),
        links.encode_node_links,
        links.decode_node_links,
    ),
]

STATE = [
    plain(
        "progress",
        Sent(TopicPartition("mesh.tk1.to.ny1.g", 1), SourcePartition(INGRESS, 3), 1234, link=7),
        state.encode_fact,
        state.decode_fact,
    ),
    plain(
        "progress",
        InterestInForce(40, (InForce("clients", 0, 40), InForce("ny1 WO:tk1/own", 3, 17))),
        state.encode_fact,
        state.decode_fact,
        "the versions of interest in force",
        "progress_interest",
    ),
    plain(
        "progress",
        SourceAt(
            TopicPartition("mesh.tk1.in.g", 3), INGRESS, 1700, 0, 1, leader_epoch=12, behind=3
        ),
        state.encode_fact,
        state.decode_fact,
        "how far a source is read",
        "progress_source",
    ),
    plain(
        "progress",
        SourceAt(
            TopicPartition("mesh.ny1.to.tk1.g", 1), OUTBOX, 70, is_unlinked=True, kafka="newyork"
        ),
        state.encode_fact,
        state.decode_fact,
        "how far an outbox was read whose link was removed",
        "progress_left",
    ),
    plain(
        "progress",
        ErasBegun(
            TopicPartition("mesh.tk1.in.g", 3),
            1500,
            (EraBegan(0, Era(DOMAIN, 0)), EraBegan(1500, Era(DOMAIN, 7))),
        ),
        state.encode_fact,
        state.decode_fact,
        "by which topologies a source worked",
        "progress_era",
    ),
    plain(
        "progress",
        Truncations(
            TopicPartition("mesh.tk1.in.g", 3),
            INGRESS,
            (Truncation(1, 1500, 1700), Truncation(2, 1200, 1900)),
        ),
        state.encode_fact,
        state.decode_fact,
        "losses at the end of a source that were accepted",
        "progress_truncated",
    ),
    plain(
        "progress",
        PartlyTaken(
            TopicPartition("mesh.ny1.to.tk1.g", 1),
            OUTBOX,
            4_882_812,
            (PartFrame(5_000_000_000, -1), PartFrame(5_000_000_001, 1234)),
        ),
        state.encode_fact,
        state.decode_fact,
        "frames that were not taken whole",
        "progress_refused",
    ),
    plain(
        "standby",
        Standby((InForce("clients", 0, 40), InForce("ny1 WO:tk1/own", 3, 17))),
        state.encode_standby,
        state.decode_standby,
    ),
    plain(
        "ledger",
        Ledger(
            node="tk1",
            lane=1,
            lane_epoch=7,
            sources=(SourceRange("mesh.tk1.in.g", INGRESS, 3, 1200, 1700, 500),),
            sent=(SentCount("ny1", GUARANTEED, 480, 2), SentCount("tk2", DIRECT, 1, 1, True)),
            delivered=(DeliveredCount("billing", GUARANTEED, 20),),
            not_forwarded=(NotForwarded("tk3", "no_interest", GUARANTEED, 500),),
            dropped=(Dropped("header_stripped", "mesh.tk1.in.g", 3, 2),),
            cuts=(Cut("mesh.tk1.in.g", INGRESS, 3, 1500, "6f1c", 41),),
        ),
        state.encode_ledger,
        state.decode_ledger,
    ),
    plain(
        "dead_letter",
        DeadLetter(
            reason="invalid_subject",
            detail="level 2 is empty",
            topic="mesh.tk1.in.g",
            partition=3,
            offset=1201,
            topic_id=INGRESS,
            key_size=10,
            value_size=1_000_000,
            headers_size=40,
        ),
        state.encode_dead_letter,
        state.decode_dead_letter,
    ),
]

SUBJECTS = ("acme/orders/eu", "acme/発注/東京", "acme/" + "x" * 80)
HEADER = FrameHeader(
    hop=Hop(
        zone="WO",
        hops=2,
        join_hops=1,
        crossed_external=True,
        lane_epoch=7,
        path=("tk2", "tk1"),
        chain=Chain(source=SourcePartition(OUTBOX, 3), previous=-1, first=70, last=70),
    ),
    origin=Origin(
        node="tk2",
        source=SourcePartition(INGRESS, 3),
        generation=1,
        first=5_000_000_000,
        last=5_000_020_000,
        count=4,
        subjects=SUBJECTS,
        eras=(Era(DOMAIN, 3), Era(bytes(8), 1 << 40)),
    ),
    flags=FrameFlags.REPAIR,
    ext=EXT,
)
GAP = FrameHeader(
    kind=FrameKind.GAP,
    hop=HEADER.hop,
    origin=Origin(
        node="tk2",
        source=SourcePartition(INGRESS, 3),
        generation=0,
        first=100,
        last=199,
        count=0,
        subjects=(),
        eras=(Era(DOMAIN, 0),),
    ),
)
MESSAGES = (
    Message(
        offset=5_000_000_000,
        subject=SUBJECTS[1],
        timestamp=1_700_000_000_000,
        key=b"key",
        headers=(("trace", b"\x01"), ("trace", None), ("名", b"")),
        payload=b"p" * 100,
        ext=EXT,
    ),
    Message(
        offset=5_000_000_001,
        subject=SUBJECTS[0],
        timestamp=1_699_999_999_000,
        key=None,
        headers=(),
        payload=b"no key, and earlier",
    ),
    Message(
        offset=5_000_010_000, subject=SUBJECTS[2], timestamp=-1, key=b"", headers=(), payload=None
    ),
    Message(
        offset=5_000_020_000,
        subject=SUBJECTS[0],
        timestamp=1_700_000_000_001,
        key=b"key",
        headers=(),
        payload=b"",
    ),
)


def frame_value(data: bytes) -> object:
    return frames.decode_value(data, HEADER)


def in_blocks() -> bytes:
    """Write MESSAGES in two blocks, the second with its size, as other writers may."""
    value = frames.encode_value(MESSAGES, HEADER.origin)
    base, scanned = frames.scan_value(value)
    third = scanned[1][4]
    start = len(zigzag(base)) + len(zigzag(len(MESSAGES)))
    head, tail = value[start:third], value[third : -len(NO_EXT)]
    sized = zigzag(-2) + zigzag(len(tail)) + tail
    return zigzag(base) + zigzag(2) + head + sized + b"\x00"


def header_of_fastavro() -> bytes:
    data = frames.encode_header(HEADER)
    return of_fastavro("frame_header", by_fastavro("frame_header", data))


DELIVERY = Delivery(
    message_class=DIRECT,
    path=("tk2", "tk1", "ny1"),
    source=SourcePartition(INGRESS, 3),
    generation=1,
    offset=5_000_000_001,
    ext=EXT,
)
DATA = [
    plain(
        "frame_header",
        HEADER,
        frames.encode_header,
        frames.decode_header,
        "as this version writes it: the subject table is a block with its size; ext is filled",
    ),
    plain(
        "frame_header",
        GAP,
        frames.encode_header,
        frames.decode_header,
        "a gap of a hundred offsets, without messages",
        "frame_header_gap",
    ),
    Vector(
        "frame_header_one_block",
        "frame_header",
        "as fastavro writes it: the subject table does not tell its size",
        HEADER,
        header_of_fastavro,
        frames.decode_header,
    ),
    Vector(
        "frame_value",
        "frame_value",
        "goes with frame_header: two headers of a name, a null one, null key, tombstone, ext",
        MESSAGES,
        partial(frames.encode_value, MESSAGES, HEADER.origin),
        frame_value,
    ),
    Vector(
        "frame_value_blocks",
        "frame_value",
        "the same messages in two blocks, the second of which tells its size",
        MESSAGES,
        in_blocks,
        frame_value,
    ),
    plain("delivery", DELIVERY, deliveries.encode_delivery, deliveries.decode_delivery),
]


SAYS_SIDES = ("with the colours of both sides", "sides")
MORE = {
    Heal: SAYS_SIDES,
    HealNotice: SAYS_SIDES,
    RecoveryDone: ("with what the slowest hop takes", "hop"),
    Reply: ("with what an instance has had that moves", "had"),
}
"""What frames say in `ext` by now, and what their files are called then."""


def tree_vector(body: Body) -> Vector:
    """Return a frame of the tree layer; its kind is the key of its record."""
    key = trees.KINDS[type(body)].encode()
    schema = f"tree_{key.decode()}"
    is_more = body in (*SIDES, *HOPS, *HAD)
    more = MORE[type(body)] if is_more else ()
    return plain(
        schema,
        Frame((7 << 32) | 2, 41, body),
        lambda frame: trees.encode_frame(frame)[1],
        partial(trees.decode_frame, key),
        *((more[0], f"{schema}_{more[1]}") if more else ()),
    )


TREE = [tree_vector(body) for body in (*BODIES, *SIDES, *HOPS, *HAD)]

VECTORS = [
    *DATA,
    *(one for part in (CONTROL, STATE, TREE) for one in (*part, *map(with_ext, part))),
]
