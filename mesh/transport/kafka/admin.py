"""Admin on real brokers, and the identity of a Kafka cluster."""

from __future__ import annotations

import threading
import time
from base64 import b64decode
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupState,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Uuid,
)
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs export only one
    AclOperation,
    AdminClient,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    ConsumerGroupListing,
    DescribeClusterResult,
    ListConsumerGroupsResult,
    ListOffsetsResultInfo,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from mesh.errors import TransportDeniedError, TransportError, TransportUnavailableError
from mesh.transport.groups import slowest
from mesh.transport.kafka.asking import DEADLINE_S, RETRY_S, Asking, as_raised
from mesh.transport.kafka.consumer import passed_of
from mesh.transport.kafka.descriptions import ask_for_topics
from mesh.transport.kafka.epochs import agrees_until
from mesh.transport.kafka.faults import MISSING, Site, error_of, is_away, transport_error
from mesh.transport.kafka.health import ANSWER_WITHIN_S, ASKED_TOPIC, ENDS_WITHIN_S
from mesh.transport.kafka.settings import Settings, group_settings
from mesh.transport.port import Passed, TopicInfo, TopicPartition, TopicSpec

GROUPS_AT_ONCE = 8
"""How many consumer groups are queried in parallel."""
CREATE_DEADLINE_S = 60.0

_A = TypeVar("_A")


