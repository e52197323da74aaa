"""The jar cache, with a Java of three lines that plays Ivy."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from mesh.errors import StartError
from mesh.local.jars import BROKER_JARS, JarSet, KafkaSoftware, cache_folder, find_kafka
from tests.patience import PATIENCE_S

FAKE = """#!/bin/sh
[ "$1" = -version ] && {{ echo 'openjdk version "{version}" 2025-04-15' >&2; exit 0; }}
echo run >> {runs}
for word; do last="$word"; done
folder=$(dirname "$last")
{body}
"""
GOOD = 'sleep 0.1; echo jar > "$folder/kafka_2.13-9.jar"; echo other > "$folder/x-1.jar"'


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    """A home whose Java plays an Ivy that brings two jars."""
    return fake_java(tmp_path / "java", GOOD)


def fake_java(home: Path, body: str, version: str = "17.0.15") -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True, exist_ok=True)
    script = FAKE.format(version=version, runs=home / "runs", body=body)
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)
    return home


def runs(home: Path) -> int:
    return (home / "runs").read_text(encoding="utf-8").count("run")


def find(cache: Path, java_home: Path) -> KafkaSoftware:
    return find_kafka(cache=cache, java_home=str(java_home))


def test_find_kafka_fetches_once(tmp_path: Path, java_home: Path) -> None:
    """The second call finds what the first one fetched."""
    first = find(tmp_path / "cache", java_home)
    assert sorted(jar.name for jar in first.jars.glob("*.jar")) == [
        "kafka_2.13-9.jar",
        "x-1.jar",
    ]
    assert find(tmp_path / "cache", java_home) == first
    assert runs(java_home) == 1


def test_find_kafka_fetches_again_what_is_damaged(tmp_path: Path, java_home: Path) -> None:
    """A jar cut short is noticed by its size."""
    jars = find(tmp_path / "cache", java_home).jars
    (jars / "x-1.jar").write_bytes(b"")
    assert (find(tmp_path / "cache", java_home).jars / "x-1.jar").read_bytes() == b"other\n"
    assert runs(java_home) == 2


def test_find_kafka_sweeps_what_a_killed_one_left(tmp_path: Path, java_home: Path) -> None:
    """A half set of a process that was killed is never used."""
    left = tmp_path / "cache" / "jars" / f"{BROKER_JARS.folder_name()}.partial"
    left.mkdir(parents=True)
    (left / "half.jar").write_bytes(b"half")
    jars = find(tmp_path / "cache", java_home).jars
    assert not left.exists()
    assert not (jars / "half.jar").exists()


def test_find_kafka_of_two_processes_fetches_once(tmp_path: Path, java_home: Path) -> None:
    """The second process waits for the first and uses its jars."""
    fork = multiprocessing.get_context("spawn")
    both = [fork.Process(target=find, args=(tmp_path / "cache", java_home)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(PATIENCE_S)
    assert [process.exitcode for process in both] == [0, 0]
    assert runs(java_home) == 1


def test_find_kafka_tries_a_new_ivy_home_then_gives_up(tmp_path: Path) -> None:
    """A fetch that fails leaves no folder that looks finished, and says what to check."""
    broken = fake_java(tmp_path / "java", 'echo half > "$folder/x-1.jar"; exit 1')
    with pytest.raises(StartError, match="could not fetch Kafka's jars from Maven Central"):
        find(tmp_path / "cache", broken)
    assert runs(broken) == 2
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.22"])
def test_find_kafka_refuses_an_old_java(tmp_path: Path, version: str) -> None:
    """The message names the version that was found and the one that is needed."""
    old = fake_java(tmp_path / "java", GOOD, version)
    with pytest.raises(StartError, match=r"is Java (8|11): install Java 17 or newer"):
        find(tmp_path / "cache", old)


def test_find_kafka_without_java_says_what_to_install(tmp_path: Path) -> None:
    """One line, no traceback of a missing program."""
    with pytest.raises(StartError, match=r"Java not found: JAVA_HOME=.*; install Java 17"):
        find(tmp_path, tmp_path)


def test_find_kafka_names_a_cache_that_cannot_be_written(tmp_path: Path, java_home: Path) -> None:
    """The message says how to choose another."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StartError, match=r"cannot write the cache folder .* set MESH_CACHE"):
        find(tmp_path / "file", java_home)


def test_folder_name_changes_with_the_artifacts() -> None:
    """A new version never meets the jars of an old one."""
    other = JarSet(name=BROKER_JARS.name, artifacts=(("org.example", "other", "1"),))
    assert BROKER_JARS.folder_name() != other.folder_name()
    assert 'name="other" rev="1"' in other.ivy_file()
    assert "slf4j-simple" in BROKER_JARS.ivy_file()


def test_cache_folder_prefers_the_override() -> None:
    """MESH_CACHE wins over the platform's place."""
    assert cache_folder("/somewhere") == Path("/somewhere")
    assert cache_folder().name == "trellis-mesh"
