"""Memory of workers: what one more of something adds, and orders that make no sense."""

from __future__ import annotations

import pytest

from tests.bench.memory import Found, Size, main


def size(first: float, last: float) -> Size:
    return Size(first=first, last=last, first_peak=first, last_peak=last)


def test_what_each_more_adds_is_told_beside_the_first_point() -> None:
    found = Found(kind="filters", sizes={1: size(80.0, 80.0), 1_001: size(80.4, 81.0)})
    assert (found.each(1_001, "first"), found.each(1_001, "last")) == (
        pytest.approx(400),
        pytest.approx(1_000),
    )
    assert found.rows()[-1].split() == ["1001", "80.4", "80.4", "400", "81.0", "81.0", "1000"]


@pytest.mark.parametrize("points", [["0", "5"], ["5", "5"], ["9", "5"], ["many"]])
def test_points_that_do_not_grow_are_refused(
    points: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["filters", "--points", *points])
    assert ended.value.code == 2
    assert "--points" in capsys.readouterr().err
