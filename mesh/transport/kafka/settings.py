"""Settings of the client library: tuned ones, then the operator's, then those that promises need.

An operator's option overrides the first group and is overridden by the last. The figures come from
measurements on real brokers; `docs/` has them.

Spec: K5, K6, K15
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mesh.transport.kafka.logs import LOG
from mesh.transport.kafka.retries import RETRY_BACKOFF_MS, STATISTICS_MS
from mesh.transport.port import PATIENCE_MS

Settings = dict[str, object]

_SECRET = re.compile(
    r"password|passphrase|secret|token|jaas|key\.pem|ssl[._]key$|oauthbearer\.(config|extensions)"
)
_NO_SECRET = (".url", ".location", ".file")

BATCH_BYTES_MAX = 1_000_000
TRANSACTION_TIMEOUT_MS = 15_000
MESSAGE_TIMEOUT_MS = 10_000
PROMPT_TIMEOUT_MS = 90_000
"""Records that somebody waits for are written when the Kafka cluster returns, and not given up
before: longer than the tree layer of a node waits for it."""
HEARTBEAT_MS = 200
GATHERED_BYTES = 262_144
"""A fetch that finds this much is answered at once: a reader that has fallen behind catches up."""

_TUNED: Settings = {
    "socket.nagle.disable": True,
    # A broker that hangs is noticed by this, so it is well below a minute.
    "socket.timeout.ms": 10_000,
    "reconnect.backoff.ms": 100,
    "reconnect.backoff.max.ms": 1_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1_000,
    "topic.metadata.refresh.interval.ms": 30_000,
    # Broker-side metrics subscriptions: nobody here needs them, and each client would poll for
    # them.
    "enable.metrics.push": False,
    "log_level": 4,
}
_TUNED_READER: Settings = {
    # The default of 1 s halts a partition that long whenever the prefetch is full.
    "fetch.queue.backoff.ms": 20,
    "fetch.error.backoff.ms": 100,
    "queued.min.messages": 20_000,
    # Bounds what one reader holds in memory; the default is 64 MB.
    "queued.max.messages.kbytes": 16_384,
}
_TUNED_WRITER: Settings = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 0,
    "queue.buffering.max.kbytes": 65_536,
    # How long a topic may be unknown before it counts as missing; the default of 30 s would be
    # longer than a transaction may take.
    "topic.metadata.propagation.max.ms": 2_000,
}
_MANAGED_PLAIN_WRITER: Settings = {
    # When a partition changes its leader, the client library (as of 2.16) may write again what
    # was under way behind a failed request. In a transaction that is aborted; here it stays.
    # Records that arrive while a request is under way go together in the next one: busy brokers
    # get fewer and larger requests.
    "max.in.flight.requests.per.connection": 1,
}
_TUNED_PROMPT_WRITER: Settings = {"linger.ms": 0}
_MANAGED_TRANSACTIONS: Settings = {
    # What reveals that a request was sent twice, and how soon that may be: see `retries`.
    "statistics.interval.ms": STATISTICS_MS,
    "retry.backoff.ms": RETRY_BACKOFF_MS,
    "retry.backoff.max.ms": 1_000,
    "socket.max.fails": 1,
}
_TUNED_TRANSACTIONS: Settings = {
    # A client connects, learns the broker's number and often reconnects: a lane takeover waits
    # for both. It doubles with each failure, up to the maximum above.
    "reconnect.backoff.ms": 10,
}
_MANAGED: Settings = {"allow.auto.create.topics": False, "logger": LOG}
_MANAGED_READER: Settings = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,
    # The only way to learn that markers and aborted records at the end were passed.
    "enable.partition.eof": True,
}
_MANAGED_WRITER: Settings = {
    "acks": "all",
    "enable.idempotence": True,
    "delivery.report.only.error": True,
    "message.timeout.ms": MESSAGE_TIMEOUT_MS,
    # Same partition for a key as the Java client.
    "partitioner": "murmur2_random",
    # The topic's own limit decides, so that the refusal names the topic.
    "message.max.bytes": 100_000_000,
}


def is_secret(option: str) -> bool:
    """Return whether the value of an option must stay secret."""
    return _SECRET.search(option) is not None and not option.endswith(_NO_SECRET)


def secrets_in(options: Mapping[str, str]) -> Sequence[str]:
    """Return the values of secret options, longest first.

    Texts of a character or two are left alone: hiding them would spoil every line.
    """
    found = {value for option, value in options.items() if is_secret(option) and len(value) > 2}
    return sorted(found, key=len, reverse=True)


def admin_settings(options: Mapping[str, str], client_id: str) -> Settings:
    """Return the settings of an admin client."""
    return {**_TUNED, **options, **_MANAGED, "client.id": client_id}


def reader_settings(
    options: Mapping[str, str],
    client_id: str,
    patience_ms: int = PATIENCE_MS,
    *,
    gathers: bool = False,
) -> Settings:
    """Return the settings of a reader. The group is never joined; the library wants its name."""
    tuned: Settings = {**_TUNED, **_TUNED_READER, "fetch.wait.max.ms": patience_ms}
    if gathers:
        tuned["fetch.min.bytes"] = GATHERED_BYTES
    own: Settings = {"client.id": client_id, "group.id": client_id}
    return {**tuned, **options, **_MANAGED, **_MANAGED_READER, **own}


def consumer_settings(options: Mapping[str, str], client_id: str, group: str) -> Settings:
    """Return the settings of a member of a group of clients, which may be of any make."""
    own: Settings = {
        "client.id": client_id,
        "group.id": group,
        # What every client library supports: members written by others are in the group too.
        "partition.assignment.strategy": "range,roundrobin",
        # Few are returned at a time: prefetched records are of no use to other members.
        "queued.min.messages": 1_000,
    }
    managed: Settings = {**_MANAGED, **_MANAGED_READER}
    return {**_TUNED, "session.timeout.ms": 10_000, **options, **managed, **own}


def group_settings(settings: Settings, group: str) -> Settings:
    """Return the settings of a consumer that only looks at what a group has committed."""
    return {**settings, "group.id": group, "enable.auto.commit": False}


def writer_settings(
    options: Mapping[str, str],
    client_id: str,
    transactional_id: str | None,
    batch_bytes_max: int,
    *,
    is_prompt: bool = False,
    patience_ms: int | None = None,
) -> Settings:
    """Return the settings of a writer.

    Args:
        options: The operator's.
        client_id: What brokers show.
        transactional_id: None for a writer without transactions.
        batch_bytes_max: Largest batch on the wire; a topic refuses batches above its limit.
        is_prompt: Whether records do not wait to be batched, except for the answer to earlier
            ones, and for a Kafka cluster that is away for a while.
        patience_ms: How long a record may wait for its acknowledgement, if not the usual time.
    """
    own: Settings = {"client.id": client_id, "batch.size": min(BATCH_BYTES_MAX, batch_bytes_max)}
    tuned = {**_TUNED, **_TUNED_WRITER}
    if is_prompt:
        tuned |= _TUNED_PROMPT_WRITER
        own["message.timeout.ms"] = PROMPT_TIMEOUT_MS
    if patience_ms is not None:
        own["message.timeout.ms"] = patience_ms
    if transactional_id is None:
        own |= _MANAGED_PLAIN_WRITER
    else:
        tuned |= _TUNED_TRANSACTIONS
        own["transactional.id"] = transactional_id
        own["transaction.timeout.ms"] = TRANSACTION_TIMEOUT_MS
        own |= _MANAGED_TRANSACTIONS
    return {**tuned, **options, **_MANAGED, **_MANAGED_WRITER, **own}


def member_settings(
    options: Mapping[str, str], client_id: str, group: str, member_timeout_ms: int
) -> Settings:
    """Return the settings of a group member that reads nothing. Spec: K15."""
    own: Settings = {
        "group.id": group,
        "group.protocol": "classic",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": member_timeout_ms,
        "heartbeat.interval.ms": min(HEARTBEAT_MS, member_timeout_ms // 3),
        # A commit may take its whole deadline without the loop stopping for good.
        "max.poll.interval.ms": max(60_000, member_timeout_ms),
        "enable.partition.eof": False,
    }
    return {**reader_settings(options, client_id), **own}
