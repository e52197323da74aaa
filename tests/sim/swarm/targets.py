"""Which topology an operator may want next: a few edits of the one before, legal again."""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mesh.config.published import published_text
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import topology_spec
from mesh.core.live_change_limits import unchangeable
from mesh.errors import ConfigError
from mesh.model.topology import Topology
from tests.sim.meshes import KINDS, is_legal

TRIES = 40
"""So often edits are drawn before a schedule does without."""
NODES_MAX = 6
FILTERS = ("a/>", "*/b", "b", "a/*", ">", "b/>")

Spec = dict[str, Any]
Edit = Callable[[random.Random, Spec], None]
"""Changes a spec in place; raises LookupError if there is nothing to change."""


def next_topologies(
    rng: random.Random, first: Topology, count: int, *, joined: bool
) -> list[Topology]:
    """Return topologies that follow each other, `count` at most; each is legal and another one."""
    found = [first]
    while len(found) <= count:
        after = _next(rng, found, joined=joined)
        if after is None:
            break
        found.append(after)
    return found[1:]


def _next(rng: random.Random, known: Sequence[Topology], *, joined: bool) -> Topology | None:
    before = known[-1]
    if len(known) > 1 and rng.random() < 0.2:
        return _checked(known, topology_spec(known[-2]))  # back to what was before
    edits = [*EDITS, *(JOIN_EDITS if joined else ())]
    for _ in range(TRIES):
        spec = copy.deepcopy(dict(topology_spec(before)))
        try:
            for edit in rng.sample(edits, rng.choice([1, 1, 1, 2, 2, 3])):
                edit(rng, spec)
        except LookupError:
            continue
        if (after := _checked(known, spec)) is not None:
            return after
    return None


def _checked(known: Sequence[Topology], spec: Mapping[str, object]) -> Topology | None:
    before = known[-1]
    try:
        after = topology_from_mapping(spec)
    except ConfigError:
        return None
    is_other = published_text(after) != published_text(before)
    is_possible = is_other and bool(after.links) and not list(unchangeable(before, after, str))
    # A name that comes back is the same node.
    is_possible = is_possible and all(
        one.nodes.get(name, node) == node for one in known for name, node in after.nodes.items()
    )
    return after if is_possible and is_legal(after) else None


# -- edits -------------------------------------------------------------------------------------


def _zone(rng: random.Random, spec: Spec, has: str) -> str:
    """Return a zone that is described by something."""
    return _any(rng, [name for name, zone in spec["zones"].items() if has in zone])


def _any(rng: random.Random, among: Sequence[Any]) -> Any:
    if not among:
        raise LookupError
    return rng.choice(among)


def _new(spec: Spec, letter: str) -> str:
    number = 0
    while f"{letter}{number}" in spec["zones"]:
        number += 1
    return f"{letter}{number}"


def _drop_zone(rng: random.Random, spec: Spec) -> None:
    del spec["zones"][_any(rng, list(spec["zones"]))]


def _drop_link(rng: random.Random, spec: Spec) -> None:
    name = _zone(rng, spec, "links")
    links = spec["zones"][name]["links"]
    links.remove(_any(rng, links))
    if not links:
        del spec["zones"][name]


def _add_link(rng: random.Random, spec: Spec) -> None:
    pair = sorted(rng.sample(sorted(spec["nodes"]), 2))
    if rng.random() < 0.5:
        spec["zones"][_zone(rng, spec, "links")]["links"].append(pair)
    else:
        _add(rng, spec, pair)


def _add_zone(rng: random.Random, spec: Spec) -> None:
    nodes = sorted(spec["nodes"])
    _add(rng, spec, rng.sample(nodes, min(len(nodes), rng.choice([2, 3, 3, 4]))))


def _add(rng: random.Random, spec: Spec, nodes: Sequence[str]) -> None:
    kind = rng.choice(KINDS)
    links = [sorted(pair) for pair in itertools.pairwise(nodes)]
    is_full = kind == "cluster" or (kind == "one-hop" and rng.random() < 0.5)
    what = {"nodes": sorted(nodes)} if is_full else {"links": links}
    spec["zones"][_new(spec, "N")] = {"kind": kind, **what}


