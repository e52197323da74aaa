"""Do the nodes serve, and if not, what do they wait for? Spec: K23, K32."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.control import DISABLED
from mesh.operate.doctor.change import check_change
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.findings import SEE_KAFKA, Category, Check, first_of, judged
from mesh.operate.doctor.interest import unapplied
from mesh.operate.status import link_state


def check_nodes(at: Examination) -> Iterator[Check]:
    """Yield one check per node, and one of the newest change of the topology."""
    for node in at.topology.nodes:
        seen = at.view.nodes[node]
        error = hint = ""
        if at.view.is_unreachable(node):
            error, hint = "its Kafka cluster does not answer", SEE_KAFKA
        elif seen.identity is None:
            error, hint = "never ran", f"start it: mesh node run {node}"
        elif not at.beats[node]:
            error, hint = "does not beat", f"start it, or look at its log: mesh node run {node}"
        elif not seen.is_ready:
            waits = first_of(_waits_for(at, node))
            error = "beats but does not serve yet" + (f": {waits}" if waits else "")
            hint = "it waits until the interest of all neighbours is proven; look at the links"
        yield judged(Category.NODES, f"node {node} serves", error, hint)
    yield from check_change(at)


def _waits_for(at: Examination, node: str) -> Iterator[str]:
    """Yield what a node that does not serve has not proven yet, neighbour by neighbour."""
    for link in at.topology.links_of(node):
        other = link.other(node)
        if at.view.is_unreachable(other):
            yield f"the Kafka cluster of {other} does not answer"
        elif link_state(at.view.nodes[node], other) not in ("up", DISABLED):
            scopes = ", ".join(map(str, unapplied(at, link, writer=other)))
            yield f"what {other} offers is not proven" + (f" (scopes {scopes})" if scopes else "")
