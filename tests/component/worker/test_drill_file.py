"""A worker process follows what a file says, as soon as that is another file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mesh.model.topics import TopicNames
from mesh.worker.process import drill_file
from mesh.worker.process.drill_file import DrillFile
from mesh.worker.process.drills import Drill
from mesh.worker.process.intake import PolledIntake
from tests.said import Said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.drill.json"


@pytest.fixture
def follower(path: Path) -> DrillFile:
    found = DrillFile(path, "a", TopicNames("mesh."))
    found.begin(PolledIntake({}), lambda: 0)
    return found


def put(path: Path, text: str) -> None:
    """Replace the file at once, as those do who write one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(path)


def test_each_new_file_is_followed_once(path: Path, follower: DrillFile) -> None:
    cuts: list[Sequence[str]] = []
    follower.follow(cuts.append)
    for neighbours in (("b",), ("c",), (), ("b",)):  # of one length, too
        put(path, Drill(cuts=neighbours).written())
        follower.follow(cuts.append)
        follower.follow(cuts.append)
    assert cuts == [("b",), ("c",), (), ("b",)]


def test_a_file_that_stays_is_not_read_again(
    path: Path, follower: DrillFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker looks in each turn."""
    put(path, Drill(cuts=("b",)).written())
    follower.follow(lambda _: None)
    monkeypatch.setattr(drill_file, "read_drill", lambda _: pytest.fail("it was read again"))
    follower.follow(lambda _: None)


def test_a_file_that_is_being_written_is_read_when_it_is_whole(
    said: Said, path: Path, follower: DrillFile
) -> None:
    cuts: list[Sequence[str]] = []
    whole = Drill(cuts=("b",)).written()
    for text in (whole[:10], whole):
        path.write_text(text, encoding="utf-8")
        follower.follow(cuts.append)
    assert cuts == [("b",)]
    assert said.of("drill.follows") == [{"log_level": "warning", "drill": whole}]


def test_another_worker_of_the_process_follows_what_is_there(
    path: Path, follower: DrillFile
) -> None:
    cuts: list[Sequence[str]] = []
    put(path, Drill(cuts=("b",)).written())
    follower.follow(cuts.append)
    follower.begin(PolledIntake({}), lambda: 0)
    follower.follow(cuts.append)
    assert cuts == [("b",), ("b",)]
