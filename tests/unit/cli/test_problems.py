"""How errors reach the user."""

from __future__ import annotations

import json

import pytest

from mesh.cli.problems import asked_output, report
from mesh.cli.render import Output
from mesh.errors import ConfigError, Problem, StartError, TransportUnavailableError


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], Output.TABLE),
        (["x", "-o", "json"], Output.JSON),
        (["x", "-ojson"], Output.JSON),
        (["x", "-o=json"], Output.JSON),
        (["x", "--output", "yaml"], Output.YAML),
        (["x", "--output=json"], Output.JSON),
        (["x", "-o"], Output.TABLE),
        (["x", "-o", "xml"], Output.TABLE),
        (["x", "-o", "json", "--other"], Output.JSON),
    ],
)
def test_asked_output(arguments: list[str], expected: Output) -> None:
    """Every way to write the option is understood before the command runs."""
    assert asked_output(arguments) is expected


def test_errors_have_exit_codes_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    """2 for what the user wrote, 1 for what could not be had. Spec: lab.md 2, lab.md 3."""
    assert report(StartError("no Java; install Java 17"), Output.TABLE) == 1
    assert capsys.readouterr().err == "no Java; install Java 17 [START]\n"
    assert report(TransportUnavailableError("broker\n  gone"), Output.JSON) == 1
    (problem,) = json.loads(capsys.readouterr().out)["error"]
    assert (problem["code"], problem["message"]) == ("TRANSPORT_UNAVAILABLE", "broker gone")
    error = ConfigError(
        [Problem(code="A", message="one", where="f:1:1"), Problem(code="B", message="two")]
    )
    assert report(error, Output.TABLE) == 2
    assert capsys.readouterr().err == "f:1:1: one [A]\ntwo [B]\n"


def test_what_users_wrote_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of a file are shown, not obeyed."""
    report(ConfigError([Problem(code="A", message="x\x1b[2Jy\nz\ud800")]), Output.TABLE)
    assert capsys.readouterr().err == "x\\u001b[2Jy\\u000az\\ud800 [A]\n"
