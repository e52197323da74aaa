"""Who gets a message, which way, and why nobody else does: answered by the nodes' own core.

For every node a learner is fed what the control topics show, exactly as a worker would be, and
the message is walked from node to node by the routers' answers. Spec: DESIGN 3, 4.2, 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mesh.core.conditions import first_refusing
from mesh.core.forwarding import crosses_external
from mesh.core.interest_controls import controls_barring
from mesh.core.joins import row_over
from mesh.core.local_links import LocalLink, local_links
from mesh.core.queues import Nearness
from mesh.core.routes import PUBLISHED_HERE, Arrival, Route
from mesh.core.routing import Router
from mesh.core.walks import walks_from
from mesh.core.ways import DeadEnd, dead_ends
from mesh.model.control import Interest, Mark, Scope, Subscription
from mesh.model.frames import MessageClass
from mesh.model.joins import NO_JOINS
from mesh.model.reasons import FilterCause, NoWay, Reason, Why, sentence
from mesh.model.subject import matches
from mesh.model.topology import Topology
from mesh.node.learner import Learner
from mesh.node.link_disabling import disable
from mesh.node.queue_choices import queue_choices
from mesh.node.queues import OwnQueues

NO_HEADERS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownNode:
    """What the control topics show of one node.

    Attributes:
        uuid: Its identity; empty before its first start.
        subscriptions: What its clients requested, oldest first.
        offers: Entries that it offers per scope.
        marks: Newest mark per scope.
        down: Neighbours that it considers down.
        disabled: Neighbours whose link is disabled at its end.
        is_up: Whether it serves now.
    """

    uuid: str = ""
    subscriptions: Mapping[tuple[str, str], Subscription] = field(default_factory=dict)
    offers: Mapping[Scope, Mapping[str, Interest]] = field(default_factory=dict)
    marks: Mapping[Scope, Mark] = field(default_factory=dict)
    down: Sequence[str] = ()
    disabled: Sequence[str] = ()
    is_up: bool = True


@dataclass(frozen=True, slots=True)
class Reached:
    """A node that the message reaches.

    Attributes:
        endpoints: Endpoints of it that get the message; none if it only passes through.
        path: Nodes visited, origin first, this one last.
        waits: Whether the message waits in an outbox before it: it is down, or a link on the way
            is disabled.
        disabled: Whether that is so because of such a link.
    """

    node: str
    endpoints: tuple[str, ...]
    path: tuple[str, ...]
    waits: bool
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class CrossedLink:
    """A link that the message crosses."""

    source: str
    target: str
    zone: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A link that a node does not send the message over, with the one reason.

    Attributes:
        cause: What lies behind the reason, where that says more.
        text: Why, in a sentence.
        selector: The condition that the message does not meet, if that is why.
    """

    node: str
    neighbour: str
    reason: Reason
    cause: FilterCause | NoWay | None = None
    text: str = ""
    selector: str = ""


@dataclass(frozen=True, slots=True)
class NotReached:
    """A node that the message does not reach.

    Attributes:
        reason: Of the link where the way to it ends, or `no_way`.
        link: That link as (from, to); None if there is none.
        wants: Whether an endpoint there subscribes to it.
        cause: What lies behind the reason, where that says more: of `no_way`, the rule.
        text: Why, in a sentence.
    """

    node: str
    reason: Reason | NoWay
    link: tuple[str, str] | None
    wants: bool
    cause: Why | None = None
    text: str = ""


@dataclass(slots=True)
class Explanation:
    """Where one message goes.

    Attributes:
        reached: Nodes that it comes to, in order of visit, the source first.
        crossed: Links that it crosses.
        refused: Every other link of the reached nodes.
        not_reached: Every other node.
        queues: For each queue of which not all get a copy, who gets it and why, for people.
    """

    subject: str
    source: str
    message_class: MessageClass
    reached: list[Reached] = field(default_factory=list)
    crossed: list[CrossedLink] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)
    not_reached: list[NotReached] = field(default_factory=list)
    queues: list[str] = field(default_factory=list)


