"""Restarts the pods of one release whose template has changed, one after the other.

Runs in a job of the chart, beside which its role lets it look at and delete the pods named here
and no others. Arguments: seconds that one pod may take, then a `STATEFULSET=WORKERS` per node.
Exit codes: 0 all pods are those of the present template, 1 one is not and why.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from http import HTTPStatus
from pathlib import Path
from typing import Any

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
POLL_S = 0.5
SILENT_S = 60.0
"""How long the API server may be away."""

SERVER_FAULT = 500


class RolloutError(Exception):
    """A pod does not come up; says which and why."""


class Api:
    """The API server, as the account of this pod."""

    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        host = f"[{host}]" if ":" in host else host
        namespace = (ACCOUNT / "namespace").read_text(encoding="utf-8")
        self._base = f"https://{host}:{port}/%s/namespaces/{namespace}/%s/%s"
        self._trust = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))

    def get(self, group: str, kind: str, name: str) -> Any:
        """Return an object, or None if there is none."""
        return self._ask("GET", self._base % (group, kind, name))

    def delete_pod(self, name: str) -> None:
        """Delete a pod, with the time that it has to end."""
        self._ask("DELETE", self._base % ("api/v1", "pods", name))

    def _ask(self, method: str, url: str) -> Any:
        token = (ACCOUNT / "token").read_text(encoding="utf-8")
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310
        end_s = time.monotonic() + SILENT_S
        while True:
            try:
                with urllib.request.urlopen(request, context=self._trust, timeout=10) as answer:  # noqa: S310
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                if error.code == HTTPStatus.NOT_FOUND:
                    return None
                fault = f"{error.code} {error.reason}"
                is_final = error.code < SERVER_FAULT and error.code != HTTPStatus.TOO_MANY_REQUESTS
            except (OSError, http.client.HTTPException, ValueError) as error:
                # It is being restarted, or its connection broke, perhaps amid the answer.
                fault, is_final = str(error) or type(error).__name__, False
            if is_final or time.monotonic() > end_s:
                raise RolloutError(f"{method} {url}: {fault}")
            time.sleep(POLL_S)


def is_ready(pod: Any) -> bool:
    """Return whether a pod serves and is not about to end."""
    return "deletionTimestamp" not in pod["metadata"] and is_true(pod, "Ready")


def is_true(pod: Any, condition: str) -> bool:
    """Return whether a condition of a pod holds."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def trouble_of(pod: Any) -> str:
    """Return what keeps a pod from being ready, as far as Kubernetes tells."""
    if "deletionTimestamp" in pod["metadata"]:
        return f"it does not end; see `kubectl describe pod {pod['metadata']['name']}`"
    status = pod.get("status", {})
    for container in [
        *status.get("initContainerStatuses", []),
        *status.get("containerStatuses", []),
    ]:
        state = container.get("state", {})
        waiting = state.get("waiting") or state.get("terminated") or {}
        if waiting.get("reason") == "ContainerCreating":
            name = pod["metadata"]["name"]
            # A sandbox is made once the volumes are there, and images are fetched into it.
            has_sandbox = is_true(pod, "PodReadyToStartContainers")
            lacking = "volumes are not there, a Secret for one"
            lacking = "image is still being fetched" if has_sandbox else lacking
            return f"its {lacking}; see `kubectl describe pod {name}`"
        if waiting.get("reason") not in (None, "PodInitializing", "Completed"):
            told = waiting.get("message") or f"see `kubectl logs {pod['metadata']['name']}`"
            return f"{waiting['reason']}: {' '.join(told.split())}"
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return f"{condition.get('reason')}: {condition.get('message')}"
    return f"it is not ready; see `kubectl logs {pod['metadata']['name']}`"


def wanted_revision(api: Api, workload: str, deadline_s: float) -> str | None:
    """Return the revision of a workload's newest template; None if there is no such workload."""
    while (found := api.get("apis/apps/v1", "statefulsets", workload)) is not None:
        status = found.get("status", {})
        if status.get("observedGeneration", 0) >= found["metadata"]["generation"]:
            return str(status["updateRevision"])
        if time.monotonic() > deadline_s:
            raise RolloutError(f"the controller does not take note of {workload}")
        time.sleep(POLL_S)
    return None


def restart(api: Api, name: str, revision: str, patience_s: float) -> None:
    """Have a pod be that of a revision, and ready; deletes it if it is of another one."""
    end_s = time.monotonic() + patience_s
    pod = api.get("api/v1", "pods", name)
    if pod is not None and pod["metadata"]["labels"].get("controller-revision-hash") != revision:
        print(f"restarting {name}", flush=True)
        api.delete_pod(name)
    while True:
        pod = api.get("api/v1", "pods", name)
        if pod is not None:
            is_new = pod["metadata"]["labels"].get("controller-revision-hash") == revision
            if is_new and is_ready(pod):
                return
        if time.monotonic() > end_s:
            workload, _, _ = name.rpartition("-")
            lacking = f"nobody made it; see `kubectl describe statefulset {workload}`"
            trouble = lacking if pod is None else trouble_of(pod)
            raise RolloutError(f"{name} is not ready after {patience_s:.0f} s: {trouble}")
        time.sleep(POLL_S)


def main(arguments: list[str]) -> int:
    """Restart what has to be; return the exit code."""
    patience_s, api = float(arguments[0]), Api()
    pods: list[tuple[str, str]] = []

    def is_serving(named: tuple[str, str]) -> bool:
        pod = api.get("api/v1", "pods", named[0])
        return pod is not None and is_ready(pod)

    try:
        for argument in arguments[1:]:
            workload, _, workers = argument.partition("=")
            revision = wanted_revision(api, workload, time.monotonic() + patience_s)
            if revision is not None:
                pods += [(f"{workload}-{number}", revision) for number in range(int(workers))]
        # Who does not serve anyway comes first: one at a time means of those that do.
        for name, revision in sorted(pods, key=is_serving):
            restart(api, name, revision, patience_s)
    except RolloutError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{len(pods)} pods are up to date", flush=True)
    return 0


if __name__ == "__main__":
    # Of a container the first process: the kernel keeps from it what it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("error: told to end"))
    sys.exit(main(sys.argv[1:]))
