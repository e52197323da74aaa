"""What a mesh of two nodes would have written, without the mesh: `a` publishes, `b` delivers."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from mesh.model.frames import MessageClass, SourcePartition
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.wire.deliveries import delivery_headers, delivery_prefix
from tests.streaming.planted import PARTITIONS, Plant
from tests.streaming.pour import Pour

NODES = ("a", "b")
FRAME = 500
"""Messages of one frame, as a link under load has them."""

POUR_EVERY = 40
"""Frames that are held in memory."""

PAYLOAD = bytes(100)

TOPOLOGY = """\
apiVersion: mesh/v1
kind: Mesh
metadata: {{name: bench}}
spec:
  prefix: {prefix}
  kafka: {{k1: {{}}}}
  nodes: {{a: {{kafka: k1}}, b: {{kafka: k1}}}}
  zones:
    Z: {{kind: multi-hop, links: [[a, b]]}}
"""


@dataclass
class Written:
    """A mesh whose messages all have one delivery: a subject is one endpoint's.

    Attributes:
        address: Of the broker.
        prefix: Start of all topic names.
        subjects: Distinct ones, in turn; with 4,096 each message of a block has its own.
        endpoints: Of `b`; those for which there are subjects get equally much.
        messages: That were written.
    """

    address: str
    prefix: str
    subjects: int
    endpoints: int
    messages: int = 0
    plant: Plant = field(init=False)
    pour: Pour = field(init=False)

    def __post_init__(self) -> None:
        self.plant = Plant(self.prefix, at_ms=int(time.time() * 1000))
        self.pour = Pour(self.plant, {"k1": self.address})

    @property
    def records(self) -> int:
        """How many there are, of all topics."""
        return sum(map(len, self.plant.logs.values()))

    def write(self, messages: int) -> None:
        """Write so many messages, and all that is told of them."""
        self.pour.create(*(f"b/e{number}" for number in range(self.endpoints)), nodes=NODES)
        self._subscribe()
        self.messages = messages // FRAME * FRAME
        for number in range(messages // FRAME):
            self._carry(number % PARTITIONS, number * FRAME)
            if number % POUR_EVERY == POUR_EVERY - 1:
                self._pour()
        self._pour()
        self.pour.producers.clear()

    def _subscribe(self) -> None:
        plant = self.plant
        plant.identities(NODES)
        version = max(
            plant.subscribe("b", f"e{number}", f"e{number}/>") for number in range(self.endpoints)
        )
        for node, topic in (("a", "a.in.g"), ("b", "a.to.b.g")):
            for partition in range(PARTITIONS):
                plant.cut(node, topic, 0, "b", version, partition)

    def _carry(self, partition: int, number: int) -> None:
        """Publish a frame's messages, and take them over the link."""
        plant = self.plant
        told = [(number + one) % self.subjects for one in range(FRAME)]
        subjects = [f"e{one % self.endpoints}/site/{one}" for one in told]
        offsets = [
            plant.put("a.in.g", partition, b"k", PAYLOAD, [(SUBJECT_HEADER, one.encode())])
            for one in subjects
        ]
        end = offsets[-1] + 1
        source = {"source": "a.in.g", "partition": partition}
        frame = plant.frame("a->b", offsets, path=["a"], subjects=subjects, **source)
        plant.send("a", "a.to.b.g", partition, "a.in.g", end - 1)
        plant.progress("a", "a.in.g", partition, end)
        plant.tell_read("a", "a.in.g", offsets[0], end, FRAME, partition=partition)
        origin = SourcePartition(plant.id_of(f"{self.prefix}a.in.g"), partition)
        prefix = delivery_prefix(MessageClass.GUARANTEED, NODES, origin, 0)
        for one, subject, header in zip(
            told, subjects, delivery_headers(prefix, offsets), strict=True
        ):
            headers = [(SUBJECT_HEADER, subject.encode()), (MESH_HEADER, header)]
            plant.put(f"b.ep.e{one % self.endpoints}", partition, b"k", PAYLOAD, headers)
        plant.accept("b", "a.to.b.g", partition, "a.in.g", end - 1)
        plant.progress("b", "a.to.b.g", partition, frame + 1)
        plant.tell_read("b", "a.to.b.g", frame, frame + 1, FRAME, partition=partition)

    def _pour(self) -> None:
        self.pour.pour()
        for log in self.plant.logs.values():
            log[:] = [None] * len(log)  # offsets go on from there
