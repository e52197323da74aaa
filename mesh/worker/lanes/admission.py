"""When a worker becomes a member of the group that serves its node. Spec: K15.

A new member gets lanes of others, and those pause until it knows the interest. So a worker learns
first; but where there is no other member somebody must lead, and it enters at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import structlog

from mesh.errors import TransportDeniedError, TransportError
from mesh.model.topics import TopicNames
from mesh.transport.port import KafkaCluster, Membership
from mesh.worker.lanes.takeover_waits import WORKER_LEARNS_FIRST_MS
from mesh.worker.process.questions import Questions

ASK_MS = 500

log = structlog.get_logger()


@dataclass(slots=True)
class Admission:
    """One worker's way into its group.

    Attributes:
        home: The node's own Kafka cluster.
        names, node: Its topics, and the node it serves.
        count: How many lanes the node has.
        questions: Asks beside the loop.
        began_ms: When it started.
        giving_up: Called with lanes that are to move away; see the port.
        membership: None before it is a member.
    """

    home: KafkaCluster
    names: TopicNames
    node: str
    count: int
    questions: Questions
    began_ms: int
    giving_up: Callable[[frozenset[int]], None]
    membership: Membership | None = None
    _asked_ms: int = -ASK_MS

    @property
    def given(self) -> frozenset[int]:
        """The lanes that the group gave to this worker; partitions that somebody added are none."""
        given = frozenset[int]() if self.membership is None else self.membership.lanes()
        return frozenset(number for number in given if number < self.count)

    def lanes(self, now_ms: int, *, is_prepared: bool) -> frozenset[int]:
        """Enter when it is time; return the lanes that the group assigned to this worker.

        Args:
            now_ms: The present moment.
            is_prepared: Whether lanes would be served at once.

        Raises:
            TransportError: The group cannot be entered now, or querying it is denied.
        """
        if self.membership is None:
            if not (is_prepared or self._may_enter(now_ms)):
                return frozenset()
            self.questions.forget("members")
            group, topic = self.names.lanes_group(self.node), self.names.lanes(self.node)
            self.membership = self.home.membership("lanes", group, topic)
            self.membership.giving_up = self.giving_up
        self.membership.poll()
        return self.given

    def _may_enter(self, now_ms: int) -> bool:
        if now_ms - self.began_ms >= WORKER_LEARNS_FIRST_MS:
            return True
        if not self.questions.is_open("members"):
            if now_ms - self._asked_ms < ASK_MS:
                return False
            self._asked_ms = now_ms
        group = self.names.lanes_group(self.node)
        ask = partial(self.home.admin().has_members, group)
        try:
            return self.questions.answer(("members",), ask) is False
        except TransportDeniedError:
            raise
        except TransportError as error:
            # A single silent broker keeps nobody out: the worker enters once it has learned.
            log.info("group.unknown", group=group, fault=str(error))
            return False

    def close(self) -> None:
        """Leave the group at once."""
        if self.membership is not None:
            self.membership.close()