class KafkaAdmin:
    """Administers the topics of one Kafka cluster; threads may share it."""

    def __init__(self, site: Site, settings: Settings, answer_within_s: float = DEADLINE_S) -> None:
        self._answer_within_s = answer_within_s
        self._site = site
        self._settings = settings
        self._looks = Asking(site, settings, answer_within_s)
        self._changes: Asking | None = None
        self._lock = threading.Lock()

    def _changing(self) -> Asking:
        """Return the client for changes: they may wait for a controller, or for copies.

        It has its own connections, so that no look waits for them, and its own patience.
        """
        with self._lock:
            if self._changes is None:
                self._changes = Asking(self._site, self._settings, self._answer_within_s)
            return self._changes

    def cluster_id(self) -> str:
        """Return the identity that the broker reports.

        Raises:
            TransportUnavailableError: No broker answers.
        """
        return str(self._kafka_cluster("ask for the cluster id").cluster_id)

    def _kafka_cluster(self, what: str, topic: str = ASKED_TOPIC) -> ClusterMetadata:
        def ask_metadata() -> Mapping[str, Future[ClusterMetadata]]:
            answer: Future[ClusterMetadata] = Future()
            try:
                answer.set_result(self._looks.client.list_topics(topic, self._looks.request_s))
            except KafkaException as error:
                answer.set_exception(error)
            return {"": answer}

        return self._looks.answers(what, ask_metadata)[""]

    def ask(self, timeout_s: float = ANSWER_WITHIN_S) -> Future[Any]:
        """Send the smallest possible request; the future ends when it is answered."""
        self._looks.client.poll(0)
        answers: Mapping[str, Future[Any]] = as_raised(
            lambda: ask_for_topics(self._looks.client, [ASKED_TOPIC], within_s=timeout_s)
        )
        return answers[ASKED_TOPIC]

    def create(self, topics: Sequence[TopicSpec]) -> None:
        """Create those that do not exist yet, and wait until all have leaders.

        Raises:
            TransportDeniedError: The broker refuses; carries the broker's message.
            TransportUnavailableError: No broker answers, or a leader is missing for too long.
        """
        missing = self._missing(topics)
        if not missing:
            return
        changes = self._changing()

        changes.answers(
            "create topic",
            lambda: changes.client.create_topics(
                missing, request_timeout=changes.request_s, operation_timeout=changes.request_s
            ),
            good={KafkaError.TOPIC_ALREADY_EXISTS},
        )
        self._wait_usable([topic.topic for topic in missing])

    def _missing(self, topics: Sequence[TopicSpec]) -> list[NewTopic]:
        """Return those that do not exist, once each: a repeated name aborts the process."""
        wanted = {spec.name: spec for spec in topics}
        known = self.describe(list(wanted))
        return [
            NewTopic(spec.name, spec.partitions, -1, config=dict(spec.settings))
            for spec in wanted.values()
            if spec.name not in known
        ]

    def _wait_usable(self, names: Sequence[str]) -> None:
        deadline_s = time.monotonic() + CREATE_DEADLINE_S
        waiting = list(names)
        while True:
            found = self._descriptions(waiting)
            waiting = [
                name
                for name in waiting
                if name not in found
                or any(
                    partition.leader is None or partition.leader.id < 0
                    for partition in found[name].partitions
                )
            ]
            if not waiting:
                return
            if time.monotonic() > deadline_s:
                raise TransportUnavailableError(
                    self._site.text(
                        f"topic {waiting[0]} was created but has no leader after "
                        f"{CREATE_DEADLINE_S:.0f} s; look at the brokers"
                    )
                )
            time.sleep(RETRY_S)

    def describe(self, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        """Return those that exist."""
        try:
            return _infos(self._descriptions(names))
        except TransportError as error:
            error.with_answers(_infos(error.answers_to(self._descriptions)))
            raise

    def _descriptions(self, names: Sequence[str]) -> Mapping[str, TopicDescription]:
        if not names:
            return {}
        return self._looks.answers(
            "describe topic",
            lambda: ask_for_topics(self._looks.client, names, within_s=self._looks.request_s),
            good=MISSING,
        )

    def settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """Return all settings in force of those that exist."""
        known = self.describe(names)
        if not known:
            return {}
        wanted = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in known]

        def ask() -> Mapping[ConfigResource, Future[Mapping[str, ConfigEntry]]]:
            futures: Mapping[ConfigResource, Future[Mapping[str, ConfigEntry]]] = (
                self._looks.client.describe_configs(wanted, request_timeout=self._looks.request_s)
            )
            return futures

        answers = self._looks.answers("ask for the settings of", ask, good=MISSING)
        return {
            str(resource.name): {key: str(entry.value) for key, entry in entries.items()}
            for resource, entries in answers.items()
        }

    def ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return high watermarks (open transactions included), of the partitions that exist."""
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def stable_ends(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return last stable offsets: how far a reader of committed records can get now."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        return self._offsets(partitions, latest, IsolationLevel.READ_COMMITTED)

    def asked_ends(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Future[Any]]:
        """Request the same without waiting: each future's result has an `offset`."""
        return self._asked(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def asked_begins(
        self, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Future[Any]]:
        """Request the first existing offsets likewise.

        Also learn the present leaders, for the next such request: see `agrees_until`.
        """
        topics = [at.topic for at in partitions]
        ask_for_topics(self._looks.client, topics, within_s=ENDS_WITHIN_S)
        return self._asked(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def _asked(
        self, partitions: Sequence[TopicPartition], which: OffsetSpec
    ) -> Mapping[TopicPartition, Future[Any]]:
        futures: Mapping[Place, Future[Any]] = self._looks.client.list_offsets(
            {Place(at.topic, at.partition): which for at in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=ENDS_WITHIN_S,
        )
        return {TopicPartition(at.topic, at.partition): told for at, told in futures.items()}

    def starts(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first existing offsets, of the partitions that exist."""
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def since(
        self, partitions: Sequence[TopicPartition], at_ms: int
    ) -> Mapping[TopicPartition, int]:
        """Return offsets before which no record is of that moment or later; ends if none is."""
        asked = OffsetSpec.for_timestamp(max(0, at_ms))
        found = self._offsets(partitions, asked)
        none = [place for place, offset in found.items() if offset < 0]
        return {**found, **self.ends(none)}

    def agrees_until(self, place: TopicPartition, epoch: int, below: int) -> int:
        """Return how far, up to an offset, a log is what was read of it under an epoch.

        Raises:
            TransportUnavailableError: No broker answers.
        """
        # A client that only lists offsets (as of 2.16) is refused for a minute after an election:
        # it sends the former leader epoch, and learns of the new one only with the topic.
        self._kafka_cluster("ask who leads", place.topic)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        told = self._listed_offsets([place], latest, IsolationLevel.READ_UNCOMMITTED).get(place)
        if told is None:
            return below
        end = min(below, told.offset)
        if told.leader_epoch is not None and told.leader_epoch <= epoch:
            return end  # the leader of then, or an earlier one, still leads it
        patience_s = self._answer_within_s
        return agrees_until(self._site, self._settings, place, epoch, end, patience_s)

    def _offsets(
        self,
        partitions: Sequence[TopicPartition],
        which: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> Mapping[TopicPartition, int]:
        if not partitions:
            return {}
        # Asked about a partition beyond the last, the client library would retry to its timeout.
        fault: TransportError | None = None
        try:
            known = self.describe([place.topic for place in partitions])
        except TransportError as error:
            known, fault = error.answers_to(self.describe), error
        wanted = [
            place
            for place in partitions
            if place.topic in known and place.partition < known[place.topic].partitions
        ]
        told: Mapping[TopicPartition, ListOffsetsResultInfo] = {}
        try:
            told = self._listed_offsets(wanted, which, isolation)
        except TransportError as error:
            told, fault = error.answers_to(partial(self._listed_offsets, wanted)), error
        found = {place: one.offset for place, one in told.items()}
        if fault is not None:
            raise fault.with_answers(found)
        return found

    def _listed_offsets(
        self, partitions: Sequence[TopicPartition], which: OffsetSpec, isolation: IsolationLevel
    ) -> Mapping[TopicPartition, ListOffsetsResultInfo]:
        """Return what brokers list of partitions that exist."""
        if not partitions:
            return {}
        wanted = {Place(at.topic, at.partition): which for at in partitions}

        def ask() -> Mapping[Place, Future[ListOffsetsResultInfo]]:
            asked: Mapping[Place, Future[ListOffsetsResultInfo]] = self._looks.client.list_offsets(
                wanted, isolation_level=isolation, request_timeout=self._looks.request_s
            )
            return asked

        def is_told(answer: ListOffsetsResultInfo) -> bool:
            # If a connection is lost, or time runs out, the client library answers without error
            # and without offset: taken for the end of a log, that would mean a log that lost
            # everything.
            return answer.offset != OFFSET_INVALID

        def ask_all() -> Mapping[Place, ListOffsetsResultInfo]:
            return self._looks.answers("list offsets of", ask, good=MISSING, is_told=is_told)

        try:
            return _by_place(ask_all())
        except TransportError as error:
            error.with_answers(_by_place(error.answers_to(ask_all)))
            raise

    def consumed(
        self, topics: Sequence[str], *, besides: Collection[str] = ()
    ) -> Mapping[TopicPartition, int]:
        """Return the offsets that all consumer groups of a topic, besides some, have passed.

        Raises:
            TransportDeniedError: Rights to describe groups are missing.
        """
        names = [str(group.group_id) for group in self._listed()]
        asked = [name for name in names if name not in besides]
        groups = self._of_groups(asked, self._places(topics), is_complete=False)
        return slowest(list(groups.values()), topics)

    def readers(
        self, topics: Sequence[str], *, besides: Collection[str] = ()
    ) -> Mapping[str, Mapping[TopicPartition, int]]:
        """Return every group's position, besides some, on these topics: all groups, or none.

        Without the right to describe the Kafka cluster brokers silently leave out the groups that
        the principal may not describe.

        Raises:
            TransportDeniedError: The present principal does not see every group.
            TransportError: Brokers did not answer for theirs.
        """

        def ask_rights() -> Mapping[str, Future[DescribeClusterResult]]:
            return {
                "": self._looks.client.describe_cluster(
                    include_authorized_operations=True, request_timeout=self._looks.request_s
                )
            }

        what = "list consumer groups"
        if not self._kafka_cluster(what).brokers:  # see ASKED_TOPIC
            raise TransportUnavailableError(f"Kafka cluster {self._site}: {what}: no broker is up")
        rights = self._looks.answers(what, ask_rights)[""].authorized_operations
        if rights is not None and not {AclOperation.DESCRIBE, AclOperation.ALL} & set(rights):
            raise TransportDeniedError(
                f"Kafka cluster {self._site}: {what}: the right to describe the Kafka cluster is "
                "missing, so some may not be shown"
            )
        names = [str(group.group_id) for group in self._listed()]
        places = self._places(topics)
        asked = [name for name in names if name not in besides]
        groups = self._of_groups(asked, places, is_complete=True)
        return {name: read for name, read in groups.items() if read}

    def _of_groups(
        self, names: Sequence[str], places: Sequence[TopicPartition], *, is_complete: bool
    ) -> Mapping[str, Mapping[TopicPartition, int]]:
        """Request the offsets of many groups, some at a time: one request is about one group.

        The protocol has requests for many groups, the client library does not.
        """
        ask = partial(self._committed, places=places, is_complete=is_complete)
        pool = ThreadPoolExecutor(GROUPS_AT_ONCE, "groups")
        try:
            told = zip(names, pool.map(ask, names), strict=True)
            return {name: {at: one.offset for at, one in read.items()} for name, read in told}
        finally:
            pool.shutdown(cancel_futures=True)  # if one does not answer, the others are not needed

    def _listed(
        self, states: Collection[ConsumerGroupState] = frozenset()
    ) -> Sequence[ConsumerGroupListing]:
        """Return the groups of all brokers, or of none: a silent one may have the slowest.

        Raises:
            TransportError: A broker did not report its groups.
        """
        what = "list consumer groups"

        def ask_groups() -> Mapping[str, Future[ListConsumerGroupsResult]]:
            wait_s = self._looks.request_s
            asked = {"states": set(states)} if states else {}
            return {"": self._looks.client.list_consumer_groups(request_timeout=wait_s, **asked)}

        def is_told(listed: ListConsumerGroupsResult) -> bool:
            # Its stubs say less of them than what they are.
            faults = [error for error in listed.errors or () if isinstance(error, KafkaError)]
            return not any(map(is_away, faults))

        listed = self._looks.answers(what, ask_groups, is_told=is_told)[""]
        for error in listed.errors or ():
            raise transport_error(self._site, what, KafkaError(KafkaError._FAIL, str(error)))
        return listed.valid or ()

    def _places(self, topics: Sequence[str]) -> Sequence[TopicPartition]:
        return [
            TopicPartition(topic, number)
            for topic, info in self.describe(topics).items()
            for number in range(info.partitions)
        ]

    def named(self, prefix: str) -> Sequence[str]:
        """Return the topics whose names begin with a prefix.

        Raises:
            TransportUnavailableError: No broker answers.
        """
        try:
            listed = self._looks.client.list_topics(timeout=self._looks.request_s)
        except KafkaException as exc:
            raise transport_error(self._site, "list topics", error_of(exc)) from exc
        return [str(name) for name in listed.topics if str(name).startswith(prefix)]

    def passed(
        self, group: str, places: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, Passed]:
        """Return a group's position, for partitions where it has committed anything.

        It uses a consumer: an admin client's requests to a coordinator that goes away meanwhile can
        end the whole process (librdkafka issues 3663 and 4605).
        """
        return self._committed(group, places, is_complete=False)

    def _committed(
        self, group: str, places: Sequence[TopicPartition], *, is_complete: bool
    ) -> Mapping[TopicPartition, Passed]:
        what = f"offsets of group {group}"
        try:
            consumer = Consumer(group_settings(self._settings, group))
            try:
                wanted = [Place(at.topic, at.partition) for at in places]
                answers = consumer.committed(wanted, timeout=self._looks.request_s)
            finally:
                consumer.close()
        except KafkaException as exc:
            raise transport_error(self._site, what, error_of(exc)) from exc
        for answer in answers if is_complete else ():
            if answer.error is not None:
                raise transport_error(self._site, what, answer.error)
        return {
            TopicPartition(answer.topic, answer.partition): passed_of(answer)
            for answer in answers
            if answer.error is None and answer.offset >= 0
        }

    def delete_before(self, positions: Mapping[TopicPartition, int]) -> None:
        """Delete the records below these offsets; partitions that do not exist are left out.

        Raises:
            TransportDeniedError: A topic is compacted, or rights are missing.
            TransportError: An offset is beyond the end.
        """
        if not positions:
            return
        known = self.describe([place.topic for place in positions])
        wanted = [
            Place(place.topic, place.partition, offset)
            for place, offset in positions.items()
            if place.topic in known and place.partition < known[place.topic].partitions
        ]
        if not wanted:
            return
        changes = self._changing()

        changes.answers(
            "delete records of",
            lambda: changes.client.delete_records(wanted, request_timeout=changes.request_s),
            good=MISSING,
        )


def _by_place(found: Mapping[Place, _A]) -> Mapping[TopicPartition, _A]:
    return {TopicPartition(at.topic, at.partition): one for at, one in found.items()}


def _infos(found: Mapping[str, TopicDescription]) -> Mapping[str, TopicInfo]:
    return {
        name: TopicInfo(name, _id_bytes(one.topic_id), len(one.partitions))
        for name, one in found.items()
    }


def _id_bytes(topic_id: Uuid) -> bytes:
    # Its text is base64 without the two equal signs that 16 bytes end in.
    return b64decode(f"{topic_id}==", validate=True)


def cluster_id(bootstrap_servers: str, timeout_s: float) -> str:
    """Ask a Kafka cluster for its identity, which is also the cheapest sign that it serves.

    Args:
        bootstrap_servers: ``host:port``, several separated by commas.
        timeout_s: How long to try, in seconds.

    Raises:
        TransportUnavailableError: No broker answered in time; carries the client's last error.

    Spec: K4
    """
    quick = {"reconnect.backoff.ms": "50", "reconnect.backoff.max.ms": "200", "log_level": "0"}
    seen: list[KafkaError] = []
    admin = AdminClient(
        {
            **quick,
            "bootstrap.servers": bootstrap_servers,
            "error_cb": seen.append,  # type: ignore[dict-item] # it takes functions too
        }
    )
    try:
        found = admin.list_topics(ASKED_TOPIC, timeout_s)
    except KafkaException as exc:
        admin.poll(0)  # callbacks run here
        telling = [one for one in seen if one.code() != KafkaError._ALL_BROKERS_DOWN]
        why = (telling or [error_of(exc)])[-1].str()
        raise TransportUnavailableError(
            f"no Kafka broker answers at {bootstrap_servers}: {why}"
        ) from exc
    if not found.brokers:
        raise TransportUnavailableError(f"no broker is up at {bootstrap_servers}")
    return str(found.cluster_id)
