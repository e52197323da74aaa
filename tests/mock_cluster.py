"""librdkafka's own mock cluster, in this process: real client code against brokers that misbehave.

The wheel of the client library exports the C functions; `ctypes` calls them. It needs no Java and
starts in milliseconds. It answers as brokers do, but filters no aborted records and fences nobody.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import confluent_kafka

from tests.patience import wait_until

PRODUCE, LIST_OFFSETS, API_VERSIONS, END_TXN = 0, 2, 18, 26
"""Numbers of requests. Spec: the Kafka protocol."""
TRANSPORT = -195
"""Error of the client library: the answer is lost, and the connection with it."""
NOT_ENOUGH_REPLICAS = 19

_POINTER, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_SIGNATURES = {
    "rd_kafka_conf_new": (_POINTER, ()),
    "rd_kafka_conf_set": (_INT, (_POINTER, _TEXT, _TEXT, _TEXT, ctypes.c_size_t)),
    "rd_kafka_new": (_POINTER, (_INT, _POINTER, _TEXT, ctypes.c_size_t)),
    "rd_kafka_destroy": (None, (_POINTER,)),
    "rd_kafka_flush": (_INT, (_POINTER, _INT)),
    "rd_kafka_mock_cluster_new": (_POINTER, (_POINTER, _INT)),
    "rd_kafka_mock_cluster_destroy": (None, (_POINTER,)),
    "rd_kafka_mock_cluster_bootstraps": (_TEXT, (_POINTER,)),
    "rd_kafka_mock_topic_create": (_INT, (_POINTER, _TEXT, _INT, _INT)),
    "rd_kafka_mock_partition_set_leader": (
        _INT,
        (_POINTER, _TEXT, ctypes.c_int32, ctypes.c_int32),
    ),
    "rd_kafka_mock_broker_set_rtt": (_INT, (_POINTER, ctypes.c_int32, _INT)),
    "rd_kafka_mock_broker_set_down": (_INT, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_broker_set_up": (_INT, (_POINTER, ctypes.c_int32)),
    "rd_kafka_mock_start_request_tracking": (None, (_POINTER,)),
    "rd_kafka_mock_get_requests": (
        ctypes.POINTER(_POINTER),
        (_POINTER, ctypes.POINTER(ctypes.c_size_t)),
    ),
    "rd_kafka_mock_request_api_key": (ctypes.c_int16, (_POINTER,)),
    "rd_kafka_mock_request_destroy_array": (None, (ctypes.POINTER(_POINTER), ctypes.c_size_t)),
    "rd_kafka_mock_push_request_errors_array": (
        None,
        (_POINTER, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(_INT)),
    ),
}
_VTYPE_TOPIC, _VTYPE_VALUE, _VTYPE_HEADER = 1, 4, 9


@cache
def _library() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    library = ctypes.CDLL(str(next(folder.glob("librdkafka*"))))
    for name, (answer, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = answer, arguments
    return library


class MockCluster:
    """Brokers numbered from 1 on, listening on loopback."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self.servers: str = _library().rd_kafka_mock_cluster_bootstraps(handle).decode()

    def create(self, topic: str, partitions: int = 1, copies: int = 1) -> None:
        """Make a topic."""
        _library().rd_kafka_mock_topic_create(self._handle, topic.encode(), partitions, copies)

    def push(self, request: int, errors: Sequence[int]) -> None:
        """Have the next requests of a kind answered with these errors."""
        array = (_INT * len(errors))(*errors)
        _library().rd_kafka_mock_push_request_errors_array(
            self._handle, request, len(errors), array
        )

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Have a broker lead a partition; -1 for none."""
        _library().rd_kafka_mock_partition_set_leader(
            self._handle, topic.encode(), partition, broker
        )

    def slow(self, broker: int, ms: int) -> None:
        """Have every answer of a broker take so long."""
        _library().rd_kafka_mock_broker_set_rtt(self._handle, broker, ms)

    def down(self, broker: int) -> None:
        """Close a broker's connections and accept none."""
        _library().rd_kafka_mock_broker_set_down(self._handle, broker)

    def up(self, broker: int) -> None:
        """Let a broker accept connections again."""
        _library().rd_kafka_mock_broker_set_up(self._handle, broker)

    def watch(self) -> None:
        """Count requests from now on."""
        _library().rd_kafka_mock_start_request_tracking(self._handle)

    def wait_asked(self, request: int, times: int) -> None:
        """Wait until a request of this kind has come so often since `watch`."""
        wait_until(
            f"request {request} comes {times} times",
            lambda: self._asked(request) >= times,
            pace_s=0.005,
            so_far=lambda: self._asked(request),
        )

    def _asked(self, request: int) -> int:
        library, count = _library(), ctypes.c_size_t()
        found = library.rd_kafka_mock_get_requests(self._handle, ctypes.byref(count))
        kinds = [library.rd_kafka_mock_request_api_key(found[n]) for n in range(count.value)]
        library.rd_kafka_mock_request_destroy_array(found, count)
        return kinds.count(request)

    def write(self, topic: str, value: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Write a record as any C producer may: names of headers are bytes."""
        write_as_in_c(self.servers, topic, value, headers)


def write_as_in_c(
    servers: str, topic: str, value: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> None:
    """Write a record as any C producer may, on any brokers: names of headers are bytes."""
    library = _library()
    conf = library.rd_kafka_conf_new()
    fault = ctypes.create_string_buffer(512)
    library.rd_kafka_conf_set(conf, b"bootstrap.servers", servers.encode(), fault, len(fault))
    producer = library.rd_kafka_new(0, conf, fault, len(fault))
    arguments: list[object] = [_INT(_VTYPE_TOPIC), _TEXT(topic.encode())]
    arguments += [_INT(_VTYPE_VALUE), _TEXT(value), ctypes.c_size_t(len(value))]
    for name, content in headers:
        arguments += [_INT(_VTYPE_HEADER), _TEXT(name), _TEXT(content)]
        arguments.append(ctypes.c_ssize_t(len(content)))
    # A copy of the library without signatures: this function takes any number of arguments.
    assert library["rd_kafka_producev"](_POINTER(producer), *arguments, _INT(0)) == 0
    assert library.rd_kafka_flush(producer, 5_000) == 0
    library.rd_kafka_destroy(producer)


def write_packed(servers: str, topic: str, records: int, size: int = 120_000_000) -> None:
    """Write one batch of so many bytes in all, zeros, which is a few kB on the wire."""
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "compression.type": "zstd",
            "message.max.bytes": 1_000_000_000,
            "batch.size": 1_000_000_000,
            "linger.ms": 60_000,  # until it is told to flush
        }
    )
    zeros = bytes(size // records)
    for _ in range(records):
        producer.produce(topic, zeros, partition=0)
    assert producer.flush(60) == 0


@contextmanager
def mock_cluster(brokers: int = 1) -> Iterator[MockCluster]:
    """Have brokers for a while."""
    library = _library()
    fault = ctypes.create_string_buffer(512)
    owner = library.rd_kafka_new(0, library.rd_kafka_conf_new(), fault, len(fault))
    handle = library.rd_kafka_mock_cluster_new(owner, brokers)
    try:
        yield MockCluster(handle)
    finally:
        library.rd_kafka_mock_cluster_destroy(handle)
        library.rd_kafka_destroy(owner)
