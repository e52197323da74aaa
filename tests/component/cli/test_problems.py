"""How errors reach the user."""

from __future__ import annotations

import errno
import io
import json
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Group
from rich.tree import Tree
from ruamel.yaml import YAML

from mesh.cli.main import main
from mesh.cli.problems import asked_output, report
from mesh.cli.progress import Reporter
from mesh.cli.questions import is_asked
from mesh.cli.render import Output, grid, render, say
from mesh.errors import ConfigError, Problem, StartError, TransportUnavailableError

NO_SPACE = "No space left on device"


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
        (["doctor", "-o", "nagios"], "nagios"),
        (["doctor", "-o", "nagios", "-o", "json"], Output.JSON),
    ],
)
def test_asked_output(arguments: list[str], expected: Output) -> None:
    """Every way to write the option is understood before the command runs."""
    assert asked_output(arguments) == expected


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


@pytest.mark.parametrize(
    ("arguments", "where", "what"),
    [
        (("bogus", "-o", "json"), "mesh", "No such command 'bogus'"),
        (("validate", "-o", "json"), "mesh validate", "Missing argument 'file'"),
        (("queue", "show", "q", "--nope", "-ojson"), "mesh queue show", "No such option: --nope"),
        (("lab", "run", "x", "--backend=moon", "-o=json"), "mesh lab run", "'moon' is not one of"),
    ],
)
def test_a_command_line_that_is_none_is_data_for_scripts(
    arguments: tuple[str, ...], where: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks for JSON gets JSON, whatever is wrong."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    [problem] = json.loads(said.out)["error"]
    assert (ended.value.code, said.err) == (2, "")
    assert (problem["code"], problem["where"]) == ("USAGE", where)
    assert what in problem["message"]
    assert problem["message"].endswith(f"`{where} -h` tells what there is")


def test_what_users_wrote_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Control characters of a file are shown, not obeyed."""
    report(ConfigError([Problem(code="A", message="x\x1b[2Jy\nz\ud800")]), Output.TABLE)
    assert capsys.readouterr().err == "x\\u001b[2Jy\\u000az\\ud800 [A]\n"


def test_what_strangers_wrote_cannot_steer_it_either(capsys: pytest.CaptureFixture[str]) -> None:
    """In cells of tables, in lines beside them, and in what is said of a loss. Lines stay lines."""
    parts = Group("line \x1b[2J", Tree("tree \x9b1m"), grid(("\x1b]A",), [("one\x07\ntwo",)]))
    render({}, lambda: parts, Output.TABLE)
    say("lost (\x1b[31m)\nmore")
    said = capsys.readouterr()
    assert said.err == "lost (\\u001b[31m)\nmore\n"
    assert all(one.isprintable() or one == "\n" for one in said.out)
    assert said.out.splitlines()[:2] == ["line \\u001b[2J", "tree \\u009b1m"]
    assert "one\\u0007\ntwo" in "\n".join(map(str.strip, said.out.splitlines()))


class Full(io.StringIO):
    """A stream to a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, NO_SPACE)


