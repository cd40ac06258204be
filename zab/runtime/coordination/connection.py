"""One client of the client port: any that speaks ZooKeeper's protocol.

Replies leave in the order of the requests. A write waits for its transaction; a read is answered at once,
or, behind a write of the same client, at the very moment when that write has been applied and nothing later.
Events are written when they happen: so an event is always in front of any reply that shows its change.

All requests of one receive are handled in one pass, and all replies of one turn are sent in one go. Replies
to pings do not wait in line: a client whose writes wait for an election shall not think that we are dead.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, TypeAlias, cast

import trio

from zab.core.errors import WireError, ZabError
from zab.runtime.coordination.authentication import Caller, Verdict
from zab.runtime.coordination.gate import Gate
from zab.runtime.coordination.local import makes_ephemeral
from zab.runtime.coordination.machine import Change
from zab.runtime.coordination.outlet import Outlet
from zab.runtime.coordination.words import answer
from zab.runtime.driver import now_ms
from zab.runtime.origin import Done
from zab.runtime.reading import read
from zab.runtime.requests import wall_ms
from zab.store.acl import Identity
from zab.store.apply import Result
from zab.store.errors import ErrorCode
from zab.store.node import stat_fields
from zab.store.ops import READS, WRITES, Op
from zab.store.request import FOREIGN, HEAD, LOCAL
from zab.wire.client.answers import read_reply, write_reply
from zab.wire.client.connect import EXPIRED, ConnectRequest, ConnectResponse, encode_connect_response
from zab.wire.client.frames import Command, HttpRequest, Opening, Request, RequestReader
from zab.wire.client.replies import body_reply, encode_reply, error_reply
from zab.wire.client.requests import PING_XID, Refused, decode_request
from zab.wire.jute import buffer

if TYPE_CHECKING:
    from zab.runtime.coordination.server import StoreServer

RECEIVE_BYTES: Final = 64 << 10

_WRITES: Final = frozenset(map(int, WRITES - {Op.RECONFIG}))
_READS: Final = frozenset(map(int, READS))
_NOT_READ_ONLY: Final = frozenset(map(int, WRITES | {Op.SYNC, Op.CHECK}))
_PING: Final = int(Op.PING)
_CLOSE: Final = int(Op.CLOSE_SESSION)
_AUTH: Final = int(Op.AUTH)
_SASL: Final = int(Op.SASL)
_MOVED: Final = int(ErrorCode.SESSION_MOVED)
_EXPIRED: Final = int(ErrorCode.SESSION_EXPIRED)


class _Slot:
    """A place in the line of replies that no transaction will fill."""

    __slots__ = ("done", "error", "last", "value", "zxid")

    def __init__(
        self,
        error: int = 0,
        value: object = None,
        *,
        done: bool = False,
        last: bool = False,
        zxid: int | None = None,
    ) -> None:
        self.error = error
        self.zxid = zxid
        self.value = value
        self.done = done
        self.last = last


Waits: TypeAlias = bytes | _Slot | None
"""The body of a read; a slot; or None for a write that is under way."""


class Connection:
    """Its own watcher: what it watches ends with it."""

    def __init__(
        self, server: StoreServer, stream: trio.abc.Stream, host: str, peer: str, proved: Iterable[Identity] = ()
    ) -> None:
        self.session = 0
        self.timeout_ms = 0
        self.read_only = False
        self._caller = Caller(server.settings, host, proved)
        self.identities: tuple[Identity, ...] = self._caller.identities
        self.peer = peer
        self.received = 0
        self.established_ms = wall_ms()
        self._server = server
        self._machine = server.machine
        self._stream = stream
        self._fd = stream.socket.fileno() if isinstance(stream, trio.SocketStream) else None
        self._identified = self._caller.encoded
        self._done: Done = self._written if server.audit is None else self._tell_and_answer
        self._audited: deque[Done | None] = deque()
        self._local = False
        """Nobody but this server knows the session."""
        self._flags = FOREIGN
        self._line: deque[tuple[int, int, Waits]] = deque()
        """(op, xid, what it waits for), oldest first."""
        throttle = server.settings.throttle
        self._gate = Gate(throttle, server) if Gate.wanted(throttle) else None
        self._counted = 0
        self._arrived_at: float | None = None
        self._held: list[Request] = []
        self._outlet = Outlet(stream)
        self._taking = self._syncing = self._last_taken = self._finishing = self._over = False
        self._heard = True
        self._room = self._outlet.room
        self._scope = trio.CancelScope()
        self._nursery: trio.Nursery

    @property
    def sent(self) -> int:
        """Replies and events."""
        return self._outlet.sent

    @sent.setter
    def sent(self, count: int) -> None:
        self._outlet.sent = count

    @property
    def unsent(self) -> int:
        return self._outlet.bytes

    @property
    def queued(self) -> int:
        return len(self._line) + len(self._held)

    # -- its life ----------------------------------------------------------------------------------

    async def run(self) -> None:
        server = self._server
        try:
            with self._scope:
                await self._converse()
            if self._finishing and not self._over:
                await self._linger()
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except* HttpRequest as errors:
            server.log.say("client_cut", "debug", peer=self.peer, why=errors.exceptions[0])
        except* WireError as errors:
            server.log.grumble("client_cut", self.peer.rpartition(":")[0], peer=self.peer, why=errors.exceptions[0])
        except* Exception as errors:
            # A mistake of ours, or a server that is ending. It costs this client its connection, and nobody else's.
            server.log.say("client_failed", "error", peer=self.peer, why=repr(errors.exceptions[0]))
        finally:
            self._end()
            await trio.aclose_forcefully(self._stream)

    def _end(self) -> None:
        self._over = True
        server = self._server
        server.open_requests -= self._counted
        if self._gate is not None:
            self._gate.drained()
        server.gone.received += self.received
        server.gone.sent += self.sent
        self._line.clear()
        self._held.clear()
        self._outlet.clear()
        server.connections.pop(self, None)
        if self.session:
            server.detach(self)
            self._machine.watches.drop(self)

    async def _linger(self) -> None:
        """A close with something unread would take back what was sent: so hear it out, for a moment."""
        with trio.move_on_after(self._server.settings.linger_ms / 1000):
            if isinstance(self._stream, trio.abc.HalfCloseableStream):
                await self._stream.send_eof()
            while await self._stream.receive_some(RECEIVE_BYTES):
                pass

    def cut(self, why: str) -> None:
        if not self._over:
            self._over = True
            self._server.log.say("client_let_go", "debug", peer=self.peer, session=f"{self.session:#x}", why=why)
            self._scope.cancel()

    async def _converse(self) -> None:
        opening = Opening(self._server.settings.frame_bytes_max)
        with trio.move_on_after(self._server.settings.first_frame_ms / 1000) as patience:
            while True:
                data = await self._stream.receive_some(RECEIVE_BYTES)
                if not data:
                    return
                first = opening.open(data)
                if first is not None:
                    break
        if patience.cancelled_caught:
            return
        assert first is not None
        if isinstance(first, Command):
            await self._stream.send_all(answer(self._server, first))
            self._finishing = True
            return
        if not await self._establish(first):
            return
        async with trio.open_nursery() as self._nursery:
            nursery = self._nursery
            nursery.start_soon(self._send)
            await self._receive(opening.rest)
            nursery.cancel_scope.cancel()

    # -- the session -------------------------------------------------------------------------------

    async def _establish(self, asked: ConnectRequest) -> bool:
        server = self._server
        timeout_ms = server.settings.timeout_ms(asked.timeout_ms)
        bucket, local = server.bucket, server.settings.local_sessions_enabled
        if not bucket.take(bucket.weight(renews=asked.session != 0, local=local), now_ms()):
            server.log.grumble("too_many_connections_at_once", "bucket", peer=self.peer)
            return False
        session: int | None = None
        with trio.move_on_after(timeout_ms / 1000):
            try:
                if server.settings.read_only_mode_enabled:
                    self.read_only = await server.ready_or_read_only()
                    if self.read_only and not asked.read_only:
                        return False  # there may be a server that is better off
                if asked.last_zxid_seen > self._machine.zxid:
                    if not self.read_only:
                        await server.member.barrier()
                    if asked.last_zxid_seen > self._machine.zxid:
                        # It has seen another history than ours. That is not for us to answer.
                        server.log.grumble("client_from_the_future", self.peer, peer=self.peer)
                        return False
                if asked.session == 0:
                    if self.read_only or server.settings.local_sessions_enabled:
                        session = await server.create_local_session(timeout_ms, read_only=self.read_only)
                    else:
                        session = await server.create_session(timeout_ms)
                elif self.read_only:
                    attached = server.attach_read_only(asked.session, asked.password)
                    if attached is None:
                        return False  # whether it is over only a leader can say
                    session, timeout_ms = asked.session, attached
                else:
                    attached = await server.attach_session(asked.session, asked.password)
                    if attached is None:
                        await self._refuse(asked)
                        return False
                    session, timeout_ms = asked.session, attached
            except ZabError:
                return False
        if session is None or (self.read_only and server.ready):
            return False
        self._local = session in server.local and not server.local.is_rising(session)
        if self._local:
            self._flags |= LOCAL
        self.session, self.timeout_ms = session, timeout_ms
        server.attach(self)
        server.connections[self] = None
        if not server.knows(session):
            return False  # closed again in the meantime
        password = server.password(session)
        read_only = None if asked.read_only is None else self.read_only
        await self._stream.send_all(encode_connect_response(ConnectResponse(timeout_ms, session, password, read_only)))
        return True

    async def _refuse(self, asked: ConnectRequest) -> None:
        read_only = None if asked.read_only is None else False
        answer = ConnectResponse(EXPIRED.timeout_ms, EXPIRED.session, EXPIRED.password, read_only)
        await self._stream.send_all(encode_connect_response(answer))
        self._finishing = True

    def heard_of(self) -> bool:
        heard, self._heard = self._heard, False
        return heard

    def ended(self, why: str) -> None:
        if not self._last_taken:  # else it is its own wish, and the reply is on its way
            self.cut(why)

    # -- receiving ---------------------------------------------------------------------------------

    async def _receive(self, data: bytes | bytearray) -> None:
        server, stream, plain = self._server, self._stream, self._fd
        reader = RequestReader(server.settings.frame_bytes_max)
        while True:
            if data:
                self._heard = True
                self._arrived(reader.feed(data))
                await self._make_room()
            data = await (stream.receive_some(RECEIVE_BYTES) if plain is None else read(plain, RECEIVE_BYTES))
            if not data:
                return

    async def _make_room(self) -> None:
        """Before more is read: until what was asked for is answered, and taken, as far as it must be."""
        server, settings = self._server, self._server.settings
        while True:
            if self._outlet.bytes > settings.unsent_bytes_max:
                await self._room.wait()
            elif self._held and self._serves and not self._syncing:
                if self._gate is not None and self._gate.closed:
                    with trio.move_on_after(settings.throttle.request_stall_ms / 1000):
                        await self._room.wait()
                    if self._gate.is_stale(self.timeout_ms):
                        self.cut("a request has waited for longer than its session may")
                self.resume()
                await trio.lowlevel.checkpoint()
            elif self.queued > settings.requests_max or (
                self._line and server.open_requests > settings.requests_total_max
            ):
                await self._room.wait()
            else:
                return

    def _arrived(self, requests: list[Request]) -> None:
        self.received += len(requests)
        if self._gate is not None:
            self._gate.weigh(requests)
        if self._held or self._syncing or not self._serves:
            self._hold(requests)
        else:
            self._take(requests)

    def _hold(self, requests: Iterable[Request]) -> None:
        for request in requests:
            if request[1] == _PING:
                self._ping(_PING, PING_XID, b"")
            else:
                self._held.append(request)

    def resume(self) -> None:
        """There is a leader again, and a state that may be read; or a sync is done; or replies were taken."""
        if self._held and self._serves and not self._syncing:
            held, self._held = self._held, []
            self._take(held)

    @property
    def _serves(self) -> bool:
        return self._server.ready or self.read_only

    def _take_of_local(self, requests: list[Request]) -> None:
        """Up to where it needs a session that all know, or ends: that costs no transaction."""
        server, upgrading = self._server, self._server.settings.local_sessions_upgrading_enabled
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
                self._last_taken = True
                server.local.forget(self.session)
                self._put(op, xid, _Slot(done=True, last=True))
                self.flush()
            else:
                server.upgrade_session(self.session)
                self._local, self._flags = False, FOREIGN
                self._take_all(requests[index:])
            return
        self._take_all(requests)

    def _take(self, requests: list[Request]) -> None:
        if self._gate is not None:
            self._take_through_gate(self._gate, requests)
        elif self._local:
            self._take_of_local(requests)
        else:
            self._take_all(requests)

    def _take_through_gate(self, gate: Gate, requests: list[Request]) -> None:
        take = self._take_of_local if self._local else self._take_all
        count, late = gate.admit(len(requests))
        if not late:
            take(requests[:count])
        else:
            for xid, op, body in requests:
                if op in (_CLOSE, _PING):
                    take([(xid, op, body)])
                else:
                    self._put(op, xid, _Slot(ErrorCode.THROTTLED_OP, done=True))
            self.flush()
        self._hold(requests[count:])

    def _take_all(self, requests: list[Request]) -> None:
        server, line = self._server, self._line
        if self._arrived_at is None:
            self._arrived_at = trio.current_time()
        me, session, audit = server.me, self.session, server.audit
        self._taking = True
        posts: list[bytes] = []
        unsent_bytes_max, read_only = server.settings.unsent_bytes_max, self.read_only
        if self._caller.barred:
            requests = self._proofs_of(requests)
        for index, (xid, op, body) in enumerate(requests):
            if self._last_taken or self._over:
                break
            if self._syncing or self._outlet.bytes > unsent_bytes_max:  # small reads may ask for a gigabyte
                self._held = requests[index:]
                break
            if read_only and op not in _READS:
                if op in _NOT_READ_ONLY:
                    self._put(op, xid, _Slot(ErrorCode.NOT_READ_ONLY, done=True))
                else:
                    _SPECIAL.get(op, Connection._unknown)(self, op, xid, body)
            elif op in _WRITES:
                line.append((op, xid, None))
                identified = self._identified
                if op == _CLOSE:
                    self._last_taken = True
                posts.append(HEAD.pack(self._flags, session, xid, op, me, len(identified)) + identified + body)
                if audit is not None:
                    self._audited.append(audit.teller(session, self.identities, self._caller.host, op, body))
            elif op in _READS:
                if line:
                    line.append((op, xid, body))
                else:
                    self._read(op, xid, body)
            else:
                if posts:
                    server.post_many(posts, self._done)  # what is special is so behind these
                    posts = []
                _SPECIAL.get(op, Connection._unknown)(self, op, xid, body)
        if posts:
            server.post_many(posts, self._done)
        self._taking = False
        self.flush()

    # -- answers -----------------------------------------------------------------------------------

    def _read(self, op: int, xid: int, body: bytes) -> None:
        machine = self._machine
        fields = decode_request(op, body)
        if isinstance(fields, Refused):
            self.send(error_reply(xid, machine.zxid, fields.code))
            return
        self.send(read_reply(op, xid, machine.zxid, machine.reads.read(op, fields, self)))

    def _tell_and_answer(self, result: object, error: Exception | None) -> None:
        """Told even if the client is gone: what it has changed, it has changed."""
        tell = self._audited.popleft()
        if tell is not None:
            tell(result, error)
        self._written(result, error)

    def _written(self, result: object, error: Exception | None) -> None:
        """By the member, in the order in which the writes were posted: for the oldest one that is under way."""
        if self._over:
            return
        if error is not None:
            self.cut(f"the outcome of a write is unknown: {error}")
            return
        try:
            self._reply_to_write(result)  # type: ignore[arg-type]  # it is what `apply` of the machine returned
        except Exception as mistake:
            self._failed(mistake)

    def _failed(self, mistake: Exception) -> None:
        """In the midst of the member's work, which it would stop."""
        self._server.log.say("client_failed", "error", peer=self.peer, why=repr(mistake))
        self.cut("a mistake of ours")

    def _reply_to_write(self, result: Result) -> None:
        line = self._line
        op, xid, waits = line[0]
        assert waits is None, "what is in front of a write is answered before it is applied"
        code = result[1]
        if code == _MOVED:
            self.cut("the session has moved to another server")
            return
        frame = write_reply(op, xid, result)
        line.popleft()
        self.send(frame)
        if op == _CLOSE or code == _EXPIRED:
            self._finish()
        elif line:
            self._answer()

    def _answer(self) -> None:
        """Whatever has come to the front of the line and can be answered."""
        line = self._line
        while line and not self._finishing:
            op, xid, waits = line[0]
            if waits is None:
                return
            if type(waits) is bytes:
                line.popleft()
                self._read(op, xid, waits)
                continue
            assert isinstance(waits, _Slot)
            if not waits.done:
                return
            line.popleft()
            zxid = self._machine.zxid if waits.zxid is None else waits.zxid
            if waits.error or waits.value is None:
                self.send(error_reply(xid, zxid, waits.error))
            else:
                self.send(encode_reply(op, xid, zxid, waits.value))
            if waits.last:
                self._finish()

    # -- the special ones --------------------------------------------------------------------------

    def _ping(self, op: int, xid: int, body: bytes) -> None:
        self.send(error_reply(PING_XID, self._machine.zxid, 0))

    def _sync(self, op: int, xid: int, body: bytes) -> None:
        """What is behind it waits at the door: else a write could overtake it, and a read in between would see it."""
        fields = decode_request(op, body)
        if isinstance(fields, Refused):
            self._put(op, xid, _Slot(fields.code, done=True))
            return
        slot = _Slot(value=fields[0])

        def synced(result: object, error: Exception | None) -> None:
            if self._over:
                return
            if error is not None:
                self.cut(f"a sync failed: {error}")
                return
            slot.done = True
            self._syncing = False
            try:
                self._answer()
                self.resume()
            except Exception as mistake:
                self._failed(mistake)

        self._line.append((op, xid, slot))
        self._syncing = True
        try:
            self._server.member.post_barrier(synced)
        except ZabError as error:
            self.cut(str(error))

    def _reconfigure(self, op: int, xid: int, body: bytes) -> None:
        """May I? is a write like any other. Then it is the consensus' turn; what is behind it waits at the door."""

        def allowed(result: object, error: Exception | None) -> None:
            if self._over:
                return
            refused = error is not None or bool(cast(Result, result)[1])
            if self._server.audit is not None:
                self._server.audit.reconfigured(self.session, self.identities, self._caller.host, not refused)
            if not refused:
                slot = _Slot()
                self._line[0] = (op, xid, slot)
                self._nursery.start_soon(self._change_membership, op, body, slot)
                return
            self._syncing = False
            self._written(result, error)
            self.resume()

        self._line.append((op, xid, None))
        self._syncing = True
        identified = self._identified
        head = HEAD.pack(self._flags, self.session, xid, op, self._server.me, len(identified))
        self._server.post(head + identified + body, allowed)

    async def _change_membership(self, op: int, body: bytes, slot: _Slot) -> None:
        fields = decode_request(op, body)
        assert not isinstance(fields, Refused), "the leader has read it"
        try:
            slot.error, node = await self._server.membership.change(fields)
        except ZabError as error:
            self.cut(f"what became of a change of membership is unknown: {error}")
            return
        if node is not None:
            slot.value = (node[0], stat_fields(node))
        slot.done = True
        self._syncing = False
        self._answer()
        self.resume()
        self.flush()

    def _authenticate(self, op: int, xid: int, body: bytes) -> None:
        """For all requests behind it. Said at once, as the original does: it is no part of the session's line."""
        caller, fields = self._caller, decode_request(op, body)
        verdict = Verdict.REFUSED
        if not isinstance(fields, Refused) and (fields[2] is not None or fields[1] != "digest"):
            verdict = caller.authenticate(fields[1], fields[2] or b"")
            self._tell_audit(fields[1], verdict is Verdict.PROVED)
        if verdict is Verdict.SENT_AWAY:
            self._distrust("client_sent_away")
            self.cut(caller.why)
        elif verdict is Verdict.PROVED:
            self.identities, self._identified = caller.identities, caller.encoded
            self.send(error_reply(xid, 0, 0))
        else:
            self._distrust("client_not_authenticated")
            self.send(error_reply(xid, 0, ErrorCode.AUTH_FAILED))
            self._finish()

    def _sasl(self, op: int, xid: int, body: bytes) -> None:
        caller, fields = self._caller, decode_request(op, body)
        token, error = caller.sasl(None if isinstance(fields, Refused) else fields[0])
        self.identities, self._identified = caller.identities, caller.encoded
        self.send(body_reply(xid, 0, buffer(token), error))
        if token is None or caller.proved_by_sasl:
            self._tell_audit("sasl", token is not None)
        if token is None:
            self._distrust("client_not_authenticated")
        if error:
            self._finish()

    def _proofs_of(self, requests: list[Request]) -> list[Request]:
        """What is in front has to be proofs until it is known who this is. Returns the rest."""
        for index, (xid, op, body) in enumerate(requests):
            if not self._caller.barred:
                return requests[index:]
            if self._last_taken or self._over:
                break
            if op == _AUTH:
                self._authenticate(op, xid, body)
            elif op == _SASL:
                self._sasl(op, xid, body)
            else:
                self._caller.why = "asked before it was known who it is"
                self._distrust("client_not_authenticated")
                self.send(error_reply(xid, 0, ErrorCode.SESSION_CLOSED_REQUIRES_SASL_AUTH))
                self._finish()
        return []

    def _tell_audit(self, scheme: str, held: bool) -> None:
        if self._server.audit is not None:
            caller = self._caller
            self._server.audit.authenticated(self.session, caller.identities, caller.host, scheme, held)

    def _distrust(self, event: str) -> None:
        self._server.auth_failed += 1
        self._server.log.grumble(event, self.peer.rpartition(":")[0], peer=self.peer, why=self._caller.why)

    def _unknown(self, op: int, xid: int, body: bytes) -> None:
        self._last_taken = True
        self._put(op, xid, _Slot(ErrorCode.UNIMPLEMENTED, done=True, last=True, zxid=-1))

    def _put(self, op: int, xid: int, slot: _Slot) -> None:
        self._line.append((op, xid, slot))
        self._answer()

    # -- sending -----------------------------------------------------------------------------------

    def notify(self, change: Change) -> None:
        self.send(change.frame)

    def send(self, frame: bytes) -> None:
        outlet = self._outlet
        if not outlet.frames and not self._taking:
            self._server.dirty(self)
        outlet.put(frame)
        if outlet.bytes > self._server.settings.unsent_bytes_cut:
            self.cut(f"it does not read: {outlet.bytes} bytes wait")

    def flush(self) -> None:
        """Everything that has gathered, as far as the system takes it."""
        waiting = len(self._line)
        if self._over:
            return
        if waiting != self._counted:
            self._server.open_requests += waiting - self._counted
            self._counted = waiting
        if self._gate is not None and not waiting and not self._held:
            self._gate.drained()
        if not waiting and self._arrived_at is not None and not self._held:
            self._server.latency.add(trio.current_time() - self._arrived_at)
            self._arrived_at = None
        try:
            if self._outlet.flush() and self._finishing:
                self._scope.cancel()
        except OSError as error:
            self.cut(f"broken: {error}")

    async def _send(self) -> None:
        while True:
            await self._outlet.drain()
            if self._finishing:
                self._scope.cancel()

    def _finish(self) -> None:
        """Nothing more is read or answered; what is answered already, is sent."""
        self._finishing = self._last_taken = True
        if not self._taking:
            self._server.dirty(self)


_SPECIAL: Final[Mapping[int, Callable[[Connection, int, int, bytes], None]]] = {
    int(Op.PING): Connection._ping,
    int(Op.SYNC): Connection._sync,
    int(Op.RECONFIG): Connection._reconfigure,
    int(Op.AUTH): Connection._authenticate,
    int(Op.SASL): Connection._sasl,
}
