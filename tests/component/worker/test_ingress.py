"""What clients publish: carried untouched, or refused with a reason and nothing behind it lost."""

from __future__ import annotations

import pytest

from mesh.model.frames import MessageClass
from mesh.model.record_headers import MESH_HEADER, SUBJECT_HEADER
from mesh.wire.deliveries import decode_delivery
from mesh.wire.state import decode_dead_letter, decode_ledger
from tests.component.worker.conftest import SmallMesh, subject


def test_everything_of_the_client_travels_untouched(mesh: SmallMesh) -> None:
    """Spec: K7, K8."""
    own = [("trace", b"1"), ("trace", b"2"), ("empty", None)]
    mesh.publish(b"payload", [*own, subject("x/y")], key=b"key", timestamp=12345)
    mesh.publish(None, [subject("x/y")], key=None)
    mesh.run()
    first, second = mesh.delivered()
    assert (first.key(), first.value(), first.timestamp()[1]) == (b"key", b"payload", 12345)
    assert first.headers()[:-1] == [*own, (SUBJECT_HEADER, b"x/y")]
    name, content = first.headers()[-1]
    delivery = decode_delivery(content)
    assert (name, delivery.path, delivery.offset) == (MESH_HEADER, ("a", "b", "c"), 0)
    assert (second.key(), second.value()) == (None, None)


def test_what_a_client_writes_twice_are_two_messages(mesh: SmallMesh) -> None:
    """Only the client knows that one repeats the other: no content and no key tells. Spec: K9."""
    for _ in range(2):
        mesh.publish(b"again", [subject("x")], key=b"key", timestamp=12345)
    mesh.run()
    told = [decode_delivery(record.headers()[-1][1]) for record in mesh.delivered()]
    assert [one.offset for one in told] == [0, 1]


def test_who_has_no_clock_publishes_as_of_1970(mesh: SmallMesh) -> None:
    """A create time of 0 is none to the client library, which would say now. Spec: G3."""
    for number in range(3):
        mesh.publish(b"%d" % number, [subject("x/y")], timestamp=7)
    logs = mesh.kafka.topics[mesh.names.ingress("a", MessageClass.GUARANTEED)].logs
    written = [one for log in logs for one in log.entries if one is not None]
    for at_ms, record in zip((0, -1, 1), written, strict=True):
        record._timestamp = (1, at_ms)
    mesh.run()
    assert sorted(one.timestamp()[1] for one in mesh.delivered()) == [-1, 1, 1]


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ([], "NO_SUBJECT"),
        ([subject("a"), subject("b")], "NO_SUBJECT"),
        ([(SUBJECT_HEADER, None)], "NO_SUBJECT"),
        ([(SUBJECT_HEADER, b"\xff")], "INVALID_SUBJECT"),
        ([subject("")], "INVALID_SUBJECT"),
        ([subject("a//b")], "INVALID_SUBJECT"),
        ([subject("a/*")], "INVALID_SUBJECT"),
        ([subject("$node/x")], "INVALID_SUBJECT"),
        ([subject("/".join("x" * 17))], "INVALID_SUBJECT"),
    ],
)
def test_a_record_without_a_valid_subject_is_a_dead_letter(
    mesh: SmallMesh, headers: list[tuple[str, bytes | None]], reason: str
) -> None:
    """Spec: K7."""
    mesh.publish(b"bad", headers)
    mesh.publish(b"good", [subject("x")])
    mesh.run()
    [letter] = mesh.dead_letters()
    why = decode_dead_letter(letter.headers()[-1][1])
    assert (why.reason, why.offset, letter.value()) == (reason, 0, b"bad")
    assert [record.value() for record in mesh.delivered()] == [b"good"]


def test_an_oversized_message_is_refused_at_ingress_with_its_full_size(mesh: SmallMesh) -> None:
    """Spec: K6, R13."""
    mesh.publish(b"x" * 10_001, [subject("x")])
    mesh.publish(b"x" * 9_000, [subject("x")])
    mesh.run()
    [letter] = mesh.dead_letters()
    why = decode_dead_letter(letter.headers()[-1][1])
    assert (why.reason, why.value_size) == ("TOO_LARGE", 10_001)
    assert [len(record.value()) for record in mesh.delivered()] == [9_000]


def test_headers_count_towards_the_size_however_many_there_are(mesh: SmallMesh) -> None:
    """They have no limit of their own: a thousand travel where there is room. Spec: R13."""
    for count in (1_000, 2_000):
        mesh.publish(b"v", [*((f"h{at:04}", b"1") for at in range(count)), subject("x")])
    mesh.run()
    [record] = mesh.delivered()
    own = [name for name, _ in record.headers() if name not in (SUBJECT_HEADER, MESH_HEADER)]
    assert own == [f"h{at:04}" for at in range(1_000)]
    [letter] = mesh.dead_letters()
    assert decode_dead_letter(letter.headers()[-1][1]).reason == "TOO_LARGE"


def test_forged_mesh_headers_are_removed_and_counted(mesh: SmallMesh) -> None:
    """Spec: K7, K-11 of scenarios.md, R11."""
    mesh.publish(b"v", [("mesh", b"forged"), ("mesh-origin", b"x"), ("own", b"1"), subject("x")])
    mesh.run()
    [record] = mesh.delivered()
    assert [name for name, _ in record.headers()] == ["own", SUBJECT_HEADER, MESH_HEADER]
    dropped = [
        drop
        for ledger in mesh.read(mesh.names.ledger("a"))
        for drop in decode_ledger(ledger.value()).dropped
    ]
    assert [(drop.reason, drop.messages) for drop in dropped] == [("header_forged", 2)]


def test_many_large_messages_are_cut_into_frames_in_order(mesh: SmallMesh) -> None:
    """Spec: K6: frames close at 256 kB."""
    for index in range(90):
        mesh.publish(b"%d" % index + b"x" * 8_000, [subject(f"x/{index % 3}")])
    mesh.run()
    assert [int(r.value().rstrip(b"x")) for r in mesh.delivered()] == list(range(90))
    assert len(mesh.read("mesh.a.to.b.g")) >= 3


def test_long_subjects_count_towards_the_frame(mesh: SmallMesh) -> None:
    """Spec: K6: key and value of a frame fit what the topics of the mesh allow."""
    subjects = [f"{index}/" + "y" * 240 for index in range(400)]
    for text in subjects:
        mesh.publish(b"", [subject(text)])
    mesh.run()
    found = [dict(record.headers())[SUBJECT_HEADER].decode() for record in mesh.delivered()]
    assert found == subjects
