"""What brokers say about topics, without the references that the client library forgets.

Each description that the library makes holds the topic's id, a C object, with one reference too
many: it is never freed. An idle worker asks for some seventeen topics a second, which leaks twelve
megabytes in an hour. The surplus is detected, not assumed: if a library version has none, nothing
is released.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from types import SimpleNamespace

from confluent_kafka import TopicCollection, Uuid
from confluent_kafka.admin import (  # type: ignore[attr-defined] # its stubs export only one
    AdminClient,
    TopicDescription,
)


def ask_for_topics(
    client: AdminClient, names: Sequence[str], *, within_s: float, with_rights: bool = False
) -> Mapping[str, Future[TopicDescription]]:
    """Request topic descriptions; the future of a topic that does not exist ends with an error.

    Args:
        client: The client to ask.
        names: Names of topics, at least one; a repeated one is requested once.
        within_s: How long the library waits for brokers, in seconds.
        with_rights: Also ask what the present principal may do with each.
    """
    futures: Mapping[str, Future[TopicDescription]] = client.describe_topics(
        TopicCollection(list(dict.fromkeys(names))),
        request_timeout=within_s,
        include_authorized_operations=with_rights,
    )
    return {name: _without_surplus(future) for name, future in futures.items()}


def _without_surplus(asked: Future[TopicDescription]) -> Future[TopicDescription]:
    answer: Future[TopicDescription] = Future()

    def pass_on(done: Future[TopicDescription]) -> None:
        # Nobody else has the description yet, so nobody else can hold its id meanwhile.
        if (error := done.exception()) is not None:
            answer.set_exception(error)
            return
        _give_back(done.result())
        answer.set_result(done.result())

    asked.add_done_callback(pass_on)
    return answer


def _references(description: TopicDescription | SimpleNamespace) -> int:
    topic_id = description.topic_id
    return sys.getrefcount(topic_id)


_OWN = _references(SimpleNamespace(topic_id=Uuid(0, 0)))
"""The reference count of an id that only its holder has; Python versions count differently."""


def _give_back(description: TopicDescription) -> None:
    if isinstance(description.topic_id, Uuid) and _references(description) > _OWN:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(description.topic_id))
