"""The client port of a simulated server: it owns the real `ClientService` of one life of the server.

It stands in for `ServerRuntime`, without tasks and sockets. It reports roles and snapshots to the service, calls its
`check` and `reap` on virtual time, and passes requests on to the real `RequestPath`. At the end of a turn of the
server, it makes the connections send their output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from random import Random
from typing import Any, Final

from harness.checkers.oracle_state import Violation
from harness.worlds.cores.server import Server
from harness.worlds.cores.store import client_service
from harness.worlds.cores.store.checks import ADMITTED
from harness.worlds.cores.store.machine import SimulatedStore
from harness.worlds.cores.store.simulator import StoreSimulator
from harness.worlds.cores.store.wire import Wire
from zab.core.ensemble import Ensemble
from zab.core.errors import Overloaded, ZabError
from zab.core.messages import State
from zab.core.zxid import Zxid
from zab.service.client_sessions import BARRIER, Steps
from zab.service.config_node import ConfigNode
from zab.service.connection.client_connection import ClientConnection
from zab.service.connection.ports import ConnectionPhase, Done
from zab.service.forwarding.pending_submissions import PendingSubmissions, Submission
from zab.service.forwarding.request_path import RequestPath
from zab.service.overflow_queue import OverflowQueue, OverflowRequest
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.quota import ExceededLimit
from zab.store.request_format import HEAD, INTERNAL
from zab.wire.client.client_frames import Command
from zab.wire.relay_messages import ReconfigureRequest

HOST: Final = "127.0.0.1"


class SimulatedMember:
    """Accepts requests as `Member` does, and notes whether the server has to take a turn."""

    def __init__(self, pending: PendingSubmissions) -> None:
        self.posted = False
        """True if a request was accepted since the last turn was scheduled."""
        self._pending = pending

    def post(self, request: bytes, done: Done) -> Submission:
        if not self._pending.has_room(len(request)):
            raise Overloaded("the server has no room for another request")
        self.posted = True
        return self._pending.submit(request, done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> int:
        taken = self._pending.submit_many(requests, done)
        self.posted = self.posted or taken > 0
        return taken

    def forget(self, submission: Submission) -> None:
        self._pending.cancel(submission)


class SimulatedClientPort:
    """The `RequestPort` of its `ClientService`, and the observer of the machine."""

    def __init__(self, world: StoreSimulator, server: Server, requests: RequestPath, store: SimulatedStore) -> None:
        self.world = world
        self.server = server
        self._requests = requests
        self._shells: dict[SimulatedShell, None] = {}
        self._dirty: list[SimulatedShell] = []
        """The connections that send their output when the turn of the server is over."""
        self._member = SimulatedMember(requests.pending)
        self._overflow = OverflowQueue(self._member)
        tick_ms = server.knobs.tick_ms
        chance = Random(f"{world.script.seed}/door/{server.id}/{server.life}")
        self.settings = settings = client_service.port_settings(server.knobs)
        self.clients: client_service.JudgedClientService = client_service.JudgedClientService(
            server.id,
            store,
            settings,
            client_service.StrictLog(),
            self,
            client_service.Unwatched(),
            clock_ms=lambda: server.now_ms,
            wall_ms=server.clock.wall_ms,
            cut_off_since=lambda: server.node.cut_off_since,
            random_bytes=chance.randbytes,
            chance=lambda: 1.0,
            bounds=client_service.inner_bounds(server.knobs),
        )
        self.session_changed, self.session_closes = self.clients.session_changed, self.clients.session_closes
        self.restore_begins = self.clients.restore_begins
        self.config_node = ConfigNode(server.id, store, settings)
        """Maintains /zookeeper/config, and decides the reconfigurations of clients."""
        store.observer = self
        self._pause_ms = tick_ms // 2
        self._checked_ms = server.now_ms
        self._admitted = self._rejected = 0
        """The numbers of admitted and of refused connections, up to the last first frame."""
        self._admitted_ms = server.now_ms - 3 * client_service.FILL_MS
        """The time of the last admission."""
        self.world.push(self.world.now + tick_ms * 500, self._check, server.life, None)

    # -- the server's turn -----------------------------------------------------------------------------

    def role_changed(self) -> None:
        node = self.server.node
        self.clients.role_changed(serving=node.serving, leading=node.state is State.LEADING, epoch=node.epoch)

    def turned(self) -> None:
        """End a turn of the server: send the output of connections, and retry requests that wait for room."""
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            for shell in dirty:
                shell.flush()
        if self._overflow.waiting:
            self.world.counted("waited for room")
            self._overflow.retry()
        if self._member.posted:
            self._member.posted = False
            self.server.turn_soon()

    def limit_exceeded(self, exceeded: ExceededLimit, refused: bool) -> None:
        """Do nothing: a server logs a warning."""

    def restore_ended(self) -> None:
        self.config_node.restored()
        self.clients.restore_ended()

    def dirty(self, shell: SimulatedShell) -> None:
        self._dirty.append(shell)

    def cut(self) -> None:
        """Break every connection. The server notices it at once or late, as its clients do, if it still runs."""
        for shell in list(self._shells):
            shell.wire.broken()

    def prepared(self, zxid: int, applied: int) -> None:
        self.world.prepared[zxid] = applied

    # -- requests --------------------------------------------------------------------------------------

    def post(self, request: bytes, done: Done) -> None:
        flags, session, _, op, *_ = HEAD.unpack_from(request)
        if not flags & INTERNAL:
            done = partial(self._count_result, session, done)
        elif op == Op.DELETE_CONTAINER:
            self.world.counted("reaped")
        self._overflow.post_many((request,), done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> None:
        for request in requests:
            self.post(request, done)

    def _count_result(self, session: int, done: Done, result: Any, error: Exception | None) -> None:
        """Count the result of a client's write, if its session still has an open connection."""
        client: Any = self.clients.sessions.attached.get(session)
        if error is None and client is not None and client.phase is not ConnectionPhase.OVER:
            if result[1] == ErrorCode.SESSION_MOVED:
                self.world.moved_replies.append((session, self.server.id, result[0]))
            else:
                self.world.acknowledged(self.server, Zxid(result[0]))
        done(result, error)

    def postpone(self, do: Callable[[], None]) -> None:
        self.later(0, do)

    def later(self, pause_ms: int, do: Callable[[], None]) -> None:
        self.world.push(self.world.now + pause_ms * 1_000, self._later, do, self.server.life)

    def _later(self, do: Callable[[], None], life: int) -> None:
        server = self.server
        if server.life != life:
            return
        if server.paused:
            server.defer(self._later, do, life)
            return
        do()
        self.turned()

    def when_readable(self, shell: SimulatedShell, done: Done) -> None:
        """Wait until the state may be read. Report whether the connection is read-only."""
        if shell.over:
            return
        wait_ms = self.clients.leader.unreadable_ms
        if wait_ms:
            self.later(wait_ms, partial(self.when_readable, shell, done))
        else:
            done(not self.clients.ready, None)
            shell.output_ready()

    def barrier(self, done: Done, ahead: bytes = b"") -> None:
        self._member.posted = True
        self._requests.barriers.add(done, ahead)

    # -- connections -----------------------------------------------------------------------------------

    def opened(self, wire: Wire) -> SimulatedShell:
        shell = SimulatedShell(self, wire)
        self._shells[shell] = None
        return shell

    def judge_admission(self) -> None:
        """Check the throttle of new connections after each first frame: tokens return while no connection takes one."""
        counts, now = self.clients.counts, self.server.now_ms
        rejected, self._rejected = counts.connection_rejected - self._rejected, counts.connection_rejected
        admitted = counts.connection_request_count - counts.connection_rejected
        if admitted > self._admitted:
            self._admitted, self._admitted_ms = admitted, now
        elif rejected and now - self._admitted_ms > 2 * client_service.FILL_MS:
            what = (
                f"server {self.server.id} refuses a connection {now - self._admitted_ms} ms after it last admitted one"
            )
            raise Violation(ADMITTED, f"{what}, but a token returns every {client_service.FILL_MS} ms")

    def closed(self, shell: SimulatedShell) -> None:
        self._shells.pop(shell, None)
        if shell.steps is not None:
            shell.steps.close()
            if shell.asked is not None:
                self._overflow.give_up(shell.asked)
        self.clients.machine.watches.drop(shell.connection)

    def carry_out(self, shell: SimulatedShell, steps: Steps[Any], done: Done) -> None:
        """Carry out the steps of an operation one after the other, until the shell gives it up."""

        def go_on(result: Any, error: Exception | None) -> None:
            if shell.steps is not steps:
                return  # the shell has given the operation up
            shell.asked = None
            if error is not None:
                shell.steps = None
                done(None, error)
                return
            try:
                step = steps.send(result)
            except StopIteration as end:
                shell.steps = None
                done(end.value, None)
                return
            if step is BARRIER:
                self.barrier(go_on)
            else:
                assert isinstance(step, bytes), "the simulated ensembles of stores speak our own protocol"
                shell.asked = self._overflow.ask(step, go_on)

        shell.steps = steps
        go_on(None, None)

    def change_membership(self, shell: SimulatedShell, fields: Fields, done: Done) -> None:
        """Carry out the steps of a reconfiguration that the leader has permitted, as `ServerMembership` does."""
        steps = self.config_node.change(fields, lambda: self.server.node.ensemble)

        def go_on(_: object, error: Exception | None) -> None:
            if shell.over:
                steps.close()
                return
            try:
                step = next(steps) if error is None else steps.throw(error)
            except StopIteration as end:
                done(end.value, None)
                return
            except ZabError as failure:
                done(None, failure)
                return
            if isinstance(step, Ensemble):
                request = ReconfigureRequest(0, (), (), step.text(), step.version)
                self._member.posted = True
                self._requests.changes.add(request, lambda outcome: go_on(None, outcome))
            else:
                self.barrier(go_on)

        go_on(None, None)

    # -- periodic work ---------------------------------------------------------------------------------

    def _check(self, life: int, _: None) -> None:
        """Do the periodic work, twice a tick."""
        server, world = self.server, self.world
        if server.life != life:
            return
        if server.paused:
            server.defer(self._check, life, None)
            return
        now = server.now_ms
        world.push(world.now + self._pause_ms * 1_000, self._check, life, None)
        if now - self._checked_ms < self._pause_ms:
            return  # the clock of the server runs slowly
        self._checked_ms = now
        expired = self.clients.counts.stale_sessions_expired
        for report in self.clients.check():
            self._requests.side_channel.tell_leader(report)
        for _number in range(self.clients.counts.stale_sessions_expired - expired):
            world.counted("session expired")
        self.clients.reap()
        self.turned()


