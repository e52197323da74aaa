"""How patient one is with brokers that answer late, on the client library's mock cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

import pytest

from mesh.errors import TransportError, TransportUnavailableError
from mesh.model.patience import Patience
from mesh.transport.kafka import RealKafka, asking
from mesh.transport.kafka.admin import KafkaAdmin
from mesh.transport.kafka.faults import Site
from mesh.transport.port import Admin, TopicInfo, TopicPartition
from tests.mock_cluster import LIST_OFFSETS, TRANSPORT, mock_cluster

LATE_MS, NEVER_MS = 300, 9_000


class KnownTopics(KafkaAdmin):
    """The mock cluster does not describe topics."""

    def describe(self, names: Sequence[str]) -> Mapping[str, TopicInfo]:
        return {name: TopicInfo(name, b"id", 2) for name in names}


def test_an_end_whose_answer_was_lost_is_asked_for_again() -> None:
    """The client library tells of no error then, and of no offset: a log that has lost all."""
    with mock_cluster() as brokers:
        brokers.create("t", 2)
        admin = KnownTopics(Site("k", brokers.servers), {"bootstrap.servers": brokers.servers}, 5.0)
        places = [TopicPartition("t", number) for number in range(2)]
        for ask in (admin.ends, admin.stable_ends, admin.starts):
            brokers.push(LIST_OFFSETS, [TRANSPORT])
            assert ask(places) == dict.fromkeys(places, 0)
        del admin, ask


def test_an_end_that_no_broker_tells_is_none() -> None:
    """Who asks for it hears that nobody answers."""
    with mock_cluster() as brokers:
        brokers.create("t", 2)
        admin = KnownTopics(Site("k", brokers.servers), {"bootstrap.servers": brokers.servers}, 0.5)
        brokers.push(LIST_OFFSETS, [TRANSPORT] * 1_000)
        with pytest.raises(TransportUnavailableError, match="list offsets of"):
            admin.ends([TopicPartition("t", 0)])
        del admin


def test_what_the_handler_of_a_signal_raises_in_a_question_is_raised_as_it_is() -> None:
    """Ctrl-C is no failure of the client library."""

    def interrupted() -> Mapping[str, Future[None]]:
        raise SystemError("a call returned a result with an exception set") from KeyboardInterrupt()

    def broken() -> Mapping[str, Future[None]]:
        raise SystemError("something else")

    looks = asking.Asking(Site("k", "nowhere.test:1"), {"bootstrap.servers": ""}, 1.0)
    with pytest.raises(KeyboardInterrupt):
        looks.answers("ask", interrupted)
    with pytest.raises(SystemError, match="something else"):
        looks.answers("ask", broken)


def answer_of(admin: Admin) -> str:
    """Ask for the cluster id until it is told, for a minute at most."""
    deadline_s = time.monotonic() + 60
    while time.monotonic() < deadline_s:
        with suppress(TransportError):
            return admin.cluster_id()
    raise AssertionError("brokers that answer late are not heard")


def test_brokers_that_answer_late_are_heard_again_after_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who stays impatient closes each connection before its answer comes, for good."""
    monkeypatch.setattr(asking, "IMPATIENT_S", Patience(LATE_MS / 3_000, asking.DEADLINE_S))
    with mock_cluster() as brokers:
        kafka = RealKafka("k", {"bootstrap.servers": brokers.servers}, answer_within_s=2.0)
        admin = kafka.admin()
        brokers.slow(1, LATE_MS)
        there = answer_of(admin)
        brokers.slow(1, NEVER_MS)
        with pytest.raises(TransportUnavailableError):
            admin.cluster_id()
        brokers.slow(1, LATE_MS)
        assert answer_of(admin) == there
        kafka.close()
