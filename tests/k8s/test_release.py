"""A release on a real API server: installed, used, changed under load, broken, scaled, removed.

One release goes through all of it, in the order of the tests: each begins with what the former left,
so what a test does not mean to change, its values leave as it was.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.k8s.kube import Kube, is_ready, restricted_pod, until

# Of a test alone: the first set-up builds images and Kubernetes, which takes what it takes.
pytestmark = [pytest.mark.k8s, pytest.mark.docker, pytest.mark.timeout(600, func_only=True)]

RELEASE = "demo"
NODES = ("tk1", "ny1", "pa1")
LINE = [["tk1", "ny1"], ["ny1", "pa1"]]
MOVED = [["tk1", "pa1"], ["ny1", "pa1"]]
AROUND = [["tk1", "ny1"], ["tk1", "pa1"]]
STOP = "/tmp/stop"
SECRET = "kafka"
RACK = "/etc/mesh/kafka/tokyo/rack"
STAYS = {"client", "default", "kube-root-ca.crt"}
# Of a container's CPU it gets what it asks for where others want it, and here all share two cores.
SMALL: Mapping[str, Any] = {"requests": {"cpu": "60m", "memory": "96Mi"}}
# Asked each second a worker is known to serve a second earlier; it may be as slow as by default.
PROBES: Mapping[str, Any] = {
    "startupProbe": {"periodSeconds": 1, "failureThreshold": 600},
    "readinessProbe": {"periodSeconds": 1, "failureThreshold": 6},
}
QUICK: Mapping[str, Any] = {"resources": SMALL, **PROBES}
LOAD = Path(__file__).with_name("load.py").read_text(encoding="utf-8")


def values(
    links: list[list[str]] = LINE,
    kind: str = "multi-hop",
    *,
    is_validated: bool = False,
    **more: Any,
) -> Mapping[str, Any]:
    """Return the values of the release; whatever they leave alone restarts nobody.

    A job takes five seconds, so only some of the tests have the topology validated.
    """
    spec = {
        "kafka": {"tokyo": {"client.rack": f"${{file:{RACK}}}"}, "newyork": {}, "paris": {}},
        "nodes": {
            "tk1": {"kafka": "tokyo"},
            "ny1": {"kafka": "newyork"},
            "pa1": {"kafka": "paris"},
        },
        "zones": {"WORLD": {"kind": kind, "links": links}},
    }
    topology = {"name": "worldwide", "spec": spec, "apply": {"enabled": True, "waitSeconds": 120}}
    credentials = {"tokyo": {"existingSecret": SECRET}}
    common = {"workers": 2, "credentials": credentials, **QUICK}
    return {"topology": {**topology, "validate": is_validated}, **common, **more}


def patience_s(quiet_s: float) -> float:
    """Return what a time on a quiet machine may be on this one just now."""
    return quiet_s * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def pod(node: str, number: int = 0) -> str:
    return f"{RELEASE}-trellis-mesh-{node}-{number}"


def all_ready(kube: Kube, count: int, quiet_s: float = 60) -> dict[str, Mapping[str, Any]]:
    """Wait until so many workers are there and ready, and return them."""

    def ask() -> dict[str, Mapping[str, Any]] | None:
        found = kube.workers()
        well = len(found) == count and all(is_ready(one) for one in found.values())
        return found if well else None

    return until(f"{count} workers are ready", ask, patience_s(quiet_s))


def ages(workers: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Return who each worker is: another uid is another pod."""
    return {name: one["metadata"]["uid"] for name, one in workers.items()}


def revision(kube: Kube) -> str:
    """Return the number of the revision that is deployed: not of those that failed."""
    history = json.loads(kube.helm("history", RELEASE, None, "-o", "json"))
    [deployed] = [one["revision"] for one in history if one["status"] == "deployed"]
    return str(deployed)


