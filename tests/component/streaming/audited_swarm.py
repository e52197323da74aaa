"""Schedules of the swarm, audited: what real nodes write is no fault, and what is certified is so.

The auditor reads along, late or not, and begins anew. At some moment it may read no further; when
all is over, one fault is planted in what it has not read, and it reads on. The judge of it all is
naive: what must come is what the swarm demands, and what came is counted record by record.
DESIGN 7, K29-K31.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from mesh.model.findings import FindingKind
from mesh.model.frames import MessageClass, SourcePartition
from mesh.model.record_headers import SUBJECT_HEADER
from streaming.audits.block import Certificate
from streaming.audits.finding_register import Finding
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import CONFIG, INGRESS, place_of
from tests.component.streaming.onlooker import Onlooker, WatchedWorld
from tests.sim.meshes import naive_matches
from tests.sim.swarm.draw import draw
from tests.sim.swarm.oracle import Oracle
from tests.sim.swarm.plan import Plan
from tests.sim.swarm.published import Message
from tests.sim.swarm.run import come_to_rest, run_plan
from tests.sim.swarm.seeds import Family, Seed
from tests.sim.swarm.verdict import is_owed
from tests.streaming.faults import PLANTED, Entry, Fault, Scene, needless_copy
from tests.streaming.planted import Plant, Record
from tests.streaming.trial import FORGERIES_S, tells

GUARANTEED = MessageClass.GUARANTEED
PLANTED_SHARE = 0.6
AUDITED = (Family.PLAIN, Family.JOINS, Family.CHANGES, Family.OUTAGES, Family.LOSSES)
"""Families in which nobody else writes: there is no fault in what is written, but losses."""
SPOILT = (Family.PLAIN, Family.JOINS)
"""Families in which faults are planted: one topology, and nothing is lost."""
SPARE = "spare/x/y"
"""What is published at the end; mostly nobody wants it."""
KEPT_MS = 700, 3_000
"""In this time after the beginning the auditor stops reading where a fault is planted."""

Offered = tuple[str, str]
"""Ingress partition and endpoint."""


@dataclass
class Owed:
    """What of a source must come to an endpoint, and what may, by payload: all of them differ."""

    source: SourcePartition
    must: set[bytes] = field(default_factory=set)
    may: set[bytes] = field(default_factory=set)


@dataclass
class Player:
    """What a scene is drawn by."""

    oracle: Oracle
    rng: random.Random


@dataclass
class SwarmScene(Scene):
    """What a swarm wrote, to be spoiled."""

    world: WatchedWorld = field(kw_only=True)

    def spares(self, letter: str = "g") -> list[Entry]:
        """Return what nobody has ever wanted of what clients published."""
        asked = [wish.filter_ for wish in self.world.watch.wishes]
        asked += self.world.oracle.joins.values()
        return [
            one
            for one in self.entries(INGRESS, letter)
            if not any(naive_matches(filter_, one.subject) for filter_ in asked)
        ]

    def is_owed(self, one: Entry) -> bool:
        """Return whether a delivery had to come, by the swarm's own verdict."""
        source = one.delivery.source
        message = self.world.watch.published[source.topic_id, source.partition, one.delivery.offset]
        return any(
            is_owed(self.world, wish, message)
            for wish in self.world.watch.wishes
            if (wish.node, wish.endpoint) == (one.place.node, one.place.other)
            and wish.of is GUARANTEED
            and naive_matches(wish.filter_, message.subject)
        )


