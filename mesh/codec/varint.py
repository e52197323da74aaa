"""Avro's variable-length numbers: zigzag, seven bits a byte, lowest first.

Almost every number in a frame is small, so the small ones are looked up and never computed.
"""

from __future__ import annotations

from mesh.errors import DecodeError, LocalProtocolError

_GROUP = 1 << 14
_SHIFTS = tuple(range(7, 70, 7))
_LONG_MIN = -(1 << 63)
_LONG_MAX = (1 << 63) - 1

_LAST = [bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(_GROUP)]
_MORE = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(_GROUP)]

#: Zigzag bytes of -8192..8191. Python's negative indexes serve the negative numbers, so
#: ``SMALL[n]`` is right for all of them and raises IndexError for the rest.
SMALL = [_LAST[2 * n] for n in range(_GROUP // 2)] + [
    _LAST[-2 * n - 1] for n in range(-_GROUP // 2, 0)
]


def _unsigned(number: int) -> bytes:
    if number < _GROUP:
        return _LAST[number]
    return _MORE[number & (_GROUP - 1)] + _unsigned(number >> 14)


def zigzag(number: int) -> bytes:
    """Return the number as an Avro long.

    Raises:
        LocalProtocolError: It does not fit into 64 bits.
    """
    try:
        return SMALL[number]
    except IndexError:
        if not _LONG_MIN <= number <= _LONG_MAX:
            raise LocalProtocolError(f"{number} does not fit into a 64-bit number") from None
        return _unsigned((number << 1) ^ (number >> 63))


def read_zigzag(buffer: bytes, position: int) -> tuple[int, int]:
    """Read an Avro long at a position that is not negative.

    Returns:
        The number, and the position after it.

    Raises:
        DecodeError: The bytes end inside the number, or it has more than 64 bits.
    """
    try:
        byte = buffer[position]
        if byte < 128:
            return (byte >> 1) ^ -(byte & 1), position + 1
        number = byte & 127
        for end, shift in enumerate(_SHIFTS, position + 1):
            byte = buffer[end]
            number |= (byte & 127) << shift
            if byte < 128:
                break
    except IndexError:
        raise DecodeError(f"the bytes end inside a number, at byte {position}") from None
    if byte > 127 or number >> 64:
        raise DecodeError(f"a number of more than 64 bits at byte {position}")
    return (number >> 1) ^ -(number & 1), end + 1
