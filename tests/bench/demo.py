"""The demo, as something to measure beside: three brokers, thirteen nodes, an audit, its page."""

from __future__ import annotations

import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from mesh.errors import StartError

PAGE_S = 240


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that runs.

    Attributes:
        address: Of its page, which answers.
        server: The process that serves the page.
    """

    address: str
    server: psutil.Process

    @property
    def options(self) -> Sequence[str]:
        """The options by which a command speaks to its mesh."""
        words = self.server.cmdline()
        named = ("-f", "--bootstrap")
        return [part for at, word in enumerate(words) if word in named for part in words[at:][:2]]


@contextmanager
def running_demo(directory: Path, seconds: float) -> Iterator[Demo]:
    """Run the demo, for at most so long; yield it once its page can be asked.

    Raises:
        StartError: It shows no page.
    """
    log = (directory / "demo.log").open("w+")
    command = [sys.executable, "-m", "mesh", "demo", "--duration", str(seconds)]
    demo = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
    try:
        address = _address(demo, directory / "demo.log")
        yield Demo(address, _server(address))
    finally:
        demo.terminate()
        demo.wait(90)
        log.close()


def _address(demo: subprocess.Popen[bytes], log: Path) -> str:
    until = time.monotonic() + PAGE_S
    while time.monotonic() < until and demo.poll() is None:
        found = [line for line in log.read_text().splitlines() if "the page: " in line]
        if found:
            address = found[0].partition("the page: ")[2].strip().rstrip("/")
            if _answers(f"{address}/readyz"):
                return address
        time.sleep(0.5)
    raise StartError(f"the demo shows no page: {log.read_text()[-500:]}")


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


def _server(address: str) -> psutil.Process:
    listen = urlsplit(address).netloc
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if "dashboard" in words and listen in words:
            return one
    raise StartError(f"no process serves {address}")
