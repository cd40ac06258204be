"""Legal histories of the store by seed: real stores on lagging servers, and moving clients.

There is no consensus: each server applies a common list of transactions at its own pace. The stores themselves define
what clients see, so an objection of a checker is a bug of the checker or of the store.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

from attrs import define, field, frozen

from harness.changes import changes_of
from harness.history import (
    Change,
    Event,
    History,
    Info,
    Invoke,
    Jump,
    Reply,
    Request,
    Response,
    SessionEvent,
    Stat,
    WatchFired,
)
from zab.store.acl import OPEN, Identity
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.request_format import INTERNAL, pack_body, pack_request
from zab.store.server_watches import WatchKind, WatchMode
from zab.store.store import Store
from zab.store.znode import Znode, stat_of

PATHS: Final = ("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z")
FLAGS: Final = {"": 0, "ephemeral": 1, "sequential": 2, "ephemeral sequential": 3, "container": 4}
OPS: Final = (
    *("create",) * 4, *("set",) * 3, *("delete",) * 2, *("multi",) * 2,
    *("get",) * 2, *("exists",) * 2, *("children",) * 2, "sync", "watch", "unwatch",
)  # fmt: skip
EVENTS: Final = ("", "created", "deleted", "data", "children")
UNWATCH: Final = {"": WatchKind.ANY, "persistent": WatchKind.PERSISTENT, "recursive": WatchKind.RECURSIVE}
KINDS: Final = ("data", "exist", "child", "persistent", "recursive")


@frozen
class _View:
    zxid: int
    epoch: int = 1
    now_ms: int = 0
    outstanding: Sequence[tuple[int, bytes]] = ()


@define(eq=False)
class Connection:
    """The messages from the server to the client, in order, until the connection breaks."""

    session: int
    outbox: list[Response | WatchFired] = field(factory=list)
    open: bool = True
    identities: tuple[Identity, ...] = ()


@define(eq=False)
class Client:
    number: int
    session: int = 0
    server: int = 0
    connection: Connection | None = None
    waiting: list[Invoke] = field(factory=list)
    last_zxid: int = 0
    book: dict[str, set[str]] = field(factory=lambda: {kind: set() for kind in KINDS})
    over: bool = False


class Ensemble:
    def __init__(self, seed: int, *, servers: int = 3, clients: int = 3) -> None:
        self.chance = Random(seed)
        self.now = 0
        self.events: list[Event] = []
        self.changes: list[Change] = []
        self.jumps: list[Jump] = []
        self.log: list[tuple[int, bytes]] = []
        self.leader = Store()
        self.stores = {sid: Store(deliver=self._deliver) for sid in range(1, servers + 1)}
        self.applied = dict.fromkeys(self.stores, 0)
        self.clients = [Client(number) for number in range(1, clients + 1)]
        self.calls = 0
        self.sessions = 0
        self._commit(pack_request(Op.SET_SECRET, pack_body((b"s" * 16,)), flags=INTERNAL))

    # -- servers -----------------------------------------------------------------------------------

    def _commit(self, request: bytes) -> int:
        zxid = (1 << 32) + len(self.log) + 1
        txn = self.leader.prepare(request, _View(zxid))
        self.leader.apply(zxid, txn)
        self.log.append((zxid, txn))
        self.changes += changes_of(zxid, txn)
        return len(self.log)

    def _apply(self, sid: int, until: int) -> Any:
        result = None
        while self.applied[sid] < until:
            zxid, txn = self.log[self.applied[sid]]
            result = self.stores[sid].apply(zxid, txn)
            self.applied[sid] += 1
            self._drop_sessions(sid)
        return result

    def _drop_sessions(self, sid: int) -> None:
        """Drop the server's connections of sessions that were closed or have moved."""
        for client in self.clients:
            known = self.stores[sid].sessions.table.get(client.session)
            if client.server == sid and client.connection is not None and (known is None or known[1] != sid):
                self._break(client)

    def _jump(self, sid: int) -> None:
        chunks = list(self.leader.snapshot())
        self.stores[sid].restore(chunks)
        self.applied[sid] = len(self.log)
        self.jumps.append(Jump(sid, self.log[-1][0]))
        self.stores[sid].deliver_missed()
        self._drop_sessions(sid)

    def _deliver(self, watchers: Sequence[Any], event: int, path: str, zxid: int) -> None:
        for watcher in watchers:
            if watcher.open:
                watcher.outbox.append(WatchFired(0, 0, watcher.session, EVENTS[event], path, zxid))

    # -- clients -----------------------------------------------------------------------------------

    def _later(self) -> int:
        self.now += self.chance.randrange(1, 40)
        return self.now

    def _session_event(self, client: Client, state: str) -> None:
        self.events.append(SessionEvent(self._later(), client.number, client.session, state, client.server, 4_000))

    def connect(self, client: Client) -> None:
        client.server = self.chance.choice(list(self.stores))
        op, fields = Op.ATTACH_SESSION, pack_body(())
        if client.session == 0:
            self.sessions += 1
            client.session = 0x100 + self.sessions
            op, fields = Op.CREATE_SESSION, pack_body((4_000,))
        until = self._commit(pack_request(op, fields, client.session, server=client.server, flags=INTERNAL))
        client.connection = None
        self._apply(client.server, until)
        if client.session not in self.stores[client.server].sessions.table:
            self._session_event(client, "expired")
            client.over = True
            return
        client.connection = Connection(client.session)
        self._session_event(client, "connected")
        book = [tuple(sorted(client.book[kind])) for kind in KINDS]
        if any(book):
            self.stores[client.server].reads.set_watches(client.connection, client.last_zxid, *book)

    def _break(self, client: Client) -> None:
        """Break the connection. Messages in flight may reach the client, or not."""
        connection = client.connection
        if connection is None:
            return
        while connection.outbox and self.chance.random() < 0.5:
            self._receive(client)
        connection.open = False
        store = self.stores[client.server]
        store.watches.drop(connection)
        client.connection = None
        self._session_event(client, "disconnected")
        for asked in client.waiting:
            self.events.append(Info(self._later(), client.number, client.session, asked.call))
        client.waiting.clear()

    def end(self, client: Client, state: str) -> None:
        self._commit(pack_request(Op.CLOSE_SESSION, pack_body(()), client.session, flags=INTERNAL))
        self._break(client)
        self._session_event(client, state)
        client.over = True

    def _receive(self, client: Client) -> None:
        connection = client.connection
        assert connection is not None
        message = connection.outbox.pop(0)
        at = self._later()
        if isinstance(message, WatchFired):
            self.events.append(
                WatchFired(at, client.number, message.session, message.event, message.path, message.zxid)
            )
            self._update_watches(client, message)
            return
        asked = client.waiting.pop(0)
        self.events.append(Response(at, client.number, client.session, asked.call, message.reply))
        client.last_zxid = message.reply.zxid
        self._registered(client, asked.request, message.reply)

    def _update_watches(self, client: Client, fired: WatchFired) -> None:
        book = client.book
        if fired.event != "children":
            book["data"].discard(fired.path)
            book["exist"].discard(fired.path)
        if fired.event in ("children", "deleted"):
            book["child"].discard(fired.path)

    def _registered(self, client: Client, request: Request, reply: Reply) -> None:
        book, path = client.book, request.path
        if request.op == "watch":
            book[request.watch].add(path)
        elif request.op == "unwatch" and not reply.error:
            for kind in KINDS if not request.watch else (request.watch,):
                book[kind].discard(path)
        elif request.watch:
            if request.op == "exists" and reply.error == "NO_NODE":
                book["exist"].add(path)
            elif not reply.error:
                book["child" if request.op == "children" else "data"].add(path)

    # -- requests ----------------------------------------------------------------------------------

    def ask(self, client: Client, request: Request) -> None:
        connection = client.connection
        assert connection is not None
        self.calls += 1
        asked = Invoke(self._later(), client.number, client.session, self.calls, client.server, request)
        self.events.append(asked)
        client.waiting.append(asked)
        if request.op in ("create", "set", "delete", "multi"):
            if self.chance.random() < 0.01:
                self._break(client)  # the request never reached the leader
                return
            op, fields = _packed(request)
            until = self._commit(
                pack_request(op, pack_body(fields), client.session, client.server, server=client.server)
            )
            if self.chance.random() < 0.02:
                self._break(client)  # the request was carried out, and its reply is lost
                return
            result = self._apply(client.server, until)
            if connection.open:
                connection.outbox.append(Response(0, 0, 0, 0, _written(request, *result)))
            return
        if self.chance.random() < 0.4:
            self._apply(client.server, self.chance.randint(self.applied[client.server], len(self.log)))
        if request.op == "sync":
            self._apply(client.server, len(self.log))
        if connection.open:
            connection.outbox.append(Response(0, 0, 0, 0, self._read(connection, client.server, request)))

    def _read(self, connection: Connection, sid: int, request: Request) -> Reply:
        store = self.stores[sid]
        reads, path, watch, zxid = store.reads, request.path, bool(request.watch), store.zxid
        code = 0
        value: Any = None
        match request.op:
            case "get":
                code, value = reads.get_data(connection, path, watch)
            case "exists":
                code, value = reads.exists(connection, path, watch)
            case "children":
                code, value = reads.get_children(connection, path, watch)
            case "watch":
                mode = WatchMode.RECURSIVE if request.watch == "recursive" else WatchMode.PERSISTENT
                code, _ = reads.add_watch(connection, path, mode)
            case "unwatch":
                code, _ = reads.remove_watches(connection, path, UNWATCH[request.watch])
            case _:
                return Reply(zxid=zxid, path=path)
        if value is None:
            return Reply(ErrorCode(code).name if code else "", zxid)
        if request.op == "children":
            return Reply(zxid=zxid, children=tuple(value[0]), stat=_stat(value[1]))
        return Reply(zxid=zxid, data=value[0] if request.op == "get" else None, stat=_stat(value))

    # -- a run -------------------------------------------------------------------------------------

    def run(self, steps: int) -> History:
        for _ in range(steps):
            self._step()
        for client in self.clients:
            if client.connection is not None:
                self.ask(client, Request("sync", "/"))
                self._receive_some(client)
        return History(tuple(self.events), tuple(self.changes), tuple(self.jumps))

    def _receive_some(self, client: Client) -> None:
        while client.connection is not None and client.connection.outbox:
            self._receive(client)

    def _step(self) -> None:
        chance = self.chance
        client = chance.choice(self.clients)
        if client.over:
            number = self.clients.index(client)
            client = self.clients[number] = Client(client.number)
        if client.connection is None:
            if client.session == 0 or chance.random() < 0.15:
                self.connect(client)
            return
        luck = chance.random()
        if luck < 0.03:
            self._break(client)
        elif luck < 0.04:
            self.end(client, chance.choice(("expired", "closed")))
        elif luck < 0.06:
            self._jump(chance.choice(list(self.stores)))
        elif luck < 0.4:
            self._receive_some(client)
        else:
            self.ask(client, self._request())

    def _request(self) -> Request:
        chance = self.chance
        op = chance.choice(OPS)
        if op == "multi":
            return Request(op, parts=tuple(self._one(chance.choice(("create", "set", "delete", "check", "set")))
                                           for _ in range(chance.randint(1, 3))))  # fmt: skip
        return self._one(op)

    def _one(self, op: str) -> Request:
        chance = self.chance
        path = chance.choice(PATHS)
        version = chance.choice((-1, -1, -1, 0, 1)) if op in ("set", "delete", "check") else -1
        data = b"%d" % self.calls if op in ("create", "set") else None
        mode = chance.choice(("", "", *FLAGS)) if op == "create" else ""
        watch = ""
        if op in ("get", "exists", "children"):
            watch = chance.choice(("", "once", "once"))
        elif op in ("watch", "unwatch"):
            watch = chance.choice(("persistent", "recursive"))
        return Request(op, "/" if op == "children" and chance.random() < 0.2 else path, data, version, mode, watch)


