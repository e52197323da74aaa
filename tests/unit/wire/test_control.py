"""Control and state records: what is refused, and in which words."""

import tracemalloc
from contextlib import suppress

import pytest

from mesh.errors import (
    DecodeError,
    LocalProtocolError,
    RemoteProtocolError,
    UnknownVersionError,
)
from mesh.model.control import (
    EndpointKind,
    Heartbeat,
    Identity,
    Mark,
    RepairRequest,
    Subscription,
    TreeStatus,
)
from mesh.model.demands import QueueDemand
from mesh.model.frames import MessageClass
from mesh.wire import control
from mesh.wire.control import (
    decode_config,
    decode_learned,
    decode_mark,
    decode_subscription,
    encode_config,
    encode_identity,
    encode_learned,
    encode_mark,
    encode_repair_request,
    encode_subscription,
)
from mesh.wire.state import decode_dead_letter
from tests.unit.wire.vector_cases import CONTROL, STATE, Vector

RECORDS = CONTROL + STATE
every_record = pytest.mark.parametrize("vector", RECORDS, ids=lambda vector: vector.name)


@every_record
def test_another_major_version_is_refused_by_name(vector: Vector) -> None:
    """The text names the record, its version and ours, whatever follows the version."""
    with pytest.raises(UnknownVersionError, match=f"{vector.schema}: version 2 .*version 1"):
        vector.decode(b"\x04\xff\xff")


def test_what_is_nested_without_end_is_refused_like_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """JSON in `ext` of a heartbeat: whoever looks at a mesh reads it as well as nodes do."""
    monkeypatch.setattr(control, "_beat_ext", lambda _: {"beat.trees": b"[" * 100_000})
    data = control.encode_heartbeat(Heartbeat(1, 1, ready=True))
    with pytest.raises(DecodeError, match="heartbeat: not a record of version 1"):
        control.decode_heartbeat(data)


@pytest.mark.parametrize("trees", [None, TreeStatus((), 0), TreeStatus(("a", "b"), 2, "5-0f")])
def test_a_heartbeat_tells_how_the_tree_layer_is(trees: TreeStatus | None) -> None:
    beat = Heartbeat(1, 1, ready=True, colour="7-1a" if trees else "", trees=trees)
    assert control.decode_heartbeat(control.encode_heartbeat(beat)) == beat


@every_record
def test_no_byte_may_be_missing_or_left_over(vector: Vector) -> None:
    """Every cut record is refused, and so is every one that goes on."""
    data = vector.write()
    for end in range(len(data)):
        with pytest.raises(DecodeError):
            vector.decode(data[:end])
    with pytest.raises(DecodeError, match="1 bytes too many"):
        vector.decode(data + b"\x00")


@every_record
def test_damage_never_leads_to_another_exception(vector: Vector) -> None:
    """Whatever one byte becomes, the record is read or refused."""
    data = vector.write()
    for at in range(len(data)):
        for byte in (0, 1, 2, 0x7F, 0x80, 0xFF):
            with suppress(RemoteProtocolError):
                vector.decode(data[:at] + bytes((byte,)) + data[at + 1 :])


def test_an_empty_record_is_refused() -> None:
    """A tombstone is the caller's to see; no bytes are no record."""
    with pytest.raises(DecodeError, match="mark: the record is empty"):
        decode_mark(b"")