@pytest.fixture(scope="module")
def client(kube: Kube) -> Iterator[str]:
    """A pod of somebody who uses the mesh, with our command line."""
    image = f"{kube.images['image']['repository']}:{kube.images['image']['tag']}"
    name = f"{RELEASE}-trellis-mesh"
    mounts = [
        {"name": "topology", "mountPath": "/etc/mesh/mesh.yaml", "subPath": "mesh.yaml"},
        {"name": "context", "mountPath": "/etc/mesh/config/trellis-mesh"},
        {"name": "secret", "mountPath": str(Path(RACK).parent)},
    ]
    container = {
        "image": image,
        "imagePullPolicy": kube.images["image"]["pullPolicy"],
        "command": ["sleep", "infinity"],
        "env": [{"name": "XDG_CONFIG_HOME", "value": "/etc/mesh/config"}],
        "resources": {"requests": {"cpu": "250m"}},
        "volumeMounts": mounts,
    }
    volumes = [
        *({"name": n, "configMap": {"name": f"{name}-{n}"}} for n in ("topology", "context")),
        {"name": "secret", "secret": {"secretName": SECRET, "defaultMode": 0o440}},
    ]
    made = restricted_pod("client", container, volumes=volumes)
    kube.kubectl("apply", "-f", "-", give=json.dumps(made))
    kube.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=120s")
    yield "client"
    kube.kubectl("delete", "pod", "client")


@contextmanager
def load(kube: Kube, client: str, rate: int = 60) -> Iterator[dict[str, Any]]:
    """Publish at every node meanwhile; at the end nothing is lost, doubled or out of order."""
    said: dict[str, Any] = {}
    kube.kubectl("exec", client, "--", "rm", "-f", STOP)
    command = [*kube.kubectl_command, "-n", kube.namespace, "exec", "-i", client]
    command += ["--", "python", "-", str(rate), STOP]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        running.stdin.write(LOAD)
        running.stdin.close()
        running.stdin = None
        assert running.stdout.readline() == "begun\n", running.communicate()[1]
        try:
            yield said
        finally:
            kube.kubectl("exec", client, "--", "touch", STOP)
            out, err = running.communicate(timeout=180)
        assert running.returncode == 0, err
    said.update(json.loads(out))
    assert said["ok"], said
    assert said["published"]["ok"] > 0


@contextmanager
def watching(kube: Kube) -> Iterator[list[frozenset[str]]]:
    """Note who does not serve among the workers, at every change that the API server tells of."""
    serves: dict[str, bool] = {}
    away: list[frozenset[str]] = []

    def note(lines: Iterable[str]) -> None:
        for line in lines:
            change = json.loads(line)
            one, is_gone = change["object"], change["type"] == "DELETED"
            serves[one["metadata"]["name"]] = not is_gone and is_ready(one)
            away.append(frozenset(name for name, well in serves.items() if not well))

    changes = ("-l", "app.kubernetes.io/component=worker", "-o", "json", "--output-watch-events")
    with kube.following("get", "pods", "--watch", *changes) as lines:
        thread = threading.Thread(target=note, args=(lines,), daemon=True)
        thread.start()
        until("somebody is seen", lambda: away or None)
        yield away
    thread.join()


def test_one_command_gives_a_mesh_that_serves(kube: Kube) -> None:
    """With images there, three Kafka clusters and six workers are ready within 60 s."""
    begun_s = time.monotonic()
    rotate(kube, "first")
    kube.helm("install", RELEASE, values(image=kube.former, is_validated=True))
    all_ready(kube, 6)
    assert time.monotonic() - begun_s < patience_s(60)
    assert "Succeeded" in kube.helm("test", RELEASE)
    [told] = json.loads(kube.mesh(pod("tk1"), "status", "-o", "json"))["nodes"][:1]
    assert told


def test_a_message_crosses_the_mesh(kube: Kube) -> None:
    """Subscribed in one pod, published in another, by commands that need no options."""
    kube.mesh(pod("pa1"), "subscribe", "acme/>", "-n", "pa1", "-e", "orders")
    kube.mesh(pod("tk1"), "publish", "acme/hello", "world", "-n", "tk1")
    assert "world" in orders(kube, 1)


