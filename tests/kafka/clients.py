"""Clients of a mesh on real brokers: one publishes until it is told to end, one reads and judges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Event, Thread

from mesh.client import MeshClient, connect
from mesh.client.published import Published
from mesh.errors import MeshError
from mesh.local.fleet import Fleet
from mesh.model.frames import MessageClass
from tests.patience import PATIENCE_S

KEYS = 3


class Publishing(Thread):
    """A client of one node: fifty guaranteed messages a second or fewer, and some direct ones.

    Attributes:
        guaranteed: Payloads, and what became of each: `NODE KEY NUMBER`, numbers in order.
        slowest_s: How long brokers took to accept a few messages, at most.
    """

    def __init__(self, mesh: Fleet, node: str) -> None:
        super().__init__(name=f"publisher at {node}")
        self.node, self.guaranteed, self.slowest_s = node, dict[bytes, Published](), 0.0
        self._client, self._number, self._ends = connect(mesh.topology, node), 0, Event()

    def run(self) -> None:
        while not self._ends.wait(0.1):
            for _ in range(5):
                self._publish(MessageClass.GUARANTEED)
            self._publish(MessageClass.DIRECT)
            if self._number % 4 == 0:
                self._settle()
        self._settle()
        self._client.close()

    def end(self) -> None:
        """Publish no more, and wait until it is known what became of everything."""
        self._ends.set()
        self.join(PATIENCE_S)

    def _publish(self, of: MessageClass) -> None:
        key, self._number = self._number % KEYS, self._number + 1
        payload = f"{self.node} {key} {self._number}".encode()
        with suppress(MeshError):  # then nothing was sent
            one = self._client.publish("storm/x", payload, key=b"k%d" % key, message_class=of)
            if of is MessageClass.GUARANTEED:
                self.guaranteed[payload] = one

    def _settle(self) -> None:
        begun_s = time.monotonic()
        with suppress(MeshError):  # each message knows what became of it
            self._client.flush()
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun_s)


class Received:
    """What has come to an endpoint, read beside."""

    def __init__(self, client: MeshClient, endpoint: str) -> None:
        self.payloads: list[bytes] = []
        self._stream = client.deliveries(endpoint)

    def read(self) -> int:
        """Take what has come; return how many there are by now."""
        self.payloads += [one.payload or b"" for one in self._stream.read(0.2)]
        return len(self.payloads)

    def has(self, wanted: Sequence[bytes]) -> bool:
        """Return whether all of these have come."""
        self.read()
        return set(wanted) <= set(self.payloads)

    def judge(self, wanted: Sequence[bytes], sent: Mapping[bytes, Published]) -> None:
        """Have all that was wanted be here, and what was sent once and in order."""
        assert not set(wanted).difference(self.payloads)
        mine = [one for one in self.payloads if one in sent]
        assert set(Counter(mine).values()) <= {1}
        last: dict[bytes, int] = {}
        for one in mine:
            source, _, number = one.rpartition(b" ")
            assert last.get(source, -1) < int(number), f"{one!r} came behind {last[source]}"
            last[source] = int(number)
