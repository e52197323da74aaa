"""Records of a small mesh, written by hand: what nodes would write, and faults planted in it.

Offsets are positions in the list of their topic partition, so a fresh topic gives the same.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fastavro import schemaless_writer

from mesh.model.control import Heartbeat, Identity, LinkState, TopicIdentity
from mesh.model.facts import Accepted, Fact, Sent, SourceAt
from mesh.model.frames import SourcePartition, TopicPartition, position_in_chain
from mesh.model.state import Cut, Dropped, Ledger, SourceRange
from mesh.model.topology import DeclaredKafka, Node, Topology, Zone, ZoneKind
from mesh.wire.control import encode_heartbeat, encode_identity, encode_link_state
from mesh.wire.header import MAGIC
from mesh.wire.keys import fact_key
from mesh.wire.state import encode_fact, encode_ledger
from schemas import parsed

ROUTE = ("a", "b", "c")
PARTITIONS = 2
NEW_YEAR_MS = 1_767_225_600_000


def chain_topology(prefix: str = "mesh.") -> Topology:
    """Three nodes in a row on two Kafka clusters: a and b on k1, c on k2."""
    return Topology(
        name="planted",
        kafka={"k1": DeclaredKafka(name="k1"), "k2": DeclaredKafka(name="k2")},
        nodes={
            name: Node(name=name, kafka=kafka, partitions=PARTITIONS)
            for name, kafka in (("a", "k1"), ("b", "k1"), ("c", "k2"))
        },
        zones={"Z": Zone.of_links("Z", ZoneKind.MULTI_HOP, [("a", "b"), ("b", "c")])},
        prefix=prefix,
        audit_kafka="k1",
        audit_copies=True,
    )


def avro(name: str, value: dict) -> bytes:
    """Return a record in Avro, by fastavro alone."""
    buffer = io.BytesIO()
    schemaless_writer(buffer, parsed(name), value)
    return buffer.getvalue()


def topic_id(topic: str) -> bytes:
    """Return the made-up id of a topic."""
    return topic.encode()[-16:].rjust(16, b"\0")


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    at_ms: int = NEW_YEAR_MS


@dataclass
class Plant:
    """Collects records by topic and partition; brokers' clocks stand at `at_ms`."""

    prefix: str = "mesh."
    at_ms: int = NEW_YEAR_MS
    logs: dict[tuple[str, int], list[Record | None]] = field(default_factory=dict)
    sent: dict[tuple[str, int, str, int], int] = field(default_factory=dict)
    beats: dict[str, int] = field(default_factory=dict)
    ids: dict[str, bytes] = field(default_factory=dict)

    def id_of(self, topic: str) -> bytes:
        """Return the id of a topic: the broker's, where there is one."""
        return self.ids.get(topic) or topic_id(topic)

    def put(
        self,
        topic: str,
        partition: int = 0,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Iterable[tuple[str, bytes | None]] = (),
        **more: int,
    ) -> int:
        log = self.logs.setdefault((self.prefix + topic, partition), [])
        log.append(Record(key, value, tuple(headers), **{"at_ms": self.at_ms, **more}))
        return len(log) - 1

    # -- control plane ----------------------------------------------------------------------

    def identities(self, nodes: Sequence[str] = ROUTE) -> None:
        """Every node says its uuid and its topics."""
        for node in nodes:
            names = [f"{node}.in.g", f"{node}.in.d"]
            names += [f"{node}.to.{other}.{letter}" for other in nodes for letter in "gd"]
            identity = Identity(
                node=node,
                uuid=f"uuid-{node}",
                epoch=1,
                cluster_id="x",
                lanes=1,
                topics=[
                    TopicIdentity(self.prefix + name, self.id_of(self.prefix + name), PARTITIONS)
                    for name in names
                ],
            )
            self.put(f"{node}.control", 0, b"identity", encode_identity(identity))

    def want_all(self) -> None:
        """A direct endpoint at each node asks for everything; nobody owes it anything."""
        for node in ROUTE:
            self.subscribe(node, "all", ">", b'{"class": "direct"}')

    def beat(
        self, read: dict[tuple[str, str], int] | None = None, *nodes: str, colours: str = ""
    ) -> None:
        """Nodes beat once, and say of their neighbours what `read` says, else the newest.

        `colours` has a letter for each node of the route, of those with a tree layer.
        """
        coloured = dict(zip(ROUTE, colours, strict=False))
        for node in nodes or ROUTE:
            self.beats[node] = self.beats.get(node, 0) + 1
            self.put(
                f"{node}.control",
                0,
                b"heartbeat",
                encode_heartbeat(
                    Heartbeat(1, self.beats[node], True, colour=coloured.get(node, ""))
                ),
            )
        for reader, other in (("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")):
            if reader in (nodes or ROUTE):
                number = (read or {}).get((reader, other), self.beats.get(other, -1))
                self.put(
                    f"{reader}.to.{other}.c", 0, b"link", encode_link_state(LinkState(1, number))
                )

    def subscribe(self, node: str, endpoint: str, filter_: str, value: bytes | None = b"{}") -> int:
        return self.put(f"{node}.clients", 0, f"{endpoint} {filter_}".encode(), value)

    def cut(
        self, node: str, topic: str, position: int, of: str, offset: int, partition: int = 0
    ) -> None:
        name = self.prefix + topic
        cut = Cut(name, self.id_of(name), partition, position, f"uuid-{of}", offset)
        self.put(
            f"{node}.ledger",
            0,
            b"0",
            encode_ledger(Ledger(node=node, lane=0, lane_epoch=1, cuts=[cut])),
        )

    def cuts_everywhere(self, of: str, offset: int) -> None:
        """Every node's lanes know a version of a node's subscriptions from their positions on."""
        for number, node in enumerate(ROUTE):
            sources = [f"{node}.in.g"]
            sources += [
                f"{other}.to.{node}.g" for other in (ROUTE[number - 1 : number] if number else ())
            ]
            sources += [f"{other}.to.{node}.g" for other in ROUTE[number + 1 : number + 2]]
            for source in sources:
                for partition in range(PARTITIONS):
                    position = len(self.logs.get((self.prefix + source, partition), ()))
                    self.cut(node, source, position, of, offset, partition)

    def tell_read(
        self,
        node: str,
        topic: str,
        first: int,
        next_: int,
        messages: int,
        dropped: Sequence[tuple[str, int]] = (),
        partition: int = 0,
    ) -> None:
        """Have a node tell in its ledger what it read of a topic, and what of that went nowhere."""
        name = self.prefix + topic
        ledger = Ledger(
            node=node,
            lane=0,
            lane_epoch=1,
            sources=[SourceRange(name, self.id_of(name), partition, first, next_, messages)],
            dropped=[Dropped(reason, name, partition, count) for reason, count in dropped],
        )
        self.put(f"{node}.ledger", 0, b"0", encode_ledger(ledger))

    def progress(
        self, node: str, topic: str, partition: int, offset: int, generation: int = 0
    ) -> None:
        name = self.prefix + topic
        at = TopicPartition(name, partition)
        self.keep(node, SourceAt(at, self.id_of(name), offset, generation=generation))

    def keep(self, node: str, fact: Fact) -> None:
        """Have a lane of a node keep a fact."""
        self.put(f"{node}.progress", 0, fact_key(fact.key), encode_fact(fact))

    # -- data plane -------------------------------------------------------------------------

    def publish(
        self, node: str, subject: str | None, count: int = 1, partition: int = 0, letter: str = "g"
    ) -> Sequence[int]:
        headers = [] if subject is None else [("mesh-subject", subject.encode())]
        return [
            self.put(f"{node}.in.{letter}", partition, b"k", b"payload", headers)
            for _ in range(count)
        ]

    def frame(
        self,
        link: str,
        offsets: Sequence[int],
        *,
        path: Sequence[str],
        source: str,
        partition: int = 0,
        span: tuple[int, int] | None = None,
        previous: int | None = None,
        generation: int = 0,
        origin: str = "a.in.g",
        zone: str = "Z",
        flags: int = 0,
        letter: str = "g",
        subject: str = "acme/x",
        subjects: Sequence[str] = (),
        is_gap: bool = False,
        moves: int = 0,
    ) -> int:
        """Write a frame of messages of one origin; `source` and `span` are the sender's own.

        All messages have one subject, or each that of `subjects`. One that announces a gap has no
        messages: lost are those from the first to the last of `offsets`.
        """
        sender, receiver = link.split("->")
        topic = f"{sender}.to.{receiver}.{letter}"
        first, last = (
            position_in_chain(generation, one) for one in span or (offsets[0], offsets[-1])
        )
        told = subjects or [subject] * len(offsets)
        table = {one: number for number, one in enumerate(dict.fromkeys(told))}
        chain = (topic, partition, source, partition)
        if previous is None:
            previous = self.sent.get(chain, -1)
        if not flags:
            self.sent[chain] = last
        header = {
            "magic": MAGIC,
            "version": 1,
            "kind": "gap" if is_gap else "data",
            "zone": zone,
            "hops": len(path),
            "join_hops": 0,
            "crossed_external": False,
            "lane_epoch": 1,
            "path": list(path),
            "chain": {
                "topic": self.id_of(self.prefix + source),
                "partition": partition,
                "previous": previous,
                "first": first,
                "last": last,
            },
            "origin": {
                "node": origin.partition(".")[0],
                "topic": self.id_of(self.prefix + origin),
                "partition": partition,
                "generation": 0 if is_gap else generation,
                "first": offsets[0],
                "last": offsets[-1],
                "count": 0 if is_gap else len(offsets),
                "eras": [],
                "subjects": list(table),
            },
            "flags": flags,
            "ext": {},
        }
        message = {
            "timestamp_delta": 0,
            "key": b"k",
            "headers": [],
            "payload": b"p",
            "ext": {"moved": moves.to_bytes(8, "big")} if moves else {},
        }
        value = {
            "base_timestamp": 0,
            "messages": [
                {"offset_delta": offset - offsets[0], "subject": table[one], **message}
                for offset, one in zip(offsets, told, strict=True)
                if not is_gap
            ],
        }
        return self.put(topic, partition, avro("frame_header", header), avro("frame_value", value))

    def deliver(
        self,
        endpoint: str,
        offsets: Iterable[int],
        path: Sequence[str],
        partition: int = 0,
        origin: str = "a.in.g",
        subject: str = "acme/x",
        moves: int = 0,
        generation: int = 0,
        like: Record | None = None,
        at: int | None = None,
    ) -> None:
        node, name = endpoint.split("/")
        like = like or Record(b"k", b"payload", at_ms=self.at_ms)
        for offset in offsets:
            delivery = {
                "version": 1,
                "class": "guaranteed" if origin.endswith("g") else "direct",
                "path": list(path),
                "origin": path[0],
                "topic": self.id_of(self.prefix + origin),
                "partition": partition,
                "generation": generation,
                "offset": offset,
                "ext": {"moved": moves.to_bytes(8 + moves.bit_length() // 65, "big")}
                if moves
                else {},
            }
            told = [("mesh-subject", subject.encode()), ("mesh", avro("delivery", delivery))]
            headers = [*like.headers, *told]
            topic = f"{node}.ep.{name}"
            where = partition if at is None else at
            self.put(topic, where, like.key, like.value, headers, at_ms=like.at_ms)

    def carry(
        self,
        count: int,
        endpoints: Sequence[str],
        *,
        subject: str = "acme/x",
        partition: int = 0,
        lost: Sequence[int] = (),
    ) -> Sequence[int]:
        """Publish at a and take it to c, frame by frame, delivering on the way.

        Args:
            count: Messages.
            endpoints: Who gets them: `b/s1`, `c/s1`, ...
            subject: Of all.
            partition: Of all topics.
            lost: Numbers of messages that no endpoint gets, though every hop passes them.
        """
        offsets = self.publish("a", subject, count, partition)
        kept = [offset for number, offset in enumerate(offsets) if number not in lost]
        ab = self.frame(
            "a->b", offsets, path=["a"], source="a.in.g", partition=partition, subject=subject
        )
        self.send("a", "a.to.b.g", partition, "a.in.g", offsets[-1])
        self.progress("a", "a.in.g", partition, offsets[-1] + 1)
        bc = self.frame(
            "b->c",
            offsets,
            path=["a", "b"],
            source="a.to.b.g",
            span=(ab, ab),
            partition=partition,
            subject=subject,
        )
        self.send("b", "b.to.c.g", partition, "a.to.b.g", ab)
        self.accept("b", "a.to.b.g", partition, "a.in.g", offsets[-1])
        self.progress("b", "a.to.b.g", partition, ab + 1)
        self.accept("c", "b.to.c.g", partition, "a.to.b.g", ab)
        self.progress("c", "b.to.c.g", partition, bc + 1)
        for endpoint in endpoints:
            path = ROUTE[: ROUTE.index(endpoint[0]) + 1]
            self.deliver(endpoint, kept, path, partition, subject=subject)
        return offsets

    def send(self, node: str, outbox: str, partition: int, source: str, last: int) -> None:
        self.keep(node, Sent(*self._chain(outbox, partition, source), last))

    def accept(self, node: str, outbox: str, partition: int, source: str, last: int) -> None:
        self.keep(node, Accepted(*self._chain(outbox, partition, source), last))

    def _chain(
        self, outbox: str, partition: int, source: str
    ) -> tuple[TopicPartition, SourcePartition]:
        of = SourcePartition(self.id_of(self.prefix + source), partition)
        return TopicPartition(self.prefix + outbox, partition), of