def orders(kube: Kube, count: int) -> str:
    """Return the first messages that somebody in Paris has ordered."""
    endpoint = ("acme/>", "-n", "pa1", "-e", "orders")
    counted = ("--from-beginning", "--count", str(count))
    return kube.mesh(pod("pa1"), "subscribe", *endpoint, *counted)


def test_an_upgrade_restarts_one_worker_at_a_time(kube: Kube, client: str) -> None:
    """Another image under load: never two workers are away, and nothing is lost or doubled."""
    before = ages(kube.workers())
    with load(kube, client) as said, watching(kube) as away:
        kube.helm("upgrade", RELEASE, values(is_validated=True))
    after = ages(all_ready(kube, 6))
    assert set(after) == set(before)
    assert not set(after.values()) & set(before.values())
    assert max(map(len, away)) == 1, away
    assert max(said["silence_s"].values()) <= patience_s(3), said


def test_an_upgrade_without_changes_restarts_nothing(kube: Kube) -> None:
    """As every sync of a deployment tool does it."""
    before = ages(kube.workers())
    kube.helm("upgrade", RELEASE, values())
    assert ages(kube.workers()) == before


def test_a_changed_topology_is_followed_without_a_restart(kube: Kube, client: str) -> None:
    """The walk from tk1 to ny1 moves under load; nothing is lost, doubled or reordered."""
    before = ages(kube.workers())
    with load(kube, client):
        kube.helm("upgrade", RELEASE, values(MOVED))
    assert ages(kube.workers()) == before
    route = json.loads(kube.mesh(pod("tk1"), "route", "tk1", "ny1", "-o", "json"))
    assert "pa1" in json.dumps(route)


def test_a_rollback_takes_the_topology_back(kube: Kube, client: str) -> None:
    """The former release's job applies the former topology, under load."""
    before = ages(kube.workers())
    with load(kube, client):
        kube.helm("rollback", RELEASE)
    assert ages(kube.workers()) == before
    assert "pa1" not in json.dumps(
        json.loads(kube.mesh(pod("tk1"), "route", "tk1", "ny1", "-o", "json"))
    )


def test_a_job_that_is_told_to_end_lets_sources_go_on(kube: Kube) -> None:
    """Its pod is deleted amid a change that cannot end; another one carries it out when it can."""
    waits, held = "waits on the link", "told while sources hold"
    kube.mesh(pod("tk1"), "link", "pause", "tk1", "ny1", "--why", "a change never drains it")
    kube.mesh(pod("tk1"), "publish", "acme/hello", waits, "-n", "tk1")
    with ThreadPoolExecutor(1) as beside:
        upgrade = beside.submit(kube.try_helm, "upgrade", RELEASE, values(AROUND))
        try:
            job = until("a job has begun", lambda: running(kube, "apply"), patience_s(60))
            with kube.following("logs", "--follow", job) as lines:
                read_to(lines, "stage hold")
                kube.mesh(pod("ny1"), "publish", "acme/hello", held, "-n", "ny1")
                kube.kubectl("delete", "pod", job, "--wait=false")
                assert "the change was rolled back and no node is paused" in "".join(lines)
            assert held in orders(kube, 2)  # the link still waits, and the change with it
            assert not upgrade.done()
        finally:  # whatever was seen: the upgrade is waited for, and a link that is paused stays so
            kube.mesh(pod("tk1"), "link", "resume", "tk1", "ny1")
        done = upgrade.result()
    assert done.returncode == 0, done.stderr
    assert waits in orders(kube, 3)
    route = json.loads(kube.mesh(pod("tk1"), "route", "ny1", "pa1", "-o", "json"))
    assert "tk1" in json.dumps(route)


def read_to(lines: Iterable[str], begin: str) -> None:
    """Read a log up to the first line that begins so."""
    said: list[str] = []
    for line in lines:
        said.append(line)
        if line.startswith(begin):
            return
    pytest.fail(f"no line begins with {begin!r}:\n{''.join(said)}")


