"""What nodes would know of each other once all interest had spread everywhere.

This lets the nodes' own core explain a mesh that is not running, or not running like this.
Spec: DESIGN 3, DESIGN 4.2, K22.
"""

from __future__ import annotations

from collections.abc import Mapping

from mesh.core.forwarding import ownership_after
from mesh.core.interest import InterestTable, Member
from mesh.core.interest_controls import filters_at
from mesh.core.local_links import local_links
from mesh.core.routing import Router
from mesh.core.scopes import ScopeWriter
from mesh.model.control import Interest, Mark, Scope, Subscription, node_address
from mesh.model.interest_controls import ControlKind
from mesh.model.topology import Topology
from mesh.node.explanation import KnownNode
from mesh.node.learner import Learner
from mesh.node.offers import offered, readers_of, scopes_of
from mesh.node.queues import OwnQueues

Subscriptions = Mapping[tuple[str, str], Subscription]
"""(endpoint, filter) -> subscription, of one node."""


def converged_interest(
    topology: Topology, wanted: Mapping[str, Subscriptions]
) -> Mapping[str, KnownNode]:
    """Return what is known of every node when all are up and all interest has settled.

    Args:
        topology: A legal one; in others interest may not settle where walks go round.
        wanted: Subscriptions by node; nodes that are left out want nothing.
    """
    links = {node: local_links(topology, node) for node in topology.nodes}
    tables: dict[str, InterestTable] = {}
    todo: dict[str, dict[str, None]] = {}
    for node in topology.nodes:
        static = filters_at(topology, node, ControlKind.STATIC)
        queues = OwnQueues.at(node, topology)
        router = Router(links[node])
        learner = Learner(node, _uuid(node), links[node], router, static=static, queues=queues)
        tables[node] = _own_table(learner, wanted.get(node, {}))
        if tables[node].entries:
            todo[node] = dict.fromkeys(sorted(tables[node].entries))
    offers: dict[str, dict[Scope, dict[str, Interest]]] = {
        node: {scope: {} for scope in scopes_of(links[node])} for node in topology.nodes
    }
    while todo:
        node = next(iter(todo))
        for filter_ in todo.pop(node):
            members = tables[node].members(filter_)
            for scope, entries in offers[node].items():
                link = next(one for one in links[node] if one.zone == scope.zone)
                interest = offered(filter_, members, scope, link)
                if interest is None or entries.get(filter_) == interest:
                    continue
                entries[filter_] = interest
                member = Member(scope.zone, node, ownership_after(link.kind, scope.ownership))
                for reader in readers_of(links[node], scope):
                    if tables[reader].put(filter_, member, interest):
                        todo.setdefault(reader, {})[filter_] = None
    return {
        node: KnownNode(
            uuid=_uuid(node),
            subscriptions=wanted.get(node, {}),
            offers=offers[node],
            marks={scope: _mark(entries) for scope, entries in offers[node].items()},
        )
        for node in topology.nodes
    }


def _own_table(learner: Learner, subscriptions: Subscriptions) -> InterestTable:
    """Return what a node makes of clients' subscriptions; those that it refuses are left out."""
    for number, ((endpoint, filter_), interest) in enumerate(subscriptions.items()):
        for _ in learner.clients.subscription_read(number, endpoint, filter_, interest, 0):
            pass
    learner.begin_round()
    table = learner.router.table
    for filter_, members in list(table.entries.items()):
        for member, _ in members:
            if filter_ == node_address(learner.uuid):
                table.put(filter_, member, None)  # addresses matter to proofs alone
    return table


def _uuid(node: str) -> str:
    return f"supposed-{node}"


def _mark(entries: Mapping[str, Interest]) -> Mark:
    writer = ScopeWriter()
    for filter_, interest in entries.items():
        writer.change(filter_, None, interest)
    return writer.next_mark(1)
