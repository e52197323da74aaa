"""Which librdkafka options an operator may set, and the form of the ones the mesh must read.

Everything passes through but what the mesh manages itself, because a promise hangs on it, and
what makes the client library load or run programs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from ipaddress import ip_address

from mesh.errors import ConfigError, Problem

_EXACTLY_ONCE = "exactly-once delivery depends on it"
_LANES = "the ownership of lanes depends on it"
_PROGRAM = "it makes the client library load or run a program"
_LIMIT = "spec.maxMessageBytes decides it"

BROKERS_MAX = 9
"""Brokers of one embedded Kafka cluster: each is a Java process."""

MANAGED: Mapping[str, str] = {
    "isolation.level": _EXACTLY_ONCE,
    "enable.auto.commit": _EXACTLY_ONCE,
    "auto.commit.interval.ms": _EXACTLY_ONCE,
    "auto.commit.enable": _EXACTLY_ONCE,
    "enable.auto.offset.store": _EXACTLY_ONCE,
    "auto.offset.reset": _EXACTLY_ONCE,
    "offset.store.method": _EXACTLY_ONCE,
    "offset.store.path": _EXACTLY_ONCE,
    "transactional.id": _EXACTLY_ONCE,
    "transaction.timeout.ms": _EXACTLY_ONCE,
    "enable.idempotence": _EXACTLY_ONCE,
    "enable.gapless.guarantee": _EXACTLY_ONCE,
    "acks": _EXACTLY_ONCE,
    "request.required.acks": _EXACTLY_ONCE,
    "statistics.interval.ms": _EXACTLY_ONCE,
    "retry.backoff.ms": _EXACTLY_ONCE,
    "retry.backoff.max.ms": _EXACTLY_ONCE,
    "socket.max.fails": _EXACTLY_ONCE,
    "max.in.flight": _EXACTLY_ONCE,
    "max.in.flight.requests.per.connection": _EXACTLY_ONCE,
    "message.timeout.ms": _EXACTLY_ONCE,
    "delivery.timeout.ms": _EXACTLY_ONCE,
    "retries": _EXACTLY_ONCE,
    "message.send.max.retries": _EXACTLY_ONCE,
    "partitioner": _EXACTLY_ONCE,
    "check.crcs": _EXACTLY_ONCE,
    "enable.partition.eof": _EXACTLY_ONCE,
    "allow.auto.create.topics": "the mesh creates its topics with the right settings",
    "group.id": _LANES,
    "group.instance.id": _LANES,
    "group.protocol": _LANES,
    "group.protocol.type": _LANES,
    "group.remote.assignor": _LANES,
    "partition.assignment.strategy": _LANES,
    "session.timeout.ms": _LANES,
    "heartbeat.interval.ms": _LANES,
    "max.poll.interval.ms": _LANES,
    "client.id": "the mesh sets it, so that brokers can tell its workers apart",
    "message.max.bytes": _LIMIT,
    "receive.message.max.bytes": _LIMIT,
    "plugin.library.paths": _PROGRAM,
    "ssl.engine.location": _PROGRAM,
    "ssl.providers": _PROGRAM,
    "sasl.kerberos.kinit.cmd": _PROGRAM,
}
"""Refused keys with the reason."""

JAVA_NAMES: Mapping[str, str] = {
    "sasl.jaas.config": "use sasl.username and sasl.password",
    "ssl.truststore.location": "use ssl.ca.location with a PEM file",
    "ssl.truststore.password": "PEM files in ssl.ca.location need none",
    "ssl.truststore.type": "use ssl.ca.location with a PEM file",
    "ssl.truststore.certificates": "use ssl.ca.pem",
    "ssl.keystore.type": "use ssl.certificate.location with a PEM file",
    "ssl.keystore.certificate.chain": "use ssl.certificate.pem",
    "ssl.keystore.key": "use ssl.key.pem",
    "key.serializer": "remove it: the mesh passes bytes on",
    "value.serializer": "remove it: the mesh passes bytes on",
    "key.deserializer": "remove it: the mesh passes bytes on",
    "value.deserializer": "remove it: the mesh passes bytes on",
    "max.block.ms": "use socket.timeout.ms",
    "buffer.memory": "use queue.buffering.max.kbytes",
    "max.request.size": "set spec.maxMessageBytes",
    "max.poll.records": "remove it: the mesh decides on its batches",
    "fetch.max.wait.ms": "use fetch.wait.max.ms",
    "request.timeout.ms": "use socket.timeout.ms",
    "default.api.timeout.ms": "use socket.timeout.ms",
    "metadata.max.age.ms": "use topic.metadata.refresh.interval.ms",
    "interceptor.classes": "remove it: there are no interceptors here",
    "metric.reporters": "remove it: the mesh exports its own metrics",
    "sasl.login.callback.handler.class": "use sasl.oauthbearer.* options",
}
"""Names of the Java client that librdkafka does not know, with what to do."""

SERVERS = "bootstrap.servers"

PUBLISHED_OPTIONS = frozenset(
    {
        SERVERS,
        "security.protocol",
        "sasl.mechanism",
        "sasl.mechanisms",
        "client.rack",
        "client.dns.lookup",
        "broker.address.family",
        "broker.address.ttl",
        "connections.max.idle.ms",
        "socket.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "socket.send.buffer.bytes",
        "socket.receive.buffer.bytes",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "topic.metadata.refresh.interval.ms",
        "topic.metadata.propagation.max.ms",
        "linger.ms",
        "queue.buffering.max.ms",
        "queue.buffering.max.kbytes",
        "batch.size",
        "batch.num.messages",
        "compression.type",
        "compression.codec",
        "compression.level",
        "fetch.wait.max.ms",
        "fetch.min.bytes",
        "fetch.max.bytes",
        "fetch.message.max.bytes",
        "max.partition.fetch.bytes",
        "fetch.queue.backoff.ms",
        "fetch.error.backoff.ms",
        "queued.min.messages",
        "queued.max.messages.kbytes",
    }
)
"""What a record may say of a Kafka cluster to whoever reads it: where it is, and tuning.

