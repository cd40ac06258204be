"""One process of a store server with its client port, and checks that it ends sessions at the right time.

Only a leader may expire a session, and only if the timeout has passed since the leader last received a sign of it,
directly or through a follower. A server that led at its last check counts as a leader. The time for which the leader's
process was paused does not count, unless the pause was too short to be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from zlib import crc32

from harness.checkers.oracle_state import Violation
from harness.worlds.cores.store.checks import ATTACHED, LEADS, TIME
from harness.worlds.cores.store.machine import SETTINGS
from harness.worlds.stack.checked_machine import DeliveryCheck
from harness.worlds.stack.server import Life, Server
from zab.core.zxid import Millis, Zxid
from zab.host.clocks import now_ms
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import run_server
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.runtime.store_server.store_machine import StoreMachine
from zab.service.connection.ports import ConnectionPhase
from zab.service.session_tracker import Findings, SessionTracker
from zab.store.apply import Result
from zab.store.store import Store

CLIENT_PORT: Final = 2181
CONTAINERS_MS: Final = 700
"""The interval of the container reaper. It differs from other intervals, so that the orders of events vary."""
UNNOTICED_CHECKS: Final = 3
"""The server notices a pause of more than this number of check intervals. Two intervals are a tick."""
Violated = Callable[[Violation], None]


def host_of(server: int) -> str:
    return f"s{server}"


class JudgedTracker(SessionTracker):
    def __init__(self, server: ServerRuntime, violated: Violated, pauses: Sequence[tuple[int, int]]) -> None:
        super().__init__(server.clients, server.settings.tick_ms, now_ms())
        self._judged: ServerRuntime = server
        self._violated = violated
        self._pauses = pauses
        self._touched_at: dict[int, int] = {}
        self._led = False
        """True if the server led at the last check. The store and the tracker may see the end at different times."""

    def touch(self, sessions: Iterable[int], now: Millis) -> None:
        listed = list(sessions)
        super().touch(listed, now)
        for session in listed:
            self._touched_at[session] = now

    def check(self, now: Millis) -> Findings:
        self._judge_attached()
        found = super().check(now)
        for session in found.expired:
            self.judge_end(session)
        self._led = self._judged.role.leading
        return found

    def _judge_attached(self) -> None:
        """Check that each serving connection is attached: otherwise its session would expire while in use."""
        server, sessions = self._judged, self._judged.clients.sessions
        connection: Any
        for connection in server.clients.connections:
            serving = connection.phase is ConnectionPhase.SERVING and not connection.read_only
            if serving and connection.session not in sessions.attached and sessions.knows(connection.session):
                session = f"session {connection.session:#x}"
                self._violated(Violation(ATTACHED, f"server {server.me} serves {session}, which is not attached to it"))

    def judge_end(self, session: int) -> None:
        server, now = self._judged, now_ms()
        if not (server.role.leading or self._led):
            self._violated(Violation(LEADS, f"server {server.me} ends session {session:#x}, but does not lead"))
        known, touched_at = server.machine.sessions.table.get(session), self._touched_at.get(session, 0)
        if known is None:
            return
        silent_ms, paused_ms = now - touched_at, self._paused_ms(touched_at)
        if silent_ms - paused_ms < known[0]:
            late = f"{silent_ms} ms after the last sign of it"
            paused = f", of which it was paused for {paused_ms} ms" if paused_ms else ""
            what = f"server {server.me} ends session {session:#x}, which has a timeout of {known[0]} ms, {late}{paused}"
            self._violated(Violation(TIME, what))

    def _paused_ms(self, since_ms: int) -> int:
        """Return the time since `since_ms` in pauses that were long enough to be noticed."""
        unnoticed_ms = UNNOTICED_CHECKS * (self._judged.settings.tick_ms // 2) + 1
        return sum(
            min(end - begin, max(0, end - since_ms)) for begin, end in self._pauses if end - begin > unnoticed_ms
        )


class JudgedServer(ServerRuntime):
    def judge(self, violated: Violated, pauses: Sequence[tuple[int, int]]) -> None:
        """Check the ends of sessions. `pauses`: begin and end of each pause of the process, in milliseconds."""
        self.clients.tracker = JudgedTracker(self, violated, pauses)


class StoreState:
    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def zxid(self) -> Zxid:
        return Zxid(self.store.zxid)

    @property
    def digest(self) -> int:
        """Return a checksum of the tree and the sessions, computed as in the simulator of cores."""
        sessions = self.store.sessions
        of_sessions = crc32(repr((sessions.secret, sorted(sessions.table.items()))).encode())
        return self.store.digest.value << 32 | of_sessions


class CheckedStore(StoreMachine):
    """The shipped machine with a check of the transactions that it receives."""

    def __init__(self, life: StoreLife) -> None:
        self._life = life
        self.delivery_check = DeliveryCheck(life)
        super().__init__(SETTINGS, read_limits=ClientPortSettings())

    def prepare_at(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        self._life.prepared[zxid] = self.zxid
        return super().prepare_at(request, zxid, epoch, now_ms)

    def apply(self, zxid: int, txn: bytes) -> Result:
        if not self._life.dead:
            self.delivery_check.transaction(Zxid(zxid), txn)
        return super().apply(zxid, txn)

    def configure(self, zxid: int, text: bytes, *, applied: bool = False) -> None:
        if applied and not self._life.dead:
            self.delivery_check.next(Zxid(zxid))
        super().configure(zxid, text, applied=applied)

    def restore(self, chunks: Iterable[bytes]) -> None:
        super().restore(chunks)
        self._life.restored()


class StoreLife(Life):
    store: ServerRuntime

    def __init__(self, server: Server, prepared: dict[int, int]) -> None:
        """`prepared` maps the zxid of each transaction to the last zxid that its leader had applied when it made it."""
        self.prepared = prepared
        super().__init__(server)

    def _open(self) -> None:
        machine = CheckedStore(self)
        self.delivery_check, self.machine_state = machine.delivery_check, StoreState(machine)
        self.member = self._member(machine)
        client_ports = ClientPortSettings(
            tick_ms=self.server.knobs.tick_ms, connections_per_host_max=0, containers_ms=CONTAINERS_MS
        )
        self.store = store = JudgedServer(machine, self.member, client_ports)
        store.judge(self._violated, self.server.pauses)

    def _violated(self, violation: Violation) -> None:
        if not self.dead:
            self.server.world.violated(violation)

    async def run(self) -> None:
        await run_server(self.store, host_of(self.server.id), CLIENT_PORT)
