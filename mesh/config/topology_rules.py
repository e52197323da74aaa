"""What the parts of a Mesh spec must mean to each other: names, references, zones.

Works on the document as read and skips what has the wrong shape, so that every problem is named
at once. Whether walks are unique is not decided here but in `mesh.core.legality`.
Spec: DESIGN 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations

from mesh.config.interest_controls import interest_problems
from mesh.config.kafka_options import option_faults
from mesh.config.located import PROBLEMS_MAX, KeyPath, Locate
from mesh.config.nearest import nearest
from mesh.config.queues import queue_faults
from mesh.config.scalars import DURATION_RULE, duration_s
from mesh.config.selectors import selector_problems
from mesh.errors import Problem
from mesh.model.names import fold, name_fault, prefix_fault
from mesh.model.subject import filter_fault
from mesh.model.topology import ANY, RolePings, WhenFull, ZoneForm, ZoneKind

_NO_CLUSTERS = frozenset(ZoneKind) - {ZoneKind.CLUSTER}
_ENDS = ("from", "to")
_JOIN_KEYS = (*_ENDS, "filter", "hops")

PING_S_MIN, PING_S_MAX = 0.1, 60.0
"""A worker looks ten times a second whether anything is due."""

SILENT_S_MIN, SILENT_S_MAX = 2.0, 600.0
"""A worker may stand still for a second and blame nobody; what waits is not kept for longer."""

LINKS_MAX = 500_000
"""A thousand nodes, each linked with each: a list of names says so in a few kilobytes."""

Entries = Mapping[str, object]


def spec_problems(spec: object, locate: Locate, *, is_in_force: bool = False) -> list[Problem]:
    """Return what is wrong with a Mesh spec that its shape alone does not show.

    That is everything, or so much that nobody reads on: `PROBLEMS_MAX`.

    Args:
        spec: The mapping under `spec`, as read.
        locate: Places of paths below it.
        is_in_force: It may be in force already: what names an endpoint twice in another case, as
            was legal once, is no fault then, and the first counts.
    """
    checker = _Checker(locate=locate, spec=_mapping(spec), is_in_force=is_in_force)
    if (problem := _too_many_links(checker.zones, locate)) is not None:
        return [problem]  # all else would go through each of them
    with suppress(_EnoughError):
        checker.check()
    return checker.problems


class _EnoughError(Exception):
    """So many problems were found that nobody reads on; what each was meant to be takes long."""


def _too_many_links(zones: Entries, locate: Locate) -> Problem | None:
    """Return why zones cannot be gone through link by link, if so; nothing is built for that."""
    count = 0
    for name, zone in zones.items():
        declared = _mapping(zone)
        nodes, links = (declared.get(key) for key in ("nodes", "links"))
        meshed, listed = (len(one) if isinstance(one, list) else 0 for one in (nodes, links))
        count += meshed * (meshed - 1) // 2 + listed
        if count > LINKS_MAX:
            message = (
                f"with this zone there are {count} links, and a mesh has at most {LINKS_MAX}: "
                "link gateways of smaller zones instead of each node with each"
            )
            return Problem(code="TOO_MANY_LINKS", message=message, where=locate(("zones", name)))
    return None


def _mapping(value: object) -> Entries:
    return value if isinstance(value, Mapping) else {}


def _texts(value: object) -> Iterator[tuple[int, str]]:
    """Yield (index, text) for the texts of a list."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            if isinstance(item, str):
                yield index, item


def _pairs(zone: object) -> Iterator[Sequence[str]]:
    """Yield the ends of each link of a zone, or of the one that a join is."""
    declared = _mapping(zone)
    if declared.get("kind") == ZoneKind.JOIN:
        yield [end for key in _ENDS if isinstance(end := declared.get(key), str)]
        return
    listed = declared.get("links")
    for pair in listed if isinstance(listed, list) else ():
        yield [end for _, end in _texts(pair)]
    yield from combinations([node for _, node in _texts(declared.get("nodes"))], 2)


