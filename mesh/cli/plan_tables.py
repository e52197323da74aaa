"""A plan for people: only what changes, alike things in one row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from rich.console import Group, RenderableType

from mesh.cli.render import grid
from mesh.core.differences import Action, AttributeDifference, Difference
from mesh.core.rights import Resource, Right
from mesh.core.walks import Walk
from mesh.model.counted import listed
from mesh.model.topics import shared_begin

if TYPE_CHECKING:
    from mesh.core.reach import ReachChange, SourceReach
    from mesh.operate.changes.plan import Place, Plan

ROWS_MAX = 40
"""Rows of one table; more would not be read, and `-o json` has them all."""

NAMES_MAX = 8
LINKS_MAX = 6

_Item = TypeVar("_Item")
Rows = Sequence[Sequence[object]]
Section = tuple[str, Sequence[str], Rows]
"""A table under its title: the headings of its columns, and its rows."""


def plan_table(plan: Plan, proposed: str, base: str) -> RenderableType:
    """Return a plan as tables.

    Args:
        plan: The plan.
        proposed: Name of the proposed file.
        base: Name of what it was compared with.
    """
    if plan.is_empty:
        return f"{proposed} changes nothing: it says the same as {base}"
    parts: list[RenderableType] = [f"{proposed} against {base}", ""]
    for title, columns, rows in _sections(plan):
        if rows:
            parts += [title, grid(columns, rows[:ROWS_MAX])]
            if rows[ROWS_MAX:]:
                parts.append(f"and {len(rows) - ROWS_MAX} rows more; -o json has them all\n")
    if plan.queues:
        reason = "these queues will be shared out differently, so all sources pause"
        parts.append(f"{reason}: {_names(plan.queues)}")
    if plan.to_restart:
        parts.append(restart_hint(plan))
    parts.append(_summary(plan))
    return Group(*parts)


def restart_hint(plan: Plan) -> str:
    """Return what is left to do where options of a Kafka cluster change."""
    return (
        "nodes keep the options of Kafka clusters that they were started with; start these again, "
        f"one after another, with the changed file: {_names(plan.to_restart)}"
    )


def _sections(plan: Plan) -> Iterator[Section]:
    yield "what changes", ("DO", "WHAT", "NAME", "ATTRIBUTES"), list(_differences(plan.differences))
    yield "topics", ("DO", "ON KAFKA", "TOPICS"), list(_topics(plan))
    yield (
        "rights of the nodes' principals",
        ("DO", "NODE", "ON KAFKA", "MAY", "WHAT"),
        [
            *_rights("grant", plan.rights.needed),
            *_rights("take away", plan.rights.unneeded),
        ],
    )
    yield from _of_ways(plan.reach)
    yield (
        "guaranteed messages in topics that go",
        ("TOPIC", "RECORDS", "WHAT BECOMES OF THEM"),
        [
            (
                one.topic,
                one.records,
                f"{one.reader} reads them first" if one.is_read else "lost, as --allow-delete says",
            )
            for one in plan.unread
        ],
    )


def _of_ways(reach: ReachChange) -> Iterator[Section]:
    """Yield who would receive from whom, and over which way."""
    columns = ("PUBLISHED AT", "NEWLY REACHES", "NO LONGER REACHES", "LINKS CROSSED")
    yield "reach, if everybody wants everything", columns, list(_reach(reach.sources))
    yield "reach of guaranteed messages", columns, list(_reach(reach.guaranteed))
    yield (
        "walks that move: each a cut-over",
        ("OLD", "NEW", "WALKS", "FOR EXAMPLE"),
        [
            (_walk(move.old), _walk(move.new), move.walks, _example(move.pairs))
            for move in reach.moves
        ],
    )
    yield (
        "filters in force",
        ("ENDPOINT", "FILTER", "NOW RECEIVES FROM", "NO LONGER RECEIVES FROM"),
        [
            (
                f"{one.subscription.node}/{one.subscription.endpoint}",
                one.subscription.filter,
                _names(one.gains),
                _names(one.loses),
            )
            for one in reach.audience
        ],
    )
    yield (
        "copies by the filters in force",
        ("FILTER", "PUBLISHED AT", "LINKS CROSSED"),
        [
            (one.filter, _names(sources), f"{before} -> {after}")
            for one in reach.copies
            for (before, after), sources in _grouped(one.copies, one.copies.__getitem__).items()
        ],
    )


def _differences(differences: Iterable[Difference]) -> Iterator[Sequence[object]]:
    for item in differences:
        texts = [_attribute(item.action, one) for one in item.attributes]
        yield item.action, item.what, item.name, ", ".join(filter(None, texts))


def _attribute(action: Action, one: AttributeDifference) -> str:
    if action is Action.CREATE:
        value = _value(one.after)
    elif action is Action.DELETE:
        value = _value(one.before)
    elif isinstance(one.before, list) and isinstance(one.after, list):
        signed = [f"+{_value(item)}" for item in one.after if item not in one.before]
        signed += [f"-{_value(item)}" for item in one.before if item not in one.after]
        value = " ".join(signed)
    else:
        value = f"{_value(one.before)} -> {_value(one.after)}"
    return value if one.name == "value" else f"{one.name} {value}"


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _topics(plan: Plan) -> Iterator[Sequence[object]]:
    topics = plan.topics
    for action, places in (
        ("create", topics.created),
        ("delete", topics.deleted),
        ("leave", topics.left),
    ):
        for (kafka, begin), group in _grouped(places, _begin).items():
            yield action, kafka, _braces(begin, [place.topic for place in group])
    settings = _grouped(topics.changed, lambda one: (one.kafka, one.setting, one.before, one.after))
    for (kafka, setting, before, after), found in settings.items():
        noun = "topic" if len(found) == 1 else "topics"
        yield "change", kafka, f"{setting} {before} -> {after} of {len(found)} {noun}"


def _begin(place: Place) -> tuple[str, str]:
    return place.kafka, shared_begin(place.topic)


def _braces(begin: str, topics: Sequence[str]) -> str:
    ends = [topic.removeprefix(begin) for topic in topics]
    return begin + (ends[0] if len(ends) == 1 else "{" + ",".join(ends) + "}")


def _rights(action: str, rights: Sequence[Right]) -> Iterator[Sequence[object]]:
    def thing(right: Right) -> tuple[str, str, Resource, str, bool]:
        return right.node, right.kafka, right.resource, right.name, right.is_prefix

    both = _grouped(rights, thing)
    alike = _grouped(
        both, lambda key: (key[0], key[1], key[2], tuple(one.operation for one in both[key]))
    )
    for (node, kafka, resource, operations), keys in alike.items():
        names = [f"{name}*" if is_prefix else name for *_, name, is_prefix in keys]
        what = ", ".join(_shortened(names))
        yield action, node, kafka, "+".join(operations), f"{resource} {what}"


def _shortened(topics: Sequence[str]) -> Iterator[str]:
    """Yield the names of topics, those from one node to another as one."""
    for begin, group in _grouped(topics, lambda name: name.rpartition(".")[0] + ".").items():
        if len(group) > 1 and ".to." in begin:
            yield _braces(begin, group)
        else:
            yield from group


def _reach(found: Sequence[SourceReach]) -> Iterator[Sequence[object]]:
    alike = _grouped(found, lambda one: (one.gained, one.lost, one.before, one.after))
    for (gained, lost, before, after), sources in alike.items():
        links = " -> ".join("no node" if count is None else str(count) for count in (before, after))
        yield _names([one.source for one in sources]), _names(gained), _names(lost), links


def _walk(walk: Walk) -> str:
    """Return a walk, the middle of a long one left out."""
    if len(walk.links) <= LINKS_MAX:
        return str(walk)
    first = f"{walk.nodes[0]} -{walk.links[0].zone}-> {walk.nodes[1]}"
    left_out = len(walk.links) - 2
    return f"{first} ... {left_out} links ... -{walk.links[-1].zone}-> {walk.nodes[-1]}"


def _example(pairs: Mapping[str, Sequence[str]]) -> str:
    source, targets = next(iter(pairs.items()))
    return f"{source} to {targets[0]}"


def _names(names: Sequence[str]) -> str:
    return listed(names, NAMES_MAX)


_Key = TypeVar("_Key", bound=Hashable)


def _grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> Mapping[_Key, list[_Item]]:
    """Return items by key, both in order of appearance."""
    found: dict[_Key, list[_Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def _summary(plan: Plan) -> str:
    counts = {action: sum(one.action is action for one in plan.differences) for action in Action}
    numbers = ", ".join(f"{count} to {action}" for action, count in counts.items() if count)
    moving = sum(move.walks for move in plan.reach.moves)
    return f"{numbers}; walks that move: {moving}"
