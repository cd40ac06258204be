"""The clients of one server: who is attached, which sessions are made, found and ended, and what is posted for them.

It stands for `Sessions`, `Posting` and the greeting of `zab.runtime.coordination`, where tasks of Trio wait for what
is written here as what is to be done then. Whose session ends, and who is let go without a leader, is decided by the
`SessionTracker` that is shipped. Sessions that only one server knows, read-only mode and throttles are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from random import Random
from typing import TYPE_CHECKING, Final, TypeAlias

from harness.checkers.ghost import Violation
from harness.worlds.cores.store.calls import Call, Hello, Left
from harness.worlds.cores.store.checks import ATTACHED, LEADS, TIME
from harness.worlds.cores.store.connection import Connection
from zab.core.messages import State
from zab.core.zxid import Epoch, Zxid
from zab.runtime.coordination.local import LocalSessions
from zab.runtime.coordination.tracker import ALIVE, SessionTracker
from zab.runtime.origin import Submission
from zab.store import reaper
from zab.store.acl import encode_identities
from zab.store.ops import Fields, Op
from zab.store.request import INTERNAL, pack_body, pack_request
from zab.store.sessions import SessionIds
from zab.store.watches import Watcher

if TYPE_CHECKING:
    from harness.worlds.cores.store.server import StoreServer
    from harness.worlds.cores.store.wire import Wire

NOBODY: Final = encode_identities(())
SECRET_BYTES: Final = 32
CONTAINERS_MS: Final = 100
"""Between two looks at the nodes that go by themselves: much more often than in life."""
TICKS_MIN, TICKS_MAX = 2, 20
"""The bounds of a session's time."""

Done: TypeAlias = Callable[[object, Exception | None], None]


def ignore(result: object, error: Exception | None) -> None:
    """Nobody waits for this."""


class _Arrival:
    """A client that waits for a session, as the tracker knows it."""

    def __init__(self, door: Door, connection: Connection) -> None:
        self._door = door
        self._connection = connection

    def cancel(self) -> None:
        self._door.given_up.append(self._connection)


