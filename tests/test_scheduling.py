"""Tests that wait are begun from one end, those that compute from the other, and each runs once."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.scheduling import (
    ALONE,
    COMPUTING,
    DOCKER,
    NICER,
    SPARK,
    WAITING,
    FromBothEnds,
    computes,
    make_way,
    place,
    tell,
)

ROOT = Path(__file__).parents[1]

SWARM = [f"tests/sim/swarm/test_swarm.py::test_{one}" for one in "ab"]
STORM = [f"tests/kafka/test_storm.py::test_{one}" for one in "ab"]
AUDITED = ["tests/e2e/test_demo.py::test_a", "tests/streaming/test_small_reads.py::test_a"]
CLI = [f"tests/kafka/test_cli.py::test_{one}" for one in "abc"]
UNIT = [f"tests/unit/test_{file}.py::test_{one}" for file in "xyz" for one in "ab"]
MODEL = ["tests/component/lab/test_load.py::test_a", "tests/component/lab/test_load.py::test_b"]
ALL = sorted([*SWARM, *STORM, *AUDITED, *CLI, *UNIT, *MODEL], key=place)


class Process:
    """What the scheduler knows of a process of the suite."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.given: list[str] = []
        self.ran = 0

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += [ALL[index] for index in indices]

    def shutdown(self) -> None:
        self.shutting_down = True

    @property
    def is_able(self) -> bool:
        """A process runs a test once it knows what comes after it, if anything."""
        return self.ran < len(self.given) - (not self.shutting_down)


def begun(count: int) -> tuple[FromBothEnds, list[Process]]:
    """Return the scheduler of so many processes, which have got their first tests."""
    config = SimpleNamespace(
        getvalue=lambda name: {"tx": [f"{count}*popen"]}[name],
        option=SimpleNamespace(loadscopereorder=False),
    )
    made = FromBothEnds(config)
    processes = [Process(f"gw{number}") for number in range(count)]
    for one in reversed(processes):  # whoever is ready first
        made.add_node(one)
        made.add_node_collection(one, ALL)
    made.schedule()
    return made, processes


def test_what_is_named_is_there() -> None:
    """Else a file that was renamed would be taken in no order."""
    named = {*SPARK, *DOCKER, *WAITING, *ALONE, *COMPUTING}
    assert [one for one in named if not (ROOT / one).exists()] == []


@pytest.mark.parametrize("file", ALONE)
def test_whose_tests_go_anywhere_shares_nothing(file: str) -> None:
    """Each process would make it anew."""
    assert 'scope="' not in (ROOT / file).read_text()


def test_each_process_begins_at_its_end() -> None:
    _, processes = begun(4)
    firsts = [one.given[:2] for one in processes]
    assert firsts[0] == AUDITED
    assert [one[0] for one in firsts[1:3]] == STORM
    assert firsts[3] == SWARM


def test_who_has_done_with_spark_computes() -> None:
    """Real meshes are left to those that are nicer to nobody."""
    made, processes = begun(4)
    for test in AUDITED:
        made.mark_test_complete(processes[0], ALL.index(test))
    assert processes[0].given[len(AUDITED)] in MODEL


@pytest.mark.parametrize(
    ("count", "dist", "nicer"),
    [(4, "loadfile", [NICER, 0, 0, NICER]), (2, "loadfile", [0, 0]), (4, "load", [0, 0, 0, 0])],
)
def test_who_computes_is_nicer(
    monkeypatch: pytest.MonkeyPatch, count: int, dist: str, nicer: list[int]
) -> None:
    monkeypatch.setattr("os.nice", lambda more: nice.append(nice.pop() + more))
    told = []
    for number in range(count):
        nice = [0]
        node = SimpleNamespace(
            gateway=SimpleNamespace(id=f"gw{number}"),
            config=SimpleNamespace(getvalue={"dist": dist}.get),
            workerinput={"workercount": count},
        )
        tell(node)
        make_way(SimpleNamespace(workerinput=node.workerinput))
        told += nice
    assert told == nicer
    make_way(SimpleNamespace())  # who runs alone is told nothing


def test_this_very_process_is_as_nice_as_it_is_to_be(request: pytest.FixtureRequest) -> None:
    """Beside the one that gives out tests, if there is one: for it is told so by xdist alone."""
    told = getattr(request.config, "workerinput", None)
    is_nicer = (
        told is not None
        and "loadfile" in told["mainargv"]
        and computes(told["workerid"], told["workercount"])
    )
    other = os.getppid() if told else os.getpid()
    assert os.nice(0) - os.getpriority(os.PRIO_PROCESS, other) == NICER * is_nicer


def test_two_processes_both_begin_with_what_waits() -> None:
    _, processes = begun(2)
    assert [one.given[0] for one in processes] == [AUDITED[0], STORM[0]]


@pytest.mark.parametrize("slow", [0, 1, 3])
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_every_test_runs_once_and_none_waits_behind_a_slow_one(count: int, slow: int) -> None:
    """One process takes ten times longer than the others for each test: these take the rest."""
    made, processes = begun(count)
    for turn in range(1_000):
        for number, one in enumerate(processes):
            if one.is_able and (number != slow or turn % 10 == 0):
                one.ran += 1
                made.mark_test_complete(one, ALL.index(one.given[one.ran - 1]))
    assert sorted(test for one in processes for test in one.given) == sorted(ALL)
    assert [one.ran for one in processes] == [len(one.given) for one in processes]
    together = [
        {i for i, one in enumerate(processes) if set(one.given) & set(f)} for f in (AUDITED, CLI)
    ]
    assert [len(one) for one in together] == [1, 1]
    if count > slow and count > 2:
        assert len(processes[slow].given) <= len(AUDITED) + len(CLI)
