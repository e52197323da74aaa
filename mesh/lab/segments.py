"""Kafka's log segments on disk: enough of them to cut the newest records off, as a crash can.

A segment is a row of record batches. Each begins with its base offset (8 bytes) and the length of
what follows (4 bytes); the rest of the header is the same for every batch of magic 2.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mesh.errors import StartError

_PREFIX = struct.Struct(">qi")
# Epoch of the leader, magic, CRC, attributes, last offset delta, two time stamps, producer id and
# epoch, base sequence, number of records.
_REST = struct.Struct(">ibIhiqqqhii")
_MAGIC = 2
_CONTROL = 0x20
_CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
_EPOCHS = "leader-epoch-checkpoint"


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """One record batch of a segment.

    Attributes:
        position: Of its first byte in the file.
        base_offset: Of its first record.
        records: How many it has; 0 for a transaction marker.
    """

    position: int
    base_offset: int
    records: int


def read_batches(segment: Path) -> Iterator[BatchHeader]:
    """Yield the batches of a segment; a last one that is not whole is left out.

    Raises:
        StartError: It is no segment of this format.
    """
    size = segment.stat().st_size
    with segment.open("rb") as file:
        position = 0
        while position + _PREFIX.size + _REST.size <= size:
            file.seek(position)
            offset, length = _PREFIX.unpack(file.read(_PREFIX.size))
            _, magic, _, attributes, *_, count = _REST.unpack(file.read(_REST.size))
            if magic != _MAGIC or length < _REST.size:
                raise StartError(f"{segment}: no record batch at byte {position}")
            end = position + _PREFIX.size + length
            if end > size:
                return
            yield BatchHeader(position, offset, 0 if attributes & _CONTROL else count)
            position = end


def cut_newest(data: Path, topic: str, partition: int, records: int) -> int:
    """Cut the newest records, with the markers behind them, off a partition of a dead broker.

    A batch goes as a whole, so a few records more may go. What the broker remembers beside the
    log and would contradict it goes too; it finds that out again from the log.

    Args:
        data: The broker's log folder.
        topic: Name of the topic.
        partition: Its partition.
        records: How many records, at least.

    Returns:
        The offset at which the log now ends.

    Raises:
        StartError: The newest segment has fewer records, or there is none.
    """
    folder = data / f"{topic}-{partition}"
    segments = sorted(folder.glob("*.log"))
    if not segments:
        raise StartError(f"no log of {topic}[{partition}] in {data}")
    batches = list(read_batches(segments[-1]))
    gone = 0
    while batches and gone < records:
        last = batches.pop()
        gone += last.records
    if gone < records:
        raise StartError(
            f"the newest segment of {topic}[{partition}] has {gone} records "
            f"and cannot lose {records}"
        )
    with segments[-1].open("r+b") as file:
        file.truncate(last.position)
    _forget(folder, segments[-1], last.base_offset)
    for name in _CHECKPOINTS:
        _keep_lines(data / name, lambda line: line.split()[:2] != [topic, str(partition)])
    return last.base_offset


def _forget(folder: Path, segment: Path, end: int) -> None:
    """Remove what stands beside a log and speaks of offsets from `end` on."""
    for suffix in (".index", ".timeindex", ".txnindex"):
        segment.with_suffix(suffix).unlink(missing_ok=True)
    for snapshot in folder.glob("*.snapshot"):
        if int(snapshot.stem) > end:
            snapshot.unlink()
    _keep_lines(folder / _EPOCHS, lambda line: int(line.split()[1]) <= end)


def _keep_lines(path: Path, is_kept: Callable[[str], bool]) -> None:
    """Keep only these lines of a checkpoint: a version, a count, then a line per entry.

    A broker that was killed may have left none, or an empty one.
    """
    found = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    if found:
        lines = [line for line in found[2:] if is_kept(line)]
        path.write_text("\n".join([found[0], str(len(lines)), *lines, ""]), encoding="ascii")
