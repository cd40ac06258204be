"""One life of a server of the store: the whole of it, with its client port."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from zlib import crc32

from harness.checkers.ghost import Violation
from harness.worlds.cores.store.machine import SETTINGS
from harness.worlds.stack.machine import Fed
from harness.worlds.stack.server import Life
from harness.worlds.stack.store.ends import JudgedServer
from zab.core.zxid import Zxid
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.runtime.store_server.open_store import run_server
from zab.runtime.store_server.server_runtime import ServerRuntime
from zab.runtime.store_server.store_machine import StoreMachine
from zab.store.apply import Result
from zab.store.store import Store

CLIENT_PORT: Final = 2181
CONTAINERS_MS: Final = 700
"""Now and then within a run, and not at the rhythm of anything else."""


def host_of(server: int) -> str:
    return f"s{server}"


class Holds:
    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def zxid(self) -> Zxid:
        return Zxid(self.store.zxid)

    @property
    def digest(self) -> int:
        """Of the tree and of the sessions, as the machine of the cores world works it out."""
        sessions = self.store.sessions
        of_sessions = crc32(repr((sessions.secret, sorted(sessions.table.items()))).encode())
        return self.store.digest.value << 32 | of_sessions


class ToldStore(StoreMachine):
    """It is fed what the node handed out, and whoever judges hears of it."""

    def __init__(self, life: StoreLife) -> None:
        self._life = life
        self.fed = Fed(life)
        super().__init__(SETTINGS, read_limits=ClientPortSettings())

    def prepare_at(self, request: bytes, zxid: int, epoch: int, now_ms: int) -> bytes:
        self._life.prepared(zxid, self.zxid)
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

    def _open(self) -> None:
        machine = ToldStore(self)
        self.fed, self.holds = machine.fed, Holds(machine)
        self.member = self._member(machine)
        client_ports = ClientPortSettings(
            tick_ms=self.server.knobs.tick_ms, connections_per_host_max=0, containers_ms=CONTAINERS_MS
        )
        self.store = store = JudgedServer(machine, self.member, client_ports)
        store.judge(self._violated, self.server.stood)

    def prepared(self, zxid: int, applied: int) -> None:
        world: Any = self.server.world
        world.prepared[zxid] = applied

    def _violated(self, violation: Violation) -> None:
        if not self.dead:
            self.server.world.violated(violation)

    async def run(self) -> None:
        await run_server(self.store, host_of(self.server.id), CLIENT_PORT)
