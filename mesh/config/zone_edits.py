"""One zone of a topology made, changed or removed: the spec that comes of it, not yet judged.

The identity of a zone is its key and never changes; its title may. Spec: DESIGN 3, UM-8, UM-9.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NoReturn

from mesh.config.located import KeyPath, dotted
from mesh.config.nearest import nearest
from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_writer import topology_document
from mesh.errors import ConfigError, wrong_input
from mesh.model.names import fold
from mesh.model.topology import Link, Topology, Zone, ZoneForm, ZoneKind

Spec = Mapping[str, object]
"""What stands under `spec` of a topology file."""

Pair = tuple[str, str]

UNKNOWN_ZONE = "UNKNOWN_ZONE"
"""Code of the problem that no zone is called so."""

ZONE_EXISTS = "ZONE_EXISTS"
"""Code of the problem that a new zone has the name of another."""

MEMBERSHIP = "MEMBERSHIP"
"""Code of the problem that what is added is there already, or what is removed is not."""

WRONG_FORM = "WRONG_FORM"
"""Code of the problem that the zone has nodes where links are named, or the other way round."""


def place_in_spec(path: KeyPath) -> str:
    """Return the place of a path below a spec that stands in no file."""
    return dotted(("spec", *path))


def with_zone(before: Topology, name: str, zone: Spec) -> Spec:
    """Return the spec with a new zone.

    Args:
        before: The topology in force.
        name: Identity of the new zone.
        zone: What a file would say of it; without nodes and links it is made without members.

    Raises:
        ConfigError: A zone has that name.
    """
    for known, one in before.zones.items():
        if known.lower() == name.lower():
            _refuse(ZONE_EXISTS, name, f"exists already and is {one.kind}; choose another name")
    return _with(before, name, _formed(zone))


def refuse_impossible(name: str, zone: Spec) -> None:
    """Refuse a new zone that no topology could have, before any is looked at.

    Args:
        name: Its identity.
        zone: As for `with_zone`; links may be left out.

    Raises:
        ConfigError: Lists all that is wrong with the zone itself.
    """
    ends = [zone[key] for key in ("from", "to") if key in zone]
    members = zone.get("nodes", ())
    nodes = [*(members if isinstance(members, list) else ()), *ends]
    known = {str(node): dict[str, object]() for node in nodes}
    alone = {"kafka": {"k": None}, "nodes": known, "zones": {name: _formed(zone)}}
    try:
        topology_from_mapping(alone, place_in_spec)
    except ConfigError as error:
        problems = [one for one in error.problems if one.where.startswith("spec.zones")]
        if problems:
            raise ConfigError(problems) from error


def without_zone(before: Topology, name: str) -> Spec:
    """Return the spec without a zone.

    Raises:
        ConfigError: There is no such zone.
    """
    zone_of(before, name)
    spec = _spec(before)
    zones = {key: zone for key, zone in _zones(spec).items() if key != name}
    return {**spec, "zones": zones}


def retitled(before: Topology, name: str, title: str) -> Spec:
    """Return the spec with another title of a zone; its identity stays.

    Raises:
        ConfigError: There is no such zone.
    """
    zone_of(before, name)
    return _with(before, name, {**_written(before, name), "title": title})


def with_nodes(before: Topology, name: str, nodes: Sequence[str]) -> Spec:
    """Return the spec with more nodes in a zone of nodes: each is linked to all others.

    Raises:
        ConfigError: There is no such zone, it has links as listed, or a node is in it.
    """
    zone = _full_mesh(before, name, "add")
    for node in nodes:
        if node in zone.nodes:
            _refuse(MEMBERSHIP, name, f"has node {node} already")
    return _with_members(before, name, [*zone.nodes, *dict.fromkeys(nodes)])


def without_nodes(before: Topology, name: str, nodes: Sequence[str]) -> Spec:
    """Return the spec with fewer nodes in a zone of nodes; without any it stays, inactive.

    Raises:
        ConfigError: There is no such zone, it has links as listed, or a node is not in it.
    """
    zone = _full_mesh(before, name, "remove")
    for node in nodes:
        if node not in zone.nodes:
            hint = nearest(node, zone.nodes) or "; it has no members"
            _refuse(MEMBERSHIP, name, f"has no node {node!r}{hint}")
    return _with_members(before, name, [node for node in zone.nodes if node not in nodes])


def with_links(before: Topology, name: str, pairs: Sequence[Pair]) -> Spec:
    """Return the spec with more links in a zone.

    Raises:
        ConfigError: There is no such zone, it cannot list links, a link is in it, or a member
            without a link would not be in it any more.
    """
    zone = _linked(before, name)
    wanted = list(dict.fromkeys(map(_in_order, pairs)))
    for pair in wanted:
        if any(link.ends == pair for link in zone.links):
            _refuse(MEMBERSHIP, name, f"has a link between {pair[0]} and {pair[1]} already")
    links = [*(link.ends for link in zone.links), *wanted]
    for node in zone.nodes:
        if not any(node in pair for pair in links):
            advice = f"link it too, or remove it before by `mesh zone remove {name} {node}`"
            _refuse(MEMBERSHIP, name, f"has member {node}, which would have no link: {advice}")
    return _with_pairs(before, name, links)


def without_links(before: Topology, name: str, pairs: Sequence[Pair]) -> Spec:
    """Return the spec with fewer links in a zone; without any it stays, inactive.

    Raises:
        ConfigError: There is no such zone, it cannot list links, or a link is not in it.
    """
    zone = _linked(before, name)
    gone = list(map(_in_order, pairs))
    for pair in gone:
        if not any(link.ends == pair for link in zone.links):
            _refuse(MEMBERSHIP, name, f"has no link between {pair[0]} and {pair[1]}")
    return _with_pairs(before, name, [link.ends for link in zone.links if link.ends not in gone])


def zone_of(topology: Topology, name: str) -> Zone:
    """Return a zone that exists.

    Raises:
        ConfigError: No zone has that name. If a zone has it for a title, the text says which.
    """
    if name not in topology.zones:
        zones = topology.zones.items()
        titled = [one for one, zone in zones if name and fold(zone.title) == fold(name)]
        if titled:
            fault = f"is the title of {', '.join(titled)}; write the name instead"
        else:
            fault = f"there is none{nearest(name, list(topology.zones))}"
        _refuse(UNKNOWN_ZONE, name, fault)
    return topology.zones[name]


def _formed(zone: Spec) -> Spec:
    """Return a zone that says what it has, if that is nothing."""
    kind = str(zone.get("kind"))
    form = ZoneKind(kind).form if kind in set(ZoneKind) else ZoneForm.EITHER
    if "nodes" in zone or "links" in zone or form is ZoneForm.ENDS:
        return zone
    return {**zone, "links" if form is ZoneForm.LINKS else "nodes": []}


def _full_mesh(before: Topology, name: str, word: str) -> Zone:
    zone = zone_of(before, name)
    links = [Link(name, pair) for pair in combinations(zone.nodes, 2)]
    if zone.join is not None:
        _refuse(WRONG_FORM, name, _JOIN)
    if zone.kind.form is ZoneForm.LINKS or list(zone.links) != links:
        how = f"mesh zone {word} {name} --link A-B"
        _refuse(WRONG_FORM, name, f"has links as listed and no nodes: give `{how}`")
    return zone


def _linked(before: Topology, name: str) -> Zone:
    zone = zone_of(before, name)
    if zone.join is not None:
        _refuse(WRONG_FORM, name, _JOIN)
    if not zone.kind.takes_links:
        _refuse(WRONG_FORM, name, "is a cluster, which is fully linked: name nodes, not links")
    return zone


_JOIN = "is a join, whose two ends never change: delete it and create another"


def _in_order(pair: Pair) -> Pair:
    return (pair[0], pair[1]) if pair[0] < pair[1] else (pair[1], pair[0])


def _with_members(before: Topology, name: str, nodes: Sequence[str]) -> Spec:
    return _with(before, name, {**_without_form(before, name), "nodes": list(nodes)})


def _with_pairs(before: Topology, name: str, pairs: Sequence[Pair]) -> Spec:
    links = [list(pair) for pair in pairs]
    return _with(before, name, {**_without_form(before, name), "links": links})


def _without_form(before: Topology, name: str) -> Spec:
    zone = _written(before, name)
    return {key: value for key, value in zone.items() if key not in ("nodes", "links")}


def _with(before: Topology, name: str, zone: Spec) -> Spec:
    spec = _spec(before)
    return {**spec, "zones": {**_zones(spec), name: zone}}


def _written(before: Topology, name: str) -> Spec:
    zone = _zones(_spec(before))[name]
    return zone if isinstance(zone, Mapping) else {}


def _zones(spec: Spec) -> Mapping[str, object]:
    zones = spec["zones"]
    return zones if isinstance(zones, Mapping) else {}


def _spec(topology: Topology) -> Spec:
    spec = topology_document(topology)["spec"]
    return spec if isinstance(spec, Mapping) else {}


def _refuse(code: str, name: str, message: str) -> NoReturn:
    raise wrong_input(f"zone {name}", message, code=code)
