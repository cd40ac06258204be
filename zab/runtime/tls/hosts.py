"""Whether a certificate is for the address that its bearer comes from. For a dialled host, `ssl` itself looks."""

from __future__ import annotations

from ipaddress import ip_address

import trio

from zab.runtime.tls.stream import TlsStream
from zab.store.schemes import host_id


async def is_for(stream: TlsStream, host: str, *, reverse_lookup: bool) -> bool:
    """By the address itself; or, with `reverse_lookup`, by the name that the name service has for it."""
    names, address = stream.names, ip_address(host_id(host))
    if any(kind == "IP Address" and ip_address(name) == address for kind, name in names):
        return True
    if not reverse_lookup:
        return False
    try:
        found, _ = await trio.socket.getnameinfo((host, 0), trio.socket.NI_NAMEREQD)
    except OSError:
        return False
    return any(kind == "DNS" and covers(name.lower(), found.lower()) for kind, name in names)


def covers(pattern: str, name: str) -> bool:
    """A star stands for the first part of a name, whole."""
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name
