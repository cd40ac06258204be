"""Send a member's pending submissions to the leader, and handle the leader's replies to them."""

from __future__ import annotations

from collections.abc import Sequence

from zab.core.zxid import Zxid
from zab.service.forwarding.leadership import Leadership, LearnerLink
from zab.service.forwarding.pending_submissions import PendingSubmissions
from zab.service.limits import Limits
from zab.wire.peer import ENVELOPE_BYTES_MAX, ITEM_BYTES_MAX, REQUESTS_MAX, encode
from zab.wire.relay_messages import CatchUpPoint, CatchUpRequest, Forward, Refusals


class RequestForwarder:
    def __init__(self, pending: PendingSubmissions, limits: Limits) -> None:
        self._pending = pending
        self._limits = limits
        self._body_bytes_max = limits.frame_bytes_max - ENVELOPE_BYTES_MAX
        self._leadership: Leadership | None = None
        """The leadership in force, or None."""
        self._number = 0
        """The number of the last request for a catch-up point."""

    def begin(self, leadership: Leadership, last: Zxid) -> None:
        """Begin a leadership. At the leader itself, `last` is the catch-up point: the end of its log."""
        self._leadership = leadership
        self._pending.begin(leadership.epoch)
        if leadership.link is None:
            self._pending.on_catch_up_point(last)
        else:
            self._number += 1
            leadership.link.send(encode(CatchUpRequest(self._number)))

    def end(self) -> None:
        self._leadership = None
        self._pending.end()

    def forward(self, link: LearnerLink, applied: Zxid) -> None:
        """Send the requests that may be sent now: see `PendingSubmissions.take`."""
        leadership, limits, pending = self._leadership, self._limits, self._pending
        assert leadership is not None, "nothing is forwarded without a leader"
        while True:
            first, requests = pending.take(limits.batch_entries_max, limits.batch_bytes_max)
            if not requests:
                break
            size = sum(map(len, requests)) + ITEM_BYTES_MAX * len(requests)
            if len(requests) <= REQUESTS_MAX and size <= self._body_bytes_max:
                link.send(encode(Forward(leadership.epoch, pending.origin, first, tuple(requests))))
            else:
                self._send_in_frames(link, leadership, first, requests, applied)

    def _send_in_frames(
        self, link: LearnerLink, leadership: Leadership, first: int, requests: Sequence[bytes], applied: Zxid
    ) -> None:
        """Divide the requests among frames, and send these. Refuse a request that is too large for a frame."""
        epoch, origin = leadership.epoch, self._pending.origin
        room, run, free = self._body_bytes_max - ITEM_BYTES_MAX, list[bytes](), 0
        for number, request in enumerate(requests, first):
            size = len(request) + ITEM_BYTES_MAX
            if run and (size > free or len(run) == REQUESTS_MAX):
                link.send(encode(Forward(epoch, origin, number - len(run), tuple(run))))
                run = []
            if not run:
                free = self._body_bytes_max
            if size > free:
                reason = (
                    f"the request has {len(request)} bytes; at most {room} fit into a frame (Limits.frame_bytes_max)"
                )
                self._pending.refused(applied, ((number, reason),))
                continue
            run.append(request)
            free -= size
        if run:
            link.send(encode(Forward(epoch, origin, first + len(requests) - len(run), tuple(run))))
        self._pending.reached(applied)

    # -- from the leader ---------------------------------------------------------------------------

    def on_catch_up_point(self, link: LearnerLink, message: CatchUpPoint) -> None:
        if self._leadership is not None and self._leadership.link is link:
            self._pending.on_catch_up_point(message.zxid)

    def on_refusals(self, link: LearnerLink, message: Refusals) -> None:
        leadership = self._leadership
        if leadership is not None and leadership.link is link and message.epoch == leadership.epoch:
            self._pending.refused(message.after, message.refused)