class SimulatedShell:
    """The shell of a client connection: the real `ClientConnection`, fed from a wire.

    Like the shell with a socket, it passes arrived bytes on while the connection has room, sends the output when the
    turn of the server is over, and enforces the deadline of the handshake.
    """

    def __init__(self, port: SimulatedClientPort, wire: Wire) -> None:
        self.port = port
        self.wire = wire
        self.steps: Steps[Any] | None = None
        """The operation that creates or attaches the session, while it is in progress."""
        self.asked: OverflowRequest | None = None
        """The request of the present step of that operation, while the ensemble handles it."""
        self._unread = b""
        """The bytes that have arrived and were not passed to the connection yet."""
        self._hung_up = False
        """True if the client has hung up."""
        self._over = False
        """True if the connection is closed on this side."""
        self._dirty = False
        """True if `flush` will be called at the end of the turn."""
        self._pauses = False
        """True if `_again` will be called at the end of a throttle's pause."""
        self._deadline = inf
        """The deadline for which an alarm is set."""
        self.connection = ClientConnection(port.clients, self, self._clock, HOST, f"{HOST}:{wire.client.id}")

    def _clock(self) -> float:
        return self.port.server.now_ms / 1000

    # -- the wire --------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        if not self._over:
            self._unread += data
            self._read()
            self.output_ready()
            self.port.turned()

    def hung_up(self) -> None:
        """Note that the client has hung up. The connection reads nothing while it waits for a session."""
        self._hung_up = True
        self.output_ready()
        self.port.turned()

    def _read(self) -> None:
        connection = self.connection
        while (pause_s := connection.advance()) == 0 or (pause_s is None and self._unread):
            if pause_s is None:
                first = connection.phase is ConnectionPhase.FIRST_FRAME
                data, self._unread = self._unread, b""
                connection.receive(data)
                if first:
                    self.port.judge_admission()
        if pause_s is not None and pause_s != inf and not self._pauses:
            self._pauses = True
            self.port.later(round(pause_s * 1000), self._again)

    def _again(self) -> None:
        """Read on after the pause of a throttle."""
        self._pauses = False
        if not self._over:
            self._read()
            self.output_ready()

    def flush(self) -> None:
        """Send the output at the end of a turn of the server, and close the connection if it has ended."""
        self._dirty = False
        if self._over:
            return
        connection, buffer = self.connection, self.connection.send_buffer
        self._read()
        connection.settle()
        while connection.phase is not ConnectionPhase.OVER and buffer.frames:
            full = buffer.bytes > self.port.settings.unsent_bytes_max
            data = buffer.take()
            buffer.gone(len(data))
            self.wire.down(data)
            if full:  # requests wait until these bytes have left
                self._read()
                connection.settle()
        if connection.phase >= ConnectionPhase.CLOSING:
            self._end()
            self.wire.hung_up()
        elif self._hung_up and connection.phase is not ConnectionPhase.ARRIVING:
            self._end()
        elif connection.deadline not in (inf, self._deadline):
            self._deadline = connection.deadline
            self._set_alarm()

    @property
    def over(self) -> bool:
        """True if the connection is closed on this side."""
        return self._over

    def _end(self) -> None:
        self._over = True
        self.connection.closed()
        self.port.closed(self)

    def _set_alarm(self) -> None:
        world, server = self.port.world, self.port.server
        pause_ms = max(1, round((self._deadline - self._clock()) * 1000))
        world.push(world.now + pause_ms * 1_000, self._alarm, server.life, self._deadline)

    def _alarm(self, life: int, deadline: float) -> None:
        server = self.port.server
        if server.life != life or self._over or self.connection.deadline != deadline:
            return
        if server.paused:
            server.defer(self._alarm, life, deadline)
        elif self._clock() < deadline:
            self._set_alarm()
        else:
            self.connection.tick()
            self.port.turned()

    # -- requests of the connection ----------------------------------------------------------------------

    def output_ready(self) -> None:
        if not self._dirty:
            self._dirty = True
            self.port.dirty(self)

    wake = output_ready

    def answer_command(self, command: Command) -> bytes:
        raise AssertionError("simulated clients send no four-letter words")

    def when_readable(self, done: Done) -> None:
        self.port.when_readable(self, done)

    def barrier(self, done: Done) -> None:
        self.port.barrier(done)

    def sync(self, session: int, done: Done) -> None:
        self.port.barrier(done, self.port.clients.tracker.sign_of(session))

    def create_session(self, timeout_ms: int, done: Done) -> None:
        self.port.carry_out(self, self.port.clients.sessions.create(timeout_ms), done)

    def create_local_session(self, timeout_ms: int, read_only: bool, done: Done) -> None:
        port = self.port
        steps = port.clients.sessions.create_local(timeout_ms, lambda: port.server.now_ms, read_only=read_only)
        port.carry_out(self, steps, done)

    def attach_session(self, session: int, password: bytes | None, done: Done) -> None:
        self.port.carry_out(self, self.port.clients.sessions.find(session, password), done)

    def change_membership(self, fields: Fields, done: Done) -> None:
        self.port.change_membership(self, fields, done)
