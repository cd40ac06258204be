"""One server of the store: a member, its sessions, and whoever is attached to them here.

Sessions are made, moved and closed by transactions. Only one thing about them is not in the history: when
each was last heard of. The leader keeps that for all; the others tell it of theirs twice a tick. A new
leader gives everybody the full time again.

While there is no leader nobody is turned away: writes wait in the member, reads wait at the door. But a
server that cannot reach a leader must not hold a client back until its session has ended elsewhere: after
a third of the session's time the connection is cut, and the client can try another server. The same goes
for one that is about to attach.
"""

from __future__ import annotations

import gc
import hmac
import os
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from random import Random
from typing import Final, Protocol

import trio

from zab.core.errors import ZabError
from zab.core.messages import State
from zab.core.zxid import Epoch
from zab.runtime.admin.pulse import WRITE_SAMPLES, Pulse
from zab.runtime.coordination.audit import Audit
from zab.runtime.coordination.backlog import Backlog
from zab.runtime.coordination.local import LocalSessions
from zab.runtime.coordination.machine import StoreMachine
from zab.runtime.coordination.membership import Membership
from zab.runtime.coordination.session import InProcessSession, opened
from zab.runtime.coordination.settings import DoorSettings
from zab.runtime.coordination.throttle import Bucket
from zab.runtime.doorbell import Doorbell
from zab.runtime.driver import now_ms
from zab.runtime.errors import Stopped
from zab.runtime.logs import Log
from zab.runtime.member import Member
from zab.runtime.origin import Done
from zab.runtime.requests import wall_ms
from zab.runtime.session.arguments import timeout_of
from zab.runtime.status import RoleChange
from zab.runtime.waiting import Waiter
from zab.store import reaper
from zab.store.acl import encode_identities
from zab.store.apply import Result
from zab.store.node import Node
from zab.store.ops import Fields, Op
from zab.store.request import INTERNAL, pack_body, pack_request
from zab.store.sessions import Expiry, SessionIds
from zab.store.watches import Watcher

SECRET_BYTES: Final = 32
NOBODY: Final = encode_identities(())
VERSION: Final = "3.9.5-zab, built on 11/20/2026 00:00 UTC"
"""Tools look at the number to know what they may ask for. Some insist on a date behind it, month first and with a
zone, as ZooKeeper wrote it until 3.5: `FLWSrvr` of go-zookeeper takes nothing else."""
_MODES: Final = {State.LEADING: "leader", State.FOLLOWING: "follower", State.OBSERVING: "observer"}
_ASIDE_SESSIONS_MAX: Final = 10_000
REAPS_PER_MINUTE: Final = 60
"""Containers go in so many parts, not all at once."""
_ALIVE: Final = b"a"
"""The first byte of an aside: ids of sessions that were heard of follow, or the report of a server."""
_REPORT: Final = b"r"
PATIENCE: Final = 3
"""A client is let go after this part of its session's time without a leader."""


class Attached(Protocol):
    """Who has a session here."""

    @property
    def session(self) -> int: ...
    @property
    def timeout_ms(self) -> int: ...
    @property
    def read_only(self) -> bool:
        """It knows that there is no leader, and wants to read all the same."""
        ...

    def heard_of(self) -> bool:
        """Whether it gave a sign of life since it was asked for the last time."""

    def ended(self, why: str) -> None:
        """The session is closed, has moved, or is better served elsewhere."""


class Flushes(Protocol):
    def flush(self) -> None: ...


class Connected(Watcher, Protocol):
    """A connection of a client, as it is looked at from outside."""

    peer: str
    session: int
    timeout_ms: int
    read_only: bool
    received: int
    sent: int
    established_ms: int
    """Wall clock."""

    @property
    def queued(self) -> int: ...
    @property
    def unsent(self) -> int: ...
    def resume(self) -> None: ...
    def cut(self, why: str) -> None: ...


class Latency:
    """From the receiving of a batch of requests to the last of its replies."""

    def __init__(self) -> None:
        self.count = 0
        self.sum = self._max = 0.0
        self._min = float("inf")

    def add(self, seconds: float) -> None:
        self.count += 1
        self.sum += seconds
        self._min = min(self._min, seconds)
        self._max = max(self._max, seconds)

    @property
    def milliseconds(self) -> tuple[int, float, int]:
        """Least, mean, most."""
        if not self.count:
            return 0, 0.0, 0
        return int(self._min * 1000), self.sum / self.count * 1000, int(self._max * 1000)


