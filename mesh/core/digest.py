"""The order-free digest that lets a reader prove that it holds a scope. Spec: K23."""

from __future__ import annotations

from hashlib import blake2b

from mesh.model.control import Interest

MODULUS = 1 << 64


def entry_digest(filter_: str, interest: Interest) -> int:
    """Return the 64-bit hash of one entry; a scope's digest is their sum modulo 2^64."""
    offset = "" if interest.clients_offset is None else interest.clients_offset
    text = f"{filter_}\0{interest.durable:d}{interest.live:d}{interest.static:d}{offset}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
