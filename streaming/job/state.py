"""All that the auditor knows after a micro-batch: what a snapshot holds."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, fields
from math import inf
from typing import Protocol, runtime_checkable

from mesh.model.topology import Topology
from streaming.audits.accounts import OutboxAccounts
from streaming.audits.block_judgements import World
from streaming.audits.blocks import Blocks
from streaming.audits.certificates import Certifier
from streaming.audits.chains import Chains
from streaming.audits.colours import Colours
from streaming.audits.consumed_records import ConsumedRecords
from streaming.audits.eras import Eras
from streaming.audits.excuses import Excuses
from streaming.audits.finding_register import Register
from streaming.audits.holds import OpenHolds
from streaming.audits.hop_progress import HopProgress
from streaming.audits.interest import EndpointKey, SubscriptionHistory
from streaming.audits.links import Links
from streaming.audits.minutes import LinkMinutes
from streaming.audits.names import Names
from streaming.audits.needless_copies import NeedlessCopies
from streaming.audits.order import DeliverySuspicion, Order
from streaming.audits.origins import FrameSuspicion, Origins
from streaming.audits.queues import QueueRules
from streaming.audits.splits import Splits
from streaming.audits.stalls import Stalls
from streaming.audits.strangers import StrangeFrames
from streaming.audits.tickets import Ends
from streaming.audits.unwanted_deliveries import UnwantedDeliveries
from streaming.tables.rows import TopicPartition
from streaming.tables.topics import CLIENTS, ENDPOINT, LEDGER, place_of

FORGOTTEN_MAX = 100
"""Partitions of endpoints that one batch forgets: each is looked for in all that is known."""


@runtime_checkable
class Timed(Protocol):
    """An audit that remembers moments of the auditor's clock."""

    def go_ahead(self, ahead_s: float) -> None:
        """Go on by a clock that is so far ahead."""


