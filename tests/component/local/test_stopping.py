"""A signal at any moment: the work ends, its children end, nobody sees a traceback."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import IO

import psutil
import pytest

from mesh.errors import StartError
from mesh.local.stopping import Stopping, work_folder
from tests.patience import PATIENCE_S, wait_until

TAG = "MESH_TEST_TAG"

PROGRAM = """
import sys, time
from pathlib import Path
from typing import IO
from mesh.local.processes import spawn
from mesh.local.stopping import Stopping, run_stoppable, work_folder

def say(text):
    print(text, file=sys.stderr, flush=True)

def work(stopping):
    with work_folder(None, sys.argv[2], stopping, say) as folder:
        spawn(["sleep", "600"], name="child", log=folder / "log")
        say(f"up {folder}")
        {{"waits": lambda: stopping.wait(600),
          "deaf": lambda: time.sleep(600),
          "fails": lambda: 1 / 0,
          "ends": lambda: None}}[sys.argv[1]]()
    return 7

sys.exit(run_stoppable(work, progress=say))
""".replace("{{", "{").replace("}}", "}")


class Run:
    """The program above, tagged so that all its descendants can be found."""

    def __init__(self, kind: str, tmp_path: Path) -> None:
        self.tag = uuid.uuid4().hex
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, kind, "mesh-test"],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, TAG: self.tag, "TMPDIR": str(tmp_path)},
        )
        assert self.process.stderr is not None
        self.folder = Path(self.process.stderr.readline().removeprefix("up ").strip())

    def end(self) -> tuple[int, str]:
        assert self.process.stderr is not None
        errors = self.process.stderr.read()
        return self.process.wait(PATIENCE_S), errors

    def left(self) -> list[int]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(TAG) == self.tag:
                    found.append(process.pid)
            except psutil.Error:
                continue
        return found

    def wait_none_left(self) -> None:
        wait_until("none is left", lambda: not self.left(), so_far=self.left)


@pytest.mark.parametrize("kind", ["waits", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_work_and_children_without_a_traceback(
    kind: str, number: signal.Signals, tmp_path: Path
) -> None:
    run = Run(kind, tmp_path)
    run.process.send_signal(number)
    code, errors = run.end()
    assert (code, errors) == (128 + number, "stopping\n")
    run.wait_none_left()
    assert not run.folder.exists()


def test_second_signal_does_not_wait(tmp_path: Path) -> None:
    run = Run("deaf", tmp_path)
    run.process.send_signal(signal.SIGINT)
    run.process.send_signal(signal.SIGTERM)
    code, errors = run.end()
    assert code in {130, 143}  # whichever the kernel gave first
    assert "Traceback" not in errors
    run.wait_none_left()


def test_killed_program_leaves_no_process_and_its_folder_is_swept(tmp_path: Path) -> None:
    run = Run("waits", tmp_path)
    run.process.kill()
    run.process.wait()
    run.wait_none_left()
    assert run.folder.exists()
    other = Run("ends", tmp_path)
    code, _ = other.end()
    assert code == 7
    assert not run.folder.exists()
    assert not other.folder.exists()


def test_a_fault_of_ours_is_raised_and_the_logs_are_kept(tmp_path: Path) -> None:
    run = Run("fails", tmp_path)
    code, errors = run.end()
    assert code == 1
    assert "ZeroDivisionError" in errors
    assert f"logs are kept in {run.folder}" in errors
    assert run.folder.exists()


def test_a_chosen_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    """Two brokers on one log spoil it for both: the second mesh does not begin."""
    chosen = tmp_path / "data"
    for _ in range(2):  # and it is free again behind the first
        with work_folder(chosen, "mesh-test", Stopping(), print) as folder:
            (folder / "kept").touch()
            with (
                pytest.raises(StartError, match=r"data: another mesh works there: end that one"),
                work_folder(chosen, "mesh-test", Stopping(), print),
            ):
                pass
    assert (chosen / "kept").exists()


def test_a_folder_without_logs_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There was no Java, for example: nothing ran, and there is nothing to read."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said: list[str] = []
    with pytest.raises(StartError), work_folder(None, "mesh-test", Stopping(), said.append):
        raise StartError("no Java")
    assert (said, list(tmp_path.iterdir())) == ([], [])


def test_a_folder_that_has_just_been_made_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program begins before this one has its lock: it takes the folder for a dead one's."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    locks = fcntl.flock

    def lock_late(held: IO[str], how: int) -> None:
        monkeypatch.setattr("fcntl.flock", locks)
        with work_folder(None, "mesh-test", Stopping(), print):
            pass
        locks(held, how)

    monkeypatch.setattr("fcntl.flock", lock_late)
    with work_folder(None, "mesh-test", Stopping(), print) as folder:
        (folder / "kept").touch()
        with work_folder(None, "mesh-test", Stopping(), print) as other:
            assert (other != folder, (folder / "kept").exists()) == (True, True)


def test_no_lock_of_a_stranger_leads_to_a_file_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everybody may write where scratch folders are, and whoever starts a mesh may be root."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    ours, pipe = tmp_path / "ours", tmp_path / "mesh-test-b" / "lock"
    ours.write_text("kept", encoding="utf-8")
    for name in "ab":
        (tmp_path / f"mesh-test-{name}").mkdir()
    (tmp_path / "mesh-test-a" / "lock").symlink_to(ours)
    os.mkfifo(pipe)
    with work_folder(None, "mesh-test", Stopping(), print):
        pass
    assert ours.read_text(encoding="utf-8") == "kept"
