"""Arbitrary bytes at a running client port, and the required behaviour.

`python -m tests.fuzz.port` sends inputs of atheris without end, at a server in the same process with traced
branches; it needs the extra `fuzz`.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Final

import trio

from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import open_store
from zab.store.acl import OPEN
from zab.store.operations import Fields, Op
from zab.wire.client import connect, multi_codec, requests
from zab.wire.client.client_frames import FirstFrame, ReplyReader
from zab.wire.client.connect import ConnectRequest

PATIENCE_S: Final = 20
CONNECT: Final = connect.encode_connect_request(ConnectRequest(0, 10_000))
PORTS: Final = ClientPortSettings(connections_per_host_max=0, first_frame_ms=500, linger_ms=50)
MIB: Final = 1 << 20
LARGE: Final = "/large"
"""A node with most of a megabyte, for whoever wants to ask for it and not read it."""


class Caller:
    """A client with manners."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.sendall(CONNECT)
        first = FirstFrame()
        while first.feed(self._receive()) is None:
            pass
        self._reader = ReplyReader(4 * MIB)
        self._xid = 0
        assert not first.rest

    def _receive(self) -> bytes:
        data = self._socket.recv(1 << 16)
        assert data, "the server has closed the connection"
        return data

    def ask(self, op: int, fields: Fields = ()) -> int:
        """The error."""
        self._xid += 1
        self._socket.sendall(requests.encode_request(op, self._xid, fields))
        while True:
            for xid, _, error, _ in self._reader.feed(self._receive()):
                if xid == self._xid:
                    return error

    def close(self) -> None:
        self.ask(Op.CLOSE_SESSION)
        self._socket.close()


def still_serves(port: int) -> None:
    """Check that another client connects, writes, and reads its write."""
    caller = Caller(port)
    path = "/still"
    assert caller.ask(Op.CREATE, (path, b"x", OPEN, 1)) == 0
    assert caller.ask(Op.GET_DATA, (path, False)) == 0
    caller.close()


