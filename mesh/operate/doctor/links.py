"""Are the links up, and does what waits on them move? Spec: K24, K26, K32, DESIGN 3."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.control import is_address
from mesh.model.frames import MessageClass
from mesh.model.words import LinkWord
from mesh.operate.doctor.checks import SEE_KAFKA, Category, Check, Result, first_of, judged
from mesh.operate.doctor.examination import Examination
from mesh.operate.links.flows import LinkFlow, wanted_over
from mesh.operate.links.gates import REMEDY, is_shut
from mesh.operate.status import link_state

UNHEARD = (LinkWord.DOWN, LinkWord.UNKNOWN)
"""How an end may see a link that the other end has disabled."""

CARRIES = (LinkWord.UP, LinkWord.FULL)
"""How both ends see a healthy link; a full one is reported by the delivery checks."""


def check_links(at: Examination) -> Iterator[Check]:
    """Yield one check per node, that it hears every other one by a single way, and two per link.

    Whether the link is up, and whether what waits on it moves.
    """
    yield from check_ways(at)
    before, after = at.moments()
    flows = {(flow.source, flow.target): flow for flow in after.flows}
    earlier = {(flow.source, flow.target): flow for flow in before.flows}
    for link in at.topology.links:
        faults = []
        is_away = any(map(at.view.is_unreachable, link.ends))
        disabled = [
            f"disabled by operators at {node}" + (f" ({why.why})" if why.why else "")
            for node in link.ends
            if (why := at.view.nodes[node].disabled.get(link.other(node))) is not None
        ]
        for node in link.ends:
            other = link.other(node)
            state = link_state(at.view.nodes[node], other) if at.beats[node] else LinkWord.UNKNOWN
            if state == LinkWord.DISABLED or (disabled and state in UNHEARD):
                continue
            if state not in CARRIES:
                reason = _reason(at, node, other) if at.beats[node] else ""
                faults.append(f"{node} sees it {state}" + (f" ({reason})" if reason else ""))
        yield judged(
            Category.LINKS,
            f"link {link} is up at both ends",
            ", ".join(faults),
            SEE_KAFKA
            if is_away
            else REMEDY
            if is_shut(at.view, *link.ends)
            else "each end must reach the other's Kafka cluster; see the checks of nodes",
            note=", ".join(disabled),
        )
        if is_away or disabled:
            continue  # operators want what waits there to wait
        pairs = [pair for pair in (link.ends, link.ends[::-1]) if pair in flows]
        yield _moving(at, str(link), [(earlier[pair], flows[pair]) for pair in pairs])


def _reason(at: Examination, node: str, other: str) -> str:
    links = at.view.nodes[node].links
    return next((link.reason for link in links if link.neighbour == other), "")


def _moving(at: Examination, link: str, flows: list[tuple[LinkFlow, LinkFlow]]) -> Check:
    stuck: list[LinkFlow] = []
    notes: list[str] = []
    figures: dict[str, int] = {}
    for before, after in flows:
        way = f"{after.source}->{after.target}"
        if after.backlog_frames is None:
            notes.append(f"{way} unknown")
            continue
        figures[f"{way} frames"] = after.backlog_frames
        if after.backlog_messages is not None:
            figures[f"{way} messages"] = after.backlog_messages
        if not after.backlog_frames:
            continue
        if before.backlog_frames and not _has_moved(at, after):
            stuck.append(after)
        else:
            notes.append(f"{way} moves: {_amount(after)} wait")
    is_read = any(at.beats[flow.target] for flow in stuck)
    return judged(
        Category.LINKS,
        f"what waits on link {link} moves",
        "; ".join(_standing(at, flow) for flow in stuck),
        f"look at the log of {', '.join(flow.target for flow in stuck)} and at the checks of "
        "transactions and delivery; nothing guaranteed is lost while it waits",
        result=Result.FAILED if is_read else Result.WARNING,
        note="; ".join(notes),
        figures=figures,
    )


def _has_moved(at: Examination, flow: LinkFlow) -> bool:
    """Return whether the reader has passed anything of the outboxes between the two looks."""
    outboxes = {at.topology.names.outbox(flow.source, flow.target, one) for one in MessageClass}
    before, after = (
        {
            place: offset
            for place, offset in moment.positions[flow.target].items()
            if place.topic in outboxes
        }
        for moment in at.moments()
    )
    return before != after


def _standing(at: Examination, flow: LinkFlow) -> str:
    reader = flow.target if at.beats[flow.target] else f"{flow.target}, which sends no heartbeats"
    return f"{flow.source}->{flow.target} stands still: {_amount(flow)} wait for {reader}"


def _amount(flow: LinkFlow) -> str:
    messages = "" if flow.backlog_messages is None else f" ({flow.backlog_messages} messages)"
    return f"{flow.backlog_frames} frames{messages}"


def check_ways(at: Examination) -> Iterator[Check]:
    """Yield one check per node: no address reaches it over two links, nor its own over any.

    The nodes judge that themselves, by their links; this is a second opinion, by interest.
    """
    names = at.view.node_addresses()
    for node in at.topology.nodes:
        if not at.beats[node]:
            continue
        faults = []
        heard_by = {address: node for address, name in names.items() if name == node}
        for link in at.topology.links_of(node):
            other = link.other(node)
            if link_state(at.view.nodes[node], other) != LinkWord.UP:
                continue
            offered = {
                filter_: None
                for _, filter_, _ in wanted_over(at.view, other, node, link.zone, addresses=True)
                if is_address(filter_)
            }
            for address in offered:
                if address in heard_by:
                    name = names.get(address, address)
                    faults.append(f"{name} by {heard_by[address]} and by {other}")
                heard_by.setdefault(address, other)
        yield judged(
            Category.LINKS,
            f"{node} hears of each node over one link only",
            first_of(faults),
            REMEDY,
        )
