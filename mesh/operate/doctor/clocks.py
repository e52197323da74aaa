"""Do the clocks agree? The mesh does not depend on it; people who compare logs do. Spec: R15."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from mesh.errors import TransportError
from mesh.operate.doctor.checks import Category, Check, Result, judged
from mesh.operate.doctor.examination import Examination
from mesh.transport.port import Reader, TopicPartition

SKEW_MAX_MS = 5_000

_LOG_APPEND_TIME = 2
_LOOKS = 25
_LOOK_S = 0.1
_LIMIT = 1_000


def check_clocks(at: Examination) -> Iterator[Check]:
    """Yield one check per Kafka cluster, by control records that arrive while we look."""
    if at.wall_ms is None:
        return
    skews = _skews(at, at.wall_ms)
    first = next(iter(skews), "")
    for kafka in at.kafka:
        skew = skews.get(kafka)
        faults: list[str] = []
        if skew is not None and abs(skew) > SKEW_MAX_MS:
            faults.append(f"brokers are {_seconds(skew)} this machine")
        if skew is not None and abs(skew - skews[first]) > SKEW_MAX_MS:
            faults.append(f"brokers are {_seconds(skew - skews[first])} those of {first}")
        yield judged(
            Category.CLOCKS,
            f"clocks of {kafka} agree with the others",
            "; ".join(faults),
            "nothing in the mesh depends on it, but logs and time-outs of other programs may: run "
            "a time service (chronyc tracking)",
            result=Result.WARNING,
            note="" if skew is not None else f"no heartbeat from {kafka} while we looked",
            figures={} if skew is None else {"skew_ms": skew},
        )


def _seconds(skew_ms: int) -> str:
    side = "ahead of" if skew_ms > 0 else "behind"
    return f"{abs(skew_ms) / 1000:.1f} s {side}"


def _skews(at: Examination, wall_ms: Callable[[], int]) -> Mapping[str, int]:
    """Return how far each Kafka cluster's clock is ahead of this machine's, in ms."""
    found: dict[str, int] = {}
    readers: dict[str, Reader] = {}
    try:
        for kafka in at.kafka:
            try:
                readers |= _at_the_end(at, kafka)
            except TransportError:
                continue  # reported by the checks of kafka
        for _ in range(_LOOKS):
            for kafka in sorted(readers.keys() - found.keys()):
                for record in readers[kafka].read(_LOOK_S / 10, _LIMIT):
                    kind, stamp = record.timestamp()
                    if kind == _LOG_APPEND_TIME:
                        found[kafka] = stamp - wall_ms()
            if readers.keys() <= found.keys():
                break
            at.time.pause(_LOOK_S)
    finally:
        for reader in readers.values():
            reader.close()
    return {kafka: found[kafka] for kafka in at.kafka if kafka in found}


def _at_the_end(at: Examination, kafka: str) -> Mapping[str, Reader]:
    places = [
        TopicPartition(at.topology.names.control(node), 0)
        for node in at.nodes_on(kafka)
        if at.beats[node]
    ]
    if not places:
        return {}
    ends = at.answering(kafka).admin().stable_ends(places)
    reader = at.answering(kafka).reader("clocks")
    reader.assign(ends)
    return {kafka: reader}
