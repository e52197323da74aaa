"""The meaning of errors of Spark and Kafka: they arrive as Java texts, with full stack traces."""

from __future__ import annotations

import re

from mesh.errors import TransportUnavailableError

REASON_MAX = 300
"""Maximum length of a reason shown to people."""

_CAUSES = ("Caused by: ", ": ", "org.apache.kafka")
"""How lines of a stack trace begin that name an exception; the last of them is the innermost."""

_CLASSES = re.compile(r"^([a-zA-Z]+(\.[\w$]+)+: )+")

_FENCED = ("ProducerFenced", "InvalidProducerEpoch", "newer producer")


def innermost(error: object) -> str:
    """Return the innermost cause in the text of an error, in one line, with its class."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()] or [""]
    causes = [line for line in lines if line.startswith(_CAUSES)]
    told = causes[-1] if causes else lines[0]
    return told.removeprefix("Caused by: ").removeprefix(": ")


def reason_of(error: object) -> str:
    """Return the message of that cause, for people."""
    return _CLASSES.sub("", innermost(error))[:REASON_MAX]


def unavailable(what: str, error: Exception) -> TransportUnavailableError:
    """Return the error that something failed, and why: it may succeed the next time.

    Args:
        what: What failed, for people.
        error: What Spark or Kafka's Java client raised.
    """
    return TransportUnavailableError(f"{what}: {innermost(error)[:REASON_MAX]}")


def is_silent(error: TransportUnavailableError) -> bool:
    """Return whether Kafka has not answered in time; else it has refused."""
    told = str(error.__cause__ or error)
    return any(name in told for name in ("TimeoutException", "DisconnectException"))


def is_known_topic(error: Exception) -> bool:
    """Return whether a topic that was to be created is there already."""
    return "TopicExistsException" in str(error)


def is_missing_topic(error: Exception) -> bool:
    """Return whether there is no such topic, or no such partition."""
    return "UnknownTopicOrPartition" in str(error)


def is_denied(error: object) -> bool:
    """Return whether Kafka does not allow it."""
    return "AuthorizationException" in str(error)


def is_fenced(error: Exception) -> bool:
    """Return whether another writer of the same transactional id has begun."""
    return any(name in str(error) for name in _FENCED)