@pytest.mark.parametrize("digest", [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_digests_of_64_bits_come_back(digest: int) -> None:
    """Avro's long is signed, the digest is not."""
    mark = Mark(1, 2, 3, digest)
    assert decode_mark(encode_mark(mark)) == mark


def test_values_that_do_not_fit_are_our_own_fault() -> None:
    """A topic id of the wrong size, or a number too large, never reaches the wire."""
    with pytest.raises(LocalProtocolError, match="repair_request"):
        encode_repair_request(RepairRequest("outbox", 0, b"short", 0, 0))
    with pytest.raises(LocalProtocolError, match="identity"):
        encode_identity(Identity(node="a", uuid="u", epoch=1 << 64, cluster_id="c", lanes=1))


def test_learned_and_config_are_read_as_tuples() -> None:
    """Both have names as well as places."""
    assert decode_learned(encode_learned(1, 2, ["a/>", "b"])) == (1, 2, ("a/>", "b"))
    config = decode_config(encode_config(7, "{}"))
    assert (config.number, config.topology) == (7, "{}")


def test_a_dead_letter_without_a_topic_id_is_read() -> None:
    """The union's null is a value."""
    [letter] = [vector for vector in STATE if vector.name == "dead_letter"]
    data = letter.write().replace(
        b"\x02" + bytes.fromhex("00112233445566778899aabbccddeeff"), b"\0"
    )
    assert decode_dead_letter(data).topic_id is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{}", Subscription()),
        (' {"version": 1}\n', Subscription()),
        ('{"class": "direct"}', Subscription(message_class=MessageClass.DIRECT)),
        (
            '{"kind": "queue", "policy": "any", "lease_s": 30}',
            Subscription(EndpointKind.QUEUE, MessageClass.GUARANTEED, "any", 30),
        ),
        ('{"policy": null, "lease_s": null}', Subscription()),
        ('{"noexport": true}', Subscription(noexport=True)),
        ('{"noexport": false, "class": "direct"}', Subscription(message_class=MessageClass.DIRECT)),
    ],
)
def test_subscriptions_in_json_default_what_they_leave_out(
    text: str, expected: Subscription
) -> None:
    """One line of kcat is a subscription."""
    assert decode_subscription(text.encode()) == expected
    assert decode_subscription(encode_subscription(expected)) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            '{"clas": "direct"}',
            'unknown key "clas"; known are kind, class, policy, lease_s, noexport',
        ),
        ('{"class": "fast"}', 'class must be one of guaranteed, direct, not "fast"'),
        ('{"class": ["direct"]}', "class must be one of"),
        ('{"kind": null}', "kind must be one of channel, queue, not null"),
        ('{"kind": "queue", "policy": "most"}', "policy must be one of every, local, home, any"),
        ('{"policy": "any"}', "policy is for queues"),
        ('{"noexport": "yes"}', 'noexport must be true or false, not "yes"'),
        ('{"noexport": 1}', "noexport must be true or false, not 1"),
        ('{"lease_s": 0}', "lease_s must be a whole number"),
        ('{"lease_s": true}', "lease_s must be a whole number"),
        ('{"lease_s": 1.5}', "lease_s must be a whole number"),
        ('{"lease_s": 4000000000}', "lease_s must be a whole number"),
        ('{"lease_s": -5}', "lease_s must be a whole number"),
        ('{"lease_s": 1e400}', "lease_s must be a whole number"),
        ('{"lease_s": ' + "1" * 5_000 + "}", ""),
        ('{"kind": "queue", "kind": "queue"}', "a key stands there twice"),
        ('{"kind": "queue"', "Expecting"),
        ("{} {}", "Extra data"),
        ('{"kind": "\\ud800"}', "kind must be one of"),
        ("{" + '"kind":{' * 100_000, ""),
    ],
)
def test_subscriptions_in_json_are_refused_with_the_reason(text: str, complaint: str) -> None:
    """Unknown keys and values are never passed over: a typing error would subscribe wrongly."""
    with pytest.raises(DecodeError) as caught:
        decode_subscription(text.encode())
    assert complaint in str(caught.value)


def test_json_of_another_version_or_code_is_refused() -> None:
    """The version counts in JSON too; bytes that are not UTF-8 are not JSON."""
    with pytest.raises(UnknownVersionError, match="version 2"):
        decode_subscription(b'{"version": 2, "kind": "queue"}')
    with pytest.raises(DecodeError):
        decode_subscription(b'{"kind": "\xff"}')


def test_subscriptions_that_are_mostly_spaces_fill_no_memory() -> None:
    """A stranger may write hundreds of them: what they say is known, and nothing else is kept."""
    tracemalloc.start()
    try:
        for number in range(300):
            decode_subscription(b"{%b}" % (b" " * (100_000 + number)))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


def test_subscriptions_in_avro_are_checked_as_those_in_json() -> None:
    """The wire's strings hold the same few words, whoever wrote them."""
    data = encode_subscription(Subscription(EndpointKind.QUEUE, policy="home"))
    with pytest.raises(DecodeError, match="policy must be one of"):
        decode_subscription(data.replace(b"home", b"hole"))
    with pytest.raises(DecodeError, match="class must be one of"):
        decode_subscription(data.replace(b"guaranteed", b"garanteedd"))


@pytest.mark.parametrize("epoch", [-1, 1 << 31, (1 << 63) - 1])
def test_an_epoch_that_no_node_comes_to_is_refused(epoch: int) -> None:
    """The next leader takes a greater one: with no room for it every worker of the node ended."""
    said = [
        (control.decode_mark, control.encode_mark(Mark(epoch, 1, 0, 0))),
        (control.decode_heartbeat, control.encode_heartbeat(Heartbeat(epoch, 1, ready=True))),
        (
            control.decode_identity,
            encode_identity(Identity(node="a", uuid="u", epoch=epoch, cluster_id="c", lanes=1)),
        ),
    ]
    for decode, data in said:
        with pytest.raises(DecodeError, match="no epoch"):
            decode(data)


@pytest.mark.parametrize(
    "demand",
    [
        QueueDemand("q" * 100_000, "a", 1, 1, 1),
        QueueDemand("q", "a b", 1, 1, 1),
        QueueDemand("q", "a", 1, 1, 10**500),
        QueueDemand("q", "a", -1, 1, 1),
    ],
)
def test_a_demand_that_would_burst_the_heartbeats_of_others_is_refused(demand: QueueDemand) -> None:
    """Whoever hears it tells it too: its neighbours' beats fitted in no record any more."""
    data = control.encode_heartbeat(Heartbeat(1, 1, ready=True, queues=(demand,)))
    with pytest.raises(DecodeError):
        control.decode_heartbeat(data)
