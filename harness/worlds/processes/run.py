"""A run with real servers: start, play the script, heal, wait, read everything back, stop."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from harness.faults import Ask, Fault, Op, Script
from harness.history import Request
from harness.worlds.processes.addresses import Addresses
from harness.worlds.processes.cluster import END_S, OPERATOR, Cluster, Options
from harness.worlds.processes.nemesis import Nemesis
from harness.worlds.processes.workload import LIST, Workload
from zab.core.ensemble import Ensemble

LIVENESS: Final = "liveness"
DIGESTS: Final = "no server finds a different tree"
DIFFERENT: Final = "digest_mismatches_count"
START_S: Final = 10.0
"""The time limit for the start of an interpreter on a busy machine."""
JVM_STARTS: Final = 3
"""The start of a server of ZooKeeper takes as long as so many more starts of an interpreter."""
PATHS_MAX: Final = 60
"""The maximum number of paths to read back. A sample is enough, as the logs are compared as a whole."""


class World(Cluster):
    def __init__(self, script: Script, folder: Path, addresses: Addresses, options: Options | None = None) -> None:
        super().__init__(script, folder, addresses, options or Options())
        self.nemesis = Nemesis(self)
        self.workload = Workload(self)

    async def main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await self._open_proxies()
            with self._scope:
                await self._begin()
                self._began = time.monotonic()
                await self._play()
                self._heal()
                await self._within(self._recover, self.bound_s)
                self.recovered_ms = self.now() // 1_000 - self.script.length_ms
                await self._within(self._read_back, self.bound_s)
            self.now_ms_at_end = self.now() // 1_000
            await self._stop()
            nursery.cancel_scope.cancel()

    async def _within(self, act: Callable[[list[str]], Awaitable[None]], bound_s: float) -> None:
        """Report a liveness violation if `act` takes longer. `act` describes in its argument what it waits for."""
        waits_for = [""]
        with trio.move_on_after(bound_s) as patience:
            await act(waits_for)
        if patience.cancelled_caught:
            details = await self._details()
            what = f"the run waited {bound_s:.0f} s for {waits_for[0]} ({self._states()})"
            self.violated(LIVENESS, f"{what}\n{details}" if details else what)
            await trio.lowlevel.checkpoint()

    async def _details(self) -> str:
        """Return more about what the run waits for; empty if nothing more is known."""
        return ""

    @property
    def bound_s(self) -> float:
        """Return the time limit for recovery: the time by the settings, and that of a start of all servers at once."""
        jvms = sum(not server.ours for server in self.servers.values())
        return self.pace.settled_ms / 1000 + START_S * (1 + len(self.sids) + JVM_STARTS * jvms)

    async def _begin(self) -> None:
        for sid in self.founders.by_id:
            self._set_up(self.servers[sid], self.founders.servers, founds=True)
            self.revive(self.servers[sid])
        self.options.tell(f"{len(self.founders.servers)} servers start in {self.folder}")
        await self._within(self.all_serve, self.bound_s)
        if self.script.machine == "list":
            await self._within(self._make_list, self.bound_s)

    async def _make_list(self, waits_for: list[str]) -> None:
        waits_for[0] = "the first write"
        leader = self.leader()
        assert leader is not None
        await self.ask_until_answered(leader.sid, Request("create", LIST, b""))
        for sid in self.founders.by_id:
            self.connected(sid, sid)

    async def _play(self) -> None:
        script = self.script
        items: list[Fault | Op] = sorted(
            (*script.faults, *script.ops), key=lambda item: item.at
        )  # stable: faults first
        faults = set(map(id, script.faults))
        async with trio.open_nursery() as self._until_healed:
            for item in items:
                await self._until(item.at)
                if id(item) in faults:
                    kind = type(item).__name__
                    self.options.tell(f"{item.at} of {script.length_ms} ms: {kind}")
                    self.record(0, "fault", 0, item)
                    self.uptime.fault_injected(kind)
                    self.spawn_until_healed(self.nemesis.inject, item)
                else:
                    self.workload.perform(item)  # type: ignore[arg-type]  # it is an operation
            await self._until(script.length_ms)
            self._until_healed.cancel_scope.cancel()

    async def _until(self, at_ms: int) -> None:
        await trio.sleep(max(0.0, self.began + at_ms * self.scale / 1000 - time.monotonic()))

    # -- the end ---------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.record(0, "heals", 0, None)
        self.options.tell("all faults have ended")
        self.healed = True
        self.nemesis.heal()
        for client in self.clients.values():
            client.appear()
        for server in self.processes():
            if server.founded:
                self.revive(server)

    async def _recover(self, waits_for: list[str]) -> None:
        """Wait until all members serve under one leader."""
        waits_for[0] = "a quorum to serve"
        await self.until(self.uptime.quorum)
        if not self.mixed:
            await self._ask_for_members(waits_for)
        await self.all_serve(waits_for)

    async def _ask_for_members(self, waits_for: list[str]) -> None:
        leader = self.leader()
        assert leader is not None
        waits_for[0] = f"the configuration from the leader, server {leader.sid}"
        session = self.connected(OPERATOR + leader.sid, leader.sid).session
        assert session is not None
        text, _ = await session.config()
        self.members_are(Ensemble.parse((text or b"").decode()))

    async def _read_back(self, waits_for: list[str]) -> None:
        """Read paths of the script at every member, and make a last write that all members must apply."""
        waits_for[0] = "the clients to leave"
        async with trio.open_nursery() as nursery:
            for number, client in self.clients.items():
                if number < OPERATOR:
                    nursery.start_soon(client.leave)
        waits_for[0] = "a new write to be acknowledged"
        sids = self.expected
        await self.ask_until_answered(sids[0], Request("create", "/healed", b""))
        for sid in sids:
            waits_for[0] = f"the nodes of server {sid}"
            await self.ask_until_answered(sid, Request("sync", "/healed"))
            for path in self._paths():
                await self.ask_until_answered(sid, Request("get", path))
                await self.ask_until_answered(sid, Request("children", path))
        waits_for[0] = "the last write to be acknowledged"
        await self.ask_until_answered(sids[0], Request("set", "/healed", b"."))
        for sid in sids:
            waits_for[0] = f"server {sid} to apply the last write"
            await self.ask_until_answered(sid, Request("sync", "/healed"))
            await self.ask_until_answered(sid, Request("get", "/healed"))
        if self.mixed:
            await self._compare_digests(waits_for)

    async def _compare_digests(self, waits_for: list[str]) -> None:
        """Check that no server has found its tree to differ from the leader's."""
        for sid in self.expected:
            server = self.servers[sid]
            waits_for[0] = f"the metrics of {server}"
            counted = [line for line in (await self._metrics(sid)).splitlines() if DIFFERENT in line]
            if not counted or not counted[0].endswith("\t0"):
                self.violated(DIGESTS, f"{server} reports {counted[0] if counted else f'no {DIFFERENT}'}")

    async def _metrics(self, sid: int) -> str:
        async with await trio.open_tcp_stream(*self.client_address(sid)) as stream:
            await stream.send_all(b"mntr")
            return b"".join([data async for data in stream]).decode()

    def _paths(self) -> list[str]:
        asked = [step.path for op in self.script.ops if isinstance(op, Ask) for step in op.steps if step.path]
        found = {"/", LIST} if self.script.machine == "list" else {"/", *asked}
        return sorted(found)[:PATHS_MAX]

    async def _stop(self) -> None:
        self.network.heal()
        await self.end_all(list(self.servers.values()), END_S)

    def _states(self) -> str:
        return "; ".join(server.state() for server in self.processes() if server.founded)
