"""Do the Kafka clusters answer, and would they keep what the mesh promises? Spec: K4, R15."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from mesh.errors import TransportError
from mesh.operate.doctor.checks import Category, Check, Result, first_of, judged
from mesh.operate.doctor.examination import Examination
from mesh.transport.kafka.settings import TRANSACTION_TIMEOUT_MS
from mesh.transport.port import MEMBER_TIMEOUT_MS

COPIES_MIN = 3
"""Copies that survive the loss of one broker while another is being restarted."""

IN_SYNC_MIN = 2
"""Brokers that must have a record before it counts as accepted."""


_PLAIN = frozenset({"plaintext", "sasl_plaintext"})
_HERE = frozenset({"", "localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class _Rule:
    """A broker setting on which promises depend.

    Attributes:
        is_bad: Judges its value.
        why: What happens otherwise.
        good: A good value.
        is_about_copies: Whether it is meaningless with a single broker.
    """

    key: str
    is_bad: Callable[[str], bool]
    why: str
    good: str
    is_about_copies: bool = True


def _below(least: int) -> Callable[[str], bool]:
    return lambda value: int(value) < least


_RULES = (
    _Rule(
        "auto.create.topics.enable",
        lambda value: value == "true",
        "a mistyped name makes a topic with wrong settings",
        "false",
        is_about_copies=False,
    ),
    _Rule(
        "unclean.leader.election.enable",
        lambda value: value == "true",
        "a broker that lags may become leader, and accepted records are lost",
        "false",
    ),
    _Rule(
        "default.replication.factor",
        _below(COPIES_MIN),
        "topics that nodes make have too few copies",
        str(COPIES_MIN),
    ),
    _Rule(
        "min.insync.replicas",
        _below(IN_SYNC_MIN),
        "a record counts as accepted while one broker has it",
        str(IN_SYNC_MIN),
    ),
    _Rule(
        "transaction.state.log.replication.factor",
        _below(COPIES_MIN),
        "the outcome of transactions has too few copies",
        str(COPIES_MIN),
    ),
    _Rule(
        "transaction.state.log.min.isr",
        _below(IN_SYNC_MIN),
        "a transaction counts as committed while one broker knows it",
        str(IN_SYNC_MIN),
    ),
)
_REFUSED = (
    _Rule(
        "transaction.max.timeout.ms",
        _below(TRANSACTION_TIMEOUT_MS),
        "the transactions of nodes are refused",
        str(TRANSACTION_TIMEOUT_MS),
    ),
    _Rule(
        "group.min.session.timeout.ms",
        lambda value: int(value) > MEMBER_TIMEOUT_MS,
        "workers are refused their share of the lanes",
        str(MEMBER_TIMEOUT_MS),
    ),
)


def check_kafka(at: Examination) -> Iterator[Check]:
    """Yield the checks of every Kafka cluster."""
    seen: dict[str, str] = {}
    for name, kafka in at.kafka.items():
        error = hint = ""
        has_answered = False
        try:
            identity = kafka.admin().cluster_id()
        except TransportError as fault:
            error, hint = str(fault), "start it, or correct its address"
        else:
            has_answered = True
            other = seen.setdefault(identity, name)
            if other != name:
                error = f"is the same Kafka cluster as {other} ({identity})"
                hint = "give each name its own Kafka cluster, or use one name for both"
        yield judged(Category.KAFKA, f"Kafka cluster {name} answers and is its own", error, hint)
        if has_answered:
            yield _promises(at, name)
            yield _encryption(at, name)


def _promises(at: Examination, name: str) -> Check:
    description = f"brokers of {name} are set to keep what the mesh promises"
    try:
        count = len(at.brokers(name))
        settings = at.kafka[name].admin().broker_settings()
    except TransportError as fault:
        return judged(
            Category.KAFKA,
            description,
            f"cannot be seen: {fault}",
            "let this principal describe them: kafka-acls.sh --add --cluster "
            "--operation DescribeConfigs --allow-principal User:NAME",
            result=Result.WARNING,
        )
    wrong, refused = _broken(_RULES, settings), _broken(_REFUSED, settings)
    if count == 1:
        wrong = {text: rule for text, rule in wrong.items() if not rule.is_about_copies}
    faults = [*refused, *wrong]
    if count == 1:
        faults.append("it has one broker, so nothing is replicated: for development only")
    elif count < COPIES_MIN:
        faults.append(f"it has {count} brokers, {COPIES_MIN} copies need {COPIES_MIN}")
    goods = {rule.key: rule.good for rule in (*refused.values(), *wrong.values())}
    return judged(
        Category.KAFKA,
        description,
        first_of(faults),
        _advice(count, goods),
        result=Result.FAILED if refused or count > 1 else Result.WARNING,
        figures={"brokers": count},
    )


def _encryption(at: Examination, name: str) -> Check:
    """Return whether others on the way could read along; on one machine nobody can."""
    options = at.topology.kafka[name].options
    protocol = options.get("security.protocol", "plaintext").lower()
    hosts = [one.rpartition(":")[0] for one in options.get("bootstrap.servers", "").split(",")]
    faults = []
    if protocol in _PLAIN and not all(host in _HERE for host in hosts):
        faults.append(f"security.protocol={protocol}: whoever is on the way can read and change")
    if options.get("ssl.endpoint.identification.algorithm") == "none":
        faults.append("ssl.endpoint.identification.algorithm=none: any certificate passes")
    return judged(
        Category.KAFKA,
        f"connections to {name} are encrypted, or stay on this machine",
        "; ".join(faults),
        f"set security.protocol=sasl_ssl (or ssl) under spec.kafka.{name} of the topology file",
        result=Result.WARNING,
    )


def _broken(
    rules: tuple[_Rule, ...], settings: Mapping[int, Mapping[str, str]]
) -> Mapping[str, _Rule]:
    """Return the rules that brokers break, by the text to report."""
    found: dict[tuple[_Rule, str], list[int]] = {}
    for rule in rules:
        for broker, values in settings.items():
            value = values.get(rule.key)
            if value is not None and rule.is_bad(value):
                found.setdefault((rule, value), []).append(broker)
    return {
        f"{rule.key}={value} on {_named(brokers)}: {rule.why}": rule
        for (rule, value), brokers in found.items()
    }


def _named(brokers: list[int]) -> str:
    return f"broker{'s' * (len(brokers) > 1)} {', '.join(map(str, brokers))}"


def _advice(count: int, goods: Mapping[str, str]) -> str:
    set_them = "set " + ", ".join(f"{key}={value}" for key, value in goods.items())
    restart = f"{set_them} in server.properties and restart the brokers one by one"
    grow = f"run {COPIES_MIN} brokers before the mesh carries what matters"
    if count >= COPIES_MIN:
        return restart
    return f"{grow}; {restart}" if goods else grow
