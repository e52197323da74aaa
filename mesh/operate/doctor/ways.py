"""Is every node reached by one way? Its address would tell: it comes once. Spec: K26, DESIGN 3."""

from __future__ import annotations

from collections.abc import Iterator

from mesh.model.control import is_address
from mesh.operate.doctor.examination import Examination
from mesh.operate.doctor.findings import Category, Check, first_of, judged
from mesh.operate.gates import REMEDY
from mesh.operate.link_flows import wanted_over
from mesh.operate.status import UP, link_state


def check_ways(at: Examination) -> Iterator[Check]:
    """Yield one check per node: no address comes to it over two links, and its own over none.

    The nodes judge that themselves, from their links; this is a second opinion, from interest.
    """
    names = {
        f"$node/{seen.identity.uuid}": name
        for name, seen in at.view.nodes.items()
        if seen.identity is not None
    }
    for node in at.topology.nodes:
        if not at.beats[node]:
            continue
        faults = []
        came: dict[str, str] = {f"$node/{uuid}": node for uuid in _uuid_of(at, node)}
        for link in at.topology.links_of(node):
            other = link.other(node)
            if link_state(at.view.nodes[node], other) != UP:
                continue
            offered = {
                filter_: None
                for _, filter_, _ in wanted_over(at.view, other, node, link.zone, addresses=True)
                if is_address(filter_)
            }
            for address in offered:
                if address in came:
                    name = names.get(address, address)
                    faults.append(f"{name} by {came[address]} and by {other}")
                came.setdefault(address, other)
        yield judged(
            Category.LINKS,
            f"{node} hears of every node by one way",
            first_of(faults),
            REMEDY,
        )


def _uuid_of(at: Examination, node: str) -> Iterator[str]:
    identity = at.view.nodes[node].identity
    if identity is not None:
        yield identity.uuid
