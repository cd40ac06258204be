"""A cluster of real servers and their clients: its processes, their observed state, starts and requests.

No process outlives the run: each is killed by its own id when its task ends, and all tasks end with the run.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from random import Random
from typing import Any, Final

import trio
from attrs import define

from harness.faults import JOINING, Reconfigure, Script
from harness.history import Request
from harness.quorums import decide
from harness.script.checks import grouped
from harness.trace import Trace
from harness.worlds.processes.addresses import CLIENT_PORT, ELECTION_PORT, QUORUM_PORT, Addresses, member
from harness.worlds.processes.clients import Client
from harness.worlds.processes.configuration import Pace
from harness.worlds.processes.proxy import Address, Fabric, Proxy
from harness.worlds.processes.server import Server, ServerProcess
from harness.worlds.processes.uptime import Uptime
from harness.worlds.processes.zookeeper_server import ZookeeperServer
from harness.worlds.recorded import Recorder
from zab.core.ensemble import Ensemble, Role
from zab.core.errors import ZabError

Tell = Callable[[str], None]

NO_DEATH: Final = "no server ends by itself"
PROMISES: Final = "no voter serves without its promises"
NO_HANG: Final = "no server hangs"
OPERATOR: Final = 1_000
ADMIN: Final = 900
"""The first numbers of clients that read from the servers after healing, and of those that change the membership."""
SESSION_MS: Final = 30_000
"""The session timeout of clients that are not in the script: their sessions must outlast its faults."""
END_S: Final = 20
"""The time limit for a server to end."""
CHECK_S: Final = 0.02


def servers_of(script: Script) -> range:
    """Return the numbers of all servers of the script, including those that join later."""
    joining = [op.server for op in script.ops if isinstance(op, Reconfigure) and op.change in JOINING]
    return range(1, max([script.servers, *joining]) + 1)


def zookeeper_servers(script: Script) -> frozenset[int]:
    """Return the voters that are servers of Apache ZooKeeper. Their places differ from seed to seed."""
    voters, count = range(1, script.voters + 1), min(script.voters, script.knobs.zookeeper_servers)
    return frozenset(Random(f"zookeeper/{script.seed}").sample(voters, count))


@define
class Options:
    """The options of a run. A millisecond of the script takes `scale` real ones."""

    trace: bool = False
    scale: float = 1.0
    tell: Tell = lambda words: None
    network: Fabric | None = None
    mutant: str | None = None


class Cluster:
    def __init__(self, script: Script, folder: Path, addresses: Addresses, options: Options) -> None:
        self.script = script
        self.folder = folder
        self.addresses = addresses
        self.options = options
        self.scale = options.scale
        self.pace = Pace.of(script, options.scale)
        self.random = Random(f"processes/{script.seed}")
        self.network = options.network or Fabric(Random(f"network/{script.seed}"))
        self.trace = Trace() if options.trace else None
        self.counts: dict[str, int] = {}
        self.invariant: str | None = None
        self.what = ""
        self.broken_at_ms = 0
        self.epochs: set[int] = set()
        self.excused: set[ServerProcess] = set()
        """The servers whose disk has an injected fault: they may stop, and may fail to start."""
        self.healed = False
        self.recovered_ms = 0
        self.now_ms_at_end = 0
        self.sids = servers_of(script)
        theirs = zookeeper_servers(script)
        self.servers = {
            sid: (ZookeeperServer if sid in theirs else Server)(sid, folder / f"server{sid}", addresses, self._notified)
            for sid in self.sids
        }
        groups, weights = grouped(script)
        roles = [Role.PARTICIPANT if sid <= script.voters else Role.OBSERVER for sid in range(1, script.servers + 1)]
        founders = tuple(member(addresses, sid, role) for sid, role in enumerate(roles, start=1))
        self.founders = Ensemble(founders, groups=groups, weights=weights)
        self.members = self.founders
        self.recorder = Recorder(self.now)
        self.uptime = Uptime(self.servers, self.is_quorum, self.now)
        self.mixed = bool(theirs)
        """True if some servers are those of Apache ZooKeeper."""
        self.clients: dict[int, Client] = {}
        self._proxies: dict[int, tuple[Proxy, str]] = {}
        self._began: float | None = None
        self._changed = trio.Event()
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery
        self._until_healed: trio.Nursery

    # -- time and observations -------------------------------------------------------------------------

    def now(self) -> int:
        """Return the microseconds of the script's time since the run began."""
        return 0 if self._began is None else round((time.monotonic() - self._began) * 1e6 / self.scale)

    @property
    def began(self) -> float:
        """Return the start of the run on the monotonic clock, which all processes of a machine share."""
        assert self._began is not None
        return self._began

    async def sleep(self, ms: float) -> None:
        """Sleep for `ms` milliseconds of the script's time."""
        await trio.sleep(ms * self.scale / 1000)

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        if self.trace is not None:
            self.trace.acts.append((self.now(), server, verb, other, what))

    def counted(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def violated(self, invariant: str, what: str) -> None:
        """Report a violation. The first one is kept, and ends the run."""
        if self.invariant is None:
            self.invariant, self.what, self.broken_at_ms = invariant, what, self.now() // 1_000
            self.record(0, "violation", 0, f"{invariant}: {what}")
            self._scope.cancel()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until `holds` returns True; it is checked after each change of a server's role or process."""
        while not holds():
            await self._changed.wait()

    def _on_change(self) -> None:
        self.uptime.update()
        self._changed.set()
        self._changed = trio.Event()

    def _notified(self, server: Any, logged: dict[str, Any]) -> None:
        event = str(logged.get("event"))
        self.counted(event)
        if event == "role":
            role = server.role
            if role is not None:
                self.record(server.sid, "is", 0, f"{role.state.lower()} in epoch {role.epoch}, serving {role.serving}")
                if role.leads and role.serving:
                    self.epochs.add(role.epoch)
                if role.serving and server.forgot:
                    self.violated(PROMISES, f"{server} serves as a voter, but its disk with its promises was lost")
            self._on_change()

    # -- the members -----------------------------------------------------------------------------------

    def leader(self) -> Server | None:
        return self.uptime.leader()

    @property
    def voters(self) -> tuple[int, ...]:
        leader = self.leader()
        return self.members.voters if leader is None or not leader.voters else leader.voters

    def is_quorum(self, sids: Collection[int], voters: Collection[int] | None = None) -> bool:
        """Return whether servers are a quorum of these voters, or of the current ones. Groups never change."""
        groups = [group.members for group in self.founders.groups]
        return decide(self.voters if voters is None else voters, groups, self.founders.weights, sids)

    def members_are(self, ensemble: Ensemble) -> None:
        if ensemble.version > self.members.version:
            self.members = ensemble

    @property
    def expected(self) -> list[int]:
        """Return the members that serve after the faults."""
        return [sid for sid in sorted(self.members.by_id) if not self.servers[sid].forgot]

    async def all_serve(self, waits_for: list[str]) -> None:
        """Wait until all members serve under one leader."""
        waits_for[0] = f"servers {self.expected} to serve"

        def holds() -> bool:
            leader = self.leader()
            return leader is not None and all(self.servers[sid].serves_under(leader.sid) for sid in self.expected)

        await self.until(holds)

    def join(self, sid: int, ensemble: Ensemble) -> None:
        """Start a new server as an observer, so that it can be added to the membership."""
        server = self.servers[sid]
        if not server.founded:
            self._set_up(server, [*ensemble.servers, member(self.addresses, sid, Role.OBSERVER)], founds=False)
        self.revive(server)

    def _set_up(self, server: Server, members: Any, *, founds: bool) -> None:
        server.set_up(self.script, self.pace, members, self.sids, founds=founds, mutant=self.options.mutant)

    # -- clients ---------------------------------------------------------------------------------------

    def client(self, number: int) -> Client:
        """Return the client of this number, which has a proxy of its own."""
        found = self.clients.get(number)
        if found is None:
            proxy, host = self._proxies[number]
            found = self.clients[number] = Client(number, self.recorder, proxy, host, self._nursery)
        return found

    def connected(self, number: int, sid: int) -> Client:
        """Return the client, with a session at this server."""
        client = self.client(number)
        client.connect(sid, self.client_address(sid), SESSION_MS)
        return client

    def client_address(self, sid: int) -> Address:
        return self.addresses.own(sid), CLIENT_PORT

    async def ask_until_answered(self, sid: int, request: Request, clients: int = OPERATOR) -> Any:
        """Repeat a request until a server replies, and return the result. A refusal is a reply, too."""
        while True:
            found, error = await self.connected(clients + sid, sid).outcome(request)
            if error is None or hasattr(error, "code"):
                return found
            assert isinstance(error, ZabError), error
            await trio.sleep(CHECK_S)

    async def _open_proxies(self) -> None:
        """Open all proxies of the run before the first process starts."""
        for one in self.sids:
            for other in self.sids:
                seen = self.addresses.proxy_address(one, other)
                if one != other and seen is not None:
                    for port in (QUORUM_PORT, ELECTION_PORT):
                        address = (self.addresses.own(other), port)
                        proxy = Proxy(self.network, one, other, address, lossy=port == ELECTION_PORT)
                        await proxy.listen(seen, port)
                        self._nursery.start_soon(proxy.run)
        for number in self._client_numbers():
            proxy = Proxy(self.network, -number, 0, None)
            host, port = await proxy.listen("127.0.0.1")
            self._proxies[number] = proxy, f"{host}:{port}"
            self._nursery.start_soon(proxy.run)

    def _client_numbers(self) -> list[int]:
        asking = {op.client for op in self.script.ops if hasattr(op, "client")}
        return sorted(asking.union(self.sids, (base + sid for base in (ADMIN, OPERATOR) for sid in self.sids)))

    # -- processes -------------------------------------------------------------------------------------

    def spawn_until_healed(self, act: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Run `act` in a task of its own, until the cluster is healed."""
        self._until_healed.start_soon(act, *arguments)

    def spawn(self, act: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Run `act` in a task of its own, to the end of the run."""
        self._nursery.start_soon(act, *arguments)

    def processes(self) -> list[ServerProcess]:
        return list(self.servers.values())

    def revive(self, server: ServerProcess) -> None:
        if not server.up:
            self.record(server.sid, "is started", 0, None)
            self._nursery.start_soon(self._live, server, server.request_start())

    async def _live(self, server: ServerProcess, life: int) -> None:
        code = await server.live(life)
        self._on_change()
        if code is None:
            return
        self.record(server.sid, "has ended", 0, str(code))
        how = server.requested_end
        if how == "kill":
            return
        if how == "terminate" and code in (0, server.ends_with, -15):  # -15: it had not installed its signal handler
            self._on_ended(server)
        elif how == "terminate":
            self.violated(NO_DEATH, f"{server} ended with {code} after SIGTERM: {server.log_tail()}")
        elif server in self.excused and code == 1:
            self.counted("disk failed")
            self._on_disk_failed(server)
        else:
            self.violated(NO_DEATH, f"{server} ended with {code}: {server.log_tail()}")

    def _on_ended(self, server: ServerProcess) -> None:
        """Handle that a process has ended in good order."""

    def _on_disk_failed(self, server: ServerProcess) -> None:
        """Handle that a process has ended because its disk failed."""
        self.excused.discard(server)
        if self.healed:
            self.revive(server)

    async def end_all(self, servers: list[ServerProcess], within_s: float) -> None:
        """Stop these servers at the same time, so that none takes over from another."""
        running = [server for server in servers if server.up]
        for server in running:
            server.terminate()
        with trio.move_on_after(within_s):
            for server in running:
                await server.wait_for_exit()
        for server in running:
            if server.up:
                self.violated(NO_HANG, f"{server} runs {within_s:g} s after SIGTERM")
