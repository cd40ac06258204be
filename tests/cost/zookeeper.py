"""A server of the store in a process of its own, and clients that send it whatever they like."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from attrs import frozen

from bench.ports import free_port
from tests.cost.meter import Meter
from tests.integration.served import serve
from zab.store.acl import OPEN
from zab.store.operations import Fields, Op
from zab.wire.client import requests
from zab.wire.client.client_frames import FirstFrame, ReplyReader
from zab.wire.client.connect import ConnectRequest, decode_connect_response, encode_connect_request

PATIENCE_S: Final = 120
SESSION_MS: Final = 600_000
"""Nobody pings while something else is measured."""
FRAME_BYTES_MAX: Final = 0xFFFFF
MIB: Final = 1 << 20
HEAD_BYTES: Final = 12
_WINDOW: Final = 200
"""Requests under way at a time, where many are sent: as many as a client with manners has."""


def frame(op: int, body: bytes, xid: int = 1) -> bytes:
    return struct.pack(">iii", 8 + len(body), xid, op) + body


def encode(op: int, *fields: object, xid: int = 1) -> bytes:
    return requests.encode_request(op, xid, fields)


class Client:
    """A session over one blocking connection."""

    def __init__(self, port: int, timeout_ms: int = SESSION_MS) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(encode_connect_request(ConnectRequest(0, timeout_ms)))
        first = FirstFrame()
        while (payload := first.feed(self._receive())) is None:
            pass
        self.connected = decode_connect_response(payload)
        self._reader = ReplyReader(64 * MIB)
        self._xid = 0

    def _receive(self) -> bytes:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the server has closed the connection")
        return data

    def _replies(self, until: int) -> int:
        """The error in the reply with this xid."""
        while True:
            for xid, _, error, _ in self._reader.feed(self._receive()):
                if xid == until:
                    return error

    def ask(self, op: int, *fields: object) -> int:
        """Send one request; return the error of its reply."""
        self._xid += 1
        self.socket.sendall(encode(op, *fields, xid=self._xid))
        return self._replies(self._xid)

    def ask_all(self, operations: Iterable[tuple[int, Fields]]) -> None:
        """Send many, some at a time, and check that all succeed."""
        batch: list[bytes] = []
        first = self._xid + 1

        def go() -> None:
            self.socket.sendall(b"".join(batch))
            wanted = set(range(first, self._xid + 1))
            while wanted:
                for xid, _, error, _ in self._reader.feed(self._receive()):
                    assert xid not in wanted or not error, f"request {xid}: error {error}"
                    wanted.discard(xid)

        for op, fields in operations:
            self._xid += 1
            batch.append(requests.encode_request(op, self._xid, fields))
            if len(batch) >= _WINDOW or sum(map(len, batch)) > MIB:
                go()
                batch, first = [], self._xid + 1
        if batch:
            go()

    def exchange(self, data: bytes, count: int) -> list[tuple[int, int, bytes]]:
        """Send frames; return so many replies: xid, error and body of each."""
        self.socket.sendall(data)
        found: list[tuple[int, int, bytes]] = []
        while len(found) < count:
            found += [(xid, error, body) for xid, _, error, body in self._reader.feed(self._receive())]
        return found

    def ping(self, count: int = 1) -> None:
        self.socket.sendall(requests.PING * count)
        while count:
            count -= sum(xid == requests.PING_XID for xid, *_ in self._reader.feed(self._receive()))

    def read(self, path: str = "/") -> None:
        assert self.ask(Op.EXISTS, path, False) == 0

    def throw(self, data: bytes, *, reads: bool = True) -> bool:
        """Send bytes and a ping behind them, and wait until that is answered. False: the server cut the connection."""
        view, answered = memoryview(data + requests.PING), False
        try:
            self.socket.setblocking(False)
            while view or not answered:
                readable, writable, _ = select.select(
                    [self.socket] if reads or not view else [], [self.socket] if view else [], [], PATIENCE_S
                )
                assert readable or writable, "the server neither reads nor answers"
                if writable:
                    view = view[self.socket.send(view[: 1 << 18]) :]
                if readable:
                    answered |= any(xid == requests.PING_XID for xid, *_ in self._reader.feed(self._receive()))
        except OSError:
            return False
        finally:
            self.socket.settimeout(PATIENCE_S)
        return True

    def close(self) -> None:
        with suppress(OSError):
            self.ask(Op.CLOSE_SESSION)
        self.socket.close()

    def vanish(self) -> None:
        """Close the connection and leave the session."""
        self.socket.close()


def word(port: int, four_letters: bytes) -> bytes:
    """Send a four-letter word; return the reply."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(four_letters)
        found = b""
        while data := connection.recv(1 << 18):
            found += data
    return found


@frozen
class StoreProcess:
    pid: int
    port: int
    admin_port: int
    log: Path

    @contextmanager
    def client(self) -> Iterator[Client]:
        client = Client(self.port)
        try:
            yield client
        finally:
            client.close()

    @contextmanager
    def meter(self) -> Iterator[Meter]:
        """See `control_of`."""
        with (
            self.client() as one,
            self.client() as other,
            Meter(self.pid, self.log, control_of(one), other.read) as meter,
        ):
            yield meter


def control_of(client: Client) -> Callable[[], None]:
    """Pings and one megabyte that is written and deleted: an honest request of the size of the hostile ones."""

    def control() -> None:
        client.ping(1_000)
        assert client.ask(Op.CREATE, "/control", bytes(MIB - 200), OPEN, 0) == 0
        assert client.ask(Op.DELETE, "/control", -1) == 0

    return control


@contextmanager
def store_process(folder: Path, *lines: str) -> Iterator[StoreProcess]:
    """Run one server with all optional ports and features open. `lines` are appended to its configuration."""
    port, admin_port = free_port(), free_port()
    config = folder / "zoo.cfg"
    config.write_text(
        "\n".join(
            (
                f"tickTime=2000\ndataDir={folder / 'data'}\nclientPort={port}\nclientPortAddress=127.0.0.1",
                f"admin.serverAddress=127.0.0.1\nadmin.serverPort={admin_port}\n4lw.commands.whitelist=*",
                f"maxSessionTimeout={SESSION_MS}\nmaxClientCnxns=0\nfailedLogin.pause=0\nextendedTypesEnabled=true\nenforceQuota=true",
                *lines,
                "",
            )
        )
    )
    with serve(config) as served:
        served.ready()
        yield StoreProcess(served.process.pid, port, admin_port, served.log)
