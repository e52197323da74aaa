"""The topologies of a source: an array of (domain, number) in a frame's key. Spec: K10.

Nearly every frame has one entry, so that is read without a loop; the bytes of one era recur in
millions of frames, so they are encoded and decoded once.
"""

from __future__ import annotations

from functools import lru_cache

from mesh.errors import DecodeError, LocalProtocolError
from mesh.model.frames import Era
from mesh.wire.blocks import each_block
from mesh.wire.varint import read_zigzag, zigzag

_DOMAIN_SIZE = 8
_LEAST = _DOMAIN_SIZE + 1
_ONE = zigzag(1)
_END = b"\x00"
_SMALLEST = len(_ONE) + _LEAST + len(_END)


@lru_cache(maxsize=4_096)
def encode_eras(eras: tuple[Era, ...]) -> bytes:
    """Return the bytes of a frame's eras.

    Raises:
        LocalProtocolError: A domain does not have 8 bytes, or a number has more than 64 bits.
    """
    if not eras:
        return _END
    pieces = [zigzag(len(eras))]
    for era in eras:
        if len(era.domain) != _DOMAIN_SIZE:
            raise LocalProtocolError(f"a domain has {_DOMAIN_SIZE} bytes, not {len(era.domain)}")
        pieces += (era.domain, zigzag(era.number))
    return b"".join((*pieces, _END))


@lru_cache(maxsize=4_096)
def decode_eras(data: bytes) -> tuple[Era, ...]:
    """Return the eras of a frame from their bytes, one per domain.

    Raises:
        DecodeError: The bytes are no such array, or contain a domain twice.
    """
    eras: list[Era] = []

    def step(at: int, count: int) -> int:
        for _ in range(count):
            domain = data[at : at + _DOMAIN_SIZE]
            if len(domain) != _DOMAIN_SIZE:
                raise DecodeError(f"a domain at byte {at} has {_DOMAIN_SIZE} bytes")
            number, at = read_zigzag(data, at + _DOMAIN_SIZE)
            eras.append(Era(domain, number))
        return at

    end = each_block(data, 0, _LEAST, step)
    if end != len(data):
        raise DecodeError(f"{len(data) - end} bytes follow the eras")
    if len({era.domain for era in eras}) != len(eras):
        raise DecodeError("a frame with two eras of one domain")
    return tuple(eras)


def skip_eras(key: bytes, position: int) -> int:
    """Return the position after the eras, unread.

    Raises:
        DecodeError: They go past the end, or a count does not fit.
    """
    usual = position + _SMALLEST
    has_one = key[position : position + 1] == _ONE and key[usual - 1 : usual] == _END
    if has_one and key[usual - 2] < 128:
        return usual

    def step(at: int, count: int) -> int:
        for _ in range(count):
            if at + _DOMAIN_SIZE > len(key):
                raise DecodeError(f"a domain at byte {at} has {_DOMAIN_SIZE} bytes")
            _, at = read_zigzag(key, at + _DOMAIN_SIZE)
        return at

    return each_block(key, position, _LEAST, step)
