"""Check the host names in the certificate of a dialling end. `ssl` itself only checks those of an accepting end."""

from __future__ import annotations

from ipaddress import ip_address

import trio

from zab.net.tls.tls_stream import TlsStream
from zab.store.acl_schemes import host_id


def names_host(stream: TlsStream, host: str) -> bool:
    """Return whether the certificate of the other end names this host, which is an address or a DNS name."""
    try:
        address = ip_address(host_id(host))
    except ValueError:
        return _names(stream, host)
    return any(kind == "IP Address" and ip_address(name) == address for kind, name in stream.names)


async def is_for(stream: TlsStream, host: str, *, reverse_lookup: bool) -> bool:
    """Return whether the certificate names this address or, with `reverse_lookup`, the name that DNS has for it.

    If DNS has no name for the address, or does not answer, only the address counts.
    """
    if names_host(stream, host):
        return True
    if not reverse_lookup:
        return False
    try:
        found, _ = await trio.socket.getnameinfo((host, 0), trio.socket.NI_NAMEREQD)
    except OSError:
        return False
    return _names(stream, found)


def _names(stream: TlsStream, host: str) -> bool:
    return any(kind == "DNS" and covers(name.lower(), host.lower()) for kind, name in stream.names)


def covers(pattern: str, name: str) -> bool:
    """Return whether a certificate's name, which may begin with `*.`, covers `name`. Both are in lower case.

    The star stands for the whole first label of `name`.
    """
    if pattern.startswith("*."):
        return name.partition(".")[2] == pattern[2:]
    return pattern == name
