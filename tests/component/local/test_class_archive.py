"""Archives of classes are made once, whole, and of one Java and one set of jars."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from mesh.errors import StartError
from mesh.local import software
from mesh.local.class_archive import UNUSED_S, ClassArchive, use


def writing(size: int, *, is_well: bool = True) -> Callable[[Path], bool]:
    def write(archive: Path) -> bool:
        archive.write_bytes(bytes(size))
        return is_well

    return write


def of(folder: Path, java: str = "java", jars: str = "") -> ClassArchive:
    if not (folder / java).exists():
        (folder / java).touch()  # another time would be another Java
    return ClassArchive(folder=folder / "classes", java=folder / java, of=jars)


def test_it_is_made_once(tmp_path: Path) -> None:
    archive = of(tmp_path)
    assert archive.find() is None
    archive.make(writing(9))
    made = archive.find()
    assert made is not None
    archive.make(writing(99))
    assert archive.find() == made
    assert made.stat().st_size == 9


def test_half_of_one_is_none(tmp_path: Path) -> None:
    """Neither what a JVM left that was killed, nor what was cut short later."""
    archive = of(tmp_path)
    archive.make(writing(9, is_well=False))
    assert archive.find() is None
    archive.make(writing(9))
    made = archive.find()
    assert made is not None
    os.truncate(made, 5)
    assert archive.find() is None
    archive.make(writing(7))
    assert archive.find() is not None
    assert {one.suffix for one in archive.folder.iterdir()} == {".lock", ".jsa"}


def test_another_java_and_other_jars_have_another(tmp_path: Path) -> None:
    """Two installations on one machine use theirs by turns."""
    archive = of(tmp_path)
    archive.make(writing(9))
    for other in (of(tmp_path, java="java-21"), of(tmp_path, jars="4.0.1")):
        assert other.find() is None
        other.make(writing(9))
        assert other.find() is not None
        assert archive.find() is not None


def test_one_that_nobody_has_used_for_long_goes_when_another_is_made(tmp_path: Path) -> None:
    used, unused, latest = (of(tmp_path, jars=jars) for jars in ("1", "2", "3"))
    for archive in (used, unused):
        archive.make(writing(9))
    for archive in (used, unused):
        made = archive.find()
        assert made is not None
        before_s = made.stat().st_mtime - UNUSED_S - 60
        os.utime(made, (before_s, before_s))
    assert used.find() is not None
    latest.make(writing(9))
    assert len(list(latest.folder.glob("*.jsa"))) == 2
    assert unused.find() is None


@pytest.mark.parametrize("error", [StartError("no broker"), OSError("disk full")])
def test_where_none_can_be_made_all_goes_on(tmp_path: Path, error: Exception) -> None:
    def write(_: Path) -> bool:
        raise error

    archive = of(tmp_path)
    archive.make(write)
    assert archive.find() is None
    (tmp_path / "classes" / f"{archive.name}.lock").unlink()
    (tmp_path / "classes").rmdir()
    (tmp_path / "classes").touch()  # no folder can be made there
    archive.make(writing(9))
    assert archive.find() is None


def test_a_spark_that_is_started_here_maps_it_and_keeps_the_options_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = of(tmp_path)
    monkeypatch.setattr(software, "spark_classes", lambda _: archive)
    given = {"SPARK_SUBMIT_OPTS": "-Dx=y", "HOME": "h"}
    assert software.with_spark_classes(given) == given
    archive.make(writing(9))
    made = archive.find()
    assert made is not None
    found = software.with_spark_classes(given)
    assert found == {**given, "SPARK_SUBMIT_OPTS": f"-Dx=y {software.QUIET} {use(made)}"}
    assert software.with_spark_classes(found) == found


def test_without_a_java_there_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert software.spark_classes({"JAVA_HOME": str(tmp_path)}) is None
    monkeypatch.setattr(software, "find_spec", lambda _: None)
    assert software.spark_classes({}) is None


def test_jars_that_were_installed_again_in_their_place_have_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM refuses an archive of jars that are younger, without a word, and starts slowly."""
    jars = tmp_path / "__init__.py"
    jars.touch()
    spec = ModuleSpec("pyspark", None, origin=str(jars))
    monkeypatch.setattr(software, "find_spec", lambda _: spec)
    names = []
    for second in (1, 2):
        os.utime(jars, (second, second))
        classes = software.spark_classes()
        assert classes is not None
        names.append(classes.name)
    assert names[0] != names[1]