@dataclass
class AuditedSchedule:
    """One schedule, and what the auditor makes of it.

    Attributes:
        seed: Decides everything.
        folder: For snapshots.
        wrong: What the auditor found without cause or did not find, or certified wrongly, a line
            each.
        certified: Deliveries that certificates cover.
        planted: The fault, if there is one.
        what: Kind of the fault to be planted; empty: any.
    """

    seed: Seed
    folder: Path
    what: str = ""
    wrong: list[str] = field(default_factory=list)
    certified: int = 0
    planted: Fault | None = None
    rng: random.Random = field(init=False)
    world: WatchedWorld = field(init=False)
    bench: Onlooker = field(init=False)

    def run(self) -> None:
        """Run the schedule, let the auditor read to the end, and judge it."""
        self.rng = random.Random(f"audit {self.seed}")
        result = run_plan(draw(self.seed), self._world)
        if result.rule:
            return  # the swarm's own tests tell of that
        if self.bench.is_kept_back:
            self._plant()
        self.bench.finish()
        if self.planted is not None and self.planted.kind == "forged-origin":
            self.bench.wait(FORGERIES_S)
        self.wrong += self._wrong_findings()
        self.wrong += self._miscertified()

    def _world(self, plan: Plan) -> WatchedWorld:
        self.world = WatchedWorld(plan)
        topology = plan.oracle.topology
        main = topology.audit_kafka or min(node.kafka for node in topology.nodes.values())

        def home(topic: str) -> str:
            place, nodes = place_of("mesh.", topic), self.world.topology.nodes
            if place.kind == CONFIG:
                return main
            return nodes[place.node].kafka if place.node in nodes else ""

        self.bench = self.world.onlooker = Onlooker(
            None,
            Plant(),
            self.folder / str(self.seed).replace("/", "-"),
            replace(topology, audit_kafka=main, audit_copies=True),
            kafkas=tuple(self.world.kafka),
            home=home,
            world=self.world,
            rng=self.rng,
        )
        is_spoilt = self.seed.family in SPOILT and self.rng.random() < PLANTED_SHARE
        if is_spoilt or self.what:
            self.bench.kept_ms = self.rng.randint(*KEPT_MS)
        return self.world

    def _plant(self) -> None:
        """Publish something that nobody wants, and plant a fault if there is a place for one."""
        for node, declared in self.world.topology.nodes.items():
            self.world.publish_at(node, self.rng.randrange(declared.partitions), SPARE)
        come_to_rest(self.world)
        self.bench.mirror()
        scene = SwarmScene(
            Player(self.world.oracle, self.rng),
            self.bench.plant,
            self.bench.ids,
            dict(self.bench.taken),
            world=self.world,
        )
        kinds = [one for one in PLANTED if self.what in ("", one.__name__.replace("_", "-"))]
        if not self.bench.auditor.state.needless.is_open:  # it looks for none in what is old
            kinds = [one for one in kinds if one is not needless_copy]
        self.planted = self.rng.choice(kinds)(scene) if kinds else None

    # -- what came of it ------------------------------------------------------------------------

    @property
    def is_lossy(self) -> bool:
        """Return whether records are lost, which is found as `gap` and leaves things unproven."""
        return self.seed.family is Family.LOSSES

    def _wrong_findings(self) -> Iterator[str]:
        left = [
            one
            for one in self.bench.auditor.state.register.findings.values()
            if not (one.kind.is_news or (self.is_lossy and self._is_loss(one)))
        ]
        if self.planted is not None:
            found = [one for one in left if tells(one, self.planted)]
            if found:
                left.remove(found[0])
            else:
                yield f"not found: {self.planted}"
        yield from (f"not planted: {line_of(one)}" for one in left)

    def _is_loss(self, finding: Finding) -> bool:
        """Return whether a finding says of what is lost that it is; the swarm asks who was told.

        What came before its log lost it is compared with what has its offset since.
        """
        if finding.kind in (FindingKind.UNEXPECTED, FindingKind.CORRUPT):
            return any(
                f"{one.place[0]}/{one.place[1]}" == finding.source
                and finding.first <= one.identity[2] <= finding.last
                for former in self.world.watch.former.values()
                for one in former
            )
        if finding.kind is not FindingKind.MISSING:
            return finding.kind is FindingKind.GAP
        owed = self._owed()[finding.source, finding.endpoint]
        came = {*self._came(owed.source, finding.endpoint)}
        lost = [
            message.payload in owed.may - came
            for message in self.world.watch.messages()
            if f"{message.place[0]}/{message.place[1]}" == finding.source
            and message.identity[2] in (finding.first, finding.last)
        ]
        return any(lost)

    def certificates(self) -> Iterator[Certificate]:
        """Yield the newest certificate of every block, source and endpoint."""
        for _, _, block in self.bench.auditor.state.certifier.blocks.walk():
            yield from block.issued.values()

    def _miscertified(self) -> Iterator[str]:
        """Yield certificates that are wrong, and those that are not there."""
        found = {(one.source, one.endpoint): one for one in self.certificates()}
        spoilt = None if self.planted is None else self.planted.where
        for (source, endpoint), owed in self._owed().items():
            came = list(self._came(owed.source, endpoint))
            messages = [one for one in came if one is not None]
            one = found.pop((source, endpoint), None)
            is_right = owed.must <= {*messages} <= owed.may and len({*came}) == len(came)
            is_right &= len(messages) == len(came)
            where = f"{source} at {endpoint}, owed {owed}, came {came}"
            if self.is_lossy:
                if one is not None and one.equal and one.sure and not is_right:
                    yield f"certified: {where}: {one}"
            elif one is None:
                if owed.must or came:
                    yield f"no certificate: {where}"
            elif one.equal != is_right or not one.sure or one.delivered != len(came):
                yield f"{where}: {one}"
            self.certified += 0 if one is None else one.delivered
        # Of who is promised nothing only a fault is certified, and that it was none.
        for (_, endpoint), one in found.items():
            if endpoint != spoilt and not self.is_lossy:
                yield f"certified without a promise: {one}"

    def _owed(self) -> dict[Offered, Owed]:
        """Return what must come to endpoints that are promised something, and what may."""
        found: dict[Offered, Owed] = {}
        messages = [one for one in self.world.watch.messages() if one.of is GUARANTEED]
        for wish in self.world.watch.wishes:
            for message in messages if wish.of is GUARANTEED else ():
                topic_id, partition, _ = message.identity
                offered = f"{message.place[0]}/{partition}", f"{wish.node}/{wish.endpoint}"
                owed = found.setdefault(offered, Owed(SourcePartition(topic_id, partition)))
                if not naive_matches(wish.filter_, message.subject):
                    continue
                owed.may.add(message.payload)
                if is_owed(self.world, wish, message) and self._is_there(message):
                    owed.must.add(message.payload)
        return found

    def _is_there(self, message: Message) -> bool:
        """Return whether a log holds a message: of what it lost nobody knows."""
        log = self.bench.plant.logs.get(message.place, [])[message.identity[2] :]
        return bool(log) and log[0] is not None and log[0].value == message.payload

    def _came(self, source: SourcePartition, endpoint: str) -> Iterator[bytes | None]:
        """Yield what came to an endpoint, by payload; None for what nobody published so."""
        topic, watch = "mesh.{}.ep.{}".format(*endpoint.split("/")), self.world.watch
        if self.is_lossy:  # it may have been deleted since
            names = watch.delivered.get(tuple(endpoint.split("/")), {})
            told = {one.name: one.payload for one in watch.messages()}
            yield from (
                told[name] for name in names if name[:2] == (source.topic_id, source.partition)
            )
            return
        for at, log in self.bench.plant.logs.items():
            for seen in self.bench.look(TopicPartition(*at), 0, len(log)) if at[0] == topic else ():
                told = seen.delivery
                if told is not None and told.source == source:
                    identity = source.topic_id, source.partition, told.offset
                    known = [watch.published[identity], *watch.former.get(identity, ())]
                    same = [one.payload for one in known if holds(seen.record, one)]
                    yield same[0] if same else None


def holds(record: Record, message: Message) -> bool:
    """Return whether a delivery is what was published."""
    (name, subject), own = record.headers[-2], record.headers[:-2]
    told = record.key, record.value, own, name, subject, record.at_ms
    return told == (
        message.key,
        message.payload,
        (),
        SUBJECT_HEADER,
        message.subject.encode(),
        message.at,
    )


def line_of(one: Finding) -> str:
    """Return a finding as a line."""
    where = one.link or one.endpoint or one.source or one.node
    return f"{one.kind} {where} {one.first}-{one.last}: {one.text}"
