"""Announcements of losses: what endpoints say is what frames said."""

from __future__ import annotations

import json

import pytest

from mesh.errors import DecodeError
from mesh.model.frames import Origin, SourcePartition
from mesh.wire.announcements import (
    announcement_ext,
    decode_announcement,
    encode_announcement,
    is_announcement,
    loss_of,
)

ORIGIN = Origin(
    node="a",
    source=SourcePartition(bytes(15) + b"\x01", 3),
    generation=2,
    first=5,
    last=9,
    count=0,
    subjects=(),
)


@pytest.mark.parametrize(("is_open", "last"), [(False, "9"), (True, "null")])
def test_an_endpoint_is_told_what_the_frame_said(is_open: bool, last: str) -> None:
    """Spec: K10, DESIGN 6."""
    loss = loss_of(ORIGIN, announcement_ext("mesh.a.in.g", "truncated", is_open=is_open), ["a"])
    header = encode_announcement(loss)
    assert header == (
        "mesh-gap",
        f'{{"first": 5, "generation": 2, "last": {last}, "node": "a", "partition": 3, '
        '"path": ["a"], "reason": "truncated", "topic": "mesh.a.in.g", '
        f'"topic_id": "{"0" * 31}1"}}'.encode(),
    )
    assert is_announcement([header])
    assert decode_announcement([header]) == loss
    later = json.dumps({**json.loads(header[1] or b""), "later": 1}).encode()
    assert decode_announcement([("mesh-gap", later)]) == loss


@pytest.mark.parametrize("value", [None, b"", b"[]", b"{}", b'{"path": 3}', b"\xff", b"[" * 9_999])
def test_what_a_stranger_wrote_is_no_announcement(value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        decode_announcement([("mesh-gap", value)])


def test_a_message_announces_nothing() -> None:
    assert not is_announcement([("mesh", b""), ("mesh-gap", b"{}")])
    assert not is_announcement([])
