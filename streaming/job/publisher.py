"""Writing what is new, and saving the state that it follows from."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.model.topics import TopicNames
from streaming.connectors.sink import SinkRecord
from streaming.job.kafka_clusters import AuditedKafkaClusters
from streaming.job.outputs import status_records, take_findings, take_outputs
from streaming.job.snapshots import Snapshots
from streaming.job.state import State

RATES_S = 2.0
"""Time over which the rates of links are measured, in seconds."""

STATUS_EVERY_S = 5.0
"""A status is written at least so often, also when there is no news."""

REPEATED = ("certificates", "links", "canaries")
"""Tables in which who goes on from an older state writes the same again, under the same keys:
between two batches the state is not saved for them alone more often than a status is written."""


@dataclass(slots=True)
class AuditPublisher:
    """Writes outputs and saves states.

    Attributes:
        names: Of the topics.
        snapshots: Where states are kept.
        kafka_clusters: Those that are audited.
        write: Writes outputs, or raises.
        clock: Seconds that only rise.
        rates_at_s: When the rates of links were measured last.
        standing: What the last status said, so far as it is news.
        written_s: When that was written.
        endpoints: What stands beside the status, as it was written last.
        saved_batch: Batch after which the state was saved last.
        saved_s: When that was.
        told: Findings that were written since then.
    """

    names: TopicNames
    snapshots: Snapshots
    kafka_clusters: AuditedKafkaClusters
    write: Callable[[Sequence[SinkRecord]], None]
    clock: Callable[[], float]
    rates_at_s: float = field(init=False)
    standing: object = None
    written_s: float = 0.0
    endpoints: Sequence[SinkRecord] = ()
    saved_batch: int = -1
    saved_s: float = 0.0
    told: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Measure rates from now on."""
        self.rates_at_s = self.clock()

    def tell(self, state: State) -> None:
        """Write what was found by now, and save nothing.

        Who goes on from the state before takes the same batch again, finds the same and writes it
        under the same keys; what it does not find again, for more has been read by then, it takes
        back. With a state of after it, a batch that cannot be judged would not come again, and
        could not be read in parts.

        Args:
            state: All audits, which have taken a batch that is not judged yet.
        """
        self.told.update(state.register.unpublished)
        if outputs := [*take_findings(state.register, self.names)]:
            self.snapshots.note_told(self.told)
            self.write(outputs)

    def publish(
        self,
        state: State,
        lagging: Collection[str],
        more: Sequence[SinkRecord] = (),
        *,
        is_last: bool = False,
    ) -> None:
        """Write what is new; without a batch and without news, only a sign of life at times.

        Args:
            state: All audits.
            lagging: Kafka clusters of which there is more to read.
            more: What else is news.
            is_last: There will be no later time.
        """
        if state.register.unpublished and state.batch >= 0:
            # Else one that was written just before a crash could never be taken back.
            self._save(state)
        read = [one for one in self.kafka_clusters.answering if one not in lagging]
        rates = self._rates(state)
        outputs = [*take_outputs(state, self.names, rates, read, is_last=is_last), *more]
        standing = (
            state.batch,
            list(state.certifier.waiting),
            dict(self.kafka_clusters.unread),
        )
        is_news = bool(outputs) or is_last or standing != self.standing
        if not is_news and self.clock() - self.written_s < STATUS_EVERY_S:
            return
        is_due = is_last or state.batch != self.saved_batch or self._is_to_be_kept(outputs)
        self.standing, self.written_s = standing, self.clock()
        told = self._told_of_sources(state, lagging)
        *more_of_it, status = status_records(state, self.names, wall_ms(), told, is_final=is_last)
        self.write([*outputs, *(one for one in more_of_it if one not in self.endpoints), status])
        self.endpoints = more_of_it
        if is_news and is_due and state.batch >= 0:
            self._save(state)

    def _is_to_be_kept(self, outputs: Sequence[SinkRecord]) -> bool:
        repeated = [self.names.audit(table) for table in REPEATED]
        is_new = any(one.topic not in repeated for one in outputs)
        return is_new or not 0 <= self.clock() - self.saved_s < STATUS_EVERY_S

    def _save(self, state: State) -> None:
        state.clock_s = self.saved_s = self.clock()
        self.snapshots.save(state.batch, state)
        self.saved_batch = state.batch
        self.told.clear()

    def _rates(self, state: State) -> Mapping[str, float]:
        if 0 <= (over_s := self.clock() - self.rates_at_s) < RATES_S:
            return {}
        self.rates_at_s = self.clock()
        return state.links.take_rates(over_s)

    def _told_of_sources(
        self, state: State, lagging: Collection[str]
    ) -> Mapping[str, Mapping[str, object]]:
        """Return, by Kafka cluster, the reading state that the status shows."""
        kafka_clusters = self.kafka_clusters
        known = filter(
            kafka_clusters.is_needed, sorted({**kafka_clusters.brokers, **kafka_clusters.unread})
        )
        return {
            kafka: {
                "batch": state.batches.get(kafka, -1),
                "lagging": kafka in lagging,
                "unread": kafka_clusters.unread.get(kafka),
                "read_ms": kafka_clusters.read_ms(kafka, wall_ms()),
            }
            for kafka in known
        }


def wall_ms() -> int:
    """Return the time of day in milliseconds since 1970; nothing is decided by it."""
    return int(time.time() * 1000)
