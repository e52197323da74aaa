"""Findings and certificates as lists of the API. Spec: K29."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mesh.api.items import Items, endpoint_items
from mesh.api.live import Snapshot
from mesh.config.nearest import check_node, nearest
from mesh.errors import wrong_input
from mesh.model.findings import NEWS, FindingKind
from mesh.operate.audit.advice import advice_for, commands_for
from mesh.operate.audit.trail import Said
from mesh.operate.messages.trace import parts_of_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofSelection:
    """What of the auditor's words is asked for.

    Attributes:
        endpoint: `node/name`; empty for all.
        from_ms, to_ms: Only what speaks for any of this time; None has no limit.
        at_ms: As it stood at this moment; None is now.
    """

    endpoint: str = ""
    from_ms: int | None = None
    to_ms: int | None = None
    at_ms: int | None = None

    def takes(self, said: Said) -> bool:
        """Return whether something is asked for."""
        first_ms, last_ms = said.time
        return (
            said.holds_at(self.at_ms)
            and (not self.endpoint or said.entry.get("endpoint") == self.endpoint)
            and (self.from_ms is None or last_ms >= self.from_ms)
            and (self.to_ms is None or first_ms <= self.to_ms)
        )


def check_kind(snapshot: Snapshot, kind: str) -> None:
    """Refuse a kind of findings that there is not: an empty list would say that all is well.

    Raises:
        ConfigError: No auditor has findings of this kind, a newer one that writes here neither.
    """
    said = [str(one.entry.get("kind")) for one in list(snapshot.watch.trail.findings.values())]
    if kind and kind not in {*FindingKind, *said}:
        text = f"the auditor has no finding {kind[:64]!r}{nearest(kind, list(FindingKind))}"
        raise wrong_input("kind", text)


def check_endpoint(snapshot: Snapshot, endpoint: str, at_ms: int | None) -> None:
    """Refuse an endpoint of which nobody has ever heard, for the same reason.

    Raises:
        ConfigError: It is neither there now nor was at that moment, and the auditor never named it.
    """
    trail = snapshot.watch.trail
    if not endpoint or endpoint in trail.summed:
        return
    said = [*list(trail.findings.values()), *list(trail.certificates.values())]
    if any(one.entry.get("endpoint") == endpoint for one in said):
        return
    node, slash, name = endpoint.partition("/")
    if not (slash and name):
        raise wrong_input("endpoint", f"{endpoint[:80]!r} is not an endpoint; write NODE/NAME")
    check_node(snapshot.seen.topology, node, "endpoint")
    if snapshot.seen.view.is_unreachable(node):
        return  # nobody knows which it has
    names = [one["name"] for _, one in endpoint_items(snapshot, node, at_ms)]
    if name not in names:
        text = f"node {node} has no endpoint {name[:80]!r}{nearest(name, names)}"
        raise wrong_input("endpoint", text, code="UNKNOWN_ENDPOINT")


def id_asked(message: str) -> str:
    """Return the id of a message as findings write it, whichever of its forms somebody wrote.

    Raises:
        ConfigError: It is no id.
    """
    topic, (partition, generation, offset) = parts_of_id(message, "message")
    return f"{topic}/{partition}/{generation}/{offset}"


def finding_items(
    snapshot: Snapshot, wanted: ProofSelection, *, kind: str = "", message: str = ""
) -> Items:
    """Return findings, the newest first.

    Args:
        snapshot: The mesh.
        wanted: Which.
        kind: Only of this kind.
        message: Only those that name this message.

    Raises:
        ConfigError: That is no message.
    """
    message = id_asked(message) if message else ""
    found = [
        (f"{(1 << 45) - said.first_ms:015d} {said.key}", finding_item(said))
        for said in list(snapshot.watch.trail.findings.values())
        if wanted.takes(said)
        and (not kind or said.entry.get("kind") == kind)
        and (not message or any(is_among(message, one) for one in said.entry.get("ids") or ()))
    ]
    return sorted(found, key=lambda pair: pair[0])


def is_among(message: str, ids: str) -> bool:
    """Return whether a message is one of those that a text names: `t/0/0/5` or `t/0/0/5-9`."""
    (stem, _, offset), (topic, _, offsets) = message.rpartition("/"), ids.rpartition("/")
    first, _, last = offsets.partition("-")
    numbers = (first, offset, last or first)
    are_numbers = all(one.isascii() and one.isdecimal() and len(one) < 20 for one in numbers)
    return stem == topic and are_numbers and int(first) <= int(offset) <= int(last or first)


def finding_item(said: Said) -> Mapping[str, Any]:
    """Return a finding with when it was said, whether it is a fault, and what to do."""
    entry = dict(said.entry)
    entry.setdefault("id", said.key)
    return {
        **entry,
        "first_said_ms": said.first_ms,
        "last_said_ms": said.last_ms,
        "is_fault": entry.get("kind") not in NEWS,
        "advice": advice_for(entry),
        "commands": commands_for(entry),
    }


def certificate_items(snapshot: Snapshot, wanted: ProofSelection) -> Items:
    """Return certificates, by source, block and endpoint."""
    found = [
        (said.key, {**said.entry, "issued_ms": said.last_ms})
        for said in list(snapshot.watch.trail.certificates.values())
        if wanted.takes(said)
    ]
    return sorted(found, key=lambda pair: pair[0])
