"""Where one message goes from this node: forwarding table and interest, joined and remembered.

Spec: DESIGN 3, lab.md 2 (`not_forwarded`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mesh.core.conditions import (
    first_refusing,
    header_texts,
    needs_headers,
)
from mesh.core.forwarding import may_join, may_leave
from mesh.core.interest import InterestTable, Members, union
from mesh.core.local_links import Causes, LocalLink
from mesh.core.matcher import Matched
from mesh.core.queues import Nearness, choose, chosen_locally
from mesh.core.routes import (
    ALIKE_MAX,
    PUBLISHED_HERE,
    ROUTES_MAX,
    Alike,
    Arrival,
    Memo,
    Route,
    RouteKey,
    RouteSum,
)
from mesh.model.control import Ownership
from mesh.model.frames import MessageClass
from mesh.model.link_modes import CONDUCT, Conduct, LinkMode
from mesh.model.queues import addressed, addresses_of, is_of_queue, member_of
from mesh.model.reasons import Reason
from mesh.model.record_headers import Headers
from mesh.model.subject import matches
from mesh.model.topology import ZoneKind


@dataclass(slots=True)
class Router:
    """Routes the messages of one node.

    Attributes:
        links: The node's links.
        table: Who wants what; call `forget` after changing it.
        modes: Relevant modes of its links, by neighbour; missing ones are up.
            Spec: DMR-10, K19, K27.
        draining: Neighbours whose links are shut, but from which earlier messages are still read.
        only: The only endpoint of this node that gets messages; None for all of them.
        near: Distances to members of queues; without it no queue gets anything.
    """

    links: Sequence[LocalLink]
    table: InterestTable = field(default_factory=InterestTable)
    modes: dict[str, LinkMode] = field(default_factory=dict)
    draining: dict[str, None] = field(default_factory=dict)
    only: str | None = None
    near: Nearness | None = None
    _unread: frozenset[str] = frozenset()
    _memos: dict[tuple[Arrival, MessageClass], Memo] = field(default_factory=dict)
    _routes: dict[RouteKey, Route] = field(default_factory=dict)
    _choosy: Sequence[LocalLink] | None = None

    def forget(self) -> None:
        """Drop every remembered route: the table or the mode of a link has changed."""
        self._memos.clear()
        self._routes.clear()
        self._choosy = None

    def conduct(self, neighbour: str) -> Conduct:
        """Return what this end of a link does."""
        return CONDUCT[self.modes.get(neighbour, LinkMode.UP)]

    def follow(self, neighbour: str, mode: LinkMode, *, drains: bool = False) -> None:
        """Switch to another mode of a link.

        Args:
            neighbour: Its other end.
            mode: What it is now.
            drains: Whether it was shut, and earlier messages are still read.
        """
        before = self.conduct(neighbour)
        self.modes[neighbour] = mode
        self.draining.pop(neighbour, None)
        if drains:
            self.draining[neighbour] = None
        if before != CONDUCT[mode]:
            self.forget()
        self._list_unread()

    def leave(self, neighbour: str) -> None:
        """Forget a link."""
        self.modes.pop(neighbour, None)
        self.draining.pop(neighbour, None)
        self._list_unread()

    def _list_unread(self) -> None:
        unread = [name for name, mode in self.modes.items() if not CONDUCT[mode].reads]
        self._unread = frozenset(name for name in unread if name not in self.draining)

    def unread(self) -> frozenset[str]:
        """Return the neighbours whose outboxes are not read. Spec: DMR-10, K27."""
        return self._unread

    def memo(self, arrival: Arrival, message_class: MessageClass) -> Memo:
        """Return the memo for one arrival and class; look there before calling `route`."""
        key = (arrival, message_class)
        memo = self._memos.get(key)
        if memo is None:
            memo = self._memos[key] = Memo()
        return memo

    def route(self, subject: str, arrival: Arrival, message_class: MessageClass) -> Route:
        """Return where a message goes, remembering the answer."""
        memo = self.memo(arrival, message_class)
        route = memo.get(subject)
        if route is None:
            route = self._decide(subject, arrival, message_class, memo.alike)
            memo.put(subject, route)
        return route

    def selected(self, route: Route, subject: str, headers: Headers) -> Route:
        """Return where one message of a route goes, by its headers. Spec: EMS-14.

        Copies for queue members pass even if the message itself does not.

        Args:
            route: One that asks for headers, as `route` returned it.
            subject: By which the message came here; addresses of queue members may stand with it.
            headers: The client's own.

        Returns:
            The same without the links whose selectors refuse it, each with `filter` as its reason.
            Equal answers are one object.
        """
        texts = header_texts(headers)
        [client] = [one for one in addresses_of(subject) if not is_of_queue(one)]
        failed = [
            link.neighbour
            for link in self.links
            if link.neighbour in route.asks and first_refusing(link.when, client, texts) is not None
        ]
        addresses = dict(route.addressed)
        for link in failed:
            if link in addresses:
                several = addresses_of(addresses[link])
                addresses[link] = addressed([one for one in several if is_of_queue(one)])
        barred = [name for name in failed if name not in addresses]
        reasons = dict(route.refused) | dict.fromkeys(barred, Reason.FILTER)
        refused = [(one.neighbour, reasons.get(one.neighbour)) for one in self.links]
        key = (
            tuple(name for name in route.neighbours if name not in barred),
            route.endpoints,
            tuple((name, reason) for name, reason in refused if reason is not None),
            (),
            tuple(sorted(addresses.items())),
            route.homeless,
            tuple(name for name in route.widened if name not in barred),
        )
        return self._shared(key)

    def allowed(self, arrival: Arrival, message_class: MessageClass) -> Sequence[str]:
        """Return every link that messages may leave on, whether or not somebody wants them."""
        return [
            link.neighbour
            for link in self.links
            if link.carries(message_class) and self._forbids(link, arrival) is None
        ]

    def _decide(
        self, subject: str, arrival: Arrival, message_class: MessageClass, alike: Alike
    ) -> Route:
        several = addresses_of(subject)
        if len(several) > 1:
            return self._on_the_way([(s, self.route(s, arrival, message_class)) for s in several])
        route = self._to_all(subject, arrival, message_class, alike)
        if self.near is None:
            return route
        if is_of_queue(subject):
            return self._to_member(route, subject, self.near.node)
        if not self.table.attractions:
            return route
        return self._to_queues(route, subject, arrival, message_class, self.near)

    def _on_the_way(self, routes: Sequence[tuple[str, Route]]) -> Route:
        """Return the route of a message for several members.

        An irrelevant address leads nowhere behind a link, so all of them continue together. The
        exception is a client's subject that a link refuses, or may refuse by headers: behind it
        that subject would be wanted all the same. Spec: EMS-14.
        """
        total = RouteSum.of(route for _, route in routes)
        refused = [
            link
            for subject, one in routes
            for link, reason in one.refused
            if reason is Reason.FILTER and not is_of_queue(subject)
        ]
        found = []
        for link in sorted({*total.asks, *refused} & total.neighbours.keys()):
            several = [subject for subject, one in routes if link in one.neighbours]
            if link in refused or several[1:]:
                found.append((link, addressed(several)))
        total.addressed = tuple(found)
        return self._shared(total.key())

    def _shared(self, key: RouteKey) -> Route:
        """Return the one object for equal routes.

        A route that names a client's subject is kept only by that subject's memo: no other subject
        has it, and clients may choose a new subject for each message.
        """
        route = self._routes.get(key)
        if route is not None:
            return route
        route = Route(*key)
        if route.names_a_client_subject:
            return route
        if len(self._routes) >= ROUTES_MAX:
            self.forget()
        self._routes[key] = route
        return route

    def _to_member(self, route: Route, subject: str, here: str) -> Route:
        """Return the route of a copy for a member, which may have left meanwhile."""
        queue, node = member_of(subject)
        if node != here or route.endpoints or self.only is not None:
            return route
        total = RouteSum.of([route])
        total.homeless += (queue,)
        return self._shared(total.key())

    def _to_queues(
        self,
        route: Route,
        subject: str,
        arrival: Arrival,
        message_class: MessageClass,
        near: Nearness,
    ) -> Route:
        """Return a route extended by the queues that do not all get a copy. Spec: DESIGN 6.

        Members are chosen at the publishing node; from then on a message follows their addresses. A
        message that arrived over a join is published again for local queues. Spec: UM-7.
        """
        is_published = arrival == PUBLISHED_HERE
        if not is_published and not arrival.row.joins:
            return route
        found = self.table.attractions.matching(subject)
        if not found:
            return route
        total = RouteSum.of([route])
        if not is_published:
            self._deliver_to(total, chosen_locally(found, near.node))
            return self._shared(total.key())
        chosen = choose(found, near, subject, message_class)
        self._deliver_to(total, chosen.here)
        by_link: dict[str, list[str]] = {}
        for member in chosen.members:
            way = self.route(member.address, arrival, message_class)
            total.add(way)
            for neighbour in way.neighbours:
                by_link.setdefault(neighbour, []).append(member.address)
        total.homeless += chosen.homeless
        total.addressed = tuple(
            (link, addressed([*([subject] if link in route.neighbours else []), *addresses]))
            for link, addresses in sorted(by_link.items())
        )
        return self._shared(total.key())

    def _deliver_to(self, total: RouteSum, queues: Sequence[str]) -> None:
        total.endpoints.update(dict.fromkeys(q for q in queues if self.only in (None, q)))

    def _to_all(
        self, subject: str, arrival: Arrival, message_class: MessageClass, alike: Alike
    ) -> Route:
        """Return the route to everybody who wants a subject.

        Members reached by surplus filters are looked up for each subject. Otherwise the route is
        the same for all subjects that the same filters match and links refuse alike: if each
        message has a subject of its own, those differ in a number and in nothing that matters here.
        """
        matched = filters, wider = self.table.matched(subject)
        if wider:
            return self._work_out(subject, arrival, message_class, matched, {})
        causes = {
            link.neighbour: link.causes(subject, message_class)
            for link in self._choosy_links()
            if self._forbids(link, arrival) is None
        }
        key = (*filters, *causes.values())
        route = alike.get(key)
        if route is None:
            if len(alike) >= ALIKE_MAX:
                alike.clear()
            route = self._work_out(subject, arrival, message_class, matched, causes)
            alike[key] = route
        return route

    def _choosy_links(self) -> Sequence[LocalLink]:
        if self._choosy is None:
            self._choosy = [link for link in self.links if link.is_choosy]
        return self._choosy

    def _work_out(
        self,
        subject: str,
        arrival: Arrival,
        message_class: MessageClass,
        matched: Matched,
        causes: Mapping[str, Causes],
    ) -> Route:
        """Compute that route from scratch; what some links refuse is known."""
        wanted, widened = self.table.wanted(subject, matched)
        neighbours: list[str] = []
        asks: list[str] = []
        refused: list[tuple[str, Reason]] = []
        for link in self.links:
            reason = self._forbids(link, arrival)
            if reason is None:
                known = causes.get(link.neighbour)
                found = link.causes(subject, message_class) if known is None else known
                reason = self._reason(link, found, wanted, arrival, message_class)
            if reason is None:
                neighbours.append(link.neighbour)
                if needs_headers(link.when, subject):
                    asks.append(link.neighbour)
            else:
                refused.append((link.neighbour, reason))
        endpoints: dict[str, None] = {}
        for filter_, members in wanted:
            for member, _ in members:
                if self.only not in (None, member.name) or not member.is_endpoint:
                    continue
                if matches(filter_, subject):
                    endpoints[member.name] = None
        wide = {member.name for member in widened}
        key = (
            tuple(neighbours),
            tuple(sorted(endpoints)),
            tuple(refused),
            tuple(asks),
            (),
            (),
            tuple(sorted(one for one in wide if one in neighbours or one in endpoints)),
        )
        return self._shared(key)

    def _reason(
        self,
        link: LocalLink,
        causes: Causes,
        wanted: Sequence[tuple[str, Members]],
        arrival: Arrival,
        message_class: MessageClass,
    ) -> Reason | None:
        """Return why a message does not leave on a link on which it may, or None if it does.

        If several reasons apply, it is the first in the order of `Reason`. Over a link of joins
        nobody needs to want it. Spec: UM-5, lab.md 2.
        """
        against, unselected = causes
        if against is not None or unselected is not None:
            return Reason.FILTER
        conduct, is_direct = self.conduct(link.neighbour), message_class is MessageClass.DIRECT
        reason = conduct.direct if is_direct else conduct.guaranteed
        if reason is not None or link.kind is ZoneKind.JOIN:
            return reason
        interest = union(
            interest
            for _, members in wanted
            for member, interest in members
            if member.name == link.neighbour
            and member.zone == link.zone
            and (member.ownership is Ownership.OWN or not arrival.crossed_external)
        )
        if interest is None:
            return Reason.NO_INTEREST
        if conduct.direct is not None and not interest.durable:
            return conduct.direct  # only direct endpoints want it, and nothing waits for them
        return Reason.NODE_DOWN if is_direct and not interest.live else None

    @staticmethod
    def _forbids(link: LocalLink, arrival: Arrival) -> Reason | None:
        """Return why nothing that arrived this way may leave on a link, or None if it may.

        It is the first in the order of `Reason`: the zone's rule, the number of joins crossed, then
        the link's age. One exception: a link whose joins all lead here says `NO_INTEREST` for all
        messages, including older ones.
        """
        reason = may_leave(
            link.kind,
            arrived_on_zone=arrival.zone == link.zone,
            arrived_on_link=arrival.neighbour == link.neighbour and arrival.zone == link.zone,
            crossed_external=arrival.crossed_external,
        )
        if reason is None and link.kind is ZoneKind.JOIN:
            reason = may_join(link.out, arrival.row)
        if reason is None and link.neighbour in arrival.barred:
            return Reason.EARLIER_TOPOLOGY
        return reason