class Traffic:
    """Of connections that are closed."""

    received = 0
    sent = 0


def ignore(result: object, error: Exception | None) -> None:
    """Nobody waits for this."""


class StoreServer:
    """`session()` is for you; the rest is for the doors."""

    def __init__(self, machine: StoreMachine, member: Member, settings: DoorSettings) -> None:
        self.machine = machine
        self.member = member
        self.settings = settings
        self.me = member.me
        self.log = Log(member.me, lambda: Epoch(0) if self.role is None else self.role.epoch)
        self.role: RoleChange | None = None
        self.ready = False
        """Whether the state may be read here and now."""
        self.over: str | None = None
        """Why it is closed."""
        self.client_port: int | None = None
        self.secure_client_port: int | None = None
        self.audit = None if settings.audit is None else Audit(settings.audit)
        self.admin_port: int | None = None
        self.attached: dict[int, Attached] = {}
        self.connections: dict[Connected, None] = {}
        self._arriving: dict[trio.CancelScope, tuple[int, int]] = {}
        """Who waits for a session: since when, and for how long a session."""
        self.sessions: dict[InProcessSession, None] = {}
        """Those in this process."""
        self.open_requests = 0
        self.auth_failed = 0
        self.large_bytes = 0
        self.bucket = Bucket(settings.throttle, Random(os.urandom(16)).random, now_ms())
        self.latency = Latency()
        self.gone = Traffic()
        self.started_ms = now_ms()
        self.local = LocalSessions(settings.tick_ms)
        self.version = VERSION
        self.trace_mask = 306
        """Has no effect: it is kept for who sets it and asks for it."""
        self.pulse = Pulse(self)
        self._spared: dict[str, Node] | None = None
        self._restoring = False
        self._ids = SessionIds(member.me, wall_ms())
        self._posts = 0
        self._waiting: deque[tuple[bytes, Done]] = deque()
        self._dirty: list[Flushes] = []
        self._bell = Doorbell()
        self._became_ready = trio.Event()
        self._expiry: Expiry | None = None
        self._expiry_epoch = self._led_epoch = Epoch(-1)
        self.leading_since_ms = self.started_ms
        self._lost_ms: int | None = self.started_ms
        """Since when nobody leads, as far as is known here."""
        self.membership = Membership(self)
        machine.observer = self
        member.on_aside(self._heard)
        member.on_turn(self._flush)
        member.on_notice(self.pulse.noticed)

    def __repr__(self) -> str:
        port = "" if self.client_port is None else f", clients at port {self.client_port}"
        return f"<{type(self).__name__} {self.me} at {self.member.path}, {self.over or self.mode}{port}>"

    # -- for you -----------------------------------------------------------------------------------

    def session(self, timeout_ms: int = 10_000) -> AbstractAsyncContextManager[InProcessSession]:
        """A session in this process, for as long as the block lasts; so do its ephemerals."""
        return opened(self, self.settings.timeout_ms(timeout_of(timeout_ms)))

    # -- its tasks ---------------------------------------------------------------------------------

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._follow_roles)
            nursery.start_soon(self._flush_when_rung)
            nursery.start_soon(self._tick)
            nursery.start_soon(Backlog(self.settings.unsent_total_bytes_max, self.log).watch, self.connections)
            nursery.start_soon(self._reap)
            nursery.start_soon(self.pulse.run)

    async def _follow_roles(self) -> None:
        async for role in self.member.roles():
            self.role = role
            if not role.serving:
                self._lost_ms = self._lost_ms or now_ms()
            else:
                self._lost_ms = None
            self._consider()
            if self.leading and self._expiry_epoch == role.epoch != self._led_epoch:
                self._led_epoch, self.leading_since_ms = role.epoch, now_ms()
            self.pulse.role_changed(role, self.mode)

    def _consider(self) -> None:
        role = self.role
        self.ready = role is not None and role.serving and not self._restoring
        if not self.leading:
            self._expiry = None
        elif role is not None and (self._expiry is None or role.epoch != self._expiry_epoch):
            self._expiry, self._expiry_epoch = Expiry(self.settings.tick_ms), role.epoch
            self._touch(self.machine.sessions.table)
        if self.ready or self._restoring:
            for connection in [each for each in self.connections if each.read_only]:
                if not self.settings.local_sessions_enabled:
                    self.local.forget(connection.session)
                connection.cut("there is a leader again: who comes back may write, too")
        if self.ready:
            self._became_ready.set()
            self._became_ready = trio.Event()
            for connection in list(self.connections):
                connection.resume()
        for session in self.sessions:
            session.ready_changed(self.ready)

    @property
    def read_only(self) -> bool:
        """There has been no leader for so long that whoever accepts it may read what was known last."""
        return (
            self.settings.read_only_mode_enabled
            and self._lost_ms is not None
            and not self._restoring
            and now_ms() - self._lost_ms >= self.settings.read_only_after_ms
        )

    async def ready_or_read_only(self) -> bool:
        """Waits for either; whether it is the latter."""
        while not self.ready and not self.read_only:
            since_ms = now_ms() - (self._lost_ms or now_ms())
            with trio.move_on_after(max(self.settings.read_only_after_ms - since_ms, 10) / 1000):
                await self._became_ready.wait()
        return not self.ready

    @property
    def mode(self) -> str:
        """In the words of ZooKeeper's tools."""
        role = self.role
        if role is None or not role.serving:
            return "read-only" if self.read_only else "looking"
        alone = len(self.member.status().ensemble.servers) == 1
        return "standalone" if alone else _MODES.get(role.state, "looking")

    def traffic(self) -> tuple[int, int]:
        """Requests received, and replies and events sent, through the client port."""
        received = sum(connection.received for connection in self.connections)
        sent = sum(connection.sent for connection in self.connections)
        return received + self.gone.received, sent + self.gone.sent

    @property
    def leading(self) -> bool:
        role = self.role
        return role is not None and role.serving and role.state is State.LEADING

    def stop(self) -> None:
        """When its tasks have ended: whoever still waits for this store hears that it is no more."""
        stopped = self.member.stopped or Stopped("this store was closed")
        self.over = "the store was closed" if stopped.__cause__ is None else f"the store failed: {stopped.__cause__}"
        self.ready = False
        for session in self.sessions:
            session.store_closed(self.over)
        self._became_ready.set()
        waiting, self._waiting = self._waiting, deque()
        for _, done in waiting:
            done(None, stopped)

    # -- requests ----------------------------------------------------------------------------------

    def post(self, request: bytes, done: Done) -> None:
        """To the leader, in the order of the calls. `done` is called in the event loop, maybe at once with an error."""
        self.post_many((request,), done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        """All that came at once; `done` is called for each of them, in their order."""
        sampled = self._posts % WRITE_SAMPLES + len(requests) >= WRITE_SAMPLES
        self._posts += len(requests)
        if sampled:
            self._post(requests[:1], self.pulse.timed(done))
            requests = requests[1:]
        self._post(requests, done)

    def _post(self, requests: Sequence[bytes], done: Done) -> None:
        taken = 0
        if not self._waiting:
            try:
                taken = self.member.post_many(requests, done)
            except ZabError as error:
                for _ in requests:
                    done(None, error)
                return
        self._waiting += [(request, done) for request in requests[taken:]]

    def _post_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        while waiting and not self._waiting:
            request, done = waiting.popleft()
            self._post((request,), done)
        self._waiting += waiting

    async def ask(self, request: bytes) -> Result:
        waiter = Waiter()
        self.post(request, waiter.done)
        result: Result = await waiter.wait()  # type: ignore[assignment]  # it is what `apply` of the machine returned
        return result

    def internal(self, op: Op, fields: Fields, session: int = 0) -> bytes:
        return pack_request(op, pack_body(fields), session, 0, self.me, NOBODY, INTERNAL)

    def reset_statistics(self) -> None:
        self.latency, self.gone = Latency(), Traffic()

    async def readable(self) -> None:
        """Until the state may be looked at, or the store is closed."""
        if self.ready:
            await trio.lowlevel.checkpoint()
        while not self.ready and self.over is None:
            await self._became_ready.wait()

    # -- one turn, one send ------------------------------------------------------------------------

    def dirty(self, connection: Flushes) -> None:
        """It has something to send: when this turn of the loop is over, all of it goes out at once."""
        if not self._dirty and not self.member.turning:
            self._bell.ring()
        self._dirty.append(connection)

    async def _flush_when_rung(self) -> None:
        while True:
            await self._bell.wait()
            self._flush()

    def _flush(self) -> None:
        """Also at the end of each turn of the member: most answers are found there."""
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            for connection in dirty:
                connection.flush()
        if self._waiting:
            self._post_waiting()

    # -- sessions ----------------------------------------------------------------------------------

    def _draw_secret(self, done: Done = ignore) -> None:
        """Only the first one counts, whoever proposes it."""
        self.post(self.internal(Op.SET_SECRET, (os.urandom(SECRET_BYTES),)), done)

    async def create_local_session(self, timeout_ms: int, *, read_only: bool = False) -> int:
        if not self.machine.sessions.secret and not read_only:
            waiter = Waiter()  # else its password would be another one once it is known to all
            self._draw_secret(waiter.done)
            await waiter.wait()
        session = self._ids.next()
        self.local.add(session, timeout_ms, now_ms())
        return session

    def upgrade_session(self, session: int) -> None:
        """What is posted from here on is asked by a session like any other: its creation comes first."""
        timeout_ms = self.local.rise(session)

        def done(result: object, error: Exception | None) -> None:
            self.local.forget(session)

        self.post(self.internal(Op.CREATE_SESSION, (timeout_ms,), session), done)

    def knows(self, session: int) -> bool:
        return session in self.machine.sessions.table or session in self.local

    def password(self, session: int) -> bytes:
        sessions = self.machine.sessions
        return sessions.password(session) if sessions.secret else self.local.password(session)

    def attach_read_only(self, session: int, password: bytes | None) -> int | None:
        """The session's timeout, or None. Whoever leads elsewhere does not hear of it."""
        if password is None or not self.knows(session) or not hmac.compare_digest(self.password(session), password):
            return None
        known = self.machine.sessions.table.get(session)
        return self.local.timeout_ms(session) if known is None else known[0]

    async def create_session(self, timeout_ms: int) -> int:
        if not self.machine.sessions.secret:
            self._draw_secret()
        session = self._ids.next()
        try:
            _, error, *_ = await self.ask(self.internal(Op.CREATE_SESSION, (timeout_ms,), session))
        except trio.Cancelled:
            self.close_session(session)  # behind its creation, in the same order
            raise
        assert not error, f"session {session:#x} was given out twice"
        return session

    async def attach_session(self, session: int, password: bytes | None) -> int | None:
        """The session's timeout, or None: there is no such session, or not with this password."""
        if session in self.local and not self.local.is_rising(session):
            return self.attach_read_only(session, password)
        sessions = self.machine.sessions
        if session not in sessions.table and not self.local.is_rising(session):
            await self.member.barrier()  # it may have been made elsewhere a moment ago
        sessions = self.machine.sessions
        if not self.knows(session) or not sessions.password_is(session, password):
            return None
        _, error, *_ = await self.ask(self.internal(Op.ATTACH_SESSION, (), session))
        known = self.machine.sessions.table.get(session)
        return None if error or known is None else known[0]

    def close_session(self, session: int, done: Done = ignore) -> None:
        self.post(self.internal(Op.CLOSE_SESSION, (), session), done)

    def attach(self, client: Attached) -> None:
        old = self.attached.get(client.session)
        self.attached[client.session] = client
        if old is not None:
            old.ended("the client is back on another connection")

    def detach(self, client: Attached) -> None:
        if self.attached.get(client.session) is client:
            del self.attached[client.session]

    def session_changed(self, session: int) -> None:
        known = self.machine.sessions.table.get(session)
        client = self.attached.get(session)
        if known is None and session in self.local:
            return
        if known is None:
            if self._expiry is not None:
                self._expiry.forget(session)
            if client is not None:
                client.ended("the session is closed")
            return
        if self._expiry is not None:
            self._expiry.touch(session, known[0], now_ms())
        if client is not None and known[1] != self.me:
            client.ended("the session has moved to another server")

    def session_closes(self, session: int, owned: Iterable[str]) -> None:
        if self.audit is not None and self.ready:  # else it is an old story, told again from the disk
            self.audit.session_ended(session, owned)

    def session_ends(self) -> list[tuple[int, list[int]]]:
        """At the leader: when which sessions will have ended if nothing is heard of them."""
        return [] if self._expiry is None else self._expiry.buckets()

    # -- signs of life -----------------------------------------------------------------------------

    def _touch(self, sessions: Iterable[int]) -> None:
        expiry, table, now = self._expiry, self.machine.sessions.table, now_ms()
        if expiry is not None:
            for session in sessions:
                known = table.get(session)
                if known is not None:
                    expiry.touch(session, known[0], now)

    def tell_leader(self, report: bytes) -> None:
        self.member.aside(_REPORT + report)

    def _heard(self, body: bytes) -> None:
        kind, rest = body[:1], body[1:]
        if kind == _ALIVE and len(rest) % 8 == 0:
            self._touch(struct.unpack(f">{len(rest) // 8}q", rest))
        elif kind == _REPORT:
            self.pulse.heard(rest)

    async def _tick(self) -> None:
        pause_ms = self.settings.tick_ms // 2
        while True:
            before = now_ms()
            await trio.sleep(pause_ms / 1000)
            now = now_ms()
            self._spare_the_collector()
            alive = [session for session, client in self.attached.items() if client.heard_of()]
            if self.local:
                self._keep_local(alive, now)
            expiry = self._expiry
            if expiry is not None:
                self._touch(alive)
                if now - before > 3 * pause_ms:
                    # It was this process that slept. Whoever called meanwhile was not heard, and is not to blame.
                    self._touch(self.machine.sessions.table)
                for session in expiry.due(now):
                    self.log.say("session_expired", session=f"{session:#x}")
                    self.close_session(session)
            elif self.ready:
                for start in range(0, len(alive), _ASIDE_SESSIONS_MAX):
                    part = alive[start : start + _ASIDE_SESSIONS_MAX]
                    self.member.aside(_ALIVE + struct.pack(f">{len(part)}q", *part))
            elif self._lost_ms is not None:
                for client in list(self.attached.values()):
                    if (now - self._lost_ms) * PATIENCE > client.timeout_ms and not client.read_only:
                        client.ended("no leader can be reached from here")
                for scope, (since_ms, timeout_ms) in self._arriving.items():
                    if (now - max(since_ms, self._lost_ms)) * PATIENCE > timeout_ms:
                        scope.cancel()

    @contextmanager
    def arriving(self, scope: trio.CancelScope, timeout_ms: int) -> Iterator[None]:
        """Around the making or finding of a session, which waits for a leader no longer than an attached client does.

        The session of a client that comes back runs out meanwhile, and another server may be able to take it.
        """
        self._arriving[scope] = (now_ms(), timeout_ms)
        try:
            yield
        finally:
            del self._arriving[scope]

    def _spare_the_collector(self) -> None:
        """It would walk all nodes again and again, a tenth of a second for a million, and find nothing to collect.

        Once for a large tree; what else there is at that moment is spared as well, and what of that is garbage in
        cycles stays for good.
        """
        nodes = self.machine.tree.nodes
        if len(nodes) >= self.settings.nodes_spared_min and nodes is not self._spared:
            self._spared = nodes
            gc.freeze()

    def _keep_local(self, alive: list[int], now: int) -> None:
        self.local.touch(alive, now)
        for session in self.local.due(now):
            client = self.attached.get(session)
            if client is not None:
                client.ended("the session is over: nothing was heard of it")

    async def _reap(self) -> None:
        pause_ms = self.settings.containers_ms
        while True:
            await trio.sleep(pause_ms / 1000)
            if not self.leading or self._restoring:
                continue
            settings = self.settings
            most = settings.containers_per_minute_max
            paths = reaper.candidates(self.machine.tree, wall_ms(), settings.containers_never_used_ms, most)
            part = max(1, most // REAPS_PER_MINUTE)
            for start in range(0, len(paths), part):
                for path in paths[start : start + part]:
                    self.post(self.internal(Op.DELETE_CONTAINER, (path,)), ignore)
                if start + part < len(paths):
                    await trio.sleep(60 / REAPS_PER_MINUTE)

    # -- a state that came as a whole --------------------------------------------------------------

    def restore_begins(self) -> None:
        self._restoring = True
        self._consider()

    def restore_ended(self) -> None:
        """The other half of `restore_begins`; whether or not the restore succeeded."""
        self._restoring = False
        self._spare_the_collector()
        self.machine.deliver_missed()
        self.membership.restored()
        for session in list(self.attached):
            self.session_changed(session)
        self._consider()
