"""The path of this server's requests to the leader of an ensemble that speaks ZooKeeper's protocol, and of the replies.

A request travels with its session and the client's number of the request. Its reply is a transaction with both in its
header; a request that fails becomes a transaction, too. The leader handles the requests of a link in their order. So
the oldest open request of the transaction's session is the one that it answers, if the numbers agree. A transaction
with another number answers a request on an earlier link, whose client has been disconnected. If this server leads
itself, its own requests are recognised in the same way.

A request is sent at most once. The leader prepares requests of a broken link, so the outcome of a request without a
reply at the end of a link is unknown.

The history does not tell at which server a session is: the leader answers a `RevalidateRequest`, and remembers the link
on which it came. It learns from `SessionTouches` which sessions are in use.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

from zab.core.errors import OutcomeUnknown, Overloaded
from zab.core.zxid import NOTHING, Epoch, ServerId, Zxid
from zab.service.forwarding.leadership import Leadership, LearnerLink
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.proposal_queue import ForwardedBatch, ProposalQueue
from zab.service.limits import Limits
from zab.service.tree_digests import TreeDigestCheck
from zab.store.acl import decode_identities
from zab.store.operations import Op
from zab.store.request_format import FOREIGN, HEAD, op_name, unpack_body
from zab.store.transactions import HEAD as TXN_HEAD
from zab.wire.apache.packet_bodies import (
    LearnerRequest,
    RevalidateReply,
    RevalidateRequest,
    SessionTouches,
    TreeDigests,
)
from zab.wire.jute import INT
from zab.wire.relay_messages import TAG_BYTES

Encode: TypeAlias = Callable[[LearnerLink, object], bytes]
"""Returns the bytes of a message on a link, with the codec of that link."""
Revalidated: TypeAlias = Callable[[object, Exception | None], None]
"""Called once with True if the session exists and is at this server now, with False, or with an error."""


@runtime_checkable
class SessionOwners(Protocol):
    """The part of a store that remembers at which server each session is, while this server leads."""

    def attach_session(self, session: int, server: ServerId, epoch: Epoch) -> bool:
        """Record the server of a session. Return False if there is no such session."""
        ...


_LOST = "the leader or the link to it was lost before the reply"


class ZookeeperForwarder:
    """Forwards this server's requests to the leader. It takes the place of `RequestForwarder`."""

    def __init__(
        self,
        me: ServerId,
        pending: PendingSubmissions,
        limits: Limits,
        encode: Encode,
        owners: SessionOwners,
        digests: TreeDigestCheck | None,
        received: Callable[[], Zxid],
    ) -> None:
        """`digests` compares the tree with the leader's; None: the machine has no tree with a digest.

        `received` returns the zxid of the last transaction in this server's history.
        """
        self.encode = encode
        self.owners = owners
        self._me = me
        self.handlers: Mapping[type[Any], Callable[[LearnerLink, Any], None]] = {
            RevalidateReply: self._on_revalidated,
            TreeDigests: self._on_digests,
        }
        """type of a message of the leader -> its handler"""
        self._pending = pending
        self._limits = limits
        self._digests = digests
        self._received = received
        self._leadership: Leadership | None = None
        """The leadership in force, or None."""
        self._open: dict[int, deque[tuple[int, int, Zxid]]] = {}
        """session -> (the client's number, the number of the submission, the last zxid in the history when it was sent)
        of each request that was sent on this link and has no reply, the oldest first. A session without such a request
        has no entry. Its transaction comes after that zxid. One before it may have the same number: a client that came
        from another server may count its requests from 1 again, and a request of then may not be applied here yet.
        """
        self._revalidations: dict[int, deque[Revalidated]] = {}
        """session -> the callbacks of the revalidations without a reply, the oldest first"""
        self._asked = 0
        """The number of callbacks in `_revalidations`."""
        self._waiting: list[tuple[RevalidateRequest, Revalidated]] = []
        """Revalidations that were asked for while there was no leader."""

    @property
    def link(self) -> LearnerLink | None:
        """The link to the leader, or None."""
        return None if self._leadership is None else self._leadership.link

    # -- leaderships -------------------------------------------------------------------------------

    def begin(self, leadership: Leadership, last: Zxid) -> None:
        """Begin a leadership. Nothing is sent twice, so requests need not wait until the leader's log is applied."""
        self._leadership = leadership
        self._pending.begin(leadership.epoch)
        self._pending.on_catch_up_point(NOTHING)
        waiting, self._waiting = self._waiting, []
        for request, done in waiting:
            self.revalidate(request.session, request.timeout_ms, done)

    def end(self) -> None:
        """End the leadership. All that was sent and has no reply ends with `OutcomeUnknown`."""
        self._leadership = None
        self._pending.end()
        self._open.clear()
        lost = OutcomeUnknown(_LOST)
        self._pending.lose_sent(lost)
        self._end_revalidations(lost)

    # -- requests and their replies ----------------------------------------------------------------

    def forward(self, link: LearnerLink, applied: Zxid) -> None:
        """Send the requests that may be sent now. The machine has applied everything up to `applied`."""
        pending, limits = self._pending, self._limits
        while True:
            first, requests = pending.take(limits.batch_entries_max, limits.batch_bytes_max)
            if not requests:
                break
            for number, request in enumerate(requests, first):
                self._send(link, number, request, applied)

    def take_own(self, queue: ProposalQueue) -> None:
        """Queue this server's own requests, while it leads itself. Their replies are recognised in the same way."""
        pending, limits, leadership = self._pending, self._limits, self._leadership
        assert leadership is not None
        while True:
            first, requests = pending.take(limits.batch_entries_max, limits.batch_bytes_max)
            if not requests:
                break
            for number, request in enumerate(requests, first):
                _, session, cxid, *_ = HEAD.unpack_from(request)
                self._open.setdefault(session, deque()).append((cxid, number, self._received()))
            queue.put(ForwardedBatch(leadership.epoch, None, pending.origin, first, requests))

    def _send(self, link: LearnerLink, number: int, request: bytes, applied: Zxid) -> None:
        flags, session, cxid, op, _, identities_bytes = HEAD.unpack_from(request)
        start = HEAD.size + identities_bytes
        if flags & FOREIGN:
            body = request[start:]
        elif op == Op.CREATE_SESSION:
            body = INT.pack(*unpack_body(op, request, start))
        elif op == Op.CLOSE_SESSION:
            body = b""
        else:
            self._pending.refused(applied, ((number, f"ZooKeeper has no request {op_name(op)} of a learner"),))
            self._pending.reached(applied)
            return
        self._open.setdefault(session, deque()).append((cxid, number, self._received()))
        identities = decode_identities(request[HEAD.size : start])
        link.send(self.encode(link, LearnerRequest(session, cxid, op, body, identities)))

    def applied(self, zxid: Zxid, payload: bytes, result: object) -> None:
        """Answer the request that this applied transaction carries out, if it is one of this server."""
        if self._digests is not None:
            self._digests.applied(zxid)
        _, session, cxid, _ = TXN_HEAD.unpack_from(payload, TAG_BYTES)
        sent = self._open.get(session)
        if sent is None or sent[0][0] != cxid or zxid <= sent[0][2]:
            return
        _, number, _ = sent.popleft()
        if not sent:
            del self._open[session]
        self._pending.applied(number, result)

    # -- the state ---------------------------------------------------------------------------------

    def _on_digests(self, link: LearnerLink, message: TreeDigests) -> None:
        if self._digests is not None:
            self._digests.expect(message.digests)

    def restored(self) -> None:
        """Handle a snapshot that has replaced the state."""
        if self._digests is not None:
            self._digests.restored()

    # -- sessions ----------------------------------------------------------------------------------

    def touch(self, sessions: Iterable[tuple[int, int]]) -> None:
        """Report sessions that clients of this server have used, with their timeouts in ms; lost without a leader."""
        link = self.link
        if link is not None:
            link.send(self.encode(link, SessionTouches(tuple(sessions))))

    def revalidate(self, session: int, timeout_ms: int, done: Revalidated) -> None:
        """Ask whether a session exists, and let the leader regard it as a session at this server."""
        request, leadership = RevalidateRequest(session, timeout_ms), self._leadership
        if len(self._waiting) + self._asked >= self._limits.submits_max:
            done(None, Overloaded(f"{self._limits.submits_max} sessions wait for the leader (Limits.submits_max)"))
            return
        if leadership is None:
            self._waiting.append((request, done))
            return
        link = leadership.link
        if link is None:
            done(self.owners.attach_session(session, self._me, leadership.epoch), None)
            return
        self._revalidations.setdefault(session, deque()).append(done)
        self._asked += 1
        link.send(self.encode(link, request))

    def forget(self, done: Revalidated) -> None:
        """Drop a revalidation that waits for a leader: its client is gone."""
        self._waiting = [each for each in self._waiting if each[1] != done]

    def _on_revalidated(self, link: LearnerLink, message: RevalidateReply) -> None:
        callbacks = self._revalidations.get(message.session)
        if link is not self.link or callbacks is None:
            return
        done = callbacks.popleft()
        self._asked -= 1
        if not callbacks:
            del self._revalidations[message.session]
        done(message.valid, None)

    def stop(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, []
        for _, done in waiting:
            done(None, error)
        self._end_revalidations(error)

    def _end_revalidations(self, error: Exception) -> None:
        """End the revalidations that the leader has not answered."""
        asked, self._revalidations, self._asked = self._revalidations, {}, 0
        for callbacks in asked.values():
            for done in callbacks:
                done(None, error)
