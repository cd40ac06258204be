"""Turn a host name into a stream: resolve the name, connect by TCP, and use TLS if it is wanted."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import cached_property
from os import PathLike
from random import Random
from typing import Any, Final

import trio
from attrs import field, frozen

from zab.client.client_protocol import ClientProtocol
from zab.client.connection_failures import ConnectionOver, handshake_failure
from zab.client.hosts import shown
from zab.core.argument_names import checks_arguments
from zab.core.errors import ConfigError
from zab.net.network import tune


@checks_arguments
@frozen(slots=False)
class ClientTls:
    """TLS settings of a client. Files are in PEM format; the lowest version is TLS 1.2.

    ca              file of the authorities of the servers' certificates; None: the authorities that this system trusts
    cert, key       files of this client's certificate and key, for servers that ask for a certificate; without `key`,
                    the file `cert` holds both; `key` alone has no effect
    check_hostname  whether a server's certificate must name the host that was dialled

    `zab.connect` raises `ConfigError` if one of the files cannot be used.
    """

    ca: str | PathLike[str] | None = None
    cert: str | PathLike[str] | None = None
    key: str | PathLike[str] | None = None
    check_hostname: bool = True

    @cached_property
    def context(self) -> ssl.SSLContext:
        what = f"ca={self.ca}"
        try:
            context = ssl.create_default_context(cafile=None if self.ca is None else str(self.ca))
            what = f"cert={self.cert}, key={self.key}"
            if self.cert is not None:
                context.load_cert_chain(self.cert, self.key)
        except OSError as error:  # the base class of SSLError
            raise ConfigError(f"TLS: {what}: {error}") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        return context


@frozen
class Address:
    """A host and its port, and one of the socket addresses that they resolve to (`where`)."""

    host: str
    port: int
    family: int
    where: tuple[Any, ...]

    def __str__(self) -> str:
        name = shown((self.host, self.port))
        return name if self.where[0] == self.host else f"{name} ({self.where[0]})"


async def addresses_of(host: str, port: int) -> list[Address]:
    """Return the addresses of a name, resolved anew at every call, because servers move.

    Raise `OSError` if the name cannot be resolved, or `UnicodeError` if it is not a valid name.
    """
    found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(host, port, int(family), tuple(where)) for family, _, _, _, where in found))


async def dial(address: Address, tls: ssl.SSLContext | None, silence_ms: int) -> trio.abc.Stream:
    raw = trio.socket.socket(address.family, socket.SOCK_STREAM)
    try:
        await raw.connect(address.where)
        stream = trio.SocketStream(raw)
        tune(stream, silence_ms)
        if tls is None:
            return stream
        return trio.SSLStream(stream, tls, server_hostname=address.host, https_compatible=True)
    except BaseException:
        raw.close()
        raise


async def shake_hands(stream: trio.abc.Stream) -> None:
    """Do the TLS handshake now, if there is TLS. Raise `ConnectionOver`, which explains a failure.

    Otherwise the first send would do the handshake, and its failure would not be explained.
    """
    if isinstance(stream, trio.SSLStream):
        try:
            await stream.do_handshake()
        except trio.BrokenResourceError as error:
            raise ConnectionOver(handshake_failure(error.__cause__ or error)) from error


@frozen
class Outside:
    """The environment of a client. A simulation provides its own.

    addresses, dial  name resolution, and connections
    random           the order of servers, and the lengths of pauses
    protocol         makes the protocol of a session, which a simulation may observe
    """

    addresses: Callable[[str, int], Awaitable[list[Address]]] = addresses_of
    dial: Callable[[Address, ssl.SSLContext | None, int], Awaitable[trio.abc.Stream]] = dial
    random: Random = field(factory=Random)
    protocol: Callable[..., ClientProtocol] = ClientProtocol


OUTSIDE: Final = Outside()
