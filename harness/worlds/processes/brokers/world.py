"""One run with real brokers on a store of real servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import trio

from harness.faults import Replication, Script
from harness.history import Request
from harness.worlds.brokers.consumer import WRONG
from harness.worlds.brokers.tape import Tape
from harness.worlds.processes.brokers.broker import SESSION_MS_MIN, Broker
from harness.worlds.processes.brokers.healing import BrokersHealing
from harness.worlds.processes.brokers.wires import Wires
from harness.worlds.processes.brokers.workload import LEAVE_S, BrokersWorkload
from harness.worlds.processes.places import Places
from harness.worlds.processes.run import LIVENESS, NO_DEATH, START_S, World
from harness.worlds.processes.server import Server
from replica.runtime.network.broker_client import Client

ASK_S: Final = 1.0
PAUSE_S: Final = 0.1
LOST: Final = "/harness-lost-"
"""Nodes of the store that say whose disk is lost."""
SESSION_TICKS: Final = 10
DEPARTURES_S: Final = 300.0
"""For all brokers that are to be restarted in good order, one after the other."""
MEMBERS_S: Final = 60.0
"""For all members of groups to have had their time."""


class BrokersWorld(World):
    workload: BrokersWorkload
    _healing: BrokersHealing

    def __init__(self, script: Script, folder: Path, places: Places, **how: Any) -> None:
        super().__init__(script, folder, places, **how)
        self.records = Tape(self.now)
        self.wires = Wires(places, self.network, script.brokers, self.sids)
        self.brokers = {
            number: Broker(number, folder / f"broker{number}", places, self.wires, self._spoke)
            for number in range(1, script.brokers + 1)
        }
        self.workload = BrokersWorkload(self)
        self._healing = BrokersHealing(self)
        self._connected: list[Client] = []
        self._stopping = False
        self.excused: set[int] = set()
        """Brokers whose disk was told to fail: they may end of that."""

    # -- who is there ----------------------------------------------------------------------------------

    def connected(self, client: Client) -> Client:
        """Until the run is over."""
        self._connected.append(client)
        return client

    async def controller(self) -> int | None:
        """As some broker says at this moment."""
        found: int | None = None
        with trio.move_on_after(ASK_S):
            try:
                found = (await self.workload.new_client().metadata([])).controller_id
            except WRONG:
                pass
        return found

    def always(self, act: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """At the same time as all else, to the end of the run."""
        self._nursery.start_soon(act, *arguments)

    @property
    def began(self) -> float:
        """By the monotonic clock, which all processes of a machine share."""
        assert self._began is not None
        return self._began

    # -- processes -------------------------------------------------------------------------------------

    async def _live(self, server: Server, life: int) -> None:
        if not isinstance(server, Broker):
            await super()._live(server, life)
            return
        code = await server.live(life)
        self._look()
        if code is None or server.asked_to_end == "kill":
            return
        if server.sid in self.excused and code == 1 and not server.asked_to_end:
            self.counted("disk failed")
            if not server.fails:
                self.excused.discard(server.sid)
                self.revive(server)
            return
        self.record(0, f"broker {server.sid} has ended", 0, str(code))
        if server.asked_to_end != "terminate" or code not in (0, -15):
            self.broken(NO_DEATH, f"broker {server.sid} ended with {code}: {server.said()}")
        elif self._healed and not self._stopping:
            self.revive(server)  # it took its time to leave

    async def will_lose(self, broker: Broker) -> None:
        """What its disk holds, while it is down. Says so in the store: there it stands between who was elected before
        that, and who after."""
        mark = Request("create", f"{LOST}{broker.sid}-{broker.starts}", b"%d" % broker.sid)
        while True:
            leader = self.leader()
            if leader is not None and leader.serves:
                with trio.move_on_after(ASK_S):
                    await self.insist(leader.sid, mark)
                    return
            await trio.sleep(PAUSE_S)

    # -- the run ---------------------------------------------------------------------------------------

    @property
    def bound_s(self) -> float:
        return super().bound_s + 6 * self._session_ms / 1_000 + 2 * START_S * len(self.brokers)

    @property
    def _session_ms(self) -> int:
        return max(SESSION_MS_MIN, SESSION_TICKS * self.pace.tick_ms)

    async def _open_proxies(self) -> None:
        await super()._open_proxies()
        await self.wires.open(self._nursery)

    async def _begin(self) -> None:
        await super()._begin()
        replication = next((op for op in reversed(self.script.ops) if isinstance(op, Replication)), Replication(0))
        for broker in self.brokers.values():
            broker.prepare(self._session_ms, replication, self._mutant)
            self.revive(broker)
        self._tell(f"{len(self.brokers)} brokers start in {self.folder}")
        await self._within(LIVENESS, self._healing.settle, self.bound_s)

    async def in_sync(self) -> None:
        await self._healing.settle([""])

    async def _play(self) -> None:
        await super()._play()
        with trio.move_on_after(DEPARTURES_S):
            await self.workload.departed()
        if self.workload.departing:
            self.broken(LIVENESS, f"{self.workload.departing} brokers are to leave, and do not come to it")
            await trio.lowlevel.checkpoint()
        with trio.move_on_after(MEMBERS_S):
            await self.workload.members_left()

    def _heal(self) -> None:
        super()._heal()
        for broker in self.brokers.values():
            broker.is_well()
            broker.resume()
            self.revive(broker)

    async def _stop(self) -> None:
        """Brokers first, while there is a store."""
        self._stopping = True
        for client in self._connected:
            await client.aclose()
        self.network.heal()
        running = [broker for broker in self.brokers.values() if broker.up]
        for broker in running:
            broker.terminate()
        with trio.move_on_after(LEAVE_S):
            for broker in running:
                await broker.gone()
        for broker in running:
            if broker.up:
                self.broken("no server hangs", f"broker {broker.sid} was told to end, and runs {LEAVE_S} s later")
        await super()._stop()

    def _states(self) -> str:
        return "; ".join((super()._states(), *(broker.state() for broker in self.brokers.values())))
