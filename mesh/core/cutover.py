"""Which nodes hold while one topology replaces another, and what has to drain first.

A node holds if one of its walks moves or ends, or if a link on it is made of anything else than
before (zone, kind, joins) or carries other messages (selectors, local subjects, direct-only zones):
everything it sent must have reached the end of the old walk, because after the switch nobody reads
there any more, or another way leads to the same node. All nodes hold if a queue is shared out
differently: messages sent to one member, or to all, would meet members that go by the other rule.

A walk that only begins needs no hold, because nothing was ever sent along it, unless it leads to a
node that sends over a link now and not afterwards: nodes switch one after the other, and whatever
comes there in between would continue along a way that neither topology has. Nor does it drain
anything: what is older than the topology in force never crosses the new link (ADR 33). Spec: K28.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mesh.core.interest_controls import filters_at
from mesh.core.lineage import Ends, links_made
from mesh.core.walks import Graph, Tree, Visit, tree_from
from mesh.model.interest_controls import ControlKind
from mesh.model.topology import Topology

Direction = tuple[str, str]
"""(sender, reader) of a link."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CutOver:
    """What a change requires of the nodes; everything is sorted.

    Attributes:
        holding: Sources that take nothing from their clients meanwhile.
        drain_waves: Directions of links that drain, wave after wave, each up to where it ends when
            its turn comes: first those that sources send over, then those after them, as deep as
            the longest walk that moves or ends, or leads to a node that a walk moves over.
        taking_part: Nodes without which the change cannot be made.
        arriving: Nodes that are new.
        leaving: Nodes that are no longer there afterwards.
        heard: Links over which both ends must hear each other before sources go on, so that
            operators may not disable them: all if queues are shared out differently.
        rerouted: Directions that the walk between some origin and node uses afterwards and not
            before. By then their sender must hear what the reader wants: otherwise it would find
            nobody who wants what was sent to it.
        remade: Directions, on walks that existed before, over links that are made of something
            else. Their ends forget what they have heard of each other: so the sender forgets what
            the reader wants, until it hears that again.
    """

    holding: Sequence[str] = ()
    drain_waves: Sequence[Sequence[Direction]] = ()
    taking_part: Sequence[str] = ()
    arriving: Sequence[str] = ()
    leaving: Sequence[str] = ()
    heard: Sequence[Direction] = ()
    rerouted: Sequence[Direction] = ()
    remade: Sequence[Direction] = ()


def cut_over(
    before: Topology,
    after: Topology,
    *,
    given_up: Collection[str] = (),
    is_shared_otherwise: bool = False,
) -> CutOver:
    """Return what putting a topology in force asks of the nodes.

    Args:
        before: The topology in force.
        after: A legal one.
        given_up: Nodes that leave and need not be waited for: what waits for them is lost.
        is_shared_otherwise: Whether messages then go to other members of some queue.
    """
    old_graph, new_graph = Graph.of(before), Graph.of(after)
    made = links_made(after)
    remade = {ends: None for ends, one in links_made(before).items() if made.get(ends) != one}
    ends = dict.fromkeys(_ends(before, after))
    holding: list[str] = []
    moving: dict[str, None] = {}  # nodes that hold for beginning walks may be down
    taking_part: dict[str, None] = {}
    waves: list[dict[Direction, None]] = []
    rerouted: dict[Direction, None] = {}
    over_remade: dict[Direction, None] = {}
    for origin in sorted({**before.nodes, **after.nodes}):
        old = tree_from(old_graph, origin) if origin in before.nodes else {}
        new = tree_from(new_graph, origin) if origin in after.nodes else {}
        ended = list(old) if is_shared_otherwise else _ended(before, after, old, new, remade)
        # Nothing of it is under way, but it would look for members before it can know any.
        is_new_to_queues = is_shared_otherwise and bool(new)
        moves = bool(ended) or origin not in after.nodes or is_new_to_queues
        if moves:
            moving[origin] = None
        strays = any(node in ends for node in new if node not in old)
        if (moves or strays) and origin not in given_up:
            holding.append(origin)
        for depth, direction in _directions(old, [*ended, *_on_the_way(new, ended)], given_up):
            taking_part |= dict.fromkeys(direction)
            waves.extend({} for _ in range(depth + 1 - len(waves)))
            waves[depth][direction] = None
        rerouted |= dict.fromkeys(_rerouted(old, new))
        over_remade |= dict.fromkeys(_over(new, old, remade))
    taking_part |= moving | ends | dict.fromkeys(_ends(after, before))
    # A node that leaves without a link has no readers waiting, and routes nothing for others.
    linked = dict.fromkeys(itertools.chain(*(link.ends for link in before.links), after.nodes))
    return CutOver(
        holding=holding,
        drain_waves=[sorted(pairs) for pairs in waves],
        taking_part=sorted(node for node in taking_part if node not in given_up and node in linked),
        arriving=sorted(node for node in after.nodes if node not in before.nodes),
        leaving=sorted(node for node in before.nodes if node not in after.nodes),
        heard=sorted(link.ends for link in after.links) if is_shared_otherwise else (),
        rerouted=sorted(rerouted),
        remade=sorted(over_remade),
    )


