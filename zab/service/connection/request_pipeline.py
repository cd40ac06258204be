"""The requests of one session on one connection: taken in order, and answered in order.

Pings, auth and SASL are the exceptions: their replies do not wait for those of earlier requests.

All requests of one receive are handled in one pass. A write is submitted to the leader, and its reply waits for its
transaction. A read is answered at once, unless writes of the same client are pending: then it is answered right after
the last of them has been applied, before any later transaction. Events are sent when a transaction is applied, so an
event always precedes any reply that shows its change.

Some requests cannot be taken yet, and are held, for example while there is no leader, after a sync, while the throttle
is closed, or while the client does not read its replies. Pings are never held: without an answer to them, a
client whose writes wait for an election would conclude that the server is dead.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from functools import partial
from math import inf
from typing import Any, ClassVar, Final, Protocol

from zab.core.errors import LeadersLost, WireError
from zab.service.authentication import ClientAuthentication
from zab.service.connection.login import Login, LoginOutcome
from zab.service.connection.pending_replies import PendingReplies, PendingReply, SendBuffer
from zab.service.connection.ports import ConnectionPhase, Done, ServerPort, ShellPort
from zab.service.throttle import RequestThrottle
from zab.store.apply import Result
from zab.store.error_codes import ErrorCode
from zab.store.operations import READS, WRITES, Op
from zab.store.read_handler import NO_ROOM, TOO_LARGE, Client
from zab.store.request_format import FOREIGN, HEAD, LOCAL, op_name
from zab.store.znode import stat_fields
from zab.wire.client.client_frames import Request
from zab.wire.client.replies import encode_reply, error_reply
from zab.wire.client.requests import PING_XID, RejectedRequest, decode_request, makes_ephemeral
from zab.wire.client.store_replies import read_reply, write_reply

# Plain integers: looking up a member of an enum costs as much as packing a header.
_WRITES: Final = frozenset(map(int, WRITES - {Op.RECONFIG}))
_READS: Final = frozenset(map(int, READS))
_NOT_READ_ONLY: Final = frozenset(map(int, WRITES | {Op.SYNC, Op.CHECK}))
_PING: Final = int(Op.PING)
_CLOSE: Final = int(Op.CLOSE_SESSION)
_AUTH: Final = int(Op.AUTH)
_SASL: Final = int(Op.SASL)
_SET_WATCHES: Final = (int(Op.SET_WATCHES), int(Op.SET_WATCHES2))
_NEVER_REFUSED: Final = frozenset((_CLOSE, _AUTH, _SASL, *_SET_WATCHES))
"""Requests that the throttle may delay, but does not answer with THROTTLED_OP.

Clients ignore that error if it is the reply to credentials, or to the watches that they set again after a reconnection:
they would continue without them.
"""
_MOVED: Final = int(ErrorCode.SESSION_MOVED)
_EXPIRED: Final = int(ErrorCode.SESSION_EXPIRED)
_SERVING: Final = ConnectionPhase.SERVING
_CLOSING: Final = ConnectionPhase.CLOSING
_OVER: Final = ConnectionPhase.OVER

_SCANS: Final = {
    **dict.fromkeys(map(int, (Op.GET_ALL_CHILDREN_NUMBER, Op.GET_EPHEMERALS)), inf),
    **dict.fromkeys(map(int, (Op.GET_CHILDREN, Op.GET_CHILDREN2, Op.MULTI_READ, Op.SET_WATCHES, Op.SET_WATCHES2)), 1),
}
"""Scans: reads that may take milliseconds each, with their weights.

