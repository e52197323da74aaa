"""Copies that crossed a link behind which nobody had asked for them. Spec: DESIGN 1, 3, K31.

Spark matches subjects of frames against what is asked for behind each link; what nothing selects
is asked again a while later, for a subscription may be read after the messages that it attracts.
Of a filter that nobody asks for any more the cuts tell from which message on: who routes nearer to
the one that left it has known of it before the origin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mesh.model.findings import FindingKind
from mesh.model.topics import TopicNames
from streaming.audits.eras import Eras
from streaming.audits.finding_register import Finding, message_range, records
from streaming.audits.interest import SubscriptionHistory
from streaming.audits.link_reach import LinkReach
from streaming.audits.matching import is_filter, pattern_of, selects
from streaming.audits.names import Names
from streaming.audits.pending import Pending
from streaming.audits.recent import Recent
from streaming.tables.filters import may_be_widened
from streaming.tables.rows import NeedlessRow, SourceKey, TopicPartition
from streaming.tables.topics import place_of

NEEDLESS_WAIT_S = 10.0
"""How long the subscription may be read after the frames, in seconds."""

HELD_MAX = 5_000
"""Suspicions that wait at most: nothing is judged while a Kafka cluster is not read. Others are
reported as not examined."""

ENDED_MAX = 1_000
"""Filters that were left, per node, of which it is known since when. What an older one may have
requested is reported as not examined, too."""

BYTES_MAX = 1_000_000
"""Of all expressions together that a batch is matched against; beyond that nothing is."""


class NeedlessKey(NamedTuple):
    """Messages of one source and subject that crossed a link by one topology."""

    place: TopicPartition
    source: SourceKey
    generation: int
    era: int | None
    subject: str


@dataclass(slots=True)
class NeedlessCopies:
    """What looks needless, and since when.

    Attributes:
        prefix: Start of every topic name.
        held: Suspicions.
        ended: Node -> filter -> `clients` offset of the record that ended it last.
        is_open: Whether all that was written has once been read: on an old mesh compaction may
            have deleted subscriptions whose messages are still there.
    """

    prefix: str
    held: Pending[NeedlessKey, NeedlessRow] = field(default_factory=Pending)
    ended: dict[str, Recent[str, int]] = field(default_factory=dict)
    is_open: bool = False

    def end(self, node: str, filter_: str, offset: int) -> None:
        """Take the record with which an endpoint of a node leaves a filter."""
        self.ended.setdefault(node, Recent()).put(filter_, offset, ENDED_MAX)

    def forget_clients(self, node: str, asked: Iterable[str]) -> None:
        """Take that a node's `clients` topic was recreated, whose offsets begin again.

        What had been left there counts as left with the first record of the new one: no lane will
        ever know of so high an offset as it had, and the filter would excuse every copy.

        Args:
            node: The node.
            asked: Filters that its endpoints asked for; those that ask again say so.
        """
        for filter_ in (*self.ended.pop(node, ()), *asked):
            self.end(node, filter_, 0)

    def absorb(
        self, rows: Sequence[NeedlessRow], interest: SubscriptionHistory, eras: Eras, now_s: float
    ) -> Iterator[Finding]:
        """Take what looked needless in a batch; yield what there is no room for.

        Once there is none, what has been requested by now makes room, and takes none: a
        subscription may be read after all that it has attracted.

        Args:
            rows: What looked needless.
            interest: Who asks.
            eras: Who is behind which link.
            now_s: The auditor's clock, in seconds.
        """
        asked: Mapping[str, Sequence[str]] | None = None
        for row in rows if self.is_open else ():
            key = NeedlessKey(row.place, row.source, row.generation, row.era, row.subject)
            told = (key, row, now_s, NeedlessRow.joined, HELD_MAX)
            if self.held.hold(*told):
                continue
            if asked is None:
                asked = _asked(interest)
                for other, (_, doubt) in list(self.held.items()):
                    if self._is_asked(doubt, asked, eras):
                        del self.held[other]
            if not self._is_asked(row, asked, eras) and not self.held.hold(*told):
                yield self._unexamined(row)

    def judge(
        self, interest: SubscriptionHistory, eras: Eras, names: Names, now_s: float
    ) -> Iterator[Finding]:
        """Yield what nobody asked for.

        Args:
            interest: Who asks.
            eras: Who is behind which link.
            names: Of topics.
            now_s: All that was written before this moment has been read.
        """
        self.is_open = True
        due = [*self.held.take_due(NEEDLESS_WAIT_S, now_s)]
        if not due:
            return
        asked = _asked(interest)
        for _, row in due:
            reaches = eras.link_reaches_of(row.era)
            nodes = _nodes(reaches, self._link(row.place.topic))
            if not nodes or not _is_exact(asked, reaches):
                continue
            if self._is_asked(row, asked, eras) or any(
                self._was_asked(node, row, interest, names) for node in nodes
            ):
                continue
            is_forgotten = any(self._was_forgotten(node, row, interest, names) for node in nodes)
            yield self._unexamined(row) if is_forgotten else self._finding(row, names)

    def _is_asked(self, row: NeedlessRow, asked: Mapping[str, Sequence[str]], eras: Eras) -> bool:
        """Return whether somebody behind the link asks for it just now."""
        reaches = eras.link_reaches_of(row.era)
        nodes = _nodes(reaches, self._link(row.place.topic))
        return any(selects(one, row.subject) for node in nodes for one in _of(node, asked, reaches))

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.held.go_ahead(ahead_s)

    def _was_asked(
        self, node: str, row: NeedlessRow, interest: SubscriptionHistory, names: Names
    ) -> bool:
        """Return whether a node may have requested the newest message when it was routed."""
        return any(
            is_filter(filter_)
            and selects(filter_, row.subject)
            and _may_precede(row, node, offset, interest, names)
            for filter_, offset in self.ended.get(node, {}).items()
        )

    def _was_forgotten(
        self, node: str, row: NeedlessRow, interest: SubscriptionHistory, names: Names
    ) -> bool:
        """Return whether a filter that is not known any more may have been in force then.

        All of these were left before the oldest one that is known.
        """
        ended: Mapping[str, int] = self.ended.get(node, {})
        oldest = min(ended.values()) if len(ended) >= ENDED_MAX else None
        return oldest is not None and _may_precede(row, node, oldest, interest, names)

    def _link(self, topic: str) -> tuple[str, str]:
        outbox = place_of(self.prefix, topic)
        return outbox.node, outbox.other

    def _unexamined(self, row: NeedlessRow) -> Finding:
        """Return that nobody knows whether copies were asked for: too much was on hand."""
        outbox = place_of(self.prefix, row.place.topic)
        return Finding(
            kind=FindingKind.UNPROVEN,
            text=f"{outbox.link} carried messages that nobody behind it may have asked for, while"
            " too many others waited to be examined, or too many filters had been left: they are"
            " not examined",
            link=outbox.link,
            count=row.frames,
            anchor="unexamined copies",
            node=outbox.node,
            evidence=(records(row.place, row.record_first, row.record_last),),
        )

    def _finding(self, row: NeedlessRow, names: Names) -> Finding:
        outbox, source = place_of(self.prefix, row.place.topic), names.text(row.source)
        return Finding(
            kind=FindingKind.NEEDLESS_COPY,
            text=f"{outbox.node} sends {row.subject} of {source} to {outbox.other}, and nobody"
            " behind that link asks for it",
            ids=(message_range(source, row.generation, row.first, row.last),),
            link=outbox.link,
            source=source,
            first=row.first,
            last=row.last,
            count=row.frames,
            node=outbox.node,
            evidence=(records(row.place, row.record_first, row.record_last),),
        )


def _may_precede(
    row: NeedlessRow, node: str, offset: int, interest: SubscriptionHistory, names: Names
) -> bool:
    """Return whether frames may have been routed before a version of a node's clients was known."""
    place, uuid = names.place(row.source), names.uuids.get(node)
    if place is None or uuid is None or row.generation:
        return True
    known_from = interest.lanes.position(place, uuid, offset)
    return known_from is None or row.newest < known_from


