"""Contexts: kept for one user, selected by name, overridden by the environment."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import psutil
import pytest

from mesh.config.context import (
    Context,
    current_context,
    list_contexts,
    previous_context,
    remove_context,
    save_context,
    select_context,
    select_local,
)
from mesh.errors import ConfigError

NOBODY = 2**30
"""No process has an id so high."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where contexts are kept; it is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("MESH_CONTEXT", raising=False)
    return tmp_path / "config" / "trellis-mesh"


def test_nothing_is_selected_at_first() -> None:
    assert current_context() is None
    assert list_contexts() == []


def test_saving_selects_nothing_and_selecting_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Context("one", tmp_path / "a.yaml", {"k": "h:1"})
    two = Context("two", tmp_path / "b.yaml")
    save_context(two)
    save_context(one)
    assert list_contexts() == [one, two]
    assert current_context() is None
    select_context("two")
    assert current_context() == two
    monkeypatch.setenv("MESH_CONTEXT", "")
    assert current_context() == two
    monkeypatch.setenv("MESH_CONTEXT", "one")
    assert current_context() == one
    monkeypatch.delenv("MESH_CONTEXT")
    remove_context("two")
    assert current_context() is None


def test_only_the_user_may_read_them(tmp_path: Path, folder: Path) -> None:
    save_context(Context("a", tmp_path / "a.yaml"))
    save_context(Context("a", tmp_path / "b.yaml"))
    [file] = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_relative_file_is_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save_context(Context("a", Path("mesh.yaml")))
    assert list_contexts()[0].file == tmp_path / "mesh.yaml"


def test_unknown_names_and_bad_ones_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_context(Context("prod", tmp_path))
    with pytest.raises(ConfigError, match="did you mean prod"):
        select_context("prd")
    with pytest.raises(ConfigError, match="no context"):
        remove_context("x")
    with pytest.raises(ConfigError, match="not a name"):
        save_context(Context("a b", tmp_path))
    monkeypatch.setenv("MESH_CONTEXT", "x")
    with pytest.raises(ConfigError, match="MESH_CONTEXT"):
        current_context()