def _rekind(rng: random.Random, spec: Spec) -> None:
    """Have links in a zone of another name, and mostly of another kind."""
    name = _any(rng, [one for one, zone in spec["zones"].items() if zone["kind"] != "join"])
    zone = spec["zones"].pop(name)
    kinds = (
        ["cluster", "one-hop"] if "nodes" in zone else [one for one in KINDS if one != "cluster"]
    )
    spec["zones"][_new(spec, "K")] = {**zone, "kind": rng.choice(kinds)}


def _member(rng: random.Random, spec: Spec) -> None:
    """Have a node come into a full zone, or leave it."""
    nodes = spec["zones"][_zone(rng, spec, "nodes")]["nodes"]
    others = sorted(set(spec["nodes"]) - set(nodes))
    if len(nodes) > 2 and (not others or rng.random() < 0.5):
        nodes.remove(rng.choice(nodes))
    else:
        nodes.append(_any(rng, others))


def _move_link(rng: random.Random, spec: Spec) -> None:
    """Hang one end of a link elsewhere: walks move."""
    links = spec["zones"][_zone(rng, spec, "links")]["links"]
    link = _any(rng, links)
    stays = rng.choice(link)
    links.remove(link)
    other = _any(rng, [node for node in sorted(spec["nodes"]) if node not in link])
    links.append(sorted((stays, other)))


def _add_node(rng: random.Random, spec: Spec) -> None:
    if len(spec["nodes"]) >= NODES_MAX:
        raise LookupError
    number = 0
    while f"n{number}" in spec["nodes"]:
        number += 1
    name, beside = f"n{number}", rng.choice(sorted(spec["nodes"]))
    kafka = rng.choice([*sorted(spec["kafka"]), "k9"])
    spec["kafka"].setdefault(kafka, {})
    lanes = rng.choice([1, 1, 2])
    spec["nodes"][name] = {"kafka": kafka, "lanes": lanes, "partitions": lanes * rng.choice([1, 2])}
    _add(rng, spec, [beside, name])


def _drop_node(rng: random.Random, spec: Spec) -> None:
    if len(spec["nodes"]) <= 2:
        raise LookupError
    name = rng.choice(sorted(spec["nodes"]))
    del spec["nodes"][name]
    for key, zone in list(spec["zones"].items()):
        if name in (zone.get("from"), zone.get("to")):
            del spec["zones"][key]
        elif "nodes" in zone:
            zone["nodes"] = [node for node in zone["nodes"] if node != name]
            if len(zone["nodes"]) < 2:
                del spec["zones"][key]
        elif "links" in zone:
            zone["links"] = [link for link in zone["links"] if name not in link]
            if not zone["links"]:
                del spec["zones"][key]


def _add_join(rng: random.Random, spec: Spec) -> None:
    source, target = rng.sample(sorted(spec["nodes"]), 2)
    join: Spec = {"kind": "join", "from": source, "to": target}
    if rng.random() < 0.4:
        join["filter"] = rng.choice(FILTERS)
    if rng.random() < 0.5:
        join["hops"] = rng.choice([1, 1, 2, 3])
    spec["zones"][_new(spec, "J")] = join


def _drop_join(rng: random.Random, spec: Spec) -> None:
    del spec["zones"][_zone(rng, spec, "from")]


def _turn_join(rng: random.Random, spec: Spec) -> None:
    join = spec["zones"][_zone(rng, spec, "from")]
    join["from"], join["to"] = join["to"], join["from"]


def _filter_join(rng: random.Random, spec: Spec) -> None:
    spec["zones"][_zone(rng, spec, "from")]["filter"] = rng.choice(FILTERS)


def _hops_of_join(rng: random.Random, spec: Spec) -> None:
    spec["zones"][_zone(rng, spec, "from")]["hops"] = rng.choice([0, 1, 2, 10])


EDITS: Sequence[Edit] = (
    _drop_zone, _drop_link, _add_link, _add_zone, _rekind, _member, _move_link, _move_link,
    _add_node, _drop_node,
)  # fmt: skip
JOIN_EDITS: Sequence[Edit] = (
    _add_join, _drop_join, _turn_join, _filter_join, _filter_join, _hops_of_join,
)  # fmt: skip
