"""A Kubernetes cluster of one node on this machine, in namespaces of its own.

A real API server, scheduler, controller manager, kubelet and proxy; pods run in containerd. All of
it ends with its first process, and that one with us.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from mesh.local.processes import Process, spawn
from tests.k8s import settings

HERE = Path(__file__).parent
NAMESPACES = ("-n", "-m", "-p", "-i", "-u")
CGROUPS = Path("/sys/fs/cgroup")
START_S = 120.0
PROGRAMS = {
    "containerd": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "unshare": "util-linux",
    "openssl": "openssl",
    "docker": "docker.io",
    "go": "Go 1.24 or newer",
}


def lacking_here() -> str | None:
    """Return why no cluster can be made on this machine, or None."""
    if os.geteuid() != 0:
        return "making a Kubernetes cluster takes root"
    packages = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    return f"not installed: {', '.join(packages)}" if packages else None


@dataclass(slots=True)
class LocalCluster:
    """One cluster.

    Attributes:
        programs: Folder of what `tests.k8s.programs` builds.
        folder: Where all of it is kept; empty at first.
    """

    programs: Path
    folder: Path
    _pid: int = 0
    _first: Process | None = None
    _parts: list[Process] = field(default_factory=list)

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's way in, for programs that run inside."""
        return self.folder / "admin.conf"

    def inside(self, command: Sequence[str]) -> list[str]:
        """Return what runs a command where the cluster is."""
        return ["nsenter", "-t", str(self._pid), *NAMESPACES, "--", *command]

    def start(self) -> None:
        """Start it; returns when its node is ready.

        Raises:
            TimeoutError: It was not in time, or a part of it ended.
        """
        subprocess.run([HERE / "certificates.sh", self.folder], capture_output=True, check=True)
        settings.write(self.folder, self.programs)
        unshare = ["unshare", *NAMESPACES, "-f", "--mount-proc", "--kill-child"]
        first = [*unshare, str(HERE / "namespace.sh"), str(self.folder)]
        self._first = spawn(first, name="namespaces", log=self.folder / "namespaces.log")
        self._until("the namespaces are made", (self.folder / "made").exists)
        self._pid = psutil.Process(self._first.pid).children()[0].pid
        self._begin("containerd", ["containerd", "--config", f"{self.folder}/containerd.toml"])
        self._part(
            "etcd", f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=error"
        )
        self._part("apiserver", *settings.apiserver(self.folder))
        self._until("the API server is ready", lambda: self._says("ok", "get", "--raw", "/readyz"))
        self._part("controller-manager", *settings.manager(self.folder))
        admin = f"--kubeconfig={self.kubeconfig}"
        self._part("scheduler", admin, "--leader-elect=false")
        pause = self.programs / "pause"
        self._import_file(settings.PAUSE, pause)
        self._part(
            "kubelet",
            f"--kubeconfig={self.folder}/node.conf",
            f"--config={self.folder}/kubelet.json",
            f"--hostname-override={settings.NODE}",
            f"--node-ip={settings.BRIDGE}",
        )
        self._part(
            "proxy", f"--config={self.folder}/proxy.json", f"--hostname-override={settings.NODE}"
        )
        self._begin("dns", [str(self.programs / "dns"), "-conf", f"{self.folder}/Corefile"])
        ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}"
        self._until("the node is ready", lambda: self._says("True", "get", "nodes", "-o", ready))

    def load(self, image: str) -> None:
        """Bring an image of the Docker engine into the cluster."""
        take = self.inside(["ctr", "-n", "k8s.io", "images", "import", "--no-unpack", "-"])
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
            subprocess.run(take, stdin=saving.stdout, capture_output=True, check=True)

    def name(self, image: str, other: str) -> None:
        """Give an image of the cluster another name."""
        names = [f"docker.io/library/{one}" for one in (image, other)]
        tag = self.inside(["ctr", "-n", "k8s.io", "images", "tag", *names])
        subprocess.run(tag, capture_output=True, check=True)

    def stop(self) -> None:
        """End all of it and leave nothing behind but its folder."""
        if self._pid:
            with suppress(psutil.NoSuchProcess):
                psutil.Process(self._pid).kill()
        for part in [*self._parts, *([self._first] if self._first else [])]:
            part.kill()
        self._pid = 0
        _drop_cgroups()

    def _import_file(self, image: str, program: Path) -> None:
        """Make an image of one program."""
        tar = ["tar", "-C", str(program.parent), "-c", program.name]
        change = f'ENTRYPOINT ["/{program.name}"]'
        with subprocess.Popen(tar, stdout=subprocess.PIPE) as packing:
            make = ["docker", "import", "--change", change, "-", image]
            subprocess.run(make, stdin=packing.stdout, capture_output=True, check=True)
        self.load(image)

    def _part(self, name: str, *options: str) -> None:
        self._begin(name, [str(self.programs / "kubernetes"), name, *options])

    def _begin(self, name: str, command: Sequence[str]) -> None:
        log = self.folder / f"{name}.log"
        self._parts.append(spawn(self.inside(command), name=name, log=log))

    def _says(self, words: str, *arguments: str) -> bool:
        kubectl = [str(self.programs / "kubernetes"), "kubectl", f"--kubeconfig={self.kubeconfig}"]
        command = self.inside([*kubectl, *arguments])
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode == 0 and done.stdout == words

    def _until(self, what: str, holds: Callable[[], bool]) -> None:
        end_s = time.monotonic() + START_S
        while not holds():
            dead = [part for part in self._parts if not part.is_alive()]
            if dead or time.monotonic() > end_s:
                tails = "\n".join(f"{one.name}: {one.log_tail(8)}" for one in dead)
                raise TimeoutError(f"waited in vain until {what}; ended: {tails or 'nothing'}")
            time.sleep(0.1)


def _drop_cgroups() -> None:
    """Remove the control groups of pods and containers, the innermost first."""
    for _ in range(3):
        roots = [
            *CGROUPS.glob("*/kubepods*"),
            *CGROUPS.glob("*/k8s.io*"),
            *CGROUPS.glob("kubepods*"),
        ]
        for root in roots:
            folders = [path for path in root.rglob("*") if path.is_dir()]
            for folder in [*sorted(folders, key=lambda path: -len(path.parts)), root]:
                with suppress(OSError):
                    folder.rmdir()