def running(kube: Kube, job: str) -> str | None:
    """Return the name of a job's pod that runs."""
    pods = [one for one in kube.pods_of(job) if one["status"]["phase"] == "Running"]
    return pods[0]["metadata"]["name"] if pods else None


def test_an_illegal_topology_changes_nothing(kube: Kube) -> None:
    """The upgrade fails before anything of the release changes, and says why."""
    before = ages(kube.workers())
    topology = kube.kubectl("get", "configmap", f"{RELEASE}-trellis-mesh-topology", "-o", "yaml")
    triangle = [*LINE, ["tk1", "pa1"]]
    done = kube.try_helm(
        "upgrade", RELEASE, values(triangle, podLabels={"round": "three"}, is_validated=True)
    )
    assert done.returncode == 1
    assert "pre-upgrade" in done.stderr
    said = kube.said_by("validate")
    assert "tk1" in said, said
    assert (
        kube.kubectl("get", "configmap", f"{RELEASE}-trellis-mesh-topology", "-o", "yaml")
        == topology
    )
    assert ages(kube.workers()) == before


def test_a_refused_topology_ends_the_upgrade_at_once(kube: Kube) -> None:
    """It is legal, and no mesh that lives can follow it: the job is not tried again."""
    before, good = ages(kube.workers()), revision(kube)
    done = kube.try_helm("upgrade", RELEASE, values(AROUND, "one-hop"))
    assert done.returncode == 1
    assert "post-upgrade" in done.stderr
    said = kube.said_by("apply")
    assert "cannot become one-hop" in said, said
    kube.helm("rollback", RELEASE, None, good)
    assert ages(kube.workers()) == before


def test_values_with_a_typo_are_refused(kube: Kube) -> None:
    """Before the API server is asked, in a line that names the key."""
    done = kube.try_helm("upgrade", RELEASE, values(worker=3))
    assert done.returncode == 1
    assert "worker" in done.stderr
    assert "additional properties" in done.stderr.lower()


def test_an_image_that_is_not_there_stops_nobody(kube: Kube) -> None:
    """The job that would restart workers has that image too: it fails before it begins."""
    before, good = ages(kube.workers()), revision(kube)
    missing = {**kube.images["image"], "tag": "missing"}
    wrong = values(AROUND, image=missing, rollout={"podSeconds": 1})
    done = kube.try_helm("upgrade", RELEASE, wrong)
    assert done.returncode == 1
    assert "post-upgrade" in done.stderr
    assert ages(kube.workers()) == before
    kube.helm("rollback", RELEASE, None, good)
    assert ages(kube.workers()) == before


def test_a_worker_that_cannot_start_stops_the_upgrade(kube: Kube, client: str) -> None:
    """Too large, then without its Secret: one worker is away, the job says which and why.

    Its mate serves, and a rollback mends it.
    """
    before, good = ages(kube.workers()), revision(kube)
    huge = {"resources": {"requests": {"cpu": "64"}}}
    lacking = {"credentials": {"tokyo": {"existingSecret": "nobody-made-it"}}}
    cannot_start = (
        (huge, 10, "Unschedulable"),  # a worker that serves ends first
        (lacking, 5, "its volumes are not there, a"),  # instead of one that never began
    )
    with load(kube, client):
        for tk1, quiet_s, why in cannot_start:
            within_s = int(min(patience_s(quiet_s), 60))
            nodes = {"tk1": tk1, "ny1": None, "pa1": None}
            wrong = values(AROUND, nodes=nodes, rollout={"podSeconds": within_s})
            assert kube.try_helm("upgrade", RELEASE, wrong).returncode == 1
            after = ages(kube.workers())
            assert [name for name in before if after.get(name) != before[name]] == [pod("tk1")]
            said = kube.said_by("rollout")
            assert f"{pod('tk1')} is not ready after {within_s} s: {why}" in said
        kube.helm("rollback", RELEASE, None, good)
    mended = ages(all_ready(kube, 6))
    assert [name for name in mended if mended[name] != before[name]] == [pod("tk1")]


