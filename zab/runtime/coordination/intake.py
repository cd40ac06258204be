"""What one client asks for: read from its connection as far as there is room, and taken as far as it may be.

All requests of one receive are handled in one pass. What may not be taken yet waits at the door: without a leader,
behind a sync, in front of the gate. Only pings do not wait there: a client whose writes wait for an election shall not
think that we are dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from zab.core.errors import WireError
from zab.runtime.coordination.authentication import Caller
from zab.runtime.coordination.gate import Gate
from zab.runtime.coordination.greeting import RECEIVE_BYTES
from zab.runtime.coordination.line import Slot
from zab.runtime.coordination.local import makes_ephemeral
from zab.runtime.coordination.proofs import proofs_of
from zab.runtime.coordination.replies import Replies
from zab.runtime.coordination.special import SPECIAL, ping, unknown
from zab.store.errors import ErrorCode
from zab.store.ops import READS, WRITES, Op
from zab.store.request import FOREIGN, HEAD, LOCAL, op_name
from zab.wire.client.frames import Request, RequestReader
from zab.wire.client.requests import PING_XID

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

_WRITES: Final = frozenset(map(int, WRITES - {Op.RECONFIG}))
_READS: Final = frozenset(map(int, READS))
_NOT_READ_ONLY: Final = frozenset(map(int, WRITES | {Op.SYNC, Op.CHECK}))
_PING: Final = int(Op.PING)
_CLOSE: Final = int(Op.CLOSE_SESSION)
READ_WORK_MAX: Final = 20_000
"""Nodes and names that reads look at before others have the loop: some milliseconds."""
SCANS_BEHIND_MAX: Final = 4
_SCANS: Final = {
    **dict.fromkeys(map(int, (Op.GET_ALL_CHILDREN_NUMBER, Op.GET_EPHEMERALS)), SCANS_BEHIND_MAX + 1),
    **dict.fromkeys(map(int, (Op.GET_CHILDREN, Op.GET_CHILDREN2, Op.MULTI_READ, Op.SET_WATCHES, Op.SET_WATCHES2)), 1),
}
"""Reads that may take milliseconds each, with their weights: up to `SCANS_BEHIND_MAX` may stand in line behind a write.

