"""One fault of each kind, planted in what a mesh wrote: what a broken node would have written.

A function takes a scene, changes its records, and returns what must be found; None where the scene
offers no place for it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mesh.model.control import Heartbeat, LinkState, Subscription
from mesh.model.facts import Accepted, Fact, SourceAt
from mesh.model.frames import (
    Chain,
    Delivery,
    FrameHeader,
    Hop,
    Message,
    MessageClass,
    Origin,
    SourcePartition,
    TopicPartition,
)
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.wire.control import decode_heartbeat, encode_heartbeat, encode_link_state
from mesh.wire.deliveries import delivery_of, encode_delivery
from mesh.wire.frames import encode_value
from mesh.wire.header import decode_header, encode_header
from mesh.wire.keys import fact_key, heartbeat_key, link_key, subscription_key
from mesh.wire.state import encode_fact
from mesh.wire.subscriptions import encode_subscription
from streaming.tables.topics import ENDPOINT, INGRESS, OUTBOX, TopicPlace, place_of
from tests.sim.meshes import naive_matches
from tests.streaming.drawn import LIVE, SPARE, STALE, Drawn
from tests.streaming.planted import Plant, Record

GUARANTEED, DIRECT = MessageClass.GUARANTEED, MessageClass.DIRECT
BEHIND = 15
"""Heartbeats after which a reader that has read none of them is late. Spec: K32."""

At = tuple[str, int]
"""Topic and partition."""


@dataclass(frozen=True)
class Fault:
    """What must be found.

    Attributes:
        kind: Of the finding.
        where: Endpoint, link or source that it names.
        first, last: Source offsets that it names, where they are known.
    """

    kind: str
    where: str
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True)
class Entry:
    """A record of a data topic, and what it says.

    Attributes:
        at, number: Where it stands.
        place: Its topic taken apart.
        subject: Of what was published or delivered.
        delivery: Of a record of an endpoint.
        header: Of a frame.
    """

    at: At
    number: int
    place: TopicPlace
    record: Record
    subject: str = ""
    delivery: Delivery | None = None
    header: FrameHeader | None = None


@dataclass
class Scene:
    """What a mesh wrote, to be spoiled.

    Attributes:
        drawn: The mesh.
        plant: Its records.
        ids: Topic -> id.
        since: Only what was written after these ends is touched.
        used: Records that a fault has taken.
    """

    drawn: Drawn
    plant: Plant
    ids: Mapping[str, str]
    since: Mapping[At, int] = field(default_factory=dict)
    used: dict[tuple[At, int], None] = field(default_factory=dict)
    names: TopicNames = field(default_factory=TopicNames)

    def entries(self, kind: str, letter: str = "") -> Iterator[Entry]:
        """Yield the new records of topics of a kind that no fault has taken, in order."""
        for at, log in sorted(self.plant.logs.items()):
            place = place_of(self.names.prefix, at[0])
            if place.kind != kind or (letter and place.letter != letter):
                continue
            for number in range(self.since.get(at, 0), len(log)):
                record = log[number]
                if record is not None and (at, number) not in self.used:
                    yield Entry(at, number, place, record, **_told(kind, record))

    def deliveries(self) -> list[Entry]:
        """Return what endpoints got, but those of drills."""
        found = self.entries(ENDPOINT)
        return [one for one in found if one.delivery and not one.place.other.startswith("drill-")]

    def reached(self) -> Mapping[tuple[At, SourcePartition], int]:
        """Return up to where endpoint partitions hold messages of sources, whatever has them."""
        found: dict[tuple[At, SourcePartition], int] = {}
        for at, log in self.plant.logs.items():
            if place_of(self.names.prefix, at[0]).kind == ENDPOINT:
                for record in filter(None, log):
                    told = delivery_of(record.headers)
                    key = (at, told.source)
                    found[key] = max(found.get(key, -1), told.offset)
        return found

    def frames(self, letter: str = "g") -> list[Entry]:
        """Return what was sent over links."""
        return [one for one in self.entries(OUTBOX, letter) if one.header is not None]

    def published(self, subject: str, letter: str = "g") -> list[Entry]:
        """Return what clients published to a subject."""
        return [one for one in self.entries(INGRESS, letter) if one.subject == subject]

    def spares(self, letter: str = "g") -> list[Entry]:
        """Return what nobody wants of what clients published."""
        return self.published(SPARE, letter)

    def is_owed(self, one: Entry) -> bool:
        """Return whether a delivery had to come, if its message is guaranteed."""
        endpoint = (one.place.node, one.place.other)
        return endpoint in self.drawn.asked and endpoint not in self.drawn.left

    def partitions(self, topic: str) -> int:
        """Return how many partitions a topic has."""
        return sum(1 for name, _ in self.plant.logs if name == topic)

    def pick(self, found: Sequence[Entry]) -> Entry | None:
        """Return one of some records, which no other fault gets."""
        if not found:
            return None
        one = self.drawn.rng.choice(found)
        self.used[one.at, one.number] = None
        return one

    def put(self, one: Entry, record: Record | None) -> None:
        """Have something else stand where a record stood."""
        self.plant.logs[one.at][one.number] = record

    def append(self, at: At, record: Record) -> int:
        """Have a record stand at the end of a log; return its offset."""
        log = self.plant.logs[at]
        log.append(record)
        self.used[at, len(log) - 1] = None
        return len(log) - 1

    def source(self, topic: str, partition: int) -> SourcePartition:
        """Return a partition by the id of its topic."""
        return SourcePartition(bytes.fromhex(self.ids[topic]), partition)

    def topic_of(self, source: SourcePartition) -> str:
        """Return the name of a topic by its id."""
        return next(topic for topic, id_ in self.ids.items() if id_ == source.topic_id.hex())

    def way(self, origin: str, node: str) -> tuple[str, ...] | None:
        """Return the nodes that messages pass from one to another, if they get there."""
        if origin == node:
            return (node,)
        way = self.drawn.oracle.way_to.get((origin, node))
        return None if way is None else way.nodes

    def advance(self, node: str, at: At, *chains: tuple[SourcePartition, int]) -> None:
        """Have a node say that it has read all of a partition, and accepted what is in chains."""
        place = TopicPartition(*at)
        topic_id = self.source(*at).topic_id
        self._keep(node, SourceAt(place, topic_id, len(self.plant.logs[at])))
        for source, last in chains:
            self._keep(node, Accepted(place, source, last))

    def _keep(self, node: str, fact: Fact) -> None:
        """Write a fact where its lane writes it: of two partitions nobody knows which is newer."""
        topic, key = self.names.progress(node), fact_key(fact.key)
        lanes = [
            at
            for at, log in sorted(self.plant.logs.items())
            if at[0] == topic and any(one is not None and one.key == key for one in log)
        ]
        self.append(lanes[0] if lanes else (topic, 0), Record(key, encode_fact(fact)))


def _told(kind: str, record: Record) -> dict:
    headers = dict(record.headers)
    subject = (headers.get(SUBJECT_HEADER) or b"").decode()
    if kind == ENDPOINT:
        return {"subject": subject, "delivery": delivery_of(record.headers)}
    if kind == OUTBOX:
        return {"header": decode_header(record.key or b"")}
    return {"subject": subject}


# -- in endpoints ---------------------------------------------------------------------------


def missing(scene: Scene) -> Fault | None:
    """A message does not come, though every hop passes it."""
    found = [
        one
        for one in scene.deliveries()
        if one.delivery.message_class is GUARANTEED and scene.is_owed(one)
    ]
    if (one := scene.pick(found)) is None:
        return None
    scene.put(one, None)
    return _of_delivery("missing", one)


def duplicate(scene: Scene) -> Fault | None:
    """A message comes once more, or crosses a link once more."""
    if scene.drawn.rng.random() < 0.5:
        return _duplicate_frame(scene)
    if (one := scene.pick(scene.deliveries())) is None:
        return None
    scene.append(one.at, one.record)
    return _of_delivery("duplicate", one)


def _duplicate_frame(scene: Scene) -> Fault | None:
    if (one := scene.pick(scene.frames())) is None:
        return None
    scene.append(one.at, one.record)
    scene.advance(one.place.other, one.at)
    return _of_frame("duplicate", one)


def corrupt(scene: Scene) -> Fault | None:
    """A message comes with another payload, key, header, subject or time."""
    found = [one for one in scene.deliveries() if one.delivery.message_class is GUARANTEED]
    if (one := scene.pick(found)) is None:
        return None
    record = one.record
    own = [pair for pair in record.headers if pair[0] not in (SUBJECT_HEADER, MESH_HEADER)]
    others = [pair for pair in record.headers if pair not in own]
    subject = [
        (SUBJECT_HEADER, b"a/other") if name == SUBJECT_HEADER else (name, value)
        for name, value in record.headers
    ]
    changed = [
        replace(record, value=(record.value or b"") + b"!"),
        replace(record, value=None),
        replace(record, key=b"other"),
        replace(record, headers=(*own, ("more", None), *others)),
        replace(record, headers=tuple(subject)),
        replace(record, at_ms=record.at_ms + 1),
    ]
    if len(own) > 1:
        changed.append(replace(record, headers=(*own[::-1], *others)))
    scene.put(one, scene.drawn.rng.choice(changed))
    return _of_delivery("corrupt", one)


def unexpected(scene: Scene) -> Fault | None:
    """An endpoint gets what it did not ask for, of either class, and nothing is late for it."""
    letter = scene.drawn.rng.choice("gd")
    reached = scene.reached()
    spares = scene.spares(letter)
    places = [
        (spare, at, way)
        for spare in spares
        for at in sorted(scene.plant.logs)
        if (place := place_of(scene.names.prefix, at[0])).kind == ENDPOINT
        and at[1] == spare.at[1] % scene.partitions(at[0])  # else nothing would tell their order
        and not place.other.startswith("drill-")
        and (way := scene.way(spare.place.node, place.node)) is not None
        and spare.number > reached.get((at, scene.source(*spare.at)), -1)
        and not any(
            (topic, source) == (at[0], scene.source(*spare.at)) and partition != at[1]
            for (topic, partition), source in reached
        )
    ]
    if not places:
        return None
    spare, at, way = scene.drawn.rng.choice(places)
    return _forge(scene, spare, at, way, "unexpected")


def _forge(
    scene: Scene,
    spare: Entry,
    at: At,
    way: tuple[str, ...],
    kind: str,
    source: SourcePartition | None = None,
) -> Fault:
    """Have an endpoint get a message."""
    scene.used[spare.at, spare.number] = None
    delivery = Delivery(
        message_class=GUARANTEED if spare.place.letter == "g" else DIRECT,
        path=way,
        source=source or scene.source(*spare.at),
        generation=0,
        offset=spare.number,
    )
    headers = (*spare.record.headers, (MESH_HEADER, encode_delivery(delivery)))
    scene.append(at, replace(spare.record, headers=headers))
    endpoint = place_of(scene.names.prefix, at[0]).endpoint
    return Fault(kind, endpoint, spare.number, spare.number)


def forged_origin(scene: Scene) -> Fault | None:
    """An endpoint gets a message of a topic that does not exist, or to which nobody publishes."""
    spares = scene.spares()
    found = [one for one in scene.deliveries() if one.place.other != "d"]
    if not spares or (one := scene.pick(found)) is None:
        return None
    spare, rng = scene.drawn.rng.choice(spares), scene.drawn.rng
    begin = scene.names.outbox(one.delivery.path[0], "", GUARANTEED)[:-2]
    outboxes = [topic for topic in scene.ids if topic.startswith(begin) and topic.endswith(".g")]
    source = SourcePartition(rng.randbytes(16), spare.at[1])
    if rng.random() < 0.5 and outboxes:
        source = scene.source(rng.choice(sorted(outboxes)), 0)
    way = scene.way(one.delivery.path[0], one.place.node)
    return _forge(scene, spare, one.at, way or (), "forged-origin", source)


def disorder(scene: Scene) -> Fault | None:
    """Two messages of one source come the other way round."""
    rows: dict[object, list[Entry]] = {}
    for one in scene.deliveries():
        rows.setdefault((one.at, one.delivery.source), []).append(one)
    # What another fault has taken may stand between: only true neighbours are exchanged.
    pairs = [
        (one, other)
        for group in rows.values()
        for one, other in itertools.pairwise(group)
        if not any((one.at, number) in scene.used for number in range(one.number, other.number))
    ]
    if not pairs:
        return None
    one, other = scene.drawn.rng.choice(pairs)
    for entry, record in ((one, other.record), (other, one.record)):
        scene.put(entry, record)
        scene.used[entry.at, entry.number] = None
    return _of_delivery("disorder", one)


# -- ways -----------------------------------------------------------------------------------


def loop(scene: Scene) -> Fault | None:
    """A path leads through a node twice, or a message is sent to where it was."""
    rng = scene.drawn.rng
    if rng.random() < 0.5:
        if (one := scene.pick(scene.deliveries())) is None:
            return None
        node, path = one.place.node, one.delivery.path
        other = rng.choice(
            [name for name in sorted(scene.drawn.oracle.topology.nodes) if name != node]
        )
        scene.put(one, _by_way(one.record, one.delivery, (*path, other, node)))
        return _of_delivery("loop", one)
    if (one := scene.pick(scene.frames(rng.choice("gd")))) is None:
        return None
    path = (*one.header.hop.path, one.place.other, one.place.node)
    scene.put(one, replace(one.record, key=_on_path(one.header, path)))
    return _of_frame("loop", one)


def unplanned_path(scene: Scene) -> Fault | None:
    """A message came, or goes, by a way that no zone allows: by an oracle of the tests."""
    rng = scene.drawn.rng
    if rng.random() < 0.5:
        if (one := scene.pick(scene.deliveries())) is None:
            return None
        origin, node = one.delivery.path[0], one.place.node
        wrong = [path for path in _orders(scene, origin, node) if not _is_way(scene, path)]
        # Where every order is a way, one that begins or ends elsewhere is none.
        elsewhere = [
            (*one.delivery.path, other)
            for other in scene.drawn.oracle.topology.nodes
            if other not in one.delivery.path
        ]
        if not (wrong or elsewhere):
            return None
        path = rng.choice(wrong or elsewhere)
        scene.put(one, _by_way(one.record, one.delivery, path))
        return _of_delivery("unplanned-path", one)
    if (one := scene.pick(scene.frames(rng.choice("gd")))) is None:
        return None
    origin, node = one.header.hop.path[0], one.place.node
    wrong = [
        path
        for path in _orders(scene, origin, node)
        if one.place.other not in path and not _is_way(scene, (*path, one.place.other))
    ]
    if wrong and rng.random() < 0.7:
        key = _on_path(one.header, rng.choice(wrong))
    else:
        key = encode_header(replace(one.header, hop=replace(one.header.hop, zone="nowhere")))
    scene.put(one, replace(one.record, key=key))
    return _of_frame("unplanned-path", one)


def _orders(scene: Scene, origin: str, node: str) -> list[tuple[str, ...]]:
    """Return the ways to visit nodes once, from one to another, whether links lead there or not."""
    others = [
        name for name in sorted(scene.drawn.oracle.topology.nodes) if name not in (origin, node)
    ]
    if origin == node:
        return []
    return [
        (origin, *middle, node)
        for count in range(len(others) + 1)
        for middle in itertools.permutations(others, count)
    ]


def _is_way(scene: Scene, path: tuple[str, ...]) -> bool:
    return path in scene.drawn.oracle.ways


def _by_way(record: Record, delivery: Delivery, path: tuple[str, ...]) -> Record:
    told = encode_delivery(replace(delivery, path=path))
    headers = [(name, told if name == MESH_HEADER else value) for name, value in record.headers]
    return replace(record, headers=tuple(headers))


def _on_path(header: FrameHeader, path: tuple[str, ...]) -> bytes:
    return encode_header(replace(header, hop=replace(header.hop, path=path)))


# -- on links -------------------------------------------------------------------------------


def gap(scene: Scene) -> Fault | None:
    """A frame is not there, and a later one of its chain is."""
    chains: dict[object, list[Entry]] = {}
    for one in scene.frames():
        chains.setdefault((one.at, one.header.hop.chain.source), []).append(one)
    # What lies before the first record that is read counts as deleted, and not as lost.
    pairs = [
        (one, later)
        for group in chains.values()
        for one, later in itertools.pairwise(group)
        if any(scene.plant.logs[one.at][: one.number])
        and later.header.hop.chain.previous == one.header.hop.chain.last
    ]
    if not pairs:
        return None
    one, later = scene.drawn.rng.choice(pairs)
    for entry in (one, later):
        scene.used[entry.at, entry.number] = None
    scene.put(one, None)
    previous = one.header.hop.chain.previous
    return Fault("gap", one.place.link, previous + 1, later.header.hop.chain.previous)


def unaccounted(scene: Scene) -> Fault | None:
    """A direct frame says that it holds another number of messages than its reader read."""
    if (one := scene.pick(scene.frames("d"))) is None:
        return None
    count = one.header.origin.count + 1
    header = replace(one.header, origin=replace(one.header.origin, count=count))
    scene.put(one, replace(one.record, key=encode_header(header)))
    return Fault("unaccounted", one.place.link)


def needless_copy(scene: Scene) -> Fault | None:
    """A message crosses a link behind which nobody wants it."""
    spare_links = [
        (spare, link)
        for spare in scene.spares()
        for link in _links_from(scene, spare.place.node)
        if not scene.drawn.oracle.may_cross(link[0], *link, spare.subject, ())
        and spare.number > _sent(scene, link, spare.at)[1]  # else it were out of order, too
    ]
    if not spare_links:
        return None
    spare, link = scene.drawn.rng.choice(spare_links)
    scene.used[spare.at, spare.number] = None
    at, source = _send(scene, spare, link)
    scene.advance(link[1], at, (source, spare.number))
    return Fault("needless-copy", f"{link[0]}->{link[1]}", spare.number, spare.number)


def _links_from(scene: Scene, node: str) -> list[tuple[str, str]]:
    """Return the links of a node but joins."""
    made = scene.drawn.oracle
    found = [(node, other) for other in made.topology.neighbours(node)]
    return [one for one in found if one not in made.joins and one[::-1] not in made.joins]


def _send(scene: Scene, spare: Entry, link: tuple[str, str]) -> tuple[At, SourcePartition]:
    """Have a message cross a link from where it was published."""
    made, source = scene.drawn.oracle, scene.source(*spare.at)
    at, previous = _sent(scene, link, spare.at)
    zone = made.zone_from(*link)
    number = spare.number
    origin = Origin(
        node=link[0],
        source=source,
        generation=0,
        first=number,
        last=number,
        count=1,
        subjects=(spare.subject,),
    )
    hop = Hop(
        zone=zone,
        hops=1,
        join_hops=0,
        crossed_external=made.topology.zones[zone].kind == "external",
        lane_epoch=1,
        path=(link[0],),
        chain=Chain(source=source, previous=previous, first=max(previous + 1, number), last=number),
    )
    message = Message(
        offset=number,
        subject=spare.subject,
        timestamp=spare.record.at_ms,
        key=spare.record.key,
        headers=(),
        payload=spare.record.value,
    )
    key = encode_header(FrameHeader(hop=hop, origin=origin))
    scene.append(at, Record(key, encode_value([message], origin), (), spare.record.at_ms))
    return at, source


def _sent(scene: Scene, link: tuple[str, str], ingress: At) -> tuple[At, int]:
    """Return where frames of an ingress partition cross a link, and the last offset sent."""
    topic, source = scene.names.outbox(*link, GUARANTEED), scene.source(*ingress)
    at = (topic, ingress[1] if (topic, ingress[1]) in scene.plant.logs else 0)
    records = [one for one in scene.plant.logs[at] if one is not None]
    chains = [decode_header(one.key or b"").hop.chain for one in records]
    return at, max((one.last for one in chains if one.source == source), default=-1)


def _of_delivery(kind: str, one: Entry) -> Fault:
    return Fault(kind, one.place.endpoint, one.delivery.offset, one.delivery.offset)


def _of_frame(kind: str, one: Entry) -> Fault:
    return Fault(kind, one.place.link, one.header.origin.first, one.header.origin.last)


# -- what stands still ----------------------------------------------------------------------


def _publish(scene: Scene, node: str, partition: int, subject: str) -> Entry:
    at = (scene.names.ingress(node, GUARANTEED), partition)
    record = Record(b"k", b"late", ((SUBJECT_HEADER, subject.encode()),))
    number = scene.append(at, record)
    return Entry(at, number, place_of(scene.names.prefix, at[0]), record, subject)


def silent_link(scene: Scene) -> Fault | None:
    """A frame waits on a link, and its reader reads nothing any more; nobody is owed it."""
    made = scene.drawn.oracle
    links = [link for node in sorted(made.topology.nodes) for link in _links_from(scene, node)]
    if not links:
        return None
    link = scene.drawn.rng.choice(links)
    spare = _publish(scene, link[0], 0, LIVE)
    _send(scene, spare, link)
    scene.advance(link[0], spare.at)
    return Fault("silent-link", f"{link[0]}->{link[1]}")


def stalled(scene: Scene) -> Fault | None:
    """A lane reads its ingress no further, and somebody is owed what is there."""
    drawn = scene.drawn
    found = [
        (origin, subject)
        for (node, endpoint), filter_ in sorted(drawn.asked.items())
        if (node, endpoint) not in drawn.left
        for subject in ("a/b", "b", "b/c")
        if naive_matches(filter_, subject)
        for origin in sorted(drawn.oracle.topology.nodes)
        if origin == node or drawn.oracle.reaches(origin, subject, node)
    ]
    origin, subject = drawn.rng.choice(found)
    one = _publish(scene, origin, drawn.oracle.topology.nodes[origin].partitions - 1, subject)
    return Fault("stalled", f"{origin} at {one.at[0]}/{one.at[1]}")


def stale_interest(scene: Scene) -> Fault | None:
    """A subscription that no lane takes up, of which messages were published."""
    drawn = scene.drawn
    nodes = [
        node
        for node in sorted(drawn.oracle.topology.nodes)
        if node == drawn.stale_at or drawn.oracle.reaches(drawn.stale_at, STALE, node)
    ]
    node = drawn.rng.choice(nodes)
    at = (scene.names.clients(node), 0)
    key = subscription_key("stale", "stale/*")
    scene.append(at, Record(key, encode_subscription(Subscription())))
    return Fault("stale-interest", f"{node}/stale")


@dataclass
class Beats:
    """Goes on with the heartbeats of a mesh.

    Attributes:
        scene: Whose records they are.
        numbers: Of the next one, by node.
    """

    scene: Scene
    numbers: dict[str, int] = field(default_factory=dict)
    last: dict[str, Heartbeat] = field(init=False)

    def __post_init__(self) -> None:
        self.last = {}
        for node in sorted(self.scene.drawn.oracle.topology.nodes):
            log = self.scene.plant.logs[self.scene.names.control(node), 0]
            beats = [one.value for one in log if one is not None and one.key == heartbeat_key()]
            self.last[node] = decode_heartbeat(beats[-1] or b"")

    def beat(self, colours: Mapping[str, str] | None = None, apart: str = "") -> None:
        """Have all nodes beat once, and read what their neighbours said; one may be cut off."""
        scene = self.scene
        for node, beat in self.last.items():
            number = self.numbers.get(node, beat.beat + 1)
            self.numbers[node] = number + 1
            colour = (colours or {}).get(node, "")
            self.last[node] = replace(beat, beat=number, colour=colour)
            value = encode_heartbeat(self.last[node])
            scene.append((scene.names.control(node), 0), Record(heartbeat_key(), value))
        for node in self.last:
            for other in scene.drawn.oracle.topology.neighbours(node):
                if apart not in (node, other):
                    newest = self.last[other]
                    state = encode_link_state(LinkState(newest.epoch, newest.beat))
                    at = (scene.names.to_control(node, other), 0)
                    scene.append(at, Record(link_key(), state))

    def go_on_after(self, numbers: Mapping[str, int]) -> None:
        """Give later heartbeats higher numbers than these."""
        self.numbers = {node: number + 1 for node, number in numbers.items()}


def colours(scene: Scene) -> Mapping[str, str] | None:
    """Return colours by which a node with a neighbour is apart, and which everybody else shares."""
    made = scene.drawn.oracle
    node = scene.drawn.rng.choice(
        [one for one in sorted(made.topology.nodes) if made.topology.neighbours(one)]
    )
    return {one: "two" if one == node else "one" for one in made.topology.nodes}


PLANTED: Sequence[Callable[[Scene], Fault | None]] = (
    missing,
    corrupt,
    duplicate,
    disorder,
    loop,
    unplanned_path,
    gap,
    unaccounted,
    unexpected,
    forged_origin,
    needless_copy,
)
"""Found in what was written, whatever comes after; those that only add records come last."""

STANDING = (silent_link, stalled, stale_interest)
"""Found once they have lasted for a minute; what waits for one must not wait for the next."""
