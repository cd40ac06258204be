"""Find free ports for the servers of tests and benchmarks.

The ports are below the range from which the system takes ports for outgoing connections, so a server that is killed
finds its own again. A process claims each port in a file that all processes share, so no port is handed out twice.
"""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import SystemRandom
from typing import Final

_RANGE: Final = (10_000, 31_300)
_OF_THE_HARNESS: Final = frozenset((21_000, 21_888, 22_092, 22_093, 22_094, 22_181, 23_888, 28_080))
"""Its servers listen there at other addresses of this machine: in the way of who listens at all of them."""
_given: Final[set[int]] = set()


def free_port(host: str = "127.0.0.1") -> int:
    return free_base(0, host=host)


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    return [free_port(host) for _ in range(count)]


def free_base(*offsets: int, host: str = "127.0.0.1") -> int:
    """A number of which the sum with each of these is a free port."""
    while True:
        base = SystemRandom().randrange(_RANGE[0], _RANGE[1] - max(offsets))
        ports = {base + offset for offset in offsets}
        if ports.isdisjoint(_given | _OF_THE_HARNESS) and all(
            _is_claimed(port) and _is_free(host, port) for port in ports
        ):
            _given.update(ports)
            return base


def _is_claimed(port: int) -> bool:
    """Lock the port's byte until this process ends. Return False if another process holds it."""
    with suppress(OSError):
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        return True
    return False


@cache
def _claims() -> int:
    return os.open(Path(tempfile.gettempdir(), f"zab-test-ports-{os.getuid()}"), os.O_RDWR | os.O_CREAT, 0o600)


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe, suppress(OSError):
        probe.bind((host, port))
        return True
    return False
