"""Which topics a node has, and their settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mesh.config.topology_file import topology_from_mapping
from mesh.config.topology_models import MESSAGE_BYTES_MAX
from mesh.transport.kafka.settings import writer_settings
from mesh.transport.node_topics import app_topic, made_for_other_lanes, node_topics
from mesh.transport.port import TopicInfo

TOPOLOGY = topology_from_mapping(
    {
        "kafka": {"k": {}},
        "nodes": {"a": {"lanes": 2}, "b": {}},
        "zones": {"Z": {"kind": "one-hop", "nodes": ["a", "b"]}},
    }
)


def test_a_node_owns_these_topics() -> None:
    """Spec: kafka.md 1, K2, R1."""
    found = {spec.name: spec.partitions for spec in node_topics(TOPOLOGY, "a")}
    assert found == {
        "mesh.a.in.g": 4,
        "mesh.a.in.d": 4,
        "mesh.a.clients": 1,
        "mesh.a.control": 1,
        "mesh.a.control.log": 1,
        "mesh.a.to.b.c": 1,
        "mesh.a.to.b.g": 4,
        "mesh.a.to.b.d": 4,
        "mesh.a.progress": 4,
        "mesh.a.ledger": 4,
        "mesh.a.to.b.t": 1,
        "mesh.a.roles": 1,
        "mesh.a.sends": 1,
        "mesh.a.routes": 1,
        "mesh.a.learned": 1,
        "mesh.a.lanes": 2,
        "mesh.a.dlq": 4,
        "mesh.config": 1,
    }


def test_guaranteed_topics_keep_everything_and_clients_keep_their_time() -> None:
    """Spec: K5."""
    settings = {spec.name: spec.settings for spec in node_topics(TOPOLOGY, "a")}
    for name in ("mesh.a.in.g", "mesh.a.to.b.g"):
        assert (settings[name]["retention.ms"], settings[name]["retention.bytes"]) == ("-1", "-1")
    assert settings["mesh.a.in.g"]["message.timestamp.type"] == "CreateTime"
    assert settings["mesh.a.to.b.g"]["message.timestamp.type"] == "LogAppendTime"
    assert settings["mesh.a.control"]["cleanup.policy"] == "compact"
    assert settings["mesh.a.in.g"]["max.message.bytes"] == "1000000"


def test_the_log_of_control_records_has_an_end_in_bytes() -> None:
    """Kafka deletes whole closed segments alone, so they are small beside the limit."""
    settings = {spec.name: spec.settings for spec in node_topics(TOPOLOGY, "a")}
    limit = int(settings["mesh.a.control.log"]["retention.bytes"])
    assert limit <= 256 << 20
    assert int(settings["mesh.a.control.log"]["segment.bytes"]) <= limit // 8


def test_what_passes_is_kept_for_a_moment_and_base64_of_the_largest_message_fits() -> None:
    """Spec: kafka.md 1, K6."""
    settings = {spec.name: spec.settings for spec in node_topics(TOPOLOGY, "a")}
    for name in ("mesh.a.to.b.t", "mesh.a.sends"):
        assert settings[name]["cleanup.policy"] == "delete"
        assert settings[name]["retention.ms"] == "600000"
    assert settings["mesh.a.roles"]["cleanup.policy"] == "compact"
    told = app_topic(TOPOLOGY, "a", "desk")
    assert (told.name, told.partitions) == ("mesh.a.app.desk", 1)
    assert int(told.settings["max.message.bytes"]) > TOPOLOGY.max_message_bytes * 4 // 3


def test_a_record_of_the_largest_message_that_may_be_has_room_in_a_writer() -> None:
    """Others are refused for good: whoever publishes one, and a lane that is to hand it on."""
    largest = replace(TOPOLOGY, max_message_bytes=MESSAGE_BYTES_MAX)
    settings = writer_settings({}, "c", None, MESSAGE_BYTES_MAX)
    room = int(str(settings["queue.buffering.max.kbytes"])) * 1024
    for spec in (*node_topics(largest, "a"), app_topic(largest, "a", "desk")):
        size = int(spec.settings["max.message.bytes"])
        assert size <= min(room, int(str(settings["message.max.bytes"]))), spec.name


@pytest.mark.parametrize(
    ("partitions", "way"),
    [
        ({"progress": 2, "lanes": 1}, "write `lanes: 1`"),
        ({"progress": 2}, "write `lanes: 1`"),
        ({"progress": 8, "lanes": 4}, "write `lanes: 4`"),
        ({"lanes": 1}, "delete mesh.a.lanes, which holds nothing"),
        ({"lanes": 3}, ""),  # somebody added one
        ({"ledger": 2}, "delete mesh.a.ledger if nobody wants it"),  # it outlives its node
        ({"dlq": 2}, "delete mesh.a.dlq if nobody wants it"),
        ({"progress": 9, "ledger": 9, "dlq": 9}, ""),
    ],
)
def test_topics_tell_for_how_many_lanes_they_were_made(
    partitions: dict[str, int], way: str
) -> None:
    """Spec: K2, K14."""
    specs = node_topics(TOPOLOGY, "a")
    found = {spec.name: TopicInfo(spec.name, b"", spec.partitions) for spec in specs}
    assert made_for_other_lanes(TOPOLOGY, "a", found) is None
    for kind, count in partitions.items():
        found[f"mesh.a.{kind}"] = TopicInfo(f"mesh.a.{kind}", b"", count)
    fault = made_for_other_lanes(TOPOLOGY, "a", found)
    assert (fault is None) == (way == "")
    if fault is not None:
        assert fault[0].startswith("node a cannot have 2 lanes: ")
        assert fault[1].startswith(way)
        assert ("delete mesh.a.progress" in fault[1]) is False
