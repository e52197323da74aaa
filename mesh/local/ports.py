"""Free TCP ports on the loopback address."""

from __future__ import annotations

import random
import socket

from mesh.errors import StartError

LOOPBACK = "127.0.0.1"
# Below the range from which Linux takes ports of outgoing connections (32768 up), so that no
# connection can sit on a broker's port while the broker is down for a restart.
_FIRST, _LAST = 20_000, 29_999
_TRIES_MAX = 200

_handed_out: set[int] = set()


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except (OSError, OverflowError):
            return False
    return True


def free_port() -> int:
    """Return a port that was free a moment ago and that this process has not handed out before.

    Another process may still take it first: whoever binds it retries with a new one.

    Raises:
        StartError: No port of the range is free.
    """
    for _ in range(_TRIES_MAX):
        port = random.randint(_FIRST, _LAST)
        if port not in _handed_out and is_free(port):
            _handed_out.add(port)
            return port
    raise StartError(f"no free port between {_FIRST} and {_LAST} on {LOOPBACK}: stop some servers")
