"""What comes next while a topology is put in force on a running mesh: decided here, done elsewhere.

Every stage is a record that all nodes read, and every answer a heartbeat. So the driver of the
change may die at any moment, and another continues from what the records say. Spec: K27, K28.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import chain

from mesh.core.cutover import CutOver, Direction
from mesh.model.control import Change, ChangeStatus, Stage
from mesh.model.counted import counted, listed

NAMED_MAX = 5
"""How many nodes are named when many are waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeReport:
    """One node as it reports itself.

    Attributes:
        is_up: Whether it beats.
        change: What its newest heartbeat says about changes.
        unfit: Why it cannot be the node that the target declares, in words; empty if it can.
        serves: Whether it has its lanes, and could follow the change.
    """

    is_up: bool
    change: ChangeStatus | None = None
    unfit: Sequence[str] = ()
    serves: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What is seen of the mesh at one moment.

    Attributes:
        nodes: All nodes that exist before or after.
        behind: Records, per direction of the draining wave, that its reader has not passed.
        untaken: Records, per leaving node, that its clients wrote and it has not taken.
        owing: Topics, per node, in which it still has to make something good: those that refused
            records, and those that are being repaired.
        is_disabled: (from, to) -> whether operators disabled that link, so that nobody hears it.
        is_down: (one, other) -> whether an end of that link says that it does not hear the other.
        silent: (sender, reader) of links that may or may not be down.
        unread: What `behind` says, before the change begins, about links that are down.
        new_queues: Queues made since the change was planned that it does not suffice for.
    """

    nodes: Mapping[str, NodeReport]
    behind: Mapping[Direction, int] = field(default_factory=dict)
    untaken: Mapping[str, int] = field(default_factory=dict)
    owing: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_disabled: Callable[[str, str], bool] = field(default=lambda _from, _to: False)
    is_down: Callable[[str, str], bool] = field(default=lambda _one, _other: False)
    silent: Callable[[], Sequence[Direction]] = field(default=lambda: ())
    unread: Mapping[Direction, int] = field(default_factory=dict)
    new_queues: Callable[[], Sequence[str]] = field(default=lambda: ())


@dataclass(frozen=True, slots=True)
class Write:
    """Write this record to every Kafka cluster."""

    change: Change


@dataclass(frozen=True, slots=True)
class PublishTopology:
    """Write the target as the topology in force to every Kafka cluster."""


@dataclass(frozen=True, slots=True)
class NoteEnds:
    """Note where these outboxes end now; everything below that has to drain."""

    directions: Sequence[Direction]


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Look again a little later; says in words what is waited for."""

    reasons: Sequence[str]


class Ended(Enum):
    """How a change ended."""

    IN_FORCE = auto()
    ABORTED = auto()


Next = Write | PublishTopology | NoteEnds | LookAgain | Ended