@dataclass(slots=True)
class State:
    """The audits, side by side.

    Attributes:
        names: What nodes call themselves and their topics.
        chains: How far the chain of every outbox and source goes.
        origins: Which messages have crossed which links.
        order: What endpoints got of each source, in order.
        interest: What endpoints ask for, and from where on sources knew it.
        progress: How far nodes are with what they read.
        splits: Who hears whom.
        links: Figures of links.
        certifier: Blocks, and certificates of them.
        register: Findings.
        eras: Topologies, and from where on they were in force.
        unwanted: Direct deliveries that nobody seems to have asked for.
        excuses: What excuses a second copy.
        accounts: Direct messages as both ends of a link count them.
        minutes: What crossed links in each minute.
        needless: Copies that nobody behind a link seems to have asked for.
        strangers: Frames of sources that nobody has named.
        consumed: What may have been deleted from endpoints before it was read.
        stalls: What stands still, and since when.
        colours: What nodes say of the parts of the mesh.
        batch: How many micro-batches were taken, less one: -1 before the first.
        batches: Kafka cluster -> number of its last micro-batch.
        read: Next offset to read of every topic partition.
        ids: Topic name -> id, of all topics that are read, as brokers said the last time.
        delivery_doubts: What must be read again, in endpoints.
        frame_doubts: The same, in outboxes.
        clock_s: What the auditor's clock said when this was saved.
    """

    names: Names
    chains: Chains
    origins: Origins
    order: Order
    interest: SubscriptionHistory
    progress: HopProgress
    splits: Splits
    links: Links
    certifier: Certifier
    register: Register
    eras: Eras
    unwanted: UnwantedDeliveries
    excuses: Excuses
    accounts: OutboxAccounts
    minutes: LinkMinutes
    needless: NeedlessCopies
    strangers: StrangeFrames
    consumed: ConsumedRecords
    stalls: Stalls = field(default_factory=Stalls)
    colours: Colours = field(default_factory=Colours)
    batch: int = -1
    batches: dict[str, int] = field(default_factory=dict)
    read: dict[TopicPartition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    delivery_doubts: list[DeliverySuspicion] = field(default_factory=list)
    frame_doubts: list[FrameSuspicion] = field(default_factory=list)
    clock_s: float = 0.0

    @classmethod
    def of(cls, topology: Topology) -> State:
        """Return the state before the first record."""
        prefix = topology.prefix
        return cls(
            names=Names(),
            chains=Chains(prefix),
            origins=Origins(prefix),
            order=Order(),
            interest=SubscriptionHistory(queues=QueueRules.of(topology)),
            progress=HopProgress(prefix, OpenHolds(prefix)),
            splits=Splits.of(topology),
            links=Links.of(topology),
            certifier=Certifier(Blocks(prefix)),
            register=Register(),
            eras=Eras.of(topology),
            unwanted=UnwantedDeliveries(prefix),
            excuses=Excuses(prefix),
            accounts=OutboxAccounts(prefix),
            minutes=LinkMinutes(prefix),
            needless=NeedlessCopies(prefix),
            strangers=StrangeFrames(prefix),
            consumed=ConsumedRecords(prefix),
        )

    def forget_recreated(self, place: TopicPartition, topic_id: str, unread: int) -> None:
        """Forget what is known by offsets of a topic that was recreated.

        Cuts tell themselves of which topic they are.

        Args:
            place: A partition of it.
            topic_id: Of the new one.
            unread: So many records of the new one were not read.
        """
        self.certifier.blocks.forget_recreated(place, unread)
        self.chains.forget_recreated(place)
        self.progress.forget_recreated(place, topic_id)
        self.accounts.forget_recreated(place)
        self.interest.lanes.forget_recreated(place)
        self._forget_order([place])
        topic = place_of(self.eras.prefix, place.topic)
        if topic.kind == ENDPOINT:
            self._lose_endpoint(place)
        elif topic.kind == LEDGER:
            self.interest.lanes.lose_cuts(topic.node)
        elif topic.kind == CLIENTS:
            self.names.told.pop(topic.node, None)
            uuid = self.names.uuids.get(topic.node, "")
            self.needless.forget_clients(topic.node, self.interest.asked_at(topic.node))
            self.interest.forget_clients(topic.node, uuid, self.register.now_ms)
        self.frame_doubts = [one for one in self.frame_doubts if place not in one.outboxes]

    def forget_gone(
        self, gone: Collection[TopicPartition], there: Collection[TopicPartition]
    ) -> None:
        """Forget how far topics were read that are gone: if they come back, it is from 0 on.

        Endpoints are forgotten whole, for clients make new ones for ever. What they had got is not
        missing.

        Args:
            gone: Partitions of a Kafka cluster that it had.
            there: Those that it has.
        """
        topics = {place.topic: None for place in there}
        endpoints: list[TopicPartition] = []
        for place in [place for place in gone if place.topic not in topics]:
            if place_of(self.eras.prefix, place.topic).kind == ENDPOINT:
                endpoints.append(place)
            else:
                del self.read[place]
        for place in endpoints[:FORGOTTEN_MAX]:
            self.certifier.blocks.forget_recreated(place, 0)
            self._lose_endpoint(place)
            self.progress.forget_recreated(place, "")
            self.ids.pop(place.topic, None)
            del self.read[place]
        self._forget_order(endpoints[:FORGOTTEN_MAX])

    def _lose_endpoint(self, place: TopicPartition) -> None:
        """Take that an endpoint's topic was deleted: it may have had what nobody has read.

        Of endpoints that nobody asks for any more nothing is kept: clients make new ones for ever.
        """
        topic = place_of(self.eras.prefix, place.topic)
        endpoint = EndpointKey(topic.node, topic.other)
        if any(one.removed is None for one in self.interest.subscriptions.get(endpoint, ())):
            self.consumed.lose_all(endpoint)
            self.interest.changes += 1

    def _forget_order(self, places: Collection[TopicPartition]) -> None:
        self.order.forget(places)
        self.unwanted.forget(places)
        doubts = self.delivery_doubts
        self.delivery_doubts = [one for one in doubts if one.key.endpoint not in places]

    def rest(self, now_s: float) -> None:
        """Go on by the clock of another process, which may be that of another host.

        The time in which nobody looked does not count: nobody knows whether what stood still then
        did so all the while.
        """
        ahead_s = now_s - self.clock_s
        self.clock_s = now_s
        self.certifier.blocks.rest(now_s, ahead_s)
        self.register.rest(now_s)
        audits = (getattr(self, one.name) for one in fields(self))
        for audit in audits:
            if isinstance(audit, Timed):
                audit.go_ahead(ahead_s)

    def world(self, ends: Ends, read_s: float = inf) -> World:
        """Return what certificates look at.

        Args:
            ends: What brokers say of the ends of what nodes write.
            read_s: All that was written before has been read.
        """
        return World(
            names=self.names,
            interest=self.interest,
            progress=self.progress,
            heads=self.chains.heads,
            carriers=self.origins.carriers,
            eras=self.eras,
            read=self.read,
            register=self.register,
            ends=ends,
            read_s=read_s,
            ways=self.origins.ways,
            consumed=self.consumed,
            forgotten=self.chains.forgotten,
        )