def throw(port: int, data: bytes, *, then: Callable[[socket.socket], None] | None = None) -> None:
    """Send as many bytes as the port accepts, then close the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        try:
            connection.sendall(data)
            if then is not None:
                then(connection)
        except OSError:
            pass  # it was cut, and may be


def hear_out(connection: socket.socket) -> None:
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(1 << 16):
        pass


def frame(op: int, body: bytes) -> bytes:
    return (8 + len(body)).to_bytes(4, "big") + (1).to_bytes(4, "big") + op.to_bytes(4, "big", signed=True) + body


def request(op: int, *fields: object) -> bytes:
    return requests.encode_request(op, 1, fields)


def _bomb(part: tuple[int, Fields]) -> bytes:
    one = multi_codec.MULTI.encode((part,))[:-9]
    return frame(Op.MULTI, one * ((MIB - 100) // len(one)) + multi_codec.MULTI.encode(()))


_COUNT_MAX: Final = bytes.fromhex("7fffffff")
_DEEP: Final = "/" + "/".join("a" * 100_000)
NASTY: Final[dict[str, bytes]] = {
    "nothing": b"",
    "garbage": bytes(range(256)) * 40,
    "half a length": b"\0\0",
    "half a greeting": CONNECT[:20],
    "a greeting that is too short": b"\0\0\0\4abcd",
    "a greeting with a password that lies": CONNECT[:28] + _COUNT_MAX + CONNECT[32:],
    "a request before the greeting": request(Op.GET_DATA, "/", False) * 10,
    "a web browser": b"GET / HTTP/1.1\r\nHost: zab\r\n\r\n",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "two greetings": CONNECT + CONNECT,
    "a negative length": CONNECT + bytes.fromhex("ffffffff"),
    "the largest length": CONNECT + _COUNT_MAX + b"much",
    "a length beyond the limit": CONNECT + (MIB).to_bytes(4, "big") + bytes(1000),
    "a frame without a header": CONNECT + b"\0\0\0\2ab",
    "an operation that is none": CONNECT + frame(4711, b"") + request(Op.GET_DATA, "/", False),
    "operations among servers": CONNECT + frame(-10, bytes(4)) + frame(20, bytes(4)) + frame(-13, bytes(40)),
    "counts that lie": CONNECT + frame(Op.SET_WATCHES, bytes(8) + _COUNT_MAX + bytes(900_000)) * 3,
    "negative counts": CONNECT + frame(Op.CREATE, b"\0\0\0\2/n\0\0\0\0\x80\0\0\0\0\0\0\0"),
    "a multi of many": CONNECT + _bomb((Op.CHECK, ("/", -1))) * 2,
    "a multi of many that fails": CONNECT + _bomb((Op.CREATE, ("/", b"", OPEN, 0))) * 2,
    "a multi that does not end": CONNECT
    + frame(Op.MULTI, bytes.fromhex("0000000200ffffffff0000000000000000") * 50_000),
    "a deep path": CONNECT + request(Op.CREATE, _DEEP, b"", OPEN, 0) * 3 + request(Op.EXISTS, _DEEP, True) * 3,
    "a deep watch": CONNECT + request(Op.ADD_WATCH, _DEEP, 1) * 3 + request(Op.REMOVE_WATCHES, _DEEP, 3),
    "a long list of permissions": CONNECT
    + request(Op.CREATE, "/acl", b"", tuple((31, "world", "anyone") for _ in range(30_000)), 1),
    "a list of many who may": CONNECT
    + request(Op.CREATE, "/acl", b"", tuple((31, "digest", f"{number}:x") for number in range(25_000)), 1),
    "many identities": CONNECT + b"".join(request(Op.AUTH, 0, "digest", b"u%d:p" % number) for number in range(5_000)),
    "many watches": CONNECT + request(Op.SET_WATCHES2, 0, (), tuple(f"/{n}" for n in range(60_000)), (), (), ()),
    "many pings": CONNECT + requests.PING * 50_000,
    "paths that are no text": CONNECT + frame(Op.GET_DATA, b"\0\0\0\4\xff\xfe\xed\xa0\0") * 100,
}


def never_reads(port: int) -> socket.socket:
    """Asks for gigabytes, and takes nothing. Returns the connection, still open."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    connection.sendall(CONNECT)
    connection.setblocking(False)
    try:
        for _ in range(20):
            connection.sendall(request(Op.GET_DATA, LARGE, False) * 500)
    except BlockingIOError:
        pass
    return connection


# -- a server ------------------------------------------------------------------------------------------


@contextmanager
def served(folder: Path) -> Iterator[int]:
    """Run a server in a thread of this process."""
    started = threading.Event()
    ports: list[int] = []
    stop: list[Callable[[], None]] = []

    async def main() -> None:
        async with open_store(folder, client_port=0, client_ports=PORTS) as server:
            scope = trio.CancelScope()
            token = trio.lowlevel.current_trio_token()
            stop.append(lambda: trio.from_thread.run_sync(scope.cancel, trio_token=token))
            assert server.client_port is not None
            ports.append(server.client_port)
            started.set()
            with scope:
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(main,))
    thread.start()
    assert started.wait(PATIENCE_S)
    try:
        caller = Caller(ports[0])
        caller.ask(Op.CREATE, (LARGE, bytes(900_000), OPEN, 0))
        caller.close()
        yield ports[0]
    finally:
        stop[0]()
        thread.join()


def main() -> int:
    """Fuzz until a failure."""
    try:
        atheris = import_module("atheris")
    except ImportError:
        print("atheris is not installed: pip install 'zab[fuzz]'", file=sys.stderr)
        return 2
    atheris.instrument_all()
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as port:
        thrown = 0

        def test(data: bytes) -> None:
            nonlocal thrown
            throw(port, data if data[:1] == b"\0" else CONNECT + data, then=hear_out)
            thrown += 1
            if thrown % 50 == 0:
                still_serves(port)

        atheris.Setup(sys.argv, test)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
