"""Do roles work: does the tree layer reach every link, is it understood, has a role one holder?

Spec: tree_layer 2, 5.4, 12.
"""

from __future__ import annotations

from collections.abc import Iterator

from mesh.errors import TransportError
from mesh.model.trees import Address
from mesh.model.words import LinkWord
from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged, unseen
from mesh.operate.doctor.examination import Examination
from mesh.operate.status import link_state
from mesh.view.role_requests import role_requests

SPEAKS = (LinkWord.UP, LinkWord.FULL, LinkWord.STOPPED)
"""States of a mesh link that the tree layer uses."""


def check_trees(at: Examination) -> Iterator[Check]:
    """Yield two checks per node with a tree layer, and one of all roles that are held alone."""
    for node in at.topology.nodes:
        beat = at.view.nodes[node].heartbeat
        if not at.beats[node] or beat is None or beat.trees is None:
            continue  # reported by the checks of nodes, or it has no tree layer
        silent = [
            other
            for other in at.topology.neighbours(node)
            if at.beats[other]
            and link_state(at.view.nodes[node], other) in SPEAKS
            and other not in beat.trees.links
        ]
        yield judged(
            Category.TREES,
            f"the tree layer of {node} speaks with its neighbours",
            f"no HELLO of {', '.join(silent)} is answered" if silent else "",
            f"wait a moment; else look for trees.refused and trees.unreachable in the log of {node}"
            f" and at the rights on {at.topology.names.to_trees('*', node)}",
        )
        refused = beat.trees.refused
        yield judged(
            Category.TREES,
            f"frames for the tree layer of {node} can be read",
            f"{refused} were refused since its leader began" if refused else "",
            f"see mesh_tree_unread and mesh_tree_dropped of {node}, or trees.refused and "
            "trees.dropped in its log: "
            "a neighbour of another release, or somebody else, writes to its topics",
            result=Result.WARNING,
            figures={"refused": refused},
        )
    yield from _holders(at)


def _holders(at: Examination) -> Iterator[Check]:
    """Spec: tree_layer 5.4: within one part, a role held alone has one holder."""
    held: dict[tuple[str, Address], list[str]] = {}
    for node, declared in at.topology.nodes.items():
        beat = at.view.nodes[node].heartbeat
        if not at.beats[node] or beat is None or not beat.colour:
            continue
        try:
            requests = role_requests(at.answering(declared.kafka), at.topology.names.roles(node))
        except TransportError as fault:
            yield unseen(Category.TREES, f"roles of {node} can be seen", fault)
            continue
        for key, standing in requests.items():
            if standing.request.is_exclusive:
                place = (beat.colour, standing.request.address)
                held.setdefault(place, []).append(f"{key.app} at {node}")
    twice = [
        f"{address.role} on {address.tree} is held by {' and '.join(who)}"
        for (_, address), who in sorted(held.items())
        if len(who) > 1
    ]
    if held or twice:
        yield judged(
            Category.TREES,
            "each exclusive role has one holder",
            first_of(twice),
            "wait some seconds: of two the higher one stays; else `mesh role show` tells what each "
            "node knows, and the application that is to lose it gives it up",
        )
