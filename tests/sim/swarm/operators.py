"""Operators who change the topology of a swarm's mesh, by the code that `mesh apply` runs.

Each is a generator that rests between its looks, so several may be at work, any may die at any
moment, and others go on. Spec: K27, K28.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mesh.config.published import published_text, published_topology
from mesh.core.live_change_limits import unchangeable
from mesh.errors import ConfigError, NotBegunError, NotInTimeError, TransportError
from mesh.model.control import Pause, Stage
from mesh.model.topology import Node, Topology
from mesh.operate.changes.begin import abort_change, begin_change, read_begun
from mesh.operate.changes.draining import FollowedLaneReports
from mesh.operate.changes.driver import ChangeDriver, ChangeOutcome, MeshToChange
from mesh.operate.changes.founding import publish
from mesh.operate.changes.in_force import TopologyInForce, read_in_force
from mesh.transport.clock import Timekeeper
from mesh.transport.memory import MemoryKafka
from mesh.transport.memory_faults import Call, CrashNow
from mesh.transport.node_topics import config_topic
from mesh.transport.port import KafkaCluster
from mesh.view.disabling import ends_of, write_disabled
from mesh.view.mesh_view import MeshView
from tests.sim.swarm.eras import Eras
from tests.sim.swarm.faults import Armed
from tests.sim.swarm.nemesis import begin
from tests.sim.swarm.plan import Step
from tests.sim.swarm.published import ViolationError

if TYPE_CHECKING:
    from tests.sim.swarm.world import SwarmWorld

Lags = Sequence[tuple[str, int]]
"""Outboxes that nobody can read when a change begins, and for how many ms."""
LAG_MS = 500
"""So long before the command links begin to lag."""

Rests = Generator[int, None, None]
"""What an operator does; yields how many ms to rest."""

TRIES = 12
"""So often one operator gives a command before giving up, while things go wrong."""
RETRY_MS = 400
PATIENCE_S = 4.0
"""How long is waited for nodes that must take part; new ones start meanwhile."""
LIMIT_S = 40.0
WORKERS = 4
"""A node has no more."""


class _DiedError(Exception):
    """The operator's process was ended."""


