"""The leader's desk: requests of all members, in the order of their coming, become transactions here.

What lies on it is nobody's promise: when the stint ends, or the link on which a request came, it is swept
off, and the member where it began asks again.

So a request that would end the leader would be brought to the next one, and end that, too. Whatever is wrong
with a single request is therefore answered to its submitter, and nobody else hears of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Final, Protocol

from attrs import frozen

from zab.core.errors import NotLeader, Overloaded
from zab.core.zxid import Epoch, Millis, Zxid, epoch_of, make, show
from zab.runtime.errors import Refused
from zab.runtime.limits import Limits
from zab.runtime.link import Link
from zab.runtime.logs import Log
from zab.runtime.machine import Describes, KeepsAccount, Machine, View, passes_through
from zab.runtime.watchdog import STALL_S, UNWATCHED, Watchdog
from zab.wire.peer import ENVELOPE_BYTES_MAX, ITEM_BYTES_MAX
from zab.wire.relay import TAG, TAG_BYTES

BESIDE_BYTES: Final = TAG_BYTES + ITEM_BYTES_MAX
"""What a batch holds for a transaction beside the transaction itself."""

PREPARE_S: Final = 0.02
"""So long a turn prepares before it lets others have the loop: a hundred large requests that fail are seconds."""

_pack_tag: Final = TAG.pack
_new_view: Final = partial(tuple.__new__, View)
"""A third of what the class takes."""


class Proposes(Protocol):
    """As much of a `Node` as is needed here."""

    @property
    def last(self) -> Zxid: ...
    @property
    def committed(self) -> Zxid: ...
    def propose(self, payloads: Sequence[bytes], now: Millis) -> Zxid: ...


@frozen
class Parcel:
    """Requests that came together, meant for the leader of `epoch`. `link` is None for this member's own."""

    epoch: Epoch
    link: Link | None
    origin: bytes
    first: int
    requests: Sequence[bytes]


@frozen
class Refusal:
    link: Link | None
    counter: int
    reason: str


