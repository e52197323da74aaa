"""The jobs of a release: what they may do, and which of them can fail an upgrade."""

from __future__ import annotations

from mesh.cli.plan import EXIT_CHANGES
from mesh.cli.problems import EXIT_NOT_WELL, EXIT_WRONG_INPUT
from tests.helm.conftest import Render
from tests.helm.releases import (
    BASE,
    EVERYTHING,
    MATRIX,
    SPEC,
    of_kind,
    parsed_by,
    worker_pods,
)


def test_a_changed_topology_is_applied_by_a_job_that_can_fail_the_upgrade(render: Render) -> None:
    """It runs after the workloads, carries the new topology, and takes its arguments."""
    job = of_kind(render(MATRIX["evaluation"]), "Job")["rel-trellis-mesh-apply"]
    hooks = job["metadata"]["annotations"]["helm.sh/hook"].split(",")
    assert hooks == ["post-install", "post-upgrade", "post-rollback"]
    given = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert given[:2] == ["mesh", "apply"]
    parsed = parsed_by(["apply"], given[2:])
    assert parsed["yes"]
    assert parsed["unattended"]
    assert parsed["wait"] == 120
    assert str(parsed["proposed"]) == str(parsed["file"]) == "/etc/mesh/mesh.yaml"
    assert job["spec"]["activeDeadlineSeconds"] > parsed["wait"]
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert rule["action"] == "FailJob"
    assert rule["onExitCodes"] == {
        "containerName": container["name"],
        "operator": "In",
        "values": [EXIT_WRONG_INPUT, EXIT_NOT_WELL],
    }
    assert "rel-trellis-mesh-apply" not in of_kind(render(BASE), "Job")


def test_the_other_sites_compare_and_fail(render: Render) -> None:
    """They ask until what is in force is theirs, or time is up; what no mesh can follow ends it."""
    manifests = render(MATRIX["another site"])
    job = of_kind(manifests, "Job")["rel-trellis-mesh-compare"]
    hooks = job["metadata"]["annotations"]["helm.sh/hook"].split(",")
    assert hooks == ["post-install", "post-upgrade", "post-rollback"]
    [container] = job["spec"]["template"]["spec"]["containers"]
    assert container["command"][:2] == ["mesh", "plan"]
    parsed = parsed_by(["plan"], container["command"][2:])
    assert str(parsed["proposed"]) == str(parsed["file"]) == "/etc/mesh/mesh.yaml"
    assert parsed["allow_delete"]
    assert parsed["within"] == 120
    [rule] = job["spec"]["podFailurePolicy"]["rules"]
    ends = [EXIT_WRONG_INPUT, EXIT_CHANGES]  # it has waited itself
    assert (rule["action"], rule["onExitCodes"]["values"]) == ("FailJob", ends)
    assert rule["onExitCodes"]["containerName"] == container["name"]
    assert job["spec"]["activeDeadlineSeconds"] > 120
    # Nodes that run follow what is applied elsewhere: no pod of theirs starts again for it.
    fewer = {"topology": {**MATRIX["another site"]["topology"], "spec": {**SPEC, "zones": {}}}}
    assert worker_pods(manifests) == worker_pods(render(fewer))


def test_jobs_that_helm_forgets_go_by_themselves(render: Render) -> None:
    """Helm keeps the job of a hook that failed, for its log, and no uninstall removes it."""
    jobs = of_kind(render(MATRIX["evaluation"]), "Job")
    assert len(jobs) == 4
    assert {one["spec"]["ttlSecondsAfterFinished"] for one in jobs.values()} == {86_400}


