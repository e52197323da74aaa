"""What the auditor says is read as what a stranger may have written. Spec: DESIGN 4.6."""

from __future__ import annotations

import json

from mesh.config.topology_file import topology_from_mapping
from mesh.lab.audit_follower import TABLES, AuditFollower
from mesh.model.topics import TopicNames
from mesh.operate.audit.latest import POSITION
from mesh.transport.memory import MemoryKafka
from mesh.transport.port import TopicSpec
from tests.component.in_memory_mesh import CHAIN

STRANGE = (b"", b"no JSON", b"[]", b"null", b"3", b'{"waiting": 3}', b"[" * 100_000, b"\xff")
CERTIFICATE = {"endpoint": "a/e", "equal": True, "delivered": 3}
STATUS = {"batch": 7, "uncertified": 1, "waiting": [{"endpoint": "a/e", "source": "s"}]}


def test_what_strangers_write_on_audit_topics_counts_for_nothing() -> None:
    topology = topology_from_mapping(CHAIN)
    kafka = {name: MemoryKafka(name) for name in topology.kafka}
    home, names = kafka[topology.audit_kafka], TopicNames(topology.prefix)
    topics = {table: names.audit(table) for table in TABLES}
    home.admin().create([TopicSpec(name=topic, partitions=1) for topic in topics.values()])
    writer = home.writer("w")
    writer.produce(topics["status"], json.dumps(STATUS).encode(), POSITION, 0)
    writer.produce(topics["certificates"], json.dumps(CERTIFICATE).encode(), b"c", 0)
    for number, value in enumerate(STRANGE):
        for topic in topics.values():
            writer.produce(topic, value, b"%d" % number, 0)
    bare = b'{"endpoint": "a/e", "equal": true}'
    writer.produce(topics["certificates"], bare, b"bare", 0)
    assert writer.flush() == 0
    follower = AuditFollower(topology, kafka, lambda: 0)
    follower.refresh()
    assert follower.certified() == {"a/e": 3}
    assert follower.found() == {}
    assert "batch 7" in follower.stands()
    assert follower.lacks({"a/e": 4}, 1).startswith("messages not certified within 1 s: a/e 3 of 4")
    follower.close()
