"""Parse ZooKeeper's connect string: `h1:2181,h2:2181,[::1]:2181/root`."""

from __future__ import annotations

from typing import Final, TypeAlias

from attrs import frozen

from zab.core.addresses import with_port
from zab.core.errors import ConfigError
from zab.store.paths import ROOT, is_valid

DEFAULT_PORT: Final = 2181

Host: TypeAlias = tuple[str, int]
"""A name or an address, and a port."""


@frozen
class Hosts:
    """The hosts and the root of a connect string. `root` is empty, or the path that the session uses as `/`."""

    hosts: tuple[Host, ...]
    root: str = ""

    def __str__(self) -> str:
        return ",".join(map(shown, self.hosts)) + self.root


def parse_hosts(text: str) -> Hosts:
    listed, slash, rest = text.partition("/")
    root = slash + rest.rstrip("/")
    if root == ROOT:
        root = ""
    if root and not is_valid(root):
        raise ConfigError(f"{text!r}: {root!r} is not a valid root; expected: host1:2181/app")
    hosts = tuple(_host(each.strip(), text) for each in listed.split(",") if each.strip())
    if not hosts:
        raise ConfigError(f"{text!r}: it names no server; expected: host1:2181,host2:2181/root")
    return Hosts(tuple(dict.fromkeys(hosts)), root)


def shown(host: Host) -> str:
    name, port = host
    return with_port(name, port)


def _host(part: str, text: str) -> Host:
    """Parse one server of a connect string: `host`, `host:port`, `[ipv6]` or `[ipv6]:port`.

    The form is that of ZooKeeper's `ConnectStringParser`, except that an IPv6 address without brackets is refused,
    since its last group could be a port.
    """
    if part.startswith("["):
        host, bracket, port = part[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise ConfigError(f"{text!r}: {part!r} is not an address; IPv6 is written [::1]:2181")
        port = port[1:]
    elif part.count(":") > 1:
        raise ConfigError(f"{text!r}: {part!r} is not an address; IPv6 is written [::1]:2181")
    else:
        host, _, port = part.partition(":")
    if not host or (port and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536)):
        place = "" if part == text else f"{text!r}: "
        raise ConfigError(f"{place}{part!r} is not HOST or HOST:PORT; a port is a number from 1 to 65535")
    return host, int(port) if port else DEFAULT_PORT
