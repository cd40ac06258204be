"""A TLS stream over a socket.

It differs from Trio's in three points. A client that is refused in the handshake receives an alert with the reason.
Several records are received in one piece. And the stream can end its own half, so that a reset does not discard the
last reply.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import trio

RECORD_BYTES: Final = 16 << 10
HANDSHAKE: Final = 0x16
"""The first byte of every TLS connection. No other connection of ours begins with it: a frame would have 369 megabytes,
and the packets and openings of ZooKeeper's servers begin with 0x00 or 0xff."""


class TlsStream(trio.abc.HalfCloseableStream):
    """A TLS stream. One task may send while another receives. The first of them does the handshake if none was done."""

    def __init__(
        self,
        transport: trio.abc.HalfCloseableStream,
        context: ssl.SSLContext,
        *,
        server_side: bool = True,
        server_hostname: str | None = None,
        checks_claim: bool = False,
        plain_too: bool = False,
    ) -> None:
        """Take over a transport, whose first bytes are those of the handshake.

        checks_claim  the greeting compares the certificate with the server that the other end claims to be
        plain_too     the other end may speak plain text instead: see `unified`
        """
        self.transport_stream = transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side, server_hostname)
        self._shaking, self._sending = trio.Lock(), trio.Lock()
        self._shaken = self._ended = False
        self.checks_claim = checks_claim
        self.plain_too = plain_too

    @property
    def certificate(self) -> bytes | None:
        """The verified certificate of the other end, in DER; None if there is none."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def names(self) -> list[tuple[str, str]]:
        """The alternative names of the other end's certificate: (kind, name)."""
        shown: Mapping[str, Any] = self._tls.getpeercert() or {}
        return [(kind, name) for kind, name, *_ in shown.get("subjectAltName", ())]

    async def handshake(self) -> None:
        """Do the handshake. If it fails, send the alert and raise `ssl.SSLError`. Let errors of the transport pass."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fetch()
            except ssl.SSLError:
                with suppress(trio.BrokenResourceError):  # the alert is only a hint to the other side
                    await self._flush()
                raise
            else:
                await self._flush()
                self._shaken = True
                return

    async def _be_shaken(self) -> None:
        async with self._shaking:
            if not self._shaken:
                try:
                    await self.handshake()
                except ssl.SSLError as error:
                    raise trio.BrokenResourceError("TLS") from error

    async def _fetch(self) -> None:
        data = await self.transport_stream.receive_some(64 << 10)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        """Send all bytes that OpenSSL has written, in order, also those that another task has caused."""
        async with self._sending:
            while self._outgoing.pending:
                await self.transport_stream.send_all(self._outgoing.read())

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended:
            raise trio.ClosedResourceError("the sending half of this stream has ended")
        if not self._shaken:
            await self._be_shaken()
        if data:
            try:
                self._tls.write(data)
            except (
                ssl.SSLError
            ) as error:  # for example: the other end closed without close_notify, and all its data was read already
                raise trio.BrokenResourceError(f"TLS: {error.reason or error}") from error
        await self._flush()

    async def wait_send_all_might_not_block(self) -> None:
        await self.transport_stream.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return the data of all records that have arrived, up to `max_bytes`; b"" at the end of the stream.

        The default of `max_bytes` is 64 KiB. Data that was read is returned before an error or the end is reported. An
        end without TLS's close_notify is accepted: Java's and Python's clients close that way, and the length of a
        message shows whether it is whole.
        """
        if not self._shaken:
            await self._be_shaken()
        wanted = max_bytes or 64 << 10
        while True:
            pieces: list[bytes] = []
            missing = wanted
            try:
                while missing > 0:
                    piece = self._tls.read(min(missing, RECORD_BYTES))
                    if not piece:
                        break
                    pieces.append(piece)
                    missing -= len(piece)
                if not pieces:
                    return b""
            except ssl.SSLWantReadError:
                pass
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                if not pieces:
                    return b""
            except ssl.SSLError as error:
                if not pieces:
                    raise trio.BrokenResourceError(f"TLS: {error.reason or error}") from error
            if self._outgoing.pending:
                await self._flush()
            if pieces:
                await trio.lowlevel.checkpoint()
                return b"".join(pieces)
            await self._fetch()

    async def send_eof(self) -> None:
        """End this half of the stream. Data of the other end can still be received."""
        if not self._ended:
            self._ended = True
            with suppress(ssl.SSLError):  # `unwrap` also waits for the other side's close_notify; we do not
                self._tls.unwrap()
            await self._flush()
            await self.transport_stream.send_eof()

    async def aclose(self) -> None:
        await self.transport_stream.aclose()


async def unified(stream: trio.abc.Stream) -> trio.abc.Stream:
    """Return an accepted stream as it is, or its transport if its port allows plain text and the other end speaks it.

    Wait for the first byte if the port allows both.
    """
    if not isinstance(stream, TlsStream) or not stream.plain_too:
        return stream
    transport = stream.transport_stream
    assert isinstance(transport, trio.SocketStream)
    first = await transport.socket.recv(1, trio.socket.MSG_PEEK)
    return stream if first[:1] == bytes((HANDSHAKE,)) else transport
