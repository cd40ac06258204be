"""Ports on which nobody listens, for servers that a test starts.

The system gives out one that was just let go of again, to the next who asks or to somebody's connection. So these are
from below the range out of which it takes ports for connections, and each is handed out once.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from random import SystemRandom
from typing import Final

_RANGE: Final = (10_000, 30_000)
_given: Final[set[int]] = set()


def free_port(host: str = "127.0.0.1") -> int:
    while True:
        # By chance, because the processes of one test run do not know of each other.
        port = SystemRandom().randrange(*_RANGE)
        if port not in _given and _is_free(host, port):
            _given.add(port)
            return port


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    return [free_port(host) for _ in range(count)]


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe, suppress(OSError):
        probe.bind((host, port))
        return True
    return False
