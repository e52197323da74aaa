"""What the data path does per message, counted: function calls and allocations, without a clock.

A fixed replay on the simulator: the same workers as in production on in-memory Kafka, one seed. A
warm-up fills what is remembered of subjects; then the same messages come once more and each turn
of the node in question is counted, less what its turns cost in as long a time without messages.
Only what the mesh's own code does counts, and what it has C do for it; in-memory Kafka does not.
The counts are the same on every machine with the same Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType

import memray

import mesh
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import StartError
from mesh.lab.simulated import SimulatedBackend
from mesh.model.control import Subscription
from mesh.model.frames import MessageClass
from mesh.model.record_headers import SUBJECT_HEADER
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.trees.settings import Settings
from mesh.wire.keys import subscription_key
from mesh.wire.subscriptions import encode_subscription
from tests.bench.interest import begin

MESSAGES = 4_000
SLICE, SLICE_MS = 200, 40
"""So many appear at once, and so long lies between them: frames are neither full nor of one."""

SUBJECTS = 100
PAYLOAD = 100
PARTITIONS = 4
START_MS, PERIOD_MS, TIMES = 3_000, 5_000, 3
"""A replay begins whenever a worker has looked at its topics once more, and so does each time that
is counted without messages: so many of each, of which the least counts. What is done each half
minute falls into one of them."""
AFTER_MS = 1_000
"""So long after the last message turns are counted: then all is delivered, committed and told, and
to count allocations in a turn takes twenty times as long as the turn."""

IDLE_MS = 20_000
"""Twice as long as it takes until a worker has looked at everything."""

ROOT = str(Path(mesh.__file__).parent)
BELOW = tuple(f"{ROOT}/{part}" for part in ("transport/memory", "lab/"))
"""The simulator itself: in-memory Kafka, and who runs the workers."""

SPEC: Mapping[str, object] = {
    "kafka": {"k": {}},
    "nodes": {"a": {}, "b": {}, "c": {}, "s": {}},
    "zones": {"Z": {"kind": "multi-hop", "links": [["a", "b"], ["b", "c"], ["b", "s"]]}},
}
WANTED = {"c": ("g/>", "half/0/>"), "s": ("half/1/>",)}
"""Filters by node."""

ROWS = {
    "ingress": ("a", "g"),
    "transit": ("b", "g"),
    "split": ("b", "half"),
    "delivery": ("c", "g"),
}
"""Whose turns are counted, and the first level of the subjects."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Per message."""

    calls: float
    allocations: float


def is_ours(file: str) -> bool:
    """Return whether code in a file counts."""
    return file.startswith(ROOT) and not file.startswith(BELOW)


class CountedBackend(SimulatedBackend):
    """Counts calls or allocations in the turns of one node, while it is asked to."""

    def __init__(
        self,
        topology: Topology,
        folder: Path,
        *,
        counts_allocations: bool,
        trees: Settings | None = None,
    ) -> None:
        super().__init__(topology, 1, trees=trees)
        self.folder, self.counts_allocations = folder, counts_allocations
        self.counted = ""
        self.counts = 0

    def count_of(self, node: str) -> int:
        """Begin to count the turns of a node; return what was counted before."""
        self.counted, counts, self.counts = node, self.counts, 0
        return counts

    def _turn(self, name: str) -> None:
        if name != self.counted:
            super()._turn(name)
            return
        with self._allocations() if self.counts_allocations else self._calls():
            super()._turn(name)

    @contextmanager
    def _calls(self) -> Iterator[None]:
        known: dict[CodeType, bool] = {}
        events = ("call", "c_call")

        def note(frame: FrameType, event: str, _argument: object) -> None:
            if event not in events:
                return
            code = frame.f_code
            if (ours := known.get(code)) is None:
                ours = known[code] = is_ours(code.co_filename)
            self.counts += ours

        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(None)

    @contextmanager
    def _allocations(self) -> Iterator[None]:
        file = self.folder / "turn.bin"
        with memray.Tracker(file, trace_python_allocators=True, memory_interval_ms=1):
            yield
        with memray.FileReader(file) as reader:
            for record in reader.get_allocation_records():
                if record.size and (stack := record.stack_trace(1)) and is_ours(stack[0][1]):
                    self.counts += record.n_allocations
        file.unlink()

    def rest(self, length_ms: int) -> None:
        """Let virtual time pass."""
        until = self.now_ms() + length_ms
        while self.now_ms() < until:
            self.advance()


