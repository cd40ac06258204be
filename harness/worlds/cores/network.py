"""The network between servers: an election channel that promises nothing, and learner links that never have a gap.

A link is two ends. What is said at one end arrives at the other in order, or not at all because the link
broke; then both ends are told, each at its own time, and nothing of it arrives any more. A direction can
be *blocked* (a partition: what is said waits, and the link breaks if that lasts) or *clogged* (what is
said waits, and comes in one burst).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from zab.core.messages import LinkDown, LinkUp, Message, Notification, Reachable
from zab.core.zxid import ServerId

if TYPE_CHECKING:
    from harness.faults import Timing
    from harness.worlds.cores.server import Server
    from harness.worlds.cores.world import World


class Link:
    __slots__ = ("acceptor", "broken", "dialler", "first")

    def __init__(self, dialling: Server, accepting: Server) -> None:
        self.broken = False
        self.first: Message | None = None
        """What the one who dialled said first."""
        self.dialler = End(self, dialling, accepting.id, True)
        self.acceptor = End(self, accepting, dialling.id, False)
        self.dialler.other = self.acceptor
        self.acceptor.other = self.dialler


class End:
    """What one server has of a link. It opens with `LinkUp`, and is open until it is told or hangs up."""

    __slots__ = ("dialled", "free_at", "held", "life", "link", "open", "other", "owner", "peer")
    other: End

    def __init__(self, link: Link, owner: Server, peer: ServerId, dialled: bool) -> None:
        self.link = link
        self.owner = owner
        self.life = owner.life
        self.peer = peer
        self.dialled = dialled
        self.open = False
        self.free_at = 0
        """Nothing may arrive here before this time, because something said earlier arrives then."""
        self.held: list[object] | None = None
        """What waits for the direction towards this end to be unblocked."""


class Bound:
    """How many words may wait in a direction. The link is cut when there are more."""

    __slots__ = ("most", "when_cut")

    def __init__(self, most: int, when_cut: Callable[[], None]) -> None:
        self.most = most
        self.when_cut = when_cut


SAID_AGAIN_US: Final = 40_000
"""After this long a word that was lost on a stream is said again; what follows it waits."""

_GONE: Final = object()
"""Travels like a message, behind all others: the other end hung up."""


class Network:
    def __init__(self, world: World, timing: Timing, servers: list[Server], seed: str) -> None:
        self._world = world
        self._servers = servers
        count = len(servers)
        self._random = [Random(f"{seed}/network/{number}").random for number in range(count)]
        self._links: list[list[Link | None]] = [[None] * count for _ in range(count)]
        """By dialler and acceptor; a new link takes the place of the old."""
        self._blocked = [[0] * count for _ in range(count)]
        self._clogged = [[0] * count for _ in range(count)]
        self._stopped = [[0] * count for _ in range(count)]
        self._waiting: dict[tuple[int, int], list[Notification]] = {}
        self._serial = 0
        self._delay_min = timing.delay_us_min
        self._delay_span = max(1, timing.delay_us_max - timing.delay_us_min)
        self._spike = timing.spike_percent / 100
        self._spike_max = timing.spike_us_max
        self._break_max = timing.break_ms_max * 1_000
        self.loss = timing.loss_percent / 100
        self.double = timing.double_percent / 100
        self.messages = 0
        self.slower = 1
        self.later = [[0] * count for _ in range(count)]
        """Microseconds that words in a direction take longer."""
        self.lossy = [[0] * count for _ in range(count)]
        """Percent of the words in a direction that are lost."""
        self.reordering: list[tuple[int, int]] = []
        """Percent of the words on the election channel that are held back, and for how many microseconds."""
        self._bounds: dict[tuple[int, int], list[Bound]] = {}

    # -- time ----------------------------------------------------------------------------------------

    def _delay(self, source: int, target: int = 0) -> int:
        random = self._random[source]
        delay = self._delay_min + int(random() * self._delay_span)
        if self._spike and random() < self._spike:
            delay += int(random() * self._spike_max)
        return delay * self.slower + self.later[source][target]

    def _patience(self, source: int) -> int:
        """How long it takes until something that gets no answer is given up."""
        return 1 + int(self._random[source]() * self._break_max)

    # -- the election channel --------------------------------------------------------------------------

    def tell(self, source: ServerId, target: ServerId, message: Notification) -> None:
        if target >= len(self._servers) or self._blocked[source][target]:
            return
        if self._clogged[source][target]:
            self._waiting.setdefault((source, target), []).append(message)
            return
        self.messages += 1
        random = self._random[source]
        if self.loss and random() < self.loss:
            return
        if self.lossy[source][target] and random() * 100 < self.lossy[source][target]:
            return
        world = self._world
        at = world.now + self._delay(source, target)
        for percent, hold in self.reordering:
            if random() * 100 < percent:
                at += hold
        world.push(at, self._arrive, self._servers[target], (source, message))
        if self.double and random() < self.double:
            world.push(world.now + self._delay(source) * 4, self._arrive, self._servers[target], (source, message))

    def _arrive(self, server: Server, said: tuple[ServerId, Notification]) -> None:
        if not server.up:
            return
        if server.paused:
            server.backlog.append((self._arrive, server, said))
            return
        server.hear(said[0], said[1])

    def _reach(self, server: Server, peer: ServerId) -> None:
        if not server.up or not self._servers[peer].up or self._blocked[peer][server.id]:
            return
        if server.paused:
            server.backlog.append((self._reach, server, peer))
            return
        server.hear(peer, Reachable())

    def started(self, server: Server) -> None:
        """A server came up: the election channels between it and everybody open."""
        for peer in self._servers[1:]:
            if peer is not server and peer.up:
                self._reopen(server, peer)

    def _reopen(self, one: Server, other: Server) -> None:
        push, now = self._world.push, self._world.now
        push(now + self._delay(one.id), self._reach, one, other.id)
        push(now + self._delay(other.id), self._reach, other, one.id)

    # -- learner links ---------------------------------------------------------------------------------

    def dial(self, server: Server, to: ServerId) -> None:
        self._serial += 1
        server.dialling[to] = self._serial
        at = self._world.now + self._delay(server.id)
        self._world.push(at, self._connect, server, (to, self._serial))

    def _connect(self, server: Server, call: tuple[ServerId, int]) -> None:
        to, serial = call
        if server.dialling.get(to) != serial:
            return
        world, me = self._world, server.id
        if to >= len(self._servers):
            world.push(world.now + self._delay(me), self._refuse, server, call)
            return
        target = self._servers[to]
        if self._blocked[me][to] or self._blocked[to][me]:
            world.push(world.now + self._patience(me), self._refuse, server, call)
        elif not target.up:
            world.push(world.now + self._delay(me), self._refuse, server, call)
        else:
            link = Link(server, target)
            self._links[me][to] = link
            link.acceptor.free_at = world.now
            self._accept(link.acceptor, None)
            link.dialler.free_at = world.now + self._delay(to)
            world.push(link.dialler.free_at, self._connected, link.dialler, call)

    def _refuse(self, server: Server, call: tuple[ServerId, int]) -> None:
        to, serial = call
        if server.dialling.get(to) != serial:
            return
        if server.paused:
            server.backlog.append((self._refuse, server, call))
            return
        del server.dialling[to]
        server.hear(to, LinkDown(dialled=True))

    def _accept(self, end: End, _: None) -> None:
        server = end.owner
        if server.life != end.life or end.link.broken:
            return
        if server.paused:
            server.backlog.append((self._accept, end, None))
            return
        replaced = server.accepted.get(end.peer)
        if replaced is not None:
            replaced.open = False
        end.open = True
        server.accepted[end.peer] = end
        server.hear(end.peer, LinkUp(dialled=False))

    def _connected(self, end: End, call: tuple[ServerId, int]) -> None:
        server = end.owner
        to, serial = call
        if server.life != end.life:
            return
        if server.paused:
            server.backlog.append((self._connected, end, call))
            return
        if server.dialling.get(to) != serial:
            self._pass(end, _GONE)  # it hung up before it was answered
            return
        del server.dialling[to]
        if end.link.broken:
            server.hear(to, LinkDown(dialled=True))
            return
        end.open = True
        server.dialled[to] = end
        server.hear(to, LinkUp(dialled=True))

    def send(self, end: End | None, message: Message | bytes) -> bool:
        """False when there is no such link (any more): then what was said is lost, as it would be in a socket."""
        if end is None or not end.open:
            return False
        self.messages += 1
        self._pass(end, message)
        return True

    def _pass(self, end: End, message: object) -> None:
        link = end.link
        if link.broken:
            return
        other = end.other
        source = end.owner.id
        if link.first is None and end.dialled and message is not _GONE:
            link.first = message  # type: ignore[assignment]  # what else is passed is a message
        if other.held is not None:
            other.held.append(message)
            self._check_bounds(source, end.peer, link, other.held)
            return
        world = self._world
        if self._stopped[source][end.peer]:
            other.held = [message]
            if self._blocked[source][end.peer]:
                world.push(world.now + self._patience(source), self._give_up, other, other.held)
            return
        peer = end.peer
        at = world.now + self._delay(source, peer)
        lossy = self.lossy[source][peer]
        if lossy and self._random[source]() * 100 < lossy:
            at += SAID_AGAIN_US
        if at < other.free_at:
            at = other.free_at
        else:
            other.free_at = at
        world.push(at, self._deliver, other, message)

    def _deliver(self, end: End, message: object) -> None:
        if not end.open or end.link.broken:
            if not end.link.broken and end.owner.paused and end.life == end.owner.life:
                end.owner.backlog.append((self._deliver, end, message))  # behind the LinkUp that waits there
            return
        server = end.owner
        if server.paused:
            server.backlog.append((self._deliver, end, message))
            return
        if message is _GONE:
            self._down(end, None)
            return
        server.heard_at[end.peer] = self._world.now
        server.hear(end.peer, message)  # type: ignore[arg-type]  # what else is passed is a message

    def _give_up(self, end: End, held: list[object]) -> None:
        if end.held is held:
            self.break_link(end.link)

    def _down(self, end: End, _: None) -> None:
        server = end.owner
        if not end.open:
            return
        if server.paused:
            server.backlog.append((self._down, end, None))
            return
        end.open = False
        server.hear(end.peer, LinkDown(end.dialled))

    def hang_up(self, server: Server, peer: ServerId, dialled: bool) -> None:
        """Nothing more is heard at this end; what was said before still goes out, and then that it is over."""
        if dialled:
            server.dialling.pop(peer, None)
        end = (server.dialled if dialled else server.accepted).get(peer)
        if end is not None and end.open:
            end.open = False
            self._pass(end, _GONE)

    def break_link(self, link: Link) -> None:
        """What is under way is lost; each end learns of it at its own time."""
        if link.broken:
            return
        link.broken = True
        for end in (link.dialler, link.acceptor):
            if end.open:
                wait = self._delay(end.owner.id)
                if self._blocked[end.peer][end.owner.id]:
                    wait += self._patience(end.owner.id)
                self._world.push(self._world.now + wait, self._down, end, None)

    def cut(self, server: Server) -> None:
        """All links of this server break."""
        for link in self._links_of(server):
            self.break_link(link)

    def crashed(self, server: Server) -> None:
        """The process is gone; its peers see its links end, some after what was under way, some at once, some late."""
        for link in self._links_of(server):
            end = link.dialler if link.dialler.owner is server else link.acceptor
            end.open = False
            if self._random[server.id]() < 0.5:
                self._pass(end, _GONE)
            else:
                self.break_link(link)
        for end in (*server.dialled.values(), *server.accepted.values()):
            end.open = False  # also those of links that others have replaced already
        server.dialled.clear()
        server.accepted.clear()
        server.dialling.clear()

    def _links_of(self, server: Server) -> list[Link]:
        me = server.id
        row = self._links[me] + [links[me] for links in self._links]
        return [link for link in row if link is not None and not link.broken]

    # -- faults ----------------------------------------------------------------------------------------

    def block(self, source: ServerId, target: ServerId) -> None:
        self._blocked[source][target] += 1
        self._stopped[source][target] += 1

    def unblock(self, source: ServerId, target: ServerId) -> None:
        self._blocked[source][target] -= 1
        self._stopped[source][target] -= 1
        self._flow(source, target)
        if not self._blocked[source][target] and not self._blocked[target][source]:
            one, other = self._servers[source], self._servers[target]
            if one.up and other.up:
                self._reopen(one, other)

    def clog(self, source: ServerId, target: ServerId) -> None:
        self._clogged[source][target] += 1
        self._stopped[source][target] += 1

    def unclog(self, source: ServerId, target: ServerId) -> None:
        self._clogged[source][target] -= 1
        self._stopped[source][target] -= 1
        self._flow(source, target)
        if not self._clogged[source][target]:
            for message in self._waiting.pop((source, target), ()):
                self.tell(source, target, message)

    def bound(self, source: ServerId, target: ServerId, most: int, when_cut: Callable[[], None]) -> None:
        """What `source` says is not read, and no more than `most` of it may wait."""
        self._bounds.setdefault((source, target), []).append(Bound(most, when_cut))
        self._stopped[source][target] += 1

    def unbound(self, source: ServerId, target: ServerId) -> None:
        self._bounds[source, target].pop(0)
        self._stopped[source][target] -= 1
        self._flow(source, target)

    def _check_bounds(self, source: ServerId, target: ServerId, link: Link, held: list[object]) -> None:
        for bound in self._bounds.get((source, target), ()):
            if len(held) > bound.most:
                bound.when_cut()
                self.break_link(link)
                return

    def double_links(self, server: Server) -> int:
        """Each link that this server has accepted is opened once more, and the first word on it is said again.

        The rest of what was said answered what had been heard, and cannot be said to somebody who has not spoken. The
        one who dialled knows nothing of the new link, loses the old one, and dials again.
        """
        doubled = 0
        world = self._world
        for peer in list(server.accepted):
            end = server.accepted[peer]
            first = end.link.first
            if first is None or not end.open or end.link.broken or not end.other.open:
                continue
            doubled += 1
            copy = Link(end.other.owner, server)
            self._links[peer][server.id] = copy
            self._accept(copy.acceptor, None)
            self.break_link(end.link)
            if copy.acceptor.open:
                server.hear(peer, first)
            world.push(world.now + self._patience(server.id), self._end_copy, copy, None)
        return doubled

    def _end_copy(self, copy: Link, _: None) -> None:
        self.break_link(copy)

    def _flow(self, source: ServerId, target: ServerId) -> None:
        """The direction is free: what waited goes on its way, in order."""
        if self._stopped[source][target]:
            return
        for link in (self._links[source][target], self._links[target][source]):
            if link is None:
                continue
            end = link.dialler if link.dialler.owner.id == source else link.acceptor
            held, end.other.held = end.other.held, None
            for message in held or ():
                self._pass(end, message)

    def heal(self) -> None:
        """Everything that was blocked or clogged is free, and the election channel loses nothing any more."""
        count = len(self._servers)
        for source in range(1, count):
            for target in range(1, count):
                one, other = ServerId(source), ServerId(target)
                while self._blocked[source][target]:
                    self.unblock(one, other)
                while self._clogged[source][target]:
                    self.unclog(one, other)
                while self._bounds.get((one, other)):
                    self.unbound(one, other)
                self.later[source][target] = self.lossy[source][target] = 0
        self.reordering.clear()
        self.loss = self.double = 0.0
        self.slower = 1
