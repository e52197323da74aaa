"""References to secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config.references import read_secret_file, resolve_options
from mesh.errors import ConfigError


def test_references_are_replaced(tmp_path: Path) -> None:
    """Variables and files stand for their text; everything else stays."""
    secret = tmp_path / "password"
    secret.write_text("hunter2\n")
    secret.chmod(0o600)
    options = {
        "sasl.username": "${env:USER}",
        "sasl.password": f"${{file:{secret}}}",
        "bootstrap.servers": "${env:HOST}:9092",
        "linger.ms": "5",
    }
    assert resolve_options(options, environment={"USER": "me", "HOST": "h"}) == {
        "sasl.username": "me",
        "sasl.password": "hunter2",
        "bootstrap.servers": "h:9092",
        "linger.ms": "5",
    }


def test_all_missing_references_are_named(tmp_path: Path) -> None:
    """An unset variable and a missing file are two located problems."""
    path = tmp_path / "none"
    options = {"sasl.username": "${env:USER}", "sasl.password": f"${{file:{path}}}"}
    with pytest.raises(ConfigError) as caught:
        resolve_options(options, environment={}, where="spec.kafka.tokyo")
    assert [problem.line() for problem in caught.value.problems] == [
        "spec.kafka.tokyo.sasl.username: environment variable USER is not set; set it [UNRESOLVED]",
        (
            f"spec.kafka.tokyo.sasl.password: file {path} cannot be read: No such file or directory; "
            "check the path [UNRESOLVED]"
        ),
    ]


def test_a_value_is_not_resolved_twice() -> None:
    """A secret that looks like a reference is a secret."""
    assert resolve_options({"a": "${env:A}"}, environment={"A": "${env:B}"}) == {"a": "${env:B}"}


def test_open_and_broken_secret_files_are_refused(tmp_path: Path) -> None:
    """A secret that everybody may read is none."""
    secret = tmp_path / "password"
    secret.write_bytes(b"\xff")
    secret.chmod(0o644)
    with pytest.raises(ValueError, match="has mode 0644, readable by everybody; chmod 0600 it"):
        read_secret_file(str(secret))
    secret.chmod(0o600)
    with pytest.raises(ValueError, match="is not UTF-8 at byte 0"):
        read_secret_file(str(secret))
    secret.write_bytes(b"x" * 70_000)
    with pytest.raises(ValueError, match="has more than 64 KiB"):
        read_secret_file(str(secret))


@pytest.mark.parametrize("given", ["", " ", "broker", ":9092", "a:9092,", "a:9092\nb:9092"])
def test_an_address_that_stands_elsewhere_is_looked_at_too(given: str) -> None:
    """A variable that is set and empty: a worker would wait for brokers that are nowhere."""
    options = {"bootstrap.servers": "${env:SERVERS}"}
    with pytest.raises(ConfigError) as caught:
        resolve_options(options, environment={"SERVERS": given}, where="spec.kafka.tokyo")
    [problem] = caught.value.problems
    assert problem.line() == (
        "spec.kafka.tokyo.bootstrap.servers: ${env:SERVERS} stands for no list of brokers; "
        "write host:port, several separated by commas [UNRESOLVED]"
    )
