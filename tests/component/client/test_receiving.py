"""What an application receives by: groups, iterators, and reads that end in their midst. Spec: K8."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from types import SimpleNamespace

import pytest

from mesh.client import (
    ChannelReader,
    ClosedError,
    Deliveries,
    MeshClient,
    QueueConsumer,
    QueueMessage,
    ReceivedMessage,
    SubjectError,
    TransportError,
)
from mesh.client.awaited import AwaitedTopic
from mesh.config.topology_file import topology_from_mapping
from mesh.errors import TransportUnavailableError
from mesh.transport.memory_consumer import MemoryConsumer
from mesh.transport.port import Passed, Reader, Record, TopicInfo, TopicPartition
from tests.component.in_memory_mesh import CHAIN, Mesh, put_in_force
from tests.patience import PATIENCE_S


def with_six_orders(mesh: Mesh) -> MeshClient:
    """Return a client of b, to whose endpoint `orders` 0 to 5 were published in order."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(6):
        client.publish("x", b"%d" % number, key=b"one")
    client.flush()
    return client


def test_a_group_goes_on_where_it_was(mesh: Mesh) -> None:
    """What the iterator has given away is done when the next one is asked for."""
    client = with_six_orders(mesh)
    reader = client.channel("orders", "billing")
    assert [one.payload for one in islice(reader, 3)] == [b"0", b"1", b"2"]
    reader.close()  # the third was handed out and is not done
    again = client.channel("orders", "billing")
    assert [one.payload for one in islice(again, 4)] == [b"2", b"3", b"4", b"5"]
    other = client.channel("orders", "audit")
    assert len(other.read(5.0)) == 6
    other.commit()
    other.close()
    assert client.channel("orders", "audit").read(1.0) == ()


def test_two_readers_of_a_group_share_a_channel(mesh: Mesh) -> None:
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    readers = [client.channel("orders", "billing") for _ in range(2)]
    for reader in readers:
        reader.read(3.0)
    for number in range(40):
        client.publish("x", str(number).encode(), key=str(number).encode())
    client.flush()
    shares = []
    for reader in readers:
        found = [one.payload for _ in range(5) for one in reader.read(1.0)]
        reader.commit()
        shares.append(set(found))
    assert shares[0].isdisjoint(shares[1])
    assert len(shares[0] | shares[1]) == 40


