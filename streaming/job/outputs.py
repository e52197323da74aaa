"""Findings, certificates and figures as the JSON that people and the lab read. Spec: lab.md 2."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from heapq import nsmallest

from mesh.model.topics import TopicNames
from streaming.audits.block import Certificate
from streaming.audits.canaries import CanaryWay, WayTally
from streaming.audits.finding_register import Finding, FindingTimes, Register
from streaming.audits.hours import Hour, HourKey
from streaming.audits.interest import EndedSubscription
from streaming.audits.links import LinkCount
from streaming.audits.minutes import MinutesReport
from streaming.audits.rules import RULES
from streaming.connectors.sink import SinkRecord
from streaming.job.state import State
from streaming.tables.rows import HOUR_MS, MINUTE_MS
from streaming.tables.topics import ENDPOINT, NAMES_KEPT, place_of

WAITING_MAX = 100
"""Ranges that are not certified yet, spelled out in a status record."""

ENDPOINTS_MAX = 2_000
"""Endpoints that one record names: of more, the next ones are in records of their own, so that
none outgrows what a broker takes, however many there are."""

POSITIONS_MAX = 1_000
"""Partitions whose positions a status record spells out: first those that nodes write for nodes."""

STATUS = "position"
"""Key of the status record."""

TEXT_MAX = 4_000
"""Characters of a finding's text, and of a path: what strangers write makes no record too large."""

DAY_MS = 24 * HOUR_MS

TABLES: Mapping[str, Mapping[str, str]] = {
    "findings": {"cleanup.policy": "compact"},
    "history": {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)},
    "certificates": {"cleanup.policy": "compact,delete", "retention.ms": str(2 * DAY_MS)},
    "hours": {"cleanup.policy": "compact,delete", "retention.ms": str(30 * DAY_MS)},
    "links": {"cleanup.policy": "compact"},
    "minutes": {"cleanup.policy": "delete", "retention.ms": str(DAY_MS + HOUR_MS)},
    "link-hours": {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)},
    "subscriptions": {"cleanup.policy": "delete", "retention.ms": str(30 * DAY_MS)},
    "canaries": {"cleanup.policy": "compact"},
    "status": {"cleanup.policy": "compact"},
}
"""Topics `<prefix>audit.<table>`, and how long what they hold is kept."""


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
"""Made once: certificates are many."""


def _text(value: object) -> str:
    return _ENCODER.encode(value)


def finding_json(id_: str, finding: Finding, seen: FindingTimes) -> str:
    """Return a finding: the fields of lab.md 2, then what people need to follow it up."""
    rule = RULES[finding.kind]
    more = f" ({finding.count} messages)" if finding.count > 1 else ""
    return _text(
        {
            "kind": finding.kind.value,
            "ids": list(finding.ids),
            "link": finding.link or None,
            "endpoint": finding.endpoint or None,
            "path": ">".join(finding.path)[:TEXT_MAX] or None,
            "first": finding.first,
            "last": finding.last,
            "text": f"{finding.text[:TEXT_MAX]}{more}",
            "id": id_,
            "source": finding.source or None,
            "count": finding.count,
            "node": finding.node or None,
            "first_seen_ms": seen.first_ms,
            "last_seen_ms": seen.last_ms,
            "run": seen.run,
            "is_news": finding.kind.is_news,
            "rule": rule.text,
            "evidence": list(finding.evidence),
            "what_to_do": rule.advice,
        }
    )


@lru_cache(maxsize=NAMES_KEPT)
def _quoted(text: str) -> str:
    return _text(text)


_WORDS = {True: "true", False: "false"}


def certificate_json(certificate: Certificate, at_ms: int, run: str) -> str:
    """Return a certificate in the form of lab.md 2, with both digests, time and run.

    They are many and all alike: so it is written as what it is, and no encoder looks for that.
    """
    one, digest = certificate, certificate.digest
    first_ms, last_ms = one.first_ms, one.last_ms
    return (
        f'{{"source":{_quoted(one.source)},"block":{one.block},"from":{one.first},"to":{one.last}'
        f',"endpoint":{_quoted(one.endpoint)},"expected":{one.expected}'
        f',"delivered":{one.delivered},"equal":{_WORDS[one.equal]},"partial":{_WORDS[one.partial]}'
        f',"sure":{_WORDS[one.sure]},"ids_digest":"{digest.ids_text}"'
        f',"content_digest":"{digest.content_text}"'
        f',"first_ms":{"null" if first_ms is None else first_ms}'
        f',"last_ms":{"null" if last_ms is None else last_ms},"at_ms":{at_ms}'
        f',"run":{_quoted(run)}}}'
    )


def link_json(link: str, count: LinkCount, rate: float) -> str:
    """Return the figures of one direction of a link; `rate` in messages per second."""
    return _text(
        {
            "link": link,
            "messages": count.messages,
            "frames": count.frames,
            "repairs": count.repairs,
            "direct": count.direct,
            "direct_read": count.direct_read,
            "messages_per_s": round(rate, 1),
            "not_forwarded": count.not_forwarded,
            "dropped": count.dropped,
        }
    )


