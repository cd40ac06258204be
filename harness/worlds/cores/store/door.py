"""The server side of the simulated client port: it is the `ServerPort` of the real connections of one server.

It carries out the steps of the real `ClientSessions`, and the findings of the real `SessionTracker`. Local sessions,
read-only mode and throttles are left out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from harness.checkers.ghost import Violation
from harness.worlds.cores.store.checks import ATTACHED, LEADS, TIME
from harness.worlds.cores.store.shell import SimulatedShell
from zab.core.failed_logins import FailedLogins
from zab.core.messages import State
from zab.core.zxid import Epoch, Zxid
from zab.runtime.store_server.door_settings import DoorSettings
from zab.runtime.store_server.store_machine import ChangeEvent
from zab.service.attached import Latency, Traffic
from zab.service.client_sessions import ClientSessions, Steps, ignore_result
from zab.service.connection.client_connection import ClientConnection
from zab.service.connection.handshake import SessionHandshake
from zab.service.connection.ports import ConnectionPhase, Done
from zab.service.container_reaper import ContainerReaper, ReaperSettings
from zab.service.counts import Counts
from zab.service.local_sessions import LocalSessions
from zab.service.pending_submissions import Submission
from zab.service.session_tracker import ALIVE, SessionTracker
from zab.service.throttle import ConnectionThrottle
from zab.store.error_codes import ErrorCode
from zab.store.operations import Op
from zab.store.request_format import HEAD
from zab.store.server_watches import Watcher
from zab.store.session_table import SessionIds

if TYPE_CHECKING:
    from harness.worlds.cores.store.server import StoreServer
    from harness.worlds.cores.store.wire import Wire

CONTAINERS_MS: Final = 100
"""Between two looks at the nodes that go by themselves: much more often than in life."""
TICKS_MAX: Final = DoorSettings().timeout_ticks_max
"""The longest timeout of a session, in ticks."""


class ConnectionLog:
    """Raises what a real server would only log: no simulated client breaks the rules, and no connection may fail."""

    def say(self, event: str, level: str = "info", /, **fields: object) -> None: ...

    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None:
        if event in ("client_failed", "client_cut"):
            raise AssertionError(f"{event}: {fields.get('why')}")


class Unwatched:
    """The watchdog of a server whose turns take no time."""

    _TURN: Final = nullcontext()

    def turn(self, cause: Callable[[], str]) -> AbstractContextManager[object]:
        return self._TURN


class Door:
    """For one life of a server."""

    def __init__(self, server: StoreServer) -> None:
        self.server = server
        self.world = server.world
        self.machine = self.store = server.machine.store
        self.store.observer = self
        self.ready = False
        """Whether the state may be read here and now."""
        self.connections: dict[ClientConnection, None] = {}
        self._shells: dict[SimulatedShell, None] = {}
        self._requests = server.requests
        self.tick_ms = server.knobs.tick_ms
        self.local = LocalSessions(self.tick_ms, b"")
        """None."""
        chance = Random(f"{self.world.script.seed}/door/{server.id}/{server.life}")
        ids = SessionIds(server.id, server.wall_ms())
        self.sessions = ClientSessions(server.id, self.store, ids, self.local, self._post_own, chance.randbytes)
        self.tracker = SessionTracker(self, self.tick_ms)
        self.me = server.id
        self.settings = DoorSettings(tick_ms=self.tick_ms)
        self.log = ConnectionLog()
        self.audit = None
        self.counts = Counts()
        self.latency = Latency()
        self.gone = Traffic()
        self.connection_throttle = ConnectionThrottle(self.settings.throttle, lambda: 1.0, 0)
        self.failed_logins = FailedLogins()
        self.requests_watchdog = Unwatched()
        self.open_requests = self.large_bytes = self.auth_failed = 0
        self._leads: Epoch | None = None
        self._heard_at: dict[int, int] = {}
        """By the same leader, of each session, whatever the tracker makes of it: to judge the ends by."""
        self.lost_ms: int | None = server.now_ms
        """Since when nobody leads, as far as is known here."""
        self._looked_ms = server.now_ms
        self._reaper = ContainerReaper(ReaperSettings(interval_ms=CONTAINERS_MS), server.now_ms)
        self._dirty: list[SimulatedShell] = []
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
            self.tracker.lead(node.epoch, self.server.now_ms)
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
            for shell in dirty:
                shell.flush()
        if self._posted:
            self.wake()

    def wake(self) -> None:
        if self._posted:
            self._posted = False
            self.server.wake()

    def dirty(self, shell: SimulatedShell) -> None:
        self._dirty.append(shell)

    def restored(self) -> None:
        """The state is another one, further on: who sat through it is told what can be seen of what was missed."""
        self.store.deliver_missed()
        for session in list(self.attached):
            self.session_changed(session)

    def cut(self) -> None:
        """Every connection breaks. That it did, this server learns as late as its clients, if it still lives."""
        for shell in list(self._shells):
            shell.wire.broken()

    # -- requests --------------------------------------------------------------------------------------

    def post(self, request: bytes, done: Done) -> None:
        self._post(request, partial(self._told, HEAD.unpack_from(request)[1], done))

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        for request in requests:
            self.post(request, done)

    def _told(self, session: int, done: Done, result: Any, error: Exception | None) -> None:
        """A write of a client has its result: count it, if its connection still is there to pass it on."""
        client = self.attached.get(session)
        if error is None and client is not None and client.phase is not ConnectionPhase.OVER:
            if result[1] == ErrorCode.SESSION_MOVED:
                self.world.told_moved.append((session, self.server.id, result[0]))
            else:
                self.world.workload.told(self.server, Zxid(result[0]))
        done(result, error)

    def postpone(self, do: Callable[[], None]) -> None:
        self.world.push(self.world.now, self._postponed, do, self.server.life)

    def _postponed(self, do: Callable[[], None], life: int) -> None:
        if self.server.life == life:
            do()
            self.turned()

    def _post_own(self, request: bytes, done: Done) -> None:
        self._post(request, done)

    def _post(self, request: bytes, done: Done) -> Submission:
        self._posted = True
        return self._requests.pending.submit(request, done)

    def barrier(self, done: Done, session: int = 0) -> None:
        """In front of a session's sync the leader is told of it: the answer shows that it was heard."""
        self._posted = True
        self._requests.barriers.add(done, self.tracker.sign_of(session) if session else b"")

    # -- sessions --------------------------------------------------------------------------------------

    def opened(self, wire: Wire) -> SimulatedShell:
        shell = SimulatedShell(self, wire)
        self._shells[shell] = None
        return shell

    def closed(self, shell: SimulatedShell) -> None:
        self._shells.pop(shell, None)
        if shell.steps is not None:
            shell.steps.close()
            if shell.asked is not None:
                self._requests.pending.cancel(shell.asked)
        self.store.watches.drop(shell.connection)

    def create_session(self, shell: SimulatedShell, timeout_ms: int, done: Done) -> None:
        self._carry_out(shell, self.sessions.create(timeout_ms), done)

    def attach_session(self, shell: SimulatedShell, session: int, password: bytes | None, done: Done) -> None:
        self._carry_out(shell, self.sessions.find(session, password), done)

    def _carry_out(self, shell: SimulatedShell, steps: Steps[Any], done: Done) -> None:
        """Carry out the steps of an operation, one when the other is done, until the shell gives it up."""

        def go_on(result: Any, error: Exception | None) -> None:
            if shell.steps is not steps:
                return  # it was given up
            if error is not None:
                shell.steps = shell.asked = None
                done(None, error)
                return
            try:
                step = steps.send(result)
            except StopIteration as ended:
                shell.steps = shell.asked = None
                done(ended.value, None)
            else:
                shell.asked = None
                if isinstance(step, bytes):
                    shell.asked = self._post(step, go_on)
                else:
                    self.barrier(go_on)

        shell.steps = steps
        go_on(None, None)

    @property
    def attached(self) -> dict[int, Any]:
        """By session: the connection that gets its events."""
        return self.sessions.attached

    def knows(self, session: int) -> bool:
        return self.sessions.knows(session)

    def password(self, session: int) -> bytes:
        return self.sessions.password(session)

    def attach_read_only(self, session: int, password: bytes | None) -> int | None:
        return self.sessions.find_read_only(session, password)

    def upgrade_session(self, session: int) -> None:
        self.sessions.upgrade(session)

    def attach(self, client: ClientConnection) -> None:
        self.sessions.attach(client)

    def detach(self, client: ClientConnection) -> None:
        self.sessions.detach(client)

    # -- told by the machine ---------------------------------------------------------------------------

    def session_changed(self, session: int) -> None:
        known = self.store.sessions.table.get(session)
        client = self.attached.get(session)
        if known is None:
            self.tracker.forget(session)
            if client is not None:
                client.ended("the session is closed")
            return
        self._hears((session,))
        self.tracker.touch((session,), self.server.now_ms)
        if client is not None and known[1] != self.server.id:
            client.ended("the session has moved to another server")

    def happened(self, watchers: Sequence[Watcher], event: int, path: str, zxid: int) -> None:
        change = ChangeEvent(event, path, zxid)
        for watcher in watchers:
            watcher.notify(change)  # type: ignore[attr-defined]  # all who watch here are connections

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

    def on_leader_message(self, body: bytes) -> None:
        """By another server, of its clients."""
        assert body[:1] == ALIVE, "nothing else is said beside"
        self._hears(struct.unpack(f">{len(body) // 8}q", body[1:]))
        self.tracker.reported(body[1:], self.server.now_ms)

    def expire_session(self, session: int, epoch: Epoch) -> None:
        self.world.counted("session expired")
        self._judge_end(session, self.server.now_ms)
        self.sessions.expire(session, epoch)

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
        found = self.tracker.check(now, slept=slept)
        for client, why in found.ended:
            client.ended(why)
        for session in found.expired:
            self.expire_session(session, found.epoch)
        for report in found.reports:
            self._requests.side_channel.tell_leader(report)
        if self.ready and self._leads is None:
            self._judge_told(alive, found.reports)
        for path in self._reaper.due(
            self.store.tree, now, server.wall_ms(), leads=self._leads is not None and server.node.serving
        ):
            self.world.counted("reaped")
            self._post(self.sessions.internal_request(Op.DELETE_CONTAINER, (path,)), ignore_result)
        for handshake in found.gave_up:
            assert isinstance(handshake, SessionHandshake)
            handshake.cancel()
        self.turned()

    def _judge_told(self, alive: Sequence[int], reports: Sequence[bytes]) -> None:
        told = {session for body in reports for session in struct.unpack(f">{len(body) // 8}q", body[1:])}
        for session in alive:
            if session not in told and session in self.known:
                what = f"server {self.server.id} has heard of session {session:#x}, and does not tell the leader"
                raise Violation(ATTACHED, what)

    def _judge_end(self, session: int, now: int) -> None:
        if self._leads is None:
            raise Violation(LEADS, f"server {self.server.id} ends session {session:#x}, and does not lead")
        known, silent_ms = self.known.get(session), now - self._heard_at.get(session, 0)
        if known is not None and silent_ms < known[0]:
            who = f"session {session:#x} of {known[0]} ms"
            raise Violation(TIME, f"server {self.server.id} ends {who} {silent_ms} ms after it heard of it")
