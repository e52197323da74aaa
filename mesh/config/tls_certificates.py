"""When TLS certificates end, of which brokers say nothing before it is too late.

Read as X.509 has it (RFC 5280, 4.1): of the encoding as much as leads to one field.
"""

from __future__ import annotations

import calendar
import re
import ssl
import time

_BLOCK = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_VERSION, _UTC_TIME = 0xA0, 0x17
_CENTURY_TURNS = 50
"""A year of two digits from here on is of the twentieth century. Source: RFC 5280, 4.1.2.5.1."""


def end_s(pem: str) -> float:
    """Return when the first of some certificates ends, in seconds since 1970.

    Raises:
        ValueError: It is no certificate in PEM.
    """
    ends = [_not_after(ssl.PEM_cert_to_DER_cert(block)) for block in _BLOCK.findall(pem)]
    if not ends:
        raise ValueError("no certificate in PEM")
    return min(ends)


def _not_after(der: bytes) -> float:
    try:
        _, certificate, _ = _element(der, 0)
        _, at, _ = _element(der, certificate)
        tag, _, after = _element(der, at)
        at = after if tag == _VERSION else at
        for _ in range(3):  # serial number, algorithm, issuer
            _, _, at = _element(der, at)
        _, not_before, _ = _element(der, at)
        _, _, at = _element(der, not_before)
        tag, begin, end = _element(der, at)
        text = der[begin:end].decode("ascii")
        if tag == _UTC_TIME:
            text = f"{19 if int(text[:2]) >= _CENTURY_TURNS else 20}{text}"
        return float(calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ")))
    except (IndexError, UnicodeDecodeError) as error:
        raise ValueError("no certificate as X.509 has it") from error


def _element(der: bytes, at: int) -> tuple[int, int, int]:
    """Return tag, begin and end of the content of an element that begins there."""
    tag, length = der[at], der[at + 1]
    begin = at + 2
    if length & 0x80:
        count = length & 0x7F
        length = int.from_bytes(der[begin : begin + count], "big")
        begin += count
    return tag, begin, begin + length
