"""The leader's proposal queue: requests of all members become transactions here, in the order of their arrival.

The queue drops a request when the leadership ends, or when the link on which it arrived breaks. The member that
submitted it then sends it again.

So a request that makes its leader fail would be sent to the next leader, and make that one fail, too. Therefore an
error in the preparation of a request is reported to its submitter, and the leader continues.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import Final, Protocol

from attrs import frozen

from zab.core.ensemble import Ensemble
from zab.core.errors import ConfigError, NotLeader, Overloaded, Refused
from zab.core.zxid import Epoch, Millis, Zxid, epoch_of, make, show
from zab.service.forwarding.leadership import LearnerLink
from zab.service.limits import Limits
from zab.service.replicated_machine import Describes, KeepsAccount, Machine, View, passes_through
from zab.wire.peer import ENVELOPE_BYTES_MAX, ITEM_BYTES_MAX
from zab.wire.relay_messages import TAG, TAG_BYTES

BESIDE_BYTES: Final = TAG_BYTES + ITEM_BYTES_MAX
"""The most bytes that a frame needs for a transaction besides its content: a tag and a header."""


def txn_bytes_max_of(limits: Limits) -> int:
    """Return the largest size of a transaction that fits into a frame of a learner link."""
    return limits.frame_bytes_max - ENVELOPE_BYTES_MAX - BESIDE_BYTES


PREPARE_S: Final = 0.02
"""The time in seconds, from the start of a turn, after which the turn prepares no further request.

Then other tasks can run. Refused requests do not count towards the limits of a batch: without this bound, a series of
large requests that are refused could take seconds.
"""
SLOW_REQUEST_S: Final = 0.2
"""A request is reported if its preparation takes longer than this, in seconds."""

_pack_tag: Final = TAG.pack
_new_view: Final = partial(tuple.__new__, View)
"""Makes views at a third of the cost of calling the class."""


class StallWatch(Protocol):
    """Times requests and transactions, and reports those that hold up the server."""

    @property
    def clock(self) -> Callable[[], float]: ...
    def took(self, seconds: float, cause: str | Callable[[], str]) -> None: ...


class NeverStalls:
    """A stall watch that reports nothing. Its clock does not advance, so no turn reaches `PREPARE_S`."""

    def clock(self) -> float:
        return 0.0

    def took(self, seconds: float, cause: str | Callable[[], str]) -> None: ...


NEVER_STALLS: Final = NeverStalls()


class FailureLog(Protocol):
    """The part of the server's event log that the queue uses."""

    def say(self, event: str, level: str = ..., /, **fields: object) -> None: ...
    def failed(self, event: str, error: Exception, /, **fields: object) -> None: ...


class Proposer(Protocol):
    """The part of a `Node` that the queue uses."""

    @property
    def last(self) -> Zxid: ...
    @property
    def committed(self) -> Zxid: ...
    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid: ...
    def reconfigure(self, ensemble: Ensemble, expect: Zxid | None, now: Millis, attached: bytes = ...) -> Zxid: ...


@frozen
class SealedChange:
    """A transaction that is a change of the membership. `attached` is its payload, for the machine."""

    ensemble: Ensemble
    attached: bytes


class Seal(Protocol):
    """The form in which transactions are proposed, if it is not a tag and the transaction.

    A request that fails has to become a transaction then: there is no other reply.
    """

    def payload(self, zxid: Zxid, txn: bytes) -> bytes | SealedChange:
        """Return the payload of a transaction."""
        ...

    def refused(self, zxid: Zxid, change: SealedChange, error: ConfigError) -> bytes:
        """Return the payload of the transaction that takes the place of a change which the consensus refuses."""
        ...

    def failed(self, request: bytes, now_ms: int) -> bytes:
        """Return the transaction that tells the submitter of the failure."""
        ...


@frozen
class ForwardedBatch:
    """Requests that arrived together, for the leader of `epoch`. `link` is None for this member's own requests."""

    epoch: Epoch
    link: LearnerLink | None
    origin: bytes
    first: int
    requests: Sequence[bytes]


@frozen
class RefusedRequest:
    link: LearnerLink | None
    counter: int
    reason: str


