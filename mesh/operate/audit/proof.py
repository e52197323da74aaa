"""How far everything is proven: the sentence that begins every view of a mesh. Spec: DESIGN 7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from mesh.model.counted import counted
from mesh.model.findings import NEWS
from mesh.operate.audit.entries import number
from mesh.operate.audit.latest import FRESH_S
from mesh.operate.audit.trail import AuditTrail, Said


class ProofState(StrEnum):
    """How a mesh is proven; if several states hold, the worst, which comes first."""

    NONE = "none"
    """No auditor has ever reported anything."""
    BLIND = "blind"
    """The auditor is silent: nothing newer than its last report is proven."""
    FINDINGS = "findings"
    """Faults were found, certificates differ, or somebody removed findings."""
    PARTIAL = "partial"
    """Nothing is known to be wrong, but something is not proven yet."""
    PROVEN = "proven"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofProgress:
    """How far all is proven.

    Attributes:
        state: The state as one word.
        text: A sentence without times: it changes with the state, and not every second.
        until_ms: Everything published before this is proven; None if that cannot be said.
        heard_ms: When the auditor last reported; None if never.
        open: Findings that are faults and were not withdrawn.
        doubts: Why it is not proven, one line each.
    """

    state: ProofState
    text: str
    until_ms: int | None
    heard_ms: int | None
    open: int
    doubts: tuple[str, ...]


def proof_of(trail: AuditTrail, wall_ms: int, at_ms: int | None = None) -> ProofProgress:
    """Return how far all is proven.

    Args:
        trail: What the auditor says.
        wall_ms: Now, ms since 1970.
        at_ms: A past moment, for findings and certificates as of then; None is now.
    """
    audited = trail.audited(at_ms)
    faults = [one for one in audited.findings if str(one.get("kind")) not in NEWS]
    doubts = tuple(audited.doubts(wall_ms if at_ms is None else at_ms))
    heard_ms = _heard_ms(trail.status)
    until_ms = proven_until_ms(trail) if at_ms is None else None
    unequal = max(
        sum(not one.get("equal") for one in audited.certificates),
        sum(int(number(one.get("differing"))) for one in audited.hours),
    )
    is_split = audited.split() is not None
    wrong = _wrong(len(faults), unequal, audited.removed, is_split=is_split)
    if heard_ms is None:
        state, text = ProofState.NONE, "No audit: no auditor has said anything here"
    elif at_ms is None and abs(wall_ms - heard_ms) > FRESH_S * 1000:
        state, text = ProofState.BLIND, "Audit blind: the auditor is not heard"
    elif faults or unequal or is_split or audited.removed:
        state, text = ProofState.FINDINGS, wrong
    elif at_ms is not None and not trail.was_heard(at_ms):
        state, text = ProofState.BLIND, "Not on record: the auditor was not heard then"
    elif doubts or (at_ms is None and until_ms is None):
        state, text = ProofState.PARTIAL, "Not all is proven yet"
    else:
        state, text = ProofState.PROVEN, "Proven, no findings"
    if state is ProofState.BLIND and faults:
        text += f"; {wrong}"
    return ProofProgress(
        state=state,
        text=text,
        until_ms=until_ms,
        heard_ms=heard_ms,
        open=len(faults),
        doubts=doubts,
    )


def _wrong(faults: int, unequal: int, removed: int, *, is_split: bool) -> str:
    reasons = [f"{counted(faults, 'finding')} open"] if faults else []
    if removed:
        reasons.append(f"{counted(removed, 'finding')} removed by somebody")
    if unequal and not faults:
        reasons.append(f"{unequal} certificate{' differs' if unequal == 1 else 's differ'}")
    return ", ".join([*reasons, *(["the mesh is split"] if is_split else [])])


def _heard_ms(status: Mapping[str, object]) -> int | None:
    at_ms = status.get("at_ms")
    return int(at_ms) if isinstance(at_ms, (int, float)) else None


def proven_until_ms(trail: AuditTrail) -> int | None:
    """Return up to when everything is certified, by what the auditor says is not; None if unknown.

    If nothing waits, that is as far as everything has been read. A waiting range was certified up
    to its last certificate, and that was written after the messages it covers.
    """
    status = trail.status
    heard_ms = _heard_ms(status)
    if heard_ms is None or not trail.certificates:
        return None
    if not status.get("uncertified"):
        read_ms = trail.audited().read_ms()
        return heard_ms if read_ms is None else min(heard_ms, read_ms)
    newest = _newest(list(trail.certificates.values()))
    waiting = status.get("waiting")
    listed = waiting if isinstance(waiting, list) else []
    if len(listed) < int(number(status.get("uncertified"))):
        return min(newest.values(), default=None)  # not everything that waits is listed
    until = [newest.get((str(one.get("source")), str(one.get("endpoint")))) for one in listed]
    known = [moment for moment in until if moment is not None]
    return min(known) if len(known) == len(until) else None


def _newest(certificates: Iterable[Said]) -> Mapping[tuple[str, str], int]:
    """Return when each endpoint was last certified, per source."""
    found: dict[tuple[str, str], int] = {}
    for said in certificates:
        key = (str(said.entry.get("source")), str(said.entry.get("endpoint")))
        last_ms = said.entry.get("last_ms")
        moment = int(last_ms) if isinstance(last_ms, (int, float)) else said.last_ms
        found[key] = max(found.get(key, 0), moment)
    return found
