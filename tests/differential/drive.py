"""Play a script at one server, with only sockets and codecs, and record all replies and events.

Steps run one at a time: the next begins after the last one's reply. So the order of events
and replies of a connection follows from the servers' guarantees and not from chance, and can be compared.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

from attrs import define, frozen

from tests.differential.script import SEEN, START, Ask, Connect, Drop, Say, Script, Step, Together
from zab.core.errors import WireError
from zab.store.acl import OPEN
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.znode import Stat
from zab.wire.client import connect, replies, requests
from zab.wire.client.client_frames import FirstFrame, Reply, ReplyReader
from zab.wire.client.connect import NO_PASSWORD, ConnectRequest
from zab.wire.jute import INT

PATIENCE_S: Final = 60.0
FRAME_BYTES_MAX: Final = 8 << 20
SUPER: Final = b"super:secret"
SUPER_HASH: Final = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="
END: Final = -1
"""The step after the last: everybody is asked once more whether there is anything left to tell."""

Value: TypeAlias = Any


@frozen
class Connected:
    timeout_ms: int
    session: int
    password_bytes: int
    read_only: bool | None


@frozen
class Replied:
    """One reply. `xid` is its distance from the requested one, 0 if correct. `extra`: bytes after the last field."""

    op: int
    xid: int
    zxid: int
    error: int
    value: Value = None
    extra: bytes = b""


@frozen
class Told:
    """An event."""

    zxid: int
    event: int
    state: int
    path: str


@frozen
class Ended:
    """The server has closed the connection."""


@frozen
class Silent:
    """No reply within the time limit."""


Heard: TypeAlias = Connected | Replied | Told | Ended | Silent


@frozen
class Found:
    """One node at the end of the script."""

    path: str
    data: bytes | None
    stat: Stat
    acl: tuple[tuple[int, str, str], ...]
    children: tuple[str, ...]


@frozen
class Transcript:
    started: int
    """The zxid before the first step."""
    heard: tuple[tuple[int, int, Heard], ...]
    """(step, client, what)"""
    tree: tuple[Found, ...]
    cversions: dict[str, int]
    """Of the nodes that outlive a script, before it began."""


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._first: FirstFrame | None = FirstFrame(FRAME_BYTES_MAX)
        self._reader = ReplyReader(FRAME_BYTES_MAX)
        self._arrived: deque[Reply] = deque()

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # seen when it is read from

    def finish(self) -> None:
        """Nothing more will come from here."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 16)
        except ConnectionResetError:
            return b""

    def greeted(self) -> connect.ConnectResponse | None:
        assert self._first is not None
        while data := self._receive():
            payload = self._first.feed(data)
            if payload is not None:
                self._arrived.extend(self._reader.feed(self._first.rest))
                return connect.decode_connect_response(payload)
        return None

    def next(self) -> Reply | None:
        while not self._arrived:
            data = self._receive()
            if not data:
                return None
            self._arrived.extend(self._reader.feed(data))
        return self._arrived.popleft()

    def close(self) -> None:
        self._socket.close()


@define
class Slot:
    """A client with its memory of its session."""

    wire: Wire | None = None
    session: int = 0
    password: bytes = NO_PASSWORD
    seen: int = 0
    xid: int = 0


def _decoded(op: int, body: bytes) -> tuple[Value, bytes]:
    if op not in replies.BODIES:
        return None, body
    try:
        value = replies.decode_body(op, body)
        said = replies.encode_reply(op, 0, 0, value)[20:]
    except WireError:
        return None, body
    return value, b"" if said == body else body


