"""The audit as a heatmap: one cell for each endpoint and minute. Spec: K29, DESIGN 7."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mesh.model.findings import NEWS, FindingKind
from mesh.operate.audit.entries import Entry, number
from mesh.operate.audit.latest import is_unsure
from mesh.operate.audit.trail import AuditTrail, Said
from mesh.operate.minutes import MINUTE_MS

MINUTES_MAX = 24 * 60


class Cell(StrEnum):
    """What is known of an endpoint in a minute; never `equal` for lack of an answer."""

    NOT_EQUAL = "not equal"
    """A certificate differs, or something was found."""
    UNPROVEN = "unproven"
    """Records were gone before the auditor read them, or a selector may have refused some."""
    WAITING = "waiting"
    """Not certified yet."""
    EQUAL = "equal"
    """Certified: exactly what was owed."""
    QUIET = "quiet"
    """The auditor ran, and there was nothing to certify."""
    BLIND = "blind"
    """The auditor was not heard in that minute."""


IsBusy = Callable[[str, int], bool]


def _never(_endpoint: str, _minute: int) -> bool:
    return False


_WORST = (Cell.NOT_EQUAL, Cell.UNPROVEN, Cell.WAITING, Cell.EQUAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap:
    """The minutes `first` to `last`, numbered from 1970 on, and the cells of each endpoint."""

    first: int
    last: int
    rows: Mapping[str, Sequence[Cell]]

    def counts(self) -> Mapping[Cell, int]:
        """Return how many cells there are of each kind."""
        cells = [cell for row in self.rows.values() for cell in row]
        return {kind: cells.count(kind) for kind in Cell}


def heatmap_of(
    trail: AuditTrail,
    endpoints: Sequence[str],
    end_ms: int,
    minutes: int,
    is_busy: IsBusy = _never,
) -> Heatmap:
    """Return the heatmap of some minutes.

    A certificate says when its records were written, or else only when it was issued itself; what
    an endpoint got in minutes before that is certified too, unless something waits.

    Args:
        trail: What the auditor said.
        endpoints: `node/endpoint`, whether certified or not; those in the trail are added.
        end_ms: It ends with the minute of this moment.
        minutes: How many.
        is_busy: Whether an endpoint got guaranteed messages in a minute, by the mesh's own account.
    """
    last = end_ms // MINUTE_MS
    first = last - minutes + 1
    found: dict[str, dict[int, Cell]] = {name: {} for name in endpoints}
    for said in list(trail.certificates.values()):
        if said.holds_at(end_ms):
            kind = Cell.EQUAL if said.entry.get("equal") else Cell.NOT_EQUAL
            kind = Cell.UNPROVEN if is_unsure(said.entry) else kind
            _mark(found, str(said.entry.get("endpoint")), kind, _span(said), first, last)
    for endpoint, summed in list(trail.summed.items()):
        for minute in range(first, last + 1):
            if summed.minutes.of(minute):
                _mark(found, endpoint, Cell.EQUAL, (minute, minute), first, last)
    for said in list(trail.findings.values()):
        name, found_as = said.entry.get("endpoint"), str(said.entry.get("kind"))
        is_unproven = found_as == FindingKind.UNPROVEN
        if name and said.holds_at(end_ms) and (is_unproven or found_as not in NEWS):
            kind = Cell.UNPROVEN if is_unproven else Cell.NOT_EQUAL
            _mark(found, str(name), kind, _span(said), first, last)
    proven = _proven(trail)
    for name, since in _waiting(trail, last, list(found)):
        if name in proven:  # one that was never certified gains nothing by waiting
            proven[name] = min(proven[name], since - 1)
        cells = found.setdefault(name, {})
        for minute in range(max(first, since), last + 1):
            # Nobody knows since when an uncertified endpoint waits: not in quiet minutes.
            is_due = since > 0 or minute == last
            if is_due or cells.get(minute) is Cell.EQUAL or is_busy(name, minute):
                _mark(found, name, Cell.WAITING, (minute, minute), first, last)

    def empty(name: str, minute: int) -> Cell:
        if is_busy(name, minute):
            if minute <= proven.get(name, -1):
                return Cell.EQUAL
            return Cell.WAITING if minute in trail.heard else Cell.BLIND
        return Cell.QUIET if minute in trail.heard else Cell.BLIND

    return Heatmap(
        first=first,
        last=last,
        rows={
            name: [cells.get(at) or empty(name, at) for at in range(first, last + 1)]
            for name, cells in sorted(found.items())
        },
    )


def _proven(trail: AuditTrail) -> dict[str, int]:
    """Return the last minute in which everything that reached an endpoint is certified, or waits.

    Certificates state when messages were routed. Slow ones arrived later than that: they are
    certified, too, if everything that was written by then has been read.
    """
    read_ms = trail.audited().read_ms()
    read = 0 if read_ms is None else read_ms // MINUTE_MS - 1
    found: dict[str, int] = {}
    unequal: dict[str, None] = {}
    for said in list(trail.certificates.values()):
        name = str(said.entry.get("endpoint"))
        found[name] = max(found.get(name, read), _span(said)[1] - 1)
        if not said.entry.get("equal") or is_unsure(said.entry):
            unequal[name] = None
    return {name: minute for name, minute in found.items() if name not in unequal}


def _span(said: Said) -> tuple[int, int]:
    """Return the minutes that a statement covers."""
    first_ms, last_ms = said.time
    return first_ms // MINUTE_MS, last_ms // MINUTE_MS


EVERY = "*"
"""The auditor's name for all endpoints of a source, while it does not know yet which exist."""


