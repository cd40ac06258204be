"""The addresses of the servers of a run. On loopback, every server reaches each other server at a separate address.

The name `s2` resolves to 127.net.1.2 for server 1, and to 127.net.3.2 for server 3. A proxy listens at each, so that
the run can distinguish links, while all servers have the same membership. Server `sid` itself listens at 127.net.0.sid.
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
"""The ports of servers, which are below the ephemeral ports."""

_NETS: Final = range(64, 255)
_CLAIM: Final = ("254.254", 21_000)


def name_of(sid: int) -> str:
    return f"s{sid}"


class Addresses(Protocol):
    def own(self, sid: int) -> str:
        """Return the address at which this server listens."""
        ...

    def proxy_address(self, by: int, sid: int) -> str | None:
        """Return the address of the proxy from server `by` to server `sid`; None if there is no proxy."""
        ...

    def names(self, sid: int, servers: range) -> dict[str, str]:
        """Return the addresses of all servers, itself included, for this server."""
        ...

    def command(self, sid: int) -> list[str]:
        """Return the prefix of the command that starts this server."""
        ...

    def close(self) -> None: ...


class Loopback:
    """A part of 127.0.0.0/8 that no other run on this machine uses."""

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
        raise OSError("no part of 127.0.0.0/8 is free: too many runs at a time?")

    def own(self, sid: int) -> str:
        return f"127.{self.net}.0.{sid}"

    def proxy_address(self, by: int, sid: int) -> str:
        return f"127.{self.net}.{by}.{sid}"

    def names(self, sid: int, servers: range) -> dict[str, str]:
        return {name_of(each): self.own(each) if each == sid else self.proxy_address(sid, each) for each in servers}

    def command(self, sid: int) -> list[str]:
        return []

    def close(self) -> None:
        self._claim.close()


def member(addresses: Addresses, sid: int, role: Role = Role.PARTICIPANT) -> Server:
    """Return the entry of a server in the membership."""
    return Server(ServerId(sid), name_of(sid), QUORUM_PORT, ELECTION_PORT, role, addresses.own(sid), CLIENT_PORT)
