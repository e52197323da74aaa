"""The program that restarts pods: one after the other, those that do not serve first."""

from __future__ import annotations

import email.message
import http.client
import importlib.util
import io
import urllib.error
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.helm.conftest import CHART


def pod(
    name: str, revision: str, *, ready: bool = True, made: bool = False, **status: Any
) -> dict[str, Any]:
    conditions = [
        {"type": "Ready", "status": str(ready)},
        {"type": "PodReadyToStartContainers", "status": str(made)},
    ]
    return {
        "metadata": {"name": name, "labels": {"controller-revision-hash": revision}},
        "status": {"conditions": conditions, **status},
    }


class Cluster:
    """An API server with pods; a deleted one comes back as `becomes` says."""

    def __init__(
        self, pods: list[dict[str, Any]], becomes: Callable[[str], dict[str, Any]]
    ) -> None:
        self.pods = {one["metadata"]["name"]: one for one in pods}
        self.becomes = becomes
        self.deleted: list[str] = []
        self.missing_at_once = 0

    def get(self, group: str, kind: str, name: str) -> Any:
        if kind == "pods":
            return self.pods.get(name)
        if name == "gone":
            return None
        return {
            "metadata": {"generation": 2},
            "status": {"observedGeneration": 2, "updateRevision": "new"},
        }

    def delete_pod(self, name: str) -> None:
        away = [n for n, p in self.pods.items() if not rollout_of().is_ready(p) and n != name]
        self.missing_at_once = max(self.missing_at_once, 1 + len(away))
        self.deleted.append(name)
        self.pods[name] = self.becomes(name)


def rollout_of() -> ModuleType:
    """Load the program, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("rollout", CHART / "files" / "rollout.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    program = rollout_of()
    monkeypatch.setattr(program, "Api", lambda: cluster)
    monkeypatch.setattr(program, "POLL_S", 0.0)
    code: int = program.main(list(arguments))
    return code


def test_each_pod_of_a_former_revision_is_restarted_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is up to date already, or no longer there, is left alone."""
    pods = [pod("a-0", "old"), pod("a-1", "new"), pod("b-0", "old")]
    cluster = Cluster(pods, lambda name: pod(name, "new"))
    assert run(cluster, monkeypatch, "1", "a=2", "b=1", "gone=1") == 0
    assert cluster.deleted == ["a-0", "b-0"]
    assert cluster.missing_at_once == 1
    assert "3 pods are up to date" in capsys.readouterr().out


def test_who_does_not_serve_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback mends what an upgrade broke before it touches anybody else."""
    pods = [pod("a-0", "old"), pod("b-0", "broken", ready=False), pod("c-0", "old")]
    cluster = Cluster(pods, lambda name: pod(name, "new"))
    assert run(cluster, monkeypatch, "1", "a=1", "b=1", "c=1") == 0
    assert cluster.deleted == ["b-0", "a-0", "c-0"]
    assert cluster.missing_at_once == 1


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (
            {
                "containerStatuses": [
                    {
                        "state": {
                            "waiting": {"reason": "ImagePullBackOff", "message": "no  such\nimage"}
                        }
                    }
                ]
            },
            "ImagePullBackOff: no such image",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
            "CrashLoopBackOff: see `kubectl logs a-0`",
        ),
        (
            {"containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
            "its volumes are not there, a Secret for one; see `kubectl describe pod a-0`",
        ),
        (
            {
                "made": True,
                "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}],
            },
            "its image is still being fetched; see `kubectl describe pod a-0`",
        ),
        ({}, "it is not ready; see `kubectl logs a-0`"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_pod_that_does_not_come_up_ends_it_and_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: dict[str, Any],
    reason: str,
) -> None:
    """Nobody else is touched; the reason is what Kubernetes tells."""
    cluster = Cluster(
        [pod("a-0", "old"), pod("b-0", "old")], lambda name: pod(name, "new", ready=False, **status)
    )
    assert run(cluster, monkeypatch, "0.05", "a=1", "b=1") == 1
    assert cluster.deleted == ["a-0"]
    assert f"error: a-0 is not ready after 0 s: {reason}" in capsys.readouterr().err


def test_a_pod_that_is_not_made_or_does_not_end_is_told_where_that_stands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither has a log: a quota is told to its workload, a machine that is lost by its pod."""
    gone = Cluster([], lambda name: pod(name, "new"))
    assert run(gone, monkeypatch, "0", "a=1") == 1
    said = capsys.readouterr().err
    assert said.endswith(": nobody made it; see `kubectl describe statefulset a`\n"), said
    lost = pod("a-0", "old", ready=False)
    lost["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stuck = Cluster([lost], lambda _: lost)
    assert run(stuck, monkeypatch, "0", "a=1") == 1
    said = capsys.readouterr().err
    assert said.endswith(": it does not end; see `kubectl describe pod a-0`\n"), said


def test_an_api_server_that_refuses_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also of a workload, which is asked for before any pod: that is all the job's log has."""
    cluster = Cluster([pod("a-0", "old")], lambda name: pod(name, "new"))
    stale = {"metadata": {"generation": 2}, "status": {"observedGeneration": 1}}
    monkeypatch.setattr(cluster, "get", lambda *_: stale)
    assert run(cluster, monkeypatch, "0.05", "a=1") == 1
    assert cluster.deleted == []
    said = capsys.readouterr().err
    assert said == "error: the controller does not take note of a\n"


class Answer(io.BytesIO):
    """What the API server answers, or the fault amid it."""

    def __init__(self, text: bytes, fault: Exception | None = None) -> None:
        super().__init__(text)
        self.fault = fault

    def read(self, size: int | None = -1, /) -> bytes:
        if self.fault is not None:
            raise self.fault
        return super().read(size)


BUSY = urllib.error.HTTPError("u", 429, "Too Many Requests", email.message.Message(), None)


@pytest.mark.parametrize(
    "first",
    [
        BUSY,
        Answer(b"", http.client.IncompleteRead(b"")),
        Answer(b'{"metadata": '),
    ],
    ids=["busy", "cut off", "half of an answer"],
)
def test_an_api_server_that_is_busy_or_breaks_off_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, first: Exception | Answer
) -> None:
    """A restart of pods that ends there leaves half of them with the former template."""
    program = rollout_of()
    (tmp_path / "token").write_text("t", encoding="utf-8")
    (tmp_path / "namespace").write_text("mesh", encoding="utf-8")
    answers: list[Exception | Answer] = [first, Answer(b'{"kind": "Pod"}')]

    def urlopen(*_asked: object, **_how: object) -> Answer:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(program, "ACCOUNT", tmp_path)
    monkeypatch.setattr(program, "POLL_S", 0.0)
    monkeypatch.setattr(program.ssl, "create_default_context", lambda **_: None)
    monkeypatch.setattr(program.urllib.request, "urlopen", urlopen)
    assert program.Api().get("api/v1", "pods", "a-0") == {"kind": "Pod"}
    assert answers == []