class Desk:
    def __init__(self, machine: Machine, limits: Limits, log: Log, watchdog: Watchdog = UNWATCHED) -> None:
        self.refusals: list[Refusal] = []
        """To be taken by the driver."""
        self.proposed = self.batches = 0
        self.cut = False
        """This turn of the driver has prepared for as long as it may."""
        self._cut_at = inf
        self._machine = machine
        self._limits = limits
        self._log = log
        self._body_bytes_max = limits.frame_bytes_max - ENVELOPE_BYTES_MAX
        self._txn_bytes_max = self._body_bytes_max - BESIDE_BYTES
        self._passes = passes_through(machine)
        self._watchdog = watchdog
        self._prepare_at = machine.prepare_at if isinstance(machine, KeepsAccount) else None
        self._epoch: Epoch | None = None
        self._parcels: deque[Parcel] = deque()
        self._started = 0
        """How many requests of the first parcel are done with."""
        self._held: dict[Link, int] = {}
        self._prepared: list[bytes] = []
        self._outstanding: deque[tuple[Zxid, bytes]] = deque()

    # -- stints ------------------------------------------------------------------------------------

    def open(self, epoch: Epoch) -> None:
        """This server leads `epoch`, and its machine has applied all that the epoch began with.

        Others may have learned of the epoch's beginning before, and their requests lie here already.
        """
        if self._epoch is not None or any(parcel.epoch != epoch for parcel in self._parcels):
            self.close()
        self._epoch = epoch

    def close(self) -> None:
        self._epoch = None
        self._parcels.clear()
        self._started = 0
        self._held.clear()
        self._prepared.clear()
        self._outstanding.clear()
        self.refusals.clear()

    @property
    def epoch(self) -> Epoch | None:
        return self._epoch

    @property
    def busy(self) -> bool:
        return bool(self._parcels or self._prepared)

    @property
    def promised(self) -> bool:
        """Transactions were prepared, each for its zxid, that the node had no room for yet."""
        return bool(self._prepared)

    # -- requests ----------------------------------------------------------------------------------

    def put(self, parcel: Parcel) -> bool:
        """False when a link has more on the desk than its member may have outstanding at all."""
        if self._parcels and self._parcels[-1].epoch != parcel.epoch:
            self.close()
        link = parcel.link
        if link is not None:
            held = self._held.get(link, 0) + len(parcel.requests)
            if held > 2 * self._limits.submits_max:
                return False
            self._held[link] = held
        self._parcels.append(parcel)
        return True

    def drop(self, link: Link) -> None:
        """The link is down: what came on it and is not prepared yet must not come true behind its member's back."""
        if self._held.pop(link, 0):
            if self._parcels[0].link is link:
                self._started = 0
            self._parcels = deque(parcel for parcel in self._parcels if parcel.link is not link)
        self.refusals = [refusal for refusal in self.refusals if refusal.link is not link]

    def applied(self, zxid: Zxid) -> None:
        outstanding = self._outstanding
        if outstanding and outstanding[-1][0] <= zxid:
            outstanding.clear()
        while outstanding and outstanding[0][0] <= zxid:
            outstanding.popleft()

    def begin(self) -> None:
        """A turn of the driver begins: there is time again."""
        self.cut, self._cut_at = False, self._watchdog.clock() + PREPARE_S

    def turn(self, node: Proposes, now: Millis, now_ms: int) -> None:
        """Prepare and propose for as long as there is something, and room for it.

        A batch costs every server as much as fifty requests. So one waits until it is as large as all that is
        in flight, or until that has arrived: who is alone never waits, and with many there are few batches.
        """
        if self._epoch is None or (not self._prepared and self._lying() < node.last - node.committed):
            return
        try:
            while self._prepared or self._parcels:
                if not self._prepared:
                    if self.cut:
                        return
                    self._prepare(node, now_ms)
                    if not self._prepared:
                        continue  # all were refused
                count = self._fitting()
                node.propose(self._prepared[:count], now)
                self.proposed += count
                self.batches += 1
                del self._prepared[:count]
        except Overloaded:
            pass  # what is prepared waits: the commits that make room for it bring the next turn
        except NotLeader:
            self.close()

    def _lying(self) -> int:
        return sum([len(parcel.requests) for parcel in self._parcels]) - self._started

    def _fitting(self) -> int:
        """How many of what is prepared fit into one frame. One always does: what is larger was refused."""
        prepared, room = self._prepared, self._body_bytes_max
        if sum(map(len, prepared)) + ITEM_BYTES_MAX * len(prepared) <= room:
            return len(prepared)
        for index, payload in enumerate(prepared):
            room -= len(payload) + ITEM_BYTES_MAX
            if room < 0:
                return index
        return len(prepared)

    def _prepare(self, node: Proposes, now_ms: int) -> None:
        """As much as goes to the log at one go. Its zxids are known, for nobody else proposes while it waits."""
        limits, parcels, prepared, outstanding = self._limits, self._parcels, self._prepared, self._outstanding
        passes, prepare, prepare_at = self._passes, self._machine.prepare, self._prepare_at
        epoch, txn_bytes_max = self._epoch, self._txn_bytes_max
        assert epoch is not None
        last = node.last
        zxid = Zxid(last + 1) if epoch_of(last) == epoch else make(epoch, 1)
        size = 0
        clock = self._watchdog.clock
        cut_at = self._cut_at
        while parcels and len(prepared) < limits.batch_entries_max and size < limits.batch_bytes_max and not self.cut:
            parcel = parcels[0]
            start = self._started
            stop = min(len(parcel.requests), start + limits.batch_entries_max - len(prepared))
            counter = parcel.first + start
            origin, link = parcel.origin, parcel.link
            started = clock()
            for request in parcel.requests[start:stop]:
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
                    if ended - started > STALL_S:
                        self._watchdog.took(ended - started, partial(self._preparing, request))
                    started = ended
                    self.cut = ended >= cut_at
                if not isinstance(txn, bytes) or len(txn) > txn_bytes_max:
                    self.refusals.append(Refusal(link, counter, self._why_not(txn)))
                    counter += 1
                    if self.cut:
                        break
                    continue
                if prepare_at is None and not passes:
                    outstanding.append((zxid, txn))
                prepared.append(_pack_tag(origin, counter) + txn)
                size += len(txn) + TAG_BYTES
                zxid = Zxid(zxid + 1)
                counter += 1
                if size >= limits.batch_bytes_max or self.cut:
                    break
            done = counter - parcel.first
            if link is not None:
                self._held[link] -= done - start
            if done == len(parcel.requests):
                parcels.popleft()
                self._started = 0
            else:
                self._started = done

    def _preparing(self, request: bytes) -> str:
        described = self._machine.describe(request) if isinstance(self._machine, Describes) else "a request"
        return f"preparing {described} of {len(request)} bytes"

    def _not_made(self, request: bytes, zxid: Zxid, error: Exception) -> Refused:
        """Why `prepare` made nothing of it."""
        if isinstance(error, Refused):
            return error
        self._log.failed("prepare_failed", error, zxid=show(zxid), request_bytes=len(request))
        return Refused(f"prepare raised {type(error).__name__}: {_said(error)}")

    def _why_not(self, txn: object) -> str:
        if isinstance(txn, Refused):
            return _said(txn)
        if not isinstance(txn, bytes):
            why = f"prepare returned {type(txn).__name__}, not bytes"
        else:
            why = (
                f"the transaction has {len(txn)} bytes; at most {self._txn_bytes_max} fit into a frame "
                "(Limits.frame_bytes_max)"
            )
        self._log.say("request_refused", "error", why=why)
        return why


def _said(error: Exception) -> str:
    """Its text, such that it can be sent: not every `str` of Python can be encoded, nor every error be shown."""
    try:
        return str(error).encode("utf-8", "backslashreplace").decode()
    except Exception:
        return "(it cannot be shown)"


def by_link(refusals: Sequence[Refusal]) -> dict[Link | None, tuple[tuple[int, str], ...]]:
    grouped: dict[Link | None, list[tuple[int, str]]] = {}
    for refusal in refusals:
        grouped.setdefault(refusal.link, []).append((refusal.counter, refusal.reason))
    return {link: tuple(refused) for link, refused in grouped.items()}
