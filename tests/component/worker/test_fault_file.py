"""A worker process follows what a file says, as soon as that is another file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from mesh.model.topics import TopicNames
from mesh.worker.process import fault_file
from mesh.worker.process.fault_file import FaultFile
from mesh.worker.process.injected_faults import InjectedFaults
from mesh.worker.process.intake import PolledIntake
from tests.said import Said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.faults.json"


@pytest.fixture
def follower(path: Path) -> FaultFile:
    found = FaultFile(path, "a", TopicNames("mesh."))
    found.begin(PolledIntake({}), lambda: 0)
    return found


def put(path: Path, text: str) -> None:
    """Replace the file at once, as those do who write one."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.rename(path)


def test_each_new_file_is_followed_once(path: Path, follower: FaultFile) -> None:
    cuts: list[Sequence[str]] = []
    follower.follow(cuts.append)
    for neighbours in (("b",), ("c",), (), ("b",)):  # of one length, too
        put(path, InjectedFaults(cuts=neighbours).written())
        follower.follow(cuts.append)
        follower.follow(cuts.append)
    assert cuts == [("b",), ("c",), (), ("b",)]


def test_a_file_that_stays_is_not_read_again(
    path: Path, follower: FaultFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker looks in each turn."""
    put(path, InjectedFaults(cuts=("b",)).written())
    follower.follow(lambda _: None)
    monkeypatch.setattr(
        fault_file, "read_injected_faults", lambda _: pytest.fail("it was read again")
    )
    follower.follow(lambda _: None)


def test_a_file_that_is_being_written_is_read_when_it_is_whole(
    said: Said, path: Path, follower: FaultFile
) -> None:
    cuts: list[Sequence[str]] = []
    whole = InjectedFaults(cuts=("b",)).written()
    for text in (whole[:10], whole):
        path.write_text(text, encoding="utf-8")
        follower.follow(cuts.append)
    assert cuts == [("b",)]
    assert said.of("faults.injected") == [{"log_level": "warning", "faults": whole}]


def test_another_worker_of_the_process_follows_what_is_there(
    path: Path, follower: FaultFile
) -> None:
    cuts: list[Sequence[str]] = []
    put(path, InjectedFaults(cuts=("b",)).written())
    follower.follow(cuts.append)
    follower.begin(PolledIntake({}), lambda: 0)
    follower.follow(cuts.append)
    assert cuts == [("b",), ("b",)]
