"""What is published of a topology, and what is taken from what others published."""

from __future__ import annotations

import json

import pytest
import yaml

from mesh.config.kafka_options import PUBLISHED_OPTIONS
from mesh.config.published import (
    as_yaml_file,
    published_document,
    published_text,
    published_topology,
)
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.transport.kafka.settings import is_secret

CANARY = "canary-5f1e"
ADDRESS = "kafka.example:9093"


def topology_with(**options: str):
    written = {name.replace("_", "."): value for name, value in options.items()}
    spec = {
        "kafka": {"k": {"bootstrap.servers": ADDRESS, **written}},
        "nodes": {"a": {"kafka": "k"}},
        "zones": {},
    }
    return topology_from_mapping(spec)


@pytest.mark.parametrize(
    "option",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.extensions",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.client.secret",
    ],
)
@pytest.mark.parametrize("value", [CANARY, f"{CANARY}${{env:X}}", "${file:/etc/canary-5f1e}"])
def test_a_record_holds_no_credentials_and_no_references(option: str, value: str) -> None:
    """Spec: kafka.md 1 (`mesh.config`)."""
    text = published_text(topology_with(**{option.replace(".", "_"): value}))
    assert json.loads(text)["spec"]["kafka"] == {"k": {"bootstrap.servers": ADDRESS}}
    assert CANARY not in text
    assert is_secret(option)
    assert option not in PUBLISHED_OPTIONS


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("sasl.username", "${env:HOME}"),
        ("linger.ms", "${file:/etc/passwd}"),
        ("ssl.ca.location", "/etc/passwd"),
        ("enable.ssl.certificate.verification", "false"),
        ("sasl.oauthbearer.token.endpoint.url", "https://stranger.example"),
        ("debug", "all"),
    ],
)
def test_of_a_record_only_what_is_harmless_is_taken(option: str, value: str) -> None:
    """Whoever can write to the topic must not choose what this machine looks up."""
    document = json.loads(published_text(topology_with()))
    document["spec"]["kafka"]["k"] |= {option: value}
    found = published_topology(json.dumps(document)).kafka["k"]
    assert found.options == {"bootstrap.servers": ADDRESS}


def test_a_limit_in_force_that_is_given_twice_in_another_case_ends_nothing() -> None:
    """It was legal once; files are refused for it."""
    document = json.loads(published_text(topology_with()))
    document["spec"]["limits"] = [{"endpoint": "s", "bytes": 1}, {"endpoint": "S", "bytes": 7}]
    with pytest.raises(ConfigError, match="the endpoint has limits already"):
        topology_from_mapping(document["spec"])
    limit = published_topology(json.dumps(document)).endpoint_limit("a", "S")
    assert limit is not None
    assert limit.size == 1


def test_tuning_is_told() -> None:
    """A plan names the nodes that must start again for it."""
    topology = topology_with(client_rack="a", linger_ms="7")
    assert published_topology(published_text(topology)).kafka == topology.kafka


def test_an_exported_file_says_the_same_to_readers_of_yaml_1_1() -> None:
    """Helm is one, and takes topologies as values: to it `no` is no name unless it is quoted."""
    names = ("no", "ON", "y", "1e3", "0123", "null")
    topology = topology_from_mapping(
        {
            "kafka": {"off": {}},
            "nodes": {name: {"kafka": "off", "realm": "yes"} for name in names},
            "zones": {"n": {"kind": "one-hop", "nodes": list(names), "title": "1:30"}},
        }
    )
    document = published_document(topology)
    assert yaml.safe_load(as_yaml_file(document)) == json.loads(json.dumps(document))
