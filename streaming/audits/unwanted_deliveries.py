"""Direct messages that an endpoint got and never asked for. Spec: K31, DESIGN 6.

Spark matches subjects against what was known when a batch was read; a subscription may have been
read after the first messages for it, so what looks unwanted is asked again a while later. Of
deliveries of very many subjects only some are known, so the others are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import NamedTuple

from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.finding_register import Finding, message_range, records
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.matching import is_filter, is_subject, pattern_of, selects
from streaming.audits.names import Names
from streaming.audits.pending import Pending
from streaming.tables.rows import SUBJECTS_MAX, SourceKey, TopicPartition, UnwantedRow
from streaming.tables.topics import place_of

UNWANTED_WAIT_S = 3.0
"""Once all has been read that was written so many seconds after a suspicion, a subscription that
excuses it has been read."""

HELD_MAX = 1_000
"""Suspicions that wait at most: nothing is judged while a Kafka cluster is not read. Others are
reported as not examined."""

ABRIDGED_MAX = 10_000
"""Deliveries of too many subjects that wait at most to be read again, likewise."""


class UnwantedKey(NamedTuple):
    """Messages of one source in one endpoint partition."""

    place: TopicPartition
    source: SourceKey


@dataclass(frozen=True, slots=True)
class AbridgedDeliveries:
    """Deliveries of which the row spells out some subjects alone, all of them requested.

    Attributes:
        row: The deliveries.
        pattern: Regular expression of what had been requested by then.
        since_s: Since when they look unwanted, on the auditor's clock.
    """

    row: UnwantedRow
    pattern: str
    since_s: float


@dataclass(slots=True)
class UnwantedDeliveries:
    """What looks unwanted, and since when.

    Attributes:
        prefix: Start of every topic name.
        held: By endpoint partition and source.
        abridged: What has to be read again, for there are more subjects than those spelled out.
        ahead: Endpoint -> what it asks for in records that are taken later: it is read again after
            a restart.
    """

    prefix: str
    held: Pending[UnwantedKey, UnwantedRow] = field(default_factory=Pending)
    abridged: list[AbridgedDeliveries] = field(default_factory=list)
    ahead: dict[EndpointKey, dict[str, None]] = field(
        init=False, compare=False, default_factory=dict
    )

    def hear(self, asked: Iterable[tuple[EndpointKey, str]]) -> None:
        """Take which endpoints ask for which filters further on, as long as that is not taken."""
        for endpoint, filter_ in asked:
            self.ahead.setdefault(endpoint, {})[filter_] = None

    def catch_up(self, nodes: Collection[str]) -> None:
        """Take that all that endpoints of these nodes ask for is taken in its turn from now on."""
        if self.ahead:
            self.ahead = {one: asked for one, asked in self.ahead.items() if one.node not in nodes}

    def absorb(
        self, rows: Iterable[UnwantedRow], interest: SubscriptionHistory, now_s: float
    ) -> Iterator[Finding]:
        """Take what looked unwanted in a batch; yield what there is no room for.

        Whoever begins to audit reads subscriptions and what came by them at once: that is no
        suspicion, and takes no room.
        """
        for row in rows:
            yield from self._take(row, interest, now_s)

    def excuse(self, interest: SubscriptionHistory) -> Iterator[Finding]:
        """Drop what has been requested by now: ended subscriptions are soon forgotten.

        Yield what there is no room for of what has to be read again.
        """
        for key, (since_s, row) in list(self.held.items()):
            if not self._is_strange(row, interest):
                del self.held[key]
                yield from self._take(row, interest, since_s)

    def reread(
        self,
        doubt: AbridgedDeliveries,
        found: UnwantedRow | None,
        begin: int,
        interest: SubscriptionHistory,
    ) -> Iterator[Finding]:
        """Take what is strange in deliveries that were read again; yield what nobody knows of them.

        Args:
            doubt: What was read.
            found: The deliveries of subjects that its pattern does not select; None: none.
            begin: Where the log of the endpoint began.
            interest: Who asks by now.
        """
        if begin > doubt.row.record_first:
            yield _unexamined(self._endpoint(doubt.row), doubt.row)
        if found is not None:
            yield from self._take(found, interest, doubt.since_s)

    def _take(
        self, row: UnwantedRow, interest: SubscriptionHistory, since_s: float
    ) -> Iterator[Finding]:
        if self._is_strange(row, interest):
            key = UnwantedKey(row.place, row.source)
            if not self.held.hold(key, row, since_s, UnwantedRow.joined, HELD_MAX):
                yield _unexamined(self._endpoint(row), row)
        elif len(row.subjects) < SUBJECTS_MAX:
            return
        elif len(self.abridged) >= ABRIDGED_MAX:
            yield _unexamined(self._endpoint(row), row)
        else:
            pattern = intern(pattern_of(filter(is_filter, self._requested(row, interest))))
            self.abridged.append(AbridgedDeliveries(row, pattern, since_s))

    def forget(self, places: Collection[TopicPartition]) -> None:
        """Forget what cannot be read again, for the topics of endpoint partitions are gone."""
        self.abridged = [one for one in self.abridged if one.row.place not in places]

    def judge(self, interest: SubscriptionHistory, names: Names, now_s: float) -> Iterator[Finding]:
        """Yield what nobody has asked for.

        Args:
            interest: Who asks.
            names: Of topics.
            now_s: All that was written before this moment has been read.
        """
        for _, row in self.held.take_due(UNWANTED_WAIT_S, now_s):
            if self._is_strange(row, interest):
                strange = self._strange(row, interest)
                yield _finding(self._endpoint(row), row, strange, names)
            else:
                yield from self._take(row, interest, now_s)

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.held.go_ahead(ahead_s)
        self.abridged = [replace(one, since_s=one.since_s + ahead_s) for one in self.abridged]

    def _endpoint(self, row: UnwantedRow) -> EndpointKey:
        topic = place_of(self.prefix, row.place.topic)
        return EndpointKey(topic.node, topic.other)

    def _is_strange(self, row: UnwantedRow, interest: SubscriptionHistory) -> bool:
        """Return whether it has subjects that nobody has requested, or none at all."""
        return not row.subjects or bool(self._strange(row, interest))

    def _requested(self, row: UnwantedRow, interest: SubscriptionHistory) -> Sequence[str]:
        """Return the filters by which deliveries can have come to their endpoint."""
        endpoint = self._endpoint(row)
        askers = (endpoint, *interest.others_of(endpoint))
        asked = [one for who in askers for one in interest.subscriptions.get(who, ())]
        known = [filter_ for one in asked for filter_ in one.selecting]
        return [*known, *self.ahead.get(endpoint, ())]

    def _strange(self, row: UnwantedRow, interest: SubscriptionHistory) -> Sequence[str]:
        """Return the subjects that neither the endpoint nor its queue's members have requested."""
        filters = self._requested(row, interest)
        return [
            one
            for one in row.subjects
            if not (is_subject(one) and any(selects(wanted, one) for wanted in filters))
        ]


