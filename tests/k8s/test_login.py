"""Brokers that want a password: a wrong one fails the install in a line, the right one mends it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from tests.k8s.kube import Kube, restricted_pod, until
from tests.k8s.test_release import QUICK, all_ready, patience_s

# Of a test alone: the first set-up builds images and Kubernetes, which takes what it takes.
pytestmark = [pytest.mark.k8s, pytest.mark.docker, pytest.mark.timeout(600, func_only=True)]

RELEASE, BROKER, SECRET = "login", "locked", "password"
WRONG, RIGHT = "an-old-one", "the-present-one"
REFUSED = "check the user, the password and the certificates"
SETTINGS = f"""\
listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT
listener.name.clients.sasl.enabled.mechanisms=PLAIN
listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.\
PlainLoginModule required user_mesh="{RIGHT}";
group.min.session.timeout.ms=2000
"""
VALUES: Mapping[str, Any] = {
    "topology": {
        "name": "worldwide",
        "apply": {"enabled": True, "waitSeconds": 60},
        "validate": False,
        "spec": {
            "kafka": {
                "tokyo": {
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": "mesh",
                    "sasl.password": "${file:/etc/mesh/kafka/tokyo/password}",
                }
            },
            "nodes": {"tk1": {"kafka": "tokyo"}},
        },
    },
    "evaluationKafka": {"enabled": False},
    "bootstrap": {"tokyo": f"{BROKER}:9092"},
    "credentials": {"tokyo": {"existingSecret": SECRET}},
    **QUICK,
}


@pytest.fixture
def broker(kube: Kube) -> Iterator[None]:
    """A Kafka cluster of one broker that asks who one is."""
    image = kube.images["evaluationKafka"]["image"]
    env = {"ADVERTISED": f"{BROKER}:9092", "KAFKA_SETTINGS": SETTINGS}
    container = {
        "image": f"{image['repository']}:{image['tag']}",
        "imagePullPolicy": image["pullPolicy"],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "readinessProbe": {"tcpSocket": {"port": 9092}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "200m", "memory": "512Mi"}},
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": BROKER},
        "spec": {"selector": {"app": BROKER}, "ports": [{"port": 9092}]},
    }
    for one in (restricted_pod(BROKER, container), service):
        kube.kubectl("apply", "-f", "-", give=json.dumps(one))
    kube.kubectl("wait", "--for=condition=Ready", f"pod/{BROKER}", "--timeout=120s")
    yield
    kube.kubectl("delete", "pod,service", BROKER)


def given(kube: Kube, password: str) -> None:
    """Make the Secret, or change it."""
    secret = ("create", "secret", "generic", SECRET, "--dry-run=client", "-o", "json")
    kube.kubectl(
        "apply", "-f", "-", give=kube.kubectl(*secret, f"--from-literal={SECRET}={password}")
    )


@pytest.mark.usefixtures("broker")
def test_a_wrong_password_fails_the_install_and_the_right_one_mends_it(kube: Kube) -> None:
    """Job and worker say what to check, and no password; the same release is then upgraded."""
    given(kube, WRONG)
    try:
        # Only this ends the install: the job tries again, for the Secret may be corrected.
        timeout_s = int(min(patience_s(20), 30))
        done = kube.try_helm("install", RELEASE, VALUES, "--timeout", f"{timeout_s}s")
        assert done.returncode == 1
        assert "post-install" in done.stderr
        assert REFUSED in done.stdout + done.stderr  # Helm shows the job's log
        [worker] = kube.workers()
        for pod in (worker, kube.pods_of("apply")[0]["metadata"]["name"]):
            until(f"{pod} says why", partial(says_why, kube, pod), patience_s(60))
        given(kube, RIGHT)
        kube.helm("upgrade", RELEASE, VALUES)
        all_ready(kube, 1)
    finally:
        kube.uninstall(RELEASE)
        kube.drop_jobs()
        kube.kubectl("delete", "secret", SECRET)
        gone = lambda: not kube.objects("pods", instance=RELEASE) or None  # noqa: E731
        until("its pods are gone", gone, patience_s(60))


def says_why(kube: Kube, pod: str) -> bool | None:
    """Return whether a pod has told that its login is refused; it never tells the password."""
    said = kube.try_kubectl("logs", pod).stdout
    assert WRONG not in said
    return REFUSED in said or None
