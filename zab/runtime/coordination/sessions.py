"""The sessions of a server's clients: made, attached and closed by transactions, or known to this server alone.

Only the first frame of a client, and the end of its connection, lead here: nothing of this is on the way of a request.
"""

from __future__ import annotations

import hmac
from typing import Final

import trio

from zab.core.zxid import Epoch
from zab.runtime.coordination.attached import Attached
from zab.runtime.coordination.local import LocalSessions
from zab.runtime.coordination.machine import StoreMachine
from zab.runtime.coordination.posting import Posting, ignore
from zab.runtime.coordination.settings import DoorSettings
from zab.runtime.driver import now_ms
from zab.runtime.member import Member
from zab.runtime.origin import Done
from zab.runtime.waiting import Waiter
from zab.store.ops import Op
from zab.store.sessions import SessionIds

SECRET_BYTES: Final = 32


class Sessions(Posting):
    def __init__(self, machine: StoreMachine, member: Member, settings: DoorSettings) -> None:
        super().__init__(member)
        self.machine = machine
        self.settings = settings
        self.attached: dict[int, Attached] = {}
        self.local = LocalSessions(settings.tick_ms)
        self._ids = SessionIds(member.me, member.host.wall_ms())

    def _draw_secret(self, done: Done = ignore) -> None:
        """Only the first one counts, whoever proposes it."""
        self.post(self.internal(Op.SET_SECRET, (self.member.host.random_bytes(SECRET_BYTES),)), done)

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
        if session in self.attached:
            # What is held back of its old connection must not come behind this. If the client goes on elsewhere before
            # this is answered, asks for more there, and another leader is asked for this, it would be done after that.
            self.attached[session].ended("the client is back on another connection")
        _, error, *_ = await self.ask(self.internal(Op.ATTACH_SESSION, (), session))
        known = self.machine.sessions.table.get(session)
        return None if error or known is None else known[0]

    def close_session(self, session: int, done: Done = ignore) -> None:
        self.post(self.internal(Op.CLOSE_SESSION, (), session), done)

    def expire_session(self, session: int, epoch: Epoch) -> None:
        """By who leads, and only as long as that is so: whoever leads next gives everybody the full time again."""
        self.post(self.internal(Op.CLOSE_SESSION, (epoch,), session), ignore)

    def attach(self, client: Attached) -> None:
        old = self.attached.get(client.session)
        self.attached[client.session] = client
        if old is not None:
            old.ended("the client is back on another connection")

    def detach(self, client: Attached) -> None:
        if self.attached.get(client.session) is client:
            del self.attached[client.session]
