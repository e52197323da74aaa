"""Names of topics are taken apart as they are made, and no other name passes for them."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.model.topics import SourceName, TopicNames, shared_begin

NAMES = TopicNames("acme.mesh.")
OTHERS = [
    NAMES.clients("a"),
    NAMES.control("a"),
    NAMES.control_log("a"),
    NAMES.to_control("a", "b"),
    NAMES.to_trees("a", "b"),
    NAMES.endpoint("a", "g"),  # the letter of a class
    NAMES.queue_letters("a", "g"),
    NAMES.app("a", "g"),
    NAMES.progress("a"),
    NAMES.audit("g"),
]


@pytest.mark.parametrize("message_class", MessageClass)
def test_the_name_of_a_source_says_who_writes_and_reads_it(message_class: MessageClass) -> None:
    ingress = NAMES.ingress("a", message_class)
    outbox = NAMES.outbox("a", "b", message_class)
    assert NAMES.source_of(ingress) == SourceName("a", "a", message_class)
    assert NAMES.source_of(outbox) == SourceName("a", "b", message_class)
    assert NAMES.class_of(outbox) is message_class


@pytest.mark.parametrize("topic", OTHERS)
def test_nothing_else_is_a_source(topic: str) -> None:
    assert NAMES.source_of(topic) is None
    assert NAMES.class_of(topic) is None


def test_the_name_of_an_endpoint_says_which_it_is_and_that_of_its_letters_another() -> None:
    """What consumers gave up is deleted by other rules than what waits for them."""
    topic, letters = NAMES.endpoint("a", "orders"), NAMES.queue_letters("a", "orders")
    assert NAMES.endpoint_of("a", topic) == NAMES.queue_of_letters("a", letters) == "orders"
    assert NAMES.endpoint_of("a", letters) == NAMES.queue_of_letters("a", topic) == ""
    assert NAMES.endpoint_of("b", topic) == ""
    assert NAMES.is_endpoint(topic)
    assert not NAMES.is_endpoint(NAMES.ingress("a", MessageClass.DIRECT))
    assert NAMES.app_of("a", NAMES.app("a", "till")) == "till"
    assert NAMES.app_of("a", topic) == ""


@pytest.mark.parametrize(
    ("topics", "begin"),
    [
        ((NAMES.outbox("a", "b", MessageClass.DIRECT), NAMES.to_control("a", "b")), "a.to.b."),
        ((NAMES.endpoint("a", "x"), NAMES.queue_letters("a", "y")), "a.ep."),
        (
            (NAMES.ingress("a", MessageClass.DIRECT), NAMES.control_log("a"), NAMES.clients("a")),
            "a.",
        ),
    ],
)
def test_topics_for_one_neighbour_for_endpoints_and_for_the_node_begin_alike(
    topics: tuple[str, ...], begin: str
) -> None:
    assert {shared_begin(topic) for topic in topics} == {f"acme.mesh.{begin}"}
