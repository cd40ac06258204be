"""The client port of a simulated server: it owns the real `ClientService` of one life of the server.

It does for it what `ServerRuntime` does with tasks and sockets. It reports roles and snapshots, calls `check` and
`reap` on virtual time, and passes requests on to the real `RequestPath`. When a turn of the server is over, it has its
connections send what has gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from harness.checkers.ghost import Violation
from harness.faults import Knobs
from harness.lists import credentials_of
from harness.worlds.cores.store.checks import ADMITTED
from harness.worlds.cores.store.connection_shell import SimulatedShell
from harness.worlds.cores.store.judged_service import JudgedClientService
from zab.core.ensemble import Ensemble
from zab.core.errors import Overloaded, ZabError
from zab.core.messages import State
from zab.core.zxid import Zxid
from zab.runtime.store_server.client_port_settings import ClientPortSettings
from zab.service.client_sessions import BARRIER, Steps
from zab.service.config_node import ConfigNode
from zab.service.connection.ports import ConnectionPhase, Done
from zab.service.forwarding.pending_submissions import PendingSubmissions, Submission
from zab.service.overflow_queue import OverflowQueue
from zab.service.throttle import ThrottleSettings
from zab.store.acl import digest_id
from zab.store.error_codes import ErrorCode
from zab.store.operations import Fields, Op
from zab.store.request_format import HEAD, INTERNAL
from zab.wire.relay_messages import ReconfigureRequest

if TYPE_CHECKING:
    from harness.worlds.cores.store.server import StoreServer
    from harness.worlds.cores.store.wire import Wire

STALL_MS: Final = 20
"""Between two attempts of requests that a throttle holds back."""
FILL_MS: Final = 50
"""Between two connections that a server admits whose tokens are used up."""
CONTAINERS_MS: Final = 100
"""Between two checks for containers and TTL nodes: much more often than in production."""
LARGE_MAX: Final = 3
"""Large requests for which a server has room."""
SUPER: Final = "super"
"""The name of the user that may change the membership. The simulated clients log in with the name as the password."""
TICKS_MAX: Final = ClientPortSettings().timeout_ticks_max
"""The longest timeout of a session, in ticks."""


class StrictLog:
    """Raise what a real server would only log: no simulated client breaks the rules, and no connection may fail."""

    def say(self, event: str, level: str = "info", /, **fields: object) -> None: ...

    def warn_rate_limited(self, event: str, key: object, level: str = "warning", /, **fields: object) -> None:
        why = str(fields.get("why"))
        if event in ("client_failed", "client_protocol_error") and "bytes of large requests are open" not in why:
            raise AssertionError(f"{event}: {fields.get('why')}")


class Unwatched:
    """The watchdog of a server whose turns take no time."""

    _TURN: Final = nullcontext()

    def turn(self, cause: Callable[[], str]) -> AbstractContextManager[object]:
        return self._TURN


class SimulatedMember:
    """It takes requests as `Member` does, and notes whether the server has to be woken."""

    def __init__(self, pending: PendingSubmissions) -> None:
        self.posted = False
        """Whether something was posted since the server was woken last."""
        self._pending = pending

    def post(self, request: bytes, done: Done) -> Submission:
        if not self._pending.has_room(len(request)):
            raise Overloaded("there is no room")
        self.posted = True
        return self._pending.submit(request, done)

    def post_many(self, requests: Sequence[bytes], done: Done) -> int:
        taken = self._pending.submit_many(requests, done)
        self.posted = self.posted or taken > 0
        return taken

    def forget(self, submission: Submission) -> None:
        self._pending.cancel(submission)


def settings_of(knobs: Knobs) -> ClientPortSettings:
    throttle = ThrottleSettings(
        request_max_requests=knobs.open_requests,
        request_stall_ms=STALL_MS,
        op_wait_ms=knobs.wait_ms,
        large_request_threshold=knobs.large_bytes or -1,
        large_request_max_bytes=LARGE_MAX * max(knobs.large_bytes, 1),
        connection_tokens=knobs.connection_tokens,
        connection_fill_ms=FILL_MS,
    )
    return ClientPortSettings(
        tick_ms=knobs.tick_ms,
        containers_ms=CONTAINERS_MS,
        local_sessions_enabled=knobs.local_sessions > 0,
        local_sessions_upgrading_enabled=knobs.local_sessions > 1,
        reconfig_enabled=True,
        super_digest=digest_id(credentials_of(SUPER)),
        read_only_mode_enabled=knobs.read_only_ms > 0,
        read_only_after_ms=knobs.read_only_ms or ClientPortSettings().read_only_after_ms,
        throttle=throttle,
    )


class SimulatedClientPort:
    """It is the `RequestPort` of its `ClientService`, and the observer of the machine."""

    def __init__(self, server: StoreServer) -> None:
        self.server = server
        self.world = server.world
        self._requests = server.requests
        self._shells: dict[SimulatedShell, None] = {}
        self._dirty: list[SimulatedShell] = []
        """Connections that send when the turn of the server is over."""
        self._member = SimulatedMember(server.requests.pending)
        self._overflow = OverflowQueue(self._member)
        tick_ms = server.knobs.tick_ms
        chance = Random(f"{self.world.script.seed}/door/{server.id}/{server.life}")
        self.settings = settings = settings_of(server.knobs)
        self.clients: JudgedClientService = JudgedClientService(
            server.id,
            server.machine.store,
            settings,
            StrictLog(),
            self,
            Unwatched(),
            clock_ms=lambda: server.now_ms,
            wall_ms=server.wall_ms,
            cut_off_since=lambda: server.node.cut_off_since,
            random_bytes=chance.randbytes,
            chance=lambda: 1.0,
        )
        self.session_changed, self.session_closes = self.clients.session_changed, self.clients.session_closes
        self.restore_begins = self.clients.restore_begins
        self.config_node = ConfigNode(server.id, server.machine.store, settings)
        """It keeps /zookeeper/config, and decides the reconfigurations of clients."""
        server.machine.store.observer = self
        self._pause_ms = tick_ms // 2
        self._checked_ms = server.now_ms
        self._admitted = self._rejected = 0
        """New connections that were admitted, and those that were refused, up to the last first frame."""
        self._admitted_ms = server.now_ms - 3 * FILL_MS
        """The time of the last admission."""
        self.world.push(self.world.now + tick_ms * 500, self._check, server.life, None)

    # -- the server's turn -----------------------------------------------------------------------------

    def role_changed(self) -> None:
        node = self.server.node
        self.clients.role_changed(serving=node.serving, leading=node.state is State.LEADING, epoch=node.epoch)

    def turned(self) -> None:
        """The turn of the member is over: send everything that it produced for clients."""
        if self._dirty:
            dirty, self._dirty = self._dirty, []
            for shell in dirty:
                shell.flush()
        if self._overflow.waiting:
            self.world.counted("waited for room")
            self._overflow.retry()
        if self._member.posted:
            self._member.posted = False
            self.server.wake()

    def restore_ended(self) -> None:
        self.config_node.restored()
        self.clients.restore_ended()

    def dirty(self, shell: SimulatedShell) -> None:
        self._dirty.append(shell)

    def cut(self) -> None:
        """Break every connection. This server learns of it as late as its clients, if it still lives."""
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
        """Count the result of a client's write, if its connection still is there to pass it on."""
        client: Any = self.clients.sessions.attached.get(session)
        if error is None and client is not None and client.phase is not ConnectionPhase.OVER:
            if result[1] == ErrorCode.SESSION_MOVED:
                self.world.told_moved.append((session, self.server.id, result[0]))
            else:
                self.world.workload.told(self.server, Zxid(result[0]))
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
            server.backlog.append((self._later, do, life))
            return
        do()
        self.turned()

    def when_readable(self, shell: SimulatedShell, done: Done) -> None:
        """Look again until the state may be read, or only be read."""
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
        """Check the throttle of new connections after each first frame: tokens come back while none is taken."""
        counts, now = self.clients.counts, self.server.now_ms
        rejected, self._rejected = counts.connection_rejected - self._rejected, counts.connection_rejected
        admitted = counts.connection_request_count - counts.connection_rejected
        if admitted > self._admitted:
            self._admitted, self._admitted_ms = admitted, now
        elif rejected and now - self._admitted_ms > 2 * FILL_MS:
            what = f"server {self.server.id} refuses a connection {now - self._admitted_ms} ms after it admitted one"
            raise Violation(ADMITTED, what)

    def closed(self, shell: SimulatedShell) -> None:
        self._shells.pop(shell, None)
        if shell.steps is not None:
            shell.steps.close()
            if shell.asked is not None:
                self._overflow.give_up(shell.asked)
        self.clients.machine.watches.drop(shell.connection)

    def carry_out(self, shell: SimulatedShell, steps: Steps[Any], done: Done) -> None:
        """Carry out the steps of an operation, one when the other is done, until the shell gives it up."""

        def go_on(result: Any, error: Exception | None) -> None:
            if shell.steps is not steps:
                return  # it was given up
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
        """Called twice a tick."""
        server, world = self.server, self.world
        if server.life != life:
            return
        if server.paused:
            server.backlog.append((self._check, life, None))
            return
        now = server.now_ms
        world.push(world.now + self._pause_ms * 1_000, self._check, life, None)
        if now - self._checked_ms < self._pause_ms:
            return  # its clock goes slowly
        self._checked_ms = now
        expired = self.clients.counts.stale_sessions_expired
        for report in self.clients.check():
            self._requests.side_channel.tell_leader(report)
        for _number in range(self.clients.counts.stale_sessions_expired - expired):
            world.counted("session expired")
        self.clients.reap()
        self.turned()
