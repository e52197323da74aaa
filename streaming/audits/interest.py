"""What clients asked for, by their records on `clients`. Spec: K13.

From where on lanes know it is `streaming.audits.lane_knowledge`'s to tell, and what follows of both
for one source and endpoint `streaming.audits.spans`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from mesh.model.control import EndpointKind, Subscription
from streaming.audits.cuts import KnownCut, first_knowing
from streaming.audits.eras import OF_THE_FILE
from streaming.audits.lane_knowledge import ErasOf, LaneKnowledge
from streaming.audits.queues import EACH, EVERYWHERE, SHARED, QueueRules
from streaming.audits.subscriptions import JudgedSubscription, judged_by, judged_subscription
from streaming.tables.filters import LITERAL, SHAPES_MAX, Filters, Shape
from streaming.tables.rows import TopicPartition

ClaimedFilters = Callable[["EndpointKey", Collection[str]], Collection[str]]
"""Endpoint and filters that it has left -> those that matter to what is not certified for good."""

RulesBetween = Callable[[TopicPartition, int, int | None], Sequence[QueueRules | None]]
"""Source partition, numbers of two topologies -> what these and those between them by which it was
routed say of queues, where that is known; without the second, up to the newest."""

PRUNE_EVERY = 1000
"""Changes after which needless things are forgotten."""

ENDED_MAX = 32
"""Ended subscriptions that are kept of an endpoint that has others."""

RECENT_S = 10.0
"""Those that ended within the last so many seconds are kept, too, however many they are: until
blocks tell whether they need them. How long that is excuses nothing: what may still come to one
that was owed something, cuts tell."""


class EndpointKey(NamedTuple):
    """An endpoint and the node whose clients made it."""

    node: str
    name: str

    def __str__(self) -> str:
        """Return `pa2/s1`."""
        return f"{self.node}/{self.name}"


class EndedSubscription(NamedTuple):
    """A subscription that has ended.

    Attributes:
        endpoint: Whose.
        filter: What it asked for.
        asked: What its record said.
        from_ms, to_ms: When it began and ended, ms since 1970 by the broker's clock.
    """

    endpoint: EndpointKey
    filter: str
    asked: Subscription
    from_ms: int
    to_ms: int


@dataclass(slots=True)
class SubscriptionHistory:
    """All subscriptions that ever were.

    Attributes:
        subscriptions: By endpoint, in order of their versions.
        lanes: From where on sources know them.
        changes: How often something else has changed that answers rest on.
        pruned: Version at which needless things were forgotten the last time.
        queues: What the topology says of queues.
        past: Subscriptions that have ended and are not told yet.
        filters: All filters that claims name.
        once_shared: Queues of which one member got each message, where nothing else is known of
            that any more: what waits there may be moved years later.
    """

    subscriptions: dict[EndpointKey, list[JudgedSubscription]] = field(default_factory=dict)
    lanes: LaneKnowledge = field(default_factory=LaneKnowledge)
    changes: int = 0
    pruned: int = 0
    queues: QueueRules = field(default_factory=QueueRules)
    past: list[EndedSubscription] = field(default_factory=list)
    filters: Filters = field(default_factory=Filters)
    once_shared: dict[EndpointKey, None] = field(default_factory=dict)
    _newest: dict[EndpointKey, dict[str, JudgedSubscription]] = field(
        init=False, compare=False, default_factory=dict
    )  # by filter: no other one is open; of endpoints that were looked up
    _versions: list[tuple[int, float]] = field(
        init=False, compare=False, default_factory=list
    )  # by which was pruned in the last seconds, with the times by the clock of this process

    @property
    def version(self) -> int:
        """Rises with every change, so that answers can be kept until then."""
        return self.changes + self.lanes.changes

    def subscribe(
        self,
        endpoint: EndpointKey,
        filter_: str,
        asked: Subscription,
        offset: int,
        at_ms: int = 0,
    ) -> None:
        """Take a subscription record; one that repeats what is there already changes nothing.

        Of those that do not agree on what their endpoint is, nodes refuse all but the ones that
        promise most. What a refused one selects may come, for the others may have ended since.
        Spec: K13.
        """
        subscription = judged_subscription(
            self.queues, (endpoint.node, endpoint.name), filter_, asked, offset
        )
        subscription.since_ms = at_ms
        self.filters.know([filter_])
        known = self._open(endpoint, filter_)
        is_older = known is not None and offset < known.added  # of a topic that was recreated
        if known is not None and subscription.repeats(known) and not is_older:
            return
        if known is not None:
            self._take_off(endpoint, known, offset, at_ms)
        self._add(endpoint, subscription)
        self._refuse(endpoint, offset, subscription)
        self.changes += 1

    def _refuse(
        self, endpoint: EndpointKey, offset: int, newest: JudgedSubscription | None = None
    ) -> None:
        """Judge again which subscriptions of an endpoint are refused, from a version on.

        All are judged only where what is in force has ended, or promises less than the newest: an
        endpoint may have as many filters as a node takes.
        """
        subscriptions = self.subscriptions[endpoint]
        in_force = next(
            (
                one
                for one in subscriptions
                if one.removed is None and not one.is_refused and one is not newest
            ),
            None,
        )
        if in_force is not None and (newest is None or newest.standing >= in_force.standing):
            if newest is not None and newest.standing != in_force.standing:
                newest.is_refused, newest.is_certified = True, False
            return
        for one in self._to_turn(endpoint):
            is_refused, again = not one.is_refused, one
            if one.added != offset:
                # Its record stands as before; what follows from it is another thing from here on.
                one.removed, one.ended = offset, self.version
                place = (endpoint.node, endpoint.name)
                again = judged_subscription(self.queues, place, one.filter, one.asked, offset)
                again.since_ms = one.since_ms
                self._add(endpoint, again)
            again.is_refused = is_refused
            again.is_certified = again.is_certified and not is_refused

    def follow(self, rules: QueueRules, *, is_change: bool) -> Sequence[EndpointKey]:
        """Take what another topology says of queues; return those that lose what was promised.

        Args:
            rules: That.
            is_change: Whether the mesh has run by the former; else this one is what counts.
        """
        before, self.queues = self.queues, rules
        self._newest.clear()
        lost: dict[EndpointKey, None] = {}
        for endpoint, subscriptions in self.subscriptions.items():
            for number, subscription in enumerate(subscriptions):
                now = judged_by(subscription, (endpoint.node, endpoint.name), before, rules)
                if now is not subscription:
                    unsure = replace(now, is_certified=False, is_unsure=True)
                    subscriptions[number] = unsure if is_change else now
                    self.changes += 1
                    if is_change and subscription.is_certified:
                        lost[endpoint] = None
            if self._refuse_by_topology(endpoint, is_change=is_change):
                lost[endpoint] = None
        return list(lost)

    def _to_turn(self, endpoint: EndpointKey) -> Sequence[JudgedSubscription]:
        """Return the open subscriptions of an endpoint that are refused wrongly, or not refused."""
        open_ = [one for one in self.subscriptions[endpoint] if one.removed is None]
        first = min((one.standing for one in open_), default=None)
        return [one for one in open_ if (one.standing != first) is not one.is_refused]

    def _refuse_by_topology(self, endpoint: EndpointKey, *, is_change: bool) -> bool:
        """Judge again which subscriptions are refused; return whether one loses what it was owed.

        The policies that a topology declares decide as well. No version of `clients` says from
        where on nodes go by it.
        """
        loses = False
        for one in self._to_turn(endpoint):
            is_refused = not one.is_refused
            loses |= is_change and one.is_certified
            place = (endpoint.node, endpoint.name)
            judged = judged_subscription(self.queues, place, one.filter, one.asked, one.added)
            one.is_refused, one.is_unsure = is_refused, one.is_unsure or is_change
            one.is_certified = judged.is_certified and not (is_refused or is_change)
            self.changes += 1
        return loses

    def doubt(
        self, uuids: Mapping[str, str], rules_between: RulesBetween
    ) -> Mapping[EndpointKey, bool]:
        """Doubt what lanes knew by a topology that may share a queue out otherwise; return those.

        Whoever reads late has read of a change before it reads who had subscribed by then, and
        `mesh.config` soon tells of the newest topology alone.

        Args:
            uuids: Node -> uuid.
            rules_between: What topologies say of queues.

        Returns:
            Each queue that loses what was promised, with whether one of them is known to share it
            out otherwise: else it is one that nobody knows any more.
        """
        lost: dict[EndpointKey, bool] = {}
        for endpoint, subscriptions in self.subscriptions.items():
            doubtful = [one for one in subscriptions if one.is_shared_out and not one.is_unsure]
            if not doubtful:
                continue
            uuid = uuids.get(endpoint.node)
            cuts = self.lanes.told_of(uuid)
            for one in doubtful:
                home = self.queues.home_of(endpoint.name, one.policy)
                judged = one.policy or None, home
                told = [
                    None if rules is None else rules.place_of(*endpoint, one.asked)
                    for known in cuts.items()
                    for rules in _rules_known_by(one, *known, rules_between)
                ]
                is_other = any(place not in (None, judged) for place in told)
                if is_other or None in told:
                    if one.is_certified and one.removed is None:
                        lost[endpoint] = lost.get(endpoint, False) or is_other
                    one.is_certified, one.is_unsure = False, True
                    self.changes += 1
        return lost

    def unsubscribe(self, endpoint: EndpointKey, filter_: str, offset: int, at_ms: int = 0) -> None:
        """Take a tombstone: the subscription ends with this version.

        Of one that was compacted before it was read nothing else is known: it asked for something,
        and nothing was owed to it.
        """
        known = self._open(endpoint, filter_)
        if known is not None:
            self._take_off(endpoint, known, offset, at_ms)
            self._refuse(endpoint, offset)
        elif filter_ not in self._newest_of(endpoint):
            gone = JudgedSubscription(filter_, is_certified=False, added=offset, removed=offset)
            gone.ended = self.version
            self.filters.know([filter_])
            self._add(endpoint, gone)
        else:
            return
        self.changes += 1

    def _take_off(
        self, endpoint: EndpointKey, subscription: JudgedSubscription, offset: int, at_ms: int
    ) -> None:
        subscription.removed, subscription.ended = offset, self.version
        self.past.append(
            EndedSubscription(
                endpoint, subscription.filter, subscription.asked, subscription.since_ms, at_ms
            )
        )

    def is_first(self, endpoint: EndpointKey, filter_: str, asked: Subscription) -> bool:
        """Return whether a subscription would only add to what is known of an endpoint.

        Nothing is known of its filter, and the endpoint is known as what it says, if at all.
        """
        known = self._newest_of(endpoint)
        return filter_ not in known and all(
            (one.asked.kind, one.asked.message_class) == (asked.kind, asked.message_class)
            for one in known.values()
        )

    def widen(self) -> None:
        """Take that there are more shapes of wildcards than nodes look up, until these are left.

        Channels may get more than they ask for. Of the queues of one node only so many shapes
        count, and which these are is its own business. Spec: DESIGN 3.
        """
        wild = [
            (endpoint.node, one, shape)
            for endpoint, subscriptions in self.subscriptions.items()
            for one in subscriptions
            if one.removed is None and (shape := Shape.of(one.filter)) != LITERAL
        ]
        of_queues: dict[str, dict[Shape, None]] = {}
        for node, one, shape in wild:
            if one.asked.kind is EndpointKind.QUEUE:
                of_queues.setdefault(node, {})[shape] = None
        for node, one, _ in wild:
            is_queue = one.asked.kind is EndpointKind.QUEUE
            before = one.is_wide, one.is_surplus
            one.is_wide |= not is_queue
            one.is_surplus |= is_queue and len(of_queues[node]) > SHAPES_MAX
            self.changes += before != (one.is_wide, one.is_surplus)

    def _open(self, endpoint: EndpointKey, filter_: str) -> JudgedSubscription | None:
        newest = self._newest_of(endpoint).get(filter_)
        return newest if newest is not None and newest.removed is None else None

    def _newest_of(self, endpoint: EndpointKey) -> dict[str, JudgedSubscription]:
        if endpoint not in self._newest or endpoint not in self.subscriptions:
            several = self.subscriptions.get(endpoint, ())
            self._newest[endpoint] = {one.filter: one for one in several}
        return self._newest[endpoint]

    def _add(self, endpoint: EndpointKey, subscription: JudgedSubscription) -> None:
        self._newest_of(endpoint)[subscription.filter] = subscription
        self.subscriptions.setdefault(endpoint, []).append(subscription)

    def forget_clients(self, node: str, uuid: str, at_ms: int = 0) -> None:
        """End what was asked for in a `clients` topic that was recreated; versions begin again.

        What is not asked for again its node ends as well. Nothing is owed by versions of before,
        and what lanes had told of those counts no more.

        Args:
            node: Whose topic it is.
            uuid: Of the node; empty if it has told none.
            at_ms: When, for people.
        """
        self.lanes.forget_versions(uuid)
        for endpoint in [one for one in self.subscriptions if one.node == node]:
            self._newest.pop(endpoint, None)
            for one in self.subscriptions[endpoint]:
                one.is_certified = False
                if one.removed is None:
                    self._take_off(endpoint, one, one.added + 1, at_ms)
        self.changes += 1

    def asked_at(self, node: str) -> Iterator[str]:
        """Yield the filters that endpoints of a node ask for, some more than once."""
        for endpoint, subscriptions in self.subscriptions.items():
            if endpoint.node == node:
                yield from (one.filter for one in subscriptions if one.removed is None)

    def may_move(self, member: EndpointKey) -> bool:
        """Return whether messages may be moved to an endpoint, or from a node if its name is empty.

        All that a channel has are its own; so are those of a queue whose members get a copy each.
        """

        def is_meant(endpoint: EndpointKey) -> bool:
            return endpoint.node == member.node and member.name in ("", endpoint.name)

        return any(map(is_meant, self.once_shared)) or any(
            subscription.may_move
            for endpoint, asked in self.subscriptions.items()
            if is_meant(endpoint)
            for subscription in asked
        )

    def known_from(
        self, endpoint: EndpointKey, uuid: str, place: TopicPartition, era: int
    ) -> int | None:
        """Return from where on a source's lane knows all that an endpoint asks for, if it does.

        Args:
            endpoint: Who asks.
            uuid: Of its node.
            place: The source partition.
            era: What the ledger told by a former topology does not count.
        """
        asked = self.subscriptions.get(endpoint, ())
        newest = max((one.added for one in asked if one.removed is None), default=-1)
        return 0 if newest < 0 else self.lanes.position(place, uuid, newest, era)

    def certified(self) -> Iterator[EndpointKey]:
        """Yield the endpoints for which certificates are issued, sorted."""
        for endpoint, subscriptions in sorted(self.subscriptions.items()):
            if any(one.is_certified and one.policy in EACH for one in subscriptions):
                yield endpoint

    def shared(self) -> Mapping[EndpointKey, Sequence[EndpointKey]]:
        """Return the queues of which one member gets a message, each with its members, sorted."""
        found: dict[EndpointKey, list[EndpointKey]] = {}
        for endpoint, subscriptions in sorted(self.subscriptions.items()):
            if any(one.is_certified and one.policy in SHARED for one in subscriptions):
                together = EndpointKey(EVERYWHERE, endpoint.name.casefold())
                found.setdefault(together, []).append(endpoint)
        return {
            together: members
            for together, members in found.items()
            if not any(one.is_unsure and one.removed is None for one in self.of_queue(together))
        }

    def sharing(self, endpoint: EndpointKey) -> Iterator[EndpointKey]:
        """Yield the members of an endpoint's queue, if one of them gets each message."""
        asked = self.subscriptions.get(endpoint, ())
        if any(one.policy in SHARED for one in asked):
            name = endpoint.name.casefold()
            yield from (one for one in self.subscriptions if one.name.casefold() == name)

    def others_of(self, endpoint: EndpointKey) -> Iterator[EndpointKey]:
        """Yield the endpoints from which messages may be moved to another of the same name."""
        if self.may_move(endpoint):
            name = endpoint.name.casefold()
            for one in self.subscriptions:
                if one != endpoint and one.name.casefold() == name:
                    yield one

    def of_queue(self, together: EndpointKey) -> Iterator[JudgedSubscription]:
        """Yield the subscriptions of all members of a queue, ended ones included."""
        for endpoint, subscriptions in self.subscriptions.items():
            if endpoint.name.casefold() == together.name:
                yield from subscriptions

    def lacked(self, endpoint: EndpointKey, place: TopicPartition, last: int) -> None:
        """Take that something had not come to an endpoint when every hop had passed all of it.

        Args:
            endpoint: The endpoint, or all members of a queue.
            place: The source partition.
            last: Offset up to which was looked.
        """
        for member, subscriptions in self.subscriptions.items():
            is_one = member == endpoint
            if is_one or EndpointKey(EVERYWHERE, member.name.casefold()) == endpoint:
                for subscription in subscriptions:
                    if subscription.removed is None:
                        known = subscription.lacked.get(place, -1)
                        subscription.lacked[place] = max(last, known)

    @property
    def is_full(self) -> bool:
        """Whether enough has changed that needless things are to be forgotten."""
        return self.version - self.pruned >= PRUNE_EVERY

    def prune(
        self,
        uuids: Mapping[str, str],
        eras_of: ErasOf = lambda _: (OF_THE_FILE,),
        claimed: ClaimedFilters = lambda *_: (),
        read_of: Callable[[str], float] = lambda _: inf,
        now_s: float = 0.0,
    ) -> None:
        """Forget what no judgement will ask for any more, once enough has gathered.

        Of the subscriptions that have ended those are kept that select something that is not
        certified for good, those that have just ended, and of an endpoint that has others the
        newest; of the cuts those that answer for a subscription, and the newest.

        Args:
            uuids: Node -> uuid.
            eras_of: By which topologies each source partition was routed.
            claimed: Which filters matter to what is not certified for good.
            read_of: Uuid -> offset up to which the `clients` topic of its node has been read.
            now_s: The auditor's clock, in seconds.
        """
        if not self.is_full:
            return
        self.pruned, old = self.version, self._old_version(now_s)
        versions: dict[str, dict[int, None]] = {}
        for endpoint in list(self.subscriptions):
            self._forget_ended(endpoint, claimed, old)
            asked = versions.setdefault(uuids.get(endpoint.node, ""), {})
            for subscription in self.subscriptions.get(endpoint, ()):
                asked[subscription.added] = None
                if subscription.removed is not None:
                    asked[subscription.removed] = None
        self.lanes.keep(versions, eras_of, read_of)

    def _old_version(self, now_s: float) -> int:
        """Return below which version nothing has ended just now."""
        self._versions.append((self.version, now_s))
        old = [one for one in self._versions if now_s - one[1] >= RECENT_S]
        self._versions = [*old[-1:], *self._versions[len(old) :]]
        return old[-1][0] if old else 0

    def _forget_ended(self, endpoint: EndpointKey, claimed: ClaimedFilters, old: int) -> None:
        self._newest.pop(endpoint, None)
        subscriptions = self.subscriptions[endpoint]
        ended = [one for one in subscriptions if one.removed is not None]
        spared = ENDED_MAX if len(ended) < len(subscriptions) else 0
        doomed = [one for one in ended[: max(0, len(ended) - spared)] if one.ended < old]
        kept = claimed(endpoint, {one.filter for one in doomed}) if doomed else ()
        forgotten = [one for one in doomed if one.filter not in kept]
        if any(one.is_shared_out and one.may_move for one in forgotten):
            self.once_shared[endpoint] = None
        gone = {*map(id, forgotten)}
        self.subscriptions[endpoint] = [one for one in subscriptions if id(one) not in gone]
        if not self.subscriptions[endpoint]:
            del self.subscriptions[endpoint]

    def ended_versions(self) -> Mapping[str, Sequence[int]]:
        """Return the versions with which subscriptions of each node have ended."""
        found: dict[str, dict[int, None]] = {}
        for endpoint, subscriptions in self.subscriptions.items():
            for one in subscriptions:
                if one.removed is not None:
                    found.setdefault(endpoint.node, {})[one.removed] = None
        return {node: tuple(versions) for node, versions in found.items()}

    def named(self) -> Iterator[str]:
        """Yield the filters of all subscriptions."""
        for subscriptions in self.subscriptions.values():
            for one in subscriptions:
                yield one.filter


def _rules_known_by(
    subscription: JudgedSubscription,
    place: TopicPartition,
    cuts: Sequence[KnownCut],
    rules_between: RulesBetween,
) -> Sequence[QueueRules | None]:
    """Return by which rules a source knew a subscription, None where nobody knows them."""
    number = first_knowing(cuts, subscription.added, OF_THE_FILE)
    if number == len(cuts):
        return ()
    removed = len(cuts)
    if subscription.removed is not None:
        removed = first_knowing(cuts, subscription.removed, OF_THE_FILE)
    last = cuts[removed].era if removed < len(cuts) else None
    return rules_between(place, cuts[number].era, last)
