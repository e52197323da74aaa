"""Connection options as librdkafka names them, translated for Kafka's Java client."""

from __future__ import annotations

from collections.abc import Mapping

_SAME = (
    "bootstrap.servers",
    "security.protocol",
    "sasl.mechanism",
    "ssl.endpoint.identification.algorithm",
    "sasl.oauthbearer.scope",
    "sasl.kerberos.service.name",
)

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def java_options(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return what Kafka's Java client needs to reach the same Kafka cluster.

    Only what concerns connections is translated: everything else is tuning of librdkafka.

    Args:
        options: librdkafka options, references resolved.
    """
    java = {name: options[name] for name in _SAME if name in options}
    if "metadata.broker.list" in options:
        java.setdefault("bootstrap.servers", options["metadata.broker.list"])
    mechanism = options.get("sasl.mechanisms", options.get("sasl.mechanism", ""))
    if mechanism:
        java["sasl.mechanism"] = mechanism
    if "sasl.username" in options:
        java["sasl.jaas.config"] = _login(mechanism, options)
    java.update(_certificates(options))
    return java


def _login(mechanism: str, options: Mapping[str, str]) -> str:
    module = _SCRAM if mechanism.upper().startswith("SCRAM") else _PLAIN
    user, password = options["sasl.username"], options.get("sasl.password", "")
    return f'{module} required username="{_quoted(user)}" password="{_quoted(password)}";'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _certificates(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return trust and key stores in PEM, which both clients read."""
    java: dict[str, str] = {}
    if "ssl.ca.location" in options:
        java["ssl.truststore.type"] = "PEM"
        java["ssl.truststore.location"] = options["ssl.ca.location"]
    if "ssl.ca.pem" in options:
        java["ssl.truststore.type"] = "PEM"
        java["ssl.truststore.certificates"] = options["ssl.ca.pem"]
    if "ssl.certificate.pem" in options and "ssl.key.pem" in options:
        java["ssl.keystore.type"] = "PEM"
        java["ssl.keystore.certificate.chain"] = options["ssl.certificate.pem"]
        java["ssl.keystore.key"] = options["ssl.key.pem"]
        if "ssl.key.password" in options:
            java["ssl.key.password"] = options["ssl.key.password"]
    if options.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
    return java
