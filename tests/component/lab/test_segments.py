"""Cutting a log segment at a batch boundary, on segments written by hand."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from mesh.errors import StartError
from mesh.lab.segments import cut_newest, read_batches


def batch(offset: int, records: int, *, control: bool = False) -> bytes:
    body = struct.pack(
        ">ibIhiqqqhii", 0, 2, 0, 0x30 if control else 0x10, records - 1, 0, 0, 7, 0, 0, records
    )
    body += b"x" * 10 * records
    return struct.pack(">qi", offset, len(body)) + body


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A partition of five records: three, a marker, two, a marker."""
    folder = tmp_path / "t-0"
    folder.mkdir()
    content = batch(10, 3) + batch(13, 1, control=True) + batch(14, 2)
    content += batch(16, 1, control=True)
    name = "00000000000000000010"
    (folder / f"{name}.log").write_bytes(content)
    for suffix in ("index", "timeindex", "txnindex"):
        (folder / f"{name}.{suffix}").write_bytes(b"?")
    for offset in (10, 14, 17):
        (folder / f"{offset:020}.snapshot").write_bytes(b"?")
    (folder / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n3 16\n")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_text("0\n3\nt 0 17\nt 01 9\nu 0 5\n")
    return tmp_path


def offsets(data: Path) -> list[int]:
    [segment] = (data / "t-0").glob("*.log")
    return [one.base_offset for one in read_batches(segment)]


def test_batches_are_read(data: Path) -> None:
    [segment] = (data / "t-0").glob("*.log")
    found = [(one.base_offset, one.records) for one in read_batches(segment)]
    assert found == [(10, 3), (13, 0), (14, 2), (16, 0)]


def test_a_last_batch_that_is_not_whole_is_left_out(data: Path) -> None:
    [segment] = (data / "t-0").glob("*.log")
    segment.write_bytes(segment.read_bytes()[:-1])
    assert offsets(data) == [10, 13, 14]


@pytest.mark.parametrize(
    ("records", "end", "left"), [(1, 14, [10, 13]), (2, 14, [10, 13]), (3, 10, []), (5, 10, [])]
)
def test_the_newest_go_with_their_markers(
    data: Path, records: int, end: int, left: list[int]
) -> None:
    assert cut_newest(data, "t", 0, records) == end
    assert offsets(data) == left


def test_what_contradicts_the_log_goes_too(data: Path) -> None:
    cut_newest(data, "t", 0, 1)
    names = {path.name for path in (data / "t-0").iterdir()}
    assert names == {
        "00000000000000000010.log",
        "00000000000000000010.snapshot",
        "00000000000000000014.snapshot",
        "leader-epoch-checkpoint",
    }
    assert (data / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    assert (data / "replication-offset-checkpoint").read_text() == "0\n2\nt 01 9\nu 0 5\n"


def test_a_checkpoint_that_the_broker_left_empty_stays(data: Path) -> None:
    path = data / "replication-offset-checkpoint"
    path.write_text("")
    cut_newest(data, "t", 0, 1)
    assert path.read_text() == ""


def test_more_than_there_is_cannot_be_cut(data: Path) -> None:
    with pytest.raises(StartError, match="has 5 records and cannot lose 6"):
        cut_newest(data, "t", 0, 6)
    assert offsets(data) == [10, 13, 14, 16]
    with pytest.raises(StartError, match="no log of"):
        cut_newest(data, "t", 1, 1)


def test_something_else_is_no_segment(data: Path) -> None:
    [segment] = (data / "t-0").glob("*.log")
    segment.write_bytes(bytes(200))
    with pytest.raises(StartError, match="no record batch at byte 0"):
        cut_newest(data, "t", 0, 1)
