"""One run with real servers: start, play, heal, wait, read everything back, stop. What it adds up to is the verdict's.

Whatever happens, no process is left: each is ended by its own id when its task ends, and a task ends with the run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from random import Random
from typing import Any, Final

import trio

from harness.faults import JOINING, Fault, Op, Reconfigure, Script
from harness.history import Request
from harness.quorums import decide
from harness.script.checks import grouped
from harness.trace import Trace
from harness.worlds.processes.clients import Client
from harness.worlds.processes.configuration import Pace
from harness.worlds.processes.healing import OPERATOR, Healing
from harness.worlds.processes.nemesis import END_S, Nemesis
from harness.worlds.processes.places import CLIENT_PORT, ELECTION_PORT, QUORUM_PORT, Places, member
from harness.worlds.processes.proxy import Address, Fabric, Proxy
from harness.worlds.processes.server import Server
from harness.worlds.processes.uptime import Uptime
from harness.worlds.processes.workload import ADMIN, LIST, SESSION_MS, Workload
from harness.worlds.recorded import Tape
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import ZabError

Tell = Callable[[str], None]

LIVENESS: Final = "liveness"
NO_DEATH: Final = "no server ends by itself"
START_S: Final = 10.0
"""What the start of an interpreter may take on a machine that has much else to do."""
LOOK_S: Final = 0.02


def servers_of(script: Script) -> range:
    """All that there may ever be."""
    joining = [op.server for op in script.ops if isinstance(op, Reconfigure) and op.change in JOINING]
    return range(1, max([script.servers, *joining]) + 1)


class World:
    def __init__(
        self,
        script: Script,
        folder: Path,
        places: Places,
        *,
        trace: bool = False,
        scale: float = 1.0,
        tell: Tell = lambda words: None,
        network: Fabric | None = None,
        mutant: str | None = None,
    ) -> None:
        self._mutant = mutant
        self.script = script
        self.scale = scale
        self.folder = folder
        self.places = places
        self.pace = Pace.of(script, scale)
        self.random = Random(f"processes/{script.seed}")
        self.network = network or Fabric(Random(f"network/{script.seed}"))
        self.trace = Trace() if trace else None
        self.counts: dict[str, int] = {}
        self.promise: str | None = None
        self.what = ""
        self.broken_at_ms = 0
        self.recovered_ms = 0
        self.now_ms_at_end = 0
        self.epochs: set[int] = set()
        self.sids = servers_of(script)
        self.servers = {sid: Server(sid, folder / f"server{sid}", places, self._spoke) for sid in self.sids}
        groups, weights = grouped(script)
        self.founders = Ensemble(
            tuple(
                member(places, sid, Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER)
                for sid in range(1, script.servers + 1)
            ),
            groups=groups,
            weights=weights,
        )
        self.members = self.founders
        self.tape = Tape(self.now)
        self.uptime = Uptime(self.servers, self.is_quorum, self.now)
        self.nemesis = Nemesis(self)
        self.workload = Workload(self)
        self._healing = Healing(self)
        self.clients: dict[int, Client] = {}
        """Those that somebody has asked for."""
        self._proxies: dict[int, tuple[Proxy, str]] = {}
        self._tell = tell
        self._began: float | None = None
        self._healed = False
        self._seen = trio.Event()
        self._scope = trio.CancelScope()

    # -- time, and what was seen -----------------------------------------------------------------------

    def now(self) -> int:
        """Microseconds of the script's time since the run began."""
        return 0 if self._began is None else round((time.monotonic() - self._began) * 1e6 / self.scale)

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        if self.trace is not None:
            self.trace.acts.append((self.now(), server, verb, other, what))

    def counted(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def broken(self, promise: str, what: str) -> None:
        """The first one counts, and the run is over."""
        if self.promise is None:
            self.promise, self.what, self.broken_at_ms = promise, what, self.now() // 1_000
            self.record(0, "violation", 0, f"{promise}: {what}")
            self._scope.cancel()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Something that the servers say of themselves."""
        while not holds():
            await self._seen.wait()

    def _look(self) -> None:
        self.uptime.looked()
        self._seen.set()
        self._seen = trio.Event()

    def _spoke(self, server: Server, said: dict[str, Any]) -> None:
        event = str(said.get("event"))
        self.counted(event)
        if event == "role":
            role = server.role
            if role is not None:
                self.record(server.sid, "is", 0, f"{role.state.lower()} in epoch {role.epoch}, serving {role.serving}")
                if role.leads and role.serving:
                    self.epochs.add(role.epoch)
            self._look()

    # -- who is there ----------------------------------------------------------------------------------

    def leader(self) -> Server | None:
        return self.uptime.leader()

    @property
    def voters(self) -> tuple[int, ...]:
        leader = self.leader()
        return self.members.voters if leader is None or not leader.voters else leader.voters

    def is_quorum(self, sids: Collection[int], voters: Collection[int] | None = None) -> bool:
        """Of these voters, or of those that vote now. Where there are groups, they stay as they were founded."""
        founders = self.founders
        groups = [group.members for group in founders.groups]
        return decide(self.voters if voters is None else voters, groups, founders.weights, sids)

    def members_are(self, ensemble: Ensemble) -> None:
        if ensemble.version > self.members.version:
            self.members = ensemble

    def client_address(self, sid: int) -> Address:
        return self.places.own(sid), CLIENT_PORT

    def client(self, number: int) -> Client:
        """It has one for itself. All proxies there will ever be are there before the first process is."""
        found = self.clients.get(number)
        if found is None:
            proxy, host = self._proxies[number]
            found = self.clients[number] = Client(number, self.tape, proxy, host, self._nursery)
        return found

    def beside(self, act: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """At the same time as all else; when all is healed, it is over."""
        self._beside.start_soon(act, *arguments)

    # -- processes -------------------------------------------------------------------------------------

    def revive(self, server: Server) -> None:
        if not server.up:
            self.record(server.sid, "is started", 0, None)
            self._nursery.start_soon(self._live, server, server.wanted())

    async def _live(self, server: Server, life: int) -> None:
        code = await server.live(life)
        self._look()
        if code is None:
            return
        self.record(server.sid, "has ended", 0, str(code))
        how = server.asked_to_end
        if how == "kill":
            return
        if how == "terminate":
            if code not in (0, -15):  # before it had begun to listen to signals, the system ends it
                self.broken(NO_DEATH, f"server {server.sid} was told to end, and did with {code}: {server.said()}")
        elif server.sid in self.nemesis.excused and code == 1:
            self.nemesis.excused.discard(server.sid)
            self.counted("disk failed")
            if self._healed:
                self.revive(server)
        else:
            self.broken(NO_DEATH, f"server {server.sid} ended with {code}: {server.said()}")

    def join(self, sid: int, ensemble: Ensemble) -> None:
        """A server that nobody has started yet, as an observer, so that it can be told to join."""
        server = self.servers[sid]
        if not server.founded:
            line = member(self.places, sid, Role.OBSERVER)
            server.found(
                self.script, self.pace, [*ensemble.servers, line], self.sids, founds=False, mutant=self._mutant
            )
        self.revive(server)

    # -- the run ---------------------------------------------------------------------------------------

    async def main(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            await self._open_proxies()
            with self._scope:
                await self._begin()
                self._began = time.monotonic()
                await self._play()
                self._heal()
                await self._within(LIVENESS, self._healing.recover, self.bound_s)
                self.recovered_ms = self.now() // 1_000 - self.script.length_ms
                await self._within(LIVENESS, self._healing.read_back, self.bound_s)
            self.now_ms_at_end = self.now() // 1_000
            await self._stop()
            nursery.cancel_scope.cancel()

    async def _within(self, promise: str, act: Callable[[list[str]], Awaitable[None]], bound_s: float) -> None:
        waits_for = [""]
        with trio.move_on_after(bound_s) as patience:
            await act(waits_for)
        if patience.cancelled_caught:
            self.broken(promise, f"waited {bound_s:.0f} s for {waits_for[0]} ({self._states()})")
            await trio.lowlevel.checkpoint()

    @property
    def bound_s(self) -> float:
        """From the settings, and what it takes to start all servers at once."""
        return self.pace.settled_ms / 1000 + START_S * (1 + len(self.sids))

    async def _open_proxies(self) -> None:
        for one in self.sids:
            for other in self.sids:
                seen = self.places.seen(one, other)
                if one != other and seen is not None:
                    for port in (QUORUM_PORT, ELECTION_PORT):
                        address = (self.places.own(other), port)
                        proxy = Proxy(self.network, one, other, address, lossy=port == ELECTION_PORT)
                        await proxy.listen(seen, port)
                        self._nursery.start_soon(proxy.run)
        asking = {op.client for op in self.script.ops if hasattr(op, "client")}
        groups = (asking, self.sids, [ADMIN + sid for sid in self.sids], [OPERATOR + sid for sid in self.sids])
        for number in sorted({each for group in groups for each in group}):
            proxy = Proxy(self.network, -number, 0, None)
            host, port = await proxy.listen("127.0.0.1")
            self._proxies[number] = proxy, f"{host}:{port}"
            self._nursery.start_soon(proxy.run)

    async def _begin(self) -> None:
        for sid in self.founders.by_id:
            server = self.servers[sid]
            server.found(self.script, self.pace, self.founders.servers, self.sids, founds=True, mutant=self._mutant)
            self.revive(server)
        self._tell(f"{len(self.founders.servers)} servers start in {self.folder}")
        await self._within(LIVENESS, self.all_serve, self.bound_s)
        if self.script.machine == "list":
            await self._within(LIVENESS, self._make_list, self.bound_s)

    async def all_serve(self, waits_for: list[str]) -> None:
        waits_for[0] = f"servers {list(self.members.by_id)} to serve"
        await self.until(lambda: all(map(self._is_well, self.members.by_id)))

    def _is_well(self, sid: int) -> bool:
        server, leader = self.servers[sid], self.leader()
        return server.serves and leader is not None and server.role is not None and server.role.leader == leader.sid

    async def _make_list(self, waits_for: list[str]) -> None:
        waits_for[0] = "the first write"
        leader = self.leader()
        assert leader is not None
        await self.insist(leader.sid, Request("create", LIST, b""))
        for sid in self.founders.by_id:
            self.client(sid).connect(sid, self.client_address(sid), SESSION_MS)

    async def _play(self) -> None:
        script = self.script
        items: list[tuple[int, int, Fault | Op]] = sorted(
            ((item.at, number, item) for number, item in enumerate(script.items)),
            key=lambda each: each[:2],
        )
        async with trio.open_nursery() as self._beside:
            for at, number, item in items:
                await self._until(at)
                if number < len(script.faults):
                    kind = type(item).__name__
                    self._tell(f"{at} of {script.length_ms} ms: {kind}")
                    self.record(0, "fault", 0, item)
                    self.uptime.struck(kind)
                    self.beside(self.nemesis.strike, item)
                else:
                    self.workload.perform(item)  # type: ignore[arg-type]  # faults come first
            await self._until(script.length_ms)
            self._beside.cancel_scope.cancel()

    async def _until(self, at_ms: int) -> None:
        assert self._began is not None
        await trio.sleep(max(0.0, self._began + at_ms * self.scale / 1000 - time.monotonic()))

    def _heal(self) -> None:
        self.record(0, "heals", 0, None)
        self._tell("all is healed")
        self._healed = True
        self.nemesis.rest()
        for client in self.clients.values():
            client.appear()
        for server in self.servers.values():
            if server.founded:
                self.revive(server)

    async def insist(self, sid: int, request: Request, clients: int = OPERATOR) -> Any:
        """Ask until an answer comes. That something is refused is one, too."""
        client = self.client(clients + sid)
        while True:
            client.connect(sid, self.client_address(sid), SESSION_MS)
            found, error = await client.outcome(request)
            if error is None or hasattr(error, "code"):
                return found
            assert isinstance(error, ZabError), error
            await trio.sleep(LOOK_S)

    # -- the end ---------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """All at once: nobody is to lead the others on while they end."""
        self.network.heal()
        running = [server for server in self.servers.values() if server.up]
        for server in running:
            server.terminate()
        with trio.move_on_after(END_S):
            for server in running:
                await server.gone()
        for server in running:
            if server.up:
                self.broken("no server hangs", f"server {server.sid} was told to end, and runs {END_S} s later")

    def _states(self) -> str:
        words = []
        for sid, server in self.servers.items():
            if not server.founded:
                continue
            role = server.role
            if not server.up:
                words.append(f"{sid} down")
            elif role is None:
                words.append(f"{sid} starting")
            else:
                whom = f" {role.leader}" if role.leader not in (None, sid) else ""
                words.append(f"{sid} {role.state.lower()}{whom} in epoch {role.epoch}, serving {role.serving}")
        return "; ".join(words)