def test_an_illegal_topology_is_found_before_anything_changes(render: Render) -> None:
    """A job that runs first brings the file that it judges, and nothing of the release."""
    manifests = render(BASE)
    job = of_kind(manifests, "Job")["rel-trellis-mesh-validate"]
    brought = of_kind(manifests, "ConfigMap")["rel-trellis-mesh-validate"]
    weights = []
    for one in (brought, job):
        notes = one["metadata"]["annotations"]
        assert notes["helm.sh/hook"] == "pre-install,pre-upgrade,pre-rollback"
        weights.append(int(notes["helm.sh/hook-weight"]))
    assert weights == sorted(set(weights))
    spec = job["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "default"
    assert [v["configMap"]["name"] for v in spec["volumes"] if "configMap" in v] == [
        brought["metadata"]["name"]
    ]
    kept = of_kind(manifests, "ConfigMap")["rel-trellis-mesh-topology"]
    assert brought["data"] == kept["data"]
    parsed = parsed_by(["validate"], spec["containers"][0]["command"][2:])
    assert str(parsed["file"]) == "/etc/mesh/mesh.yaml"
    for values in (MATRIX["own config map"], {"topology": {**BASE["topology"], "validate": False}}):
        assert "rel-trellis-mesh-validate" not in of_kind(render(values), "Job")


def test_a_job_before_the_release_has_an_account_that_is_there(render: Render) -> None:
    """One that the chart makes comes later; one that somebody else made may have pull secrets."""

    def account(**settings: object) -> str:
        job = of_kind(render({**BASE, "serviceAccount": settings}), "Job")
        return str(
            job["rel-trellis-mesh-validate"]["spec"]["template"]["spec"]["serviceAccountName"]
        )

    assert account(create=True, name="mine") == account(create=False) == "default"
    assert account(create=False, name="mine") == "mine"


def test_a_job_may_wait_for_a_machine_and_an_image_as_long_as_helm_does(render: Render) -> None:
    """Beside what its program is given; `--timeout` would change nothing about a deadline."""
    helm_s = 300
    given = {"waitSeconds": 10, "enabled": True}
    for other, values in {
        "apply": {"topology": {**BASE["topology"], "apply": given}},
        "compare": {"topology": {**BASE["topology"], "compare": given}},
    }.items():
        jobs = of_kind(render({**BASE, **values, "test": {"waitSeconds": 10}}), "Job")
        deadlines = {name: job["spec"]["activeDeadlineSeconds"] for name, job in jobs.items()}
        assert deadlines["rel-trellis-mesh-validate"] >= helm_s
        assert deadlines["rel-trellis-mesh-doctor"] >= helm_s + 10
        assert deadlines[f"rel-trellis-mesh-{other}"] >= helm_s + 10


def test_the_rollout_gives_up_before_its_deadline(render: Render) -> None:
    """It names the pod and the reason; Kubernetes would only say that the deadline has passed."""
    helm_s = 300
    patience_s = 50
    values = {**EVERYTHING, "rollout": {"podSeconds": patience_s}}
    job = of_kind(render(values), "Job")["rel-trellis-mesh-rollout"]["spec"]
    waits = [
        int(one.partition("=")[2]) + 1 for one in job["template"]["spec"]["containers"][0]["args"]
    ]
    assert len(waits) > 1
    assert job["activeDeadlineSeconds"] >= helm_s + patience_s * sum(waits)


def test_pods_are_restarted_by_a_job_that_may_do_nothing_else(render: Render) -> None:
    """Its role names each pod of the workers and no other; its arguments each workload."""
    manifests = render(EVERYTHING)
    workloads = of_kind(manifests, "StatefulSet")
    assert {one["spec"]["updateStrategy"]["type"] for one in workloads.values()} == {"OnDelete"}
    role = of_kind(manifests, "Role")["rel-trellis-mesh-rollout"]
    named = {rule["resources"][0]: rule for rule in role["rules"]}
    assert set(named) == {"statefulsets", "pods"}
    assert set(named["statefulsets"]["resourceNames"]) == set(workloads)
    assert named["statefulsets"]["verbs"] == ["get"]
    assert set(named["pods"]["resourceNames"]) == {
        f"{name}-{number}"
        for name, one in workloads.items()
        for number in range(one["spec"]["replicas"])
    }
    assert named["pods"]["verbs"] == ["get", "delete"]
    spec = of_kind(manifests, "Job")["rel-trellis-mesh-rollout"]["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == role["metadata"]["name"]
    assert spec["containers"][0]["args"] == [
        f"{name}={one['spec']['replicas']}" for name, one in sorted(workloads.items())
    ]
    without = render({**EVERYTHING, "rollout": {"enabled": False}})
    assert not of_kind(without, "Role", "RoleBinding")
    workload = of_kind(without, "StatefulSet")["rel-trellis-mesh-tk1"]
    assert workload["spec"]["updateStrategy"]["type"] == "RollingUpdate"


def test_test_job_runs_the_doctor(render: Render) -> None:
    """`helm test` is a job that takes our arguments: gone when it succeeded, else shown by Helm."""
    job = of_kind(render(EVERYTHING), "Job")["rel-trellis-mesh-doctor"]
    assert job["metadata"]["annotations"] == {
        "helm.sh/hook": "test",
        "helm.sh/hook-delete-policy": "before-hook-creation,hook-succeeded",
        "helm.sh/hook-output-log-policy": "hook-failed",
    }
    given = job["spec"]["template"]["spec"]["containers"][0]["command"]
    assert given[:2] == ["mesh", "doctor"]
    parsed = parsed_by(["doctor"], given[2:])
    assert parsed["wait"] == 5
    assert list(parsed["category"]) == ["kafka"]