@dataclass(slots=True)
class ChangeSteps:
    """The way of one change from the plan to being in force, or back.

    Attributes:
        target: The change as its next record would say it; its stage counts once `is_written`.
        cut_over: What it requires of the nodes.
        is_written: Whether the record of this stage is in every Kafka cluster.
        is_published: Whether the target is the topology in force.
        is_aborting: Whether to go back.
        drain_wave: Of `cut_over.drain_waves`, the one that drains.
    """

    target: Change
    cut_over: CutOver
    is_written: bool = False
    is_published: bool = False
    is_aborting: bool = False
    drain_wave: int = 0
    _is_marked: bool = False

    def next(self, seen: Observation) -> Next:
        """Return what to do now. Call it again after that is done, or after a while."""
        if not self.is_written:
            if self.target.stage is Stage.HOLD and (reasons := self._not_able(seen)):
                return LookAgain(reasons)
            return Write(self.target)
        match self.target.stage:
            case Stage.HOLD:
                return self._hold(seen)
            case Stage.SWITCH:
                return self._switch(seen)
            case Stage.RUN:
                return self._all_read(seen) or Ended.IN_FORCE
            case Stage.ABORT:
                return self._all_read(seen) or Ended.ABORTED

    def written(self) -> None:
        """Note that the record is in every Kafka cluster."""
        self.is_written = True

    def published(self) -> None:
        """Note that the target is the topology in force, in every Kafka cluster."""
        self.is_published = True

    def marked(self) -> None:
        """Note that the ends of this wave's outboxes are known."""
        self._is_marked = True

    def _enter(self, stage: Stage) -> Write:
        self.target = replace(self.target, stage=stage)
        self.is_written = False
        return Write(self.target)

    # -- stages ---------------------------------------------------------------------------

    def _not_able(self, seen: Observation) -> Sequence[str]:
        """Return why the change cannot begin."""
        reasons = [*self.unable(seen), *self._unheard(seen), *_silent(seen), *self._unread(seen)]
        return reasons or self._untaken(seen, "does not take")

    def unable(self, seen: Observation) -> Sequence[str]:
        """Return which required nodes are down, or were made otherwise, in words."""
        down = [node for node in self.cut_over.taking_part if not seen.nodes[node].is_up]
        return [*(f"node {node} {self._needed(node)}" for node in down), *self._unfit(seen)]

    def _unfit(self, seen: Observation) -> Sequence[str]:
        """Return new nodes that differ from what the target says they are. Spec: K2, K14."""
        return [why for node in self.cut_over.arriving for why in seen.nodes[node].unfit]

    def _needed(self, node: str) -> str:
        if node in self.cut_over.leaving:
            return _LEAVES_LINKED
        return _MUST_START if node in self.cut_over.arriving else _IS_DOWN

    def _unheard(self, seen: Observation) -> Sequence[str]:
        """Return the links that must be heard over and are down or disabled now, in words."""
        why = "queues are shared out in another way, which both ends must hear of"
        needed = [(one, other, why) for one, other in self.cut_over.heard]
        for one, other in self.cut_over.rerouted:
            ends = min(one, other), max(one, other)
            if ends not in self.cut_over.heard:
                why = f"walks move to it, and {one} must hear what {other} wants by then"
                needed.append((*ends, why))
        why = "it becomes another one, over which both ends must hear each other again"
        both = {(one, other) for one, other, _ in needed}
        remade = {(min(ends), max(ends)) for ends in self.cut_over.remade} - both
        return [
            *(
                f"link {one}-{other} is {_SILENT[is_disabled].format(why=why)}"
                for one, other, why in needed
                if (is_disabled := seen.is_disabled(one, other)) or seen.is_down(one, other)
            ),
            *(
                f"link {one}-{other} is {_SILENT[False].format(why=why)}"
                for one, other in sorted(remade)
                if seen.is_down(one, other) and not seen.is_disabled(one, other)
            ),
        ]

    def _unread(self, seen: Observation) -> Sequence[str]:
        """Return what would have to drain over links that nobody reads now, in words."""
        return [
            f"link {sender}-{reader} is down, and {reader} has to read "
            f"{counted(count, 'record')} of {sender} before walks move: mend the link"
            for sender, reader in dict.fromkeys(chain.from_iterable(self.cut_over.drain_waves))
            if seen.is_down(sender, reader) and (count := seen.unread.get((sender, reader)))
        ]

    def _hold(self, seen: Observation) -> Next:
        if self.is_aborting:
            return self._enter(Stage.ABORT)
        if free := [one for one in self.cut_over.holding if one not in self.target.holding]:
            unplanned = f"{listed(free, NAMED_MAX)} would have to hold, which was not planned"
            return LookAgain([f"{unplanned}; {_BEGIN_AGAIN}"])
        if unfit := self._unfit(seen):  # it has been started since
            return LookAgain(unfit)
        arriving, holding = self.cut_over.arriving, self.cut_over.holding
        if idle := [
            one for one in arriving if seen.nodes[one].is_up and not seen.nodes[one].serves
        ]:
            # Behind the switch there is no way back.
            return LookAgain([f"node {one} {_SERVES_NOT}" for one in idle])
        asked = [node for node in seen.nodes if node not in arriving or node in holding]
        if (wait := self._not_done(seen, asked)) is not None:
            return wait
        if self.cut_over.drain_waves and (owing := self._owing(seen)):
            return LookAgain(owing)
        if self.drain_wave < len(self.cut_over.drain_waves):
            return self._drain(seen)
        if reasons := self._untaken(seen, "holds and has not taken"):
            return LookAgain(reasons)
        if queues := seen.new_queues():
            made = f"queues made meanwhile: {listed(queues, NAMED_MAX)}"
            return LookAgain([f"{made}, whose messages would go to other members; {_BEGIN_AGAIN}"])
        return self._enter(Stage.SWITCH)

    def _owing(self, seen: Observation) -> Sequence[str]:
        """Return the nodes that make something good: nobody would read it after the switch."""
        return [
            f"{node} is still writing what {', '.join(topics)} lacks"
            for node, topics in seen.owing.items()
            if topics
        ]

    def _drain(self, seen: Observation) -> Next:
        directions = self.cut_over.drain_waves[self.drain_wave]
        if not self._is_marked:
            return NoteEnds(directions)
        if reasons := [
            f"{reader} has not read {counted(seen.behind[sender, reader], 'record')} of {sender}"
            + (": their link is down, mend it" if seen.is_down(sender, reader) else "")
            for sender, reader in directions
            if seen.behind.get((sender, reader))
        ]:
            return LookAgain(reasons)
        self.drain_wave += 1
        self._is_marked = False
        return self._hold(seen)

    def _switch(self, seen: Observation) -> Next:
        staying = [node for node in seen.nodes if node not in self.cut_over.leaving]
        if (wait := self._not_done(seen, staying)) is not None:
            return LookAgain([*self._unheard(seen), *wait.reasons])
        return self._enter(Stage.RUN) if self.is_published else PublishTopology()

    def _all_read(self, seen: Observation) -> LookAgain | None:
        """Return what to wait for: nodes that are up and have not read the record."""
        late = [
            node
            for node, report in seen.nodes.items()
            if report.is_up and node not in self._strangers() and not self._follows(report)
        ]
        return LookAgain([self._not_read(late)]) if late else None

    def _not_read(self, nodes: Sequence[str]) -> str:
        """Return, in words, which nodes have not read the record, all in one sentence."""
        have = "has" if len(nodes) == 1 else "have"
        return f"{listed(nodes, NAMED_MAX)} {have} not read stage {self.target.stage}"

    def _strangers(self) -> Sequence[str]:
        """Return nodes that do not belong to the topology that this ends with."""
        is_back = self.target.stage is Stage.ABORT
        return self.cut_over.arriving if is_back else self.cut_over.leaving

    def _not_done(self, seen: Observation, nodes: Sequence[str]) -> LookAgain | None:
        reasons: list[str] = []
        late: list[str] = []
        for node in nodes:
            report = seen.nodes[node]
            is_needed = node in self.cut_over.taking_part
            if not report.is_up:
                if is_needed:
                    reasons.append(f"node {node} {_IS_DOWN}")
            elif not self._follows(report):
                late.append(node)
            elif report.change is not None and not self._has_done(report.change, seen):
                doing = _DOING.get(self.target.stage, "is not done")
                reasons.append(f"{node} {doing}{self._open(report.change, seen)}")
        if late:
            reasons.append(self._not_read(late))
        return LookAgain(reasons) if reasons else None

    def _has_done(self, status: ChangeStatus, seen: Observation) -> bool:
        """Return whether a node is done, or waits only for nodes that need not be there.

        A node that is down and not part of the change learns of new links when it starts: what was
        never sent to it cannot be lost, and it sends nothing before. Over a link that operators
        disabled, or that is down, the other end goes by what it heard last, which is all that
        existing walks over it need. Spec: K19, K21, K24, K28, DMR-10.
        """
        return status.is_done or (bool(status.open_links) and not self._waited_for(status, seen))

    def _waited_for(self, status: ChangeStatus, seen: Observation) -> Sequence[Direction]:
        """Return the links (from, to) whose acknowledgement counts."""
        absent = [
            node
            for node, report in seen.nodes.items()
            if not report.is_up and node not in self.cut_over.taking_part
        ]
        return [
            (one, other)
            for one, other in status.open_links
            if one not in absent and other not in absent and not self._is_excused(seen, one, other)
        ]

    def _is_excused(self, seen: Observation, one: str, other: str) -> bool:
        if self._must_hear(one, other):
            return False
        # Operators may have recreated what they disabled: nothing is queued there meanwhile.
        is_forgotten = (other, one) in self.cut_over.remade
        return seen.is_disabled(one, other) or (seen.is_down(one, other) and not is_forgotten)

    def _must_hear(self, one: str, other: str) -> bool:
        """Return whether a node absolutely must hear what another offers by the new topology."""
        is_heard = not {(one, other), (other, one)}.isdisjoint(self.cut_over.heard)
        return is_heard or (other, one) in self.cut_over.rerouted

    def _open(self, status: ChangeStatus, seen: Observation) -> str:
        """Return what a node waits for, and the remedy, in words."""
        found = [
            f"{other} has not acknowledged what {one} offers"
            + ("" if self._must_hear(one, other) else f" (or `mesh link disable {one} {other}`)")
            for one, other in self._waited_for(status, seen)
        ]
        return f": {', '.join(found)}" if found else ""

    def _follows(self, report: NodeReport) -> bool:
        status = report.change
        return (
            status is not None
            and status.number == self.target.number
            and status.stage is self.target.stage
        )

    def _untaken(self, seen: Observation, does: str) -> Sequence[str]:
        return [
            f"node {node} leaves and {does} {counted(seen.untaken[node], 'record')} "
            "of its clients: have them publish elsewhere"
            for node in self.cut_over.leaving
            if seen.untaken.get(node)
        ]


_LEAVES_LINKED = (
    "leaves and sends no heartbeats: start it, or take its links away first, in a change of their "
    "own; --allow-delete gives up what waits for it"
)

_IS_DOWN = "must take part and sends no heartbeats: start it"
_MUST_START = "is new and sends no heartbeats: start it with the new topology file"

_SERVES_NOT = "is new and has not taken its lanes yet: `mesh status` and its log say why"

_BEGIN_AGAIN = "go back by `mesh apply --abort`, then begin again"

_SILENT = {True: "disabled, and {why}: enable it", False: "down, and {why}: mend it"}

_DOING = {
    Stage.HOLD: "still commits what it has taken",
    Stage.SWITCH: "does not work by the new topology yet",
}


def _silent(seen: Observation) -> Sequence[str]:
    """Return what must be known first: otherwise sources would hold until it is."""
    return [f"{reader} hears nothing of {sender} just now" for sender, reader in seen.silent()]
