"""Builder for handwritten histories of the store.

    t = HistoryBuilder()
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"2")      # wrong: the data is b"1"

Time advances by ten with each event. Zxids are counted from 1, and each reply has the newest by default. The builder
checks nothing, so histories may be illegal.
"""

from __future__ import annotations

from attrs import define, evolve, field

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


@define
class ClientSession:
    client: int
    session: int
    server: int
    user: str = ""


@define
class HistoryBuilder:
    now: int = 0
    zxid: int = 0
    calls: int = 0
    sessions: int = 0
    events: list[Event] = field(factory=list)
    changes: list[Change] = field(factory=list)
    invocations: dict[int, Invoke] = field(factory=dict)
    jumps: list[Jump] | None = field(factory=list)

    def history(self) -> History:
        jumps = None if self.jumps is None else tuple(self.jumps)
        return History(tuple(self.events), tuple(self.changes), jumps)

    # -- single events and changes -----------------------------------------------------------------

    def tick(self) -> int:
        self.now += 10
        return self.now

    def commit(self, client: ClientSession | None, *changes: Change) -> int:
        """Commit the changes under one zxid, and return it."""
        self.zxid += 1
        for part, change in enumerate(changes):
            session = change.session or (0 if client is None else client.session)
            self.changes.append(evolve(change, zxid=self.zxid, session=session, part=part))
        return self.zxid

    def invoke(self, client: ClientSession, request: Request) -> int:
        self.calls += 1
        invoke = Invoke(self.tick(), client.client, client.session, self.calls, client.server, request)
        self.invocations[self.calls] = invoke
        self.events.append(invoke)
        return self.calls

    def respond(self, call: int, reply: Reply) -> None:
        invoke = self.invocations[call]
        self.events.append(Response(self.tick(), invoke.client, invoke.session, call, reply))

    def lose(self, call: int) -> None:
        invoke = self.invocations[call]
        self.events.append(Info(self.tick(), invoke.client, invoke.session, call))

    def fire(self, client: ClientSession, event: str, path: str, zxid: int | None = None) -> None:
        at = self.zxid if zxid is None else zxid
        self.events.append(WatchFired(self.tick(), client.client, client.session, event, path, at))

    def session_event(self, client: ClientSession, state: str, server: int | None = None, served: str = "") -> None:
        client.server = client.server if server is None else server
        user = client.user if state == "connected" else ""
        at = self.tick()
        self.events.append(
            SessionEvent(at, client.client, client.session, state, client.server, 4_000, user=user, served=served)
        )

    # -- sessions ----------------------------------------------------------------------------------

    def client(self, number: int, server: int = 1, user: str = "") -> ClientSession:
        self.sessions += 1
        client = ClientSession(number, 0x100 + self.sessions, server, user)
        self.commit(client, Change(0, 0, "open"))
        self.session_event(client, "connected")
        return client

    def at_one_server(self, number: int, served: str, server: int = 1) -> ClientSession:
        """Return a client with a session that no transaction opens."""
        self.sessions += 1
        client = ClientSession(number, 0x100 + self.sessions, server)
        self.session_event(client, "connected", served=served)
        return client

    def close(self, client: ClientSession, *gone: str) -> int:
        return self.commit(client, Change(0, 0, "close", gone=gone))

    def back(self, client: ClientSession, server: int = 1) -> None:
        """Disconnect the client, and connect it again."""
        self.session_event(client, "disconnected")
        self.commit(client, Change(0, 0, "attach"))
        self.session_event(client, "connected", server)

    # -- calls with replies ------------------------------------------------------------------------------

    def create(self, client: ClientSession, path: str, data: bytes = b"", mode: str = "", named: str = "") -> int:
        return self.create_for(client, path, data, mode, named)

    def create_for(
        self,
        client: ClientSession,
        path: str,
        data: bytes = b"",
        mode: str = "",
        named: str = "",
        *,
        acl: str = "",
        user: str = "",
    ) -> int:
        """Create a node with an ACL, as a user."""
        named = named or path
        call = self.invoke(client, Request("create", path, data, mode=mode, acl=acl, user=user))
        owner = client.session if "ephemeral" in mode else 0
        zxid = self.commit(client, self._made(named, data, mode, owner, acl, user))
        self.respond(call, Reply(zxid=zxid, path=named))
        return zxid

    @staticmethod
    def _made(path: str, data: bytes, mode: str, owner: int, acl: str, user: str) -> Change:
        passes = mode if mode in ("container", "ttl") else ""
        return Change(0, 0, "create", path, data, owner=owner, acl=acl.replace("auth", user), mode=passes)

    def set(
        self, client: ClientSession, path: str, data: bytes, becomes: int, expected: int = -1, stat: Stat | None = None
    ) -> int:
        call = self.invoke(client, Request("set", path, data, version=expected))
        zxid = self.commit(client, Change(0, 0, "set", path, data, becomes))
        self.respond(call, Reply(zxid=zxid, stat=stat))
        return zxid

    def delete(self, client: ClientSession, path: str, expected: int = -1) -> int:
        call = self.invoke(client, Request("delete", path, version=expected))
        zxid = self.commit(client, Change(0, 0, "delete", path))
        self.respond(call, Reply(zxid=zxid))
        return zxid

    def refuse(self, client: ClientSession, request: Request, *errors: str) -> int:
        """Refuse a request, with one error or with one for each part of a multi."""
        call = self.invoke(client, request)
        zxid = self.commit(client, *(Change(0, 0, "error") for _ in errors))
        if request.op == "multi":
            self.respond(call, Reply(zxid=zxid, parts=tuple(Reply(error) for error in errors)))
        else:
            self.respond(call, Reply(errors[0], zxid=zxid))
        return zxid

    def get(
        self, client: ClientSession, path: str, data: bytes | None, zxid: int | None = None, watch: str = ""
    ) -> None:
        call = self.invoke(client, Request("get", path, watch=watch))
        self.respond(call, Reply(zxid=self.zxid if zxid is None else zxid, data=data))

    def exists(self, client: ClientSession, path: str, there: bool, zxid: int | None = None, watch: str = "") -> None:
        call = self.invoke(client, Request("exists", path, watch=watch))
        self.respond(call, Reply("" if there else "NO_NODE", self.zxid if zxid is None else zxid))

    def children(self, client: ClientSession, path: str, *names: str, zxid: int | None = None, watch: str = "") -> None:
        call = self.invoke(client, Request("children", path, watch=watch))
        self.respond(call, Reply(zxid=self.zxid if zxid is None else zxid, children=names))

    def sync(self, client: ClientSession, zxid: int | None = None) -> None:
        call = self.invoke(client, Request("sync", "/"))
        self.respond(call, Reply(zxid=self.zxid if zxid is None else zxid, path="/"))

    def watch(self, client: ClientSession, path: str, mode: str, op: str = "watch", error: str = "") -> None:
        call = self.invoke(client, Request(op, path, watch=mode))
        self.respond(call, Reply(error, zxid=self.zxid))
