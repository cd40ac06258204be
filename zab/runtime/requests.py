"""The requests of a member and, while it leads, of all: over which way they go, and what becomes of them.

A *stint* is a stretch of serving with one leader over one link. `origin` says why nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from zab.core.errors import Overloaded, ZabError
from zab.core.messages import State
from zab.core.node import Node
from zab.core.zxid import Epoch, Millis, Zxid
from zab.runtime.changes import Changes, reply_of, wanted
from zab.runtime.desk import Desk, Parcel, Refusal, by_link
from zab.runtime.limits import Limits
from zab.runtime.link import Link
from zab.runtime.links import Links
from zab.runtime.logs import Log
from zab.runtime.machine import Machine
from zab.runtime.origin import Origin
from zab.runtime.watchdog import UNWATCHED, Watchdog
from zab.wire.peer import ENVELOPE_BYTES_MAX, ITEM_BYTES_MAX, REASON_CHARS_MAX, REQUESTS_MAX, encode
from zab.wire.relay import (
    Aside,
    Fence,
    FenceRequest,
    Forward,
    Notice,
    ReconfigureReply,
    ReconfigureRequest,
    Refusals,
)

BarrierAnswer: TypeAlias = Callable[[object, Exception | None], None]
Asks: TypeAlias = tuple[BarrierAnswer, bytes]
"""Who waits for a barrier, and an aside that is to reach the leader in front of it; empty: none."""
Hears: TypeAlias = Callable[[bytes], None]

REFUSAL_BYTES_MAX: Final = 4 * REASON_CHARS_MAX + 16


def deaf(body: bytes) -> None:
    """Nobody cares for asides here."""


class Requests:
    def __init__(
        self,
        node: Node,
        machine: Machine,
        origin: Origin,
        links: Links,
        limits: Limits,
        log: Log,
        wall_ms: Callable[[], int],
        watchdog: Watchdog = UNWATCHED,
    ) -> None:
        self.origin = origin
        self.desk = Desk(machine, limits, log, watchdog)
        self.changes = Changes()
        self.barriers = self.refusals = 0
        self.waiting: list[Asks] = []
        """For a barrier: see `ask`."""
        self.hears: Hears = deaf
        self.notices: Hears = deaf
        self._node = node
        self._links = links
        self._limits = limits
        self._wall_ms = wall_ms
        self._body_bytes_max = limits.frame_bytes_max - ENVELOPE_BYTES_MAX
        self._refusals_max = max(1, min(REQUESTS_MAX, self._body_bytes_max // REFUSAL_BYTES_MAX))
        self._way: tuple[Epoch, Link | None] | None = None
        self._stretch: object = None
        """That of the node, for which `_way` was found."""
        self._number = 0
        self._applied = node.applied
        self._fences: list[tuple[Link, int]] = []
        self._asked: dict[int, list[Asks]] = {}
        self._held: dict[int, tuple[Zxid, list[Refusal]]] = {}

    @property
    def open(self) -> bool:
        return self._way is not None

    # -- a turn ------------------------------------------------------------------------------------

    def turn(self, now: Millis) -> None:
        """Before the node is asked what it wants. Cheap when there is nothing to do."""
        node, way = self._node, self._way
        if (
            way is None
            or node.stretch is not self._stretch
            or (way[1] is not None and self._links.dialled.get(way[1].peer) is not way[1])
        ):
            self._find_way()
            self._stretch, way = node.stretch, self._way
            if way is None:
                return
        epoch, link = way
        origin = self.origin
        if self.changes.waiting:
            for request in self.changes.take():
                if link is not None:
                    link.send(encode(request))
                else:
                    self.changes.replied(self._change(request, now))
        if origin.wants_to_send:
            limits = self._limits
            while True:
                first, requests = origin.take(limits.batch_entries_max, limits.batch_bytes_max)
                if not requests:
                    break
                if link is None:
                    self.desk.put(Parcel(epoch, None, origin.tag, first, requests))
                else:
                    self._forward(link, epoch, first, requests)
        if link is None:
            self._lead(now)

    def ask(self, now: Millis) -> None:
        """Once a turn: one barrier for all who wait for one.

        The asides go to the leader of whom the barrier is asked, in front of it and on the same link: an answer shows
        that it has heard them. Where it is asked again of another leader, so are they.
        """
        if self.waiting and self._way is not None:
            waiting, self.waiting = self.waiting, []
            for ahead in dict.fromkeys(ahead for _, ahead in waiting if ahead):
                self.aside(ahead)
            self._asked[self._next_number()] = waiting
            self._node.barrier(self._number, now)

    def _find_way(self) -> None:
        node = self._node
        _, state, epoch, leader, serving = node.standing()
        way: tuple[Epoch, Link | None] | None = None
        if serving:
            if state is State.LEADING:
                way = (epoch, None)
            else:
                link = None if leader is None else self._links.dialled.get(leader)
                way = None if link is None else (epoch, link)
        if way is not None and way != self._way and self._applied < node.applied:
            way = None  # what the node calls applied is still on its way to the machine: in this very turn
        if way == self._way:
            return
        if self._way is not None:
            self.origin.end()
            self.changes.stint_over()
        if way is None or way[1] is not None:
            self.desk.close()
            self._fences.clear()
            self._held.clear()
        self._way = way
        if way is None:
            return
        self.origin.begin(way[0])
        if way[1] is None:
            self.desk.open(way[0])
            self.origin.fenced(node.last)  # nothing of mine is anywhere else
            self.reached(self._applied)
        else:
            way[1].send(encode(FenceRequest(self._next_number())))

    def _lead(self, now: Millis) -> None:
        desk, node = self.desk, self._node
        if desk.busy:
            desk.turn(node, now, self._wall_ms())
        if desk.refusals:
            # A refusal is an answer like any other: it must not come from a leader that is none any more, and
            # nobody may hear it before what it is based upon has been applied where it is heard.
            number = self._next_number()
            self.refusals += len(desk.refusals)
            self._held[number] = (node.last, desk.refusals)
            desk.refusals = []
            node.barrier(number, now)
        if self._fences and not desk.promised:
            for link, number in self._fences:
                link.send(encode(Fence(number, node.last)))
            self._fences.clear()

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _forward(self, link: Link, epoch: Epoch, first: int, requests: Sequence[bytes]) -> None:
        """In as many frames as they take. What fits into none can never reach the leader, so it is refused here."""
        tag, count = self.origin.tag, len(requests)
        if count <= REQUESTS_MAX and sum(map(len, requests)) + ITEM_BYTES_MAX * count <= self._body_bytes_max:
            link.send(encode(Forward(epoch, tag, first, tuple(requests))))
            return
        room, run, free = self._body_bytes_max - ITEM_BYTES_MAX, list[bytes](), 0
        for number, request in enumerate(requests, first):
            size = len(request) + ITEM_BYTES_MAX
            if run and (size > free or len(run) == REQUESTS_MAX):
                link.send(encode(Forward(epoch, tag, number - len(run), tuple(run))))
                run = []
            if not run:
                free = self._body_bytes_max
            if size > free:
                reason = (
                    f"the request has {len(request)} bytes; at most {room} fit into a frame (Limits.frame_bytes_max)"
                )
                self.origin.refused(self._applied, ((number, reason),))
                continue
            run.append(request)
            free -= size
        if run:
            link.send(encode(Forward(epoch, tag, first + count - len(run), tuple(run))))
        self.reached(self._applied)

    # -- what was heard ----------------------------------------------------------------------------

    def forwarded(self, link: Link, message: Forward) -> None:
        node = self._node
        if node.state is not State.LEADING or node.epoch != message.epoch:
            return  # it was meant for somebody who is gone
        if message.requests and not self.desk.put(
            Parcel(message.epoch, link, message.origin, message.first, message.requests)
        ):
            link.cut("more requests than a member may have outstanding")

    def fence_requested(self, link: Link, message: FenceRequest) -> None:
        """Answered at the end of the turn, when nothing prepared is without its place in the log."""
        self._fences.append((link, message.number))

    def fenced(self, link: Link, message: Fence) -> None:
        if self._way is not None and self._way[1] is link:
            self.origin.fenced(message.zxid)
            self.reached(self._applied)

    def refused(self, link: Link, message: Refusals) -> None:
        if self._way is not None and self._way[1] is link and message.epoch == self._way[0]:
            self.origin.refused(message.after, message.refused)
            self.reached(self._applied)

    def reconfigure_requested(self, link: Link, message: ReconfigureRequest, now: Millis) -> None:
        link.send(encode(self._change(message, now)))

    def reconfigure_replied(self, link: Link, message: ReconfigureReply) -> None:
        self.changes.replied(message)

    def link_lost(self, link: Link) -> None:
        if not link.dialled:
            self.desk.drop(link)
            self._fences = [(each, number) for each, number in self._fences if each is not link]

    # -- barriers ----------------------------------------------------------------------------------

    def barrier(self, answer: BarrierAnswer, ahead: bytes = b"") -> None:
        self.waiting.append((answer, ahead))

    def forget_barrier(self, answer: BarrierAnswer) -> None:
        for waiting in (self.waiting, *self._asked.values()):
            waiting[:] = [each for each in waiting if each[0] != answer]

    def barrier_done(self, number: int, zxid: Zxid | None) -> None:
        if number in self._asked:
            waiting = self._asked.pop(number)
            if zxid is None:
                self.waiting += waiting  # asked again in a later turn, of whoever leads then
                return
            self.barriers += 1
            for answer, _ in waiting:
                answer(None, None)
        elif number in self._held:
            after, refusals = self._held.pop(number)
            if zxid is None or self._way is None:
                return  # no leader any more: they will be asked again of the next
            for link, refused in by_link(refusals).items():
                refused = tuple((counter, reason[:REASON_CHARS_MAX]) for counter, reason in refused)
                if link is None:
                    self.origin.refused(after, refused)
                elif not link.over:
                    for start in range(0, len(refused), self._refusals_max):
                        part = refused[start : start + self._refusals_max]
                        link.send(encode(Refusals(self._way[0], after, part)))
            self.reached(self._applied)

    # -- asides ------------------------------------------------------------------------------------

    def aside(self, body: bytes) -> bool:
        """To the leader of the moment. False, and gone, when there is none."""
        if self._way is None:
            return False
        link = self._way[1]
        if link is None:
            self.hears(body)
        else:
            link.send(encode(Aside(body)))
        return True

    def heard(self, link: Link, message: Aside) -> None:
        if self._node.state is State.LEADING:
            self.hears(message.body)

    def notice(self, body: bytes) -> bool:
        """To all who follow and have the history. False, and gone, where nobody does because this is no leader."""
        if self._way is None or self._way[1] is not None:
            return False
        frame = encode(Notice(body))
        for sid in self._node.synced:
            link = self._links.accepted.get(sid)
            if link is not None:
                link.send(frame)
        return True

    def noticed(self, link: Link, message: Notice) -> None:
        if self._way is not None and self._way[1] is link:
            self.notices(message.body)

    # -- the end -----------------------------------------------------------------------------------

    def stop(self, error: Exception) -> None:
        self.changes.stop(error)
        for waiting in (self.waiting, *self._asked.values()):
            for answer, _ in waiting:
                answer(None, error)

    # -- what was applied --------------------------------------------------------------------------

    def reached(self, applied: Zxid) -> None:
        """The *machine* is there. Within a turn the node is ahead; going by its word, requests happened twice."""
        self._applied = applied
        self.desk.applied(applied)
        if self.origin.reached(applied):
            self.changes.history_reached(self._node.epoch)

    # -- membership --------------------------------------------------------------------------------

    def _change(self, request: ReconfigureRequest, now: Millis) -> ReconfigureReply:
        try:
            if self.desk.promised:
                raise Overloaded("transactions that were prepared before wait for their place: try again")
            ensemble = wanted(request, self._node.ensemble)
            return ReconfigureReply(request.number, self._node.reconfigure(ensemble, request.expect, now))
        except ZabError as error:
            return reply_of(request.number, error)


RELAYS: Final[dict[type[Any], Callable[[Requests, Link, Any, Millis], None]]] = {
    Forward: lambda requests, link, message, now: requests.forwarded(link, message),
    FenceRequest: lambda requests, link, message, now: requests.fence_requested(link, message),
    ReconfigureRequest: Requests.reconfigure_requested,
    Refusals: lambda requests, link, message, now: requests.refused(link, message),
    Fence: lambda requests, link, message, now: requests.fenced(link, message),
    ReconfigureReply: lambda requests, link, message, now: requests.reconfigure_replied(link, message),
    Aside: lambda requests, link, message, now: requests.heard(link, message),
    Notice: lambda requests, link, message, now: requests.noticed(link, message),
}
"""What the core never sees, by kind."""