Nothing on this list is a secret, names a file or a further address, or weakens a connection:
whoever can write the record must not be able to ask for what only this machine knows.
"""

_OFF_BY_MINUS_ONE = ("topic.metadata.refresh.interval.ms", "offset.store.sync.interval.ms")
"""Durations of which -1 means never."""
_FUNCTIONS = ("logger", "on_commit", "on_delivery", "default.topic.config")
_OTHER_NAMES: Mapping[str, str] = {
    "bootstrap": SERVERS,
    "bootstrapserver": SERVERS,
    "bootstrapservers": SERVERS,
    "brokerlist": SERVERS,
    "metadatabrokerlist": SERVERS,
    "server": SERVERS,
    "servers": SERVERS,
    "address": SERVERS,
    "broker": "brokers",
    "brokers": "brokers",
    "brokercount": "brokers",
}
"""Letters of names that are near those two: without an address a Kafka cluster is embedded, and
so a slip of the pen would start brokers instead of speaking to those that run."""
_LIKE_SERVERS = 0.8
"""How near a mistyped name is; no other option of librdkafka comes near it."""

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_REFERENCE = re.compile(r"\$\{([^}]*)\}?")
_KNOWN_REFERENCE = re.compile(r"\$\{(env:[A-Za-z_][A-Za-z0-9_]*|file:[^}\0]+)\}")
_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+):([0-9]{1,5})")
SERVERS_RULE = "write host:port, several separated by commas"


def published_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return what a record says of a Kafka cluster, or what is taken from one. No references."""
    return {
        option: value
        for option, value in options.items()
        if option in PUBLISHED_OPTIONS and "${" not in value
    }


def option_faults(options: Mapping[str, object]) -> Iterator[tuple[str, str, str]]:
    """Yield (option, code, message) for every option that cannot be accepted.

    Args:
        options: As written.
    """
    for option, value in options.items():
        if option == "brokers":
            if isinstance(value, bool) or not isinstance(value, int):
                yield option, "WRONG_TYPE", "must be a whole number of brokers to start"
            elif not 1 <= value <= BROKERS_MAX:
                yield option, "OUT_OF_RANGE", f"must be between 1 and {BROKERS_MAX}; got {value}"
        elif (named := _name_fault(option)) is not None:
            yield option, *named
        elif option == SERVERS and not isinstance(value, str):
            yield option, "WRONG_TYPE", f"must be text; {SERVERS_RULE}"
        elif not isinstance(value, str | int | float):
            yield option, "WRONG_TYPE", "must be text, a number, true or false"
        elif option in MANAGED:
            yield option, "MANAGED_KEY", f"is not yours to set: {MANAGED[option]}; remove it"
        elif option in JAVA_NAMES:
            yield option, "JAVA_NAME", f"is a name of the Java client; {JAVA_NAMES[option]}"
        elif isinstance(value, str) and (fault := _text_fault(option, value)) is not None:
            yield option, "WRONG_VALUE", fault
        elif (fault := _number_fault(option, value)) is not None:
            yield option, "OUT_OF_RANGE", fault
    if "brokers" in options and SERVERS in options:
        message = "brokers is for embedded Kafka; remove it, or remove bootstrap.servers"
        yield "brokers", "CONFLICTING_KEYS", message