def test_lost_workers_are_taken_over(kube: Kube, client: str) -> None:
    """`kill -9` of a worker and the loss of a pod under load: its mate has its lanes in time."""
    with load(kube, client) as said:
        kube.kill(pod("ny1"))
        all_ready(kube, 6)
        kube.kubectl("delete", "pod", pod("pa1", 1), "--grace-period=0", "--force")
        all_ready(kube, 6)
    # The evaluation's brokers miss a member after two seconds; two more for the rest.
    assert max(said["silence_s"].values()) <= patience_s(4), said


def test_nodes_are_scaled_and_budgets_kept(kube: Kube, client: str) -> None:
    """From two workers to three to one under load, which is restarted; of two one may be evicted."""
    eviction: dict[str, Any] = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod("ny1", 1), "namespace": kube.namespace},
    }
    with load(kube, client) as said:
        for workers in (3, 1):
            kube.helm("upgrade", RELEASE, values(AROUND, workers=workers))
            all_ready(kube, 3 * workers, 90)
        kube.kubectl("delete", "pod", pod("ny1"))  # has no mate
        all_ready(kube, 3)
        kube.helm("upgrade", RELEASE, values(AROUND))
        all_ready(kube, 6, 90)
        where = f"/api/v1/namespaces/{kube.namespace}/pods/{{}}/eviction"
        evict = ("create", "--raw", where.format(pod("ny1", 1)), "-f", "-")

        def evicted() -> bool | None:
            return kube.try_kubectl(*evict, give=json.dumps(eviction)).returncode == 0 or None

        until("the new budget has counted its pods", evicted)
        second = {**eviction, "metadata": {**eviction["metadata"], "name": pod("ny1")}}
        other = ("create", "--raw", where.format(pod("ny1")), "-f", "-")
        refused = kube.try_kubectl(*other, give=json.dumps(second))
        assert "disruption budget" in refused.stderr
        all_ready(kube, 6)
    assert max(said["silence_s"].values()) <= patience_s(10), said


def test_a_rotated_secret_is_taken_in_without_a_restart(kube: Kube, client: str) -> None:
    """Workers notice that mounted files change; one after the other begins anew with them."""
    before = ages(all_ready(kube, 6))
    with load(kube, client):
        rotate(kube, "second")
        for name in before:
            if "pa1" not in name:  # which has nothing to do with tokyo
                until(f"{name} has taken it", partial(taken, kube, name), patience_s(150))
    assert ages(all_ready(kube, 6)) == before
    assert "first" not in kube.kubectl("logs", pod("tk1"))


def rotate(kube: Kube, rack: str) -> None:
    """Make the secret of the release, or change it."""
    secret = ("create", "secret", "generic", SECRET, "--dry-run=client", "-o", "json")
    made = kube.kubectl(*secret, f"--from-literal={Path(RACK).name}={rack}")
    kube.kubectl("apply", "-f", "-", give=made)


def taken(kube: Kube, name: str) -> bool | None:
    return "credentials.taken" in kube.kubectl("logs", name) or None


def test_nothing_of_a_release_stays(kube: Kube) -> None:
    """But logs of jobs that failed, and what somebody else made: a client, a secret."""
    kube.helm("uninstall", RELEASE, None, "--wait")
    # All others that failed have been mended by a rollback, whose own job takes their place.
    assert kube.drop_jobs() == {f"{RELEASE}-trellis-mesh-validate"}
    kinds = "all,configmaps,roles,rolebindings,serviceaccounts,poddisruptionbudgets,networkpolicies"

    def gone() -> bool | None:
        left = json.loads(kube.kubectl("get", kinds, "-o", "json"))["items"]
        return {one["metadata"]["name"] for one in left} <= STAYS or None

    until("nothing of the release is left", gone, patience_s(60))