def explain(
    topology: Topology,
    known: Mapping[str, KnownNode],
    subject: str,
    source: str,
    message_class: MessageClass,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Explanation:
    """Walk a message through the mesh as it is now.

    Args:
        topology: The mesh.
        known: Every node of it.
        subject: A valid subject.
        source: Where the message is published.
        message_class: Its class.
        headers: The client's own: selectors may depend on them.

    Returns:
        Whom it reaches and by which paths, the links that it crosses, and of each link and node
        that it does not come to the one reason.
    """
    raw = [(name, text.encode()) for name, text in headers.items()]
    routers = {node: router_of(topology, node, known) for node in topology.nodes}
    explanation = Explanation(subject, source, message_class)
    edge: list[tuple[tuple[str, ...], Arrival, str]] = [((source,), PUBLISHED_HERE, subject)]
    explanation.queues += queue_choices(routers[source], subject, message_class)
    while edge:
        further: list[tuple[tuple[str, ...], Arrival, str]] = []
        for path, arrival, named in edge:
            node = path[-1]
            route = routers[node].route(named, arrival, message_class)
            if route.asks:
                route = routers[node].selected(route, named, raw)
            addressed = dict(route.addressed)
            explanation.reached.append(_reached(known, path, route))
            explanation.refused += [
                _refusal(topology, _link_to(routers[node], to), explanation, node, reason, headers)
                for to, reason in route.refused
            ]
            for link in _left_on(routers[node], route):
                explanation.crossed.append(CrossedLink(node, link.neighbour, link.zone_out))
                if link.neighbour in path:
                    continue  # a loop, which only an illegal topology has; refused on arrival
                mark = arrival.crossed_external or crosses_external(link.kind)
                row = NO_JOINS if link.out is None else row_over(arrival.row, link.out.hops)
                behind = Arrival(link.zone, node, mark, row or NO_JOINS)
                onward = addressed.get(link.neighbour, named)
                further.append(((*path, link.neighbour), behind, onward))
        edge = further
    explanation.not_reached += _not_reached(topology, known, routers, explanation)
    return explanation


def _refusal(
    topology: Topology,
    link: LocalLink,
    explanation: Explanation,
    node: str,
    reason: Reason,
    headers: Mapping[str, str],
) -> Refusal:
    cause: FilterCause | NoWay | None = None
    selector = ""
    if reason is Reason.FILTER:
        failed = first_refusing(link.when, explanation.subject, headers)
        cause = _cause(link, explanation) or FilterCause.SELECTOR
        if cause is FilterCause.SELECTOR and failed is not None:
            selector = failed.text
    elif not link.sends:
        cause = NoWay.ONE_WAY
    text = _text(topology, link, explanation, node, cause or reason, selector)
    return Refusal(node, link.neighbour, reason, cause, text, selector)


def _cause(link: LocalLink, explanation: Explanation) -> FilterCause | None:
    """Return what in the topology keeps the message off a link, its headers apart, or None."""
    against = link.cause_against(explanation.subject, explanation.message_class)
    return against or link.cause_unselected(explanation.subject)


def _text(
    topology: Topology,
    link: LocalLink,
    explanation: Explanation,
    node: str,
    why: Why,
    selector: str = "",
) -> str:
    """Return why a message does not leave a node on a link, in a sentence."""
    detail, owner = selector, ""
    if why is FilterCause.JOIN_FILTER and link.out is not None:
        detail = link.out.filter
    if why is FilterCause.LOCAL:
        control = next(controls_barring(topology, (node, link.neighbour), explanation.subject))
        detail, owner = str(control), control.node
    return sentence(
        why,
        source=node,
        target=link.neighbour,
        zone=link.zone,
        kind=link.kind,
        detail=detail,
        node=owner,
    )


def _reached(known: Mapping[str, KnownNode], path: tuple[str, ...], route: Route) -> Reached:
    disabled = any(
        other in known[one].disabled or one in known[other].disabled
        for one, other in pairwise(path)
    )
    return Reached(path[-1], route.endpoints, path, disabled or not known[path[-1]].is_up, disabled)


def router_of(topology: Topology, node: str, known: Mapping[str, KnownNode]) -> Router:
    """Return a router that knows what the node's own would know."""
    links = local_links(topology, node)
    own = known[node]
    router = Router(links, near=Nearness(topology, node))
    queues = OwnQueues.at(node, topology)
    learner = Learner(node, own.uuid or f"unknown-{node}", links, router, queues=queues)
    for number, ((endpoint, filter_), subscription) in enumerate(own.subscriptions.items()):
        for _ in learner.clients.subscription_read(number, endpoint, filter_, subscription, 0):
            pass
    for link in links:
        _learn(learner, link.neighbour, known[link.neighbour])
        if link.neighbour in own.disabled:
            disable(learner.neighbours[link.neighbour], learner.router)
        if link.neighbour in own.down:
            learner.hearing.take_for_down(link.neighbour)
    learner.begin_round()
    return learner.router


def _learn(learner: Learner, neighbour: str, known: KnownNode) -> None:
    for scope, mark in known.marks.items():
        for filter_, interest in known.offers.get(scope, {}).items():
            learner.hearing.advert_read(neighbour, scope, filter_, interest)
        learner.hearing.mark_read(neighbour, scope, mark)


def _link_to(router: Router, neighbour: str) -> LocalLink:
    return next(link for link in router.links if link.neighbour == neighbour)


def _left_on(router: Router, route: Route) -> Iterator[LocalLink]:
    for link in router.links:
        if link.neighbour in route.neighbours:
            yield link


def _not_reached(
    topology: Topology,
    known: Mapping[str, KnownNode],
    routers: Mapping[str, Router],
    explanation: Explanation,
) -> Iterator[NotReached]:
    reached = {one.node: None for one in explanation.reached}
    refused = {(one.node, one.neighbour): one for one in explanation.refused}
    walks = walks_from(topology, explanation.source)
    ends = dead_ends(topology, explanation.source)
    for node in sorted(topology.nodes):
        if node in reached:
            continue
        own = OwnQueues.at(node, topology)
        interests = [
            interest
            for (endpoint, filter_), interest in known[node].subscriptions.items()
            if matches(filter_, explanation.subject) and own.wants_every(endpoint, interest)
        ]
        if node in ends:
            yield _at_dead_end(node, ends[node], wants=bool(interests))
            continue
        steps = list(pairwise(walks[node][0].nodes))
        links = [_link_to(routers[here], there) for here, there in steps]
        barred = _barred(topology, zip(steps, links, strict=True), explanation)
        if barred is not None:
            step, cause, text = barred
            yield NotReached(node, Reason.FILTER, step, bool(interests), cause, text)
        else:
            at = next(refused[step] for step in steps if step in refused)
            yield _where_refused(node, at, interests, is_up=known[node].is_up)


def _barred(
    topology: Topology, steps: Iterable[tuple[tuple[str, str], LocalLink]], explanation: Explanation
) -> tuple[tuple[str, str], FilterCause, str] | None:
    """Return the first step of a walk that the topology bars, even one that is never reached.

    Interest ignores conditions: where one refuses, the message has arrived.
    """
    for step, link in steps:
        cause = _cause(link, explanation)
        if cause is not None and cause is not FilterCause.SELECTOR:
            return step, cause, _text(topology, link, explanation, step[0], cause)
    return None


def _at_dead_end(node: str, end: DeadEnd, *, wants: bool) -> NotReached:
    return NotReached(node, NoWay.NO_WAY, end.step, wants, end.reason, end.text)


def _where_refused(
    node: str, at: Refusal, interests: Sequence[Subscription], *, is_up: bool
) -> NotReached:
    """Return why a node is not reached that has no other reason: its way is refused.

    Its interest may not have travelled that far yet, has ended with the node, or does not travel
    at all.
    """
    reason, text = at.reason, at.text
    if interests and reason is Reason.NO_INTEREST:
        if all(interest.noexport for interest in interests):
            text = f"what wants it at {node} is noexport, so it attracts nothing"
        elif not is_up and all(one.message_class is MessageClass.DIRECT for one in interests):
            reason = Reason.NODE_DOWN
            text = f"{node} is down, and nothing waits for its direct endpoints"
        else:
            reason, text = Reason.NOT_RESYNCED, f"what {node} wants is not known there yet"
    return NotReached(node, reason, (at.node, at.neighbour), bool(interests), at.cause, text)
