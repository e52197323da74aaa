"""A worker without lanes reports how much it has heard: a worker that takes a lane may lack some.

Otherwise a standby that lags, or whose own connection to a neighbour is cut, goes unseen until the
day it is needed. It reports its versions of interest on `learned` under its own name, when they
change and now and then; the doctor compares them with what lanes go by. With lanes, or at a clean
exit, it withdraws the report. A killed worker leaves its report there; the next standby clears it.
Spec: K16, K21.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import structlog

from mesh.errors import TransportError
from mesh.model.facts import InForce
from mesh.model.interest_inputs import VersionByInput
from mesh.model.state import Standby
from mesh.transport.port import TopicPartition, Writer
from mesh.wire.keys import standby_key
from mesh.wire.standbys import gone
from mesh.wire.state import encode_standby
from mesh.worker.process.questions import Questions
from mesh.worker.process.recall import Recall

SOON_MS = 5_000
"""How long after its knowledge has changed a standby reports that."""

AGAIN_MS = 60_000
"""How often it repeats an unchanged report: its time stamp shows readers that it lives."""

log = structlog.get_logger()


@dataclass(slots=True)
class StandingBy:
    """Reports what one worker has heard, as long as it owns no lane.

    Attributes:
        name: The worker's, without spaces; other workers of its node have other names.
        topic: `learned` of its node.
        writer: Writes without a transaction, and blocks nobody.
        recall: Reads the node's own topics.
        questions: Asks beside the loop.
    """

    name: str
    topic: str
    writer: Writer
    recall: Recall
    questions: Questions
    _told: VersionByInput | None = None
    _told_ms: int = -AGAIN_MS
    _is_cleared: bool = False

    def step(self, heard: VersionByInput | None, now_ms: int) -> None:
        """Write what is new.

        Args:
            heard: Versions of interest by which this worker would route, or None if it has lanes.
            now_ms: The present moment.
        """
        if heard is None:
            self.close()
            return
        age_ms = now_ms - self._told_ms
        if age_ms >= AGAIN_MS or (age_ms >= SOON_MS and heard != self._told):
            told = [InForce(scope, *version) for scope, version in sorted(heard.items())]
            self._write(self.name, encode_standby(Standby(told)))
            self._told, self._told_ms = dict(heard), now_ms
        if not self._is_cleared:
            self._clear()

    def close(self) -> None:
        """Withdraw what was reported."""
        self.questions.forget("standbys")
        if self._told is not None:
            self._write(self.name, None)
            self._told, self._told_ms = None, -AGAIN_MS

    def _write(self, name: str, value: bytes | None) -> None:
        self.writer.produce(self.topic, value, standby_key(name), 0)

    def _clear(self) -> None:
        """Clear the reports of workers that are gone."""
        reading = partial(self.recall.records, TopicPartition(self.topic, 0))
        try:
            records = self.questions.answer(("standbys",), reading)
        except TransportError as error:
            log.warning("standbys.not_read", fault=str(error))
            self._is_cleared = True
            return
        if records is not None:
            self._is_cleared = True
            told = [(one.key(), one.value(), one.timestamp()[1]) for one in records]
            for name in gone(told):
                self._write(name, None)
