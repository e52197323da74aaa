"""What growth curves are made of: meshes that can be had, ratios within a pass, and a picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.core.legality import is_legal
from tests.bench.chart import Curve, drawn, ticks
from tests.bench.field import Setup
from tests.bench.growth import AXES, Cost, Found, main

COST = Cost(messages=1, cpu=1, first=1, broker=1, written=1, sent=1, rate=1, core=1, foreign=0)


def found(axis: str, *passes: dict[str, float], nats_us: dict[str, float] | None = None) -> Found:
    costs = [{point: replace(COST, cpu=cpu) for point, cpu in one.items()} for one in passes]
    return Found(axis=axis, passes=costs, nats_us=nats_us or {}, absent="")


@pytest.mark.parametrize("axis", AXES)
def test_every_point_is_a_legal_mesh_with_endpoints(axis: str) -> None:
    for point in AXES[axis].points:
        assert AXES[axis].fault(point) is None
        setup = AXES[axis].at(point)
        topology = topology_from_mapping(setup.spec())
        assert is_legal(topology)
        assert set(setup.endings) <= set(topology.nodes)


def test_hostile_filters_are_distinct_and_match_the_subjects() -> None:
    setup = Setup(filters=64, is_hostile=True)
    filters = setup.more_filters()
    assert len(set(filters)) == 64
    levels = f"{setup.level(0)}/line-1".split("/")
    for one in filters:
        parts = one.split("/")
        assert len(parts) == len(levels)
        assert all(part in ("*", level) for part, level in zip(parts, levels, strict=True))


def test_parts_of_neighbours_are_equal_in_every_partition() -> None:
    setup = Setup(links=4, is_split=True)
    for partition in range(setup.partitions):
        numbers = range(partition, 160, setup.partitions)
        levels = [setup.level(number // setup.partitions) for number in numbers]
        assert [levels.count(setup.wanted(n).removesuffix("/>")) for n in setup.endings] == [10] * 4


def test_growth_is_the_median_of_ratios_within_a_pass() -> None:
    curve = found("links", {"1": 1, "2": 2}, {"1": 10, "2": 10}, {"1": 1, "2": 4})
    assert curve.growth("2") == 2
    assert curve.growth("1") == 1


def test_goals_of_axes() -> None:
    assert [g.is_met for g in found("subjects", {"300": 1, "new": 2.9}).goals()] == [True]
    assert [g.is_met for g in found("subjects", {"300": 1, "new": 3.1}).goals()] == [False]
    assert [g.is_met for g in found("subjects", {"300": 1, "10": 1}).goals()] == [None]
    # A point is not compared with itself, and a smaller set says nothing of the whole one.
    assert [g.is_met for g in found("subjects", {"new": 1}).goals()] == [None]
    assert [g.is_met for g in found("hostile", {"64": 9}, nats_us={"64": 80.0}).goals()] == [None]
    met = found("hostile", {"1": 1, "16384": 9}, nats_us={"16384": 80.0})
    assert [goal.is_met for goal in met.goals()] == [True]


@pytest.mark.parametrize(
    "arguments",
    [
        ["sideways"],
        ["links", "--points", "many"],
        ["partitions", "--points", "64", "--messages", "10"],
        ["endpoints", "--points", "64", "--messages", "100"],
        ["links", "--passes", "0"],
        ["payload", "--points", "0"],
        ["payload", "--points", "900000"],
        ["headers", "--points", "-1"],
        ["compression", "--points", "brotli"],
        ["compression", "--points", "0"],
        ["subjects", "--points", "old"],
        ["hostile", "--points", "16385"],
        ["links", "--points", "0"],
        ["endpoints", "--points", "0"],
        ["nodes", "--points", "1"],
        ["workers", "--points", "3"],
        ["rate", "--points", "0"],
        ["links", "--points", "2", "2"],
    ],
)
def test_mistakes_are_told_before_anything_runs(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("python -m tests.bench.growth:")


def test_the_picture_is_a_picture(tmp_path: Path) -> None:
    text = drawn("a < b", ["1", "2"], [Curve("one", [1.0, 3.4]), Curve("other", [1.0, 1.2])])
    assert ET.fromstring(text).tag.endswith("svg")
    assert text.count("<polyline") == 2


@pytest.mark.parametrize("most", [0.004, 1.0, 3.4, 10.0, 11.0, 777.0])
def test_ticks_reach_the_greatest_value(most: float) -> None:
    assert ticks(most)[-1] >= most
    assert ticks(most)[0] == 0
