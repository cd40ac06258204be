"""The network between servers: an election channel that may lose messages, and learner links that deliver in order.

A link has two ends. Messages that are sent at one end arrive at the other in order, until the link breaks. Then each
end receives `LinkDown` at its own time, and no messages after it. A direction can be *blocked* (a partition: messages
wait, and the link breaks if the block lasts) or *clogged* (messages wait, and arrive in one burst).

Messages that are in transit when a link breaks are lost, or arrive before `LinkDown`. As with TCP, a receiver may read
data that arrived before the connection ended, even while the sender dials again. Once a successor of a link is
accepted, the network delivers no more messages of the former link, as `zab.core.node` requires of its drivers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from random import Random
from typing import Any, Final

from harness.faults import Timing
from harness.worlds.common import Common
from zab.core.messages import LinkDown, LinkUp, Message, Notification, Reachable, SnapChunk
from zab.core.zxid import ServerId


class Line:
    """One direction between two servers, with the effects of faults on it."""

    __slots__ = ("blocked", "bounds", "chance", "clogged", "later", "lossy", "stopped", "waiting")

    def __init__(self, chance: Callable[[], float]) -> None:
        self.chance = chance
        """The random generator of the sender."""
        self.blocked = self.clogged = self.stopped = 0
        self.later = 0
        """The additional delay of messages, in microseconds."""
        self.lossy = 0
        """The percentage of messages that is lost."""
        self.waiting: list[Notification] = []
        """The messages of the election channel that wait while the direction is clogged."""
        self.bounds: list[Bound] = []


class Link:
    __slots__ = ("acceptor", "broken", "dialler", "drains", "first")

    def __init__(self, dialling: Any, accepting: Any, up: Line, down: Line) -> None:
        self.broken = False
        self.drains = False
        """True if messages that were in transit when the link broke still arrive."""
        self.first: Message | None = None
        """The first message of the end that dialled."""
        self.dialler = End(self, dialling, accepting.id, True, up)
        self.acceptor = End(self, accepting, dialling.id, False, down)
        self.dialler.other = self.acceptor
        self.acceptor.other = self.dialler


class End:
    """One end of a link. It is open from `LinkUp` until its server receives `LinkDown` or hangs up."""

    __slots__ = ("dialled", "free_at", "held", "life", "line", "link", "open", "other", "owner", "peer")
    other: End

    def __init__(self, link: Link, owner: Any, peer: ServerId, dialled: bool, line: Line) -> None:
        self.link = link
        self.line = line
        """The direction into which this end sends."""
        self.owner = owner
        self.life = owner.life
        self.peer = peer
        self.dialled = dialled
        self.open = False
        self.free_at = 0
        """The arrival time of the last message sent to this end. Later messages may not arrive before it."""
        self.held: list[object] | None = None
        """The messages that wait while the direction to this end is stopped; None if none wait."""


class Bound:
    """The number of messages that may wait in a direction. The link is cut if there are more."""

    __slots__ = ("most", "when_cut")

    def __init__(self, most: int, when_cut: Callable[[], None]) -> None:
        self.most = most
        self.when_cut = when_cut


RESEND_US: Final = 40_000
"""The delay until a message that was lost on a link is sent again. Later messages wait for it."""

_GONE: Final = object()
"""A marker that an end sends behind its last message when it hangs up."""


class Network:
    def __init__(self, world: Common, timing: Timing, servers: Sequence[Any], seed: str) -> None:
        self._world = world
        self._servers = servers
        count = len(servers)
        self._random = [Random(f"{seed}/network/{number}").random for number in range(count)]
        self._links: list[list[Link | None]] = [[None] * count for _ in range(count)]
        """The newest link, by dialler and acceptor."""
        self.lines = [[Line(chance) for _ in range(count)] for chance in self._random]
        """The directions, by sender and receiver."""
        self._calls = 0
        self._delay_min = timing.delay_us_min
        self._delay_span = max(1, timing.delay_us_max - timing.delay_us_min)
        self._spike = timing.spike_percent / 100
        self._spike_max = timing.spike_us_max
        self._break_max = timing.break_ms_max * 1_000
        self.loss = timing.loss_percent / 100
        self.double = timing.double_percent / 100
        self._late = timing.late_percent / 100
        self.messages = 0
        """The number of messages sent so far, without the chunks of snapshots: settings determine how many they are."""
        self.slower = 1
        self.reordering: list[tuple[int, int]] = []
        """The percentage of notifications that are delayed, and their delay in microseconds, for each fault."""

    # -- time ----------------------------------------------------------------------------------------

    def _delay(self, source: int) -> int:
        """Draw the delay of a message, without the additional delay of its direction."""
        return self._takes(self._random[source])

    def _takes(self, chance: Callable[[], float]) -> int:
        delay = self._delay_min + int(chance() * self._delay_span)
        if self._spike and chance() < self._spike:
            delay += int(chance() * self._spike_max)
        return delay * self.slower

    def _patience(self, source: int) -> int:
        """Draw the time after which an unanswered attempt is given up."""
        return 1 + int(self._random[source]() * self._break_max)

    # -- the election channel --------------------------------------------------------------------------

    def tell(self, source: ServerId, target: ServerId, message: Notification) -> None:
        """Send a message on the election channel."""
        if target >= len(self._servers):
            return
        line = self.lines[source][target]
        if line.blocked:
            return
        if line.clogged:
            line.waiting.append(message)
            return
        self.messages += 1
        random = line.chance
        if self.loss and random() < self.loss:
            return
        if line.lossy and random() * 100 < line.lossy:
            return
        world = self._world
        at = world.now + self._takes(random) + line.later
        for percent, hold in self.reordering:
            if random() * 100 < percent:
                at += hold
        world.push(at, self._arrive, self._servers[target], (source, message))
        if self.double and random() < self.double:
            world.push(world.now + self._delay(source) * 4, self._arrive, self._servers[target], (source, message))

    def _arrive(self, server: Any, sent: tuple[ServerId, Notification]) -> None:
        if not server.up:
            return
        if server.paused:
            server.defer(self._arrive, server, sent)
            return
        server.receive(sent[0], sent[1])

    def _reach(self, server: Any, peer: ServerId) -> None:
        if not server.up or not self._servers[peer].up or self.lines[peer][server.id].blocked:
            return
        if server.paused:
            server.defer(self._reach, server, peer)
            return
        server.receive(peer, Reachable())

    def started(self, server: Any) -> None:
        """Open the election channels between a server that came up and all others."""
        for peer in self._servers[1:]:
            if peer is not server and peer.up:
                self._reopen(server, peer)

    def _reopen(self, one: Any, other: Any) -> None:
        push, now = self._world.push, self._world.now
        push(now + self._delay(one.id), self._reach, one, other.id)
        push(now + self._delay(other.id), self._reach, other, one.id)

    # -- learner links ---------------------------------------------------------------------------------

    def dial(self, server: Any, to: ServerId) -> None:
        self._calls += 1
        server.dialling[to] = self._calls
        at = self._world.now + self._delay(server.id)
        self._world.push(at, self._connect, server, (to, self._calls))

    def _connect(self, server: Any, call: tuple[ServerId, int]) -> None:
        to, serial = call
        if server.dialling.get(to) != serial:
            return
        world, me = self._world, server.id
        if to >= len(self._servers):
            world.push(world.now + self._delay(me), self._refuse, server, call)
            return
        target = self._servers[to]
        if self._separated(me, to):
            world.push(world.now + self._patience(me), self._refuse, server, call)
        elif not target.up:
            world.push(world.now + self._delay(me), self._refuse, server, call)
        else:
            link = self._links[me][to] = self._link(server, target)
            link.acceptor.free_at = world.now
            self._accept(link.acceptor, None)
            link.dialler.free_at = world.now + self._delay(to)
            world.push(link.dialler.free_at, self._connected, link.dialler, call)

    def _link(self, server: Any, target: Any) -> Link:
        lines = self.lines
        return Link(server, target, lines[server.id][target.id], lines[target.id][server.id])

    def _separated(self, one: ServerId, other: ServerId) -> bool:
        return bool(self.lines[one][other].blocked or self.lines[other][one].blocked)

    def _refuse(self, server: Any, call: tuple[ServerId, int]) -> None:
        to, serial = call
        if server.dialling.get(to) != serial:
            return
        if server.paused:
            server.defer(self._refuse, server, call)
            return
        del server.dialling[to]
        server.receive(to, LinkDown(dialled=True))

    def _accept(self, end: End, _: None) -> None:
        server = end.owner
        if server.life != end.life or end.link.broken:
            return
        if server.paused:
            server.defer(self._accept, end, None)
            return
        replaced = server.accepted.get(end.peer)
        if replaced is not None:
            replaced.open = False
        end.open = True
        server.accepted[end.peer] = end
        server.receive(end.peer, LinkUp(dialled=False))

    def _connected(self, end: End, call: tuple[ServerId, int]) -> None:
        server = end.owner
        to, serial = call
        if server.life != end.life:
            return
        if server.paused:
            server.defer(self._connected, end, call)
            return
        if server.dialling.get(to) != serial:
            self._pass(end, _GONE)  # the server hung up before it was connected
            return
        del server.dialling[to]
        if end.link.broken:
            server.receive(to, LinkDown(dialled=True))
            return
        end.open = True
        server.dialled[to] = end
        server.receive(to, LinkUp(dialled=True))

    def send(self, end: End | None, message: Message | bytes) -> bool:
        """Send a message. Return False if this end is not open: then the message is lost, as with a socket."""
        if end is None or not end.open:
            return False
        if type(message) is not SnapChunk:
            self.messages += 1
        self._pass(end, message)
        return True

    def _pass(self, end: End, message: object) -> None:
        link = end.link
        if link.broken:
            return
        other, line = end.other, end.line
        if link.first is None and end.dialled and message is not _GONE:
            link.first = message  # type: ignore[assignment]  # everything but _GONE is a message
        if other.held is not None:
            other.held.append(message)
            self._check_bounds(line, link, other.held)
            return
        world, chance = self._world, line.chance
        if line.stopped:
            other.held = [message]
            if line.blocked:
                world.push(world.now + self._patience(end.owner.id), self._give_up, other, other.held)
            return
        at = world.now + self._takes(chance) + line.later
        if line.lossy and chance() * 100 < line.lossy:
            at += RESEND_US
        if at < other.free_at:
            at = other.free_at
        else:
            other.free_at = at
        heappush(world.heap, (at, world.serial(), self._deliver, other, message))

    def _deliver(self, end: End, message: object) -> None:
        link = end.link
        if not end.open or (link.broken and not link.drains):
            if not link.broken and end.owner.paused and end.life == end.owner.life:
                end.owner.defer(self._deliver, end, message)  # behind the LinkUp that is deferred, too
            return
        server = end.owner
        if server.paused:
            server.defer(self._deliver, end, message)
            return
        if message is _GONE:
            self._down(end, None)
            return
        server.last_received_at[end.peer] = self._world.now
        server.receive(end.peer, message)

    def _give_up(self, end: End, held: list[object]) -> None:
        if end.held is held:
            self.break_link(end.link)

    def _down(self, end: End, _: None) -> None:
        server = end.owner
        if not end.open:
            return
        if server.paused:
            server.defer(self._down, end, None)
            return
        end.open = False
        server.receive(end.peer, LinkDown(end.dialled))

    def hang_up(self, server: Any, peer: ServerId, dialled: bool) -> None:
        """Close this end of a link. Earlier messages still arrive at the other end, and then its `LinkDown`."""
        if dialled:
            server.dialling.pop(peer, None)
        end = (server.dialled if dialled else server.accepted).get(peer)
        if end is not None and end.open:
            end.open = False
            self._pass(end, _GONE)

    def break_link(self, link: Link) -> None:
        """Break a link. Messages in transit are lost, or arrive before `LinkDown`."""
        if link.broken:
            return
        link.broken = True
        link.drains = bool(self._late) and self._random[link.dialler.owner.id]() < self._late
        for end in (link.dialler, link.acceptor):
            if end.open:
                wait = self._delay(end.owner.id)
                if end.other.line.blocked:
                    wait += self._patience(end.owner.id)
                at = self._world.now + wait
                self._world.push(max(at, end.free_at) if link.drains else at, self._down, end, None)

    def cut(self, server: Any) -> None:
        """Break all links of this server."""
        for link in self._links_of(server):
            self.break_link(link)

    def crashed(self, server: Any) -> None:
        """End the links of a crashed process, as if it had hung up, or as broken links."""
        for link in self._links_of(server):
            end = link.dialler if link.dialler.owner is server else link.acceptor
            end.open = False
            if self._random[server.id]() < 0.5:
                self._pass(end, _GONE)
            else:
                self.break_link(link)
        for end in (*server.dialled.values(), *server.accepted.values()):
            end.open = False  # also the ends of links that were replaced
        server.dialled.clear()
        server.accepted.clear()
        server.dialling.clear()

    def _links_of(self, server: Any) -> list[Link]:
        me = server.id
        row = self._links[me] + [links[me] for links in self._links]
        return [link for link in row if link is not None and not link.broken]

    def is_quiet(self, learner: Any, leader: Any) -> bool:
        """Return whether this learner is linked to this leader, and no message is due on the link."""
        link = self._links[learner.id][leader.id]
        if link is None or link.broken:
            return False
        now = self._world.now
        return all(end.open and end.held is None and end.free_at <= now for end in (link.dialler, link.acceptor))

    # -- faults ----------------------------------------------------------------------------------------

    def block(self, source: ServerId, target: ServerId) -> None:
        line = self.lines[source][target]
        line.blocked += 1
        line.stopped += 1

    def unblock(self, source: ServerId, target: ServerId) -> None:
        line = self.lines[source][target]
        line.blocked -= 1
        line.stopped -= 1
        self._flow(source, target)
        if not self._separated(source, target):
            one, other = self._servers[source], self._servers[target]
            if one.up and other.up:
                self._reopen(one, other)

    def clog(self, source: ServerId, target: ServerId) -> None:
        line = self.lines[source][target]
        line.clogged += 1
        line.stopped += 1

    def unclog(self, source: ServerId, target: ServerId) -> None:
        line = self.lines[source][target]
        line.clogged -= 1
        line.stopped -= 1
        self._flow(source, target)
        if not line.clogged:
            waiting, line.waiting = line.waiting, []
            for message in waiting:
                self.tell(source, target, message)

    def delay(self, source: ServerId, target: ServerId, more_us: int) -> None:
        self.lines[source][target].later += more_us

    def lose(self, source: ServerId, target: ServerId, percent: int) -> None:
        self.lines[source][target].lossy += percent

    def bound(self, source: ServerId, target: ServerId, most: int, when_cut: Callable[[], None]) -> None:
        """Let messages of `source` wait unread, and no more than `most` of them."""
        line = self.lines[source][target]
        line.bounds.append(Bound(most, when_cut))
        line.stopped += 1

    def unbound(self, source: ServerId, target: ServerId) -> None:
        line = self.lines[source][target]
        line.bounds.pop(0)
        line.stopped -= 1
        self._flow(source, target)

    def _check_bounds(self, line: Line, link: Link, held: list[object]) -> None:
        for bound in line.bounds:
            if len(held) > bound.most:
                bound.when_cut()
                self.break_link(link)
                return

    def double_links(self, server: Any) -> int:
        """Open each link that this server has accepted once more, and repeat the first message on it.

        The later messages are replies, and the new end has sent nothing to which they could reply. The server that
        dialled has no end of the new link. It loses the old link and dials again.
        """
        doubled = 0
        world = self._world
        for peer in list(server.accepted):
            end = server.accepted[peer]
            first = end.link.first
            if first is None or not end.open or end.link.broken or not end.other.open:
                continue
            doubled += 1
            copy = self._links[peer][server.id] = self._link(end.other.owner, server)
            self._accept(copy.acceptor, None)
            self.break_link(end.link)
            if copy.acceptor.open:
                server.receive(peer, first)
            world.push(world.now + self._patience(server.id), self._end_copy, copy, None)
        return doubled

    def _end_copy(self, copy: Link, _: None) -> None:
        self.break_link(copy)

    def _flow(self, source: ServerId, target: ServerId) -> None:
        """Send the waiting messages in order, if the direction is free."""
        if self.lines[source][target].stopped:
            return
        for link in (self._links[source][target], self._links[target][source]):
            if link is None:
                continue
            end = link.dialler if link.dialler.owner.id == source else link.acceptor
            held, end.other.held = end.other.held, None
            for message in held or ():
                self._pass(end, message)

    def heal(self) -> None:
        """End the effects of all faults."""
        count = len(self._servers)
        for source in range(1, count):
            for target in range(1, count):
                one, other = ServerId(source), ServerId(target)
                line = self.lines[source][target]
                while line.blocked:
                    self.unblock(one, other)
                while line.clogged:
                    self.unclog(one, other)
                while line.bounds:
                    self.unbound(one, other)
                line.later = line.lossy = 0
        self.reordering.clear()
        self.loss = self.double = 0.0
        self.slower = 1