def asked_patterns(prefix: str, interest: SubscriptionHistory, eras: Eras) -> Mapping[str, str]:
    """Return per outbox topic a regular expression of what is asked for behind its link.

    Joins are left out, for what they carry need not be wanted; so is everything where filters may
    have been widened.
    """
    asked, reaches = _asked(interest), eras.link_reaches
    if not _is_exact(asked, reaches):
        return {}
    names = TopicNames(prefix)
    found: dict[str, str] = {}
    for sender, receiver in dict.fromkeys(link for one in reaches for link in one.nodes):
        nodes = _nodes(reaches, (sender, receiver))
        if nodes:
            pattern = pattern_of(one for node in nodes for one in _of(node, asked, reaches))
            found[names.link(sender, receiver)] = pattern
    return found


def unmatched(patterns: Mapping[str, str]) -> Finding | None:
    """Return that expressions are too long together for frames to be matched against, if so."""
    if sum(map(len, patterns.values())) <= BYTES_MAX:
        return None
    return Finding(
        kind=FindingKind.UNPROVEN,
        text="what is asked for behind all links is more than frames are matched against: while"
        " that is so, nobody knows which copies are needless",
        anchor="unmatched copies",
    )


def _asked(interest: SubscriptionHistory) -> Mapping[str, Sequence[str]]:
    """Return what endpoints of each node ask for just now that others send for."""
    found: dict[str, dict[str, None]] = {}
    for endpoint, subscriptions in interest.subscriptions.items():
        for subscription in subscriptions:
            if (
                subscription.removed is None
                and not subscription.noexport
                and is_filter(subscription.filter)
            ):
                found.setdefault(endpoint.node, {})[subscription.filter] = None
    return {node: tuple(filters) for node, filters in found.items()}


def _nodes(reaches: Sequence[LinkReach], link: tuple[str, str]) -> Sequence[str]:
    """Return the nodes behind a link by any of some topologies; none if one has a join there."""
    known = [one.nodes[link] for one in reaches if link in one.nodes]
    return sorted({node for nodes in known for node in nodes}) if all(known) else ()


def _of(
    node: str, asked: Mapping[str, Sequence[str]], reaches: Sequence[LinkReach]
) -> Iterable[str]:
    yield from asked.get(node, ())
    for one in reaches:
        yield from one.static_interest.get(node, ())


def _is_exact(asked: Mapping[str, Sequence[str]], reaches: Sequence[LinkReach]) -> bool:
    """Return whether no node may have widened a filter."""
    static = [filters for one in reaches for filters in one.static_interest.values()]
    return not may_be_widened(one for filters in (*asked.values(), *static) for one in filters)
