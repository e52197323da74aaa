"""Children end when they should, and never later than we do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from mesh.errors import StartError
from mesh.local import ports
from mesh.local.processes import Process, spawn, stop_all
from tests.patience import PATIENCE_S, wait_until

STUBBORN = (
    "import signal,time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)


def sleeper(tmp_path: Path) -> Process:
    return spawn(["sleep", "60"], name="sleeper", log=tmp_path / "log")


def python(code: str, log: Path) -> Process:
    return spawn([sys.executable, "-c", code], name="python", log=log)


def is_running(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def test_stop_ends_by_sigterm(tmp_path: Path) -> None:
    """A process that listens to SIGTERM ends by it, and stopping twice is fine."""
    process = sleeper(tmp_path)
    assert process.is_alive()
    assert process.stop()
    assert process.stop()
    assert process.returncode == -signal.SIGTERM


def test_stop_kills_after_the_deadline(tmp_path: Path) -> None:
    """A process that ignores SIGTERM is killed."""
    process = python(STUBBORN, tmp_path / "log")
    wait_until("it is up", lambda: process.log_tail() == "up")
    assert not process.stop(deadline_s=0.1)
    assert process.returncode == -signal.SIGKILL


def test_stop_ends_the_whole_group(tmp_path: Path) -> None:
    """A grandchild does not stay behind."""
    code = "import subprocess,time; print(subprocess.Popen(['sleep','60']).pid, flush=True); time.sleep(60)"
    process = python(code, tmp_path / "log")
    wait_until("it is told", lambda: process.log_tail().isdigit())
    grandchild = int(process.log_tail())
    assert is_running(grandchild)
    process.stop()
    wait_until("it ends", lambda: not is_running(grandchild))


def test_stop_all_shares_one_deadline(tmp_path: Path) -> None:
    """Two stubborn processes cost one deadline, not two."""
    both = [python(STUBBORN, tmp_path / str(index)) for index in range(2)]
    for process in both:
        wait_until("it is up", lambda process=process: process.log_tail() == "up")  # type: ignore[misc]
    started_s = time.monotonic()
    stop_all(both, deadline_s=2)
    assert time.monotonic() - started_s < 3.9
    assert not any(process.is_alive() for process in both)


def test_child_dies_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL to us leaves no orphan."""
    code = (
        "import time; from pathlib import Path; from mesh.local.processes import spawn\n"
        f"print(spawn(['sleep', '60'], name='s', log=Path({str(tmp_path / 'inner')!r})).pid, flush=True)\n"
        "time.sleep(60)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    child = int(starter.stdout.readline())
    wait_until("it sleeps", lambda: psutil.Process(child).name() == "sleep")
    starter.kill()
    starter.communicate()
    wait_until("it ends", lambda: not is_running(child))


def test_child_outlives_the_thread_that_asked(tmp_path: Path) -> None:
    """The death signal is bound to a thread; ours is one that stays."""
    started: list[Process] = []
    thread = threading.Thread(target=lambda: started.append(sleeper(tmp_path)))
    thread.start()
    thread.join()
    process = started[0]
    wait_until("it sleeps", lambda: psutil.Process(process.pid).name() == "sleep")
    assert not process.wait(0.2)
    process.stop()


def test_spawn_passes_the_environment_and_keeps_the_log(tmp_path: Path) -> None:
    """Output is appended, so that a restart does not wipe what happened before."""
    for word in ("one", "two"):
        env = {**os.environ, "WORD": word}
        process = spawn(["sh", "-c", "echo $WORD"], name="sh", log=tmp_path / "log", env=env)
        assert process.wait(PATIENCE_S)
    assert process.log_tail() == "one\ntwo"


def test_spawn_names_a_missing_program(tmp_path: Path) -> None:
    """One line instead of a traceback."""
    with pytest.raises(StartError, match="cannot start it: program no-such-thing not found"):
        spawn(["no-such-thing"], name="it", log=tmp_path / "log")


def test_rss_and_cpu_of_a_process_that_ended(tmp_path: Path) -> None:
    """Numbers, not errors: whoever watches may be late."""
    process = sleeper(tmp_path)
    assert process.rss() > 0
    process.kill()
    assert (process.rss(), process.cpu_s()) == (0, 0.0)


def test_free_port_is_free_and_never_the_same() -> None:
    """Ports handed out are distinct, even before anybody listens on them."""
    found = [ports.free_port() for _ in range(50)]
    assert len(set(found)) == 50
    assert all(ports.is_free(port) for port in found)


def test_is_free_sees_a_listener() -> None:
    """A port that somebody listens on is not free."""
    with socket.create_server((ports.LOOPBACK, 0)) as server:
        assert not ports.is_free(server.getsockname()[1])


def test_a_nice_child_stays_in_our_session_where_that_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import os; print(os.nice(0), os.getsid(0), os.getpgid(0) == os.getpid())"
    process = spawn([sys.executable, "-c", code], name="nice", log=log, niceness=7)
    assert process.wait(PATIENCE_S)
    assert log.read_text().split() == [str(min(19, os.nice(0) + 7)), str(os.getsid(0)), "True"]
