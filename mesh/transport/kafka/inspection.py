"""What the doctor asks real brokers, and the few settings that it fixes. Spec: R15."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs export only one
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConsumerGroupDescription,
    TopicDescription,
)

from mesh.errors import TransportError
from mesh.transport.kafka.admin import KafkaAdmin
from mesh.transport.kafka.descriptions import ask_for_topics
from mesh.transport.kafka.faults import MISSING, error_of, transport_error
from mesh.transport.port import Copies, Rights, TopicPartition, TopicSpec

_WITH_MEMBERS = {
    ConsumerGroupState.STABLE,
    ConsumerGroupState.PREPARING_REBALANCING,
    ConsumerGroupState.COMPLETING_REBALANCING,
}


class InspectingAdmin(KafkaAdmin):
    """The complete admin: what nodes need of it is in `KafkaAdmin`."""

    def change(self, name: str, settings: Mapping[str, str]) -> None:
        """Set these settings of a topic, all or none; its others stay as they are.

        Raises:
            TransportDeniedError: There is no such topic, or the broker refuses.
        """
        entries = [
            ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
            for key, value in settings.items()
        ]
        wanted = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=entries)

        changes = self._changing()

        def ask() -> Mapping[str, Future[object]]:
            asked = changes.client.incremental_alter_configs(
                [wanted], request_timeout=changes.request_s
            )
            return {str(resource.name): future for resource, future in asked.items()}

        changes.answers("change the settings of", ask)

    def delete(self, names: Sequence[str]) -> None:
        """Delete topics with their records; those that do not exist are left out.

        Raises:
            TransportDeniedError: The broker refuses; others may be gone.
        """
        wanted = list(self.describe(names))
        if not wanted:
            return
        changes = self._changing()

        changes.answers(
            "delete topic",
            lambda: changes.client.delete_topics(wanted, request_timeout=changes.request_s),
            good=MISSING,
        )

    def try_create(self, topics: Sequence[TopicSpec]) -> None:
        """Have the brokers judge a creation without doing it; what exists is left out.

        Raises:
            TransportDeniedError: They would refuse, with their own words.
        """
        missing = self._missing(topics)
        if not missing:
            return
        changes = self._changing()

        changes.answers(
            "create topic",
            lambda: changes.client.create_topics(
                missing, request_timeout=changes.request_s, validate_only=True
            ),
            good={KafkaError.TOPIC_ALREADY_EXISTS},
        )

    def rights(self, names: Sequence[str]) -> Mapping[str, Rights]:
        """Return what the present principal may do with those that exist."""
        if not names:
            return {}

        def ask() -> Mapping[str, Future[TopicDescription]]:
            within_s = self._looks.request_s
            return ask_for_topics(self._looks.client, names, within_s=within_s, with_rights=True)

        refusals: dict[str, str] = {}
        answers = self._looks.answers("describe topic", ask, good=MISSING, refusals=refusals)
        found = {
            name: Rights(frozenset(one.name for one in answer.authorized_operations or ()))
            for name, answer in answers.items()
        }
        return found | {name: Rights(refusal=words) for name, words in refusals.items()}

    def group_rights(self, groups: Sequence[str]) -> Mapping[str, Rights]:
        """Return what the present principal may do with groups, whether they exist or not."""

        def ask() -> Mapping[str, Future[ConsumerGroupDescription]]:
            futures: Mapping[str, Future[ConsumerGroupDescription]] = (
                self._looks.client.describe_consumer_groups(
                    list(groups),
                    request_timeout=self._looks.request_s,
                    include_authorized_operations=True,
                )
            )
            return futures

        refusals: dict[str, str] = {}
        answers = self._looks.answers("describe group", ask, refusals=refusals)
        found = {
            name: Rights(frozenset(one.name for one in answer.authorized_operations or ()))
            for name, answer in answers.items()
        }
        return found | {name: Rights(refusal=words) for name, words in refusals.items()}

    def copies(self, names: Sequence[str]) -> Mapping[TopicPartition, Copies]:
        """Return the copies of each partition, for those that exist."""
        try:
            return _copies(self._descriptions(names))
        except TransportError as error:
            error.with_answers(_copies(error.answers_to(self._descriptions)))
            raise

    def broker_settings(self) -> Mapping[int, Mapping[str, str]]:
        """Return the settings in force of every running broker, by its number.

        Raises:
            TransportDeniedError: Rights to describe the Kafka cluster's settings are missing.
        """
        wanted = [ConfigResource(ConfigResource.Type.BROKER, str(one)) for one in self.brokers()]

        def ask() -> Mapping[int, Future[Mapping[str, ConfigEntry]]]:
            futures: dict[int, Future[Mapping[str, ConfigEntry]]] = {}
            for one in wanted:  # a broker answers only for itself
                futures |= {
                    int(resource.name): future
                    for resource, future in self._looks.client.describe_configs(
                        [one], request_timeout=self._looks.request_s
                    ).items()
                }
            return futures

        answers = self._looks.answers("ask for the settings of broker", ask)
        return {
            number: {key: str(entry.value) for key, entry in entries.items()}
            for number, entries in answers.items()
        }

    def has_members(self, group: str) -> bool:
        """Return whether a group has a member, perhaps one that died a moment ago.

        Every broker is asked for its groups, instead of the group's coordinator: see `passed`.

        Raises:
            TransportDeniedError: Rights to list groups are missing.
        """
        return any(one.group_id == group for one in self._listed(_WITH_MEMBERS))

    def group_members(self, group: str) -> Sequence[str]:
        """Return the client id of each member of a group, including one that died a moment ago.

        Every broker is asked for its groups, instead of the group's coordinator: see `passed`.
        Members using the newer protocol of Kafka 4 (`group.protocol=consumer`) are not visible.

        Raises:
            TransportError: Nobody answers, or rights to describe the group are missing.
        """
        try:
            # Deprecated: what takes its place asks the coordinator.
            found = self._looks.client.list_groups(group, timeout=self._looks.request_s)
        except KafkaException as exc:
            raise transport_error(self._site, f"ask for group {group}", error_of(exc)) from exc
        return [str(member.client_id) for one in found for member in one.members or ()]

    def brokers(self) -> Sequence[int]:
        """Return the numbers of the running brokers."""
        return sorted(self._kafka_cluster("ask for the brokers").brokers)


def _copies(found: Mapping[str, TopicDescription]) -> Mapping[TopicPartition, Copies]:
    return {
        TopicPartition(name, partition.id): Copies(
            len(partition.replicas),
            len(partition.isr),
            partition.leader is not None and partition.leader.id >= 0,
        )
        for name, one in found.items()
        for partition in one.partitions
    }
