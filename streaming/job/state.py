"""All that the auditor knows after a micro-batch: what a snapshot holds."""

from __future__ import annotations

from dataclasses import dataclass, field

from mesh.model.topology import Topology
from streaming.audits.blocks import Blocks
from streaming.audits.certificates import Certifier, World
from streaming.audits.chains import Chains
from streaming.audits.findings import Register
from streaming.audits.interest import Interest
from streaming.audits.links import Links
from streaming.audits.names import Names
from streaming.audits.order import Order
from streaming.audits.origins import Origins
from streaming.audits.passing import Passing
from streaming.audits.queues import QueueRules
from streaming.audits.splits import Splits
from streaming.audits.ways import Ways
from streaming.tables.rows import TopicPartition


@dataclass(slots=True)
class State:
    """The audits, side by side.

    Attributes:
        batch: Last micro-batch taken; -1 before the first.
        read: Next offset to read of every topic partition.
    """

    names: Names
    chains: Chains
    origins: Origins
    order: Order
    interest: Interest
    passing: Passing
    splits: Splits
    links: Links
    certifier: Certifier
    register: Register
    batch: int = -1
    read: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def of(cls, topology: Topology) -> State:
        """Return the state before the first record."""
        prefix = topology.prefix
        return cls(
            names=Names(),
            chains=Chains(prefix),
            origins=Origins(prefix),
            order=Order(),
            interest=Interest(queues=QueueRules.of(topology)),
            passing=Passing(prefix),
            splits=Splits.of(topology),
            links=Links.of(topology),
            certifier=Certifier(Blocks(prefix)),
            register=Register(),
        )

    def world(self, ways: Ways) -> World:
        """Return what certificates look at; which ways there are is the file's to say."""
        return World(
            names=self.names,
            interest=self.interest,
            passing=self.passing,
            heads=self.chains.heads,
            carriers=self.origins.carriers,
            ways=ways,
            read=self.read,
            register=self.register,
        )