class Player:
    def __init__(self, port: int) -> None:
        self._port = port
        self._slots: dict[int, Slot] = {}
        self._heard: list[tuple[int, int, Heard]] = []
        self._started = 0
        self._step = 0

    def play(self, script: Script, started: int) -> list[tuple[int, int, Heard]]:
        self._started = started
        for self._step, step in enumerate(script):
            self._play(step)
        self._step = END
        for client, slot in sorted(self._slots.items()):
            if slot.wire is not None:
                self._ask([Ask(client, Op.PING)])
        for client in sorted(self._slots):
            self._end(client)
        return self._heard

    def _end(self, client: int) -> None:
        """Close the session with its ephemerals, and ignore the events."""
        slot = self._slots[client]
        wire = slot.wire
        if wire is None and slot.session:
            wire = Wire(self._port)
            wire.send(connect.encode_connect_request(ConnectRequest(0, 30_000, slot.session, slot.password)))
            if wire.greeted() is None:
                wire.close()
                return
        if wire is not None:
            wire.send(requests.encode_request(Op.CLOSE_SESSION, 1 << 20))
            try:
                while wire.next() is not None:
                    pass
            except TimeoutError:
                pass
            wire.close()

    def _hear(self, client: int, heard: Heard) -> None:
        self._heard.append((self._step, client, heard))
        if isinstance(heard, (Ended, Silent)):
            wire = self._slots[client].wire
            assert wire is not None
            wire.close()
            self._slots[client].wire = None

    def _play(self, step: Step) -> None:
        match step:
            case Connect():
                self._connect(step)
            case Ask():
                self._ask([step])
            case Together(asks):
                self._ask(list(asks))
            case Say(client, data):
                wire = self._slots.setdefault(client, Slot()).wire
                if wire is not None:
                    wire.send(data)
                    self._listen(client, None)
            case Drop(client):
                slot = self._slots.setdefault(client, Slot())
                if slot.wire is not None:
                    slot.wire.close()
                    slot.wire = None

    def _connect(self, step: Connect) -> None:
        slot = self._slots.setdefault(step.client, Slot())
        if slot.wire is not None:
            slot.wire.close()
        slot.wire = wire = Wire(self._port)
        session, password = 0, NO_PASSWORD
        if step.session is not None:
            source = self._slots.get(step.session, slot)
            session, password = source.session, source.password
            if source is not slot:
                slot.seen = max(slot.seen, source.seen)
        chosen = {
            "right": password,
            "wrong": bytes(byte ^ 1 for byte in password),
            "short": password[:8],
            "null": None,
        }[step.password]
        seen = {"seen": slot.seen, "start": self._started, "zero": 0, "future": 1 << 60}[step.seen]
        asked = ConnectRequest(seen, step.timeout_ms, session, chosen, step.read_only)
        wire.send(connect.encode_connect_request(asked))
        try:
            response = wire.greeted()
        except TimeoutError:
            self._hear(step.client, Silent())
            return
        if response is None:
            self._hear(step.client, Ended())
            return
        if response.session:
            slot.session, slot.password = response.session, response.password or b""
        self._hear(
            step.client,
            Connected(response.timeout_ms, response.session, len(response.password or b""), response.read_only),
        )
        if response.timeout_ms == 0:
            self._listen(step.client, None)

    def _frame(self, slot: Slot, ask: Ask) -> bytes:
        slot.xid += 1
        xid = requests.PING_XID if ask.op == Op.PING else slot.xid
        if isinstance(ask.fields, bytes):
            return INT.pack(8 + len(ask.fields)) + INT.pack(xid) + INT.pack(ask.op) + ask.fields
        fields = tuple({SEEN: slot.seen, START: self._started}.get(each, each) for each in ask.fields) \
            if ask.op in (Op.SET_WATCHES, Op.SET_WATCHES2) else ask.fields  # fmt: skip
        return requests.encode_request(ask.op, xid, fields)

    def _ask(self, asks: list[Ask]) -> None:
        client = asks[0].client
        slot = self._slots.setdefault(client, Slot())
        if slot.wire is None:
            return
        first = slot.xid + 1
        slot.wire.send(b"".join(self._frame(slot, ask) for ask in asks))
        waiting = {first + index: ask.op for index, ask in enumerate(asks)}
        if asks[0].op == Op.PING:
            waiting = {requests.PING_XID: Op.PING}
        self._listen(client, waiting)

    def _listen(self, client: int, waiting: dict[int, int] | None) -> None:
        """Read until all pending requests are answered, or the connection ends."""
        slot = self._slots[client]
        wire = slot.wire
        assert wire is not None
        while waiting is None or waiting:
            try:
                reply = wire.next()
            except TimeoutError:
                self._hear(client, Silent())
                return
            if reply is None:
                self._hear(client, Ended())
                return
            xid, zxid, error, body = reply
            if xid == replies.EVENT_XID:
                event, state, path = replies.decode_event(body)
                self._hear(client, Told(zxid, event, state, path))
                continue
            if zxid > 0:
                slot.seen = max(slot.seen, zxid)
            wanted = min(waiting) if waiting else 0
            op = waiting.pop(xid, 0) if waiting else 0
            if error:
                self._hear(client, Replied(op, xid - wanted, zxid, error, None, body))
            else:
                value, extra = _decoded(op, body)
                self._hear(client, Replied(op, xid - wanted, zxid, error, value, extra))
            if op == Op.CLOSE_SESSION and not error:
                slot.session = 0
            if last_words(op, error):
                self._listen(client, None)
                return