@pytest.mark.parametrize("command", ["schema", "topology", "validate"])
def test_a_full_disk_is_one_line(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was asked for is not there, so the exit code says so; nothing is said twice."""
    file = str(Path(__file__).parents[3] / "examples" / "topologies" / "fig36.yaml")
    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(SystemExit) as ended:
        main([command] if command == "schema" else [command, file])
    monkeypatch.undo()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == f"standard output cannot be written: {NO_SPACE}; send it elsewhere [OUTPUT]\n"


@pytest.mark.parametrize("words", [["-h"], ["status", "--help"], ["zone", "-h"], ["--version"]])
def test_help_on_a_full_disk_is_the_same_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(SystemExit) as ended:
        main(words)
    monkeypatch.undo()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said == f"standard output cannot be written: {NO_SPACE}; send it elsewhere [OUTPUT]\n"


@pytest.mark.parametrize(
    ("words", "where"),
    [(["validate", ""], "file"), (["status", "-f", ""], "-f"), (["plan", "x", "--out="], "--out")],
)
def test_an_empty_path_is_not_the_folder_one_is_in(
    words: list[str], where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As from a script with a variable that is not set."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"{where}: is empty; write a path [BAD_VALUE]\n"


def test_what_cannot_be_written_is_not_told_to_who_cannot_hear_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever asks for JSON reads a stream that has failed: people are told, on the other one."""
    file = str(Path(__file__).parents[3] / "examples" / "topologies" / "fig36.yaml")
    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(SystemExit) as ended:
        main(["validate", file, "-o", "json"])
    monkeypatch.undo()
    assert ended.value.code == 1
    assert capsys.readouterr().err.endswith(f"{NO_SPACE}; send it elsewhere [OUTPUT]\n")


class Terminal(io.TextIOWrapper):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "said"), [(io.TextIOWrapper, "Köln is legal"), (Terminal, r"K\xf6ln is legal")]
)
def test_what_an_encoding_lacks_is_no_fault(
    stream: type[io.TextIOWrapper], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes into files and pipes is UTF-8, as our own files are."""
    spec = {"kafka": {"k": None}, "nodes": {"a": {}}}
    document = {"apiVersion": "mesh/v1", "kind": "Mesh", "metadata": {"name": "Köln"}, "spec": spec}
    file = tmp_path / "mesh.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", stream(written, encoding="ascii"))
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(file)])
    assert not ended.value.code
    assert written.getvalue().decode().startswith(said)


def test_a_terminal_that_is_said_to_have_no_width_shows_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """COLUMNS=0, as where nobody knows: the answer was nothing, and no error."""
    monkeypatch.setenv("COLUMNS", "0")
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", Terminal(written, encoding="utf-8"))
    file = Path(__file__).parents[3] / "examples" / "topologies" / "fig36.yaml"
    for arguments in (["validate", str(file)], ["walks", str(file), "--from", "tk3", "-o", "json"]):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert not ended.value.code
    assert "fig36 is legal: 9 nodes" in written.getvalue().decode()
    assert '"pa2"' in written.getvalue().decode()


@pytest.mark.parametrize(
    "text", ["no", "on", "1:30", "0123", "null", "a\x85b", "\u2028", "a\nb ", ""]
)
def test_yaml_is_read_as_it_was_meant_by_whoever_reads_it(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """By YAML 1.1 as PyYAML has it too, to which a node called `no` would be false."""
    data = {"ok": True, text: [text, {"inside": text}]}
    render(data, lambda: "", Output.YAML)
    told = capsys.readouterr().out
    assert yaml.safe_load(told) == data
    assert YAML(typ="safe", pure=True).load(told) == data


def test_closed_streams_change_no_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `2>&-` and `<&-` there is none; Python says so by None."""
    monkeypatch.setattr("sys.stderr", None)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(SystemExit) as ended:
        main(["validate", "nowhere.yaml"])
    assert ended.value.code == 2
    assert not is_asked()
    say("nobody hears this")


@pytest.mark.parametrize(
    ("refused", "line"),
    [
        (
            NotADirectoryError(errno.ENOTDIR, "Not a directory", "/a/b"),
            "/a/b: Not a directory; check the path and its rights [START]\n",
        ),
        (
            FileExistsError(errno.EEXIST, "File exists", "/a/b"),
            "/a/b: is there, and is no folder; name another place [START]\n",
        ),
        (
            OSError(errno.ENOSPC, NO_SPACE),
            f"the system refused this command: {NO_SPACE}; make room where it writes [OUTPUT]\n",
        ),
    ],
)
@pytest.mark.parametrize("output", ["table", "json"])
def test_what_the_system_refuses_is_one_line(
    refused: OSError,
    line: str,
    output: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A folder that cannot be made, a socket, a disk: wherever in a command it comes from."""

    def refuses() -> dict[str, object]:
        raise refused

    monkeypatch.setattr("mesh.config.topology_file.topology_schema", refuses)
    monkeypatch.setattr("sys.stdout", sys.stdout)  # it is given up where it is what was refused
    with pytest.raises(SystemExit) as ended:
        main(["schema", "-o", output])
    monkeypatch.undo()
    assert ended.value.code == 1
    said = capsys.readouterr()
    is_told_there = output == "json" and refused.filename is not None
    assert (json.loads(said.out)["error"][0]["code"] == "START") if is_told_there else not said.out
    assert said.err == ("" if is_told_there else line)


class Gone(io.StringIO):
    """A pipe that nobody reads any more."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


class Refusing(io.StringIO):
    """A file on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, NO_SPACE)


@pytest.mark.parametrize("stream", [Gone, Refusing])
def test_an_error_that_nobody_reads_is_no_other_error(
    stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`| head` may have gone before it: no traceback, and the same exit code."""
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Gone())
        assert report(StartError("no Java"), Output.JSON) == 1
        assert sys.stdout is None  # nothing is left to be written when the program ends
    monkeypatch.setattr("sys.stderr", stream())
    assert report(StartError("no Java"), Output.TABLE) == 1
    Reporter()("what goes on")


def test_an_error_that_cannot_be_written_for_scripts_is_told_to_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", Full())
        assert report(StartError("no Java"), Output.JSON) == 1
    assert capsys.readouterr().err == "no Java [START]\n"