def test_what_moved_away_is_not_handed_out_of_what_was_fetched(mesh: Mesh) -> None:
    """Whoever takes long over each message hears of it before the next one."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(40):
        client.publish("x", str(number).encode(), key=str(number).encode())
    client.flush()
    mesh.pause(2.0)
    first, second = (client.channel("orders", "billing") for _ in range(2))
    slow = iter(first)
    found = [next(slow).payload for _ in range(10)]
    mesh.pause(2.0)
    found.append(next(slow).payload)  # those before are saved; this one is not done
    second.read(0.0)
    mesh.pause(2.0)
    found.append(next(slow).payload)
    for _ in range(10):
        for reader in (first, second):
            found += [one.payload for one in reader.read(1.0)]
            reader.commit()
    assert {one for one in found if one} == {b"%d" % number for number in range(40)}
    assert len(found) <= 41


@pytest.mark.parametrize(("endpoint", "group"), [("no way", "g"), ("e", ""), ("e", "a\nb")])
def test_a_name_that_is_not_allowed_is_told(endpoint: str, group: str, mesh: Mesh) -> None:
    with pytest.raises(SubjectError):
        mesh.client("a").channel(endpoint, group)


def test_what_waits_in_an_iterator_is_not_done(mesh: Mesh) -> None:
    """It fetches many at once: `commit` speaks of those that were handed out."""
    client = with_six_orders(mesh)
    reader = client.channel("orders", "billing")
    assert [one.payload for one in islice(reader, 2)] == [b"0", b"1"]
    reader.commit()
    # Another loop over the same reader goes on where the first one was left.
    assert [one.payload for one in islice(reader, 1)] == [b"2"]
    assert [one.payload for one in reader.read(1.0, 2)] == [b"2", b"3"]
    reader._reading.close()  # as a process that dies
    again = client.channel("orders", "billing")
    assert [one.payload for one in again.read(3.0)] == [b"2", b"3", b"4", b"5"]


def test_a_consumer_goes_by_what_is_in_force(mesh: Mesh) -> None:
    """How often a message is handed out is what the queue is declared with now. Spec: K27."""
    client = mesh.client("a")
    queues = {"jobs": {"maxDeliveries": 3}}
    put_in_force(2, topology_from_mapping({**CHAIN, "queues": queues}), mesh.world.kafka)
    mesh.pause(1.0)
    assert client.consume("jobs")._most == 3


def test_who_closes_from_another_thread_waits_until_nobody_reads() -> None:
    """The client library may wait for ever for a commit, or its end, beside a read."""
    calls: list[str] = []
    reads, goes_on = threading.Event(), threading.Event()
    source = SimpleNamespace(close=lambda: calls.append("closed"))
    known = {"t": TopicInfo("t", b"id", 1)}
    kafka = SimpleNamespace(admin=lambda: SimpleNamespace(describe=lambda _: known))
    topic: AwaitedTopic[SimpleNamespace] = AwaitedTopic(
        kafka,  # type: ignore[arg-type]
        "t",
        lambda: source,
        now_ms=lambda: time.monotonic_ns() // 1_000_000,
        pause=time.sleep,
    )

    def take(_source: object, _wait_s: float) -> tuple[()]:
        reads.set()
        goes_on.wait(20.0)
        calls.append("read")
        return ()

    def close() -> None:
        with topic.closing():
            calls.append("saved")

    reader = threading.Thread(target=topic.read, args=(60.0, take))
    reader.start()
    assert reads.wait(20.0)
    closer = threading.Thread(target=close)
    closer.start()
    closer.join(0.3)  # ends at once if it waits for nobody
    goes_on.set()
    for one in (closer, reader):
        one.join(PATIENCE_S)
        assert not one.is_alive()
    assert calls == ["read", "saved", "closed"]


def test_a_reader_that_is_closed_saves_nothing(mesh: Mesh) -> None:
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    client.publish("x", b"1")
    client.flush()
    reader = client.channel("orders", "billing")
    assert len(reader.read(5.0)) == 1
    reader.close()
    with pytest.raises(ClosedError, match="comes again"):
        reader.commit()
    assert len(client.channel("orders", "billing").read(5.0)) == 1


@pytest.mark.parametrize(
    "opens",
    [
        lambda one: one.deliveries("orders"),
        lambda one: one.channel("orders", "g"),
        lambda one: one.consume("orders"),
    ],
)
def test_whoever_reads_what_is_closed_is_told(
    opens: Callable[[MeshClient], Deliveries | ChannelReader | QueueConsumer], mesh: Mesh
) -> None:
    """A loop of reads would go round for ever, and find nothing; iterating ends."""
    stream = opens(mesh.client("b"))
    assert not stream.read(0.0)
    stream.close()
    with pytest.raises(ClosedError, match="this reader is closed; open another one"):
        stream.read(0.0)
    assert list(stream) == []
    if isinstance(stream, Deliveries):
        with pytest.raises(ClosedError, match="closed"):
            stream.read_to_end(0.0)


def test_who_closes_while_iterating_gets_nothing_more(mesh: Mesh) -> None:
    """Not what had been read at once with the last message, either."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(9):
        client.publish("x", b"%d" % number, key=b"one")
    client.flush()
    mesh.pause(1.0)
    for stream in (client.deliveries("orders"), client.channel("orders", "g")):
        found = []
        for message in stream:
            found.append(message.payload)
            stream.close()
        assert found == [b"0"]


def streams() -> dict[str, Callable[[MeshClient], Deliveries | ChannelReader | QueueConsumer]]:
    """What an application receives by, by name."""
    return {
        "deliveries": lambda client: client.deliveries("orders"),
        "channel": lambda client: client.channel("orders", "g"),
        "consume": lambda client: client.consume("orders"),
    }


def payloads(found: Sequence[ReceivedMessage | QueueMessage]) -> list[bytes | None]:
    """Return what messages carry."""
    return [getattr(one, "message", one).payload for one in found]


