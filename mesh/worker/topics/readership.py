"""Which groups read a node's endpoints: records below what all of them passed are deleted.

Nothing is deleted on a guess. A group that once read and now reports nothing may have lost its
offsets because it rested for longer than brokers keep them (a week), or may have been deleted. The
two cannot be told apart, so it counts where it was. Spec: K5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from mesh.errors import TransportDeniedError, TransportError
from mesh.transport.groups import slowest
from mesh.transport.port import Admin, TopicPartition

log = structlog.get_logger()


@dataclass(slots=True)
class Readership:
    """Remembers how far groups had come, as long as this worker leads.

    Attributes:
        besides: The mesh's own groups.
    """

    besides: Collection[str]
    _known: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    _missed: dict[str, None] = field(default_factory=dict)

    def passed(self, admin: Admin, topics: Sequence[str]) -> Mapping[TopicPartition, int]:
        """Return the slowest group's position, for partitions that all groups have passed.

        Raises:
            TransportError: Not all groups are visible now.
        """
        told = admin.readers(topics, besides=self.besides)
        known = {
            group: {at: offset for at, offset in read.items() if at.topic in topics}
            for group, read in self._known.items()
        }
        for group, read in told.items():
            known[group] = {**known.get(group, {}), **read}
        self._known = {group: read for group, read in known.items() if read}
        for group in self._known.keys() - told.keys() - self._missed.keys():
            log.warning(
                "endpoint.reader_gone",
                group=group,
                text="what it has not read is kept until this worker starts again",
            )
        self._missed = dict.fromkeys(group for group in self._known if group not in told)
        return slowest(list(self._known.values()), topics)

    def begin_again(self, topic: str) -> None:
        """Take that no group has read anything of a topic: another one has its name now.

        Brokers forget what groups had committed of the former one, and say nothing of that. What
        was known of them would release what none of them has read.
        """
        for group, read in self._known.items():
            self._known[group] = {
                at: 0 if at.topic == topic else offset for at, offset in read.items()
            }

    def agreed(
        self, admin: Admin, deletable: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, int]:
        """Return how far the logs of these are still what the groups have passed. Spec: R6.

        If a log has lost its end, other records stand at offsets that a group had passed.
        Partitions that brokers say nothing about are left out.
        """
        found = dict(deletable)
        for group, read in self._known.items():
            places = [at for at in found if at in read]
            try:
                _agree(admin, group, places, found)
            except TransportError as error:
                log.warning("endpoints.not_trimmed", fault=str(error))
                for at in places:
                    found.pop(at, None)
        return found


def passed_by_all(
    admin: Admin, topics: Sequence[str], besides: Collection[str]
) -> Mapping[TopicPartition, int]:
    """Return the slowest group's position within what the logs still are.

    Raises:
        TransportError: Brokers do not answer. Groups that they do not show do not count.
    """
    try:
        groups = admin.readers(topics, besides=besides)
    except TransportDeniedError:
        return admin.consumed(topics, besides=besides)
    found = dict(slowest(list(groups.values()), topics))
    for group, read in groups.items():
        _agree(admin, group, [at for at in found if at in read], found)
    return found


def _agree(
    admin: Admin, group: str, places: Sequence[TopicPartition], found: dict[TopicPartition, int]
) -> None:
    """Cut a group's position back to where a later leader has written."""
    for at, passed in admin.passed(group, places).items() if places else ():
        if (epoch := passed.leader_epoch) is not None:
            found[at] = admin.agrees_until(at, epoch, found[at])
