"""Outboxes to former neighbours: once they are deleted, lanes keep nothing of them. Spec: K12.

A worker may run for years while links come and go under ever new names, so it does not wait until
its lanes are taken again. What proves that an outbox is gone is the same there: `gone_targets`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.lane.ended_outboxes import end_sent
from mesh.lane.lane import Lane
from mesh.model.facts import Held, Sent
from mesh.transport.port import TopicInfo
from mesh.worker.lanes.gone_targets import without_link
from mesh.worker.lanes.owned import Lanes
from mesh.worker.process.questions import Questions
from mesh.worker.topics.left_outboxes import LOOK_MS

log = structlog.get_logger()


@dataclass(slots=True)
class FormerTargets:
    """Looks now and then whether outboxes to which no link leads any more are there still.

    Attributes:
        lanes: What this worker owns.
        questions: What waits for brokers.
        due_ms: When to look next: turns before that need not call it.
    """

    lanes: Lanes
    questions: Questions
    due_ms: int = LOOK_MS
    _asked: Sequence[str] = ()

    def look(self, now_ms: int) -> None:
        """Ask the node's own Kafka cluster, and have what is gone end."""
        self._asked = self._asked or self._doubted()
        if self._asked:
            describing = partial(self.lanes.home.admin().describe, self._asked)
            try:
                known = self.questions.answer(("former",), describing)
            except TransportError as error:
                log.info("progress.not_ended", fault=str(error))
                self._asked = ()
            else:
                if known is None:
                    return
                self._end(known, now_ms)
        self.due_ms = now_ms + LOOK_MS

    def relink(self) -> None:
        """Ask anew: an answer from before says nothing of links that come, and go again."""
        self.questions.forget("former")
        self._asked = ()

    def _doubted(self) -> Sequence[str]:
        """Return the topics to be looked for."""
        lanes = self.lanes.owned.values()
        return list(dict.fromkeys(one.at.topic for lane in lanes for one in self._left(lane)))

    def _left(self, lane: Lane) -> Sequence[Held | Sent]:
        """Return what a lane keeps of outboxes without a link."""
        topology, node = self.lanes.topology, self.lanes.machine.node
        kept = {one.key: one for one in lane.progress.sent_without_link}
        return list(without_link(kept, topology, node, lane.progress).values())

    def _end(self, known: Mapping[str, TopicInfo], now_ms: int) -> None:
        gone = dict.fromkeys(topic for topic in self._asked if topic not in known)
        self._asked = ()
        keys = 0
        for lane in self.lanes.owned.values():
            for one in self._left(lane):
                if one.at.topic in gone:
                    end_sent(lane, one, now_ms)
                    keys += 1
        if gone:
            log.info("progress.ended", keys=keys, topics=len(gone))
