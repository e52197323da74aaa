"""Connection options as librdkafka names them, translated for Kafka's Java client.

Connection options are translated or refused by name; all others are tuning of librdkafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mesh.errors import ConfigError, Problem

_SAME = (
    "bootstrap.servers",
    "security.protocol",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.password",
    "sasl.kerberos.service.name",
    "sasl.kerberos.min.time.before.relogin",
)
_TRANSLATED = (
    *_SAME,
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.keytab",
    "sasl.kerberos.principal",
    "sasl.oauthbearer.method",
    "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.extensions",
    "sasl.oauthbearer.token.endpoint.url",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.key.pem",
    "ssl.keystore.location",
    "enable.ssl.certificate.verification",
)
_OF_CONNECTIONS = ("ssl.", "sasl.", "https.", "enable.ssl.", "enable.sasl.")

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
_OAUTH_LOGIN = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def java_options(options: Mapping[str, str], where: str = "") -> Mapping[str, str]:
    """Return what Kafka's Java client needs to reach the same Kafka cluster just as securely.

    Args:
        options: librdkafka options, references resolved.
        where: The Kafka cluster, for messages, for example `spec.kafka.tokyo`.

    Raises:
        ConfigError: An option of the connection has no counterpart there, or a file that it
            names cannot be used. No text holds a secret.
    """
    try:
        return _translated(options)
    except ConfigError as refused:
        located = [
            replace(one, where=f"{where}.{one.where}" if where else one.where)
            for one in refused.problems
        ]
        raise ConfigError(located) from None


def _refused(option: str, message: str) -> ConfigError:
    """Return the error that an option has no counterpart in Kafka's Java client, and what to do."""
    return ConfigError([Problem(code="AUDIT_OPTION", message=message, where=option)])


def _translated(options: Mapping[str, str]) -> Mapping[str, str]:
    for option, value in options.items():
        if option.startswith(_OF_CONNECTIONS) and option not in _TRANSLATED:
            raise _refused(option, "the auditor's client has no such option; remove it there")
        if option == "enable.ssl.certificate.verification" and value.lower() in ("false", "0"):
            text = "the auditor always verifies certificates; give ssl.ca.location instead"
            raise _refused(option, text)
    java = {name: options[name] for name in _SAME if name in options}
    if "metadata.broker.list" in options:
        java.setdefault("bootstrap.servers", options["metadata.broker.list"])
    if options.get("security.protocol", "").upper().startswith("SASL"):
        java.update(_login(options))
    java.update(_trusted(options))
    java.update(_own_certificate(options))
    if options.get("ssl.endpoint.identification.algorithm") == "none":
        java["ssl.endpoint.identification.algorithm"] = ""
    return java


def _login(options: Mapping[str, str]) -> Mapping[str, str]:
    mechanism = options.get("sasl.mechanisms", options.get("sasl.mechanism", "GSSAPI")).upper()
    java = {"sasl.mechanism": mechanism}
    if mechanism == "OAUTHBEARER":
        return {**java, **_oauth(options)}
    if mechanism == "GSSAPI":
        given = {
            "keyTab": options.get("sasl.kerberos.keytab", ""),
            "principal": options.get("sasl.kerberos.principal", ""),
        }
        if not given["keyTab"]:
            return java  # the JVM's own login configuration
        return {**java, "sasl.jaas.config": _jaas(mechanism, given, "useKeyTab=true storeKey=true")}
    if mechanism.partition("-")[0] not in _MODULES:
        raise _refused("sasl.mechanisms", f"the auditor has no mechanism {mechanism}")
    user, password = options.get("sasl.username", ""), options.get("sasl.password", "")
    return {
        **java,
        "sasl.jaas.config": _jaas(mechanism, {"username": user, "password": password}),
    }


def _oauth(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return a login by client credentials at a token endpoint, which both clients support."""
    if options.get("sasl.oauthbearer.method", "default").lower() != "oidc":
        text = "the auditor gets tokens by `oidc` from sasl.oauthbearer.token.endpoint.url only"
        raise _refused("sasl.oauthbearer.method", text)
    given = {
        "clientId": options.get("sasl.oauthbearer.client.id", ""),
        "clientSecret": options.get("sasl.oauthbearer.client.secret", ""),
    }
    if scope := options.get("sasl.oauthbearer.scope", ""):
        given["scope"] = scope
    for extension in filter(None, options.get("sasl.oauthbearer.extensions", "").split(",")):
        name, equals, value = extension.strip().partition("=")
        if not (name and equals):
            raise _refused("sasl.oauthbearer.extensions", "write NAME=VALUE,NAME=VALUE")
        given[f"extension_{name}"] = value
    return {
        "sasl.login.callback.handler.class": _OAUTH_LOGIN,
        "sasl.oauthbearer.token.endpoint.url": options.get(
            "sasl.oauthbearer.token.endpoint.url", ""
        ),
        "sasl.jaas.config": _jaas("OAUTHBEARER", given),
    }


def _jaas(mechanism: str, given: Mapping[str, str], more: str = "") -> str:
    words = [_MODULES[mechanism.partition("-")[0]], "required", *more.split()]
    words += [f'{name}="{_quoted(value)}"' for name, value in given.items() if value]
    return " ".join(words) + ";"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _trusted(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the trusted certificates, in PEM, which both clients read."""
    if "ssl.ca.pem" in options:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": options["ssl.ca.pem"],
        }
    if "ssl.ca.location" in options:
        if Path(options["ssl.ca.location"]).is_dir():
            text = "the auditor reads one PEM file, not a folder: name a file"
            raise _refused("ssl.ca.location", text)
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": options["ssl.ca.location"],
        }
    return {}


def _own_certificate(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the client's certificate and key, from a PKCS#12 file or in PEM."""
    if "ssl.keystore.location" in options:
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": options["ssl.keystore.location"],
        }
    certificate = _pem(options, "ssl.certificate")
    key = _pem(options, "ssl.key")
    if not certificate and not key:
        return {}
    if not (certificate and key):
        lacking = "ssl.key.location" if certificate else "ssl.certificate.location"
        raise _refused(lacking, "a certificate and its key go together: give this one too")
    if "PRIVATE KEY-----" not in key or "BEGIN RSA" in key or "BEGIN EC" in key:
        text = "the auditor reads PKCS#8 keys: `openssl pkcs8 -topk8 -in KEY -out NEW` makes one"
        raise _refused("ssl.key.location", text)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": key,
    }


def _pem(options: Mapping[str, str], option: str) -> str:
    """Return the text of a PEM that is given inline or as a file."""
    if f"{option}.pem" in options:
        return options[f"{option}.pem"]
    path = options.get(f"{option}.location")
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "it is not a PEM file"
        text = f"file {path} cannot be read: {reason}; check the path"
        raise _refused(f"{option}.location", text) from None
