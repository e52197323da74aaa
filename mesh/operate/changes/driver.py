"""Carries out a change of the topology: asks what comes next, does it, and looks again.

Spec: K27, K28.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain

from mesh.core.cutover import Direction, cut_over
from mesh.core.live_change_limits import made_otherwise
from mesh.errors import NotBegunError, NotInTimeError, TransportError
from mesh.model.control import DOWN_AFTER_MS, Change, Heartbeat, LinkState, Stage
from mesh.model.frames import MessageClass
from mesh.model.topology import Topology
from mesh.operate.changes import steps as change_steps
from mesh.operate.changes.arbiter import Arbiter
from mesh.operate.changes.draining import PATIENCE_MS, FollowedLaneReports, OutboxDrain
from mesh.operate.changes.in_force import TopologyInForce
from mesh.operate.changes.queue_changes import queues_shared_otherwise
from mesh.operate.changes.unread import unread_in
from mesh.operate.questions import OnDemand
from mesh.transport.port import Reader
from mesh.view.change_records import ConfigWriters
from mesh.view.laggards import is_unheard
from mesh.view.mesh_view import RunningMesh

LOOK_S = 0.02
"""Time between two looks: a glance sends no requests to brokers, and sources hold meanwhile."""
LATE_BEATS = 2
"""A neighbour reports with its own next beat that it has read the newest heartbeat."""

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeOutcome:
    """How a change ended.

    Attributes:
        number: Number of the topology that it led to.
        is_in_force: Whether that is in force; else the change was aborted.
        ms: How long it took.
        pauses: Per holding node, how long it took nothing from its clients, in ms.
    """

    number: int
    is_in_force: bool
    ms: int
    pauses: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshToChange(RunningMesh):
    """A running mesh as the one who changes it sees it.

    Nodes that beat when it was looked at, and still do, are up.

    Attributes:
        in_force: The topology in force.
        tell: Notified of what is done and what is waited for.
    """

    in_force: TopologyInForce
    tell: Tell


@dataclass(slots=True)
class ChangeDriver:
    """A change and its driver.

    Attributes:
        way: What comes next.
        mesh: The mesh; its Kafka clusters and view are those before and after.
        reports: Lane reports of the nodes before, opened before it began, so that nobody holds
            meanwhile; the caller that opened them closes them.
        after: The target.
        known: Number of the newest change that was known when this one was planned; 0 for none.
        given_up: Nodes that leave, and whose messages may be lost.
    """

    way: change_steps.ChangeSteps
    mesh: MeshToChange
    reports: FollowedLaneReports
    after: Topology
    known: int
    given_up: Sequence[str] = ()
    _began_ms: int = 0
    _first: dict[str, Heartbeat | None] = field(default_factory=dict)
    _first_heard: dict[Direction, LinkState] = field(default_factory=dict)
    _readers: dict[str, Reader] = field(default_factory=dict)
    _is_read: bool = False
    _drain: OutboxDrain | None = None
    _told: str = ""
    _held_ms: dict[str, int] = field(default_factory=dict)
    _ran_ms: dict[str, int] = field(default_factory=dict)

    @property
    def before(self) -> Topology:
        """The topology in force."""
        return self.mesh.in_force.topology

    def run(self, limit_s: float, patience_s: float = 0.0) -> ChangeOutcome:
        """Drive the change to its end: see `steps`, between which `pause` lets time pass."""
        steps = self.steps(limit_s, patience_s)
        while True:
            try:
                rest_s = next(steps)
            except StopIteration as end:
                outcome: ChangeOutcome = end.value
                return outcome
            self.mesh.time.pause(rest_s)

    def steps(
        self, limit_s: float, patience_s: float = 0.0
    ) -> Generator[float, None, ChangeOutcome]:
        """Drive the change to its end, and yield for how many seconds to rest before each look.

        If it is interrupted, the change may be resumed.

        Args:
            limit_s: How long it may take.
            patience_s: How long to wait for nodes that must take part and are down.

        Raises:
            NotBegunError: A node that must take part is down, or leaves and is not read to its
                end; nothing was written.
            NotInTimeError: It did not finish in time. It may be resumed.
            TransportError: A Kafka cluster did not answer; the change may be resumed.
        """
        self._began_ms = self.mesh.time.now_ms()
        self._first = {node: seen.heartbeat for node, seen in self.mesh.view.nodes.items()}
        self._first_heard = {
            (sender, reader): state
            for reader, seen in self.mesh.view.nodes.items()
            for sender, state in seen.link_states.items()
        }
        # Everything is opened before any node holds.
        with ExitStack() as opened:
            if self.way.cut_over.drain_waves:
                for name, kafka in self.mesh.kafka.items():
                    self._readers[name] = kafka.reader("drain", patience_ms=PATIENCE_MS)
                    opened.callback(self._readers[name].close)
            writers = ConfigWriters(self.mesh.kafka, self.before.prefix)
            opened.callback(writers.close)
            arbiter = Arbiter(self.mesh.kafka[min(self.before.kafka)], self.before.prefix)
            opened.callback(arbiter.close)
            if self.way.cut_over.drain_waves:
                self.reports.read()
            return (yield from self._drive(writers, arbiter, limit_s, patience_s))

    def _drive(
        self, writers: ConfigWriters, arbiter: Arbiter, limit_s: float, patience_s: float
    ) -> Generator[float, None, ChangeOutcome]:
        while True:
            seen = self._look()
            self._heed_others()
            todo = self.way.next(seen)
            match todo:
                case change_steps.Ended():
                    return self._outcome(todo)
                case change_steps.Write(change):
                    if (stands := arbiter.put(change, self.known)) != change:
                        self._go_on_from(stands)
                        continue
                    self.mesh.tell(_STAGES[change.stage])
                    writers.write_change(change)
                    self.way.written()
                case change_steps.PublishTopology():
                    writers.put_in_force(self.way.target)
                    self.way.published()
                case change_steps.NoteEnds(directions):
                    self._marked(directions)
                    self.way.marked()
                case change_steps.LookAgain(reasons):
                    self._wait(reasons, seen, limit_s, patience_s)
                    yield LOOK_S

    def _wait(
        self,
        reasons: Sequence[str],
        seen: change_steps.Observation,
        limit_s: float,
        patience_s: float,
    ) -> None:
        shown = "; ".join(reasons[:5]) + (f"; and {len(reasons) - 5} more" if reasons[5:] else "")
        gone_ms = self.mesh.time.now_ms() - self._began_ms
        stage = self.way.target.stage
        if not self.way.is_written and stage is Stage.HOLD:
            if gone_ms > 1000 * (patience_s if self.way.unable(seen) else limit_s):
                raise NotBegunError(f"nothing was changed: {shown}")
        elif gone_ms > 1000 * limit_s:
            how = _HOW_ON if stage is Stage.HOLD else _ONLY_ON
            raise NotInTimeError(f"not {_GOALS[stage]} within {limit_s:g} s: {shown}; {how}")
        if shown != self._told:
            self._told = shown
            self.mesh.tell(f"waiting: {shown}")

    def _heed_others(self) -> None:
        """Give way to another driver if nodes have its records."""
        found, target = self.mesh.view.change, self.way.target
        if found is None:
            return
        is_rival = found.number == target.number and found.topology != target.topology
        if is_rival or found.version > target.version:
            self._go_on_from(found)

    def _go_on_from(self, found: Change) -> None:
        """Continue from where another driver of this change has come to.

        Raises:
            NotBegunError: Another driver has begun a change first; nothing was written.
            NotInTimeError: Another driver went back, or has begun another change.
        """
        target = self.way.target
        is_same = (found.number, found.topology) == (target.number, target.topology)
        if is_same and (found.stage is Stage.ABORT) == self.way.is_aborting:
            self.way.target, self.way.is_written = found, True
            return
        if target.stage is Stage.HOLD and not self.way.is_written:
            raise NotBegunError(
                f"nothing was changed: somebody else has begun another change, {found.number}, "
                "at the same time"
            )
        raise NotInTimeError(
            f"somebody else has brought change {found.number} to stage {found.stage}; "
            "look at `mesh status`"
        )

    # -- looking --------------------------------------------------------------------------

    def _look(self) -> change_steps.Observation:
        self.mesh.view.glance()
        self._is_read = False
        nodes = {**self.before.nodes, **self.after.nodes}
        reports = {node: self._report(node) for node in nodes if node not in self.given_up}
        for node, report in reports.items():
            status = report.change
            if status is None or status.number != self.way.target.number:
                continue
            if node in self.way.cut_over.holding and status.stage is not Stage.ABORT:
                self._held_ms.setdefault(node, self.mesh.time.now_ms())
            if status.stage.is_over:
                self._ran_ms.setdefault(node, self.mesh.time.now_ms())
        # Most looks end up waiting for nodes: then nothing else is requested.
        return change_steps.Observation(
            nodes=reports,
            behind=OnDemand(self._behind),
            untaken=OnDemand(self._untaken),
            owing=OnDemand(self._owing),
            is_disabled=self.mesh.view.is_to_be_disabled,
            is_down=self._is_down,
            silent=self._silent,
            unread=OnDemand(self._unread),
            new_queues=self._new_queues,
        )

    def _new_queues(self) -> Sequence[str]:
        """Return queues made since the change was planned that it does not suffice for. K28.

        It may not even if all nodes hold, for other reasons: with queues shared out otherwise more
        has to drain, and both ends of every link must hear each other.
        """
        queues = queues_shared_otherwise(self.mesh.view, self.before, self.after)
        if not queues:
            return ()
        cut = cut_over(self.before, self.after, given_up=self.given_up, is_shared_otherwise=True)
        is_held = all(node in self.way.target.holding for node in cut.holding)
        return () if is_held and cut == self.way.cut_over else queues

    def _read_reports(self) -> FollowedLaneReports:
        """Return the lanes' own reports, read once per look."""
        if not self._is_read:
            self._is_read = True
            self.reports.read()
        return self.reports

    def _report(self, node: str) -> change_steps.NodeReport:
        seen = self.mesh.view.nodes[node]
        beat = seen.heartbeat
        has_beaten = self.mesh.beats.get(node, False) or beat != self._first[node]
        is_up = has_beaten and self.mesh.time.now_ms() - seen.heard_ms <= DOWN_AFTER_MS
        is_new = is_up and node not in self.before.nodes
        return change_steps.NodeReport(
            is_up=is_up,
            change=None if beat is None else beat.change,
            unfit=made_otherwise(self.after, node, seen.identity) if is_new else (),
            serves=beat is not None and beat.ready,
        )

    def _is_down(self, one: str, other: str) -> bool:
        """Return whether one end of a link does not hear the other: then neither is relied on."""
        return is_unheard(self.mesh.view, one, other) or is_unheard(self.mesh.view, other, one)

    def _silent(self) -> Sequence[Direction]:
        """Return the links over which nothing has been heard since the change was looked at.

        A lagging end is heard all the same, if late. Spec: K24, K32.
        """
        return [
            (sender, reader)
            for link in self.before.links
            for sender, reader in (link.ends, link.ends[::-1])
            if self._is_silent(sender, reader)
            and not self._is_down(sender, reader)
            and not self.mesh.view.is_to_be_disabled(sender, reader)
        ]

    def _is_silent(self, sender: str, reader: str) -> bool:
        beat = self.mesh.view.nodes[sender].heartbeat
        heard = self.mesh.view.nodes[reader].link_states.get(sender)
        if beat is None or heard is None or heard != self._first_heard.get((sender, reader)):
            return False
        is_late = (beat.epoch, beat.beat - LATE_BEATS) > (heard.epoch, heard.beat)
        return is_late and self._report(sender).is_up and self._report(reader).is_up

    def _unread(self) -> Mapping[Direction, int]:
        """Return what waits on links that are down and would have to drain."""
        if self._drain is None:
            drained = chain.from_iterable(self.way.cut_over.drain_waves)
            self._marked([one for one in dict.fromkeys(drained) if self._is_down(*one)])
        return self._behind()

    def _marked(self, directions: Sequence[Direction]) -> None:
        if self._drain is None:
            waves = self.way.cut_over.drain_waves
            self._drain = OutboxDrain(waves, self.before, self.mesh.kafka, self._readers)
        self._drain.mark(directions)

    def _behind(self) -> Mapping[Direction, int]:
        return {} if self._drain is None else self._drain.behind(self._read_reports())

    def _owing(self) -> Mapping[str, Sequence[str]]:
        """Return, per node, the topics in which it still has something to make good."""
        found: dict[str, Sequence[str]] = {}
        reports, cut = self._read_reports(), self.way.cut_over
        drained = (node for pairs in cut.drain_waves for pair in pairs for node in pair)
        for node in dict.fromkeys((*cut.taking_part, *drained)):
            if node in self.before.nodes:
                report = reports.of(node)
                gaps = [one.at.topic for one in report.gaps.values()]
                found[node] = sorted({*report.targets_held, *gaps})
        return found

    def _untaken(self) -> Mapping[str, int]:
        topics = {
            self.before.names.ingress(node, MessageClass.GUARANTEED): node
            for node in self.way.cut_over.leaving
            if node not in self.given_up
        }
        found = unread_in(self.mesh, list(topics))
        for one in found:
            if one.records is None:
                raise TransportError(f"Kafka cluster {one.kafka} does not tell what waits there")
        return {topics[one.topic]: one.records or 0 for one in found}

    def _outcome(self, ended: change_steps.Ended) -> ChangeOutcome:
        return ChangeOutcome(
            number=self.way.target.number,
            is_in_force=ended is change_steps.Ended.IN_FORCE,
            ms=self.mesh.time.now_ms() - self._began_ms,
            pauses={
                node: self._ran_ms[node] - since
                for node, since in self._held_ms.items()
                if node in self._ran_ms
            },
        )


_STAGES = {
    Stage.HOLD: "stage hold: sources of walks that move or end take nothing from their clients",
    Stage.SWITCH: "stage switch: every node takes the new topology in place",
    Stage.RUN: "stage run: the new topology is in force, and all sources go on",
    Stage.ABORT: "stage abort: nothing changes, and all sources go on",
}

_GOALS = {
    Stage.HOLD: "held",
    Stage.SWITCH: "switched",
    Stage.RUN: "run",
    Stage.ABORT: "aborted",
}

_HOW_ON = "give the same command again to go on, or `mesh apply --abort` to go back"
_ONLY_ON = "give the same command again to go on"