@pytest.mark.parametrize("change", [select_context, remove_context])
def test_no_folder_is_made_for_a_context_that_is_unknown(
    folder: Path, change: Callable[[str], None]
) -> None:
    with pytest.raises(ConfigError, match="no context"):
        change("x")
    assert not folder.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"contexts": {"a": {}}, "selected": "a"}',
        '{"contexts": {"a": {"file": "f", "addresses": {"k": 1}}}, "selected": "a"}',
        '{"contexts": {"a": {"file": "f", "addresses": ["k"]}}, "selected": "a"}',
        '{"contexts": {"a": {"file": "f", "addresses": {}, "pid": 1e999}}, "selected": "a"}',
        "[" * 100_000,
        "\xff",
    ],
    ids=range(9),
)
def test_a_broken_file_is_named(folder: Path, text: str) -> None:
    folder.mkdir(parents=True)
    (folder / "contexts.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"contexts\.json"):
        list_contexts()


@pytest.mark.parametrize("place", ["config", "config/trellis-mesh"])
def test_a_file_where_a_folder_belongs_is_no_matter_of_rights(tmp_path: Path, place: str) -> None:
    (tmp_path / place).parent.mkdir(exist_ok=True)
    (tmp_path / place).touch()
    with pytest.raises(ConfigError, match="a folder of that path is a file") as refused:
        save_context(Context("a", tmp_path / "a.yaml"))
    assert "rights" not in str(refused.value)


def test_no_folder_is_made_of_a_home_that_nobody_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a user without an entry and without HOME the home is `~`, and that is the name of a folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mesh.config.context.user_config_dir", lambda _: "~/.config/trellis-mesh")
    for ask in (current_context, lambda: save_context(Context("a", tmp_path / "a.yaml"))):
        with pytest.raises(ConfigError, match="set HOME or XDG_CONFIG_HOME"):
            ask()
    assert not list(tmp_path.iterdir())


def test_a_mesh_of_this_machine_takes_no_context_that_a_person_added(tmp_path: Path) -> None:
    """It gets the next free name; what an earlier one left is replaced."""
    added = Context("prod", tmp_path / "prod.yaml", {"k": "far:9092"})
    save_context(added)
    for port in (1, 2):
        here = Context("prod", tmp_path / "prod.yaml", {"k": f"localhost:{port}"})
        assert select_local(here) == "prod-2"
    mine = Context("prod-2", tmp_path / "prod.yaml", {"k": "localhost:2"}, is_local=True)
    assert list_contexts() == [added, mine]
    assert current_context() == mine
    assert select_local(Context("demo", tmp_path / "d.yaml")) == "demo"
    assert previous_context() == mine


def test_a_mesh_that_runs_keeps_its_context(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands would speak to the second one of its name, and to nobody once that ends."""

    def started_by(pid: int, port: int) -> str:
        with monkeypatch.context() as patched:
            patched.setattr("os.getpid", lambda: pid)
            addresses = {"k": f"localhost:{port}"}
            return select_local(Context("m", tmp_path / "m.yaml", addresses))

    assert started_by(NOBODY, 1) == "m"
    assert started_by(os.getppid(), 2) == "m"
    assert started_by(os.getpid(), 3) == "m-2"
    assert [one.addresses["k"] for one in list_contexts()] == [
        "localhost:2",
        "localhost:3",
    ]


@pytest.mark.parametrize("pid", [0, -1, NOBODY, 10**30])
def test_what_is_no_process_keeps_no_context(pid: int, tmp_path: Path, folder: Path) -> None:
    """As in a file of an earlier version, or one that somebody has edited."""
    one = {"file": "/m.yaml", "addresses": {}, "local": True, "pid": pid}
    data = {"selected": "m", "contexts": {"m": one}}
    folder.mkdir(parents=True)
    (folder / "contexts.json").write_text(json.dumps(data))
    assert select_local(Context("m", tmp_path / "m.yaml")) == "m"


@pytest.mark.parametrize(("began_s", "name"), [(0.0, "m-2"), (-60.0, "m")])
def test_a_process_that_has_got_the_id_since_keeps_no_context(
    began_s: float, name: str, tmp_path: Path, folder: Path
) -> None:
    """Ids come again, in a container soon: the start tells the two processes apart."""
    other = psutil.Process(os.getppid())
    started = other.create_time() + began_s
    one = {"file": "/m.yaml", "addresses": {}, "local": True, "pid": other.pid, "started": started}
    data = {"selected": "m", "contexts": {"m": one}}
    folder.mkdir(parents=True)
    (folder / "contexts.json").write_text(json.dumps(data))
    assert select_local(Context("m", tmp_path / "m.yaml")) == name
    kept = json.loads((folder / "contexts.json").read_text())["contexts"][name]
    assert (kept["pid"], kept["started"]) == (os.getpid(), psutil.Process().create_time())


def test_case_makes_no_other_name(tmp_path: Path) -> None:
    """As with all names: whoever types `Prod` must not speak to another mesh than `prod`."""
    save_context(Context("prod", tmp_path / "a.yaml"))
    with pytest.raises(ConfigError, match="there is prod, and case does not tell names apart"):
        save_context(Context("Prod", tmp_path / "b.yaml"))
    assert select_local(Context("PROD", tmp_path / "c.yaml")) == "PROD-2"
    assert select_local(Context("PROD", tmp_path / "d.yaml")) == "PROD-2"
    assert select_local(Context("prod", tmp_path / "e.yaml")) == "prod-3"
    assert [one.name for one in list_contexts()] == ["PROD-2", "prod", "prod-3"]


def test_commands_at_one_moment_lose_nothing_of_each_other(tmp_path: Path) -> None:
    """Each reads the file and writes it anew."""
    names = [f"mesh-{number}" for number in range(16)]
    together = Barrier(len(names))

    def save(name: str) -> None:
        together.wait(timeout=30)
        save_context(Context(name, tmp_path / "mesh.yaml"))

    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(save, names))
    assert [one.name for one in list_contexts()] == sorted(names)