All that is in line is answered in the turn in which the write is applied. Those with small replies, which may look at
every node of the server, never stand there.
"""
RESUME_S: Final = 0.05
KINDS_SHOWN: Final = 5


class Intake(Replies):
    def __init__(self, server: StoreServer, stream: trio.abc.Stream, peer: str, caller: Caller) -> None:
        super().__init__(server, stream, peer, caller)
        self.timeout_ms = 0
        self.read_only = False
        self.received = 0
        self.identified = caller.encoded
        self.flags = FOREIGN
        self._stream = stream
        self._fd = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None
        self._local = False
        """Nobody but this server knows the session."""
        throttle = server.settings.throttle
        self._gate = Gate(throttle, server) if Gate.wanted(throttle) else None
        self._counted = 0
        self._arrived_at: float | None = None
        self._held: list[Request] = []
        self.paused = False
        self._resuming = False
        self._scans_behind = 0
        """The weight of scans that were put in line since it was empty."""
        self._heard = True
        self._ended = False
        self._reader = RequestReader(server.settings.frame_bytes_max)
        self._nursery: trio.Nursery | None = None
        self._jobs: list[Callable[[], Awaitable[None]]] = []
        """To be done beside the reading, as soon as there is a nursery."""
        self._needs_company = False

    @property
    def queued(self) -> int:
        return len(self.line) + len(self._held)

    @property
    def unfinished(self) -> int:
        """Bytes."""
        return self._reader.held_bytes

    def session_is_local(self) -> None:
        self._local = True
        self.flags |= LOCAL

    # -- its tasks ---------------------------------------------------------------------------------

    async def _serve(self, data: bytes | bytearray) -> None:
        """Until the client has said its last; `data` came behind its first frame.

        Most clients take their replies at once. So the task of the connection is alone, until there is something that
        waits to be sent or a job that takes longer: a nursery and a second task are a tenth of what a session costs.
        """
        if data:
            self._hear(data)
        if self._fd is not None and self.server.member.ears.stops:
            await self._receive()
        if self._ended:
            return
        async with trio.open_nursery() as nursery:
            self._nursery, self._needs_company = nursery, False
            nursery.start_soon(self._send)
            for job in self._jobs:
                nursery.start_soon(job)
            self._jobs.clear()
            await self._receive()
            nursery.cancel_scope.cancel()

    def start(self, job: Callable[[], Awaitable[None]]) -> None:
        """Beside the reading."""
        if self._nursery is not None:
            self._nursery.start_soon(job)
        else:
            self._jobs.append(job)
            self._blocked()

    def _blocked(self) -> None:
        """Its task cannot do it alone. Wherever it waits, it shall look."""
        self._needs_company = True
        self._room.ring()
        if self._fd is not None:
            self.server.member.ears.stop(self._fd)

    # -- receiving ---------------------------------------------------------------------------------

    async def _receive(self) -> None:
        ears, stream, plain = self.server.member.ears, self._stream, self._fd
        while not self._ended and await self._make_room():
            if plain is None:
                self._hear(await stream.receive_some(RECEIVE_BYTES))
            else:
                await ears.hear(plain, RECEIVE_BYTES, self._hear)

    def _hear(self, data: bytes | bytearray) -> bool:
        """Whether there is room for more."""
        if not data:
            self._ended = True
            return False
        self._heard = True
        self.server.counts.bytes_received += len(data)
        self._arrived(self._reader.feed(data))
        return self._has_room

    @property
    def _has_room(self) -> bool:
        """Else `_make_room` has something to do, or to wait for."""
        server, settings, waiting = self.server, self.server.settings, len(self.line)
        return not (
            self._held
            or self._outlet.bytes > settings.unsent_bytes_max
            or waiting > settings.requests_max
            or (waiting and server.open_requests > settings.requests_total_max)
        )

    async def _make_room(self) -> bool:
        """Before more is read: until what was asked for is answered, and taken, as far as it must be.

        False: first this task needs company.
        """
        server, settings = self.server, self.server.settings
        while not self._needs_company:
            if self._outlet.bytes > settings.unsent_bytes_max:
                await self._room.wait()
            elif self._held and self._serves and not self.paused:
                if self._gate is not None and self._gate.closed:
                    with trio.move_on_after(settings.throttle.request_stall_ms / 1000):
                        await self._room.wait()
                    if self._gate.is_stale(self.timeout_ms):
                        self.cut("a request has waited for longer than its session may")
                self.resume()
                await trio.lowlevel.checkpoint()
            elif self.queued > settings.requests_max or (
                self.line and server.open_requests > settings.requests_total_max
            ):
                await self._room.wait()
            else:
                return True
        return False

    def _arrived(self, requests: list[Request]) -> None:
        self.received += len(requests)
        if self._gate is not None:
            try:
                self._gate.weigh(requests)
            except WireError:
                self.server.counts.large_requests_rejected += 1
                raise
        if self._held or self.paused or not self._serves:
            self._hold(requests)
        else:
            self._take(requests)

    # -- at the door -------------------------------------------------------------------------------

    def _hold(self, requests: Iterable[Request]) -> None:
        for request in requests:
            if request[1] == _PING:
                ping(self, _PING, PING_XID, b"")
            else:
                self._held.append(request)

    def pause(self) -> None:
        """What is behind the request in hand waits until `proceed`."""
        self.paused = True

    def proceed(self) -> None:
        self.paused = self._waits_for_line = False
        self.answer()
        self._resume_and_wake()

    def _resume_and_wake(self) -> None:
        """The task of the connection may sleep until more arrives: what is held for want of room, it shall take."""
        self.resume()
        if self._held and not self.paused:
            ears = self.server.member.ears
            if self._fd is not None and ears.stops:
                ears.stop(self._fd)
            elif self._nursery is not None and not self._resuming:
                self._resuming = True
                self._nursery.start_soon(self._resume_beside)

    async def _resume_beside(self) -> None:
        """For a stream whose reading cannot be interrupted."""
        while self._held and not self.paused:
            if self._outlet.bytes > self.server.settings.unsent_bytes_max or not self._serves:
                await trio.sleep(RESUME_S)
            else:
                self.resume()
                await trio.lowlevel.checkpoint()
        self._resuming = False

    def resume(self) -> None:
        """There is a leader again, and a state that may be read; or a sync is done; or replies were taken."""
        if self._held and self._serves and not self.paused:
            held, self._held = self._held, []
            self._take(held)

    @property
    def _serves(self) -> bool:
        return self.server.ready or self.read_only

    # -- taking ------------------------------------------------------------------------------------

    def _take(self, requests: list[Request]) -> None:
        with self.server.requests_watchdog.turn(partial(self._taking_of, requests)):
            self._take_watched(requests)

    def _taking_of(self, requests: list[Request]) -> str:
        kinds = Counter(op_name(op) for _, op, _ in requests)
        kinds_text = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(KINDS_SHOWN))
        return f"{kinds_text} of session {self.session & 0xFFFF_FFFF_FFFF_FFFF:#x} from {self.peer}"

    def _take_watched(self, requests: list[Request]) -> None:
        if self._gate is not None:
            self._take_through_gate(self._gate, requests)
        elif self._local:
            self._take_of_local(requests)
        else:
            self._take_all(requests)

    def _take_through_gate(self, gate: Gate, requests: list[Request]) -> None:
        server, take = self.server, self._take_of_local if self._local else self._take_all
        count, late = gate.admit(len(requests))
        if not late:
            take(requests[:count])
        else:
            for xid, op, body in requests:
                if op in (_CLOSE, _PING):
                    take([(xid, op, body)])
                else:
                    server.counts.throttled_ops += 1
                    self.put(op, xid, Slot(ErrorCode.THROTTLED_OP, done=True))
            self.flush()
        self._hold(requests[count:])

    def _take_of_local(self, requests: list[Request]) -> None:
        """Up to where it needs a session that all know, or ends: that costs no transaction."""
        server, upgrading = self.server, self.server.settings.local_sessions_upgrading_enabled
        for index, (xid, op, body) in enumerate(requests):
            closes = op == _CLOSE
            if not closes and not (upgrading and not self.read_only and makes_ephemeral(op, body)):
                continue
            if index:
                self._take_all(requests[:index])
                if self._held:
                    self._held += requests[index:]
                    return
            if closes:
                self.last_taken = True
                server.local.forget(self.session)
                self.put(op, xid, Slot(done=True, last=True))
                self.flush()
            else:
                server.upgrade_session(self.session)
                self._local, self.flags = False, FOREIGN
                self._take_all(requests[index:])
            return
        self._take_all(requests)

    def _take_all(self, requests: list[Request]) -> None:
        server, line = self.server, self.line
        if self._arrived_at is None:
            self._arrived_at = trio.current_time()
        me, session, audit = server.me, self.session, server.audit
        self._taking = True
        posts: list[bytes] = []
        unsent_bytes_max, read_only = server.settings.unsent_bytes_max, self.read_only
        reads = self.machine.reads
        reads.work = 0
        if not line:
            self._scans_behind = 0
        if self.caller.barred:
            requests = proofs_of(self, requests)
        for index, (xid, op, body) in enumerate(requests):
            if self.last_taken or self.over:
                break
            if reads.work > READ_WORK_MAX:
                self._held = requests[index:]
                server.postpone(self._resume_and_wake)
                break
            if self.paused or self._outlet.bytes > unsent_bytes_max:  # small reads may ask for a gigabyte
                self._held = requests[index:]
                break
            if read_only and op not in _READS:
                if op in _NOT_READ_ONLY:
                    self.put(op, xid, Slot(ErrorCode.NOT_READ_ONLY, done=True))
                else:
                    SPECIAL.get(op, unknown)(self, op, xid, body)
            elif op in _WRITES:
                line.append((op, xid, None))
                identified = self.identified
                if op == _CLOSE:
                    self.last_taken = True
                posts.append(HEAD.pack(self.flags, session, xid, op, me, len(identified)) + identified + body)
                if audit is not None:
                    self._audited.append(audit.teller(session, self.identities, self.caller.host, op, body))
            elif op in _READS:
                if line:
                    weight = _SCANS.get(op)
                    if weight is not None:
                        self._scans_behind += weight
                        if self._scans_behind > SCANS_BEHIND_MAX:
                            self.pause()
                            self._waits_for_line = True
                            self._held = requests[index:]
                            break
                    line.append((op, xid, body))
                else:
                    self._read(op, xid, body)
            else:
                if posts:
                    server.post_many(posts, self._done)  # what is special is so behind these
                    posts = []
                SPECIAL.get(op, unknown)(self, op, xid, body)
        if posts:
            server.post_many(posts, self._done)
        self._taking = False
        self.flush()

    def _leave(self) -> None:
        """By its own task, if that hears and is alone; to cancel it costs as much as a scope."""
        if self._nursery is None and self._fd is not None and self.server.member.ears.stop(self._fd):
            self._ended = True
        else:
            super()._leave()

    # -- accounts ----------------------------------------------------------------------------------

    def flush(self) -> None:
        """With what is still open of this client, for the bounds of all."""
        waiting = len(self.line)
        if self.over:
            return
        if waiting != self._counted:
            self.server.open_requests += waiting - self._counted
            self._counted = waiting
        if not waiting and not self._held:
            if self._gate is not None:
                self._gate.drained()
            if self._arrived_at is not None:
                self.server.latency.add(trio.current_time() - self._arrived_at)
                self._arrived_at = None
        super().flush()
        if self._outlet.bytes and self._nursery is None:
            self._blocked()

    def _drop(self) -> None:
        """Whatever it has asked for: nobody is there for the answers."""
        self.server.open_requests -= self._counted
        if self._gate is not None:
            self._gate.drained()
        self.line.clear()
        self._held.clear()
        self._outlet.clear()
