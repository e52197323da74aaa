"""The one mapping from the client library's errors to ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, Self, TypeVar

from confluent_kafka import KafkaError, KafkaException

from mesh.errors import (
    TransportDeniedError,
    TransportError,
    TransportFencedError,
    TransportRecordError,
    TransportUnavailableError,
)
from mesh.transport.kafka.logs import hidden

P = ParamSpec("P")
T = TypeVar("T")

FENCED = frozenset(
    {KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH}
)
MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
    }
)
GONE = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET,
        KafkaError.OFFSET_OUT_OF_RANGE,
        KafkaError._LOG_TRUNCATION,
    }
)
"""Errors that mean that a position is not in its log."""
MOVED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError._ASSIGNMENT_LOST,
    }
)
"""A group's answers to a member that no longer owns its partitions."""

_RIGHTS = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
IDENTITY = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
)
_SIZE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_RECORD = _SIZE | {KafkaError.INVALID_RECORD, KafkaError.INVALID_TIMESTAMP}
_CONFIGURATION = frozenset(
    {
        KafkaError._INVALID_ARG,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_SESSION_TIMEOUT,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError._UNSUPPORTED_FEATURE,
    }
)
_AWAY = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TRANSPORT,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._NOENT,  # "No leaders found" of partitions, as while a client connects again
        KafkaError._WAIT_COORD,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_CUT = tuple(KafkaError(code).str() for code in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT))
"""What the client library says of a connection that broke, or of a broker that did not answer."""
_WAITED = ("Failed while waiting for", "Timed out waiting for")
"""How the client library begins messages about its own waits."""

_ADVICE = (
    (MISSING, "create it, or wait until its owner has"),
    (_RIGHTS, "give this principal the right"),
    (IDENTITY, "check the user, the password and the certificates"),
    (_SIZE, "send smaller records or raise the topic's max.message.bytes"),
    (_CONFIGURATION, "check the options and topic settings"),
    (_AWAY, "check the address and that the brokers run"),
)


@dataclass(frozen=True, slots=True)
class Site:
    """The Kafka cluster that an error text names.

    Attributes:
        name: Its name in the topology file.
        servers: Its bootstrap servers.
        secrets: Values that must not appear in texts, should the client library repeat one.
    """

    name: str
    servers: str
    secrets: Sequence[str] = field(default=(), repr=False)

    def text(self, what: str) -> str:
        """Return one line that begins with the place."""
        return hidden(f"Kafka cluster {self.name} at {self.servers}: {what}", self.secrets)


class _Raised:
    """Holds back any exception that the client library raises from its callbacks."""

    def __init__(self) -> None:
        self.error = KafkaError(KafkaError._FATAL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, raised: object, _trace: object) -> bool:
        if isinstance(raised, SystemError):
            self.error = KafkaError(KafkaError._FATAL, str(raised))
        elif isinstance(raised, KafkaError):
            self.error = raised
        else:
            return False
        return True


def served(call: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Call something that runs the client library's callbacks; raise only KafkaException from it.

    A fatal error is raised amid the callbacks. If another one follows it is a SystemError, or, with
    Python before 3.12, a bare KafkaError: that is not an exception, so no `except` catches it, not
    even BaseException, and an unsuspecting caller ends.

    Raises:
        KafkaException: Raised by the call itself, or fatal.
    """
    raised = _Raised()
    try:
        with raised:
            return call(*arguments, **options)
        raise KafkaException(raised.error)
    finally:
        del call  # a client's method, which would live as long as an error's traceback


def error_of(exc: KafkaException) -> KafkaError:
    """Return the error that an exception of the client library carries."""
    error = exc.args[0]
    if not isinstance(error, KafkaError):
        return KafkaError(KafkaError._FAIL, str(error))
    return error


def _code_of(error: KafkaError) -> int:
    """Return the code of an error; of a handshake that broke off, that of a broken connection.

    The client library has one code for that and for a broker that refuses somebody.
    """
    is_cut = error.code() in IDENTITY and any(text in error.str() for text in _CUT)
    return KafkaError._TRANSPORT if is_cut else error.code()


def is_refused(error: KafkaError) -> bool:
    """Return whether the broker does not take us for whom we say that we are."""
    return _code_of(error) in IDENTITY


def is_away(error: KafkaError) -> bool:
    """Return whether trying again is right: no broker answers, or it asks for patience."""
    return _code_of(error) in _AWAY or error.retriable()


def is_denied(error: KafkaError) -> bool:
    """Return whether the broker refuses for good."""
    code = _code_of(error)
    return any(code in codes for codes in (MISSING, _RIGHTS, IDENTITY, _SIZE, _CONFIGURATION))


def is_of_record(error: KafkaError) -> bool:
    """Return whether the broker refuses a record for its content: it may accept others."""
    return error.code() in _RECORD


def transport_error(
    site: Site, what: str, error: KafkaError, *, topics: Sequence[str] = ()
) -> TransportError:
    """Return our error for one of the client library's.

    Args:
        site: Where it happened.
        what: What was tried, for example ``create topic x``.
        error: The client library's error.
        topics: The topics that took no records, if that is known.
    """
    code = _code_of(error)
    advice = next((text for codes, text in _ADVICE if code in codes), "")
    cause = error.str()
    if code == KafkaError._TIMED_OUT and cause.startswith(_WAITED):
        cause = "no broker answers in time"  # people need not know what the library waited for
    line = site.text(f"{what}: {cause}" + (f"; {advice}" if advice else ""))
    if code in FENCED:
        return TransportFencedError(line)
    if is_of_record(error):
        return TransportRecordError(line, topics=topics)
    if is_denied(error):
        return TransportDeniedError(line, topics=topics)
    if is_away(error):
        return TransportUnavailableError(line, topics=topics)
    return TransportError(line, topics=topics)
