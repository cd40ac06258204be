"""One life of a store server, with its client port, and the checks of when it ends sessions.

A session ends because its timeout passed in silence, and only the leader ends it. A server that does not lead, and did
not at its last check, may not; nor may a leader that has heard of the session since, directly or through a follower.
The time for which the leader's process was paused does not count as silence, unless it was too short to be noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from zlib import crc32

from harness.checkers.oracle_state import Violation
from harness.worlds.cores.store.checks import ATTACHED, LEADS, TIME
from harness.worlds.cores.store.machine import SETTINGS
from harness.worlds.stack.machine import Fed
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
"""The interval of the reaper: some times within a run, and not at the rhythm of anything else."""
UNNOTICED_LOOKS: Final = 3
"""A pause of so many times the interval of checks, two of which make a tick, is noticed by the clock."""
Violated = Callable[[Violation], None]


def host_of(server: int) -> str:
    return f"s{server}"


class JudgedTracker(SessionTracker):
    def __init__(self, server: ServerRuntime, violated: Violated, stood: Sequence[tuple[int, int]]) -> None:
        super().__init__(server.clients, server.settings.tick_ms, now_ms())
        self._judged: ServerRuntime = server
        self._violated = violated
        self._stood = stood
        self._heard_at: dict[int, int] = {}
        self._led = False
        """Its server led at the last check. The store and the tracker may learn of the end at different times."""

    def touch(self, sessions: Iterable[int], now: Millis) -> None:
        listed = list(sessions)
        super().touch(listed, now)
        for session in listed:
            self._heard_at[session] = now

    def check(self, now: Millis) -> Findings:
        self._judge_attached()
        found = super().check(now)
        for session in found.expired:
            self.judge_end(session)
        self._led = self._judged.role.leading
        return found

    def _judge_attached(self) -> None:
        """Check that each serving connection is attached: else its session ends while it is in use."""
        server, sessions = self._judged, self._judged.clients.sessions
        connection: Any
        for connection in server.clients.connections:
            serving = connection.phase is ConnectionPhase.SERVING and not connection.read_only
            if serving and connection.session not in sessions.attached and sessions.knows(connection.session):
                who = f"session {connection.session:#x}"
                self._violated(
                    Violation(ATTACHED, f"server {server.me} talks with {who}, and does not count it as here")
                )

    def judge_end(self, session: int) -> None:
        server, now = self._judged, now_ms()
        if not (server.role.leading or self._led):
            self._violated(Violation(LEADS, f"server {server.me} ends session {session:#x}, and does not lead"))
        known, heard_at = server.machine.sessions.table.get(session), self._heard_at.get(session, 0)
        if known is None:
            return
        silent_ms, deaf_ms = now - heard_at, self._deaf_ms(heard_at)
        if silent_ms - deaf_ms < known[0]:
            who = f"session {session:#x} of {known[0]} ms"
            deaf = f", and stood still for {deaf_ms} ms of that" if deaf_ms else ""
            self._violated(Violation(TIME, f"server {server.me} ends {who} {silent_ms} ms after it heard of it{deaf}"))

    def _deaf_ms(self, since_ms: int) -> int:
        """Return for how much of the time since then the process was paused for long enough to be noticed."""
        unnoticed_ms = UNNOTICED_LOOKS * (self._judged.settings.tick_ms // 2) + 1
        return sum(min(end - begin, max(0, end - since_ms)) for begin, end in self._stood if end - begin > unnoticed_ms)


class JudgedServer(ServerRuntime):
    def judge(self, violated: Violated, stood: Sequence[tuple[int, int]]) -> None:
        """`stood`: begin and end of each pause of its process, in milliseconds."""
        self.clients.tracker = JudgedTracker(self, violated, stood)


class Holds:
    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def zxid(self) -> Zxid:
        return Zxid(self.store.zxid)

    @property
    def digest(self) -> int:
        """A checksum of the tree and the sessions, as the machine of the cores computes it."""
        sessions = self.store.sessions
        of_sessions = crc32(repr((sessions.secret, sorted(sessions.table.items()))).encode())
        return self.store.digest.value << 32 | of_sessions


class ToldStore(StoreMachine):
    """The shipped machine, which checks what it is fed."""

    def __init__(self, life: StoreLife) -> None:
        self._life = life
        self.fed = Fed(life)
        super().__init__(SETTINGS, read_limits=ClientPortSettings())

    def prepare_at(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        self._life.prepared[zxid] = self.zxid
        return super().prepare_at(request, zxid, epoch, now_ms)

    def apply(self, zxid: int, txn: bytes) -> Result:
        if not self._life.dead:
            self.fed.transaction(Zxid(zxid), txn)
        return super().apply(zxid, txn)

    def configure(self, zxid: int, text: bytes, *, applied: bool = False) -> None:
        if applied and not self._life.dead:
            self.fed.next(Zxid(zxid))
        super().configure(zxid, text, applied=applied)

    def restore(self, chunks: Iterable[bytes]) -> None:
        super().restore(chunks)
        self._life.restored()


class StoreLife(Life):
    store: ServerRuntime

    def __init__(self, server: Server, prepared: dict[int, int]) -> None:
        """`prepared` maps the zxid of each transaction to what its leader had applied when it made it."""
        self.prepared = prepared
        super().__init__(server)

    def _open(self) -> None:
        machine = ToldStore(self)
        self.fed, self.holds = machine.fed, Holds(machine)
        self.member = self._member(machine)
        client_ports = ClientPortSettings(
            tick_ms=self.server.knobs.tick_ms, connections_per_host_max=0, containers_ms=CONTAINERS_MS
        )
        self.store = store = JudgedServer(machine, self.member, client_ports)
        store.judge(self._violated, self.server.stood)

    def _violated(self, violation: Violation) -> None:
        if not self.dead:
            self.server.world.violated(violation)

    async def run(self) -> None:
        await run_server(self.store, host_of(self.server.id), CLIENT_PORT)
