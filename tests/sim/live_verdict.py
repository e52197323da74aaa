"""What must have come of each message while everything changed: see `live_trials`.

A message of a time of rest comes to whom `test_interplay.owed` says. One of a time of change comes
to all whom it must reach under every mesh meanwhile, and to nobody whom it may reach under none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesh.lab.steps import Publish, Subscribe
from tests.sim.interplay import Owed, Phase, owed
from tests.sim.meshes import naive_matches


@dataclass(frozen=True)
class Sent:
    """A message, and the first and last of the meshes that were in force, or came, meanwhile.

    Attributes:
        is_calm: Whether nothing breaks in its trial.
    """

    payload: bytes
    message: Publish
    at_ms: int
    first: int
    last: int
    is_calm: bool = True

    @property
    def may_fail(self) -> bool:
        """Whether it may be discarded on its way: a direct one, unless all is well. Spec: K18."""
        is_well = self.is_calm and self.first == self.last
        return self.message.class_ == "direct" and not is_well


@dataclass(frozen=True)
class Verdict:
    """Judges one trial in its end.

    Attributes:
        phases: The meshes, in order.
        wishes: Who asked for what, from the start to the end.
        found: Per endpoint, how often its topic holds each payload.
        consumed: Per queue, how often each payload was handed out; None if nobody consumed.
        gone: Nodes that are no part of the mesh any more: what waits there stays there.
        is_visited: Whether others come and go too, to whose nodes copies come.
    """

    phases: Sequence[Phase]
    wishes: Sequence[Subscribe]
    found: Mapping[str, Counter[bytes]]
    consumed: Mapping[str, Counter[bytes]] | None
    gone: Sequence[str]
    is_visited: bool

    def faults(self, sent: Sent) -> Iterator[str]:
        """Yield what is wrong with what became of a message."""
        phases = self.phases[sent.first : sent.last + 1]
        every = [owed(phase, sent.message) for phase in phases]
        may = {name for one in every for name in (*one.must, *one.may)}
        if len(phases) > 1 or self.is_visited:
            may |= self._may_besides(sent.message)
        for name, counts in self.found.items():
            queue, count = name.partition("/")[2], counts[sent.payload]
            if self.consumed is not None and self._is_moved(queue, sent):
                continue  # its copies stand in several topics: who was handed it, counts
            is_owed = not sent.may_fail and all(name in one.must for one in every)
            is_lost = is_owed and not count
            # A new home has what its proxies had, as often as they had it.
            is_too_much = count > 1 or (count and name not in may)
            if is_lost or (is_too_much and not self._is_redeclared(queue, sent)):
                yield f"{count} times at {name}"
        for queue in {wish.endpoint for wish in self.wishes if wish.kind == "queue"}:
            yield from self._queue_faults(queue, sent, phases, every)

    def _may_besides(self, message: Publish) -> set[str]:
        """Return who attracts nothing: a copy may come there for others, or while nodes switch."""
        return {
            f"{wish.node}/{wish.endpoint}"
            for wish in self.wishes
            if wish.noexport and naive_matches(wish.filter, message.subject)
        }

    def _policies(self, queue: str, phases: Sequence[Phase]) -> set[str | None]:
        members = [wish for wish in self.wishes if wish.endpoint == queue]
        return {phase.policy(wish) for phase in phases for wish in members}

    def _is_moved(self, queue: str, sent: Sent) -> bool:
        """Return whether members of a queue may pass a message on to each other in the end."""
        return not {"home", "any"}.isdisjoint(self._policies(queue, self.phases[sent.first :]))

    def _is_redeclared(self, queue: str, sent: Sent) -> bool:
        """Return whether a queue is declared otherwise later, so that what waits there is moved."""
        phases = self.phases[sent.first :]
        declared = [phase.spec["queues"].get(queue.upper()) for phase in phases]  # type: ignore[attr-defined]
        return any(one != declared[0] for one in declared)

    def _queue_faults(
        self, queue: str, sent: Sent, phases: Sequence[Phase], every: Sequence[Owed]
    ) -> Iterator[str]:
        """Yield what is wrong with a queue of which one member gets each message."""
        names = [name for name in self.found if name.endswith(f"/{queue}")]
        is_redeclared = self._is_redeclared(queue, sent)
        goes_to_one = self._policies(queue, phases) <= {"home", "any"} and not is_redeclared
        is_owed = not sent.may_fail and all(
            any(name in one.must for name in names) for one in every
        )
        if self.consumed is None:
            count = sum(self.found[name][sent.payload] for name in names)
            is_owed &= goes_to_one
        elif any(name.partition("/")[0] in self.gone for name in names):
            return
        else:
            count = self.consumed.get(queue, Counter())[sent.payload]
        if (goes_to_one and count > 1) or (is_owed and not count):
            yield f"{count} times in queue {queue}"