@pytest.mark.parametrize("opens", streams())
def test_what_a_read_had_in_hand_when_ctrl_c_came_comes_again(opens: str, mesh: Mesh) -> None:
    """Whoever reads on would pass it over, and save that as done. Spec: K8."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    client.publish("x", b"1", key=b"one")
    client.flush()
    stream = streams()[opens](client)
    assert payloads(stream.read(5.0)) == [b"1"]
    if isinstance(stream, ChannelReader):
        stream.commit()
    for number in (b"2", b"3"):
        client.publish("x", number, key=b"one")
    client.flush()
    mesh.pause(1.0)
    source = stream._reading.source
    assert source is not None
    reads = source.read

    def is_interrupted(timeout_s: float, limit: int) -> Sequence[Record]:
        if reads(timeout_s, limit):
            raise KeyboardInterrupt
        return ()

    source.read = is_interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        stream.read(5.0)
    found: list[bytes | None] = []
    while len(found) < 2 or b"3" not in found:
        some = payloads(stream.read(20.0))
        assert some, found
        found += some
    again = [b"1"] if opens == "consume" else []  # that one was not acknowledged
    assert found == [*again, b"2", b"3"]


@pytest.mark.parametrize("opens", streams())
def test_a_fork_leaves_a_stream_to_the_process_that_made_it(
    opens: str, mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client library would wait there for ever for threads that are in the other one."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    client.publish("x", b"1")
    client.flush()
    stream = streams()[opens](client)
    assert payloads(stream.read(5.0)) == [b"1"]
    with monkeypatch.context() as forked:
        forked.setattr("os.getpid", lambda: -1)
        uses: list[Callable[[], object]] = [lambda: stream.read(1.0), lambda: next(iter(stream))]
        if not isinstance(stream, Deliveries):
            uses.append(stream.commit)
        for use in uses:
            with pytest.raises(ClosedError, match="forked; connect in it"):
                use()
        stream.close()
    client.publish("x", b"2")
    client.flush()
    assert payloads(stream.read(5.0)) == [b"2"]
    stream.close()
    assert stream.is_closed


@pytest.mark.parametrize("opens", streams())
def test_whoever_stops_iterating_and_begins_again_misses_nothing(opens: str, mesh: Mesh) -> None:
    """However many messages had come at once; of a channel the last one was not finished."""
    client = with_six_orders(mesh)
    mesh.pause(1.0)
    stream = streams()[opens](client)
    found = [one for _ in range(2) for one in payloads(list(islice(stream, 2)))]
    found += payloads(stream.read(5.0))
    again = (1, 2) if opens == "channel" else ()
    assert found == [b"%d" % number for number in sorted((*range(6), *again))]


def test_what_a_loop_failed_over_comes_again(mesh: Mesh) -> None:
    """It was passed over, and saved as done with the next one. Spec: K8."""
    client = with_six_orders(mesh)
    reader = client.channel("orders", "billing")
    found: list[bytes | None] = []

    def work() -> None:
        for message in reader:
            found.append(message.payload)
            if message.payload == b"5":
                return
            if found.count(message.payload) == 1 and message.payload in (b"1", b"3"):
                raise ValueError("not now")

    for _ in range(2):
        with pytest.raises(ValueError, match="not now"):
            work()
    work()
    assert found == [b"0", b"1", b"1", b"2", b"3", b"3", b"4", b"5"]
    reader.commit()  # whoever is content with the last one says so
    client.publish("x", b"6", key=b"one")
    client.flush()
    assert payloads(reader.read(5.0)) == [b"6"]


def test_what_a_loop_failed_over_is_not_saved(mesh: Mesh) -> None:
    """Another reader of the group gets it, although this one has read on."""
    client = with_six_orders(mesh)
    mesh.pause(1.0)
    reader = client.channel("orders", "billing")
    assert payloads(list(islice(reader, 1))) == [b"0"]
    assert payloads(reader.read(1.0)) == [b"%d" % number for number in range(6)]
    reader.close()
    assert payloads(client.channel("orders", "billing").read(5.0))[0] == b"0"


def test_what_was_read_before_a_read_to_the_end_failed_is_not_lost(mesh: Mesh) -> None:
    """The next one returns it."""
    client = mesh.client("b")
    client.wait(client.subscribe("orders", ">"))
    for number in range(3):
        client.publish("x", b"%d" % number, key=b"one")
    client.flush()
    mesh.pause(1.0)
    stream = client.deliveries("orders")
    takes, times = stream._take, iter(range(9))

    def take(reader: Reader, timeout_s: float) -> Sequence[ReceivedMessage]:
        if next(times):
            raise TransportError("messages were deleted before they were read")
        return takes(reader, timeout_s)[:1]

    stream._take = take  # type: ignore[method-assign]
    stream._is_before = lambda _ends: True  # type: ignore[method-assign]
    with pytest.raises(TransportError, match="deleted"):
        stream.read_to_end(5.0)
    assert payloads(stream.read(5.0)) == [b"0"]


@pytest.fixture
def silent_until(monkeypatch: pytest.MonkeyPatch, mesh: Mesh) -> Callable[[int], None]:
    """Have no broker save how far groups are before a moment."""
    commits = MemoryConsumer.commit

    def begin(until_ms: int) -> None:
        def commit(of: MemoryConsumer, positions: Mapping[TopicPartition, Passed]) -> None:
            if mesh.now_ms() < until_ms:
                raise TransportUnavailableError("commit in group g: Not coordinator")
            commits(of, positions)

        monkeypatch.setattr(MemoryConsumer, "commit", commit)

    return begin


def settled(
    stream: ChannelReader | QueueConsumer, mesh: Mesh, seconds: float = 2.0
) -> Iterator[ReceivedMessage | QueueMessage]:
    """Yield what an application has worked at for so long each, and settled."""
    for one in stream:
        mesh.pause(seconds)
        if isinstance(stream, QueueConsumer):
            assert isinstance(one, QueueMessage)
            assert stream.ack(one)
        yield one


@pytest.mark.parametrize("opens", ["channel", "consume"])
def test_whoever_iterates_outlives_an_outage(
    opens: str, mesh: Mesh, silent_until: Callable[[int], None]
) -> None:
    """A program would end over a position that is saved a moment later."""
    stream = streams()[opens](with_six_orders(mesh))
    assert not isinstance(stream, Deliveries)
    work = settled(stream, mesh)
    found = [next(work)]
    silent_until(mesh.now_ms() + 30_000)
    found += islice(work, 5)
    assert payloads(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    mesh.pause(30.0)
    stream.close()  # what is done is saved now


@pytest.mark.parametrize("opens", ["channel", "consume"])
def test_brokers_that_were_away_twice_were_there_in_between(
    opens: str, mesh: Mesh, silent_until: Callable[[int], None]
) -> None:
    """Who works at each message for longer than a minute tries as seldom."""
    stream = streams()[opens](with_six_orders(mesh))
    assert not isinstance(stream, Deliveries)
    work = settled(stream, mesh, 70.0)
    found = []
    for _ in range(6):
        found.append(next(work))
        silent_until(mesh.now_ms() + 1_000)
    assert payloads(found) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    mesh.pause(1.0)
    stream.close()


@pytest.mark.parametrize("seconds", [2.0, 70.0])
@pytest.mark.parametrize("opens", ["channel", "consume"])
def test_an_outage_without_end_ends_a_loop(
    opens: str, seconds: float, mesh: Mesh, silent_until: Callable[[int], None]
) -> None:
    client = with_six_orders(mesh)
    stream = streams()[opens](client)
    assert not isinstance(stream, Deliveries)
    work = settled(stream, mesh, seconds)
    next(work)
    begun_ms = mesh.now_ms()
    silent_until(begun_ms + 3_600_000)
    with pytest.raises(TransportUnavailableError, match="Not coordinator"):
        list(work)
    assert 60 <= (mesh.now_ms() - begun_ms) / 1000 < 80
    for payload in (b"6", b"7"):
        client.publish("x", payload, key=b"one")
    client.flush()
    silent_until(mesh.now_ms() + 30_000)
    assert len(list(islice(settled(stream, mesh), 2))) == 2  # another loop has its own minute
