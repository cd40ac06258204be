"""A member's pending submissions: each is carried out exactly once, in the member's order, or its caller gets an error.

A request travels to the leader and returns as a transaction with this member's origin; its application answers
the request. If the leader, or the link to it, is lost in between, the request may be in the history or not, and may
even be queued at the leader. So no request is sent a second time before two conditions hold:

1.  No request sent earlier is still on its way. A request names the epoch of its leader, and the leader of another
    epoch drops it. A leader drops the requests of a link as soon as the link is down. So when a new link is up, each
    request sent earlier is in the leader's log, or will never be.
2.  This member has applied the leader's log. On the new link it asks the leader for the end of its log (the *catch-up
    point*), and first applies everything up to there. In a new epoch this covers everything that can have survived of
    the old one; in the same epoch it covers everything that was proposed on the old link.

A request that is still without an answer was then not carried out, and is sent again, in the old order. The time with
one leader over one link is a *leadership*.

One kind of request is not sent again: a request with a successor that was carried out. A leader prepares a member's
requests in their order, so it must have refused the earlier one, and the refusal was lost with the leader or the link.
The request is refused without the lost reason. If it were sent again, it might succeed after its successors.

A request may be the reason why its leader was lost, and would then cost the next leader its role as well. One loss
proves nothing, because innocent requests are under way at every failover. So this member counts, for each open request,
the leaders in a row that were lost after it was sent to them. A request with one loss less than
`Limits.leaders_lost_max` is sent alone: all requests before it have their answers, and none after it is under way. If
that leader is lost, too, the request is refused instead of being sent again. By then the catch-up point has shown that
it was not carried out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice, repeat
from typing import Final, TypeAlias

from zab.core.errors import LeadersLost, OutcomeUnknown, Refused
from zab.core.zxid import Epoch, Zxid
from zab.wire.relay_messages import ORIGIN_BYTES, TAG

Done: TypeAlias = Callable[[object, Exception | None], None]
"""Called once, in the event loop, with the result of `apply` or the error of the request; never after a cancel."""

SLACK: Final = 1_000
"""The length up to which a queue is not rebuilt, however many of its requests are cancelled."""


class Submission:
    """A request that its caller can cancel. `counter` is 0 until there is room for it. A cancel sets `done` to None."""

    __slots__ = ("counter", "done", "request")

    def __init__(self, request: bytes, done: Done) -> None:
        self.counter = 0
        self.request = request
        self.done: Done | None = done


class PendingSubmissions:
    def __init__(self, origin: bytes, count_max: int, bytes_max: int, leaders_lost_max: int = 3) -> None:
        assert len(origin) == ORIGIN_BYTES
        assert leaders_lost_max >= 2, "one loss proves nothing about a request"
        self.origin = origin
        """The origin in the tags of this member's transactions, unique to this run of its process."""
        self.bytes = 0
        """The bytes of the open requests."""
        self.submits = 0
        """The number of the last request that was admitted, open or not; numbers begin at 1."""
        self._count_max = count_max
        self._bytes_max = bytes_max
        self._open: dict[int, tuple[bytes, Done | None]] = {}
        """The open requests by number, so the oldest first."""
        self._sent = 0
        """The open requests up to this number have been sent since the last catch-up point was reached."""
        self._queued: deque[Submission] = deque()
        """Requests for which there is no room yet, in the order of arrival. Some may be cancelled."""
        self._queued_cancelled = 0
        """The number of cancelled requests in `_queued`."""
        self._unsent: deque[int] = deque()
        """Numbers of the requests to send, in order. A cancelled one may remain here, but is not in `_open`."""
        self._may_send = False
        """True if the log up to the catch-up point of this leadership is applied."""
        self._catch_up: Zxid | None = None
        """The catch-up point of this leadership, once it is known."""
        self._epoch: Epoch | None = None
        """The epoch of this leadership, or of the last one; None before the first."""
        self._epoch_sent: Epoch | None = None
        """The epoch of the leadership in which the requests up to `_sent` were sent."""
        self._leaders_lost_max = leaders_lost_max
        self._lost: dict[int, int] = {}
        """number of an open request -> the number of leaders in a row that were lost after it was sent to them"""
        self._alone = 0
        """The number of the last request that was sent alone in this leadership; 0: none was."""
        self._refusals: deque[tuple[Zxid, tuple[tuple[int, str], ...]]] = deque()
        """Refusals, with the zxid that must be applied here before the callers get them."""
        self._carried_out = 0
        """The number of the last request whose transaction was applied here. Transactions keep the order of numbers."""

    def __len__(self) -> int:
        return len(self._open)

    # -- from the submitters -----------------------------------------------------------------------

    def has_room(self, size: int) -> bool:
        if self._queued or len(self._open) >= self._count_max:
            return False
        return self.bytes + size <= self._bytes_max or not self._open

    def submit(self, request: bytes, done: Done) -> Submission:
        submission = Submission(request, done)
        if self.has_room(len(request)):
            self._admit(submission)
        else:
            self._queued.append(submission)
        return submission

    def submit_many(self, requests: Sequence[bytes], done: Done) -> int:
        """Submit as many of the requests as there is room for. Return their number. The rest is not queued."""
        if self._queued:
            return 0
        count, size = len(requests), sum(map(len, requests))
        if len(self._open) + count > self._count_max or self.bytes + size > self._bytes_max:
            count, size = self._fitting(requests)
        counters = range(self.submits + 1, self.submits + 1 + count)
        # No Python loop here: nearly all writes of clients pass this point.
        self._open.update(zip(counters, zip(requests, repeat(done)), strict=False))
        self._unsent.extend(counters)
        self.submits += count
        self.bytes += size
        return count

    def _fitting(self, requests: Sequence[bytes]) -> tuple[int, int]:
        """Return how many requests, counted from the first, fit within the limits, and their total size in bytes."""
        count = size = 0
        for request in requests:
            more = size + len(request)
            full = len(self._open) + count >= self._count_max
            if full or (self.bytes + more > self._bytes_max and (self._open or count)):
                break
            count, size = count + 1, more
        return count, size

    def cancel(self, submission: Submission) -> None:
        """Stop waiting for a request. If it was not sent yet, it never will be."""
        if submission.done is None:
            return
        submission.done = None
        counter = submission.counter
        if counter in self._open:
            if counter <= self._sent:
                self._open[counter] = submission.request, None
            else:
                self._close(counter)
        # Cancelled entries stay in `_unsent` and `_queued`, and are skipped later. A queue with too many is rebuilt:
        # without a leader they would accumulate.
        if len(self._unsent) > 2 * len(self._open) + SLACK:
            self._unsent = deque(each for each in self._unsent if each in self._open)
        if not counter:
            self._queued_cancelled += 1
            if len(self._queued) > SLACK and 2 * self._queued_cancelled > len(self._queued):
                self._queued = deque(each for each in self._queued if each.done is not None)
                self._queued_cancelled = 0

    def _admit(self, submission: Submission) -> None:
        self.submits += 1
        submission.counter = self.submits
        self._open[submission.counter] = submission.request, submission.done
        self.bytes += len(submission.request)
        self._unsent.append(submission.counter)

    def _close(self, counter: int) -> Done | None:
        """Remove a request, and admit queued ones. Return its callback; None if it was not open, or was cancelled."""
        closed = self._open.pop(counter, None)
        if closed is None:
            return None
        request, done = closed
        self.bytes -= len(request)
        if self._lost:
            self._lost.pop(counter, None)
        if self._queued:
            self._admit_queued()
        return done

    def _admit_queued(self) -> None:
        queued, self._queued = self._queued, deque()
        while queued and (queued[0].done is None or self.has_room(len(queued[0].request))):
            submission = queued.popleft()
            if submission.done is None:
                self._queued_cancelled -= 1
            else:
                self._admit(submission)
        self._queued = queued

    # -- leaderships ------------------------------------------------------------------------------------

    def begin(self, epoch: Epoch) -> None:
        self.end()
        self._epoch = epoch

    def on_catch_up_point(self, zxid: Zxid) -> None:
        """Record the catch-up point of this leadership, the end of the leader's log."""
        self._catch_up = zxid

    def end(self) -> None:
        self._may_send = False
        self._catch_up = None
        # The state on which these refusals depend may never be reached. The requests are sent again.
        self._refusals.clear()

    # -- applied transactions ------------------------------------------------------------------------

    def applied(self, counter: int, result: object) -> None:
        """Answer the request with this number: its transaction was applied, with this result."""
        self._carried_out = counter
        closed = self._open.pop(counter, None)  # the same as `_close`, inlined
        if closed is None:
            return
        request, done = closed
        self.bytes -= len(request)
        if self._lost:
            self._lost.pop(counter, None)
        if self._queued:
            self._admit_queued()
        if done is not None:
            done(result, None)

    def refused(self, after: Zxid, refused: tuple[tuple[int, str], ...]) -> None:
        """Handle refusals that were decided on the state at `after`.

        Callers get them once this member has reached that state. Before, a read might not show the reason.
        """
        self._refusals.append((after, refused))

    def reached(self, applied: Zxid) -> bool:
        """Handle progress: the machine has applied everything up to `applied`.

        Return True if this lets requests be sent: the log up to the catch-up point is now applied.
        """
        while self._refusals and self._refusals[0][0] <= applied:
            for counter, reason in self._refusals.popleft()[1]:
                done = self._close(counter)
                if done is not None:
                    done(None, Refused(reason))
        if self._catch_up is None or self._may_send or applied < self._catch_up:
            return False
        self._may_send = True
        self._give_lost_refusals()
        if self._epoch_sent != self._epoch:
            self._count_losses()
            self._epoch_sent = self._epoch
        self._sent = self._alone = 0
        for counter, (_, done) in list(self._open.items()):
            if done is None:  # cancelled meanwhile, and not carried out: drop it
                self._close(counter)
        self._unsent = deque(self._open)
        return True

    def _give_lost_refusals(self) -> None:
        """Refuse every open request older than one that was carried out."""
        for counter in list(self._open):
            if counter > self._carried_out:
                break
            done = self._close(counter)
            if done is not None:
                done(
                    None,
                    Refused("a leader refused the request, but the reason was lost: see `Refused` in docs/errors.md"),
                )

    def _count_losses(self) -> None:
        """Count a lost leader for each open request up to `_sent`. Refuse a request at the limit of losses."""
        for counter in list(self._open):
            if counter > self._sent:
                break
            losses = self._lost[counter] = self._lost.get(counter, 0) + 1
            if losses >= self._leaders_lost_max:
                # It was sent alone, so it is the oldest: a refusal keeps the order of the answers.
                done = self._close(counter)
                if done is not None:
                    done(None, LeadersLost(
                        f"{losses} leaders in a row were lost while this request was under way, the last one with "
                        "no other request under way; it was not carried out (Limits.leaders_lost_max)"
                    ))  # fmt: skip

    def jumped(self) -> None:
        """End the sent requests with `OutcomeUnknown`: a snapshot replaced the state, and it may contain them.

        `_carried_out` may stay: the remaining requests have not been sent since the last catch-up point. So neither
        they nor their successors are in the snapshot.
        """
        self.lose_sent(
            OutcomeUnknown("a snapshot of the leader has replaced this server's state, and may contain the request")
        )

    def lose_sent(self, error: Exception) -> None:
        """End the requests that were sent and have no answer with an error."""
        for counter in list(self._open):
            if counter <= self._sent:
                done = self._close(counter)
                if done is not None:
                    done(None, error)

    def stop(self, error: Exception) -> None:
        stopped = [*(done for _, done in self._open.values()), *(each.done for each in self._queued)]
        self._open.clear()
        self._lost.clear()
        self._queued.clear()
        self._queued_cancelled = 0
        self.bytes = 0
        for done in stopped:
            if done is not None:
                done(None, error)

    # -- to the leader ------------------------------------------------------------------------

    @property
    def wants_to_send(self) -> bool:
        return self._may_send and bool(self._unsent)

    def take(self, count_max: int, bytes_max: int) -> tuple[int, list[bytes]]:
        """Return requests with consecutive numbers, and the number of the first; an empty list if there is none.

        The leader numbers a forwarded batch from its first number, so a batch ends at a gap. A submission that is no
        longer open leaves a gap. The batch holds at most `count_max` requests and ends with the one that reaches
        `bytes_max`, so it may exceed `bytes_max`. After lost leaders `_may_take` lowers the count.
        """
        unsent, still_open = self._unsent, self._open
        if self._lost:
            count_max = self._may_take(count_max)
        if unsent and len(unsent) <= count_max and unsent[-1] - unsent[0] < len(unsent):
            # Fast path for the usual case: all unsent requests are open, and fit into one batch.
            requests = [still_open[counter][0] for counter in unsent if counter in still_open]
            if len(requests) == len(unsent) and sum(map(len, requests)) <= bytes_max:
                first, self._sent = unsent[0], unsent[-1]
                unsent.clear()
                return first, requests
        first = expected = size = 0
        requests = []
        while unsent and len(requests) < count_max and (size < bytes_max or not requests):
            counter = unsent[0]
            wanted = still_open.get(counter)
            if wanted is None:
                unsent.popleft()
                continue
            if not requests:
                first = expected = counter
            elif counter != expected:
                break
            unsent.popleft()
            request = wanted[0]
            requests.append(request)
            size += len(request)
            expected += 1
        if requests:
            self._sent = expected - 1
        return first, requests

    def _may_take(self, count_max: int) -> int:
        """Return how many requests may be sent now. Called only if `_lost` has an entry."""
        unsent, still_open, suspicious = self._unsent, self._open, self._leaders_lost_max - 1
        while unsent and unsent[0] not in still_open:
            unsent.popleft()
        if not unsent or self._alone in still_open:
            return 0
        if self._lost.get(unsent[0], 0) >= suspicious:
            if next(iter(still_open)) != unsent[0]:
                return 0  # the requests before it must be answered first
            self._alone = unsent[0]
            return 1
        count = 0
        for counter in islice(unsent, count_max):
            if self._lost.get(counter, 0) >= suspicious:
                break
            count += 1
        return count


def tagged(origin: bytes, counter: int, txn: bytes) -> bytes:
    """Return the payload for the log: the tag, then the transaction."""
    return TAG.pack(origin, counter) + txn
