"""Looks after the queries of a running auditor: one lock, and one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mesh.errors import MeshError, TransportUnavailableError
from streaming.job.auditor import Auditor
from streaming.job.canaries import Flock
from streaming.job.drain import AuditorDrain
from streaming.job.port import AuditPort
from streaming.job.queries import Queries
from streaming.job.spoiled_batches import fault_of

PULSE_S = 0.2
"""How often the main thread looks around."""

JUDGE_S = 1.0
"""How often open ranges are judged while no batch comes, in seconds."""


@dataclass(slots=True)
class QuerySupervisor:
    """Looks after the queries and judges when no batch comes.

    Attributes:
        auditor: What the batches are for.
        queries: The queries.
        port: Told that it looks around.
        flock: Canaries.
        say: Tells a person.
        blamed: Why the last judgement failed, if nobody has thought of that.
        seen: Judgements after which was looked whether all is judged.
    """

    auditor: Auditor
    queries: Queries
    port: AuditPort
    flock: Flock
    say: Callable[[str], None]
    blamed: str = ""
    seen: int = 0

    def watch(self, drain: AuditorDrain | None = None) -> None:
        """Wait until the auditor shall end.

        Args:
            drain: What to wait for; None: for a signal.

        Raises:
            MeshError: It cannot go on.
        """
        looked_s = time.monotonic()
        while not self.queries.stopping.wait(PULSE_S):
            self.queries.look()
            self.port.looked()
            if drain is not None and self._is_drained(drain):
                return
            now_s = time.monotonic()
            if now_s - looked_s < JUDGE_S:
                continue
            if self.queries.lock.acquire(blocking=False):
                try:
                    if self._is_idle(now_s):
                        self._judge()
                    self.flock.follow(self.auditor.state.eras.linked()[-1])
                finally:
                    self.queries.lock.release()
                looked_s = time.monotonic()

    def _is_idle(self, now_s: float) -> bool:
        """Return whether no batch was taken just now, nor is being made.

        What is read again for a judgement would keep that waiting, with all that it shows.
        """
        is_quiet = now_s - self.auditor.batch_at_s >= JUDGE_S
        return is_quiet and not self.queries.is_taking(now_s)

    def _judge(self) -> None:
        try:
            self.auditor.judge()
        except TransportUnavailableError as error:
            self.say(f"{error}; trying again")
            self.auditor.restore()
        except MeshError:
            raise
        except Exception as error:  # noqa: BLE001  # what nobody has thought of ends nothing
            # Until a judgement succeeds no status is written: reports say so.
            if (reason := fault_of(error)) != self.blamed:
                self.say(f"what was read cannot be judged: {reason}; trying again")
                self.blamed = reason
            self.auditor.restore()
        else:
            self.blamed = ""

    def _is_drained(self, drain: AuditorDrain) -> bool:
        """Return whether all is judged that is waited for; each judgement is looked at once."""
        if not self.queries.lock.acquire(blocking=False):
            return False
        try:
            auditor, now_s = self.auditor, self.auditor.clock()
            drain.ask(auditor.kafka_clusters, now_s)
            if auditor.judgements == self.seen:
                return False
            self.seen = auditor.judgements
            return drain.look(auditor.state, auditor.kafka_clusters, now_s)
        finally:
            self.queries.lock.release()

    def end(self) -> None:
        """Certify open ranges, publish them and stop the queries."""
        self.queries.stopping.set()
        with self.queries.lock:
            if self.auditor.state.batch >= 0:
                self._judge_last()
        self.queries.stop()

    def _judge_last(self) -> None:
        try:
            self.auditor.judge(is_last=True)
        except MeshError:
            raise
        except Exception as error:  # noqa: BLE001  # what nobody has thought of: the state is whole
            self.say(f"what is open cannot be judged: {fault_of(error)}")