@dataclass(slots=True)
class Operators:
    """All who change the topology of one world.

    Attributes:
        at_work: What each that is at work now wants to put in force, if anything.
    """

    world: SwarmWorld
    eras: Eras
    at_work: dict[str, Topology | None] = field(default_factory=dict)
    _number: int = 0
    _left: dict[str, None] = field(default_factory=dict)
    _disabled: dict[tuple[str, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put the first topology in force."""
        self.eras.cuts = self.world.watch.cuts
        self.prepare(self.world.kafka)

    def prepare(self, clusters: Mapping[str, MemoryKafka]) -> None:
        """Have Kafka clusters say which topology is the first."""
        first = self.eras.oracles[0].topology
        for kafka in clusters.values():
            kafka.admin().create([config_topic(first)])
        publish(first, clusters)

    # -- who is there ------------------------------------------------------------------------

    def there(self) -> Mapping[str, Node]:
        """Return the nodes that are to run: they are in force, or shall be."""
        found: dict[str, Node] = {}
        for topology in self._topologies():
            found |= topology.nodes
        return found

    def file_of(self, node: str) -> Topology:
        """Return what the topology file of a node says: what it ever said, for most."""
        topologies = [self.world.plan.oracle.topology, *self._topologies()]
        return next(one for one in topologies if node in one.nodes)

    def serves(self, step: Step) -> bool:
        """Return whether clients do something at a node.

        They publish where it is in force and nobody wants it to leave.
        """
        topic = self.eras.names.clients(step.who)
        if not any(topic in kafka.topics for kafka in self.world.kafka.values()):
            return False
        return step.word != "publish" or all(
            step.who in topology.nodes for topology in self._topologies()
        )

    def is_read(self, topic: str) -> bool:
        """Return whether somebody is to read a topic to its end: its link or node is in force."""
        last = self.eras.last
        return topic in last.outboxes or topic in last.ingresses

    def _topologies(self) -> Iterator[Topology]:
        yield self.eras.last.topology
        yield from (one for one in self.at_work.values() if one is not None)
        if (target := self.eras.open_target) is not None:
            yield target

    def _settle(self) -> None:
        """Start who is to be there, and stop who is not any more."""
        world, there = self.world, self.there()
        for name in world.plan.crew:
            node = name.partition("/")[0]
            if node in there:
                if node in self._left or name not in world.plan.workers:
                    world.start(name)
                continue
            self._left[node] = None
            if (worker := world.workers.get(name)) is not None:
                world.reached["node left"] += 1
                world.act(name, worker.close)
                world.drop(name)
        for node in there:
            self._left.pop(node, None)

    # -- what they do ------------------------------------------------------------------------

    def begin(self, step: Step) -> None:
        """Let an operator begin with what a step says."""
        match step.word:
            case "change":
                self._set_to_work(lambda name: self._change(name, step))
            case "abort":
                self._set_to_work(self._abort)
            case "disable":
                self._disable(step)

    def _set_to_work(self, make) -> None:
        self._number += 1
        name = f"operator/{self._number}"
        self.at_work[name] = None
        work = make(name)
        self.world.after(0, lambda: self._go_on(name, work))

    def _go_on(self, name: str, work: Rests) -> None:
        faults = self.world.faults
        faults.actor = name
        try:
            rest_ms = next(work)
        except StopIteration:
            faults.armed.pop(name, None)
            del self.at_work[name]
            self.world.after(100, self._settle)
        except ViolationError:
            raise
        except Exception as error:
            kind = type(error).__name__
            raise ViolationError(f"operator raised {kind}", f"{name}: {error}") from error
        else:
            self.world.after(max(1, rest_ms), lambda: self._go_on(name, work))
        finally:
            faults.actor = ""

    def _change(self, name: str, step: Step) -> Rests:
        """Put a topology in force, by several commands if need be."""
        world, more = self.world, step.more
        after = world.plan.targets[int(str(more["to"]))].topology
        if nth := int(str(more.get("crash", 0))):
            world.faults.armed[name] = [Armed(Call.PRODUCE, nth, None)]
        looks = int(str(more.get("looks", 0)))
        if lags := more.get("lags"):
            self._lag(lags)
            yield LAG_MS
        for _ in range(TRIES):
            try:
                outcome = yield from self._apply(name, after, looks)
            except NotBegunError:
                world.reached["change not begun"] += 1
                return
            except _RefusedError as error:
                world.reached[f"change refused: {error}"] += 1
                return
            except (NotInTimeError, TransportError, ConfigError) as error:
                world.reached[f"driver ends: {type(error).__name__}"] += 1
                if world.mending and not isinstance(error, TransportError):
                    return  # the last operator sees to it
                yield RETRY_MS
            except (CrashNow, _DiedError):
                told = self.eras.newest
                world.reached[f"driver died at {told.stage if told else 'nothing'}"] += 1
                looks = 0
                self.at_work[name] = None
                if not (again := int(str(more.get("again", 0)))):
                    return
                yield again
            else:
                world.reached["change in force" if outcome.is_in_force else "change aborted"] += 1
                return

    def _abort(self, name: str) -> Rests:
        """Take back what is under way, if that can be done yet."""
        try:
            found = self._in_force()
            begun = read_begun(self._kafka_of(found.topology), "mesh.")
            way = abort_change(*self._means(found, found.topology), begun)
            yield from self._drive(way, 0)
        except (ConfigError, NotInTimeError, TransportError, _DiedError, CrashNow) as error:
            self.world.reached[f"no way back: {type(error).__name__}"] += 1
        else:
            self.world.reached["aborted by another"] += 1

    def _apply(self, name: str, after: Topology, looks: int) -> Generator[int, None, ChangeOutcome]:
        found = self._in_force()
        begun = read_begun(self._kafka_of(found.topology), "mesh.")
        is_open = begun is not None and begun.is_open
        if found.document == TopologyInForce(number=0, topology=after).document and not is_open:
            raise _RefusedError("it is in force")
        if list(unchangeable(found.topology, after, str)):
            raise _RefusedError("a living mesh cannot follow")
        if is_open and begun.change.topology == published_text(after):
            self.world.reached[f"gone on with at {begun.change.stage}"] += 1
        change = begin_change(*self._means(found, after), after, begun)
        self.at_work[name] = after
        self._settle()
        return (yield from self._drive(change, looks))

    def _drive(self, change: ChangeDriver, looks: int) -> Generator[int, None, ChangeOutcome]:
        steps = change.steps(LIMIT_S, PATIENCE_S)
        try:
            while True:
                try:
                    rest_s = next(steps)
                except StopIteration as end:
                    return end.value
                looks -= 1
                if looks == 0:
                    raise _DiedError
                yield int(1000 * rest_s)
        finally:
            steps.close()
            change.reports.close()
            change.mesh.view.close()

    def _lag(self, lags: Lags) -> None:
        """Have nobody read these outboxes for a while."""
        for topic, lasts in lags:
            self.world.reached["link lags as a change begins"] += 1
            for number in range(WORKERS):
                more = {"by": number, "for": lasts}
                begin(self.world, Step(self.world.clock.ms, "stall", topic, more))

    def _in_force(self) -> TopologyInForce:
        found, _ = read_in_force(self.world.kafka, "mesh.")
        assert found is not None
        return found

    def _kafka_of(self, *topologies: Topology) -> Mapping[str, KafkaCluster]:
        return {name: self.world.kafka[name] for one in topologies for name in one.kafka}

    def _means(
        self, found: TopologyInForce, after: Topology
    ) -> tuple[MeshToChange, FollowedLaneReports]:
        """Return what an operator has: the Kafka clusters of before and after, and no others."""
        kafka, now_ms = self._kafka_of(found.topology, after), self.world.clock.now_ms
        view = MeshView(found.topology, kafka, now_ms, name="view")
        mesh = MeshToChange(
            in_force=found,
            topology=found.topology,
            kafka=kafka,
            view=view,
            beats=dict.fromkeys(found.topology.nodes, False),
            time=Timekeeper(now_ms, _never),
            tell=lambda _: None,
        )
        return mesh, FollowedLaneReports(found.topology, kafka, now_ms)

    # -- links -------------------------------------------------------------------------------

    def _disable(self, step: Step) -> None:
        ends = (step.who, str(step.more["from"]))
        self._disabled[ends] = self._disabled.get(ends, 0) + 1
        self._write_disabled(ends, Pause("a test"))
        lasts = int(str(step.more["for"]))
        self.world.after(lasts, lambda: None if self.world.mending else self._enable(ends))

    def _enable(self, ends: tuple[str, str]) -> None:
        self._disabled[ends] -= 1
        if not self._disabled[ends]:
            self._write_disabled(ends, None)

    def _write_disabled(self, ends: tuple[str, str], why: Pause | None) -> None:
        self.eras.disabled |= {ends: None, ends[::-1]: None}
        self.world.reached["link disabled" if why else "link enabled"] += 1
        topology = self.world.topology
        write_disabled(topology, self.world.kafka, ends_of(*ends), why, {})  # type: ignore[arg-type]

    # -- the end -----------------------------------------------------------------------------

    def mend(self) -> None:
        """Enable all links again."""
        for name in self.at_work:
            self.world.faults.armed.pop(name, None)
        for ends in self._disabled:
            self._write_disabled(ends, None)

    def unfinished(self) -> str:
        """Have somebody go on with what was left; return what is under way still, in words."""
        if self.at_work:
            return f"operators are at work: {self.eras.newest}"
        begun = read_begun(self._kafka_of(self._in_force().topology), "mesh.")
        if begun is None or not begun.is_open:
            self._settle()
            return ""
        change = begun.change
        is_back = change.stage is Stage.HOLD and self.world.plan.seed.number % 2
        if is_back or change.stage is Stage.ABORT:
            self._set_to_work(self._abort)
        else:
            self._set_to_work(lambda name: self._last(name, published_topology(change.topology)))
        return f"a change has come to stage {change.stage}"

    def nudge(self) -> bool:
        """Publish everywhere, now that the mesh is at rest."""
        world = self.world
        self.eras.rested_ms = world.clock.ms
        for node, declared in self.there().items():
            for partition in range(declared.partitions):
                for subject in ("a", "a/b", "b/a"):
                    world.publish_at(node, partition, subject)
        world._follow()
        return True

    def _last(self, name: str, after: Topology) -> Rests:
        try:
            yield from self._apply(name, after, 0)
        except (NotInTimeError, TransportError, ConfigError, NotBegunError) as error:
            self.world.reached[f"last driver ends: {type(error).__name__}"] += 1
        else:
            self.world.reached["gone on with in the end"] += 1


class _RefusedError(Exception):
    """The command is refused before anything is written."""


def _never(seconds: float) -> None:
    raise AssertionError(seconds)