All reads that are queued behind a write are answered in the turn that applies it. To bound that turn, scans are queued
up to a total weight of `scans_behind_max`; the pipeline holds the next one until all pending replies are sent. Counts
of a subtree and lists of ephemeral nodes weigh more than any bound, so they are never queued behind a write.
"""
KINDS_SHOWN: Final = 5


class PipelinePause(IntEnum):
    """A reason why a pipeline takes no requests. Others, such as a lost leader, are not recorded here."""

    NONE = 0
    ANSWER = 1
    """A sync, a reconfiguration or wrong credentials must be answered first."""
    REPLIES = 2
    """All requests that were taken must be answered first: too many scans are queued behind a write."""


_PAUSED_FOR_REPLIES: Final = PipelinePause.REPLIES


class PipelineClient(Client, Protocol):
    """The connection that the requests come from."""

    phase: ConnectionPhase
    read_only: bool

    @property
    def timeout_ms(self) -> int: ...
    @property
    def peer(self) -> str: ...
    @property
    def authentication(self) -> ClientAuthentication: ...
    @property
    def send_buffer(self) -> SendBuffer: ...
    @property
    def clock(self) -> Callable[[], float]: ...
    def send(self, frame: bytes) -> None: ...
    def leave(self) -> None: ...
    def finish(self) -> None: ...
    def cut(self, why: str) -> None: ...
    def report_violation(self, why: str) -> None: ...
    def failed(self, mistake: Exception) -> None: ...
    def contain(self, act: Callable[..., None], *values: Any) -> None: ...
    def set_deadline(self, at: float) -> None: ...


class RequestPipeline:
    def __init__(self, server: ServerPort, shell: ShellPort, client: PipelineClient, *, local: bool) -> None:
        """`local`: the session is known to this server only."""
        self._server = server
        self._shell = shell
        self._client = client
        self._machine = server.machine
        """The store, held directly: each read uses it."""
        self._requests, self._totals = server.requests, server.totals
        """The path to the leader, and the totals of all connections, held directly: each request uses them."""
        self._login = Login(server, client)
        self._login_outcome: LoginOutcome | None = None
        """The answer to wrong credentials, which `tick` sends. Set only while `_pause` is `ANSWER`."""
        throttle = server.settings.throttle
        self._throttle = RequestThrottle(throttle, self._totals) if RequestThrottle.wanted(throttle) else None
        """The throttle; None if the settings limit no request."""
        self._local = local
        """True while only this server knows the session, that is until an upgrade."""
        self._flags = FOREIGN | LOCAL if local else FOREIGN
        """The flags of each request that is forwarded to the leader."""
        self.replies: PendingReplies[bytes] = PendingReplies()
        """The requests that were taken and are not answered, oldest first."""
        self._held: list[Request] = []
        """Requests that arrived and were not taken yet, oldest first."""
        self._pause = PipelinePause.NONE
        """The reason why no request is taken, held or new; `PipelinePause.NONE` without a pause."""
        self._bounds = server.bounds
        self._scans_behind: float = 0
        """The weight of the scans that are queued behind writes, counted since `replies` was last empty."""
        self._counted = 0
        """This connection's part of the server's `open_requests`."""
        self._arrived_at: float | None = None
        """The time at which the first request was taken after all were answered, for the latency; None if all are."""
        self._done: Done = self.written if server.audit is None else self._audit_and_answer
        """The callback of every write."""
        self._audits: deque[Done | None] = deque()
        """For each write under way, in order: the callback that reports its result to the audit log, or None.

        Empty if there is no audit log.
        """

    @property
    def queued(self) -> int:
        return len(self.replies) + len(self._held)

    @property
    def _serves(self) -> bool:
        return self._server.ready or self._client.read_only

    @property
    def _now_ms(self) -> int:
        return int(self._client.clock() * 1000)

    # -- holding requests, and taking them later ---------------------------------------------------

    def receive(self, requests: list[Request]) -> None:
        """Take the requests that arrived, or hold them. Raise `WireError` if the client must be cut."""
        if self._throttle is not None:
            try:
                self._throttle.weigh(requests)
            except WireError:
                self._server.counts.large_requests_rejected += 1
                raise
        if self._held or self._pause or not self._serves:
            self._hold(requests)
        else:
            self._take(requests)
            if self._held:
                self._held = self._answer_pings(self._held)

    def _hold(self, requests: Iterable[Request]) -> None:
        self._held += self._answer_pings(requests)

    def _answer_pings(self, requests: Iterable[Request]) -> list[Request]:
        """Answer the pings at once, and return the other requests."""
        others: list[Request] = []
        for request in requests:
            if request[1] == _PING:
                self._ping(_PING, PING_XID, b"")
            else:
                others.append(request)
        return others

    def has_room(self) -> bool:
        """Return whether more may be read from the client without asking `advance`."""
        settings, waiting = self._server.settings, len(self.replies)
        return not (
            self._held
            or self._client.send_buffer.bytes > settings.unsent_bytes_max
            or waiting > settings.requests_max
            or (waiting and self._totals.open_requests > settings.requests_total_max)
        )

    def advance(self) -> float | None:
        """Take as many held requests as the limits allow. Return None if more may be read from the client.

        Otherwise return the seconds to wait before the next call: 0 lets other tasks run, infinity waits until bytes
        have left the send buffer or the shell is woken.
        """
        settings = self._server.settings
        if self._client.send_buffer.bytes > settings.unsent_bytes_max:
            return inf
        if self._held and not self._pause and self._serves:
            throttle = self._throttle
            if throttle is not None:
                if throttle.stalls():
                    return settings.throttle.request_stall_ms / 1000
                if throttle.is_stale(self._client.timeout_ms, self._now_ms):
                    self._client.cut("a request has waited for longer than its session's timeout")
                    return inf
            self.resume()
            return 0.0
        if self.queued > settings.requests_max or (
            self.replies and self._totals.open_requests > settings.requests_total_max
        ):
            return inf
        return None

    def resume(self) -> None:
        """Take the held requests if the client can be served and nothing pauses the pipeline."""
        if self._held and self._serves and not self._pause:
            held, self._held = self._held, []
            self._take(held)

    def _proceed(self) -> None:
        """End the pause: answer the requests that are due, and take the held ones."""
        self._pause = PipelinePause.NONE
        self._answer_due()
        self._resume_and_wake()

    def _resume_and_wake(self) -> None:
        self.resume()
        if self.is_held_up:
            self._shell.wake()  # the receiving task may be waiting for bytes

    @property
    def is_held_up(self) -> bool:
        """True if there are held requests, and no pause keeps `advance` from taking them."""
        return bool(self._held) and not self._pause

    # -- taking ------------------------------------------------------------------------------------

    def _take(self, requests: list[Request]) -> None:
        with self._server.requests_watchdog.turn(partial(self._describe, requests)):
            if self._throttle is not None:
                self._take_throttled(self._throttle, requests)
            elif self._local:
                self._take_of_local(requests)
            else:
                self._take_all(requests)
            self.settle()

    def _describe(self, requests: list[Request]) -> str:
        kinds = Counter(op_name(op) for _, op, _ in requests)
        kinds_text = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common(KINDS_SHOWN))
        return f"{kinds_text} of session {self._client.session & 0xFFFF_FFFF_FFFF_FFFF:#x} from {self._client.peer}"

    def _take_throttled(self, throttle: RequestThrottle, requests: list[Request]) -> None:
        take = self._take_of_local if self._local else self._take_all
        requests = self._answer_pings(requests)  # a ping does not wait, so the time of waiting must not begin with it
        count, late = throttle.admit(len(requests), self._now_ms)
        if not late:
            take(requests[:count])
            self._held += requests[count:]
            return
        for index, (xid, op, body) in enumerate(requests):
            if self._held or self._pause:  # a request that was taken has stopped the pipeline
                self._held += requests[index:]
                return
            if op in _NEVER_REFUSED:
                take([(xid, op, body)])
            else:
                self._server.counts.throttled_ops += 1
                self._put(op, xid, PendingReply(ErrorCode.THROTTLED_OP, done=True))

    def _take_of_local(self, requests: list[Request]) -> None:
        """Take the requests of a local session, up to a close.

        If upgrades are enabled, the session is upgraded before the first request that creates an ephemeral node. A
        read-only client's session is not.
        """
        server, client = self._server, self._client
        upgrading = server.settings.local_sessions_upgrading_enabled
        for index, (xid, op, body) in enumerate(requests):
            closes = op == _CLOSE
            if not closes and not (upgrading and not client.read_only and makes_ephemeral(op, body)):
                continue
            if index:
                self._take_all(requests[:index])
                if self._held or self._pause:
                    self._held += requests[index:]
                    return
            if closes:
                client.leave()
                server.sessions.local.forget(client.session)
                self._put(op, xid, PendingReply(done=True, last=True))
            else:
                server.sessions.upgrade(client.session)
                self._local, self._flags = False, FOREIGN
                self._take_all(requests[index:])
            return
        self._take_all(requests)

    def _take_all(self, requests: list[Request]) -> None:
        """Submit the writes, answer the reads or queue them behind a write, and dispatch the others.

        The rule is ZooKeeper's: a client's requests take effect, and are answered, in the order in which it sent them.
        So a read waits for the writes before it. Writes are submitted together, unless a request that is neither a read
        nor a write is between them. A read-only client gets an error for its writes and syncs. After a close, only
        pings are answered.

        Stop early, and hold the rest, after a sync or another request that pauses the pipeline, and at the bounds for
        unsent bytes, for the work of reads, and for scans that are queued behind a write.
        """
        server, client, replies = self._server, self._client, self.replies
        if self._arrived_at is None:
            self._arrived_at = client.clock()
        me, session, audit, flags, authentication = (
            server.me,
            client.session,
            server.audit,
            self._flags,
            client.authentication,
        )
        posts: list[bytes] = []
        buffer, unsent_bytes_max, read_only = client.send_buffer, server.settings.unsent_bytes_max, client.read_only
        reads, bounds = self._machine.reads, self._bounds
        reads.work = 0
        if not replies:
            self._scans_behind = 0
        if authentication.barred:
            requests = self._take_logins(requests)
        for index, (xid, op, body) in enumerate(requests):
            if client.phase is not _SERVING:
                # The last request was taken: a close, or an invalid one. Later requests are dropped, but pings are
                # answered, because the reply to a close waits for its transaction.
                if client.phase < _CLOSING:
                    self._answer_pings(requests[index:])
                break
            if reads.work > bounds.read_work_max:
                self._held = requests[index:]
                self._requests.postpone(partial(client.contain, self._resume_and_wake))
                break
            if self._pause or buffer.bytes > unsent_bytes_max:  # small requests may have large replies
                self._held = requests[index:]
                break
            if read_only and op not in _READS:
                if op in _NOT_READ_ONLY:
                    self._put(op, xid, PendingReply(ErrorCode.NOT_READ_ONLY, done=True))
                else:
                    self._special.get(op, RequestPipeline._unknown)(self, op, xid, body)
            elif op in _WRITES:
                replies.append((op, xid, None))
                identified = authentication.encoded
                if op == _CLOSE:
                    client.leave()
                posts.append(HEAD.pack(flags, session, xid, op, me, len(identified)) + identified + body)
                if audit is not None:
                    self._audits.append(
                        audit.reporter(session, authentication.identities, authentication.host, op, body)
                    )
            elif op in _READS:
                if replies:
                    weight = _SCANS.get(op)
                    if weight is not None:
                        self._scans_behind += weight
                        if self._scans_behind > bounds.scans_behind_max:
                            self._pause = PipelinePause.REPLIES
                            self._held = requests[index:]
                            break
                    replies.append((op, xid, body))
                else:
                    self._read(op, xid, body)
            else:
                if posts:
                    self._requests.post_many(posts, self._done)  # they precede this request
                    posts = []
                self._special.get(op, RequestPipeline._unknown)(self, op, xid, body)
        if posts:
            self._requests.post_many(posts, self._done)

    # -- reads and writes --------------------------------------------------------------------------

    def _read(self, op: int, xid: int, body: bytes) -> None:
        machine, client = self._machine, self._client
        fields = decode_request(op, body)
        if isinstance(fields, RejectedRequest):
            client.send(error_reply(xid, machine.zxid, fields.code))
            return
        answer = machine.reads.read(op, fields, client)
        client.send(read_reply(op, xid, machine.zxid, answer))
        if answer is TOO_LARGE or answer is NO_ROOM:
            self._warn_of_bound(op, len(fields), watches=answer is NO_ROOM)

    def _warn_of_bound(self, op: int, parts: int, *, watches: bool) -> None:
        client, settings, log = self._client, self._server.settings, self._server.log
        host, session = client.authentication.host, f"{client.session:#x}"
        if not watches:
            log.warn_rate_limited(
                "multi_read_refused", host, peer=client.peer, session=session, reads=parts,
                multi_read_bytes_max=settings.multi_read_bytes_max,
            )  # fmt: skip
            return
        log.warn_rate_limited(
            "watches_refused", host, peer=client.peer, session=session,
            watches_per_client_max=settings.watches_per_client_max, watches_max=settings.watches_max,
        )  # fmt: skip
        if op in _SET_WATCHES:
            # Clients ignore this error. Close, so that they do not continue without their watches.
            client.finish()

    def _audit_and_answer(self, result: Any, error: Exception | None) -> None:
        """Report the write to the audit log, even if the client is gone, then answer it."""
        audit = self._audits.popleft()
        try:
            if audit is not None:
                audit(result, error)
        except Exception as mistake:
            self._client.failed(mistake)
        self.written(result, error)

    def written(self, result: Any, error: Exception | None) -> None:
        """Answer the oldest write, which the store has applied with this result, or which failed with this exception.

        Called in the order of the writes, which is also the order of their replies, as ZooKeeper promises. After an
        exception the client is cut, and cannot tell the outcome. `LeadersLost` is different: it proves that nothing was
        changed, so the client gets an error as the reply. If the session was closed or has expired, the connection
        closes after the reply. If the session has moved, the connection is cut without a reply.
        """
        client = self._client
        if client.phase >= _CLOSING:
            return  # the client was cut, or has its last reply already
        if error is not None and not isinstance(error, LeadersLost):
            client.cut(f"a write failed: {error}")
            return
        replies = self.replies
        try:
            op, xid, awaited = replies.popleft()
            assert awaited is None, "all requests before a write are answered before it is applied"
            if error is not None:
                # No older request is open, so this reply is in order; other errors do not promise that.
                host = client.authentication.host
                self._server.log.warn_rate_limited("write_refused", host, "error", peer=client.peer, why=str(error))
                code = int(ErrorCode.SYSTEM_ERROR)
                client.send(error_reply(xid, self._machine.zxid, code))
            else:
                code = result[1]
                if code == _MOVED:
                    client.cut("the session has moved to another server")
                    return
                client.send(write_reply(op, xid, result))
            if op == _CLOSE or code == _EXPIRED:
                client.finish()
            elif replies and replies[0][2] is not None:  # usually the oldest one is a write under way, so not due
                self._answer_due()
            if self._pause is _PAUSED_FOR_REPLIES and not replies:
                self._proceed()
        except Exception as mistake:
            client.failed(mistake)

    def _answer_due(self) -> None:
        """Answer the oldest requests, up to the first one that is not due."""
        client, replies = self._client, self.replies
        while client.phase < _CLOSING and (pending := replies.due()) is not None:
            op, xid, awaited = pending
            if type(awaited) is bytes:
                self._read(op, xid, awaited)
                continue
            assert isinstance(awaited, PendingReply)
            zxid = self._machine.zxid if awaited.zxid is None else awaited.zxid
            if awaited.error or awaited.value is None:
                client.send(error_reply(xid, zxid, awaited.error))
            else:
                client.send(encode_reply(op, xid, zxid, awaited.value))
            if awaited.last:
                client.finish()

    def _put(self, op: int, xid: int, reply: PendingReply) -> None:
        self.replies.append((op, xid, reply))
        self._answer_due()

    # -- other requests ----------------------------------------------------------------------------

    def _ping(self, op: int, xid: int, body: bytes) -> None:
        """Answer a ping at once, ahead of pending replies."""
        self._client.send(error_reply(PING_XID, self._machine.zxid, 0))

    def _sync(self, op: int, xid: int, body: bytes) -> None:
        """Ask for a barrier, and hold later requests until it is passed: otherwise a later write could overtake it."""
        fields = decode_request(op, body)
        if isinstance(fields, RejectedRequest):
            self._put(op, xid, PendingReply(fields.code, done=True))
            return
        reply = PendingReply(value=fields[0])
        self.replies.append((op, xid, reply))
        self._pause = PipelinePause.ANSWER
        self._shell.sync(self._client.session, partial(self._client.contain, self._synced, reply))

    def _synced(self, reply: PendingReply, _: object, error: Exception | None) -> None:
        if self._client.phase is _OVER:
            return
        if error is not None:
            self._client.cut(f"a sync failed: {error}")
            return
        reply.done = True
        self._proceed()

    def _reconfigure(self, op: int, xid: int, body: bytes) -> None:
        """Let the leader check the request like any write, then request the change. Hold later requests meanwhile."""
        client, identified = self._client, self._client.authentication.encoded
        self.replies.append((op, xid, None))
        self._pause = PipelinePause.ANSWER
        head = HEAD.pack(self._flags, client.session, xid, op, self._server.me, len(identified))
        self._requests.post(head + identified + body, partial(client.contain, self._permitted, op, xid, body))

    def _permitted(self, op: int, xid: int, body: bytes, result: Result, error: Exception | None) -> None:
        client, server = self._client, self._server
        if client.phase is _OVER:
            return
        refused = error is not None or bool(result[1])
        if server.audit is not None:
            server.audit.reconfigured(client.session, client.identities, client.authentication.host, not refused)
        if refused:
            self.written(result, error)
            self._proceed()
            return
        fields = decode_request(op, body)
        assert not isinstance(fields, RejectedRequest), "the leader has already decoded it"
        reply = PendingReply()
        assert self.replies[0] == (op, xid, None), "requests before it are answered, and requests after it are held"
        self.replies[0] = (op, xid, reply)
        self._shell.change_membership(fields, partial(client.contain, self._reconfigured, reply))

    def _reconfigured(self, reply: PendingReply, answer: Any, error: Exception | None) -> None:
        if self._client.phase is _OVER:
            return
        if error is not None:
            self._client.cut(f"a change of membership failed, or its outcome is unknown: {error}")
            return
        reply.error, node = answer
        if node is not None:
            reply.value = (node[0], stat_fields(node))
        reply.done = True
        self._proceed()

    def _authenticate(self, op: int, xid: int, body: bytes) -> None:
        self._conclude(self._login.authenticate(op, xid, body, self._now_ms))

    def _sasl(self, op: int, xid: int, body: bytes) -> None:
        self._conclude(self._login.sasl(op, xid, body, self._now_ms))

    def _take_logins(self, requests: list[Request]) -> list[Request]:
        """Take auth and SASL requests until the client has a required identity. Return the requests after them.

        Stop earlier after wrong credentials that are answered after a pause. Any other request is refused, which ends
        the connection: then return an empty list.
        """
        client = self._client
        for index, (xid, op, body) in enumerate(requests):
            if self._pause or not client.authentication.barred:
                return requests[index:]
            if client.phase is not _SERVING:
                break
            if op == _AUTH:
                self._authenticate(op, xid, body)
            elif op == _SASL:
                self._sasl(op, xid, body)
            else:
                self._conclude(self._login.refuse(xid))
        return []

    def _conclude(self, outcome: LoginOutcome) -> None:
        client = self._client
        if outcome.cut:
            client.cut(outcome.cut)
        elif outcome.pause_ms:
            self._pause, self._login_outcome = PipelinePause.ANSWER, outcome
            client.set_deadline(client.clock() + outcome.pause_ms / 1000)
        else:
            client.send(outcome.frame)
            if outcome.ends:
                client.finish()

    def tick(self) -> None:
        """Send the answer to wrong credentials after its pause."""
        outcome, self._login_outcome = self._login_outcome, None
        if outcome is not None:
            assert self._pause is PipelinePause.ANSWER, "no request is taken before wrong credentials are answered"
            self._client.send(outcome.frame)
            if outcome.ends:
                self._client.finish()
            self._proceed()

    def _unknown(self, op: int, xid: int, body: bytes) -> None:
        client = self._client
        client.report_violation(
            f"a client may not request operation {op}"
            if op
            else "a second connect request, or bytes that are not a request"
        )
        client.leave()
        self._put(op, xid, PendingReply(ErrorCode.UNIMPLEMENTED, done=True, last=True, zxid=-1))

    _special: ClassVar[Mapping[int, Callable[[RequestPipeline, int, int, bytes], None]]] = {
        _PING: _ping,
        int(Op.SYNC): _sync,
        int(Op.RECONFIG): _reconfigure,
        _AUTH: _authenticate,
        _SASL: _sasl,
    }

    # -- counts ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Update this connection's part of the server's totals: open requests, large requests and latency."""
        waiting = len(self.replies)
        if waiting != self._counted:
            self._totals.open_requests += waiting - self._counted
            self._counted = waiting
        if not waiting and not self._held:
            if self._throttle is not None:
                self._throttle.drained()
            if self._arrived_at is not None:
                self._totals.latency.add(self._client.clock() - self._arrived_at)
                self._arrived_at = None

    def drop(self) -> None:
        """Drop all requests: the client is gone."""
        self._totals.open_requests -= self._counted
        self._counted = 0
        if self._throttle is not None:
            self._throttle.drained()
        self.replies.clear()
        self._held.clear()
