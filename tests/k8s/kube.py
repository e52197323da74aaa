"""A Kubernetes cluster as tests use it: kubectl, Helm, and waiting for what they tell."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

CHART = Path(__file__).parents[2] / "helm" / "trellis-mesh"
POLL_S = 0.5
"""Each question starts a kubectl, which takes a third of a second of a core."""
T = TypeVar("T")


def until(what: str, ask: Callable[[], T | None], timeout_s: float = 60.0) -> T:
    """Ask until there is an answer; fails with what was waited for."""
    end_s = time.monotonic() + timeout_s
    while (answer := ask()) is None:
        assert time.monotonic() < end_s, f"waited {timeout_s:.0f} s in vain until {what}"
        time.sleep(POLL_S)
    return answer


def restricted_pod(name: str, container: Mapping[str, Any], **spec: Any) -> Mapping[str, Any]:
    """Return a pod of one container that a namespace of restricted pods admits."""
    quiet = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    user = {"runAsNonRoot": True, "runAsUser": 1000, "fsGroup": 1000}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {**user, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{"name": name, "securityContext": quiet, **container}],
            **spec,
        },
    }


@dataclass(frozen=True, slots=True)
class Kube:
    """One namespace of a cluster.

    Attributes:
        kubectl_command, helm_command: How the programs are started, with the way to the cluster.
        namespace: Where everything happens.
        images: Values of the chart that name our images.
        former: The image of workers under another name, as that of an earlier version.
        load: Brings a local image into the cluster; does nothing where it can get images itself.
        kill_command: Kills the container whose id is added; None where only the API can be asked.
    """

    kubectl_command: Sequence[str]
    helm_command: Sequence[str]
    namespace: str
    images: Mapping[str, Any]
    former: Mapping[str, Any]
    load: Callable[[str], None] = lambda _: None
    kill_command: Sequence[str] | None = None

    def kubectl(self, *arguments: str, give: str | None = None) -> str:
        """Return what kubectl says."""
        done = self.try_kubectl(*arguments, give=give)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr}{done.stdout}"
        return done.stdout

    def try_kubectl(
        self, *arguments: str, give: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, whatever becomes of it."""
        command = [*self.kubectl_command, "-n", self.namespace, *arguments]
        return subprocess.run(
            command, input=give or "", capture_output=True, text=True, check=False, timeout=240
        )

    @contextmanager
    def following(self, *arguments: str) -> Iterator[Iterable[str]]:
        """Give the lines of a kubectl that goes on to print, and end it."""
        command = [*self.kubectl_command, "-n", self.namespace, *arguments]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as running:
            assert running.stdout is not None
            try:
                yield running.stdout
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(running.pid, signal.SIGTERM)

    def objects(self, kind: str, **labels: str) -> list[Mapping[str, Any]]:
        """Return the objects of a kind that have these labels of `app.kubernetes.io`."""
        selector = ",".join(f"app.kubernetes.io/{name}={value}" for name, value in labels.items())
        found = json.loads(self.kubectl("get", kind, "-l", selector, "-o", "json"))
        return list(found["items"])

    def pods_of(self, job: str, **labels: str) -> list[Mapping[str, Any]]:
        """Return the pods of a release's job, without those of a former one that are going."""
        found = self.objects("pods", component=job, **labels)
        return [one for one in found if "deletionTimestamp" not in one["metadata"]]

    def said_by(self, job: str, **labels: str) -> str:
        """Return the log of the one pod that a job had: it was not tried again."""
        [told] = self.pods_of(job, **labels)
        return self.kubectl("logs", told["metadata"]["name"])

    def drop_jobs(self) -> set[str]:
        """Remove the jobs that are still there and return their names.

        Those that failed keep their logs for a day, and no longer.
        """
        jobs = json.loads(self.kubectl("get", "jobs", "-o", "json"))["items"]
        for job in jobs:
            assert job["spec"]["ttlSecondsAfterFinished"] == 86400, job
        self.kubectl("delete", "jobs", "--all", "--cascade=foreground")
        return {job["metadata"]["name"] for job in jobs}

    def workers(self) -> dict[str, Mapping[str, Any]]:
        """Return the pods of workers by name."""
        return {one["metadata"]["name"]: one for one in self.objects("pods", component="worker")}

    def mesh(self, pod: str, *arguments: str) -> str:
        """Return what a command of the command line says in a pod."""
        return self.kubectl("exec", pod, "-c", "worker", "--", "mesh", *arguments)

    def kill(self, pod: str) -> None:
        """Have a worker end without a word, as by `kill -9`, and wait until it was missed."""
        if self.kill_command is None:
            self.kubectl("delete", "pod", pod, "--grace-period=0", "--force")
            return
        before = self._container(pod)
        identity = before["containerID"].removeprefix("containerd://")
        subprocess.run([*self.kill_command, identity], capture_output=True, check=True)
        count = before["restartCount"]
        until(
            f"{pod} is started anew",
            lambda: self._container(pod)["restartCount"] > count or None,
        )

    def _container(self, pod: str) -> Mapping[str, Any]:
        [found] = self.workers()[pod]["status"]["containerStatuses"]
        return dict(found)

    def try_helm(
        self, command: str, release: str, values: Mapping[str, Any] | None = None, *more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run Helm, whatever becomes of it; values go through standard input."""
        arguments = [*self.helm_command, "-n", self.namespace, command, release]
        if command in ("install", "upgrade"):
            arguments.append(str(CHART))
        if values is not None:
            arguments += ["-f", "-"]
        return subprocess.run(
            [*arguments, *more],
            input=json.dumps({**self.images, **(values or {})}),
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )

    def helm(
        self, command: str, release: str, values: Mapping[str, Any] | None = None, *more: str
    ) -> str:
        """Return what Helm says."""
        done = self.try_helm(command, release, values, *more)
        assert done.returncode == 0, f"helm {command}: {done.stderr}{done.stdout}{self.told()}"
        return done.stdout

    def uninstall(self, release: str) -> None:
        """Uninstall a release whose end is not what a test is about: its pods are killed.

        Workers and brokers end at the same time, and a worker without its broker may take all the
        time that it is given.
        """
        self.helm("uninstall", release, None, "--wait")
        chosen = ("-l", f"app.kubernetes.io/instance={release}")
        # Sets first, which would make their pods anew.
        self.kubectl(
            "delete", "replicasets,pods", *chosen, "--grace-period=1", "--ignore-not-found"
        )

    def told(self) -> str:
        """Return what pods and events tell, for whoever looks into a failure."""
        pods = self.try_kubectl("get", "pods", "-o", "wide").stdout
        events = self.try_kubectl("get", "events", "--sort-by=.lastTimestamp").stdout
        jobs = "".join(
            self.try_kubectl("logs", one["metadata"]["name"], "--tail=20").stdout
            for kind in ("apply", "compare", "rollout", "validate", "doctor")
            for one in self.objects("pods", component=kind)
        )
        return f"\n{pods}\n{chr(10).join(events.splitlines()[-25:])}\n{jobs}"


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Return whether a pod is ready and stays."""
    conditions = pod.get("status", {}).get("conditions", [])
    return "deletionTimestamp" not in pod["metadata"] and any(
        one["type"] == "Ready" and one["status"] == "True" for one in conditions
    )
