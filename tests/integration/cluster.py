"""Members with real sockets and real disks in one process, started and stopped by a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgpack
import trio

from bench.ports import free_ports
from zab.core.ensemble import Ensemble, Role, Server
from zab.core.errors import Refused
from zab.core.ready import Settings
from zab.core.zxid import ServerId, Zxid
from zab.runtime.member import Member
from zab.service.replicated_machine import View

FAST = Settings(tick_ms=100, init_limit=40, sync_limit=40, finalize_wait_ms=50)
"""Elections in milliseconds. A peer that is gone is noticed at once; one that only says nothing is given up after four
seconds, because a machine that is busy with something else may not let a process run for two."""


class Recorder:
    """A machine that records every applied transaction, and refuses requests that demand it."""

    def __init__(self) -> None:
        self.log: list[bytes] = []

    def prepare(self, request: bytes, view: View) -> bytes:
        if request.startswith(b"refuse"):
            raise Refused(request.decode())
        return request

    def apply(self, zxid: Zxid, txn: bytes) -> int:
        self.log.append(txn)
        return len(self.log)

    def snapshot(self) -> list[bytes]:
        log = self.log
        return [msgpack.packb(log[start : start + 1000]) for start in range(0, len(log), 1000)]

    def restore(self, chunks: Iterable[bytes]) -> None:
        self.log = [txn for chunk in chunks for txn in msgpack.unpackb(chunk)]


def loopback(count: int, host: str = "127.0.0.1", role: Role = Role.PARTICIPANT, first: int = 1) -> tuple[Server, ...]:
    ports = free_ports(2 * count, host)
    return tuple(
        Server(ServerId(first + index), host, ports[2 * index], ports[2 * index + 1], role) for index in range(count)
    )


class Cluster:
    """Servers by id. The arguments of a server are kept for its next start."""

    def __init__(self, nursery: trio.Nursery, path: Path, ensemble: Ensemble, options: dict[str, Any]) -> None:
        self.ensemble = ensemble
        self.members: dict[int, Member] = {}
        self.machines: dict[int, Recorder] = {}
        self.failures: dict[int, BaseException] = {}
        self._nursery = nursery
        self._path = path
        self._options = options
        self._scopes: dict[int, trio.CancelScope] = {}
        self._ended: dict[int, trio.Event] = {}

    async def start(self, sid: int, machine: Callable[[], Recorder] = Recorder, **options: Any) -> Member:
        self.machines[sid] = machine()
        member = Member(
            self.machines[sid],
            self._path / str(sid),
            server_id=sid,
            **{"ensemble": self.ensemble, "settings": FAST, **self._options, **options},
        )
        self.members[sid] = member
        self._ended[sid] = trio.Event()
        await self._nursery.start(self._run, sid, member)
        return member

    async def _run(self, sid: int, member: Member, task_status: trio.TaskStatus[None]) -> None:
        try:
            with trio.CancelScope() as self._scopes[sid]:
                await member.run(task_status)
        except Exception as error:
            self.failures[sid] = error
        finally:
            self._ended[sid].set()

    async def stop(self, sid: int) -> None:
        self._scopes[sid].cancel()
        await self._ended[sid].wait()
        del self.members[sid]

    async def ended(self, sid: int) -> BaseException | None:
        await self._ended[sid].wait()
        self.members.pop(sid, None)
        return self.failures.get(sid)

    async def serving(self) -> Member:
        """Wait until all servers serve; return the leader."""
        while True:
            for member in self.members.values():
                await member.wait_serving()
            roles = [member.status().role for member in self.members.values()]
            if all(role.serving for role in roles) and len({role.leader for role in roles}) == 1:
                leader = roles[0].leader
                assert leader is not None
                return self.members[leader]
            await trio.sleep(0.01)

    async def follower(self) -> Member:
        leader = await self.serving()
        return next(member for member in self.members.values() if member is not leader)

    async def agree(self, given_up: bool = False) -> list[bytes]:
        """Wait until all servers have applied the same transactions; return them.

        `given_up`: somebody did not wait for the end of a request. It may be carried out between the barrier of one
        member and that of another, and then it takes one more round until all have it.
        """
        for _ in range(100 if given_up else 1):
            for member in self.members.values():
                await member.barrier()
            logs = [self.machines[sid].log for sid in self.members]
            if all(log == logs[0] for log in logs):
                return list(logs[0])
        raise AssertionError(f"they differ: {[len(log) for log in logs]} transactions")


@asynccontextmanager
async def cluster(
    path: Path, servers: int | Ensemble = 3, start: bool = True, **options: Any
) -> AsyncIterator[Cluster]:
    ensemble = Ensemble(loopback(servers)) if isinstance(servers, int) else servers
    async with trio.open_nursery() as nursery:
        made = Cluster(nursery, path, ensemble, options)
        if start:
            for sid in ensemble.by_id:
                await made.start(sid)
        yield made
        nursery.cancel_scope.cancel()