class Door:
    """For one life of a server."""

    def __init__(self, server: StoreServer) -> None:
        self.server = server
        self.world = server.world
        self.store = server.machine.store
        self.store.observer = self
        self.ready = False
        """Whether the state may be read here and now."""
        self.attached: dict[int, Connection] = {}
        self.connections: dict[Connection, None] = {}
        self._requests = server.requests
        self._requests.hears = self._heard
        self._random = Random(f"{self.world.script.seed}/door/{server.id}/{server.life}")
        self._ids = SessionIds(server.id, server.wall_ms())
        self.tick_ms = server.knobs.tick_ms
        self.local = LocalSessions(self.tick_ms)
        """None."""
        self.tracker = SessionTracker(self, lambda: server.now_ms)
        self._leads: Epoch | None = None
        self._heard_at: dict[int, int] = {}
        """By the same leader, of each session, whatever the tracker makes of it: to judge the ends by."""
        self.lost_ms: int | None = server.now_ms
        """Since when nobody leads, as far as is known here."""
        self._arriving: dict[Connection, ExitStack] = {}
        self._asked: dict[Connection, tuple[Submission, int]] = {}
        """Who waits for an answer about a session, and which one is made for it."""
        self._told_alive: list[int] = []
        """To the leader, at the last look."""
        self.given_up: list[Connection] = []
        """Who need not wait here any longer."""
        self._looked_ms = self._reaped_ms = server.now_ms
        self._dirty: list[Connection] = []
        self._posted = False
        self.world.push(self.world.now + self.tick_ms * 500, self._look, server.life, None)

    @property
    def cut_off_ms(self) -> int | None:
        return self.server.node.cut_off_since

    # -- the server's turn -----------------------------------------------------------------------------

    def role_changed(self) -> None:
        node = self.server.node
        ready = node.serving
        if ready and node.state is State.LEADING:
            if self._leads != node.epoch:
                self._leads = node.epoch
                self._heard_at.clear()
                self._hears(self.known)
            self.tracker.lead(node.epoch)
        else:
            self._leads = None
            self.tracker.rest()
        if ready is not self.ready:
            self.ready = ready
            self.lost_ms = None if ready else self.server.now_ms
            if ready:
                for connection in list(self.connections):
                    connection.resume()

    def turned(self) -> None:
        """The member has done what there was to do: all that was found in it for clients leaves now."""
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            for connection in dirty:
                connection.flush()
        if self._posted:
            self.wake()

    def wake(self) -> None:
        if self._posted:
            self._posted = False
            self.server.wake()

    def dirty(self, connection: Connection) -> None:
        self._dirty.append(connection)

    def restored(self) -> None:
        """The state is another one, further on: who sat through it is told what can be seen of what was missed."""
        self.store.deliver_missed()
        for session in list(self.attached):
            self.session_changed(session)

    def cut(self) -> None:
        """Every connection breaks. That it did, this server learns as late as its clients, if it still lives."""
        for connection in list(self.connections):
            connection.wire.broken()

    # -- requests --------------------------------------------------------------------------------------

    def post_for(self, connection: Connection, asked: Call | Left, cxid: int, done: Done) -> None:
        op, fields = (asked.op, asked.fields) if isinstance(asked, Call) else (Op.CLOSE_SESSION, ())
        self._post(
            pack_request(op, pack_body(fields), connection.session, cxid, self.server.id, connection.encoded), done
        )

    def _post_own(self, op: int, fields: Fields, session: int, done: Done = ignore) -> Submission:
        return self._post(pack_request(op, pack_body(fields), session, 0, self.server.id, NOBODY, INTERNAL), done)

    def _post(self, request: bytes, done: Done) -> Submission:
        self._posted = True
        return self._requests.origin.submit(request, done)

    def barrier(self, done: Done, session: int = 0) -> None:
        """In front of a session's sync the leader is told of it: the answer shows that it was heard."""
        self._posted = True
        self._requests.barrier(done, self.tracker.word_of(session) if session else b"")

    def told(self, zxid: int) -> None:
        self.world.workload.told(self.server, Zxid(zxid))

    # -- sessions --------------------------------------------------------------------------------------

    def opened(self, wire: Wire) -> Connection:
        connection = Connection(self, wire)
        self.connections[connection] = None
        return connection

    def closed(self, connection: Connection) -> None:
        self.connections.pop(connection, None)
        self._arrived(connection)
        asked, made = self._asked.pop(connection, (None, 0))
        if asked is not None and connection.let_go:  # whose end is only seen here is still waited for
            self._requests.origin.cancel(asked)
            if made:
                self._post_own(Op.CLOSE_SESSION, (), made)
        if self.attached.get(connection.session) is connection:
            del self.attached[connection.session]
        self.store.watches.drop(connection)

    def greeted(self, connection: Connection, hello: Hello) -> None:
        """Never shows a session a state older than it has seen."""
        if hello.user:
            connection.is_of(hello.user)
        connection.timeout_ms = max(TICKS_MIN * self.tick_ms, min(hello.timeout_ms, TICKS_MAX * self.tick_ms))
        waits = self._arriving[connection] = ExitStack()
        waits.enter_context(self.tracker.arriving(_Arrival(self, connection), connection.timeout_ms))

        def caught_up(_: object, error: Exception | None) -> None:
            if connection.over:
                return
            if error is not None or hello.seen > self.store.zxid:
                connection.cut()  # it has seen another history than ours, which is not for us to answer
            elif hello.session:
                self._find(connection, hello)
            else:
                self._make(connection)

        if hello.seen > self.store.zxid:
            self.barrier(caught_up)
        else:
            caught_up(None, None)

    def _arrived(self, connection: Connection) -> None:
        waits = self._arriving.pop(connection, None)
        if waits is not None:
            waits.close()

    def _make(self, connection: Connection) -> None:
        if not self.store.sessions.secret:  # only the first one counts, whoever proposes it
            self._post_own(Op.SET_SECRET, (self._random.randbytes(SECRET_BYTES),), 0)
        session = self._ids.next()

        def made(result: object, error: Exception | None) -> None:
            if error is None:
                assert not result[1], f"session {session:#x} was given out twice"  # type: ignore[index]
            self._establish(connection, session, error)

        self._asked[connection] = self._post_own(Op.CREATE_SESSION, (connection.timeout_ms,), session, made), session

    def _find(self, connection: Connection, hello: Hello) -> None:
        session = hello.session

        def attached(result: object, error: Exception | None) -> None:
            if error is None and result[1]:  # type: ignore[index]
                self._expired(connection)
            else:
                self._establish(connection, session, error)

        def attach(_: object, error: Exception | None) -> None:
            if connection.over:
                return
            sessions = self.store.sessions
            if error is not None:
                connection.cut()
            elif session not in sessions.table or not sessions.password_is(session, hello.password):
                self._expired(connection)
            else:
                old = self.attached.get(session)
                if old is not None:
                    old.cut()  # what it holds back must not come behind this
                self._asked[connection] = self._post_own(Op.ATTACH_SESSION, (), session, attached), 0

        if session in self.store.sessions.table:
            attach(None, None)
        else:
            self.barrier(attach)  # it may have been made elsewhere a moment ago

    def _expired(self, connection: Connection) -> None:
        connection.welcome(0, b"", 0)
        connection.finish()

    def _establish(self, connection: Connection, session: int, error: Exception | None) -> None:
        known = self.store.sessions.table.get(session)
        self._asked.pop(connection, None)
        if connection.over:
            return
        if error is not None or known is None:
            connection.cut()
            return
        self._arrived(connection)
        connection.session, connection.timeout_ms = session, known[0]
        old = self.attached.get(session)
        self.attached[session] = connection
        if old is not None:
            old.cut()  # the client is back on another connection
        connection.welcome(session, self.store.sessions.password(session), known[0])
        connection.resume()

    # -- told by the machine ---------------------------------------------------------------------------

    def session_changed(self, session: int) -> None:
        known = self.store.sessions.table.get(session)
        client = self.attached.get(session)
        if known is None:
            self.tracker.forget(session)
            if client is not None and not client.leaving:  # else it is its own wish, and the reply is on its way
                client.cut()
            return
        self._hears((session,))
        self.tracker.touch((session,))
        if client is not None and known[1] != self.server.id:
            client.cut()  # it has moved to another server

    def happened(self, watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None:
        for watcher in watchers:
            watcher.happened(event, path, zxid)  # type: ignore[attr-defined]  # all who watch here are connections

    def prepared(self, zxid: int, applied: int) -> None:
        self.world.prepared[zxid] = applied

    # -- signs of life ---------------------------------------------------------------------------------

    @property
    def known(self) -> dict[int, tuple[int, int]]:
        return self.store.sessions.table

    def _hears(self, sessions: Iterable[int]) -> None:
        if self._leads is not None:
            for session in sessions:
                self._heard_at[session] = self.server.now_ms

    def _heard(self, body: bytes) -> None:
        """By another server, of its clients."""
        assert body[:1] == ALIVE, "nothing else is said beside"
        self._hears(struct.unpack(f">{len(body) // 8}q", body[1:]))
        self.tracker.heard(body[1:])

    def tell_alive(self, body: bytes) -> None:
        self._told_alive += struct.unpack(f">{len(body) // 8}q", body[1:])
        self._requests.aside(body)

    def expire_session(self, session: int, epoch: Epoch) -> None:
        self.world.counted("session expired")
        self._judge_end(session, self.server.now_ms)
        self._post_own(Op.CLOSE_SESSION, (epoch,), session)

    def _look(self, life: int, _: None) -> None:
        """Twice a tick."""
        server, world = self.server, self.world
        if server.life != life:
            return
        if server.paused:
            server.backlog.append((self._look, life, None))
            return
        now, pause_ms = server.now_ms, self.tick_ms // 2
        world.push(world.now + pause_ms * 1_000, self._look, life, None)
        if now - self._looked_ms < pause_ms:
            return  # its clock goes slowly
        slept, self._looked_ms = now - self._looked_ms > 3 * pause_ms, now
        alive = [session for session, each in self.attached.items() if each.heard]
        self._hears(self.known if slept else alive)
        self._told_alive.clear()
        self.tracker.look(now, slept=slept)
        if self.ready and self._leads is None:
            self._judge_told(alive)
        if self._leads is not None and server.node.serving and now - self._reaped_ms >= CONTAINERS_MS:
            self._reaped_ms = now
            self._reap()
        given_up, self.given_up = self.given_up, []
        for connection in given_up:
            connection.cut()
        self.wake()

    def _reap(self) -> None:
        """As the runtime does: what it sees may be over when it is prepared."""
        for path in reaper.candidates(self.store.tree, self.server.wall_ms()):
            self.world.counted("reaped")
            self._post_own(Op.DELETE_CONTAINER, (path,), 0)

    def _judge_told(self, alive: Sequence[int]) -> None:
        for session in alive:
            if session not in self._told_alive and session in self.known:
                what = f"server {self.server.id} has heard of session {session:#x}, and does not tell the leader"
                raise Violation(ATTACHED, what)

    def _judge_end(self, session: int, now: int) -> None:
        if self._leads is None:
            raise Violation(LEADS, f"server {self.server.id} ends session {session:#x}, and does not lead")
        known, silent_ms = self.known.get(session), now - self._heard_at.get(session, 0)
        if known is not None and silent_ms < known[0]:
            who = f"session {session:#x} of {known[0]} ms"
            raise Violation(TIME, f"server {self.server.id} ends {who} {silent_ms} ms after it heard of it")
