"""A random mesh, healthy, then with a fault of each kind: found is what was planted and no more."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from pyspark.sql import SparkSession

from mesh.model.control import Heartbeat
from mesh.model.topology import Topology
from mesh.operate.audit.drills import DrillKind
from mesh.operate.audit.planting import Planter
from streaming.audits.finding_register import Finding
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import place_of
from tests.streaming.conftest import Bench
from tests.streaming.drawn import SPARE, Drawn, copy_of, draw
from tests.streaming.faults import BEHIND, PLANTED, STANDING, Beats, Fault, Scene, colours
from tests.streaming.planted import Plant

SETTLE_S = 15
FORGERIES_S = 60
"""A topic that does not exist is looked for so long."""
STILL_S = 72
"""What stands still for so long is told, and a bit."""
DRILLED = 0.4
"""Share of the faults that are planted by `mesh drill`, of kinds that it knows."""
ALIVE_S = 4
SKIPPED = 3
"""Records of an ingress that are deleted before they are read."""


@dataclass
class Account:
    """What was planted and found.

    Attributes:
        planted: By kind.
        zones: Kinds of zones that the meshes had.
        certified: Deliveries that certificates of healthy meshes cover.
        wrong: What was not found, or found and not planted, a line each.
    """

    planted: Counter[str] = field(default_factory=Counter)
    zones: Counter[str] = field(default_factory=Counter)
    certified: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class Trial:
    """One drawn mesh, judged.

    Attributes:
        spark: The session; None: it goes without.
        folder: For snapshots.
        seed: Decides everything.
        account: Takes what comes of it.
    """

    spark: SparkSession | None
    folder: Path
    seed: str
    account: Account
    rng: random.Random = field(init=False)
    drawn: Drawn = field(init=False)
    bench_class: ClassVar[type[Bench]] = Bench

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.drawn = draw(self.rng)

    @property
    def topology(self) -> Topology:
        return self.drawn.mesh.topology

    def run(self) -> None:
        """Judge the mesh when it is healthy, and with everything planted in it."""
        drawn = self.drawn
        self.account.zones.update({str(one.kind) for one in self.topology.zones.values()})
        drawn.subscribe()
        drawn.publish(2)
        drawn.rest()
        first = Plant()
        ids = copy_of(drawn.mesh, first)
        since = {at: len(log) for at, log in first.logs.items()}
        bench = self._bench("spoiled", first, ids)
        bench.take()
        bench.wait(SETTLE_S)
        self._compare("healthy at first", [], _findings(bench))
        drawn.leave()
        drawn.publish(3)
        drawn.publish_stale()
        drawn.rest()
        whole = Plant()
        ids = copy_of(drawn.mesh, whole)
        self._stand_still(self._bench("healthy", whole, ids), ids)
        drilled = list(self._drill())
        drawn.rest()
        ids = copy_of(drawn.mesh, first)
        bench.ids.update(ids)
        self._spoil(bench, Scene(drawn, first, ids, since), drilled)
        drawn.mesh.close()

    def _bench(self, name: str, plant: Plant, ids: Mapping[str, str]) -> Bench:
        topology = self.topology
        homes = {node: one.kafka for node, one in topology.nodes.items()}
        return self.bench_class(
            self.spark,
            plant,
            self.folder / self.seed.replace("/", "-") / name,
            topology,
            ids=dict(ids),
            kafkas=tuple(sorted({*homes.values()})),
            home=lambda topic: homes.get(place_of("mesh.", topic).node, topology.audit_kafka),
        )

    # -- what was written -------------------------------------------------------------------

    def _drill(self) -> Iterator[Fault]:
        """Have `mesh drill` plant some faults while the mesh runs."""
        made, drawn = self.drawn.oracle, self.drawn
        view = drawn.mesh.view()
        view.refresh()
        view.close()
        planter = Planter(drawn.mesh.seen(view))
        for drill in DrillKind:
            ends = [
                pair
                for pair in sorted(made.way_to)
                if made.reaches(pair[0], drill.subject(0), pair[1])
            ]
            if ends and self.rng.random() < DRILLED:
                planted = planter.plant(drill, *self.rng.choice(ends))
                offset = int(planted.message.rpartition("/")[2])
                yield Fault(drill.finding, planted.endpoint, offset, offset)

    def _spoil(self, bench: Bench, scene: Scene, drilled: Sequence[Fault]) -> None:
        wanted = list(drilled)
        for plant in PLANTED:
            kind = plant.__name__.replace("_", "-")
            if kind not in [one.kind for one in drilled] and (fault := plant(scene)) is not None:
                wanted.append(fault)
        bench.take()
        bench.wait(SETTLE_S)
        bench.clock_s += FORGERIES_S
        bench.wait(3)
        self._compare("planted", wanted, _findings(bench))

    # -- what stands still ------------------------------------------------------------------

    def _stand_still(self, bench: Bench, ids: Mapping[str, str]) -> None:
        """Judge a healthy mesh for longer than anything may last, then what stands still in it."""
        bench.take()
        bench.wait(SETTLE_S)
        self._live(bench)
        self._compare("healthy", [], _findings(bench))
        self._is_certified(bench)
        scene = Scene(self.drawn, bench.plant, ids)
        beats = Beats(scene)
        wanted = [fault for plant in STANDING if (fault := plant(scene)) is not None]
        beats.go_on_after(
            {node: one.number for node, one in bench.auditor.state.splits.beats.items()}
        )
        beats.beat(colours(scene))
        bench.take()
        self._live(bench)
        self._compare("standing", [*wanted, Fault("colours-differ", "")], _findings(bench))
        beats.go_on_after(
            {node: one.number for node, one in bench.auditor.state.splits.beats.items()}
        )
        before = _findings(bench)
        self._part(bench, beats)
        later = {id_: one for id_, one in _findings(bench).items() if id_ not in before}
        # Of a node in the middle one link may be found silent a batch before another: each time the
        # parts are others, and that is told.
        told = {one.kind: (id_, one) for id_, one in later.items()}
        self._compare("parted", [Fault("split", ""), Fault("heal", "")], dict(told.values()))
        before = _findings(bench)
        wanted = [self._delete(bench, scene)]
        later = {id_: one for id_, one in _findings(bench).items() if id_ not in before}
        self._compare("deleted", wanted, later)

    def _live(self, bench: Bench) -> None:
        """Let time pass while all nodes beat."""
        splits = bench.auditor.state.splits
        for _ in range(0, STILL_S, ALIVE_S):
            for node in sorted(self.topology.nodes):
                known = splits.beats[node]
                beat = Heartbeat(known.epoch, known.number + 1, ready=True)
                splits.beat(node, beat, bench.clock_s)
            bench.wait(ALIVE_S)

    def _part(self, bench: Bench, beats: Beats) -> None:
        """Cut a node off, and join it again."""
        topology = self.topology
        apart = self.rng.choice([one for one in sorted(topology.nodes) if topology.neighbours(one)])
        beats.beat()
        bench.take()
        for count in (BEHIND, 1, 1):
            for _ in range(count):
                beats.beat(apart=apart)
            bench.take()
        for _ in range(2):
            beats.beat()
            bench.take()

    def _delete(self, bench: Bench, scene: Scene) -> Fault:
        """Have some records of an ingress deleted that nobody has read."""
        one = self.rng.choice(scene.published(SPARE))
        log = bench.plant.logs[one.at]
        first = len(log)
        log += [None] * SKIPPED
        scene.append(one.at, one.record)
        bench.begins[TopicPartition(*one.at)] = first + SKIPPED
        bench.clock_s += FORGERIES_S
        bench.take()
        return Fault("unproven", f"{one.at[0]}/{one.at[1]}", first, first + SKIPPED - 1)

    # -- what came of it --------------------------------------------------------------------

    def _is_certified(self, bench: Bench) -> None:
        """See that all was certified: what proves nothing finds nothing either."""
        state = bench.auditor.state
        issued = list(bench.certificates.values())
        wrong = [f"{one.reason}" for one in state.certifier.waiting]
        wrong += [f"{one.endpoint} of {one.source} differs" for one in issued if not one.equal]
        wrong += [] if issued else ["nothing is certified"]
        self.account.wrong += [f"{self.seed}, healthy: {text}" for text in wrong]
        self.account.certified += sum(one.delivered for one in issued)

    def _compare(self, when: str, wanted: Sequence[Fault], found: Mapping[str, Finding]) -> None:
        self.account.planted.update(one.kind for one in wanted)
        left = list(found.values())
        for fault in wanted:
            told = [one for one in left if tells(one, fault)]
            if told:
                left.remove(told[0])
            else:
                self.account.wrong.append(f"{self.seed}, {when}: not found: {fault}")
        told = [f"{one.kind} {_where(one)} {one.first}-{one.last}: {one.text}" for one in left]
        self.account.wrong += [f"{self.seed}, {when}: not planted: {text}" for text in told]


def _findings(bench: Bench) -> dict[str, Finding]:
    return dict(bench.auditor.state.register.findings)


def _where(finding: Finding) -> str:
    return finding.link or finding.endpoint or finding.source


def tells(finding: Finding, fault: Fault) -> bool:
    """Return whether a finding is of a fault."""
    span = (finding.first, finding.last)
    return (
        finding.kind.value == fault.kind
        and fault.where in ("", _where(finding))
        and all(
            one is None or one == told
            for one, told in zip((fault.first, fault.last), span, strict=True)
        )
    )
