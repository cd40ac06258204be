"""The recovery after the last fault: servers agree, and clients have their sessions and watches again.

Abandoned sessions end. A client with a new session reads everything after a sync, so that few outcomes stay unknown.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from harness.checkers.oracle_state import Violation
from harness.history import Event, Request, Response
from harness.script.workload import has_lists
from harness.worlds.cores.liveness import Liveness
from harness.worlds.cores.server import Server
from harness.worlds.cores.store import checks
from harness.worlds.cores.store.client import Client, call_of
from harness.worlds.cores.store.client_service import TICKS_MAX
from harness.worlds.cores.store.server import StoreServer
from harness.worlds.cores.store.server_deletions import left_over, timely
from harness.worlds.cores.store.simulator import StoreSimulator
from zab.client.client_settings import ClientSettings
from zab.client.connection_failures import Unreachable
from zab.core.errors import OutcomeUnknown
from zab.store.paths import ROOT, SYSTEM, child_of
from zab.store.server_watches import WatchKind

CLIENT_ROUNDS: Final = 3
"""The number of longest session timeouts within which clients must find a server that serves them."""
KINDS: Final = (WatchKind.DATA, WatchKind.DATA, WatchKind.CHILDREN, WatchKind.PERSISTENT, WatchKind.RECURSIVE)
"""The kinds of the lists of watches that a client keeps."""
ONCE: Final = (WatchKind.DATA, WatchKind.CHILDREN)
"""The kinds of watches that fire once. A server drops one without an event if the ACL of the node forbids the event."""


class Reader(Client):
    """A client that reads every node once."""

    def __init__(self, world: StoreSimulator, number: int) -> None:
        super().__init__(world, number)
        self.impolite_percent = 0
        self._open: dict[int, Request] = {}
        self._enqueue_read(Request("sync", ROOT))
        self._read_node(ROOT)
        self.want()

    @property
    def settings(self) -> ClientSettings:
        """Return settings with many requests in flight, whatever the script draws: the servers are judged here."""
        return ClientSettings()

    @property
    def done(self) -> bool:
        return not self._open

    def _rest(self, how: str = "") -> None:
        """Repeat the open reads in a new session, because a local session ends with its connection."""
        super()._rest(how)
        repeated, self._open = self._open, {}
        for request in repeated.values():
            self._enqueue_read(request)
        if repeated:
            self.want()

    def _read_node(self, path: str) -> None:
        self._enqueue_read(Request("get", path))
        self._enqueue_read(Request("children", path))

    def _enqueue_read(self, request: Request) -> None:
        number = self.world.next_call()
        self._open[number] = request
        self.protocol.submit(call_of(number, request, partial(self._on_outcome, number)))

    def _on_outcome(self, number: int, _: Any, error: Exception | None) -> None:
        """Repeat a read whose reply was lost. `_rest` repeats the reads that were not sent."""
        if isinstance(error, OutcomeUnknown | Unreachable):
            self._enqueue_read(self._open.pop(number))

    def saw(self, event: Event) -> None:
        super().saw(event)
        if isinstance(event, Response):
            request = self._open.pop(event.call)
            for name in event.reply.children or ():
                path = child_of(request.path, name)
                if path != SYSTEM:
                    self._read_node(path)


class StoreLiveness(Liveness):
    def __init__(self, world: Any) -> None:
        super().__init__(world)
        self._clients: dict[int, Any] = world.workload.clients
        self._reader: Any = None
        self._lists = has_lists(world.script.ops)
        self.bound_ms += CLIENT_ROUNDS * world.settings.tick_ms * TICKS_MAX
        timing = world.script.timing
        self._call_us_max = 4 * timing.delay_us_max + 2 * timing.fsync_us_max
        """The time for one call of a client. A script may draw bounds that let only one call be under way."""

    def begin(self) -> None:
        for client in self._clients.values():
            client.impolite_percent = 0
            client.come_back()
        open_calls = sum(client.open_calls for client in self._clients.values())
        self.bound_ms += open_calls * self._call_us_max // 1_000
        super().begin()

    def _load(self) -> None:
        """Write nothing, because the clients are back and write on their own."""

    def _unwritten(self) -> str | None:
        """Start the last reader, and wait for it. The creation of its session is the new write."""
        for client in self._clients.values():
            if not self._is_settled(client):
                return str(client.state)
        if self._reader is None:
            number = max(self._clients, default=0) + 1
            self._clients[number] = self._reader = self._new_reader(number)
        return None if self._reader.done else "the last reader has not read all nodes"

    def _is_settled(self, client: Any) -> bool:
        return bool(client.settled)

    def _new_reader(self, number: int) -> Any:
        return Reader(self.world, number)

    def _unequal(self, leader: Server) -> str | None:
        missing = super()._unequal(leader)
        if missing is not None:
            return missing
        world = self.world
        for client in self._clients.values():
            if client.connected and (missed := self._unwatched(client)):
                return f"client {client.id} watches {missed}, but its server has no such watches"
        machine: Any = leader.machine
        still = self._abandoned(machine) or left_over(machine.store.tree.nodes, leader.clock.wall_ms())
        if still is not None:
            return still
        checks.exactly_once(world.ghost)
        timely(world.ghost)
        self._judge_replies()
        for server in world.running():
            checks.owned(server.id, server.machine)
            self._judge_port(server, leader)
        alike = [(each.id, each.machine) for each in world.running() if each.machine.zxid == machine.zxid]
        checks.same_lists(alike)
        checks.same_counts(alike)
        return None

    def _abandoned(self, machine: Any) -> str | None:
        """Return a session that its client has left, and that does not end."""
        alive = {client.session for client in self._clients.values()}
        abandoned = [session for session in machine.store.sessions.table if session not in alive]
        return f"session {abandoned[0]:#x} does not end, although its client has left it" if abandoned else None

    def _judge_replies(self) -> None:
        checks.moved(self.world.ghost, self.world.moved_replies)
        checks.correct_timeouts(self.world.ghost, self.world.client_events)

    def _judge_port(self, server: Any, leader: Server) -> None:
        if server.id in leader.node.ensemble.by_id:  # a server that was removed may lack the last changes
            checks.configured(server.id, server.machine, server.node.ensemble)
        self._judge_counts(server)

    @staticmethod
    def _judge_counts(server: StoreServer) -> None:
        """Check the totals that the throttles of the server use. A leak would hold requests back for ever."""
        clients = server.client_port.clients
        connections: list[Any] = list(clients.connections)
        pipelines = [each.pipeline for each in connections if each.pipeline is not None]
        totals, expected = clients.totals, sum(len(pipeline.replies) for pipeline in pipelines)
        if totals.open_requests != expected:
            raise Violation(
                checks.OPEN,
                f"server {server.id} counts {totals.open_requests} open requests, but has {expected}",
            )
        if totals.large_bytes and not any(pipeline.queued for pipeline in pipelines):
            raise Violation(
                checks.OPEN,
                f"server {server.id} counts {totals.large_bytes} bytes of large requests, but has no queued request",
            )

    def _sessions(self, server: Any) -> Any:
        """Return the sessions of the client port of a server."""
        return server.client_port.clients.sessions

    def _unwatched(self, client: Any) -> list[str]:
        """Return the watches that the client has and its server does not."""
        server = self.world.servers[client.server]
        connection = self._sessions(server).attached.get(client.protocol.granted.id) if server.up else None
        watches = server.machine.store.watches
        return [
            f"{path} ({kind.name.lower()})"
            for paths, kind in zip(client.protocol.watch_manager.lists(), KINDS, strict=True)
            for path in paths
            if (connection is None or not watches.has(path, connection, kind)) and not (self._lists and kind in ONCE)
        ]