def _text_fault(option: str, value: str) -> str | None:
    fault = reference_fault(value)
    if fault is None and option == SERVERS and "${" not in value:
        return bootstrap_fault(value)
    return fault


def _number_fault(option: str, value: str | float) -> str | None:
    """Return what is wrong with a number: librdkafka takes one that is none, or refuses it late."""
    is_duration = option.endswith(".ms")
    if isinstance(value, str):
        if not is_duration or "${" in value:
            return None
        try:
            number = float(value)
        except ValueError:
            number = math.nan
    else:
        number = math.nan if isinstance(value, bool) and is_duration else value
    least = -1 if option in _OFF_BY_MINUS_ONE else 0
    if is_duration and not least <= number < math.inf:
        return f"must be a number of milliseconds, at least {least}; got {option_text(value)}"
    return None if math.isfinite(number) else f"must be a finite number; got {option_text(value)}"


def reference_fault(value: str) -> str | None:
    """Return what is wrong with the `${...}` references in a value, or None."""
    for match in _REFERENCE.finditer(value):
        if _KNOWN_REFERENCE.fullmatch(match[0]) is None:
            # What stands there may be part of a password: it is not repeated.
            return "has a ${...} that is not a reference; write ${env:NAME} or ${file:PATH}"
    return None


def option_text(value: object) -> str:
    """Return an option's value as librdkafka reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _name_fault(option: str) -> tuple[str, str] | None:
    """Return (code, message) for what can be no option in a file."""
    if _NAME.fullmatch(option) is None:
        return "UNKNOWN_KEY", "is not a name of an option; remove it"
    meant = _OTHER_NAMES.get(re.sub(r"[^a-z]", "", option.lower()), option)
    if get_close_matches(option.lower(), [SERVERS], cutoff=_LIKE_SERVERS):
        meant = SERVERS
    if meant != option:
        return "UNKNOWN_KEY", f"unknown key; did you mean {meant}?"
    if option.endswith("_cb") or option in _FUNCTIONS:
        return "MANAGED_KEY", "takes a function, and a file has none; remove it"
    return None


def bootstrap_fault(value: str) -> str | None:
    """Return why a list of brokers is not one, or None."""
    for broker in value.split(","):
        text = broker.strip()
        if not text:
            return f"a broker is empty; {SERVERS_RULE}"
        protocol, mark, rest = text.rpartition("://")
        if mark and protocol not in _PROTOCOLS:
            return f"{text[:80]!r} is a URL; {SERVERS_RULE}"
        match = _BROKER.fullmatch(rest)
        if match is None or not _is_host(match[1]):
            return f"{text[:80]!r} is not a broker; {SERVERS_RULE}"
        if not 1 <= int(match[2]) <= 65535:
            return f"port {match[2]} is not between 1 and 65535; {SERVERS_RULE}"
    return None


def addresses_of(options: Sequence[str], known: Collection[str] | None = None) -> dict[str, str]:
    """Return `--bootstrap NAME=HOST:PORT` options as a mapping.

    Args:
        options: What was given.
        known: Names of Kafka clusters; None where it is not known yet which there are.

    Raises:
        ConfigError: Lists all that have another form, name a Kafka cluster that does not exist, or
            give one two addresses.
    """
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for option in options:
        name, _, address = option.partition("=")
        fault = _address_fault(name, address, found, known)
        if fault is None:
            found[name] = address
        else:
            problems.append(Problem(code="BAD_VALUE", message=fault, where=f"--bootstrap {option}"))
    if problems:
        raise ConfigError(problems)
    return found


def _address_fault(
    name: str, address: str, found: Mapping[str, str], known: Collection[str] | None
) -> str | None:
    if not (name and address):
        return "write NAME=HOST:PORT"
    if known is not None and name not in known:
        return f"no Kafka cluster is called {name}; known here: {', '.join(known)}"
    if (fault := bootstrap_fault(address)) is not None:
        return f"{fault}: NAME=HOST:PORT,HOST:PORT"
    if found.get(name, address) != address:
        return f"{name} is {found[name]} already; leave one out, or write {name}=HOST:PORT,..."
    return None


def _is_host(text: str) -> bool:
    """Return whether a text may be the name or the address of a machine."""
    if text.startswith("[") or not re.search(r"[A-Za-z_]", text):
        try:
            ip_address(text.strip("[]"))
        except ValueError:
            return False
        return True
    return all(part and part.strip("-") == part for part in text.removesuffix(".").split("."))
