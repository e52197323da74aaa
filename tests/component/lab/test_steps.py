"""Mistakes in steps: one clear line each, before anything runs. Spec: lab.md 1."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mesh.client.roles import Roles
from mesh.errors import ConfigError, TransportUnavailableError
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario, with_storm
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.steps import Storm
from mesh.lab.tally import Tally
from mesh.model.tree_apps import AppTold, RoleLost
from mesh.model.trees import tree_id

SCENARIO = """
apiVersion: mesh/v1
kind: Scenario
metadata: {{name: small}}
spec:
  mesh:
    kafka: {{k: {{}}, three: {{brokers: 3}}, far: {{bootstrap.servers: "localhost:1"}}}}
    nodes: {{a: {{kafka: k, lanes: 2}}, b: {{kafka: three}}, c: {{kafka: far}}}}
    zones: {{Z: {{kind: multi-hop, links: [[a, b], [b, c]]}}}}
  workers: {workers}
  steps:
    - {step}
"""


def write(folder: Path, step: str, workers: str = "{a: 2}") -> Path:
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO.format(step=step, workers=workers), encoding="utf-8")
    return path


GOOD = [
    "pause: {node: a}",
    "resume: {node: a}",
    "kill: {node: a, worker: 1}",
    "kill_broker: {kafka: three, broker: 3}",
    "start_broker: {kafka: k}",
    "slow: {link: [b, a], delay_ms: 50, loss: 0.5}",
    "truncate: {topic: mesh.a.in.g, records: 3}",
    "truncate: {topic: mesh.a.to.b.g, partition: 3, records: 3}",
    "delete_records: {topic: mesh.c.ep.orders, before: 10}",
    "recreate_topic: {topic: mesh.b.to.c.d}",
    "clock: {node: a, jump_s: -3600}",
    "storm: {faults: [kill]}",
    "subscribe: {node: a, endpoint: jobs, filter: x, kind: queue}",
    "leave: {node: a, queue: jobs}",
    "wait: {seconds: 3}",
    "cut: {link: [a, b], only: b}",
    "role: {node: a, tree: desk, role: pricing, exclusive: true, app: me, answer: never}",
    "role: {node: a, tree: desk, role: pricing, answer: {replies: [x, y], after_s: 2}}",
    "leave: {node: a, app: me}",
    "send: {node: a, tree: desk, role: pricing, name: one, payload: x, one_way: true}",
    "expect: {parts: [[a], [b, c]]}",
    "expect: {parts: []}",
]


@pytest.mark.parametrize("step", GOOD)
def test_steps_that_are_right(tmp_path: Path, step: str) -> None:
    [named] = load_scenario(write(tmp_path, step)).steps
    assert named.word == step.partition(":")[0]


def test_a_queue_is_consumed_where_it_is_had(tmp_path: Path) -> None:
    """A slip of the pen would have a consumer wait in silence; what is left may be consumed."""
    had = "subscribe: {node: a, endpoint: jobs, filter: x, kind: queue}"
    left = "unsubscribe: {node: a, endpoint: jobs, filter: x}"
    channel = "subscribe: {node: a, endpoint: list, filter: x}"
    steps = [had, channel, left, "consume: {node: a, queue: jobs, count: 3}"]
    expected = [
        f"expect: {{queue: {name}, count: 3}}" for name in ("jobs", "JOBS", "a/jobs", "a/JOBS")
    ]
    load_scenario(write(tmp_path, "\n    - ".join([*steps, *expected])))
    for step, told in (
        ("consume: {node: a, queue: job}", "a has no queue 'job' at this step; did you mean jobs"),
        ("consume: {node: a, queue: JOBS}", "a has no queue 'JOBS' at this step; did you mean"),
        ("consume: {node: b, queue: jobs}", "b has no queue 'jobs' at this step; subscribe it"),
        ("consume: {node: a, queue: list}", "a has no queue 'list' at this step"),
        ("expect: {queue: job}", "no node has a queue 'job' at this step; did you mean jobs"),
        ("expect: {queue: a/list, count: 0}", "no node has a queue 'list' at this step"),
    ):
        with pytest.raises(ConfigError, match=told):
            load_scenario(write(tmp_path, f"{had}\n    - {channel}\n    - {step}"))
    with pytest.raises(
        ConfigError, match="a has no queue 'jobs' at this step; subscribe it before"
    ):
        load_scenario(write(tmp_path, f"{steps[-1]}\n    - {had}"))


@pytest.mark.parametrize(
    "step",
    [
        "unrole: {node: a, tree: TREE, role: pricing}",
        "send: {node: a, tree: TREE, role: risk, name: one}",
        "move: {tree: TREE, role: pricing, to: c}",
        "evict: {node: c, tree: TREE}",
    ],
)
def test_a_tree_is_one_on_which_a_step_takes_a_role(tmp_path: Path, step: str) -> None:
    """A slip of the pen would do nothing, and the scenario pass. Spec: lab.md 5."""
    role = "role: {node: a, tree: desk, role: pricing}"
    for right in ("desk", tree_id("desk").upper(), "$nodes"):
        load_scenario(write(tmp_path, f"{step.replace('TREE', right)}\n    - {role}"))
    for wrong, told in (("deks", "; did you mean desk?"), ("Z", "; known here: desk")):
        with pytest.raises(ConfigError) as caught:
            load_scenario(write(tmp_path, f"{role}\n    - {step.replace('TREE', wrong)}"))
        [problem] = caught.value.problems
        assert problem.message == f"no step takes a role on a tree {wrong!r}{told}"
        assert "spec.steps[1]" in problem.where


def test_no_tree_is_known_where_no_step_takes_a_role(tmp_path: Path) -> None:
    """Nothing can be forgotten there; a send is told that nobody has the role."""
    load_scenario(write(tmp_path, "send: {node: a, tree: desk, role: pricing, name: one}"))
    with pytest.raises(ConfigError, match="on a tree 'desk'; add a step `role`"):
        load_scenario(write(tmp_path, "evict: {node: c, tree: desk}"))
    with pytest.raises(ConfigError) as caught:
        load_scenario(
            write(
                tmp_path, "role: {node: a, tre: desk, role: r}\n    - evict: {node: a, tree: desk}"
            )
        )
    assert all("steps[0]" in one.where for one in caught.value.problems)


EXPECTED = [
    ("endpoint: a/jobs, ordered: true", ""),
    ("endpoint: b/jobs, count: 0", "no step before subscribes an endpoint 'b/jobs'; did you mean"),
    ("endpoint: a/Jobs, count: 0", "an endpoint 'a/Jobs'; did you mean a/jobs?"),
    ("endpoint: a/typo, ordered: true", "an endpoint 'a/typo'; did you mean a/"),
    ("queue: b/jobs, count: 0", "no step before consumes b/jobs, so nothing counts there; did you"),
    ("queue: rest, count: 0", "no step before consumes rest, so nothing counts there"),
    ("holder: desk/lead, node: null", ""),
    (
        "holder: desk/leed, node: null",
        "no step before takes a role 'desk/leed'; did you mean desk/",
    ),
    ("holder: desk/asked, node: null", "no step before takes a role 'desk/asked'"),
    ("send: one, last: 1", ""),
    ("send: won, last: 0", "no send before is called 'won'; did you mean one?"),
]
"""What is expected, and what is said if nothing of that name could ever be counted."""


@pytest.mark.parametrize(("expected", "told"), EXPECTED)
def test_what_is_expected_is_of_something_that_steps_before_have(
    tmp_path: Path, expected: str, told: str
) -> None:
    """It would hold, or fail, whatever the mesh does. Spec: lab.md 1, 5."""
    steps = [
        "subscribe: {node: a, endpoint: jobs, filter: x, kind: queue}",
        "subscribe: {node: a, endpoint: rest, filter: x, kind: queue}",
        "consume: {node: a, queue: jobs}",
        "unsubscribe: {node: a, endpoint: jobs, filter: x}",
        "role: {node: a, tree: desk, role: lead}",
        "send: {node: a, tree: desk, role: asked, name: one}",
        f"expect: {{{expected}}}",
        "subscribe: {node: b, endpoint: jobs, filter: x, kind: queue}",
        "consume: {node: b, queue: jobs}",
    ]
    path = write(tmp_path, "\n    - ".join(steps))
    if not told:
        load_scenario(path)
        return
    with pytest.raises(ConfigError) as caught:
        load_scenario(path)
    [problem] = caught.value.problems
    assert told in problem.message
    assert "spec.steps[6]" in problem.where


@pytest.mark.parametrize(
    "step",
    [
        "subscribe: {node: a, endpont: e, filter: x}",
        "role: {node: z, tree: t, role: r}",
        "send: {node: z, tree: t, role: r, name: n}",
    ],
)
def test_what_a_mistaken_step_would_have_made_is_no_second_mistake(
    tmp_path: Path, step: str
) -> None:
    steps = [step, "expect: {endpoint: a/e, count: 1}", "expect: {send: n, last: 1}"]
    steps.append("expect: {holder: t/r, node: a}")
    with pytest.raises(ConfigError) as caught:
        load_scenario(write(tmp_path, "\n    - ".join(steps)))
    assert {re.findall(r"steps\[\d\]", one.where)[0] for one in caught.value.problems} == {
        "steps[0]"
    }


def test_what_is_expected_now_is_of_nodes_that_are_there_now(tmp_path: Path) -> None:
    """What was counted before a change stays; who is in a part, or holds a role, does not."""
    gone = "apply: {nodes: {c: null}, zones: {Z: {links: [[a, b]]}}}"
    had = "subscribe: {node: c, endpoint: e, filter: x}"
    counted = "expect: {endpoint: c/e, count: 0}"
    load_scenario(write(tmp_path, f"{had}\n    - {gone}\n    - {counted}"))
    with pytest.raises(ConfigError, match="no node is called 'c'"):
        load_scenario(write(tmp_path, f"{gone}\n    - expect: {{parts: [[a, b], [c]]}}"))


def test_findings_are_expected_where_somebody_audits(tmp_path: Path) -> None:
    path = write(tmp_path, "expect: {findings: {split: 1, forged-origin: 2}}")
    path.write_text(path.read_text("utf-8").replace("  mesh:", "  audit: true\n  mesh:"), "utf-8")
    assert load_scenario(path).audit


BAD = [
    ("pause: {node: x}", "no node is called 'x'"),
    ("consume: {node: x, queue: jobs}", "no node is called 'x'"),
    ("leave: {node: a, queue: my jobs}", "is not a name"),
    ("expect: {queue: x/jobs, count: 1}", "no node is called 'x'"),
    ("expect: {queue: jobs, endpoint: a/jobs, count: 1}", "expect one of"),
    ("pause: {node: a, worker: 0}", "unknown key; known here: node, timeout"),
    ("kill: {node: a, worker: 2}", "a has workers 0 to 1; more are written in `spec.workers`"),
    ("kill: {node: b, worker: 1}", "b has worker 0 alone; more are written in `spec.workers`"),
    ("kill_broker: {kafka: nowhere}", "no Kafka cluster 'nowhere'"),
    ("kill_broker: {kafka: far}", "Kafka cluster far is given by bootstrap.servers"),
    ("start_broker: {kafka: far}", "Kafka cluster far is given by bootstrap.servers"),
    ("kill_broker: {kafka: three, broker: 4}", "has 3 brokers, counted from 1"),
    ("slow: {link: [a, c]}", "no link between a and c; a has links to b"),
    ("slow: {link: [a, b], loss: 1}", "must be at most 0.9"),
    ("slow: {link: [a, b], delay_ms: -1}", "must be at least 0"),
    (
        "truncate: {topic: mesh.a.control, records: 1}",
        "is not an ingress, outbox or endpoint topic",
    ),
    ("truncate: {topic: mesh.a.in.g, partition: 4, records: 1}", "has partitions 0 to 3"),
    ("truncate: {topic: mesh.b.in.g, records: 1}", "one broker; three is not one"),
    ("truncate: {topic: mesh.c.in.g, records: 1}", "one broker; far is not one"),
    ("truncate: {topic: mesh.a.in.g, records: 0}", "must be at least 1"),
    (
        "delete_records: {topic: mesh.z.in.g, before: 1}",
        "is not an ingress, outbox or endpoint topic",
    ),
    ("delete_records: {topic: mesh.a.in.g}", "this key is required"),
    ("recreate_topic: {topic: mesh.a.ep.no.name}", "is not an ingress, outbox or endpoint topic"),
    ("clock: {node: a}", "this key is required"),
    ("clock: {node: d, jump_s: 1}", "no node is called 'd'"),
    ("storm: {}", "leave kill_broker out of `faults`"),
    ("storm: {faults: [kill, rain]}", "must be kill"),
    ("storm: {faults: []}", "has 0 items"),
    ("storm: {every_s: 0, faults: [kill]}", "must be at least 0.1"),
    ("settle: {timeout: .inf}", "must be at most 1000000000"),
    ("settle: {timeout: soon}", "must be a number; got 'soon'"),
    ("clock: {node: a, jump_s: .nan}", "must be at most"),
    ("expect: {endpoint: a/e, messages: 1}", "`endpoint` has no `messages`; of it `count` and"),
    ("expect: {link: a->b, count: 1}", "`link` has no `count`"),
    ("expect: {queue: jobs, ordered: true}", "`queue` has no `ordered`"),
    ("expect: {interest: a->b, filters: [], count: 1}", "`interest` has no `count`"),
    ("expect: {findings: {splits: 1}}", "no finding 'splits'; did you mean split?"),
    ("expect: {findings: {}}", "no finding is expected"),
    ("expect: {findings: {split: 0}}", "write how many findings split there are"),
    ("expect: {findings: {split: 1}, count: 1}", "`findings` has no `count`; of it kinds alone"),
    ("expect: {endpoint: a/e}", "nothing is expected of a/e; add `count` or `ordered`"),
    ("expect: {endpoint: a/e/f, count: 1}", "'e/f' is not a name"),
    ("expect: {link: a -> b, messages: 1}", "a link is written `a->b`"),
    ("storms: {}", "unknown step 'storms'; did you mean storm?"),
    ("cut: {link: [a, b], only: c}", "`only` names one of a, b"),
    ("heal: {link: [a, b], only: a}", "unknown key; known here: link, timeout"),
    ("role: {node: z, tree: desk, role: pricing}", "no node is called 'z'"),
    ("role: {node: a, tree: desk, role: two words}", "has spaces"),
    ("role: {node: a, tree: desk, role: r, extent: realm}", "node a is in none"),
    ("role: {node: a, tree: desk, role: r, app: m.e}", "'m.e' is not a name"),
    ("leave: {node: a}", "write one of `queue: name` and `app: name`"),
    ("leave: {node: a, app: b, queue: c}", "write one of"),
    ("send: {node: a, tree: t, role: r, name: x, one_way: true, one_instance: true}", "drop one"),
    ("send: {node: a, tree: t, role: r, name: x, local_realm: true}", "node a is in none"),
    ("move: {tree: t, role: r, to: z}", "no node is called 'z'"),
    ("expect: {holder: pricing, node: a}", "a holder is written `tree/role`"),
    ("expect: {parts: [[a, b], [b]]}", "b is listed twice; each node is in one part"),
    ("expect: {holder: desk/pricing}", "`node: null` for nobody"),
    ("expect: {parts: [[a, z]]}", "no node is called 'z'"),
    ("expect: {parts: [[a], []]}", "a part has at least one node; leave the empty one out"),
    ("expect: {send: x, reached: [a, a]}", "a is listed twice; a node is reached or not"),
    ("expect: {interest: a->b, filters: [x/>/y]}", "it may only be the last level"),
    ("expect: {findings: {split: 1}}", "nobody audits this scenario; add `audit: true`"),
    ("expect: {endpoint: a/e, ordered: true}", "subscribes an endpoint 'a/e'; subscribe it"),
    ("expect: {holder: desk/lead, node: null}", "takes a role 'desk/lead'; add a step `role`"),
    ("expect: {parts: [[a]], count: 1}", "`parts` has no `count`"),
]


@pytest.mark.parametrize(("step", "message"), BAD)
def test_a_mistake_is_one_line(tmp_path: Path, step: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_scenario(write(tmp_path, step))
    [problem] = caught.value.problems
    assert message in problem.message
    assert "spec.steps[0]" in problem.where
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("workers", "message"),
    [
        ("{x: 1}", "no node is called 'x'"),
        ("{b: 2}", "b has 1 lanes, so 1 to 1 workers; got 2"),
        ("{a: 0}", "a has 2 lanes, so 1 to 2 workers; got 0"),
    ],
)
def test_workers_are_at_most_as_many_as_lanes(tmp_path: Path, workers: str, message: str) -> None:
    """Spec: K14."""
    with pytest.raises(ConfigError) as caught:
        load_scenario(write(tmp_path, "drain: {}", workers))
    [problem] = caught.value.problems
    assert message in problem.message


def test_one_storm_is_enough(tmp_path: Path) -> None:
    storm = "storm: {faults: [cut]}"
    with pytest.raises(ConfigError, match="at most one storm"):
        load_scenario(write(tmp_path, f"{storm}\n    - {storm}"))


def test_a_storm_gets_another_seed_and_length(tmp_path: Path) -> None:
    path = write(tmp_path, "storm: {faults: [cut]}")
    changed = with_storm(load_scenario(path), path, seed=9, seconds=6.0)
    [named] = changed.steps
    assert isinstance(named, Storm)
    assert (named.seed, named.seconds, changed.seed) == (9, 6.0, 9)
    path = write(tmp_path, "drain: {}")
    calm = load_scenario(path)
    with pytest.raises(ConfigError, match="no storm in it"):
        with_storm(calm, path, seed=1, seconds=None)


def test_an_endpoint_has_one_kind_and_one_class(tmp_path: Path) -> None:
    """A node would refuse the second subscription, and the scenario see nothing. Spec: K13."""
    first = "subscribe: {node: a, endpoint: e, filter: x}"
    for other in ("class: direct", "kind: queue"):
        second = f"subscribe: {{node: a, endpoint: e, filter: y, {other}}}"
        with pytest.raises(ConfigError, match="is a guaranteed channel already and cannot be") as e:
            load_scenario(write(tmp_path, f"{first}\n    - {second}"))
        assert len(e.value.problems) == 1
        gone = "unsubscribe: {node: a, endpoint: e, filter: x}"
        load_scenario(write(tmp_path, f"{first}\n    - {gone}\n    - {second}"))


@pytest.mark.parametrize(
    ("queue", "told"),
    [
        ("policy: any, noexport: true", "cannot be noexport; leave that out"),
        ("policy: any", "is a queue with policy local, not any"),
        ("policy: local, noexport: true", ""),
    ],
)
def test_a_queue_that_its_node_would_refuse_is_a_mistake(
    tmp_path: Path, queue: str, told: str
) -> None:
    """Nobody would hear of that from the result. Spec: K13, DMR-12."""
    first = "subscribe: {node: a, endpoint: e, filter: x, kind: queue, policy: local}"
    second = f"subscribe: {{node: a, endpoint: e, filter: y, kind: queue, {queue}}}"
    path = write(tmp_path, second if "noexport; " in told else f"{first}\n    - {second}")
    if not told:
        load_scenario(path)
        return
    with pytest.raises(ConfigError, match=told) as caught:
        load_scenario(path)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("second", "told"),
    [
        ("unsubscribe: {node: a, endpoint: e, filter: y}", "a has no filter 'y' at this step"),
        ("unsubscribe: {node: b, endpoint: e, filter: x}", "e of b is not subscribed at this step"),
        ("subscribe: {node: a, endpoint: E, filter: y}", "a has an endpoint e, and case"),
        ("unsubscribe: {node: a, endpoint: E, filter: x}", "write e instead of E"),
    ],
)
def test_subscriptions_end_only_where_they_are(tmp_path: Path, second: str, told: str) -> None:
    """A slip of the pen would else pass, and prove nothing. Spec: DESIGN 3."""
    first = "subscribe: {node: a, endpoint: e, filter: x}"
    with pytest.raises(ConfigError, match=told) as caught:
        load_scenario(write(tmp_path, f"{first}\n    - {second}"))
    [problem] = caught.value.problems
    assert re.search(r"yaml:13:\d+: spec\.steps\[1\]", problem.where)


@pytest.mark.parametrize("file", ["[x]", "''", "7"])
def test_a_mesh_in_a_file_is_named(tmp_path: Path, file: str) -> None:
    path = tmp_path / "scenario.yaml"
    head = "apiVersion: mesh/v1\nkind: Scenario\nmetadata: {name: x}\n"
    path.write_text(f"{head}spec: {{mesh: {{file: {file}}}, steps: []}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"yaml:4:\d+: spec.mesh.file: must name a topology file"):
        load_scenario(path)


def test_a_mesh_stands_in_a_file_or_here(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    head = "apiVersion: mesh/v1\nkind: Scenario\nmetadata: {name: x}\n"
    path.write_text(f"{head}spec: {{mesh: {{file: m.yaml, nodes: {{}}}}, steps: []}}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"spec.mesh.file: names a file with all of the mesh"):
        load_scenario(path)


@pytest.mark.parametrize("step", ["storm: {}", "truncate: {topic: x, records: 1}"])
def test_a_mesh_without_nodes_has_nothing_to_break(tmp_path: Path, step: str) -> None:
    """It may get nodes by a change; until then there is none, and that is one line."""
    path = tmp_path / "scenario.yaml"
    head = "apiVersion: mesh/v1\nkind: Scenario\nmetadata: {name: x}\n"
    mesh = "{kafka: {k: {}}, nodes: {}, zones: {}}"
    path.write_text(f"{head}spec: {{mesh: {mesh}, steps: [{{{step}}}]}}\n", "utf-8")
    with pytest.raises(ConfigError, match=r"no node that a storm could hit|write for example"):
        load_scenario(path)


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ("{send: {name: x, ONE}}, {send: {name: x, ONE}}", "two sends are called 'x'"),
        ("{send: {name: x, ONE}}, {expect: {send: y, last: 1}}", "no send before is called 'y'"),
        ("{expect: {send: x, last: 1}}, {send: {name: x, ONE}}", "no send before is called 'x'"),
    ],
)
def test_sends_are_expected_by_their_names(tmp_path: Path, steps: str, told: str) -> None:
    path = write(tmp_path, "wait: {seconds: 1}")
    text = path.read_text(encoding="utf-8").partition("  steps:")[0]
    listed = steps.replace("ONE", "node: a, tree: t, role: r")
    path.write_text(f"{text}  steps: [{listed}]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        load_scenario(path)


def test_an_application_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    """The one that steps do not name has a name too."""
    steps = "role: {node: a, tree: t, role: r}\n    - leave: {node: a, app: desk}"
    path = write(tmp_path, steps + "\n    - leave: {node: a, app: lab}")
    scenario = load_scenario(path)
    with closing(SimulatedBackend.of(scenario)) as backend:
        result: Mapping[str, Any] = run_scenario(scenario, backend, backend_name="sim")
    told = [step["detail"].get("error", "") for step in result["steps"]]
    assert told == ["", "a has no application desk; there is lab", ""]


def test_what_is_expected_of_a_send_without_a_name_is_judged(tmp_path: Path) -> None:
    """It was taken for an endpoint that got nothing, of which nothing was expected."""
    result = run_steps(
        tmp_path,
        "send: {node: a, tree: t, role: r, name: '', timeout: 1}",
        "expect: {send: '', replies: 5}",
    )
    assert [step["ok"] for step in result["steps"]] == [True, False]


def run_steps(folder: Path, *steps: str) -> Mapping[str, Any]:
    """Run these on the simulator; return the result."""
    scenario = load_scenario(write(folder, "\n    - ".join(steps)))
    with closing(SimulatedBackend.of(scenario)) as backend:
        return run_scenario(scenario, backend, backend_name="sim")


def test_who_consumes_nothing_cannot_leave(tmp_path: Path) -> None:
    """A slip of the pen would else let a scenario go on with its consumer."""
    result = run_steps(
        tmp_path,
        "subscribe: {node: a, endpoint: jobs, kind: queue, filter: x}",
        "settle: {}",
        "consume: {node: a, queue: jobs}",
        "leave: {node: a, queue: job}",
        "leave: {node: a, queue: jobs}",
    )
    told = [step["detail"].get("error", "") for step in result["steps"][3:]]
    assert told == ["a has no consumer of job; there is jobs", ""]


def test_a_role_is_given_up_when_its_node_has_that_in_force(tmp_path: Path) -> None:
    """Spec: lab.md 5 (`unrole`)."""
    result = run_steps(
        tmp_path,
        "role: {node: a, tree: desk, role: pricing}",
        "pause: {node: a}",
        "unrole: {node: a, tree: desk, role: pricing, timeout: 2}",
        "resume: {node: a}",
        "role: {node: a, tree: desk, role: risk}",
        "unrole: {node: a, tree: desk, role: risk}",
        "send: {node: a, tree: desk, role: risk, name: late, timeout: 5}",
        "expect: {send: late, reached: [], replies: 0}",
    )
    assert [step["ok"] for step in result["steps"]] == [True, True, False, *[True] * 5]
    assert "no word of routes from node a in time" in result["steps"][2]["detail"]["error"]


def test_a_role_that_nobody_took_is_not_given_up_in_silence(tmp_path: Path) -> None:
    """It would be a slip of the pen, and the one that is held stays."""
    result = run_steps(
        tmp_path,
        "role: {node: a, tree: desk, role: pricing}",
        "unrole: {node: a, tree: desk, role: pricings}",
        "unrole: {node: c, tree: desk, role: pricing}",
        "unrole: {node: a, tree: desk, role: pricing, app: other}",
        "unrole: {node: a, tree: desk, role: pricing}",
    )
    told = [step["detail"].get("error", "") for step in result["steps"][1:]]
    assert told == [
        "lab of a does not hold desk/pricings; it holds desk/pricing",
        "lab of c does not hold desk/pricing; it holds nothing",
        "other of a does not hold desk/pricing; it holds nothing",
        "",
    ]


def test_a_role_has_moved_when_its_former_holder_knows_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hears of that by a record of its own, which may come later. Spec: lab.md 5 (`move`)."""
    hear, step = Roles._take, Roles.step
    late: list[tuple[Roles, AppTold]] = []
    steps = iter(range(1_000_000))

    def put_off(self: Roles, told: AppTold) -> None:
        late.append((self, told)) if isinstance(told, RoleLost) else hear(self, told)

    def stepped(self: Roles, timeout_s: float = 0.0) -> bool:
        if late and next(steps) == 200:
            hear(*late.pop())
        return step(self, timeout_s)

    monkeypatch.setattr(Roles, "_take", put_off)
    monkeypatch.setattr(Roles, "step", stepped)
    result = run_steps(
        tmp_path,
        "settle: {}",
        "role: {node: a, tree: desk, role: lead, exclusive: true}",
        "wait: {seconds: 1}",
        "move: {tree: desk, role: lead, to: b}",
        "expect: {holder: desk/lead, node: b}",
    )
    assert [one["detail"] for one in result["steps"] if not one["ok"]] == []


