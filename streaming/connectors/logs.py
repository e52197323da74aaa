"""What brokers say about one Kafka cluster's topics: which exist, where they begin and end.

What was deleted before it was read cannot be audited, and what has not been read yet is not
missing. Nothing here waits for a Kafka cluster longer than a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from mesh.errors import TransportUnavailableError
from streaming.connectors.failures import is_denied, is_missing_topic, unavailable
from streaming.connectors.java import compiled, java_array, java_class
from streaming.tables.rows import TopicPartition

_SILENT = "Kafka did not say what its logs hold"

_COMMON, _ADMIN = "org.apache.kafka.common", "org.apache.kafka.clients.admin"

TOGETHER_MIN = 40
"""Fewer topics, or partitions, are requested individually: compiling the code for many at once
costs more."""

ALONE_MAX = 500
"""After this many individual requests compiling would have cost less."""

_OFFSETS = f"""
java.util.Map wanted = new java.util.LinkedHashMap();
String[] parts = text.split(" ");
for (int at = 0; at + 1 < parts.length; at += 2)
    wanted.put(new {_COMMON}.TopicPartition(parts[at], Integer.parseInt(parts[at + 1])), spec);
{_ADMIN}.ListOffsetsResult answer = admin.listOffsets(wanted, options);
StringBuilder told = new StringBuilder();
java.util.Iterator places = wanted.keySet().iterator();
while (places.hasNext()) {{
    {_COMMON}.TopicPartition place = ({_COMMON}.TopicPartition) places.next();
    try {{
        {_ADMIN}.ListOffsetsResult.ListOffsetsResultInfo info =
            ({_ADMIN}.ListOffsetsResult.ListOffsetsResultInfo) answer.partitionResult(place).get();
        told.append(info.offset()).append(' ');
    }} catch (java.util.concurrent.ExecutionException error) {{
        if (!({_COMMON}.errors.UnknownTopicOrPartitionException.class
            .isInstance(error.getCause()))) throw error;
        told.append("- ");
    }}
}}
return told.toString();
"""

_DESCRIBED = f"""
java.util.List wanted = java.util.Arrays.asList(text.split(" "));
java.util.Map answers = admin.describeTopics(wanted).topicNameValues();
StringBuilder told = new StringBuilder();
java.util.Iterator topics = wanted.iterator();
while (topics.hasNext()) {{
    Object topic = topics.next();
    try {{
        {_ADMIN}.TopicDescription found = ({_ADMIN}.TopicDescription)
            (({_COMMON}.KafkaFuture) answers.get(topic)).get();
        {_COMMON}.Uuid id = found.topicId();
        told.append(String.format("%s %016x%016x %d ", new Object[] {{topic,
            Long.valueOf(id.getMostSignificantBits()), Long.valueOf(id.getLeastSignificantBits()),
            Integer.valueOf(found.partitions().size())}}));
    }} catch (java.util.concurrent.ExecutionException error) {{
        if (!({_COMMON}.errors.UnknownTopicOrPartitionException.class
            .isInstance(error.getCause()))) throw error;
    }}
}}
return told.toString();
"""

ANSWER_TIMEOUT_MS = 3000
"""How long a broker may take to answer, in milliseconds."""


@dataclass(slots=True)
class Logs:
    """The logs of one Kafka cluster.

    Attributes:
        session: Spark, whose JVM holds the client.
        kafka: Options of Kafka's Java client.
    """

    session: SparkSession
    kafka: Mapping[str, str]
    _client: Any = field(default=None, repr=False)
    _alone: int = field(default=0, repr=False)

    def _is_worth_code(self, count: int) -> bool:
        """Return whether so many should be requested at once, by code compiled for it."""
        if count < TOGETHER_MIN and self._alone < ALONE_MAX:
            self._alone += count
            return False
        return count > 0

    def _java(self, name: str) -> Any:
        return java_class(self.session, name)

    def _admin(self) -> Any:
        if self._client is None:
            properties = self._java("java.util.Properties")()
            for name, value in self.kafka.items():
                properties.setProperty(name, value)
            properties.setProperty("default.api.timeout.ms", str(ANSWER_TIMEOUT_MS))
            properties.setProperty("request.timeout.ms", str(ANSWER_TIMEOUT_MS))
            properties.setProperty("enable.metrics.push", "false")
            self._client = self._java(f"{_ADMIN}.Admin").create(properties)
        return self._client

    def ask(self) -> Callable[[], None]:
        """Ask whether Kafka answers at all; return what waits for that.

        Raises:
            TransportUnavailableError: No client can be made; or when waiting, there is no answer,
                or a refusal.
        """
        try:
            brokers = self._admin().describeCluster().nodes()
        except Exception as error:
            raise unavailable(_SILENT, error) from error
        return lambda: _answer(brokers)

    def beginnings(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the first existing offset, of those partitions that exist.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        return self._offsets(places, self._spec.earliest())

    def ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset after the last record, open transactions included.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        return self._offsets(places, self._spec.latest())

    def stable_ends(self, places: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Return the offset up to which everything is committed or aborted.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        return self._offsets(places, self._spec.latest(), "READ_COMMITTED")

    def since(self, places: Iterable[TopicPartition], at_ms: int) -> Mapping[TopicPartition, int]:
        """Return the first offset with this time stamp or a later one; the end if there is none.

        Args:
            places: Partitions; those that do not exist are left out.
            at_ms: Milliseconds since 1970.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        found = self._offsets(places, self._spec.forTimestamp(at_ms))
        ends = self.ends(place for place, offset in found.items() if offset < 0)
        return {place: ends.get(place, 0) if first < 0 else first for place, first in found.items()}

    def topics(self) -> Sequence[str]:
        """Return the names of all topics.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        try:
            names = self._admin().listTopics().names().get()
            # In one text: taking each out by itself is a call.
            return sorted(str(self._java("java.lang.String").join(" ", names)).split())
        except Exception as error:
            raise unavailable(_SILENT, error) from error

    def described(self, topics: Sequence[str]) -> Mapping[str, tuple[str, int]]:
        """Return the id in hexadecimal and the number of partitions of those topics that exist.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        if self._is_worth_code(len(topics)):
            words = self._asked(_DESCRIBED, " ".join(topics)).split()
            told = zip(words[::3], words[1::3], words[2::3], strict=True)
            return {topic: (id_, int(count)) for topic, id_, count in told}
        found: dict[str, tuple[str, int]] = {}
        try:
            wanted = self._java("java.util.ArrayList")()
            for topic in topics:
                wanted.add(topic)
            answers = self._admin().describeTopics(wanted).topicNameValues()
        except Exception as error:
            raise unavailable(_SILENT, error) from error
        for topic in topics:
            description = _answer(answers.get(topic))
            if description is not None:
                found[topic] = (_hex(description.topicId()), description.partitions().size())
        return found

    def compacted(self, topics: Sequence[str]) -> Sequence[str]:
        """Return those topics that may lack records with later ones of the same key.

        Topics whose settings may not be read count among them.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        kind = self._java(f"{_COMMON}.config.ConfigResource$Type").TOPIC
        resource_of = self._java(f"{_COMMON}.config.ConfigResource")
        resources = {topic: resource_of(kind, topic) for topic in topics}
        wanted = self._java("java.util.ArrayList")()
        for resource in resources.values():
            wanted.add(resource)
        try:
            answers = self._admin().describeConfigs(wanted).values()
        except Exception as error:
            raise unavailable(_SILENT, error) from error
        return [topic for topic, asked in resources.items() if _is_compacted(answers.get(asked))]

    @property
    def _spec(self) -> Any:
        return self._java(f"{_ADMIN}.OffsetSpec")

    def _offsets(
        self, places: Iterable[TopicPartition], spec: Any, isolation: str = "READ_UNCOMMITTED"
    ) -> Mapping[TopicPartition, int]:
        partition_of, level = self._java(f"{_COMMON}.TopicPartition"), f"{_COMMON}.IsolationLevel"
        options = self._java(f"{_ADMIN}.ListOffsetsOptions")(self._java(level).valueOf(isolation))
        places = list(places)
        if self._is_worth_code(len(places)):
            text = " ".join(f"{place.topic} {place.partition}" for place in places)
            answers = self._asked(_OFFSETS, text, spec=spec, options=options).split()
            told = zip(places, answers, strict=True)
            return {place: int(offset) for place, offset in told if offset != "-"}
        wanted = self._java("java.util.HashMap")()
        keys = {place: partition_of(*place) for place in places}
        for key in keys.values():
            wanted.put(key, spec)
        try:
            answer = self._admin().listOffsets(wanted, options)
        except Exception as error:
            raise unavailable(_SILENT, error) from error
        found = {}
        for place, key in keys.items():
            told = _answer(answer.partitionResult(key))
            if told is not None:
                found[place] = int(told.offset())
        return found

    def _asked(self, code: str, text: str, **more: Any) -> str:
        """Return the result of running lines of Java on a text.

        Raises:
            TransportUnavailableError: Kafka does not answer.
        """
        kinds = {"admin": f"{_ADMIN}.Admin", "text": "java.lang.String"}
        kinds |= {"spec": f"{_ADMIN}.OffsetSpec", "options": f"{_ADMIN}.ListOffsetsOptions"}
        asking = compiled(self.session, kinds, code, is_answering=True)
        try:
            given = self._admin(), text, more.get("spec"), more.get("options")
            return str(asking.evaluate(java_array(self.session, "java.lang.Object", *given)))
        except Exception as error:
            raise unavailable(_SILENT, error) from error

    def close(self) -> None:
        """Release the client."""
        if self._client is not None:
            self._client.close(self._java("java.time.Duration").ofMillis(0))
            self._client = None


def _answer(future: Any) -> Any:
    """Return an answer, or None if it is about a topic that is gone."""
    try:
        return future.get()
    except Exception as error:
        if is_missing_topic(error):
            return None
        raise unavailable(_SILENT, error) from error


def _is_compacted(future: Any) -> bool:
    """Return whether the settings of a topic allow compaction, as far as they are known."""
    try:
        told = _answer(future)
    except TransportUnavailableError as error:
        if is_denied(error.__cause__):
            return True
        raise
    return told is not None and "compact" in str(told.get("cleanup.policy").value())


def _hex(uuid: Any) -> str:
    mask = 0xFFFFFFFFFFFFFFFF
    high, low = uuid.getMostSignificantBits() & mask, uuid.getLeastSignificantBits() & mask
    return f"{high:016x}{low:016x}"
