"""Judges a history: what is lost, doubled, out of order, torn, risen from the dead or made up.

Memory grows by one bit per endpoint and message; held records pass by one at a time.
Spec: DESIGN 6, reliability.md 4.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from mesh.errors import InvariantError
from mesh.lab.checker.history import HeldRecord, History, Publish, PublishOutcome, SubscriptionSpan
from mesh.lab.checker.matching import wants

KINDS = {
    "lost": "acknowledged, drained and not there",
    "unseen": "acknowledged and not there when the drain ran out of time",
    "duplicated": "there more than once",
    "reordered": "behind a later one of the same publisher, key and partition",
    "torn": "missing of a publisher's transaction that is there in part",
    "resurrected": "there although the publish failed or was aborted",
    "phantom": "never published, or wanted by no filter of the endpoint",
    "corrupt": "there with another subject, key, header or identity",
}
"""Kinds of anomalies, and what they say of the messages they name."""

IDS_MAX = 20


@dataclass(frozen=True, slots=True)
class Anomaly:
    """What is wrong at one endpoint.

    Attributes:
        kind: One of `KINDS`.
        endpoint: `node/name`.
        ids: Payloads of the first messages concerned.
        count: How many are concerned.
    """

    kind: str
    endpoint: str
    ids: Sequence[str]
    count: int

    @property
    def text(self) -> str:
        """Return it as a sentence."""
        messages = "1 message" if self.count == 1 else f"{self.count} messages"
        return f"{self.endpoint}: {messages} {KINDS[self.kind]}"


@dataclass(frozen=True, slots=True)
class CheckerVerdict:
    """What the checker says.

    Attributes:
        published: Messages by outcome.
        delivered: Records that endpoints hold.
        owed: Messages that had to be there, counted once per endpoint.
        anomalies: By kind and endpoint.
    """

    published: Mapping[str, int]
    delivered: int
    owed: int
    anomalies: Sequence[Anomaly]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.anomalies

    def document(self) -> dict[str, object]:
        """Return it as scripts read it."""
        return {
            "ok": self.ok,
            "published": dict(self.published),
            "delivered": self.delivered,
            "owed": self.owed,
            "anomalies": [
                {"kind": one.kind, "endpoint": one.endpoint, "ids": list(one.ids), "text": one.text}
                for one in self.anomalies
            ],
        }


@dataclass(slots=True)
class _Endpoint:
    """One endpoint: its subscriptions, one bit per message there, the newest per stream."""

    name: str
    subscriptions: list[SubscriptionSpan] = field(default_factory=list)
    there: dict[str, bytearray] = field(default_factory=dict)
    newest: dict[tuple[int, str, str | None, int], int] = field(default_factory=dict)
    matching: dict[str, list[SubscriptionSpan]] = field(default_factory=dict)

    def matches(self, subject: str) -> Sequence[SubscriptionSpan]:
        """Return the subscriptions whose filter matches."""
        if subject not in self.matching:
            self.matching[subject] = [
                one for one in self.subscriptions if wants(one.filter, subject)
            ]
        return self.matching[subject]

    def has(self, publish: Publish) -> bool:
        """Return whether the message is there."""
        bits = self.there.get(publish.publisher, b"")
        byte, bit = divmod(publish.sequence, 8)
        return byte < len(bits) and bool(bits[byte] >> bit & 1)

    def mark(self, publish: Publish) -> None:
        """Note that the message is there."""
        bits = self.there.setdefault(publish.publisher, bytearray())
        byte, bit = divmod(publish.sequence, 8)
        if byte >= len(bits):
            bits.extend(bytes(byte + 1 - len(bits)))
        bits[byte] |= 1 << bit


Comes = Callable[[Publish, SubscriptionSpan], bool]
"""Whether a message must come to an endpoint that wants it all the while."""


def check(history: History, comes: Comes | None = None) -> CheckerVerdict:
    """Judge a history.

    Args:
        history: What clients were told, and what endpoints hold.
        comes: Which ways there are; by the origins of the history if left out.

    Raises:
        InvariantError: A publisher used a number twice.
    """
    return _Check(history, comes).verdict()


class _Check:
    """One pass over a history."""

    def __init__(self, history: History, comes: Comes | None) -> None:
        self._history = history
        self._comes = comes or self._comes_by_origins
        self._publishes: dict[str, Publish] = {}
        self._places: dict[tuple[str, int, int], Publish] = {}
        for publish in history.publishes:
            if publish.payload in self._publishes:
                raise InvariantError(f"two publishes are called {publish.payload}")
            self._publishes[publish.payload] = publish
            if publish.offset is not None:
                place = (publish.topic, publish.partition, publish.offset)
                self._places[place] = publish
        self._endpoints: dict[str, _Endpoint] = {}
        for subscription in history.subscriptions:
            self._endpoint(subscription.endpoint).subscriptions.append(subscription)
        self._found: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._counts: Counter[tuple[str, str]] = Counter()

    def _endpoint(self, name: str) -> _Endpoint:
        return self._endpoints.setdefault(name, _Endpoint(name))

    def _complain(self, kind: str, endpoint: str, payload: str) -> None:
        self._counts[kind, endpoint] += 1
        ids = self._found[kind, endpoint]
        if len(ids) < IDS_MAX and payload not in ids:
            ids.append(payload)

    def verdict(self) -> CheckerVerdict:
        delivered = 0
        for held in self._history.held:
            delivered += 1
            self._look_at(held)
        owed = sum(self._look_for_absent(endpoint) for endpoint in self._endpoints.values())
        counts = Counter(publish.outcome.value for publish in self._history.publishes)
        return CheckerVerdict(
            published={outcome.value: counts[outcome.value] for outcome in PublishOutcome},
            delivered=delivered,
            owed=owed,
            anomalies=[
                Anomaly(kind, endpoint, self._found[kind, endpoint], count)
                for (kind, endpoint), count in sorted(self._counts.items())
            ],
        )

    # -- what is there ----------------------------------------------------------------------

    def _look_at(self, held: HeldRecord) -> None:
        publish = self._publishes.get(held.payload)
        if publish is None:
            # A known identity with another payload was published, and changed on its way.
            known = held.origin is not None and held.origin in self._places
            self._complain("corrupt" if known else "phantom", held.endpoint, held.payload)
            return
        endpoint = self._endpoint(held.endpoint)
        if _is_changed(publish, held):
            self._complain("corrupt", held.endpoint, held.payload)
        if publish.outcome is PublishOutcome.FAILED:
            self._complain("resurrected", held.endpoint, held.payload)
        if not any(
            self._may(subscription, publish) for subscription in endpoint.matches(publish.subject)
        ):
            self._complain("phantom", held.endpoint, held.payload)
        if endpoint.has(publish):
            self._complain("duplicated", held.endpoint, held.payload)
            return
        endpoint.mark(publish)
        if publish.outcome is PublishOutcome.OK and publish.guaranteed:
            stream = (held.partition, publish.publisher, publish.key, publish.partition)
            newest = endpoint.newest.get(stream, -1)
            if publish.sequence < newest:
                self._complain("reordered", held.endpoint, held.payload)
            endpoint.newest[stream] = max(newest, publish.sequence)

    def _may(self, subscription: SubscriptionSpan, publish: Publish) -> bool:
        """Return whether a matching subscription allows a message to be there at all."""
        if subscription.ended_ms is not None and publish.invoked_ms > subscription.ended_ms:
            return False
        # What was delivered everywhere before the subscription was written comes no more.
        return not any(
            publish.ended_ms <= at < subscription.invoked_ms for at in self._history.drains
        )

    # -- what is not ------------------------------------------------------------------------

    def _look_for_absent(self, endpoint: _Endpoint) -> int:
        owed = 0
        transactions: dict[tuple[str, int], list[Publish]] = defaultdict(list)
        for publish in self._publishes.values():
            if publish.outcome is PublishOutcome.FAILED or not self._must(endpoint, publish):
                continue
            if publish.transaction is not None:
                transactions[publish.publisher, publish.transaction].append(publish)
            if publish.outcome is PublishOutcome.OK:
                owed += 1
                if not endpoint.has(publish):
                    kind = "lost" if self._history.drained else "unseen"
                    self._complain(kind, endpoint.name, publish.payload)
        if self._history.drained:
            for publish in _torn(endpoint, transactions.values()):
                self._complain("torn", endpoint.name, publish.payload)
        return owed

    def _must(self, endpoint: _Endpoint, publish: Publish) -> bool:
        """Return whether an accepted message has to be there. Spec: DESIGN 6, K25."""
        return any(
            self._owes(subscription, publish) and self._comes(publish, subscription)
            for subscription in endpoint.matches(publish.subject)
        )

    def _comes_by_origins(self, publish: Publish, subscription: SubscriptionSpan) -> bool:
        node = subscription.endpoint.partition("/")[0]
        filters = self._history.origins.get(node, {}).get(publish.node)
        if not publish.guaranteed or filters is None:
            return False
        return all(wants(filter_, publish.subject) for filter_ in filters)

    def _owes(self, subscription: SubscriptionSpan, publish: Publish) -> bool:
        if not subscription.guaranteed or subscription.effective_ms is None:
            return False
        if publish.invoked_ms < subscription.effective_ms:
            return False
        if subscription.ending_ms is None:
            return True
        return any(publish.ended_ms <= at <= subscription.ending_ms for at in self._history.drains)


def _torn(endpoint: _Endpoint, transactions: Iterable[Sequence[Publish]]) -> Iterator[Publish]:
    """Yield what is missing of transactions of which something is there."""
    for parts in transactions:
        absent = [one for one in parts if not endpoint.has(one)]
        if len(absent) < len(parts):
            yield from absent


def _is_changed(publish: Publish, held: HeldRecord) -> bool:
    """Return whether a message is not as it was published."""
    if (publish.subject, publish.key, publish.headers) != (held.subject, held.key, held.headers):
        return True
    if held.origin is None:
        return False
    topic, partition, offset = held.origin
    return (topic, partition) != (publish.topic, publish.partition) or (
        publish.offset is not None and offset != publish.offset
    )
