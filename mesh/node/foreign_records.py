"""Records on the node's own control topic that should not be there: foreign, or outdated ones.

The leader wrote every record that counts, so the newest of each key is what it offers, unless a
tool replayed old records or garbage took the place of one. The difference is written again.

Spec: K16, R12.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from mesh.model.control import Scope
from mesh.model.effects import Note, RestartLeadership, WriteAdvert, WriteMark
from mesh.model.inputs import OwnAdvertRead, OwnBeatRead, OwnMarkRead
from mesh.model.patience import Patience
from mesh.node.leader import Leader
from mesh.node.learner import Learner

Key = TypeVar("Key", Scope, tuple[Scope, str])

PATIENCE_MS = Patience(2_000, 60_000)
"""The leader reads its own records a moment after it wrote them, so a difference that lasts is not
its own. If brokers are so slow that it reads them later than that, its own earlier records look
foreign to it: each time it has written a scope again it waits twice as long, until it has read what
it wrote last. Otherwise readers would never finish with its marks."""


@dataclass(frozen=True, slots=True)
class _Outdone:
    """A record that readers believe and the leader did not write, and since when that is known."""

    what: str
    since_ms: int


@dataclass(slots=True)
class ForeignRecords:
    """Differences between the own control topic and the leader's offers, each with its start.

    Attributes:
        caught_up: Whether the topic has been read to the end that it had at the start.
    """

    caught_up: bool = False
    _adverts: dict[tuple[Scope, str], int] = field(default_factory=dict)
    _marks: dict[Scope, int] = field(default_factory=dict)
    _outdone: _Outdone | None = None
    _patience_ms: dict[Scope, int] = field(default_factory=dict)

    def read(
        self, leader: Leader, learner: Learner, said: OwnAdvertRead | OwnMarkRead, now_ms: int
    ) -> None:
        """Compare an entry or a mark on the topic with what the leader offers.

        With its first offer a leader itself compares all entries, including those that arrive until
        then, and marks every scope: earlier marks do not matter then, unless readers prefer them.
        """
        scope = said.scope
        if not leader.has_offered:
            if isinstance(said, OwnAdvertRead):
                leader.note_written(scope, said.filter, said.interest)
                return
            if said.mark is None or said.mark.epoch <= leader.epoch:
                return
        if isinstance(said, OwnAdvertRead):
            agrees = said.interest == leader.entry(learner, scope, said.filter)
            _note(self._adverts, (scope, said.filter), now_ms, agrees=agrees)
            return
        newest = leader.marks().get(scope)
        _note(self._marks, scope, now_ms, agrees=said.mark == newest)
        if said.mark == newest:
            self._patience_ms.pop(scope, None)
        if said.mark is not None and newest is not None and said.mark > newest:
            self._outdo(f"the mark of {scope}", now_ms)

    def read_beat(self, leader: Leader, said: OwnBeatRead, now_ms: int) -> None:
        """Notice a heartbeat that neighbours consider newer than all that the leader sends."""
        if (said.epoch, said.number) > (leader.epoch, leader.beating.number):
            self._outdo("a heartbeat", now_ms)

    def _outdo(self, what: str, now_ms: int) -> None:
        """Remember what readers consider newer: no later agreement makes them forget it."""
        self._outdone = self._outdone or _Outdone(what, now_ms)

    def overwrite(
        self, leader: Leader, learner: Learner, now_ms: int
    ) -> Iterator[WriteAdvert | WriteMark | RestartLeadership | Note]:
        """Write again what has differed for long enough, with a mark that lets readers prove it.

        Nothing is written before the topic has been read to the end that it had at the start.

        Args:
            leader: What counts: its offers are compared with what was read.
            learner: What the node knows: an offer follows from it.
            now_ms: The present moment.

        Yields:
            The records, and what people are told. Where readers take a stranger's record for newer
            than all that this leader can write, another leadership begins instead.
        """
        if not self.caught_up:
            return
        if self._outdone is not None and now_ms - self._outdone.since_ms >= PATIENCE_MS.first:
            # Another worker with a newer epoch would have ended this leadership by now.
            yield Note(
                "control.foreign", {"what": self._outdone.what, "text": "newer than the leader's"}
            )
            yield RestartLeadership()
            return
        if not (self._adverts or self._marks):
            return
        patience = self._patience_ms
        entries = [
            (scope, filter_)
            for (scope, filter_), since in self._adverts.items()
            if now_ms - since >= patience.get(scope, PATIENCE_MS.first)
        ]
        stale = [
            scope
            for scope, since in self._marks.items()
            if now_ms - since >= patience.get(scope, PATIENCE_MS.first)
        ]
        for scope, filter_ in entries:
            del self._adverts[scope, filter_]
            yield WriteAdvert(scope, filter_, leader.entry(learner, scope, filter_))
        for scope in stale:
            del self._marks[scope]
        scopes = sorted({*stale, *(scope for scope, _ in entries)})
        yield from leader.mark_again(scopes)
        for scope in scopes:
            patience[scope] = PATIENCE_MS.after(patience.get(scope, PATIENCE_MS.first))
            what = f"the offers of {scope}"
            yield Note("control.foreign", {"what": what, "text": "written again"})

    def forget(self) -> None:
        """Start over: another leader compares the whole topic when it begins."""
        self._adverts.clear()
        self._marks.clear()
        self._patience_ms.clear()
        self._outdone = None


def _note(differing: dict[Key, int], key: Key, now_ms: int, *, agrees: bool) -> None:
    if agrees:
        differing.pop(key, None)
    else:
        differing.setdefault(key, now_ms)