def wanted_patterns(prefix: str, interest: SubscriptionHistory) -> Mapping[str, str]:
    """Return, by endpoint topic, a regular expression for all subjects ever requested there."""
    names = TopicNames(prefix)
    return {
        names.endpoint(endpoint.node, endpoint.name): pattern_of(
            filter_ for one in subscriptions if is_filter(one.filter) for filter_ in one.selecting
        )
        for endpoint, subscriptions in interest.subscriptions.items()
    }


def _finding(
    endpoint: EndpointKey, row: UnwantedRow, subjects: Sequence[str], names: Names
) -> Finding:
    source = names.text(row.source)
    told = ", ".join(subjects[:3]) or "no subject"
    return Finding(
        kind=FindingKind.UNEXPECTED,
        text=f"{endpoint} got direct messages of {source} that it never asked for: {told}",
        ids=(message_range(source, 0, row.first, row.last),),
        endpoint=str(endpoint),
        source=source,
        first=row.first,
        last=row.last,
        count=row.count,
        anchor="direct",
        node=endpoint.node,
        evidence=(records(row.place, row.record_first, row.record_last),),
    )


def _unexamined(endpoint: EndpointKey, row: UnwantedRow) -> Finding:
    return Finding(
        kind=FindingKind.UNPROVEN,
        text=f"{endpoint} got direct messages that it may not have requested, while too many others"
        " waited to be examined, or which were deleted before they were read again: nobody knows"
        " whether it had requested them",
        endpoint=str(endpoint),
        count=row.count,
        anchor="unexamined",
        node=endpoint.node,
        evidence=(records(row.place, row.record_first, row.record_last),),
    )
