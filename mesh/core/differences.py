"""What differs between two topologies, attribute by attribute, links among them.

The documents that describe them are compared, so that everything a file can say is covered.
Spec: DESIGN 3, K27.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mesh.model.topology import Topology

Attributes = Mapping[str, object]


class ItemKind(StrEnum):
    """What a difference is about, in the order in which people read it."""

    SETTING = "setting"
    KAFKA = "kafka"
    NODE = "node"
    ZONE = "zone"
    LINK = "link"
    LIMIT = "limit"
    INTEREST = "interest"
    SELECTOR = "selector"
    QUEUE = "queue"


class Action(StrEnum):
    """What happens to it."""

    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeDifference:
    """One attribute; None is absent."""

    name: str
    before: object
    after: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One thing that differs.

    Attributes:
        name: Of the Kafka cluster, node, zone or setting; `a-b` for a link and its limit; `a->b`
            for its selector in one direction; for a control of interest its text.
        attributes: Those that differ; all of them for what is created or deleted.
    """

    what: ItemKind
    name: str
    action: Action
    attributes: Sequence[AttributeDifference]


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A topology and the document that describes it.

    Attributes:
        topology: As a value.
        document: As a file, without secrets.
    """

    topology: Topology
    document: Mapping[str, object]


def differences_between(before: Described, after: Described) -> Sequence[Difference]:
    """Return what differs, by kind of thing and name; empty for equal topologies."""
    found: list[Difference] = []
    for what in ItemKind:
        old, new = _things(before, what), _things(after, what)
        for name in [*old, *(name for name in new if name not in old)]:
            one = _difference(what, name, old.get(name), new.get(name))
            if one is not None:
                found.append(one)
    return found


def _difference(
    what: ItemKind, name: str, old: Attributes | None, new: Attributes | None
) -> Difference | None:
    before, after = old or {}, new or {}
    attributes = [
        AttributeDifference(name=key, before=before.get(key), after=after.get(key))
        for key in [*before, *(key for key in after if key not in before)]
        if before.get(key) != after.get(key)
    ]
    if old is None:
        action = Action.CREATE
    elif new is None:
        action = Action.DELETE
    elif attributes:
        action = Action.CHANGE
    else:
        return None
    return Difference(what=what, name=name, action=action, attributes=tuple(attributes))


def _things(of: Described, what: ItemKind) -> Mapping[str, Attributes]:
    """Return everything of one kind: name -> attributes."""
    spec = _mapping(of.document.get("spec"))
    match what:
        case ItemKind.SETTING:
            return {name: {"value": value} for name, value in _settings(of.document, spec)}
        case ItemKind.KAFKA:
            return {name: _mapping(one) for name, one in _mapping(spec.get("kafka")).items()}
        case ItemKind.NODE:
            return {name: _mapping(one) for name, one in _mapping(spec.get("nodes")).items()}
        case ItemKind.ZONE:
            return {
                name: {
                    **_without_links(_mapping(one)),
                    "nodes": list(of.topology.zones[name].nodes),
                }
                for name, one in _mapping(spec.get("zones")).items()
            }
        case ItemKind.LINK:
            return _links(of.topology)
        case ItemKind.LIMIT:
            return dict(_limits(spec.get("limits")))
        case ItemKind.INTEREST:
            return {
                str(control): {"node": control.node, str(control.kind): control.filter}
                for control in of.topology.interest
            }
        case ItemKind.SELECTOR:
            conditions = of.topology.conditions.items()
            return {f"{a}->{b}": {"when": list(when)} for (a, b), when in sorted(conditions)}
        case ItemKind.QUEUE:
            return {name: _mapping(one) for name, one in _mapping(spec.get("queues")).items()}


def _settings(document: Attributes, spec: Attributes) -> Iterator[tuple[str, object]]:
    yield "name", _mapping(document.get("metadata")).get("name")
    for name, value in spec.items():
        if name not in {"kafka", "nodes", "zones", "limits", "interest", "selectors", "queues"}:
            if isinstance(value, Mapping):
                yield from ((f"{name}.{key}", one) for key, one in value.items())
            else:
                yield name, value


def _links(topology: Topology) -> Mapping[str, Attributes]:
    """Return links by their ends; parallel ones, which no legal topology has, by zone too."""
    found: dict[str, Attributes] = {}
    for link in topology.links:
        name = "-".join(link.ends)
        found[name if name not in found else f"{name} ({link.zone})"] = {
            "zone": link.zone,
            "kind": str(topology.kind_of(link)),
        }
    return found


def _limits(limits: object) -> Iterator[tuple[str, Attributes]]:
    for limit in map(_mapping, limits if isinstance(limits, list) else ()):
        ends = limit.get("link")
        name = "-".join(sorted(map(str, ends))) if isinstance(ends, list) else ""
        yield name, {key: value for key, value in limit.items() if key != "link"}


def _without_links(zone: object) -> Attributes:
    """Return a zone's own attributes; its members and links are compared separately."""
    return {key: value for key, value in _mapping(zone).items() if key not in {"nodes", "links"}}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