def _waiting(trail: AuditTrail, last: int, names: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield endpoints that wait for something, and the minute since when.

    If the auditor has not read a Kafka cluster at all, nothing is proven of any endpoint: it does
    not know yet what waits there.
    """
    at_ms = trail.status.get("at_ms")
    now = int(at_ms) // MINUTE_MS if isinstance(at_ms, (int, float)) else last
    until = _certified_until(trail)
    told = trail.status.get("waiting")
    waiting = told if isinstance(told, list) else []
    for one in waiting:
        source, endpoint = str(one.get("source")), str(one.get("endpoint"))
        for name in names if endpoint == EVERY else [endpoint]:
            yield name, min(_since(until.get(source, {}), name, _block(one)), now)
    if number(trail.status.get("uncertified")) > len(waiting):
        for name in names:  # not everything that waits is listed
            certified = [moment for of in until.values() for moment in of.get(name, {}).values()]
            yield name, min(max(certified, default=0), now)
    sources, positions = trail.audited().sources().values(), trail.status.get("positions")
    if any(one.get("unread") for one in sources):
        since = now if positions else 0
        yield from ((name, since) for name in names)


Until = Mapping[str, Mapping[int, int]]
"""By endpoint and block, the minute after the certificate was issued, or after its records."""


def _since(until: Until, name: str, block: int) -> int:
    """Return the minute since when a block of a source can wait for an endpoint; 0 if unknown.

    The part that is certified does not wait, and earlier blocks have entries of their own. That
    other endpoints are certified in the same block says nothing about this one.
    """
    own = [moment for number, moment in until.get(name, {}).items() if number <= block]
    before = [moment for of in until.values() for number, moment in of.items() if number < block]
    return max([*own, *before], default=0)


def _certified_until(trail: AuditTrail) -> Mapping[str, Until]:
    """Return for each source how far its blocks are certified."""
    found: dict[str, dict[str, dict[int, int]]] = {}
    for said in list(trail.certificates.values()):
        of = found.setdefault(str(said.entry.get("source")), {})
        blocks = of.setdefault(str(said.entry.get("endpoint")), {})
        blocks[_block(said.entry)] = max(blocks.get(_block(said.entry), 0), _span(said)[1] + 1)
    return found


def _block(entry: Entry) -> int:
    return int(number(entry.get("block")))


def _mark(
    found: dict[str, dict[int, Cell]],
    name: str,
    kind: Cell,
    span: tuple[int, int],
    first: int,
    last: int,
) -> None:
    cells = found.setdefault(name, {})
    for minute in range(max(first, span[0]), min(last, span[1]) + 1):
        before = cells.get(minute)
        if before is None or _WORST.index(kind) < _WORST.index(before):
            cells[minute] = kind
