"""`mesh status` and `mesh links`: the mesh as its control topics show it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from mesh.cli.render import Output, OutputOption, grid, in_utc, of_today, render_verdict
from mesh.cli.session import CommandSession, Heard, open_session
from mesh.cli.target import HERE, Target
from mesh.errors import TransportError
from mesh.model.words import LinkWord, NodeWord
from mesh.transport import clock

if TYPE_CHECKING:
    from mesh.operate.audit.proof import ProofProgress


def status(
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every node: up or down, its links, and whether its subscriptions are known.

    Exit code 10: some node or link is not up. A link that operators disabled is no fault.
    """
    from mesh.operate.documents.status import status_document

    with open_session(target, heard=Heard.ANYBODY) as seen:
        wall_ms = clock.wall_ms()
        proof = asdict(_proof(seen, wall_ms))
        data = status_document(seen, wall_ms)
    data = {**data, "proof": proof}
    render_verdict(data, lambda: _status_table(data), output)


def _proof(seen: CommandSession, wall_ms: int) -> ProofProgress:
    """Return how far all is proven, by what the auditor has written until now."""
    from mesh.operate.audit.proof import proof_of
    from mesh.operate.audit.trail import AuditTrail

    where = seen.topology.audit_kafka
    kafka = None if where in seen.view.unreachable else seen.kafka.get(where)
    trail = AuditTrail(seen.topology, None, clock.now_ms)
    if kafka is not None:
        with suppress(TransportError):  # it answered a moment ago: nothing of the audit is known
            trail = AuditTrail.read_once(seen.topology, kafka, clock.now_ms)
    return proof_of(trail, wall_ms)


def _proof_text(proof: Mapping[str, Any]) -> str:
    """Return how far all is proven, in a few words; nothing where nobody audits."""
    troubles = {"findings": proof["text"], "blind": "the auditor is not heard"}
    until_ms = proof["until_ms"]
    until = "" if until_ms is None else f"proven until {of_today(in_utc(until_ms))}"
    return "; ".join(filter(None, (troubles.get(proof["state"]), until)))


def _change_text(change: Mapping[str, Any]) -> str:
    holding = ", ".join(change["holding"]) or "no node"
    return (
        f"a change to version {change['version']} has been at stage {change['stage']} for "
        f"{change['since_s']:.0f} s; paused: {holding}"
    )


def _parts_text(what: str, parts: Sequence[Sequence[str]]) -> str:
    shown = " | ".join(", ".join(part) for part in parts)
    return f"for roles on trees {what} is in {len(parts)} parts: {shown}"


def _status_table(data: Mapping[str, Any]) -> RenderableType:
    """Return how the mesh is in a sentence, then what is unusual, then every node."""
    nodes, change, parts = data["nodes"], data["change"], data["parts"]
    columns: Mapping[str, Sequence[object]] = {
        "NODE": [node["node"] for node in nodes],
        "KAFKA": [node["kafka"] for node in nodes],
        "STATE": [node["state"] for node in nodes],
        "EPOCH": [node["epoch"] for node in nodes],
        "LANES": _unless_all(1, [node["lanes"] for node in nodes]),
        "ENDPOINTS": _unless_all(0, [node["endpoints"] for node in nodes]),
        "FILTERS": _unless_all(0, [node["subscriptions"] for node in nodes]),
        "KNOWN": [_KNOWN[node["known_everywhere"]] for node in nodes],
        "LINKS": [_link_states(node["links"]) for node in nodes],
    }
    shown = {name: values for name, values in columns.items() if values}
    rows = [list(row) for row in zip(*shown.values(), strict=True)]
    sentence = "; ".join(filter(None, (headline(nodes), _proof_text(data["proof"]))))
    lines = [sentence, *([] if change is None else [_change_text(change)])]
    if len(parts) > 1:
        lines.append(_parts_text("the mesh", parts))
    for realm, inside in data["realms"].items():
        if len(inside) > 1:
            lines.append(_parts_text(f"realm {realm}", inside))
    lines += [line for node in nodes for line in _unusual(node)]
    if not data["ok"]:
        lines.append("what to do about it: mesh doctor")
    return Group(*lines, grid(tuple(shown), rows))


_KNOWN: Mapping[bool | None, str] = {True: "yes", False: "no", None: "?"}
"""Whether what a node's clients want is known everywhere."""


def _unless_all(usual: object, values: Sequence[object]) -> Sequence[object]:
    """Return the values of a column, or none where it says nothing."""
    return [] if all(value == usual for value in values) else values