@dataclass(slots=True, kw_only=True)
class _Checker:
    """Gathers problems; each method checks one part.

    Attributes:
        members: Per zone but joins its nodes that exist, in order of appearance.
    """

    locate: Locate
    spec: Entries
    is_in_force: bool = False
    problems: list[Problem] = field(default_factory=list)
    members: dict[str, dict[str, KeyPath]] = field(default_factory=dict)

    @property
    def kafka(self) -> Entries:
        return _mapping(self.spec.get("kafka"))

    @property
    def nodes(self) -> Entries:
        return _mapping(self.spec.get("nodes"))

    @property
    def zones(self) -> Entries:
        return _mapping(self.spec.get("zones"))

    def check(self) -> None:
        """Check everything."""
        for section in ("kafka", "nodes", "zones"):
            self._names(section, _mapping(self.spec.get(section)))
        self._settings()
        for name, options in self.kafka.items():
            for option, code, message in option_faults(_mapping(options)):
                self._note(code, message, ("kafka", name, option))
        for name, node in self.nodes.items():
            self._node(name, _mapping(node))
        for name, zone in self.zones.items():
            self._zone(name, _mapping(zone))
        self._limits()
        self._add(interest_problems(self.spec.get("interest"), self.nodes, self.locate))
        for code, message, path in queue_faults(self.spec):
            self._note(code, message, path)
        self._one_cluster_per_node()
        self._exclusive()
        self._beside_joins()
        self._selectors()

    def _note(self, code: str, message: str, path: KeyPath) -> None:
        self._add([Problem(code=code, message=message, where=self.locate(path))])

    def _add(self, problems: Iterable[Problem]) -> None:
        for problem in problems:
            self.problems.append(problem)
            if len(self.problems) >= PROBLEMS_MAX:
                raise _EnoughError

    def _refuse_keys(
        self, entries: Entries, keys: Sequence[str], message: str, path: KeyPath
    ) -> None:
        for key in keys:
            if key in entries:
                self._note("CONFLICTING_KEYS", f"{message}; remove it", (*path, key))

    def _duration(self, entries: Entries, key: str, path: KeyPath) -> None:
        text = entries.get(key)
        if isinstance(text, str) and not duration_s(text):
            message = f"{text[:60]!r} is not a duration above 0; write {DURATION_RULE}"
            self._note("WRONG_VALUE", message, (*path, key))

    def _names(self, section: str, entries: Entries) -> None:
        seen: dict[str, str] = {}
        for name in entries:
            if (fault := name_fault(name)) is not None:
                self._note("BAD_NAME", fault, (section, name))
            other = seen.setdefault(fold(name), name)
            if other != name:
                message = f"{name[:80]!r} and {other[:80]!r} differ in case only; rename one"
                self._note("NAME_CLASH", message, (section, name))

    def _settings(self) -> None:
        prefix = self.spec.get("prefix")
        if isinstance(prefix, str) and (fault := prefix_fault(prefix)) is not None:
            self._note("BAD_NAME", fault, ("prefix",))
        keep = self.spec.get("keep")
        if isinstance(keep, str) and duration_s(keep) is None:
            self._note(
                "WRONG_VALUE", f"{keep[:60]!r} is not a duration; write {DURATION_RULE}", ("keep",)
            )
        self._pings(_mapping(self.spec.get("roles")))
        kafka = _mapping(self.spec.get("audit")).get("kafka")
        if isinstance(kafka, str):
            self._known(kafka, self.kafka, "Kafka cluster", ("audit", "kafka"))

    def _pings(self, roles: Entries) -> None:
        text = roles.get("pingEvery", f"{RolePings().every_s:g}s")
        missed = roles.get("pingsMissed", RolePings().missed_max)
        if not isinstance(text, str) or type(missed) is not int or missed < 1:
            return
        every_s = duration_s(text)
        if every_s is None or not PING_S_MIN <= every_s <= PING_S_MAX:
            message = (
                f"{text[:60]!r} is not a duration from {PING_S_MIN * 1000:g}ms to {PING_S_MAX:g}s; "
                f"write {DURATION_RULE}"
            )
            self._note("WRONG_VALUE", message, ("roles", "pingEvery"))
        elif not SILENT_S_MIN <= every_s * missed <= SILENT_S_MAX:
            message = (
                f"a link that is silent for {missed} times {text} is down; let that be from "
                f"{SILENT_S_MIN:g}s to {SILENT_S_MAX:g}s, by pingEvery or pingsMissed"
            )
            self._note("WRONG_VALUE", message, ("roles",))

    def _known(self, name: str, known: Entries, noun: str, path: KeyPath) -> bool:
        if name in known:
            return True
        code = "UNKNOWN_NODE" if noun == "node" else "UNKNOWN_KAFKA"
        hint = nearest(name, list(known)) or "; none is declared"
        self._note(code, f"no {noun} is called {name[:80]!r}{hint}", path)
        return False

    def _node(self, name: str, node: Entries) -> None:
        kafka = node.get("kafka")
        if isinstance(kafka, str):
            self._known(kafka, self.kafka, "Kafka cluster", ("nodes", name, "kafka"))
        elif kafka is None and len(self.kafka) != 1:
            message = "say which Kafka cluster is its own, with kafka: NAME"
            self._note("MISSING_KEY", message, ("nodes", name, "kafka"))
        realm = node.get("realm")
        if isinstance(realm, str) and (fault := name_fault(realm)) is not None:
            self._note("BAD_NAME", fault, ("nodes", name, "realm"))
        lanes, partitions = node.get("lanes", 1), node.get("partitions")
        if not isinstance(lanes, int) or not isinstance(partitions, int) or lanes < 1:
            return
        if partitions % lanes:
            above = partitions - partitions % lanes + lanes
            message = f"{lanes} lanes cannot share {partitions} partitions evenly; write {above}"
            self._note("WRONG_VALUE", message, ("nodes", name, "partitions"))

    def _zone(self, name: str, zone: Entries) -> None:
        kind = zone.get("kind")
        if zone.get("directOnly") is True and kind in _NO_CLUSTERS:
            message = f"only a zone of kind cluster is direct-only, not {kind}; remove it"
            self._note("CONFLICTING_KEYS", message, ("zones", name, "directOnly"))
        if kind == ZoneKind.JOIN:
            self._join(name, zone)
            return
        self._refuse_keys(zone, _JOIN_KEYS, "only joins have this key", ("zones", name))
        by_nodes, by_links = "nodes" in zone, "links" in zone
        if kind in ZoneKind.__members__.values():
            self._form(name, ZoneKind(str(kind)), by_nodes=by_nodes, by_links=by_links)
        members = self.members.setdefault(name, {})
        if by_nodes:
            self._listed_nodes(name, zone["nodes"], members)
        if by_links:
            self._listed_links(name, zone["links"], members)

    def _form(self, name: str, kind: ZoneKind, *, by_nodes: bool, by_links: bool) -> None:
        path: KeyPath = ("zones", name)
        if kind.form is ZoneForm.NODES and by_links:
            message = "a cluster is fully linked: list its nodes and no links"
            self._note("WRONG_FORM", message, (*path, "links"))
        elif kind.form is ZoneForm.LINKS and by_nodes:
            message = "external links are listed one by one: write links and no nodes"
            self._note("WRONG_FORM", message, (*path, "nodes"))
        elif by_nodes and by_links:
            message = "has nodes (a full mesh) and links (as listed); keep one of the two"
            self._note("WRONG_FORM", message, path)
        elif not by_nodes and not by_links:
            wanted = str(kind.form)
            if kind.form is ZoneForm.EITHER:
                wanted = "nodes (a full mesh) or links (as listed)"
            self._note("WRONG_FORM", f"does not say what it links; add {wanted}", path)

    def _listed_nodes(self, name: str, listed: object, members: dict[str, KeyPath]) -> None:
        for index, node in _texts(listed):
            path: KeyPath = ("zones", name, "nodes", index)
            if not self._known(node, self.nodes, "node", path):
                continue
            if node in members:
                self._note("DUPLICATE_NODE", f"node {node} is listed twice; remove one", path)
            members.setdefault(node, path)

    def _listed_links(self, name: str, listed: object, members: dict[str, KeyPath]) -> None:
        pairs: dict[tuple[str, ...], int] = {}
        for index, pair in enumerate(listed if isinstance(listed, list) else ()):
            path: KeyPath = ("zones", name, "links", index)
            ends = [(place, end) for place, end in _texts(pair)]
            if len(ends) != 2:
                continue
            known = [self._known(end, self.nodes, "node", (*path, place)) for place, end in ends]
            (_, a), (_, b) = ends
            if not all(known):
                continue
            first = pairs.setdefault(tuple(sorted((a, b))), index)
            if a == b:
                self._note("SELF_LINK", f"links node {a} to itself; remove it", path)
            elif first != index:
                message = (
                    f"{a} and {b} are linked twice in zone {name}, "
                    f"first as links[{first}]; remove one"
                )
                self._note("DUPLICATE_LINK", message, path)
            for place, end in ends:
                members.setdefault(end, (*path, place))

    def _limits(self) -> None:
        linked = {frozenset(ends) for zone in self.zones.values() for ends in _pairs(zone)}
        limits, seen = self.spec.get("limits"), dict[frozenset[str], int]()
        endpoints = dict[tuple[str, str], int]()
        for index, item in enumerate(limits if isinstance(limits, list) else ()):
            limit, path = _mapping(item), ("limits", index, "link")
            if "endpoint" in limit:
                self._endpoint_limit(limit, index, endpoints)
                continue
            self._limit(limit, index)
            ends = [end for _, end in _texts(limit.get("link"))]
            known = [
                self._known(end, self.nodes, "node", (*path, at)) for at, end in enumerate(ends)
            ]
            if len(ends) != 2 or not all(known):
                continue
            first = seen.setdefault(frozenset(ends), index)
            if frozenset(ends) not in linked:
                message = f"{ends[0]} and {ends[1]} are not linked; remove the limit or link them"
                self._note("UNKNOWN_LINK", message, path)
            elif first != index:
                message = f"the link has limits already, as limits[{first}]; merge the two"
                self._note("DUPLICATE_LIMIT", message, path)

    def _limit(self, limit: Entries, index: int) -> None:
        """Check one limit: what it limits, and what happens then."""
        if "link" not in limit:
            message = "say what it is of, with link: [A, B] or endpoint: NAME"
            self._note("MISSING_KEY", message, ("limits", index))
        of_endpoints = "only limits of endpoints have this key"
        self._refuse_keys(limit, ("node", "bytes", "age"), of_endpoints, ("limits", index))
        if limit.get("whenFull") == WhenFull.DEAD_LETTER:
            message = "what waits for a neighbour is never given up; write reject or stop"
            self._note("WRONG_VALUE", message, ("limits", index, "whenFull"))
        self._duration(limit, "outboxAge", ("limits", index))
        has_outbox = "outboxBytes" in limit or "outboxAge" in limit
        if not has_outbox and "bytesPerSecond" not in limit:
            message = "limits nothing; give bytesPerSecond, outboxBytes or outboxAge"
            self._note("WRONG_VALUE", message, ("limits", index))
        if has_outbox != ("whenFull" in limit):
            message = (
                "say with whenFull what happens then: reject or stop"
                if has_outbox
                else "whenFull speaks of outboxBytes and outboxAge; give one of them or remove it"
            )
            self._note("WRONG_VALUE", message, ("limits", index))

    def _endpoint_limit(self, limit: Entries, index: int, seen: dict[tuple[str, str], int]) -> None:
        """Check one limit of an endpoint; whether there is such an endpoint, only clients know."""
        path = ("limits", index)
        of_links = ("link", "bytesPerSecond", "outboxBytes", "outboxAge")
        self._refuse_keys(limit, of_links, "only limits of links have this key", path)
        endpoint, node = limit["endpoint"], limit.get("node", ANY)
        if isinstance(endpoint, str) and endpoint != ANY and (fault := name_fault(endpoint)):
            self._note("BAD_NAME", fault, (*path, "endpoint"))
        if isinstance(node, str) and node != ANY:
            self._known(node, self.nodes, "node", (*path, "node"))
        self._duration(limit, "age", path)
        if "bytes" not in limit and "age" not in limit:
            self._note("WRONG_VALUE", "limits nothing; give bytes or age", path)
        if limit.get("whenFull") == WhenFull.DEAD_LETTER and endpoint == ANY:
            message = "dead-letter loses messages: name the endpoint instead of '*'"
            self._note("WRONG_VALUE", message, (*path, "whenFull"))
        if isinstance(endpoint, str) and isinstance(node, str):
            first = seen.setdefault((fold(endpoint), node), index)
            if first != index and not self.is_in_force:
                message = f"the endpoint has limits already, as limits[{first}]; merge the two"
                self._note("DUPLICATE_LIMIT", message, (*path, "endpoint"))

    def _join(self, name: str, zone: Entries) -> None:
        path: KeyPath = ("zones", name)
        for key in _ENDS:
            end = zone.get(key)
            if end is None:
                self._note("MISSING_KEY", f"a join needs from and to; add {key}", (*path, key))
            elif isinstance(end, str):
                self._known(end, self.nodes, "node", (*path, key))
        if zone.get("from") is not None and zone.get("from") == zone.get("to"):
            message = f"joins node {zone['from']} to itself; remove it"
            self._note("SELF_LINK", message, (*path, "to"))
        if zone.get("exclusive") is True:
            message = "a join is never exclusive, for its ends are in zones besides; remove it"
            self._note("CONFLICTING_KEYS", message, (*path, "exclusive"))
        self._refuse_keys(zone, ("nodes", "links"), "a join has from and to instead", path)
        filter_ = zone.get("filter")
        if isinstance(filter_, str) and (fault := filter_fault(filter_)) is not None:
            self._note("WRONG_VALUE", fault, (*path, "filter"))

    def _beside_joins(self) -> None:
        """Refuse what joins nodes that a join joins already: a second way in the same direction."""
        if not self._zones_where("kind", ZoneKind.JOIN):
            return
        others: dict[frozenset[str], str] = {}
        joins: dict[tuple[str, ...], str] = {}
        for name, zone in self.zones.items():
            for ends in _pairs(zone):
                if _mapping(zone).get("kind") == ZoneKind.JOIN:
                    first = joins.setdefault(tuple(ends), name)
                    if first != name and len(ends) == len(_ENDS):
                        message = (
                            f"zone {first} joins {ends[0]} to {ends[1]} already; "
                            "remove one of the two"
                        )
                        self._note("DUPLICATE_JOIN", message, ("zones", name))
                else:
                    others.setdefault(frozenset(ends), name)
        for joined, name in joins.items():
            other = others.get(frozenset(joined))
            if other is not None and len(frozenset(joined)) == len(_ENDS):
                message = (
                    f"{joined[0]} and {joined[1]} are linked in zone {other} besides, so that "
                    "messages would come twice; remove one of the two"
                )
                self._note("JOIN_BESIDE_LINK", message, ("zones", name))

    def _selectors(self) -> None:
        zones = self.zones.values()
        linked = [ends for zone in zones for ends in _pairs(zone)]
        joins = [e for z in zones for e in _pairs(z) if _mapping(z).get("kind") == ZoneKind.JOIN]
        self._add(selector_problems(self.spec, self.locate, self.nodes, linked, joins))

    def _one_cluster_per_node(self) -> None:
        first: dict[str, str] = {}
        for name in self._zones_where("kind", ZoneKind.CLUSTER):
            for node, path in self.members.get(name, {}).items():
                other = first.setdefault(node, name)
                if other != name:
                    message = (
                        f"node {node} is in the cluster zones {other} and {name}; "
                        "a node is in at most one: remove it from one"
                    )
                    self._note("TWO_CLUSTERS", message, path)

    def _exclusive(self) -> None:
        """Note once what an exclusive zone cannot have, because it is in another zone besides.

        A cluster is one member of it, by one of its nodes: see ADR 28. That no second node of it
        is in the zone, so that one copy enters the cluster, follows from the walks and is judged
        there.
        Spec: UM-8, UM-9.
        """
        exclusive = [
            name for name in self.members if _mapping(self.zones[name]).get("exclusive") is True
        ]
        noted: dict[tuple[str, frozenset[str]], None] = {}
        for zone in exclusive:
            for node in self.members[zone]:
                cluster = self._cluster_beside(node, zone, exclusive)
                for fellow in dict.fromkeys([node, *self.members.get(cluster, ())]):
                    for other in self.members:
                        pair = (cluster or node, frozenset((zone, other)))
                        is_beside = other not in (zone, cluster) and fellow in self.members[other]
                        if is_beside and pair not in noted:
                            noted[pair] = None
                            text = _beside(fellow, node, other, zone, cluster)
                            self._note("EXCLUSIVE", text, self.members[other][fellow])

    def _cluster_beside(self, node: str, zone: str, exclusive: Sequence[str]) -> str:
        """Return the cluster that is a member of an exclusive zone by this node, or nothing.

        A cluster zone that is exclusive itself is in no other zone, so it is a member of none.
        """
        clusters = self._zones_where("kind", ZoneKind.CLUSTER)
        if zone in clusters:
            return ""
        found = (one for one in clusters if one not in exclusive)
        return next((one for one in found if node in self.members.get(one, ())), "")

    def _zones_where(self, key: str, value: object) -> Sequence[str]:
        return [name for name, zone in self.zones.items() if _mapping(zone).get(key) == value]


def _beside(fellow: str, node: str, other: str, zone: str, cluster: str) -> str:
    if fellow == node:
        return (
            f"node {node} is in zone {other} and in zone {zone}, which is exclusive: "
            "remove it from one"
        )
    return (
        f"node {fellow} is in zone {other}, and its cluster {cluster} is by {node} a member of "
        f"zone {zone}, which is exclusive: remove it from one"
    )
