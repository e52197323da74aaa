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
from streaming.audits.interest import Interest
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
"""Suspicions that wait at most; of a fault with more subjects the first ones tell."""

ENDED_MAX = 1_000
"""Filters that were left, per node, of which it is known since when."""

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

    def absorb(self, rows: Sequence[NeedlessRow], now_s: float) -> None:
        """Take what looked needless in a batch."""
        for row in rows if self.is_open else ():
            key = NeedlessKey(row.place, row.source, row.generation, row.era, row.subject)
            self.held.hold(key, row, now_s, NeedlessRow.joined, HELD_MAX)

    def judge(
        self, interest: Interest, eras: Eras, names: Names, now_s: float
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
            filters = [one for node in nodes for one in _of(node, asked, reaches)]
            if not nodes or not _is_exact(asked, reaches):
                continue
            if not any(selects(one, row.subject) for one in filters) and not any(
                self._was_asked(node, row, interest, names) for node in nodes
            ):
                yield self._finding(row, names)

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""
        self.held.go_ahead(ahead_s)

    def _was_asked(self, node: str, row: NeedlessRow, interest: Interest, names: Names) -> bool:
        """Return whether a node may have requested the newest message when it was routed."""
        place, uuid = names.place(row.source), names.uuids.get(node)
        for filter_, offset in self.ended.get(node, {}).items():
            if not is_filter(filter_) or not selects(filter_, row.subject):
                continue
            if place is None or uuid is None or row.generation:
                return True
            known_from = interest.lanes.position(place, uuid, offset)
            if known_from is None or row.newest < known_from:
                return True
        return False

    def _link(self, topic: str) -> tuple[str, str]:
        outbox = place_of(self.prefix, topic)
        return outbox.node, outbox.other

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


def asked_patterns(prefix: str, interest: Interest, eras: Eras) -> Mapping[str, str]:
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
    return found if sum(map(len, found.values())) <= BYTES_MAX else {}


def _asked(interest: Interest) -> Mapping[str, Sequence[str]]:
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
