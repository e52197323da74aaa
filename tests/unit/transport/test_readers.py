"""Readers of a topic are all groups or an error: records are deleted by the answer. Spec: K5."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AclOperation

from mesh.errors import TransportDeniedError, TransportError
from mesh.transport.kafka import admin as kafka_admin
from mesh.transport.kafka.admin import KafkaAdmin
from mesh.transport.kafka.faults import Site
from mesh.transport.port import TopicInfo

GROUPS = [SimpleNamespace(group_id="one"), SimpleNamespace(group_id="two")]


class Asked(KafkaAdmin):
    """An admin whose brokers answer as a test says."""

    def __init__(self, rights: set[AclOperation], errors: list[Exception]) -> None:
        super().__init__(
            Site("k", "nowhere.test:1"), {"bootstrap.servers": "nowhere.test:1", "log_level": 0}
        )
        self.rights, self.errors = rights, errors
        self._looks.answers = self._told  # type: ignore[method-assign]

    def _told(self, what, ask, **_):
        if ask.__name__ == "ask_rights":
            return {"": SimpleNamespace(authorized_operations=self.rights)}
        if ask.__name__ == "ask_metadata":
            return {"": SimpleNamespace(brokers={1: None})}
        return {"": SimpleNamespace(valid=GROUPS, errors=self.errors)}

    def describe(self, names):
        return {name: TopicInfo(name, b"", 1) for name in names}


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> dict[str, KafkaError]:
    """Groups whose offsets a broker does not tell."""
    groups: dict[str, KafkaError] = {}

    class Committed:
        def __init__(self, settings) -> None:
            self.group = settings["group.id"]

        def committed(self, places, timeout):
            error = groups.get(self.group)
            about = {"offset": 5, "metadata": "", "leader_epoch": None, "error": error}
            return [SimpleNamespace(topic="t", partition=0, **about) for _ in places]

        def close(self) -> None:
            pass

    monkeypatch.setattr(kafka_admin, "Consumer", Committed)
    return groups


ALL = {AclOperation.DESCRIBE}


def test_every_group_is_told(broken: dict[str, KafkaError]) -> None:
    assert not broken
    place = TopicPartition("t", 0)
    positions = Asked(ALL, []).readers(["t"], besides=["two"])
    assert {group: [at.topic for at in read] for group, read in positions.items()} == {
        "one": [place.topic]
    }


@pytest.mark.usefixtures("broken")
def test_who_may_not_see_all_groups_sees_none() -> None:
    """Brokers leave out, in silence, the groups that a principal may not describe."""
    with pytest.raises(TransportDeniedError, match="some may not be shown"):
        Asked({AclOperation.CREATE}, []).readers(["t"])


@pytest.mark.usefixtures("broken")
def test_a_list_that_lacks_a_broker_is_none() -> None:
    with pytest.raises(TransportError, match="list consumer groups"):
        Asked(ALL, [RuntimeError("broker 3 does not answer")]).readers(["t"])


def test_offsets_that_one_partition_does_not_tell_are_none(broken: dict[str, KafkaError]) -> None:
    broken["two"] = KafkaError(KafkaError.UNSTABLE_OFFSET_COMMIT)
    with pytest.raises(TransportError, match="offsets of group two"):
        Asked(ALL, []).readers(["t"])