class ProposalQueue:
    def __init__(
        self,
        machine: Machine,
        limits: Limits,
        log: FailureLog,
        watchdog: StallWatch = NEVER_STALLS,
        seal: Seal | None = None,
    ) -> None:
        self.refusals: list[RefusedRequest] = []
        """Refusals for the leader's intake to take."""
        self.proposed = self.batches = 0
        """The numbers of transactions proposed since the start, and of the batches that held them."""
        self.cut = False
        """True if this turn has reached `PREPARE_S`. The remaining requests wait for the next turn."""
        self._cut_at = inf
        """The time at which this turn reaches `PREPARE_S`, on the watchdog's clock."""
        self._machine = machine
        self._limits = limits
        self._log = log
        self._body_bytes_max = limits.frame_bytes_max - ENVELOPE_BYTES_MAX
        self._txn_bytes_max = txn_bytes_max_of(limits)
        """The size of the largest transaction that fits into a frame; a larger one is refused."""
        self._passes = passes_through(machine)
        """True if each request is its own transaction."""
        self._watchdog = watchdog
        self._seal = seal
        self._prepare_at = machine.prepare_at if isinstance(machine, KeepsAccount) else None
        """The machine's `prepare_at`, if it has one."""
        self._epoch: Epoch | None = None
        """The epoch that this server leads; None: nothing is proposed."""
        self._batches: deque[ForwardedBatch] = deque()
        """Batches that are not prepared completely, in the order of arrival. All are for the same epoch."""
        self._started = 0
        """The number of handled requests of the first batch."""
        self._held: dict[LearnerLink, int] = {}
        """The number of requests in `_batches` that are not handled, by link; without this member's own."""
        self._prepared: list[bytes] = []
        """Prepared transactions with their tags, not proposed yet. Their zxids follow the node's last zxid."""
        self._change: SealedChange | None = None
        """A prepared change of the membership, to be proposed after `_prepared`. No request is prepared meanwhile."""
        self._outstanding: deque[tuple[Zxid, bytes]] = deque()
        """Prepared transactions that are not applied yet. Empty if `_passes`, or if there is a `_prepare_at`."""

    # -- leaderships ------------------------------------------------------------------------------------

    def open(self, epoch: Epoch) -> None:
        """Begin to propose in `epoch`, because the leader's machine has applied the initial history.

        Members may begin to serve before that, so requests for this epoch may be queued already. They are kept.
        """
        if self._epoch is not None or any(batch.epoch != epoch for batch in self._batches):
            self.close()
        self._epoch = epoch

    def close(self) -> None:
        self._epoch = None
        self._batches.clear()
        self._started = 0
        self._held.clear()
        self._prepared.clear()
        self._change = None
        self._outstanding.clear()
        self.refusals.clear()

    @property
    def epoch(self) -> Epoch | None:
        return self._epoch

    @property
    def busy(self) -> bool:
        return bool(self._batches or self.promised)

    @property
    def promised(self) -> bool:
        """True if prepared transactions, whose zxids are fixed, still wait for room in the node."""
        return bool(self._prepared) or self._change is not None

    # -- requests ----------------------------------------------------------------------------------

    def put(self, batch: ForwardedBatch) -> bool:
        """Queue a batch. If the queue holds batches of another epoch, close it first.

        Return False, and do not queue the batch, if its link would have more than twice `submits_max` queued requests.
        """
        if self._batches and self._batches[-1].epoch != batch.epoch:
            self.close()
        link = batch.link
        if link is not None:
            held = self._held.get(link, 0) + len(batch.requests)
            if held > 2 * self._limits.submits_max:
                return False
            self._held[link] = held
        self._batches.append(batch)
        return True

    def drop(self, link: LearnerLink) -> None:
        """Drop the requests and refusals of a link that is down: the member repeats the requests on its next link."""
        if self._held.pop(link, 0):
            if self._batches[0].link is link:
                self._started = 0
            self._batches = deque(batch for batch in self._batches if batch.link is not link)
        self.refusals = [refusal for refusal in self.refusals if refusal.link is not link]

    def applied(self, zxid: Zxid) -> None:
        outstanding = self._outstanding
        if outstanding and outstanding[-1][0] <= zxid:
            outstanding.clear()
        while outstanding and outstanding[0][0] <= zxid:
            outstanding.popleft()

    def begin(self, now: float) -> None:
        """Begin a turn at this time of the watchdog's clock. `PREPARE_S` counts from it."""
        self.cut, self._cut_at = False, now + PREPARE_S

    def turn(self, node: Proposer, now: Millis, now_ms: int) -> None:
        """Prepare and propose until no request is left, the node has no room, or the turn has reached `PREPARE_S`.

        New requests wait while they are fewer than the transactions in flight, which are proposed and not committed.
        The reason: a batch costs every server as much as fifty requests. With none in flight, no request waits.
        """
        if self._epoch is None or (not self.promised and self._queued() < node.last - node.committed):
            return
        try:
            while self.promised or self._batches:
                if not self._prepared:
                    if self._change is not None:
                        self._propose_change(node, now)
                        continue
                    if self.cut:
                        return
                    self._prepare(node, now_ms)
                    if not self._prepared:
                        continue  # all were refused, or the first is a change
                count = self._fitting()
                node.propose(self._prepared[:count], now)
                self.proposed += count
                self.batches += 1
                del self._prepared[:count]
        except Overloaded:
            pass  # the prepared transactions wait for commits, which cause the next turn
        except NotLeader:
            self.close()

    def _propose_change(self, node: Proposer, now: Millis) -> None:
        change, self._change = self._change, None
        assert change is not None
        assert self._seal is not None
        try:
            node.reconfigure(change.ensemble, None, now, change.attached)
        except ConfigError as error:
            self._prepared.append(self._seal.refused(self._next_zxid(node), change, error))
            return
        self.proposed += 1
        self.batches += 1

    def _next_zxid(self, node: Proposer) -> Zxid:
        epoch, last = self._epoch, node.last
        assert epoch is not None
        return Zxid(last + 1) if epoch_of(last) == epoch else make(epoch, 1)

    def _queued(self) -> int:
        return sum([len(batch.requests) for batch in self._batches]) - self._started

    def _fitting(self) -> int:
        """Return the number of prepared transactions that fit into one frame.

        At least one fits, because larger ones were refused.
        """
        prepared, room = self._prepared, self._body_bytes_max
        if sum(map(len, prepared)) + ITEM_BYTES_MAX * len(prepared) <= room:
            return len(prepared)
        for index, payload in enumerate(prepared):
            room -= len(payload) + ITEM_BYTES_MAX
            if room < 0:
                return index
        return len(prepared)

    def _prepare(self, node: Proposer, now_ms: int) -> None:
        """Prepare requests for one batch of proposals, as ZooKeeper's PrepRequestProcessor prepares one request.

        The zxid of each transaction is known in advance, because nothing else is proposed in between. A request whose
        preparation fails, or whose transaction does not fit into a frame, is refused; the leader continues. Stop early
        after `PREPARE_S`, so that other tasks run, and after a change of the membership.
        """
        limits, batches, prepared, outstanding = self._limits, self._batches, self._prepared, self._outstanding
        passes, prepare, prepare_at = self._passes, self._machine.prepare, self._prepare_at
        epoch, txn_bytes_max, seal = self._epoch, self._txn_bytes_max, self._seal
        assert epoch is not None
        zxid = self._next_zxid(node)
        size = 0
        clock = self._watchdog.clock
        cut_at = self._cut_at
        while batches and len(prepared) < limits.batch_entries_max and size < limits.batch_bytes_max and not self.cut:
            if self._change is not None:
                break
            batch = batches[0]
            start = self._started
            stop = min(len(batch.requests), start + limits.batch_entries_max - len(prepared))
            counter = batch.first + start
            origin, link = batch.origin, batch.link
            started = clock()
            for request in batch.requests[start:stop]:
                txn: object = request
                if not passes:
                    try:
                        if prepare_at is not None:
                            txn = prepare_at(request, zxid, epoch, now_ms)
                        else:
                            txn = prepare(request, _new_view((zxid, epoch, now_ms, outstanding)))
                    except Exception as error:
                        txn = self._not_made(request, zxid, error)
                    ended = clock()
                    if ended - started > SLOW_REQUEST_S:
                        self._watchdog.took(ended - started, partial(self._preparing, request))
                    started = ended
                    self.cut = ended >= cut_at
                if not isinstance(txn, bytes) or len(txn) > txn_bytes_max:
                    why = self._why_not(txn)
                    if seal is None:
                        self.refusals.append(RefusedRequest(link, counter, why))
                        counter += 1
                        if self.cut:
                            break
                        continue
                    txn = seal.failed(request, now_ms)
                if prepare_at is None and not passes:
                    outstanding.append((zxid, txn))
                sealed = _pack_tag(origin, counter) + txn if seal is None else seal.payload(zxid, txn)
                counter += 1
                if isinstance(sealed, SealedChange):
                    self._change = sealed
                    break
                prepared.append(sealed)
                size += len(txn) + TAG_BYTES
                zxid = Zxid(zxid + 1)
                if size >= limits.batch_bytes_max or self.cut:
                    break
            done = counter - batch.first
            if link is not None:
                self._held[link] -= done - start
            if done == len(batch.requests):
                batches.popleft()
                self._started = 0
            else:
                self._started = done

    def _preparing(self, request: bytes) -> str:
        described = self._machine.describe(request) if isinstance(self._machine, Describes) else "a request"
        return f"preparing {described} of {len(request)} bytes"

    def _not_made(self, request: bytes, zxid: Zxid, error: Exception) -> Refused:
        """Return the refusal for a request for which `prepare` raised."""
        if isinstance(error, Refused):
            return error
        self._log.failed("prepare_failed", error, zxid=show(zxid), request_bytes=len(request))
        return Refused(f"prepare raised {type(error).__name__}: {_text_of(error)}")

    def _why_not(self, txn: object) -> str:
        if isinstance(txn, Refused):
            return _text_of(txn)
        if not isinstance(txn, bytes):
            why = f"prepare returned {type(txn).__name__}, not bytes"
        else:
            why = (
                f"the transaction has {len(txn)} bytes; at most {self._txn_bytes_max} fit into a frame "
                "(Limits.frame_bytes_max)"
            )
        self._log.say("request_refused", "error", why=why)
        return why


def _text_of(error: Exception) -> str:
    """Return the text of an error in a form that can be sent, because not every `str` can be encoded."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return "(its text cannot be shown)"


def by_link(refusals: Sequence[RefusedRequest]) -> dict[LearnerLink | None, tuple[tuple[int, str], ...]]:
    grouped: dict[LearnerLink | None, list[tuple[int, str]]] = {}
    for refusal in refusals:
        grouped.setdefault(refusal.link, []).append((refusal.counter, refusal.reason))
    return {link: tuple(refused) for link, refused in grouped.items()}
