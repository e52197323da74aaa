"""Commands with arguments that nobody means: an exit code and a line, never a traceback."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from mesh.cli.commands import COMMANDS, Command
from mesh.cli.main import app
from tests.component.cli.conftest import Chain, Run

DRAWS = 40
EXITS = {0, 1, 2, 3, 10}

NEVER = {"up", "demo", "dashboard", "api", "node run", "audit run", "audit follow", "lab storm"}
"""These serve, or start what is not to be started here."""
LEFT_OUT = {"--follow", "--help", "--backend"}
ENDING = {"subscribe": ["--count", "1", "--timeout", "1"], "plan": ["--within", "0"]}
ENDING |= {"queue consume": ENDING["subscribe"], "role send": ["--timeout", "1"]}
"""What makes those end that would go on, whatever else was drawn."""

ODD = (
    *("", " ", "-", "--", "=", "a", "A", "c", "nobody", "a-b", "a=b", "k=h:1", "left=127.0.0.1:1"),
    *(
        "é",
        "\x1b[2J",
        "\udcff",
        "x" * 300,
        "x\ny",
        "..",
        "/",
        "/dev/null",
        "~",
        "%s",
        "{}",
        "[",
        "*",
    ),
    *("acme/>", ">", "acme/*/eu", "acme//x", "$node/x", "queue/q", "a/e=acme/>", "mesh.a.in.g/0/0"),
    *(
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1",
        "2",
        "1e308",
        "1" + 40 * "0",
        "0x10",
        "1,5",
        "٣",
        "true",
    ),
    *(
        "15m",
        "99999999999d",
        "1e999s",
        "0001-01-01",
        "9999-12-31T23:59:59Z",
        "now",
        "json",
        "every",
    ),
    *("guaranteed", "direct", "cluster", "multi-hop", "Z", "z", "e", "E", "q", "kafka", "links"),
)


def commands() -> Iterator[str]:
    """Yield the command lines that end by themselves."""
    for part in COMMANDS.values():
        for name, entry in part.items():
            inner = [""] if isinstance(entry, Command) else [f" {one}" for one in entry.commands]
            yield from (name + one for one in inner if name + one not in NEVER)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Files that somebody might name, most of them by mistake."""
    monkeypatch.chdir(tmp_path)
    contents = {
        "empty": b"",
        "list.yaml": b"- 1\n- 2\n",
        "deep.yaml": b"a: " + b"[" * 2000,
        "twice.yaml": b"kind: Mesh\nkind: Mesh\n",
        "cycle.yaml": b"a: &a [*a]\n",
        "tab.yaml": b"kind:\tMesh\n\tx: 1\n",
        "bom.yaml": b"\xef\xbb\xbfkind: Mesh\n",
        "utf16.yaml": "kind: Mesh".encode("utf-16"),
        "nul.yaml": b"kind: Me\0sh\n",
        "binary": bytes(range(256)),
        "scenario.yaml": b"apiVersion: mesh/v1\nkind: Scenario\nmetadata: {name: x}\nspec: {mesh: []}\n",
        "plan.json": b'{"kind": "Plan", "base": [], "document": null}',
        "history.jsonl": b'{"is": "run"}\n' + b"[" * 100_000,
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder").mkdir()
    return [*contents, "folder", "folder/none", "empty/none"]


def drawn(line: str, rng: random.Random, good: str, files: list[str]) -> list[str]:
    """Return a command line with some of its arguments and options, few of them meant."""
    found: Any = typer.main.get_command(app)
    for word in line.split():
        found = found.commands[word]
    words = line.split()
    for one in found.params:
        is_argument = one.param_type_name == "argument"
        name = one.opts[-1]
        if name in LEFT_OUT or (not (one.required and rng.random() < 0.9) and rng.random() < 0.7):
            continue
        if getattr(one, "is_flag", False):
            words.append(rng.choice([*one.opts, *one.secondary_opts]))
            continue
        kind = one.type_descriptor
        value = rng.choice([good, good, *files] if kind.is_path else ODD)
        if kind.choices and rng.random() < 0.7:
            value = str(rng.choice(list(kind.choices)))
        words += [value] if is_argument else [name, value]
    if "--file" in {name for one in found.params for name in one.opts}:
        words += ["-f", good] if rng.random() < 0.9 else []
    return words + ENDING.get(line, [])


REFUSED_AT_ONCE = [
    (("publish", "acme//x", "-n", "a", "hi"), "SUBJECT: "),
    (("publish", "acme/*", "-n", "a", "hi"), "only filters have wildcards"),
    (("publish", "acme/x", "-n", "a b", "hi"), "--node: 'a b' is not a name"),
    (("subscribe", "acme/>/x", "-n", "a", "-e", "e"), "it may only be the last level"),
    (("subscribe", "acme/>", "-n", "a", "-e", "e/1"), "--endpoint: 'e/1' is not a name"),
    (("subscribe", "acme/>", "-n", "", "-e", "e"), "--node: a name is empty"),
    (("unsubscribe", "acme/a*", "-n", "a", "-e", "e"), "a wildcard is a whole level"),
    (("unsubscribe", "acme/>", "-n", "a", "-e", "audit"), "'audit' is reserved"),
    (("trace", "mesh.a.in.g/0/x"), "is not a message: write TOPIC/PARTITION/OFFSET"),
    (("trace", f"mesh.a.in.g/0/{2**63}"), "is not a message: write TOPIC/PARTITION/OFFSET"),
    (("link", "pause", "a", "a"), "there is no link between a and itself"),
    (("link", "resume", "a", "b", "--from", "c"), "--from: c is not an end of this link"),
    (("link", "disable", "a", "b c"), "NODE: 'b c' is not a name"),
    (("link", "enable", "a", "a"), "there is no link between a and itself"),
    (("zone", "show", "Z\x1b1"), "ZONE: 'Z\\x1b1' is not a name"),
    (("zone", "show", ""), "ZONE: a name is empty"),
    (("zone", "create", "Z", "--kind", "multi-hop", "--links", "a-b,bc"), "--links bc: is not a"),
    (("zone", "add", "Z", "a", "b c"), "NODE: 'b c' is not a name"),
    (("zone", "add", "Z", "a", "--kind", "one"), "must be cluster, one-hop"),
    (("zone", "add", "Z", "--link", "a:"), "--link a:: is not a link of two nodes"),
    (("zone", "add", "Z", "--link", ""), "name either nodes, or links"),
    (("zone", "remove", "Z", "--link", "ab"), "--link ab: is not a link of two nodes"),
    (("zone", "rename", "Z", "--title", "a\nb"), "spec.zones.Z.title: "),
    (("subject", "pause", "acme/>/x", "-n", "a"), "it may only be the last level"),
    (("interest", "--at", 5_000 * "9"), "is not a time; write 2026-05-04T10:00:00"),
]


@pytest.mark.parametrize(
    ("words", "told"), REFUSED_AT_ONCE, ids=[" ".join(one[0])[:60] for one in REFUSED_AT_ONCE]
)
def test_what_is_wrong_in_itself_is_refused_before_anybody_is_asked(
    words: tuple[str, ...], told: str, run: Run, chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No Kafka cluster is connected to, slow or dead as it may be, to tell of a slip of the pen."""

    def refuses(*_given: object, **_options: object) -> None:
        pytest.fail(f"{words} asked a Kafka cluster")

    monkeypatch.setattr("mesh.view.connection.open_kafka", refuses)
    monkeypatch.setattr("mesh.client.connect", refuses)
    said = run(*words, "-f", chain[1])
    assert (said.code, said.out, said.err.count("\n")) == (2, "", 1), said
    assert told in said.err


@pytest.mark.parametrize("seed", range(4))
def test_odd_arguments_end_with_a_line(seed: int, run: Run, chain: Chain, files: list[str]) -> None:
    """Drawn from a seed; a failure says which words to give."""
    rng, good = random.Random(seed), chain[1]
    lines = list(commands())
    for _ in range(DRAWS):
        words = drawn(rng.choice(lines), rng, good, files)
        said = run(*words)
        assert said.code in EXITS, words
        assert "Traceback" not in said.err, words
        assert said.code in (0, 3, 10) or said.out or said.err, words
