"""Which Kafka options pass."""

from __future__ import annotations

import math

import pytest

from mesh.config.kafka_options import JAVA_NAMES, MANAGED, option_faults


def faults(**options: object) -> list[tuple[str, str, str]]:
    """The faults of options written with `_` for `.`."""
    return list(option_faults({name.replace("_", "."): value for name, value in options.items()}))


def test_ordinary_options_pass() -> None:
    """librdkafka's own options are the operator's business."""
    assert not faults(
        bootstrap_servers="a:1, b.example:9092,[::1]:9092,SSL://c:1",
        security_protocol="SASL_SSL",
        sasl_password="${env:PASSWORD}",
        ssl_ca_location="/etc/ca.pem",
        linger_ms=5,
        debug="broker",
    )


@pytest.mark.parametrize("option", sorted(MANAGED))
def test_managed_options_are_refused_with_the_reason(option: str) -> None:
    """A promise hangs on each of them, or a program would run."""
    ((name, code, message),) = option_faults({option: "x"})
    assert (name, code) == (option, "MANAGED_KEY")
    assert message == f"is not yours to set: {MANAGED[option]}; remove it"


@pytest.mark.parametrize("option", sorted(JAVA_NAMES))
def test_java_names_get_a_hint(option: str) -> None:
    """Settings copied from a Java client are translated."""
    ((_, code, message),) = option_faults({option: "x"})
    assert code == "JAVA_NAME"
    assert message.startswith("is a name of the Java client; ")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", "a broker is empty; write host:port, several separated by commas"),
        ("a:1,", "a broker is empty; write host:port, several separated by commas"),
        ("a", "'a' is not a broker; write host:port, several separated by commas"),
        ("FOO://a:1", "'FOO://a:1' is a URL; write host:port, several separated by commas"),
        ("9092", "'9092' is not a broker; write host:port, several separated by commas"),
        (
            "256.1.1.1:1",
            "'256.1.1.1:1' is not a broker; write host:port, several separated by commas",
        ),
        ("-a:1", "'-a:1' is not a broker; write host:port, several separated by commas"),
        ("a..b:1", "'a..b:1' is not a broker; write host:port, several separated by commas"),
        ("[::z]:1", "'[::z]:1' is not a broker; write host:port, several separated by commas"),
        ("http://a:1", "'http://a:1' is a URL; write host:port, several separated by commas"),
        ("a:0", "port 0 is not between 1 and 65535; write host:port, several separated by commas"),
        (
            "a:65536",
            "port 65536 is not between 1 and 65535; write host:port, several separated by commas",
        ),
        ("${HOST}:1", "has a ${...} that is not a reference; write ${env:NAME} or ${file:PATH}"),
        ("${env:A", "has a ${...} that is not a reference; write ${env:NAME} or ${file:PATH}"),
    ],
)
def test_bootstrap_servers_have_a_form(value: str, message: str) -> None:
    """What librdkafka would only fail on later is refused now."""
    assert faults(bootstrap_servers=value) == [("bootstrap.servers", "WRONG_VALUE", message)]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"brokers": 10}, "OUT_OF_RANGE"),
        ({"brokers": True}, "WRONG_TYPE"),
        ({"brokers": "3"}, "WRONG_TYPE"),
        ({"brokers": 3, "bootstrap.servers": "a:1"}, "CONFLICTING_KEYS"),
        ({"linger.ms": [5]}, "WRONG_TYPE"),
        ({"linger.ms": None}, "WRONG_TYPE"),
        ({"linger.ms": math.nan}, "OUT_OF_RANGE"),
        ({"linger.ms": math.inf}, "OUT_OF_RANGE"),
        ({"linger.ms": -1}, "OUT_OF_RANGE"),
        ({"linger.ms": "-0.5"}, "OUT_OF_RANGE"),
        ({"linger.ms": "soon"}, "OUT_OF_RANGE"),
        ({"linger.ms": True}, "OUT_OF_RANGE"),
        ({"topic.metadata.refresh.interval.ms": -2}, "OUT_OF_RANGE"),
        ({"batch.size": math.nan}, "OUT_OF_RANGE"),
    ],
)
def test_other_faults(options: dict[str, object], code: str) -> None:
    """Embedded brokers have a number, options a plain value."""
    assert [found for _, found, _ in option_faults(options)] == [code]


@pytest.mark.parametrize(
    "option", ["topic.metadata.refresh.interval.ms", "offset.store.sync.interval.ms"]
)
def test_some_durations_are_off_by_minus_one(option: str) -> None:
    assert list(option_faults({option: -1})) == []


@pytest.mark.parametrize("value", [9092, True, 1.5])
def test_an_address_is_text(value: object) -> None:
    """A port alone, as YAML reads it, is no address."""
    ((name, code, _),) = option_faults({"bootstrap.servers": value})
    assert (name, code) == ("bootstrap.servers", "WRONG_TYPE")


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("bootstrap.server", "bootstrap.servers"),
        ("bootstrap_servers", "bootstrap.servers"),
        ("boostrap.servers", "bootstrap.servers"),
        ("bootstrap.severs", "bootstrap.servers"),
        ("bootstrapServers", "bootstrap.servers"),
        ("metadata.broker.list", "bootstrap.servers"),
        ("Brokers", "brokers"),
        ("broker", "brokers"),
    ],
)
def test_a_slip_of_the_pen_starts_no_brokers(option: str, meant: str) -> None:
    """Without an address a Kafka cluster is embedded."""
    ((_, code, message),) = option_faults({option: "h:1"})
    assert (code, message) == ("UNKNOWN_KEY", f"unknown key; did you mean {meant}?")


@pytest.mark.parametrize("option", ["error_cb", "logger", "", "${env:X}"])
def test_what_the_client_library_would_stumble_over_is_refused(option: str) -> None:
    """It wants a function there, and would raise in the middle of things."""
    ((name, _, message),) = option_faults({option: "x"})
    assert name == option
    assert message.endswith("remove it")
