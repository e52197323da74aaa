"""Avro's variable-length numbers: zigzag, seven bits a byte, lowest first.

Almost every number in a frame is small, so the small ones are looked up and never computed.
"""

from __future__ import annotations

from mesh.errors import DecodeError, LocalProtocolError

_GROUP = 1 << 14
_SHIFTS = tuple(range(0, 70, 7))
_LONG_MIN = -(1 << 63)
_LONG_MAX = (1 << 63) - 1

_LAST = [bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7)) for n in range(_GROUP)]
#: The two lowest bytes of a number that has more, by its lowest 14 bits.
MORE = [bytes((n & 127 | 128, n >> 7 | 128)) for n in range(_GROUP)]

#: Zigzag bytes of -8192..8191; KeyError for the rest. Not a list: there a number too large for
#: the table would, counted from the other end, be another number's bytes.
SMALL = {n: _LAST[(n << 1) ^ (n >> 63)] for n in range(-_GROUP // 2, _GROUP // 2)}


def zigzag(number: int) -> bytes:
    """Return the number as an Avro long.

    Raises:
        LocalProtocolError: It does not fit into 64 bits.
    """
    if -8192 <= number < 8192:
        return SMALL[number]
    if not _LONG_MIN <= number <= _LONG_MAX:
        raise LocalProtocolError(f"{number} does not fit into a 64-bit number")
    number = (number << 1) ^ (number >> 63)
    more = MORE[number & (_GROUP - 1)]
    number >>= 14
    while number >= _GROUP:
        more += MORE[number & (_GROUP - 1)]
        number >>= 14
    return more + _LAST[number]


def read_zigzag(buffer: bytes, position: int) -> tuple[int, int]:
    """Read an Avro long at a position that is not negative.

    Returns:
        The number, and the position after it.

    Raises:
        DecodeError: The bytes end inside the number, or it has more than 64 bits.
    """
    try:
        number = buffer[position]
        if number < 128:
            return (number >> 1) ^ -(number & 1), position + 1
        # A byte below 128 is the last. Taking 1 from the next one takes away the mark of the
        # one before, so that the sum stays below the limit exactly if that next one is last.
        number += (buffer[position + 1] - 1) << 7
        if number < 1 << 14:
            return (number >> 1) ^ -(number & 1), position + 2
        number += (buffer[position + 2] - 1) << 14
        if number < 1 << 21:
            return (number >> 1) ^ -(number & 1), position + 3
        number += (buffer[position + 3] - 1) << 21
        if number < 1 << 28:
            return (number >> 1) ^ -(number & 1), position + 4
    except IndexError:
        raise DecodeError(f"the bytes end inside a number, at byte {position}") from None
    number, end = read_unsigned(buffer, position)
    return (number >> 1) ^ -(number & 1), end


def read_unsigned(buffer: bytes, position: int) -> tuple[int, int]:
    """Read the bits of an Avro long as they are, before zigzag is undone.

    Returns:
        The number, and the position after it.

    Raises:
        DecodeError: The bytes end inside the number, or it has more than 64 bits.
    """
    number = 0
    end = position
    for shift in _SHIFTS:
        if end >= len(buffer):
            raise DecodeError(f"the bytes end inside a number, at byte {position}")
        byte = buffer[end]
        end += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
    else:
        raise DecodeError(f"a number of more than ten bytes at byte {position}")
    if number >> 64:
        raise DecodeError(f"a number of more than 64 bits at byte {position}")
    return number, end
