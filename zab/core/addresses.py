"""Distinguish addresses from host names."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the IP address that the text spells, or None if the text is a host name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def bracketed(host: str) -> str:
    """Return the host as it precedes a port: an IPv6 address in brackets, anything else unchanged."""
    return f"[{host}]" if ":" in host else host


def with_port(host: str, port: int) -> str:
    """Return `host:port`, with the brackets that an IPv6 address needs."""
    return f"{bracketed(host)}:{port}"


def is_loopback(host: str) -> bool:
    """Return whether the host is a loopback address or the name `localhost`; False for every other name."""
    address = address_of(host)
    return host.lower() == "localhost" if address is None else address.is_loopback
