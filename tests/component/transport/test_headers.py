"""Headers that the client library cannot give out, on its own mock cluster. Spec: R12."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from mesh.transport.headers import UNREADABLE, all_headers, headers_of
from mesh.transport.kafka import RealKafka
from mesh.transport.port import Record, TopicPartition
from tests.mock_cluster import mock_cluster
from tests.patience import PATIENCE_S

FINE = [(b"mesh-subject", b"x/1"), (b"note", b"1")]
BAD = [(b"mesh-subject", b"x/1"), (b"bad\xff\xfe", b"1")]


def read(kafka: RealKafka, count: int) -> Sequence[Record]:
    reader = kafka.reader("r")
    reader.assign({TopicPartition("in", 0): 0})
    found: list[Record] = []
    deadline_s = time.monotonic() + 10
    while len(found) < count and time.monotonic() < deadline_s:
        found += reader.read(0.2, 100)
    return found


def test_who_has_asked_often_is_told_as_well() -> None:
    """Python calls what is called often without a look at what came of it. Spec: R12."""
    program = "from tests.component.transport.test_headers import ask_often; ask_often()"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE_S)


def ask_often() -> None:
    """Ask for the headers of many records that are fine, then of one that is not; may crash."""
    with mock_cluster() as brokers:
        brokers.create("in")
        brokers.write("in", b"v", FINE)
        for _ in range(4):
            brokers.write("in", b"v", BAD)
        kafka = RealKafka("k", {"bootstrap.servers": brokers.servers})
        fine, *bad = read(kafka, 5)
        for _ in range(200):
            assert list(headers_of(fine)) == list(all_headers([fine] * 3)[2])
        assert headers_of(bad[0]) is UNREADABLE
        assert [one is UNREADABLE for one in all_headers([fine, *bad])] == [False, *[True] * 4]
        for headers in all_headers([fine, *bad]):
            assert [(name, value) for name, value in headers if name != "x"] in (
                [("mesh-subject", b"x/1"), ("note", b"1")],
                [],
            )
        kafka.close()


def test_a_name_that_is_not_utf8_is_told_and_never_asked_for_twice() -> None:
    """One such record among others, asked for in every way, again and again."""
    with mock_cluster() as brokers:
        brokers.create("in")
        for headers in (FINE, BAD, BAD, [], FINE):
            brokers.write("in", b"v", headers)
        kafka = RealKafka("k", {"bootstrap.servers": brokers.servers})
        records = read(kafka, 5)
        for _ in range(2):
            found = all_headers(records)
            assert [headers is UNREADABLE for headers in found] == [False, True, True, False, False]
            assert [len(headers) for headers in found] == [2, 0, 0, 0, 2]
        assert headers_of(records[1]) is UNREADABLE
        assert list(headers_of(records[4])) == [("mesh-subject", b"x/1"), ("note", b"1")]
        kafka.close()