def _ended(
    before: Topology, after: Topology, old: Tree, new: Tree, remade: Collection[Ends]
) -> Collection[str]:
    """Return the nodes whose walk from one origin changes or ends, nearest first.

    That includes a walk over a link that is recreated, as its ends see it: nothing crosses that
    before it is proven, even if one of two joins on it is the same.
    """
    ended: dict[str, None] = {}
    for node, visit in old.items():
        is_same = node in new and new[node].link == visit.link
        is_same = is_same and _bars(before, visit) == _bars(after, visit)
        is_same = is_same and (visit.link is None or visit.link.ends not in remade)
        if not is_same or (visit.before is not None and visit.before.node in ended):
            ended[node] = None
    return ended


def _rerouted(old: Tree, new: Tree) -> Iterator[Direction]:
    """Yield the directions on an origin's new walks that its old walk to the same node avoids."""
    differs: dict[str, None] = {}  # nodes whose walk differs, nearest first
    for node, visit in new.items():
        was = old.get(node)
        is_same = was is not None and was.link == visit.link
        if is_same and (visit.before is None or visit.before.node not in differs):
            continue
        differs[node] = None
        if was is not None:
            spared = dict.fromkeys(_steps(was))
            yield from (step for step in _steps(visit) if step not in spared)


def _over(new: Tree, old: Tree, links: Collection[Ends]) -> Iterator[Direction]:
    """Yield the directions of some links that new walks cross to nodes that were reached before."""
    stay = [visit for node, visit in new.items() if node in old] if links else []
    for direction in itertools.chain.from_iterable(map(_steps, stay)):
        if (min(direction), max(direction)) in links:
            yield direction


def _steps(visit: Visit) -> Iterator[Direction]:
    """Yield the directions of a walk, the last one first."""
    while visit.before is not None:
        yield visit.before.node, visit.node
        visit = visit.before


def _on_the_way(new: Tree, nodes: Collection[str]) -> Collection[str]:
    """Return the nodes that the new walks to some nodes lead over.

    What still waits for one of them would be sent on along the new walk, to a node that already
    had it over the old one.
    """
    passed: dict[str, None] = {}
    for node in nodes:
        visit = new[node].before if node in new else None
        while visit is not None and visit.before is not None and visit.node not in passed:
            passed[visit.node] = None
            visit = visit.before
    return passed


def _directions(
    old: Tree, nodes: Sequence[str], given_up: Collection[str]
) -> Iterator[tuple[int, Direction]]:
    """Yield (depth, direction) of every link on the old walks to some nodes, each link once.

    What waits for a node that is given up, and what it has not passed on, is lost with it.
    """
    marked: dict[str, None] = {}
    for node in nodes:
        visit = old.get(node)
        while visit is not None and visit.before is not None and visit.node not in marked:
            marked[visit.node] = None
            visit = visit.before
    depths: dict[str, int] = {}  # of the nodes that can be drained
    for node, visit in old.items():
        sender = visit.before
        if sender is None or node in given_up:
            continue
        if (depth := 0 if sender.before is None else depths.get(sender.node)) is None:
            continue
        depths[node] = depth + 1
        if node in marked:
            yield depth, (sender.node, node)


def _bars(topology: Topology, visit: Visit) -> Sequence[object]:
    """Return what keeps messages off the last link to a node, whoever wants them.

    If that changes, a message that a node sent on by one rule would end at another that goes by the
    other rule: what a link does not carry has no walk there. Spec: K28, EMS-11, EMS-14, DMR-11.
    """
    if visit.link is None or visit.before is None:
        return ()
    return (
        topology.zones[visit.link.zone].direct_only,
        topology.conditions.get((visit.before.node, visit.node)),
        *(filters_at(topology, end, ControlKind.LOCAL) for end in visit.link.ends),
    )


def _ends(before: Topology, after: Topology) -> Iterator[str]:
    """Yield the ends of links that are not what they were afterwards."""
    new = _links(after)
    for link, old in _links(before).items():
        if new.get(link) != old:
            yield from link


def _links(topology: Topology) -> Mapping[Ends, object]:
    """Return what defines links and what they carry, by their ends."""
    made = links_made(topology)
    return {
        link.ends: (
            made[link.ends],
            topology.zones[link.zone].direct_only,
            topology.conditions.get(link.ends),
            topology.conditions.get((link.ends[1], link.ends[0])),
        )
        for link in topology.links
    }