def test_what_brokers_that_are_down_hold_is_told_as_not_counted(tmp_path: Path) -> None:
    """The rest of the result is there all the same. Spec: lab.md 2."""
    result = run_steps(
        tmp_path,
        "role: {node: a, tree: desk, role: pricing}",
        "publish: {node: a, subject: x}",
        "kill_broker: {kafka: three}",
    )
    assert [step["step"] for step in result["steps"]] == ["role", "publish", "kill_broker", "count"]
    assert "Kafka cluster three: no broker answers" in result["steps"][-1]["detail"]["error"]
    assert (result["ok"], set(result["links"])) == (False, {"a->b", "b->a", "b->c", "c->b"})
    assert set(result["tree_frames"]) == {"a->b", "c->b"}


def test_what_is_expected_is_counted_once_brokers_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy broker may lead nothing for a moment. Spec: lab.md 2."""
    refresh, away = Tally.refresh, [TransportUnavailableError("a leader is being elected")]

    def refreshed(tally: Tally) -> None:
        if away:
            raise away.pop()
        refresh(tally)

    monkeypatch.setattr(Tally, "refresh", refreshed)
    result = run_steps(tmp_path, "expect: {link: a->b, messages: 0}")
    assert (result["steps"], result["ok"], away) == (
        [{"step": "expect", "ok": True, "detail": {}}],
        True,
        [],
    )


def test_a_log_that_is_not_there_or_too_short_loses_nothing(tmp_path: Path) -> None:
    result = run_steps(
        tmp_path,
        "recreate_topic: {topic: mesh.a.ep.e}",
        "delete_records: {topic: mesh.a.ep.e, before: 1}",
        "truncate: {topic: mesh.a.ep.e, records: 1}",
        "publish: {node: a, subject: x, key: k}",
        "truncate: {topic: mesh.a.in.g, partition: 0, records: 5}",
    )
    told = [step["detail"].get("error", "") for step in result["steps"]]
    assert told == [
        "Kafka cluster k: there is no topic mesh.a.ep.e yet",
        "Kafka cluster k: there is no topic mesh.a.ep.e yet",
        "no log of mesh.a.ep.e[0] in Kafka cluster k",
        "",
        told[-1],
    ]
    assert "records and cannot lose 5" in told[-1]
