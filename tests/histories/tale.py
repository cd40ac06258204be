"""Histories written by hand, in as few words as a person needs to see what is wrong with them.

    t = Tale()
    ann = t.client(1)
    t.create(ann, "/x", b"1")
    t.get(ann, "/x", b"2")      # nobody wrote that

Time goes on by ten with each thing that happens. Zxids are counted from 1, and each reply bears the newest unless said
otherwise. Nothing is checked here: what is told is told.
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
class Who:
    client: int
    session: int
    server: int
    user: str = ""


@define
class Tale:
    now: int = 0
    zxid: int = 0
    calls: int = 0
    sessions: int = 0
    events: list[Event] = field(factory=list)
    changes: list[Change] = field(factory=list)
    asked: dict[int, Invoke] = field(factory=dict)
    jumps: list[Jump] | None = field(factory=list)

    def history(self) -> History:
        jumps = None if self.jumps is None else tuple(self.jumps)
        return History(tuple(self.events), tuple(self.changes), jumps)

    # -- what is seen and decided, one by one ------------------------------------------------------

    def later(self) -> int:
        self.now += 10
        return self.now

    def commit(self, who: Who | None, *changes: Change) -> int:
        """Under one zxid."""
        self.zxid += 1
        for part, change in enumerate(changes):
            session = change.session or (0 if who is None else who.session)
            self.changes.append(evolve(change, zxid=self.zxid, session=session, part=part))
        return self.zxid

    def ask(self, who: Who, request: Request) -> int:
        self.calls += 1
        asked = Invoke(self.later(), who.client, who.session, self.calls, who.server, request)
        self.asked[self.calls] = asked
        self.events.append(asked)
        return self.calls

    def tell(self, call: int, reply: Reply) -> None:
        asked = self.asked[call]
        self.events.append(Response(self.later(), asked.client, asked.session, call, reply))

    def lose(self, call: int) -> None:
        asked = self.asked[call]
        self.events.append(Info(self.later(), asked.client, asked.session, call))

    def fire(self, who: Who, event: str, path: str, zxid: int | None = None) -> None:
        at = self.zxid if zxid is None else zxid
        self.events.append(WatchFired(self.later(), who.client, who.session, event, path, at))

    def became(self, who: Who, state: str, server: int | None = None, served: str = "") -> None:
        who.server = who.server if server is None else server
        user = who.user if state == "connected" else ""
        at = self.later()
        self.events.append(
            SessionEvent(at, who.client, who.session, state, who.server, 4_000, user=user, served=served)
        )

    # -- sessions ----------------------------------------------------------------------------------

    def client(self, number: int, server: int = 1, user: str = "") -> Who:
        self.sessions += 1
        who = Who(number, 0x100 + self.sessions, server, user)
        self.commit(who, Change(0, 0, "open"))
        self.became(who, "connected")
        return who

    def at_one_server(self, number: int, served: str, server: int = 1) -> Who:
        """A client whose session no transaction opens."""
        self.sessions += 1
        who = Who(number, 0x100 + self.sessions, server)
        self.became(who, "connected", served=served)
        return who

    def close(self, who: Who, *gone: str) -> int:
        return self.commit(who, Change(0, 0, "close", gone=gone))

    def back(self, who: Who, server: int = 1) -> None:
        """Its connection breaks, and it comes again."""
        self.became(who, "disconnected")
        self.commit(who, Change(0, 0, "attach"))
        self.became(who, "connected", server)

    # -- calls, asked and answered -----------------------------------------------------------------

    def create(self, who: Who, path: str, data: bytes = b"", mode: str = "", named: str = "") -> int:
        return self.create_for(who, path, data, mode, named)

    def create_for(
        self, who: Who, path: str, data: bytes = b"", mode: str = "", named: str = "", *, acl: str = "", user: str = ""
    ) -> int:
        """With a list, by a user."""
        named = named or path
        call = self.ask(who, Request("create", path, data, mode=mode, acl=acl, user=user))
        owner = who.session if "ephemeral" in mode else 0
        zxid = self.commit(who, self._made(named, data, mode, owner, acl, user))
        self.tell(call, Reply(zxid=zxid, path=named))
        return zxid

    @staticmethod
    def _made(path: str, data: bytes, mode: str, owner: int, acl: str, user: str) -> Change:
        passes = mode if mode in ("container", "ttl") else ""
        return Change(0, 0, "create", path, data, owner=owner, acl=acl.replace("auth", user), mode=passes)

    def set(self, who: Who, path: str, data: bytes, becomes: int, expected: int = -1, stat: Stat | None = None) -> int:
        call = self.ask(who, Request("set", path, data, version=expected))
        zxid = self.commit(who, Change(0, 0, "set", path, data, becomes))
        self.tell(call, Reply(zxid=zxid, stat=stat))
        return zxid

    def delete(self, who: Who, path: str, expected: int = -1) -> int:
        call = self.ask(who, Request("delete", path, version=expected))
        zxid = self.commit(who, Change(0, 0, "delete", path))
        self.tell(call, Reply(zxid=zxid))
        return zxid

    def refuse(self, who: Who, request: Request, *errors: str) -> int:
        """One error, or one for each part of a multi."""
        call = self.ask(who, request)
        zxid = self.commit(who, *(Change(0, 0, "error") for _ in errors))
        if request.op == "multi":
            self.tell(call, Reply(zxid=zxid, parts=tuple(Reply(error) for error in errors)))
        else:
            self.tell(call, Reply(errors[0], zxid=zxid))
        return zxid

    def get(self, who: Who, path: str, data: bytes | None, zxid: int | None = None, watch: str = "") -> None:
        call = self.ask(who, Request("get", path, watch=watch))
        self.tell(call, Reply(zxid=self.zxid if zxid is None else zxid, data=data))

    def exists(self, who: Who, path: str, there: bool, zxid: int | None = None, watch: str = "") -> None:
        call = self.ask(who, Request("exists", path, watch=watch))
        self.tell(call, Reply("" if there else "NO_NODE", self.zxid if zxid is None else zxid))

    def children(self, who: Who, path: str, *names: str, zxid: int | None = None, watch: str = "") -> None:
        call = self.ask(who, Request("children", path, watch=watch))
        self.tell(call, Reply(zxid=self.zxid if zxid is None else zxid, children=names))

    def sync(self, who: Who, zxid: int | None = None) -> None:
        call = self.ask(who, Request("sync", "/"))
        self.tell(call, Reply(zxid=self.zxid if zxid is None else zxid, path="/"))

    def watch(self, who: Who, path: str, mode: str, op: str = "watch", error: str = "") -> None:
        call = self.ask(who, Request(op, path, watch=mode))
        self.tell(call, Reply(error, zxid=self.zxid))
