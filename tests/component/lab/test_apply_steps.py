"""The step `apply`: what follows it is checked against the mesh as it is then. Spec: lab.md 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.errors import ConfigError
from mesh.lab.backend import PAUSE_S
from mesh.lab.run import run_scenario
from mesh.lab.scenario import load_scenario
from mesh.lab.simulated import SimulatedBackend
from mesh.lab.topologies import Topologies
from tests.component.lab.scenario_files import ADD_D, RING, load

ONE_WAY = """
apiVersion: mesh/v1
kind: Scenario
metadata: {name: one-way}
spec:
  mesh:
    kafka: {k: {}}
    nodes: {a: {kafka: k}, b: {kafka: k}}
    zones: {AB: {kind: join, from: a, to: b}, BA: {kind: join, from: b, to: a}}
    limits: [{link: [a, b], outboxBytes: 1, whenFull: stop}]
  steps:
    - publish: {node: b, subject: x, count: 5}
    - drain: {}
    - apply: {zones: {BA: null}}
    - slow: {link: [a, b], delay_ms: 2000}
    - publish: {node: a, subject: x}
    - drain: {}
"""


def test_what_a_change_adds_can_be_used_behind_it(tmp_path: Path) -> None:
    publish = "publish: {node: d, subject: x}"
    scenario = load(tmp_path, ADD_D, publish, "kill: {node: d, worker: 1}")
    assert scenario.topology.nodes.keys() == {"a", "b", "c"}
    [(number, proposal)] = scenario.proposals.items()
    assert number == 0
    assert proposal.mesh is not None
    assert proposal.mesh.topology.nodes.keys() == {"a", "b", "c", "d"}
    with pytest.raises(ConfigError, match="no node is called 'd'"):
        load(tmp_path, publish, ADD_D)


def test_what_it_removes_is_counted_to_the_end_but_cannot_be_cut(tmp_path: Path) -> None:
    remove = "apply: {nodes: {c: null}, zones: {Z: {links: [[a, b]]}}}"
    load(tmp_path, ADD_D, "expect: {link: b->c, messages: 0}", "expect: {link: d->c, messages: 0}")
    remove_d = "apply: {nodes: {d: null}, zones: {Y: null}}"
    load(tmp_path, ADD_D, remove_d, remove, "expect: {link: d->c, messages: 0}")
    for step in ("cut: {link: [b, c]}", "stop: {node: c}"):
        with pytest.raises(ConfigError, match=r"no link|no node"):
            load(tmp_path, ADD_D, remove_d, remove, step)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("apply: {zones: {}, refused: 3}", "must be true or false, or a code"),
        ("apply: {zones: {}, refused: ''}", "must be true or false, or a code"),
        ("expect: {interest: a->b}", "goes with `filters"),
        ("expect: {link: a->b, filters: []}", "goes with `filters"),
        ("expect: {link: a->b, interest: a->b, filters: []}", "expect one of"),
        ("expect: {interest: a->c, filters: []}", "no link between a and c"),
    ],
)
def test_what_is_wrong_with_the_step_itself(tmp_path: Path, step: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        load(tmp_path, step)


def test_refusals_are_expected_or_not_ok(tmp_path: Path) -> None:
    """Spec: lab.md 2 (`refusals`)."""
    expected, other = RING % ", refused: true", "apply: {prefix: m2.}"
    scenario = load(tmp_path, expected, RING % "", other, "publish: {node: a, subject: x}")
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert [step["ok"] for step in result["steps"]] == [True, False, False, True]
    assert result["ok"] is False
    found = result["refusals"]
    assert [(one["step"], one["code"]) for one in found] == [
        (0, "TWO_WALKS"),
        (1, "TWO_WALKS"),
        (2, "CANNOT_CHANGE"),
    ]
    assert set(found[0]) == {"code", "message", "where", "walks", "edit", "step"}
    assert found[0]["walks"] == [["a", "c"], ["a", "b", "c"]]
    assert set(result["links"]) == {"a->b", "b->a", "b->c", "c->b"}


def test_a_mistyped_key_is_no_refusal_that_was_expected(tmp_path: Path) -> None:
    """A fault of the file, told before anything runs; who means it names the code."""
    for patch in ("zone: {Z: null}", "zones: {Z: {link: [[a, b]]}}", "zones: {}, refussed: true"):
        with pytest.raises(
            ConfigError, match=r"scenario.yaml:11:.* unknown key; (did you mean|known here)"
        ):
            load(tmp_path, f"apply: {{{patch}, refused: true}}")
    with pytest.raises(ConfigError, match="unknown key; did you mean zones"):
        load(tmp_path, "apply: {zone: {Z: null}}")
    load(tmp_path, "apply: {zone: {Z: null}, refused: UNKNOWN_KEY}")


@pytest.mark.parametrize(
    ("patch", "text", "code"),
    [
        ("zones: {Z: 7}", "must be a mapping; got 7", "WRONG_TYPE"),
        ("zones: {Z: {kind: multihop}}", "must be .* got 'multihop'", "WRONG_VALUE"),
        ("nodes: {d: {lanes: 0}}", "must be at least 1; got 0", "OUT_OF_RANGE"),
    ],
)
def test_a_mistyped_value_is_no_refusal_that_was_expected(
    tmp_path: Path, patch: str, text: str, code: str
) -> None:
    """Likewise: `refused: true` speaks of what the mesh does not let be."""
    for refused in ("", ", refused: true", ", refused: TWO_WALKS"):
        with pytest.raises(ConfigError, match=rf"scenario.yaml:11:.* {text}"):
            load(tmp_path, f"apply: {{{patch}{refused}}}")
    load(tmp_path, f"apply: {{{patch}, refused: {code}}}")


def test_a_later_change_may_add_a_kafka_cluster(tmp_path: Path) -> None:
    """It knows nothing of the changes before it, and need not."""
    away = ADD_D.replace(
        "nodes: {d: {kafka: k, lanes: 2}}", "kafka: {m: {}}, nodes: {d: {kafka: m, lanes: 2}}"
    )
    scenario = load(
        tmp_path,
        "apply: {quarantineAfter: 7}",
        away,
        "subscribe: {node: d, endpoint: e, filter: x}",
        "settle: {}",
        "publish: {node: a, subject: x}",
        "drain: {}",
        "expect: {endpoint: d/e, count: 1}",
    )
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert all(step["ok"] for step in result["steps"]), result["steps"]


class BrokersThatComeBack(SimulatedBackend):
    """Those that are killed answer again after a while."""

    back_ms = 0
    away = ""

    def kill_broker(self, kafka: str, broker: int | None = None) -> None:
        super().kill_broker(kafka, broker)
        self.back_ms, self.away = self.now_ms() + 2_000, kafka

    def advance(self, at_most_s: float = PAUSE_S) -> None:
        super().advance(at_most_s)
        if self.away and self.now_ms() >= self.back_ms:
            self.start_broker(self.away)
            self.away = ""


@pytest.mark.parametrize("kafka", ["k", "m"])
def test_a_broker_may_be_silent_for_a_moment_as_a_change_begins(tmp_path: Path, kafka: str) -> None:
    """The only ones, or those of one Kafka cluster: a slow machine failed whole scenarios."""
    spread = "apply: {kafka: {m: {}}, nodes: {d: {kafka: m}}, zones: {Y: {kind: one-hop, links: [[c, d]]}}}"
    steps = [spread, f"kill_broker: {{kafka: {kafka}}}", "apply: {quarantineAfter: 7}"]
    scenario = load(tmp_path, *steps, "expect: {link: c->d, messages: 0}")
    backend = BrokersThatComeBack(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert all(step["ok"] for step in result["steps"]), result["steps"]
    dead = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(
        load(tmp_path, *steps[:2], "apply: {quarantineAfter: 7, timeout: 5}"),
        dead,
        backend_name="sim",
    )
    assert [step["ok"] for step in result["steps"][:3]] == [True, True, False]
    assert "not done within 5 s" in str(result["steps"][2])


def test_an_outbox_into_which_nothing_goes_any_more_is_not_full(tmp_path: Path) -> None:
    """Nobody says any more how far it is read: it would be held for ever. Spec: K20, K28."""
    path = tmp_path / "scenario.yaml"
    path.write_text(ONE_WAY, encoding="utf-8")
    scenario = load_scenario(path)
    backend = SimulatedBackend(scenario.topology, scenario.seed)
    result = run_scenario(scenario, backend, backend_name="sim")
    assert all(step["ok"] for step in result["steps"]), result["steps"]


def test_a_pair_is_carried_only_under_every_topology_meanwhile() -> None:
    def mesh(*links: list[str]):  # type: ignore[no-untyped-def] # as the function called
        nodes = {name: {"kafka": "k"} for name in "abc"}
        zones = {"Z": {"kind": "multi-hop", "links": list(links)}}
        return topology_from_mapping({"kafka": {"k": {}}, "nodes": nodes, "zones": zones})

    short, long = mesh(["a", "b"]), mesh(["a", "b"], ["b", "c"])
    both = Topologies([(-1, short), (4, long), (8, short)])
    assert not both.carry("a", "c", "x", (0, 3))
    assert not both.carry("a", "c", "x", (3, 5))
    assert both.carry("a", "c", "x", (5, 7))
    assert not both.carry("a", "c", "x", (5, 9))
    assert both.carry("a", "b", "x", (0, 9))
    assert both.is_changed(3, 5)
    assert not both.is_changed(4, 8)


def test_frames_of_trees_are_counted_on_links_that_a_change_adds(tmp_path: Path) -> None:
    """Spec: lab.md 5 (`tree_frames`)."""
    role = "role: {node: a, tree: desk, role: pricing}"
    again = "role: {node: b, tree: desk, role: pricing}"
    steps = ["settle: {}", role, ADD_D, "settle: {}", again, "wait: {seconds: 2}"]
    scenario = load(tmp_path, *steps)
    backend = SimulatedBackend.of(scenario)
    result = run_scenario(scenario, backend, backend_name="sim")
    backend.close()
    frames = result["tree_frames"]
    assert isinstance(frames, dict)
    assert frames.keys() == result["links"].keys()
    assert frames["c->d"]["publish"] > 0
