"""Where the servers of a run live, by address. On loopback every server sees the others at addresses of its own.

`s2` is 127.net.1.2 to server 1, and 127.net.3.2 to server 3: at each a proxy listens, so that the run knows who
dials whom, while the lines of the membership are the same everywhere and go from server to server as they are. To
itself a server is 127.net.0.sid; there it listens.
"""

from __future__ import annotations

import socket
from typing import Final, Protocol

from zab.core.ensemble import Role, Server
from zab.core.zxid import ServerId

QUORUM_PORT: Final = 21_888
ELECTION_PORT: Final = 23_888
CLIENT_PORT: Final = 22_181
ADMIN_PORT: Final = 28_080
"""Below the ports that the system gives away by itself."""

_NETS: Final = range(64, 255)
_CLAIM: Final = ("254.254", 21_000)


def name_of(sid: int) -> str:
    return f"s{sid}"


class Places(Protocol):
    def own(self, sid: int) -> str:
        """Where this server listens."""
        ...

    def seen(self, by: int, sid: int) -> str | None:
        """Where a proxy listens that leads from one server to the other; None where there is none."""
        ...

    def names(self, sid: int, servers: range) -> dict[str, str]:
        """As this server is to find the others, and itself."""
        ...

    def command(self, sid: int) -> list[str]:
        """What stands in front of the command that starts this server."""
        ...

    def close(self) -> None: ...


class Loopback:
    """A part of 127.0.0.0/8 that no other run on this machine has."""

    def __init__(self) -> None:
        for net in _NETS:
            claim = socket.socket()
            try:
                claim.bind((f"127.{net}.{_CLAIM[0]}", _CLAIM[1]))
            except OSError:
                claim.close()
                continue
            self.net, self._claim = net, claim
            return
        raise OSError("no part of 127.0.0.0/8 is free: so many runs at a time?")

    def own(self, sid: int) -> str:
        return f"127.{self.net}.0.{sid}"

    def seen(self, by: int, sid: int) -> str:
        return f"127.{self.net}.{by}.{sid}"

    def names(self, sid: int, servers: range) -> dict[str, str]:
        return {name_of(each): self.own(each) if each == sid else self.seen(sid, each) for each in servers}

    def command(self, sid: int) -> list[str]:
        return []

    def close(self) -> None:
        self._claim.close()


def member(places: Places, sid: int, role: Role = Role.PARTICIPANT) -> Server:
    """Its line in the membership."""
    return Server(ServerId(sid), name_of(sid), QUORUM_PORT, ELECTION_PORT, role, places.own(sid), CLIENT_PORT)
