"""The order-free digest that lets a reader prove that it holds a scope. Spec: K23."""

from __future__ import annotations

from hashlib import blake2b

from mesh.model.control import Wish

MODULUS = 1 << 64


def entry_digest(filter_: str, wish: Wish) -> int:
    """Return the 64-bit hash of one entry; a scope's digest is their sum modulo 2^64."""
    offset = "" if wish.clients_offset is None else wish.clients_offset
    text = f"{filter_}\0{wish.durable:d}{wish.live:d}{wish.static:d}{offset}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
