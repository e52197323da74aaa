"""`python -m tests.sim.fuzz [--records 1000000] [--seed 1]`: strangers write wherever they can.

Into ingresses, `clients`, control topics, outboxes, endpoints and what groups remark go records of
noise, and real ones with bytes changed, cut off or repeated: names and values of headers, keys,
tombstones, huge, empty. Honest messages flow between them. No worker may end, no turn may take a
second, each record that is no message is counted with its reason, and the honest ones come once
and in order. Each mesh gets some thousand records and is judged; the next has the next seed.

A frame or a control record that is changed into a valid one of its node is a forgery: only rights
keep that out. So frames that decode with the chain of another are not written here. Spec: R12.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.client.consuming import QueueConsumer
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import DecodeError, ProtocolError, TransportError
from mesh.lab.world import World
from mesh.model.control import Stop
from mesh.model.frames import MessageClass
from mesh.model.link_modes import LinkMode
from mesh.model.record_headers import GAP_HEADER, MESH_HEADER, SUBJECT_HEADER
from mesh.model.subject import subject_fault
from mesh.model.topics import TopicNames
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_log import PartitionLog
from mesh.transport.port import Record, TopicPartition
from mesh.wire.control import decode_stop, encode_stop
from mesh.wire.frames import decode_header
from mesh.wire.keys import accept_key, subscription_key
from mesh.wire.state import decode_dead_letter

Headers = Sequence[tuple[str, bytes | None]]

PER_MESH = 4_000
"""Records that one mesh gets before it is judged."""

PER_ROUND = 80
ROUND_MS = 250
RESTART_SHARE = 0.05
ALL_SHARE = 0.5
"""Of the restarts of a node so many are of all its workers."""

STALL_S = 1.0
HUGE_BYTES = 950_000
RECENT = 40
"""Of a topic so many of the newest records are changed and written again."""

SHAPES: Sequence[Mapping[str, object]] = (
    {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"]]}},
    {"Z": {"kind": "one-hop", "nodes": ["a", "b", "c"]}},
    {
        "A": {"kind": "cluster", "nodes": ["a", "b"]},
        "C": {"kind": "cluster", "nodes": ["c"]},
        "X": {"kind": "external", "links": [["b", "c"]]},
    },
    {
        "A": {"kind": "one-hop", "nodes": ["a", "b"]},
        "C": {"kind": "one-hop", "nodes": ["c"]},
        "BC": {"kind": "join", "from": "b", "to": "c"},
        "CB": {"kind": "join", "from": "c", "to": "b"},
    },
)
"""Zones of the meshes, by turns; every second round of them has two lanes and two workers a node."""


def spec_of(seed: int) -> Mapping[str, object]:
    """Return the topology of a mesh."""
    lanes = 1 + seed // len(SHAPES) % 2
    return {
        "kafka": {"k": {}},
        "nodes": {node: {"partitions": 2, "lanes": lanes} for node in "abc"},
        "zones": SHAPES[seed % len(SHAPES)],
        "maxMessageBytes": 900_000,
    }


REMARKS = ("1;3;1-2;0:2", "1;0;;", "1;256;0-255;", "1;5;1,3;0:9")
FILTERS = ("x/*/y", ">", "*/>", "a/b/c", "$node/>", "", "a//b", "x/" * 20, "é/ü", "*" * 300)
VALUES = (
    b"{}", b'{"kind":"queue","policy":"any"}', b'{"lease_s":1}', b'{"lease_s":-1}', b"null", b"[]",
    b'{"kind":"channel","class":"direct"}', b'{"lease_s":1e999}', b"[" * 5_000, b'{"kind":7}',
    b'{"lease_s":99999999999999999999}', b"\xef\xbb\xbf{}", b"NaN", b'{"class":null,"kind":""}',
)  # fmt: skip


class FuzzError(AssertionError):
    """What must not be, and the seed that shows it."""


class TimedWorld(World):
    """A world that knows its longest turn, in seconds of the processor."""

    slowest_s = 0.0

    def _turn(self, name: str) -> None:
        begin = time.process_time()
        super()._turn(name)
        self.slowest_s = max(self.slowest_s, time.process_time() - begin)


@dataclass(slots=True)
class Fuzz:
    """One mesh, and who writes into it.

    Attributes:
        seed: Decides everything.
        wrote: How many records of strangers there are, by topic's kind.
        refused: How many Kafka itself refused as too large.
    """

    seed: int
    world: TimedWorld = field(init=False)
    draw: random.Random = field(init=False)
    wrote: Counter[str] = field(default_factory=Counter)
    skipped: int = 0
    refused: int = 0
    honest: list[bytes] = field(default_factory=list)
    _names: TopicNames = field(default_factory=TopicNames)
    _odd: dict[TopicPartition, dict[int, bool]] = field(default_factory=dict)
    _strange: dict[tuple[TopicPartition, int], None] = field(default_factory=dict)
    _consumers: list[QueueConsumer] = field(default_factory=list)
    _accepted: dict[Stop, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Start a mesh with a channel, and a queue with members at both ends."""
        self.draw = random.Random(self.seed)
        self.world = TimedWorld(topology_from_mapping(spec_of(self.seed)), seed=self.seed)
        for node in "abc":
            self._start(node)
        self.run(4_000)
        self._subscribe("c", "s", "honest/>", b"{}")
        for node in "ac":
            self._subscribe(node, "q", "queue/q", b'{"kind":"queue","policy":"any"}')
        self.run(4_000)

    def _start(self, node: str) -> None:
        for index in range(self.world.topology.nodes[node].lanes):
            self.world.start(node, index)

    @property
    def kafka(self) -> MemoryKafka:
        """The one Kafka cluster."""
        return self.world.kafka["k"]

    def run(self, ms: int) -> None:
        """Let so much time pass."""
        end = self.world.clock.ms + ms
        self.world.run_until(lambda: self.world.clock.ms >= end, 4 * ms + 10_000)

    # -- writing ----------------------------------------------------------------------------------

    def turn(self, records: int = PER_ROUND) -> None:
        """Have strangers write, and honest clients between them."""
        for _ in range(records):
            self._intrude()
        for _ in range(3):
            payload = b"honest %d" % len(self.honest)
            self.honest.append(payload)
            topic = self._names.ingress("a", MessageClass.GUARANTEED)
            self._write(topic, 0, b"k", payload, [(SUBJECT_HEADER, b"honest/x")])
        self._write(
            self._names.ingress("b", MessageClass.GUARANTEED),
            0, None, b"job", [(SUBJECT_HEADER, b"queue/q")],
        )  # fmt: skip
        self._consume()
        if self.draw.random() < RESTART_SHARE:  # who comes next reads all of it, and from its start
            node = self.draw.choice("abc")
            if self.draw.random() < ALL_SHARE:
                self.world.kill(node)
                self._start(node)
            else:
                index = self.draw.randrange(self.world.topology.nodes[node].lanes)
                self.world.kill(node, index)
                self.world.start(node, index)
        self.run(ROUND_MS)
        self._accept()

    def _intrude(self) -> None:
        topics = self._topics()
        kind = self.draw.choice(list(topics))
        if kind == "remarks":
            self._remark()
            return
        topic = self.draw.choice(topics[kind])
        logs = self.kafka.topics[topic].logs
        log = self.draw.choice(logs)
        key, value, headers = self._record(kind, log)
        if kind == "outbox" and _is_forged(key):
            self.skipped += 1
            return
        at = TopicPartition(topic, log.partition)
        offset = log.end
        if self._write(topic, log.partition, key, value, headers):
            self.wrote[kind] += 1
            if kind in ("ingress", "outbox"):
                is_odd = kind == "outbox" or _is_odd(key, value, headers)
                self._odd.setdefault(at, {})[offset] = is_odd
            elif kind == "endpoint":
                self._strange[at, offset] = None
        else:
            self.refused += 1

    def _topics(self) -> Mapping[str, Sequence[str]]:
        names, classes = self._names, list(MessageClass)
        topology = self.world.topology
        pairs = [(node, other) for node in "abc" for other in topology.neighbours(node)]
        return {
            "ingress": [names.ingress(node, one) for node in "abc" for one in classes],
            "clients": [names.clients(node) for node in "abc"],
            "control": [
                *(names.control(node) for node in "abc"),
                *(names.to_control(*pair) for pair in pairs),
                names.config(),
            ],
            "outbox": [names.outbox(*pair, one) for pair in pairs for one in classes],
            "endpoint": [
                names.endpoint("c", "s"), names.endpoint("a", "q"), names.endpoint("c", "q")
            ],
            "remarks": (),
        }  # fmt: skip

    def _record(self, kind: str, log: PartitionLog) -> tuple[bytes | None, bytes | None, Headers]:
        draw = self.draw
        recent = [one for one in log.entries[-RECENT:] if one is not None]
        if kind == "clients" and draw.random() < 0.5:
            endpoint = draw.choice(
                ["s", "q", f"e{draw.randrange(20)}", "E", "ü", "", "a b", "x" * 80]
            )
            key = b"%b %b" % (endpoint.encode(), draw.choice(FILTERS).encode())
            value = draw.choice([*VALUES, None])
            # What honest clients asked for is theirs to end.
            return (b"other" + key if key in HONEST else key), value, self._headers()
        if recent and draw.random() < 0.6:
            one = draw.choice(recent)
            return self._changed_record(kind, one.key(), one.value(), _headers_of(one))
        return self._noise(), self._noise(), self._headers()

    def _changed_record(
        self, kind: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> tuple[bytes | None, bytes | None, Headers]:
        which = self.draw.randrange(4)
        if which in (0, 3):
            key = self._changed(key)
        if which in (1, 3):
            value = self._changed(value)
        if which == 2:
            headers = [(self._changed_name(name), self._changed(text)) for name, text in headers]
            value = value if kind in ("ingress", "endpoint") else self._changed(value)
        if kind == "clients" and key in HONEST:
            key = b"other" + (key or b"")
        if kind == "ingress" and (value or b"").startswith(b"honest "):
            value = b"copied " + (value or b"")  # published again, and a message of its own
        return key, value, headers

    def _noise(self) -> bytes | None:
        draw = self.draw
        match draw.randrange(8):
            case 0:
                return None
            case 1:
                return b""
            case 2 if draw.random() < 0.03:
                return bytes(HUGE_BYTES)
            case 3:
                return draw.choice(VALUES)
            case _:
                return draw.randbytes(draw.randrange(1, 60))

    def _headers(self) -> Headers:
        draw = self.draw
        found: list[tuple[str, bytes | None]] = []
        for _ in range(draw.choice([0, 0, 1, 1, 2, 5])):
            name = draw.choice([SUBJECT_HEADER, SUBJECT_HEADER, MESH_HEADER, GAP_HEADER, "own", ""])
            value = draw.choice(
                [b"x/y", b"", None, b"a/\xff", b"$node/x", b"a/*", self._noise(), *VALUES]
            )
            found.append((name if draw.random() < 0.9 else self._odd_name(), value))
        return found

    def _odd_name(self) -> str:
        return self.draw.randbytes(6).decode(errors="surrogateescape")

    def _changed_name(self, name: str) -> str:
        raw = self._changed(name.encode(errors="surrogateescape")) or b""
        return raw.decode(errors="surrogateescape")

    def _changed(self, raw: bytes | None) -> bytes | None:
        draw = self.draw
        if not raw:
            return self._noise()
        made = bytearray(raw)
        at = draw.randrange(len(made))
        match draw.randrange(7):
            case 0:
                made[at] ^= 1 << draw.randrange(8)
            case 1:
                made[at] = draw.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                del made[at:]
            case 3:
                made[at:at] = draw.randbytes(draw.randrange(1, 12))
            case 4:
                made += made[at:]
            case 5:
                made[at : at + 1] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
            case _:
                return None
        return bytes(made)

    def _remark(self) -> None:
        """Have a member of the queue's group write what it likes beside an offset."""
        topic = self._names.endpoint(self.draw.choice("ac"), "q")
        place = TopicPartition(topic, self.draw.randrange(2))
        text = self.draw.choice(REMARKS).encode()
        raw = self._changed(text) if self.draw.random() < 0.8 else b"1;0;0-99999999999;"
        self.kafka.remarks[topic, place] = (raw or b"").decode(errors="replace")[:4_096]
        self.kafka.groups.setdefault(topic, {place: 0})
        self.wrote["remarks"] += 1

    def _subscribe(self, node: str, endpoint: str, filter_: str, value: bytes) -> None:
        key = subscription_key(endpoint, filter_)
        assert self._write(self._names.clients(node), 0, key, value, ())

    def _write(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> bool:
        writer = self.kafka.writer("stranger")
        writer.produce(topic, value, key, partition, headers=list(headers))
        return writer.flush() == 0

    # -- clients ----------------------------------------------------------------------------------

    def _consume(self) -> None:
        """Have consumers of the queue come, take what there is, and go."""
        if not self._consumers:
            self._consumers = [
                QueueConsumer(
                    self.kafka, self.world.topology, node, "q", deliveries_max=3,
                    now_ms=self.world.clock.now_ms, pause=lambda _: None,
                )
                for node in self.draw.choice(("a", "c", "ac"))  # the others' messages move there
            ]  # fmt: skip
        for one in self._consumers:
            try:
                for message in one.read(0.0):
                    one.ack(message)
                one.commit()
            except TransportError:
                continue
        if self.draw.random() < 0.05:
            for one in self._consumers:
                one.close()
            self._consumers = []

    def _accept(self) -> None:
        """Accept what a record of a later version cost, as an operator does who knows whose it was.

        A stranger may take that back before the node has read it: the operator sees that the stop
        stands, and accepts again.
        """
        orders = self._newest(self._names.config())
        for node in "abc":
            for key, value in self._newest(self._names.control(node)).items():
                if not key.startswith(b"stop ") or value is None:
                    continue
                try:
                    stop = decode_stop(value)
                except ProtocolError:
                    continue
                self._accepted[stop] = None
                accept, accepted = accept_key(node, stop.topic, stop.partition), encode_stop(stop)
                if orders.get(accept) != accepted:
                    self._write(self._names.config(), 0, accept, accepted, ())

    def _newest(self, topic: str) -> Mapping[bytes, bytes | None]:
        records = self.kafka.topics[topic].logs[0].entries
        return {one.key() or b"": one.value() for one in records if one is not None}

    # -- judging ----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Let the mesh come to rest, and judge it.

        Raises:
            FuzzError: A worker ended or stalled, a record is not counted, a message is not there.
        """
        for one in self._consumers:
            one.close()
        for _ in range(20):
            self.run(4_000)
            self._accept()
            if not list(self._faults()):
                return
        raise FuzzError(f"seed {self.seed}: {next(self._faults())}")

    def _faults(self) -> Iterator[str]:
        if self.world.troubles:
            yield f"{self.world.troubles} workers ended"
        if self.world.slowest_s > STALL_S:
            yield f"a turn took {self.world.slowest_s:.2f} s of the processor"
        yield from self._unsettled()
        letters = self._letters()
        later = {(one.topic, one.partition, one.first) for one in self._accepted}
        for at, odd in self._odd.items():
            for offset, is_odd in odd.items():
                times = letters[at, offset]
                is_direct = at.topic.endswith(".d") or (*_of(at), offset) in later
                if (is_odd and not times and not is_direct) or times > 1:
                    yield f"{times} dead letters of {at} {offset}"
                if not is_odd and times:
                    yield f"a message is a dead letter: {at} {offset}"
        came = Counter(self._delivered())
        if lacks := [one for one in self.honest if one not in came]:
            yield f"{len(lacks)} of {len(self.honest)} messages lack, {lacks[0]!r} first"
        if any(came[one] > 1 for one in self.honest):
            yield "a message came twice"

    def _unsettled(self) -> Iterator[str]:
        """Yield who does not serve, and what is not proven or known everywhere."""
        for name, worker in self.world.workers.items():
            machine = worker.machine
            if machine is None or not worker.is_ready:
                yield f"{name} does not serve"
                continue
            for other, neighbour in machine.learner.neighbours.items():
                if neighbour.mode is not LinkMode.UP:
                    yield f"{name}: the link to {other} is {neighbour.mode}"
            if machine.leader is not None and not machine.leader.is_complete(machine.learner):
                yield f"{name}: not everybody knows what it offers"

    def _letters(self) -> Counter[tuple[TopicPartition, int]]:
        found: Counter[tuple[TopicPartition, int]] = Counter()
        for node in "abc":
            for log in self.kafka.topics[self._names.dead_letters(node)].logs:
                for record in log.entries[: log.stable - log.start]:
                    if record is not None:
                        letter = decode_dead_letter((record.headers() or [])[-1][1] or b"")
                        found[TopicPartition(letter.topic, letter.partition), letter.offset] += 1
        return found

    def _delivered(self) -> Iterator[bytes]:
        topic = self._names.endpoint("c", "s")
        for log in self.kafka.topics[topic].logs:
            at = TopicPartition(topic, log.partition)
            for record in log.entries[: log.stable - log.start]:
                if record is not None and (at, record.offset()) not in self._strange:
                    yield record.value() or b""


def _of(at: TopicPartition) -> tuple[str, int]:
    return at.topic, at.partition


def _headers_of(record: Record) -> Headers:
    try:
        return record.headers() or ()
    except SystemError:
        return ()  # a name that is not UTF-8


HONEST = (b"s honest/>", b"q queue/q")


def _is_odd(key: bytes | None, value: bytes | None, headers: Headers) -> bool:
    """Say by other means than the mesh's whether an ingress record is no message. Spec: K6, K7."""
    try:
        for name, _ in headers:
            name.encode()
        subjects = [text for name, text in headers if name == SUBJECT_HEADER]
        if len(subjects) != 1 or subjects[0] is None or subject_fault(subjects[0].decode()):
            return True
    except UnicodeError:
        return True
    kept = [(name, text) for name, text in headers if name.partition("-")[0] != MESH_HEADER]
    size = sum(len(name.encode()) + len(text or b"") for name, text in kept)
    return size + len(key or b"") + len(value or b"") > 900_000


def _is_forged(key: bytes | None) -> bool:
    """Return whether a key is that of a frame: see the module."""
    try:
        decode_header(key or b"")
    except (DecodeError, ProtocolError):
        return False
    return True


def fuzz(records: int, seed: int, *, tells: bool = False) -> Mapping[str, float]:
    """Have so many records written, mesh by mesh; return what there was.

    Raises:
        FuzzError: Something is wrong.
    """
    total: Counter[str] = Counter()
    slowest, begin = 0.0, time.process_time()
    while (done := sum(total.values())) < records:
        mesh = Fuzz(seed)
        while mesh.wrote.total() < min(PER_MESH, records - done):
            mesh.turn()
        mesh.finish()
        total += mesh.wrote
        slowest = max(slowest, mesh.world.slowest_s)
        if tells:
            used = time.process_time() - begin
            text = (
                f"seed {seed}: {total.total()} records, {used:.0f} s, longest turn {slowest:.3f} s"
            )
            sys.stderr.write(text + "\n")
        seed += 1
    return {**total, "slowest_s": slowest, "next_seed": seed}


def main() -> int:
    """Fuzz, and say what was written."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first mesh")
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    try:
        found = fuzz(given.records, given.seed, tells=True)
    except FuzzError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    for name, value in found.items():
        sys.stdout.write(f"{name:10} {value}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