def last_words(op: int, error: int) -> bool:
    """Return whether this reply is the last of its connection."""
    if op == Op.CLOSE_SESSION:
        return not error
    return error == ErrorCode.AUTH_FAILED or (error == ErrorCode.UNIMPLEMENTED and op not in requests.SHAPES)


# -- before and after ----------------------------------------------------------------------------------

KEPT: Final = ("/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config")


class Janitor:
    """A super user that reads and deletes the remains of a script."""

    def __init__(self, port: int) -> None:
        self._wire = Wire(port)
        self._wire.send(connect.encode_connect_request(ConnectRequest(0, 60_000)))
        assert self._wire.greeted() is not None, "the server does not let us in"
        self._xid = 0
        self.zxid = 0
        self.ask(Op.AUTH, 0, "digest", SUPER)

    def ask(self, op: int, *fields: Any) -> Any:
        self._xid += 1
        self._wire.send(requests.encode_request(op, self._xid, fields))
        while True:
            reply = self._wire.next()
            assert reply is not None, "the server has closed the connection"
            xid, zxid, error, body = reply
            if xid == self._xid:
                break
        self.zxid = max(self.zxid, zxid)
        return error if error else replies.decode_body(op, body)

    def paths(self, path: str = "/") -> Iterator[str]:
        yield path
        names = self.ask(Op.GET_CHILDREN, path, False)
        for name in sorted(names) if isinstance(names, list) else ():
            yield from self.paths(path.rstrip("/") + "/" + name)

    def look(self) -> tuple[Found, ...]:
        found = []
        for path in list(self.paths()):
            data, stat = self.ask(Op.GET_DATA, path, False)
            acl, _ = self.ask(Op.GET_ACL, path)
            children = self.ask(Op.GET_CHILDREN, path, False)
            found.append(Found(path, data, stat, acl, tuple(sorted(children))))
        return tuple(found)

    def sweep(self) -> None:
        for path in reversed(list(self.paths())):
            if path not in KEPT:
                assert self.ask(Op.DELETE, path, -1) is None
        for path in KEPT[:3]:
            if self.ask(Op.GET_ACL, path)[0] != OPEN:
                self.ask(Op.SET_ACL, path, OPEN, -1)
            if self.ask(Op.GET_DATA, path, False)[0] != b"":
                self.ask(Op.SET_DATA, path, b"", -1)

    def versions(self) -> dict[str, int]:
        """Return the counters of permanent nodes that continue from script to script."""
        kept = {}
        for path in KEPT:
            _, stat = self.ask(Op.GET_DATA, path, False)
            kept.update({path: stat.cversion, path + " data": stat.version, path + " acl": stat.aversion})
        return kept

    def close(self) -> None:
        self.ask(Op.CLOSE_SESSION)
        self._wire.close()


def play(port: int, script: Script) -> Transcript:
    """Play a script on a server without other clients. Afterwards only growing counters have changed."""
    janitor = Janitor(port)
    try:
        versions = janitor.versions()
        janitor.ask(Op.SYNC, "/")
        started = janitor.zxid
        heard = Player(port).play(script, started)
        janitor.ask(Op.SYNC, "/")
        tree = janitor.look()
        janitor.sweep()
    finally:
        janitor.close()
    return Transcript(started, tuple(heard), tree, versions)


@contextmanager
def janitor(port: int) -> Iterator[Janitor]:
    made = Janitor(port)
    try:
        yield made
    finally:
        made.close()