def count(messages: int) -> Mapping[str, Counts]:
    """Return what each row does per message."""
    calls = _counted(messages, counts_allocations=False)
    allocations = _counted(messages, counts_allocations=True)
    return {row: Counts(calls[row], allocations[row]) for row in ROWS}


def _counted(messages: int, *, counts_allocations: bool) -> Mapping[str, float]:
    topology, names = topology_from_mapping(SPEC), TopicNames()
    with TemporaryDirectory(prefix="mesh-replay-") as folder:
        backend = CountedBackend(topology, Path(folder), counts_allocations=counts_allocations)
        begin(topology, backend)
        writer = backend.kafka["k"].writer("replay")
        for node, filters in WANTED.items():
            for filter_ in filters:
                key = subscription_key("e", filter_)
                writer.produce(names.clients(node), encode_subscription(Subscription()), key, 0)
        writer.flush()
        backend.rest(START_MS)
        found = {}
        for row, (node, level) in ROWS.items():
            _replay(backend, names, level, messages)  # what is remembered of subjects
            backend.rest(_uncounted_ms(messages))
            idle, busy = [], []
            for _ in range(TIMES):
                backend.count_of(node)
                backend.rest(_counted_ms(messages))
                idle.append(backend.count_of(""))
                backend.rest(_uncounted_ms(messages))
                backend.count_of(node)
                _replay(backend, names, level, messages)
                busy.append(backend.count_of(""))
                backend.rest(_uncounted_ms(messages))
            found[row] = (min(busy) - min(idle)) / messages
    return found


def idle(links: int, *, trees: bool) -> float:
    """Return the calls a second of a node with so many neighbours, none of whom publishes.

    Args:
        links: How many.
        trees: Whether nodes have the tree layer.
    """
    neighbours = [f"n{number}" for number in range(links)]
    star = {"kind": "multi-hop", "links": [["hub", name] for name in neighbours]}
    spec = {"kafka": {"k": {}}, "nodes": {"hub": {}, **{name: {} for name in neighbours}}}
    topology = topology_from_mapping({**spec, "zones": {"STAR": star}})
    with TemporaryDirectory(prefix="mesh-replay-") as folder:
        settings = Settings() if trees else None
        backend = CountedBackend(topology, Path(folder), counts_allocations=False, trees=settings)
        begin(topology, backend)
        backend.rest(START_MS)
        backend.count_of("hub")
        backend.rest(IDLE_MS)
        return backend.count_of("") / (IDLE_MS / 1000)


def _counted_ms(messages: int) -> int:
    """Return how long turns are counted for."""
    return len(range(0, messages, SLICE)) * SLICE_MS + AFTER_MS


def _uncounted_ms(messages: int) -> int:
    """Return how long it then takes until a period ends."""
    return -_counted_ms(messages) % PERIOD_MS


def _replay(backend: CountedBackend, names: TopicNames, level: str, messages: int) -> None:
    before = _delivered(backend, names)
    writer = backend.kafka["k"].writer("replay")
    for number in range(messages):
        if not number % SLICE:
            writer.flush()
            backend.rest(SLICE_MS)
        at = number % SUBJECTS
        headers = [(SUBJECT_HEADER, f"{level}/{at // PARTITIONS % 2}/line-{at}".encode())]
        topic, key = names.ingress("a", MessageClass.GUARANTEED), b"k%d" % at
        writer.produce(topic, bytes(PAYLOAD), key, number % PARTITIONS, headers=headers)
    writer.flush()
    writer.close()
    backend.rest(AFTER_MS)
    if (arrived := _delivered(backend, names) - before) != messages:
        raise StartError(f"{level}: {arrived} of {messages} messages arrived")


def _delivered(backend: CountedBackend, names: TopicNames) -> int:
    topics = backend.kafka["k"].topics
    logs = [log for node in WANTED for log in topics[names.endpoint(node, "e")].logs]
    return sum(entry is not None for log in logs for entry in log.entries)


def main() -> None:
    """Print the counts."""
    for row, one in count(MESSAGES).items():
        sys.stdout.write(f"{row:<10}{one.calls:8.2f} calls{one.allocations:8.2f} allocations\n")
    for trees in (False, True):
        what = "idle, with roles" if trees else "idle"
        sys.stdout.write(f"{what:<18}{idle(8, trees=trees):8.0f} calls a second\n")


if __name__ == "__main__":
    main()
