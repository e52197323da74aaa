"""Take a lane: fence the former owner, recover its position, raise its epoch. Spec: K16, K18.

How long each side waits for the other stands in `takeover_waits`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from mesh.errors import ProtocolError, TransportDeniedError, TransportUnreadableError
from mesh.lane.progress import Progress
from mesh.model.facts import EpochRaised
from mesh.model.topics import TopicNames
from mesh.model.topology import Topology
from mesh.transport.port import KafkaCluster, Record, TopicPartition, Writer
from mesh.transport.reading import read_tail
from mesh.wire.keys import fact_key
from mesh.wire.state import decode_ledger, encode_fact
from mesh.worker.lanes.gone_targets import gone_keys
from mesh.worker.lanes.second_writer import open_second_writer, second_partition
from mesh.worker.process.clock import Clock
from mesh.worker.process.errands import Steps
from mesh.worker.process.recall import Recall, read_progress

ACCOUNTS_READ = 200
"""How many of the newest offsets of a lane's ledger are read to learn its epoch, if its progress
does not say."""

EPOCH_END = 1 << 62
"""No lane has come to such an epoch: whoever tells it is a stranger."""

log = structlog.get_logger()


@dataclass(slots=True)
class Taken:
    """A lane that was taken.

    Attributes:
        number: The lane.
        writer: Writes its transactions.
        progress: Its state so far.
        taken_ms: When it was taken; its former owner was fenced before that.
        strays: Records in its progress that are unreadable.
    """

    number: int
    writer: Writer
    progress: Progress
    taken_ms: int
    strays: int = 0

    def close(self) -> None:
        """Release it: it is not needed after all."""
        self.writer.close()


def take_lane(
    topology: Topology,
    node: str,
    number: int,
    kafka: KafkaCluster,
    recall: Recall,
    clock: Clock,
) -> Steps[Taken]:
    """Take a lane, step by step; this worker owns it when the steps have ended.

    The order matters: opening the writer fences the former owner and ends its transaction, so
    what is read of the progress afterwards cannot change any more. If another worker takes the
    lane between two steps, this one is fenced itself and cannot raise the epoch.

    Args:
        topology: The mesh.
        node: Whose lane.
        number: Which of them.
        kafka: The node's own Kafka cluster.
        recall: Reads what is committed of the lane, by a client that stands ready.
        clock: Time.

    Raises:
        TransportUnreadableError: Its progress cannot be read.
        TransportError: It cannot be taken now.
    """
    names = TopicNames(topology.prefix)
    writer = kafka.writer(f"lane-{number}", names.lane_transactions(node, number))
    try:
        yield
        place = TopicPartition(names.progress(node), number)
        kept = read_progress(_records(place, kafka, recall))
        progress = Progress()
        for fact in kept.facts.values():
            progress.apply(fact)
        if progress.holds:
            _recover_caught_up(progress, names, node, number, topology, kafka, recall)
        yield
        known = progress.epoch or _epoch_in_ledger(names, node, number, kafka)
        raised = EpochRaised(known + 1)
        progress.apply(raised)
        gone = gone_keys(kept.facts, topology, node, kafka, progress)
        writer.begin()
        writer.produce(place.topic, encode_fact(raised), fact_key(raised.key), number)
        for key in gone:
            writer.produce(place.topic, None, key, number)
        writer.commit()
    except BaseException:
        writer.close()
        raise
    return Taken(number, writer, progress, clock.now_ms(), len(kept.strays))


def _records(place: TopicPartition, kafka: KafkaCluster, recall: Recall) -> Sequence[Record]:
    """Return the records of a lane's progress.

    Raises:
        TransportUnreadableError: The topic is gone: the lane would start from the beginning.
    """
    admin = kafka.admin()
    found: Sequence[Record] = ()
    try:
        found = recall.records(place)
    except TransportDeniedError:
        if admin.describe([place.topic]):
            raise
    if found or admin.describe([place.topic]):
        return found
    text = f"{place.topic} is gone, and with it where the node's lanes stood"
    raise TransportUnreadableError(text, offset=0)


def _epoch_in_ledger(names: TopicNames, node: str, number: int, kafka: KafkaCluster) -> int:
    """Return the epoch that a lane's ledger tells; 0 if nothing is there.

    A progress that somebody recreated says nothing, and neighbours drop direct frames of an epoch
    below the one that they read before. Spec: K18.
    """
    epochs = [0]
    for record in read_tail(kafka, TopicPartition(names.ledger(node), number), ACCOUNTS_READ):
        with suppress(ProtocolError):  # a stranger's
            told = decode_ledger(record.value() or b"")
            if (told.node, told.lane) == (node, number) and told.lane_epoch < EPOCH_END:
                epochs.append(told.lane_epoch)
    return max(epochs)


def _recover_caught_up(
    progress: Progress,
    names: TopicNames,
    node: str,
    number: int,
    topology: Topology,
    kafka: KafkaCluster,
    recall: Recall,
) -> None:
    """Learn how far held targets were written beside the lane. Spec: K16, K20.

    Their writer is fenced first, so that what is read afterwards cannot change any more. If it
    cannot be read these targets stay held: the next catch-up reads it again.
    """
    open_second_writer(kafka, names, node, number).close()
    place = TopicPartition(names.progress(node), second_partition(topology, node, number))
    try:
        caught_up = read_progress(recall.records(place))
    except TransportUnreadableError as error:
        log.error("targets.not_recovered", fault=str(error))  # noqa: TRY400 - one line for people
        return
    for fact in caught_up.facts.values():
        progress.apply_catch_up(fact)
