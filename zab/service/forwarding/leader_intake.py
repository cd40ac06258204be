"""The leader's intake: takes requests of all members, its own included, and has them proposed or refused.

A refusal depends on the state that the leader has prepared so far. A server that no longer leads must not refuse: so
the leader first confirms with a barrier that it still leads. A member must not report a refusal before it has applied
that state: so the leader sends the state's zxid with the refusal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from zab.core.errors import Overloaded, ZabError
from zab.core.messages import State
from zab.core.node import Node
from zab.core.zxid import Millis, Zxid
from zab.service.forwarding.leadership import Leadership, LearnerLink
from zab.service.forwarding.membership_changes import reply_of, requested_ensemble
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.forwarding.proposal_queue import ForwardedBatch, ProposalQueue, RefusedRequest, by_link
from zab.service.forwarding.sync_barriers import SyncBarriers
from zab.service.limits import Limits
from zab.wire.peer import ENVELOPE_BYTES_MAX, REASON_CHARS_MAX, REQUESTS_MAX, encode
from zab.wire.relay_messages import (
    CatchUpPoint,
    CatchUpRequest,
    Forward,
    ReconfigureReply,
    ReconfigureRequest,
    Refusals,
)

REFUSAL_BYTES_MAX: Final = 4 * REASON_CHARS_MAX + 16


class LeaderIntake:
    def __init__(
        self,
        node: Node,
        queue: ProposalQueue,
        barriers: SyncBarriers,
        pending: PendingSubmissions,
        limits: Limits,
        wall_ms: Callable[[], int],
    ) -> None:
        self.queue = queue
        self.refused = 0
        """The number of requests that this server has refused as the leader since the start."""
        self._node = node
        self._barriers = barriers
        self._pending = pending
        self._limits = limits
        self._wall_ms = wall_ms
        body_bytes_max = limits.frame_bytes_max - ENVELOPE_BYTES_MAX
        self._refusals_max = max(1, min(REQUESTS_MAX, body_bytes_max // REFUSAL_BYTES_MAX))
        """The largest number of refusals in one frame: as many as fit even with the longest reasons."""
        self._leadership: Leadership | None = None
        """The leadership of this server; None while it does not lead."""
        self._catch_ups: list[tuple[LearnerLink, int]] = []
        """Learners that wait for their catch-up point, with the numbers of their requests."""

    def begin(self, leadership: Leadership) -> None:
        self._leadership = leadership
        self.queue.open(leadership.epoch)

    def end(self) -> None:
        """End the leadership. Members send their open requests to the next leader."""
        self._leadership = None
        self.queue.close()
        self._catch_ups.clear()

    def take_own(self) -> None:
        """Take this member's own pending requests."""
        leadership, limits, pending = self._leadership, self._limits, self._pending
        assert leadership is not None
        while True:
            first, requests = pending.take(limits.batch_entries_max, limits.batch_bytes_max)
            if not requests:
                break
            self.queue.put(ForwardedBatch(leadership.epoch, None, pending.origin, first, requests))

    def turn(self, now: Millis) -> None:
        """Propose queued requests, have refusals confirmed, and answer catch-up requests. Cheap if nothing waits."""
        queue, node = self.queue, self._node
        if queue.busy:
            queue.turn(node, now, self._wall_ms())
        if queue.refusals:
            assert self._leadership is not None
            refusals, queue.refusals = queue.refusals, []
            self.refused += len(refusals)
            self._barriers.confirm(partial(self._send_refusals, self._leadership, node.last, refusals), now)
        if self._catch_ups and not queue.promised:
            for link, number in self._catch_ups:
                link.send(encode(CatchUpPoint(number, node.last)))
            self._catch_ups.clear()

    def _send_refusals(
        self, leadership: Leadership, after: Zxid, refusals: list[RefusedRequest], zxid: Zxid | None
    ) -> None:
        if zxid is None or self._leadership is not leadership:
            return  # no longer leader: the members send the requests to the next one
        for link, refused in by_link(refusals).items():
            refused = tuple((counter, reason[:REASON_CHARS_MAX]) for counter, reason in refused)
            if link is None:
                self._pending.refused(after, refused)
            elif not link.over:
                for start in range(0, len(refused), self._refusals_max):
                    part = refused[start : start + self._refusals_max]
                    link.send(encode(Refusals(leadership.epoch, after, part)))

    # -- from the members --------------------------------------------------------------------------

    def on_forward(self, link: LearnerLink, message: Forward) -> None:
        node = self._node
        if node.state is not State.LEADING or node.epoch != message.epoch:
            return  # for the leader of another epoch
        if message.requests and not self.queue.put(
            ForwardedBatch(message.epoch, link, message.origin, message.first, message.requests)
        ):
            link.cut("more than twice Limits.submits_max requests of the peer would be queued")

    def on_catch_up_request(self, link: LearnerLink, message: CatchUpRequest) -> None:
        """Record the request. The first turn that leaves no prepared transaction waiting answers it."""
        self._catch_ups.append((link, message.number))

    def reconfigure(self, request: ReconfigureRequest, now: Millis) -> ReconfigureReply:
        try:
            if self.queue.promised:
                raise Overloaded("earlier transactions are prepared but not proposed yet: try again")
            ensemble = requested_ensemble(request, self._node.ensemble)
            return ReconfigureReply(request.number, self._node.reconfigure(ensemble, request.expect, now))
        except ZabError as error:
            return reply_of(request.number, error)

    def on_link_down(self, link: LearnerLink) -> None:
        self.queue.drop(link)
        self._catch_ups = [(each, number) for each, number in self._catch_ups if each is not link]