def _packed(request: Request) -> tuple[int, Any]:
    path = request.path
    match request.op:
        case "create":
            op = Op.CREATE_CONTAINER if request.mode == "container" else Op.CREATE2
            return op, (path, request.data, OPEN, FLAGS[request.mode])
        case "set":
            return Op.SET_DATA, (path, request.data, request.version)
        case "delete":
            return Op.DELETE, (path, request.version)
        case "check":
            return Op.CHECK, (path, request.version)
        case _:
            return Op.MULTI, tuple(_packed(part) for part in request.parts)


def _written(
    request: Request, zxid: int, error: int, path: str | None, node: Znode | None, results: Sequence[Any]
) -> Reply:
    if request.op == "multi" and not error:
        parts = tuple(
            _written(part, 0, failed, name, made, ())
            for part, (_, failed, name, made) in zip(request.parts, results, strict=True)
        )
        return Reply(zxid=zxid, parts=parts)
    if error:
        return Reply(ErrorCode(error).name, zxid)
    stat = None if node is None else _stat(node)
    return Reply(zxid=zxid, path=(path or "") if request.op == "create" else "", stat=stat)


def _stat(node: Znode) -> Stat:
    made = stat_of(node)
    return Stat(
        czxid=made.czxid,
        mzxid=made.mzxid,
        pzxid=made.pzxid,
        version=made.version,
        cversion=made.cversion,
        aversion=made.aversion,
        owner=made.ephemeral_owner,
        length=made.data_length,
        children=made.num_children,
    )


def legal(seed: int, steps: int = 60) -> History:
    """Return a legal history."""
    return Ensemble(seed).run(steps)