def headline(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Return how a mesh is, in one sentence for people."""
    named: dict[str, list[str]] = {}
    for node in nodes:
        named.setdefault(node["state"], []).append(node["node"])
    parts = [", ".join(_nodes(state, named[state]) for state in sorted(named, key=_up_first))]
    states: dict[frozenset[str], set[str]] = {}
    for node in nodes:
        for other, state in node["links"].items():
            states.setdefault(frozenset((node["node"], other)), set()).add(state)
    links = Counter(min(found - {LinkWord.UP}, default=LinkWord.UP) for found in states.values())
    if links:
        listed = (_counted(links[state], "link", state) for state in sorted(links, key=_up_first))
        parts[0] += ", " + ", ".join(listed)
    late = [node["node"] for node in nodes if node["known_everywhere"] is False]
    unknown = [node["node"] for node in nodes if node["known_everywhere"] is None]
    if late:
        parts.append(f"subscriptions of {_some(late)} are not known everywhere yet")
    if unknown:
        whose = _some(unknown)
        parts.append(f"whether subscriptions of {whose} are known everywhere cannot be seen")
    if not late and not unknown:
        parts.append("every subscription is known everywhere")
    return "; ".join(parts)


NAMED_MAX = 5
"""Nodes that a sentence names; the table below has all."""


def _some(nodes: Sequence[str]) -> str:
    more = len(nodes) - NAMED_MAX
    return ", ".join([*nodes[:NAMED_MAX], *([f"{more} more"] if more > 0 else [])])


def _up_first(state: str) -> tuple[bool, str]:
    return state not in (NodeWord.UP, LinkWord.UP), state


def _nodes(state: str, names: Sequence[str]) -> str:
    """Return `12 nodes up`, or `1 node down (ny1)`."""
    counted = _counted(len(names), "node", state)
    return counted if state == NodeWord.UP else f"{counted} ({_some(names)})"


def _counted(count: int, noun: str, state: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'} {state}"


def _unusual(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each thing of a node that somebody should know."""
    name = node["node"]
    if node["lost_topology"] is not None:
        version = node["lost_topology"]
        yield f"{name}: reads nothing: mesh.config has lost version {version}, by which it worked"
    if (version := node["unrecorded_topology"]) is not None:
        lost = f"mesh.config has lost version {version}, by which it works"
        yield f"{name}: {lost}: a worker that has started since reads nothing"
    if node["known_everywhere"] is False and node["open_links"]:
        links = ", ".join(node["open_links"])
        yield f"{name}: its subscriptions are not acknowledged over {links}"
    for one in node["shut"]:
        yield f"{name}: link to {one['neighbour']} is {one['state']}: {one['reason']}"
    for one in node["stopped"]:
        yield f"{name}: stopped: {one['text']}"
    for source in dict.fromkeys(one["from"] for one in node["paused"]):
        pauses = [one for one in node["paused"] if one["from"] == source]
        yield f"{name}: an operator has paused {_paused(source, pauses)}"
    for one in node["disabled"]:
        yield f"{name}: link to {_with_why(one['neighbour'], one['why'])} is disabled"
    for one in node["paused_subjects"]:
        yield f"{name}: an operator has paused {_with_why(one['filter'], one['why'])}"
    for one in node["endpoints_full"]:
        yield f"{name}: endpoint {one['endpoint']}: {one['reason']}"


def _paused(source: str, pauses: Sequence[Mapping[str, Any]]) -> str:
    """Return `what comes from tk1 (moving house)`, or which partitions of that."""
    partitions = [one["partition"] for one in pauses]
    what = f"what comes from {source}"
    if None not in partitions:
        noun = "partition" if len(partitions) == 1 else "partitions"
        what = f"{noun} {', '.join(map(str, sorted(partitions)))} of {what}"
    return _with_why(what, "; ".join(dict.fromkeys(one["why"] for one in pauses if one["why"])))


def _with_why(what: str, why: str) -> str:
    return f"{what} ({why})" if why else what


def _link_states(states: Mapping[str, str]) -> str:
    """Return `3 up, tk1 down`."""
    up = sum(state == LinkWord.UP for state in states.values())
    others = [f"{name} {state}" for name, state in states.items() if state != LinkWord.UP]
    return ", ".join([*([f"{up} up"] if up else []), *others])


def links(
    target: Target = HERE,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show both directions of every link: state, what waits on it and how much is wanted.

    Exit code 10: some link is neither up nor disabled.
    """
    from mesh.operate.documents.links import links_document

    with open_session(target, heard=Heard.ANYBODY) as seen:
        data = links_document(seen)
    render_verdict(data, lambda: _links_table(data["links"]), output)


_LINK_COLUMNS = {
    "link": "LINK",
    "zone": "ZONE",
    "kind": "KIND",
    "state": "STATE",
    "backlog_frames": "FRAMES WAITING",
    "backlog_messages": "MESSAGES WAITING",
    "wanted": "FILTERS WANTED",
    "reason": "REASON",
}


def _links_table(links: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return how many directions are up, and each of them."""
    if not links:
        return "no links"
    states = Counter(one["state"] for one in links)
    listed = (_counted(states[one], "direction", one) for one in sorted(states, key=_up_first))
    sentence = ", ".join(listed)
    cells = {heading: [one[key] for one in links] for key, heading in _LINK_COLUMNS.items()}
    cells["REASON"] = list(_unless_all("", cells["REASON"]))
    waiting = [heading for heading in cells if heading.endswith("WAITING")]
    if not any(_unless_all(0, cells[heading]) for heading in waiting):
        sentence += "; nothing waits on them"
        cells |= {heading: [] for heading in waiting}
    shown = {heading: values for heading, values in cells.items() if values}
    return Group(sentence, grid(tuple(shown), list(zip(*shown.values(), strict=True))))