def status_records(
    state: State,
    names: TopicNames,
    at_ms: int,
    sources: Mapping[str, Mapping[str, object]],
    *,
    is_final: bool,
) -> Iterator[SinkRecord]:
    """Yield how far the auditor has read, and what it has not certified yet.

    The status comes last: who has read it has read the endpoints that it does not name.
    """
    endpoints = [*map(str, sorted((*state.interest.certified(), *state.interest.shared())))]
    parts = range(ENDPOINTS_MAX, len(endpoints), ENDPOINTS_MAX)
    for number, begin in enumerate(parts, 1):
        told = {"endpoints": endpoints[begin : begin + ENDPOINTS_MAX]}
        yield SinkRecord(names.audit("status"), f"endpoints {number}", _text(told))
    waiting = state.certifier.waiting
    status = {
        "batch": state.batch,
        "at_ms": at_ms,
        "final": is_final,
        "findings": state.register.count,
        "uncertified": len(waiting),
        "endpoints": endpoints[:ENDPOINTS_MAX],
        "more_endpoints": len(parts),
        "waiting": [
            {
                "source": one.source,
                "block": one.block,
                "endpoint": one.endpoint,
                "to": one.last,
                "reason": one.reason,
            }
            for one in waiting[:WAITING_MAX]
        ],
        "sources": sources,
        "partitions": len(state.read),
        "offsets": sum(state.read.values()),
        "positions": _positions(state),
    }
    yield SinkRecord(names.audit("status"), STATUS, _text(status))


def _positions(state: State) -> Mapping[str, Mapping[str, int]]:
    """Return the next offsets to read, by topic and partition, of no more than `POSITIONS_MAX`."""
    prefix = state.eras.prefix
    told = nsmallest(
        POSITIONS_MAX,
        state.read,
        key=lambda place: (place_of(prefix, place.topic).kind == ENDPOINT, place),
    )
    found: dict[str, dict[str, int]] = {}
    for place in sorted(told):
        found.setdefault(place.topic, {})[str(place.partition)] = state.read[place]
    return found


def canary_json(way: CanaryWay, what: Sequence[str], tally: WayTally, at_ms: int) -> str:
    """Return how canaries fare on one way; times in milliseconds."""
    recent = [round(seconds * 1000, 1) for seconds in tally.recent_s]
    return _text(
        {
            "way": str(way),
            "for": list(what),
            "sent": tally.sent,
            "arrived": tally.arrived,
            "lost": tally.lost,
            "latency_ms": recent[-1] if recent else None,
            "slowest_ms": max(recent, default=None),
            "at_ms": at_ms,
        }
    )


def hour_json(key: HourKey, hour: Hour) -> str:
    """Return the summary record of one hour's certificates."""
    return _text(
        {
            "source": key.source,
            "endpoint": key.endpoint,
            "from_ms": key.hour * HOUR_MS,
            "to_ms": (key.hour + 1) * HOUR_MS,
            "certificates": hour.certificates,
            "differing": hour.differing,
            "unsure": hour.unsure,
            "expected": hour.expected,
            "delivered": hour.delivered,
        }
    )


def minutes_json(report: MinutesReport) -> str:
    """Return what crossed a link in a minute or an hour, or that a Kafka cluster was read then."""
    span = {
        "from_ms": report.first * MINUTE_MS,
        "to_ms": (report.first + report.span) * MINUTE_MS,
        "minutes": report.minutes,
    }
    if report.crossed is None:
        return _text({"kafka": report.of, **span})
    return _text({"link": report.of, **span, **asdict(report.crossed)})


def subscription_json(ended: EndedSubscription) -> str:
    """Return a subscription that has ended, with its times."""
    return _text(
        {
            "endpoint": str(ended.endpoint),
            "filter": ended.filter,
            "kind": str(ended.asked.kind),
            "class": str(ended.asked.message_class),
            "noexport": ended.asked.noexport,
            "from_ms": ended.from_ms,
            "to_ms": ended.to_ms,
        }
    )


def take_findings(register: Register, names: TopicNames) -> Iterator[SinkRecord]:
    """Yield the findings that are new, that have grown or are taken back, as records."""
    for id_, finding in register.take_unpublished():
        value = None if finding is None else finding_json(id_, finding, register.seen[id_])
        yield SinkRecord(names.audit("findings"), id_, value)
        taken_back = {"id": id_, "taken_back_ms": register.now_ms, "run": register.run}
        yield SinkRecord(names.audit("history"), id_, value or _text(taken_back))


def take_outputs(
    state: State,
    names: TopicNames,
    rates: Mapping[str, float],
    read: Sequence[str] = (),
    *,
    is_last: bool = False,
) -> Iterator[SinkRecord]:
    """Yield what has changed since the last time, as records.

    Args:
        state: All audits.
        names: Of topics.
        rates: Messages per second, by link.
        read: Kafka clusters of which all that there is has been read.
        is_last: There will be no later time.
    """
    register = state.register
    yield from take_findings(register, names)
    for hour_key, hour in state.certifier.hours.take(register.now_ms, is_last=is_last):
        yield SinkRecord(names.audit("hours"), str(hour_key), hour_json(hour_key, hour))
    for key, certificate in state.certifier.unpublished.items():
        text = certificate_json(certificate, register.now_ms, register.run)
        yield SinkRecord(names.audit("certificates"), key, text)
    state.certifier.unpublished.clear()
    for link in sorted(state.links.changed):
        value = link_json(link, state.links.counts[link], rates.get(link, 0.0))
        yield SinkRecord(names.audit("links"), link, value)
    state.links.changed.clear()
    for ended in state.interest.past:
        key = f"{ended.endpoint} {ended.filter} {ended.from_ms}"
        yield SinkRecord(names.audit("subscriptions"), key, subscription_json(ended))
    state.interest.past.clear()
    for kafka in read:
        for report in state.minutes.take(kafka):
            table = "minutes" if report.span == 1 else "link-hours"
            yield SinkRecord(names.audit(table), report.key, minutes_json(report))
