"""All that the auditor knows after a micro-batch: what a snapshot holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

from mesh.model.topology import Topology
from streaming.audits.accounts import Accounts
from streaming.audits.blocks import Blocks
from streaming.audits.certificates import Certifier, World
from streaming.audits.chains import Chains
from streaming.audits.colours import Colours
from streaming.audits.eras import Eras
from streaming.audits.findings import Register
from streaming.audits.interest import Interest
from streaming.audits.links import Links
from streaming.audits.marks import Marks
from streaming.audits.minutes import Minutes
from streaming.audits.names import Names
from streaming.audits.order import DeliverySuspicion, Order
from streaming.audits.origins import FrameSuspicion, Origins
from streaming.audits.passing import Ends, Passing
from streaming.audits.queues import QueueRules
from streaming.audits.splits import Splits
from streaming.audits.stalls import Stalls
from streaming.audits.unwanted import Unwanted
from streaming.tables.rows import TopicPartition


@dataclass(slots=True)
class State:
    """The audits, side by side.

    Attributes:
        batch: How many micro-batches were taken, less one: -1 before the first.
        batches: Kafka cluster -> number of its last micro-batch.
        read: Next offset to read of every topic partition.
        delivery_doubts: What must be read again, in endpoints.
        frame_doubts: The same, in outboxes.
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
    eras: Eras
    unwanted: Unwanted
    marks: Marks
    accounts: Accounts
    minutes: Minutes
    stalls: Stalls = field(default_factory=Stalls)
    colours: Colours = field(default_factory=Colours)
    batch: int = -1
    batches: dict[str, int] = field(default_factory=dict)
    read: dict[TopicPartition, int] = field(default_factory=dict)
    delivery_doubts: list[DeliverySuspicion] = field(default_factory=list)
    frame_doubts: list[FrameSuspicion] = field(default_factory=list)

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
            eras=Eras.of(topology),
            unwanted=Unwanted(prefix),
            marks=Marks(prefix),
            accounts=Accounts(prefix),
            minutes=Minutes(prefix),
        )

    def world(self, ends: Ends, read_s: float = inf) -> World:
        """Return what certificates look at.

        Args:
            ends: What brokers say of the ends of what nodes write.
            read_s: All that was written before has been read.
        """
        return World(
            names=self.names,
            interest=self.interest,
            passing=self.passing,
            heads=self.chains.heads,
            carriers=self.origins.carriers,
            eras=self.eras,
            read=self.read,
            register=self.register,
            ends=ends,
            read_s=read_s,
        )
