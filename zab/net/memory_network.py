"""An in-memory network for tests. Its streams deliver in order, or break; directions can be blocked or clogged.

Data sent in a blocked direction waits, as with TCP, and the connection breaks if the block lasts. In a clogged
direction data waits, too, but the connection does not break. Data in transit has no bound, so a sender does not wait,
unless `MemoryNetwork.limit` gave its direction a rate: then it waits while more than `WINDOW_US` is in transit.

Each end of a connection belongs to a process of a server, which has a positive number, or to another host, such as a
client, which has a negative one. Servers are named `s1`, `s2` and so on. The owner of the network provides the time and
a heap of events; a delivery is an event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, Protocol

import trio

from zab.net.wakeup import Wakeup

SYN_RETRY_S: Final = 0.05
WINDOW_US: Final = 100_000
"""A sender in a direction with a rate waits until all its data in transit will arrive within this time."""
SEGMENT_BYTES: Final = 1_460
RETRANSMIT_US: Final = 200_000
"""The time after which lost data is sent again."""
_EOF: Final = b""


class NetworkTiming(Protocol):
    """The delays of the network. Each is random within its bounds."""

    @property
    def delay_us_min(self) -> int: ...
    @property
    def delay_us_max(self) -> int: ...
    @property
    def spike_percent(self) -> int:
        """The share of data with an additional delay, of up to `spike_us_max`."""
        ...

    @property
    def spike_us_max(self) -> int: ...
    @property
    def break_ms_max(self) -> int:
        """The time after which a connection with a blocked direction breaks at the latest."""
        ...


class Events(Protocol):
    """The events of a simulation, in the order of their times, and its trace."""

    @property
    def now(self) -> int:
        """The time in microseconds."""
        ...

    def push(self, at: int, act: Callable[[Any, Any], None], one: Any, other: Any) -> None:
        """Call `act(one, other)` at this time."""
        ...

    def record(self, server: int, verb: str, other: int, what: object) -> None:
        """Add a delivery to the trace."""
        ...


class Host(Protocol):
    @property
    def id(self) -> int: ...


class StreamOwner(Protocol):
    """The owner of an end: a process of a server, or another host, which has a negative number."""

    @property
    def server(self) -> Host: ...
    @property
    def dead(self) -> bool: ...


class MemoryStream(trio.abc.HalfCloseableStream):
    """One end of a connection. `other` is the far end."""

    other: MemoryStream

    def __init__(self, net: MemoryNetwork, owner: StreamOwner) -> None:
        self.net = net
        self.owner = owner
        self.closed = self.broken = self.eof_sent = self.eof_received = False
        self.discards = False
        """True if arriving data is lost and no reset is sent."""
        self.free_at = 0
        """The arrival time of the last data sent to this end. Later data may not arrive before it."""
        self.held: list[bytes] = []
        """The data that arrived while this end's server was paused, or the direction to it was blocked or clogged."""
        self._received: deque[bytes] = deque()
        self._wakeup = Wakeup()

    @property
    def direction(self) -> tuple[int, int]:
        """Return the direction from the server of the far end to the server of this end."""
        return self.other.owner.server.id, self.owner.server.id

    # -- the stream --------------------------------------------------------------------------------

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self._check()
        if self.eof_sent:
            raise trio.ClosedResourceError("send_eof was called")
        if self.direction[::-1] in self.net.rates:
            for start in range(0, len(data), SEGMENT_BYTES):
                self._check()
                self.net.transmit(self.other, bytes(data[start : start + SEGMENT_BYTES]))
                await trio.sleep(max(0, self.other.free_at - self.net.now - WINDOW_US) / 1e6)
            return
        self.net.transmit(self.other, bytes(data))
        await trio.lowlevel.checkpoint()

    async def wait_send_all_might_not_block(self) -> None:
        self._check()
        await trio.lowlevel.checkpoint()

    async def send_eof(self) -> None:
        self._check()
        self._send_eof()
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        while True:
            self._check()
            if self._received:
                data = self._received.popleft()
                if max_bytes is not None and len(data) > max_bytes:
                    self._received.appendleft(data[max_bytes:])
                    data = data[:max_bytes]
                return data
            if self.eof_received:
                return b""
            await self._wakeup.wait()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if not self.closed:
            if not self.broken:
                self._send_eof()
            self.closed = True
            self.net.forget(self)
            self._wakeup.ring()

    def _check(self) -> None:
        if self.closed:
            raise trio.ClosedResourceError("this end is closed")
        if self.broken:
            raise trio.BrokenResourceError("the connection broke")

    def _send_eof(self) -> None:
        if not self.eof_sent:
            self.eof_sent = True
            self.net.transmit(self.other, _EOF)

    # -- for the network ---------------------------------------------------------------------------

    def on_data(self, data: bytes) -> None:
        if self.closed or self.broken:
            if data and not self.discards:
                self.net.reset(self.other)  # as TCP does
            return
        if data:
            self._received.append(data)
        else:
            self.eof_received = True
        self._wakeup.ring()

    def break_off(self) -> None:
        if not self.broken:
            self.broken = True
            self.held.clear()
            self._received.clear()
            self.net.forget(self)
            self._wakeup.ring()


class MemoryListener(trio.abc.Listener[MemoryStream]):
    def __init__(self, net: MemoryNetwork, place: tuple[str, int], owner: StreamOwner) -> None:
        self.owner = owner
        self._net = net
        self._place = place
        self.queue, self._came = trio.open_memory_channel[MemoryStream](float("inf"))

    async def accept(self) -> MemoryStream:
        return await self._came.receive()

    async def aclose(self) -> None:
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        if self._net.listeners.get(self._place) is self:
            del self._net.listeners[self._place]
        self._came.close()


class ProcessNetwork:
    """The `zab.net.network.Network` of one process of a server or broker, and its way to listen for clients."""

    def __init__(self, net: MemoryNetwork, owner: StreamOwner) -> None:
        self._net = net
        self._owner = owner

    async def connect(self, host: str, port: int) -> trio.abc.Stream:
        return await self._net.connect(self._owner, host, port)

    async def listen(self, host: str, port: int) -> Sequence[trio.abc.Listener[trio.abc.Stream]]:
        await trio.lowlevel.checkpoint()
        if (host, port) in self._net.listeners:
            raise OSError(98, f"address {host}:{port} is in use")
        listener = self._net.listeners[host, port] = MemoryListener(self._net, (host, port), self._owner)
        return [listener]

    async def listen_for_clients(
        self, host: str | None, port: int
    ) -> tuple[Sequence[trio.abc.Listener[trio.abc.Stream]], int]:
        assert host is not None, "servers have names here"
        return await self.listen(host, port), port


class MemoryNetwork:
    """The connections of all hosts, and the faults of their directions: `block`, `clog`, `cut` and so on."""

    def __init__(self, events: Events, timing: NetworkTiming, servers: int, seed: str) -> None:
        self.listeners: dict[tuple[str, int], MemoryListener] = {}
        self.slower = 1
        self.places: dict[str, int] = {}
        """The numbers of hosts that are not servers, by host name."""
        self._events = events
        self._seed = seed
        self._random = {number: Random(f"{seed}/network/{number}").random for number in range(servers + 1)}
        self._blocked: dict[tuple[int, int], int] = {}
        self._clogged: dict[tuple[int, int], int] = {}
        self.later = [[0] * (servers + 1) for _ in range(servers + 1)]
        """The additional delay of each direction, in microseconds."""
        self.rates: dict[tuple[int, int], int] = {}
        """The rate of a direction, in bytes per second and connection. A direction without an entry is unlimited."""
        self.lossy = [[0] * (servers + 1) for _ in range(servers + 1)]
        """The percentage of data in each direction that is lost and sent again."""
        self._paused: dict[int, list[tuple[MemoryStream, bytes]]] = {}
        """The data that each paused server has sent since its pause began: it leaves at the end of the pause."""
        self._ends: dict[MemoryStream, None] = {}
        """The ends of all open connections, in order of creation."""
        self._delay_min = timing.delay_us_min
        self._delay_span = max(1, timing.delay_us_max - timing.delay_us_min)
        self._spike = timing.spike_percent / 100
        self._spike_max = timing.spike_us_max
        self._break_max = timing.break_ms_max * 1_000

    @property
    def now(self) -> int:
        return self._events.now

    def _chance(self, source: int) -> Callable[[], float]:
        """Return the random generator of a host. Those of hosts that are not servers are made on first use."""
        found = self._random.get(source)
        if found is None:
            found = self._random[source] = Random(f"{self._seed}/network/{source}").random
        return found

    def _delay(self, source: int) -> int:
        random = self._chance(source)
        delay = self._delay_min + int(random() * self._delay_span)
        if self._spike and random() < self._spike:
            delay += int(random() * self._spike_max)
        return delay * self.slower

    # -- streams -----------------------------------------------------------------------------------

    async def connect(self, owner: StreamOwner, host: str, port: int) -> MemoryStream:
        target = self.places.get(host) or int(host[1:])
        ways = ((owner.server.id, target), (target, owner.server.id))
        while True:
            await trio.sleep(2 * self._delay(owner.server.id) / 1e6)
            if any(self._blocked.get(way) or self._clogged.get(way) or way[0] in self._paused for way in ways):
                await trio.sleep(SYN_RETRY_S)
                continue
            listener = self.listeners.get((host, port))
            if listener is None or listener.owner.dead:
                raise ConnectionRefusedError(111, f"no process listens at {host}:{port}")
            mine, theirs = MemoryStream(self, owner), MemoryStream(self, listener.owner)
            mine.other, theirs.other = theirs, mine
            self._ends[mine] = self._ends[theirs] = None
            listener.queue.send_nowait(theirs)
            return mine

    def transmit(self, to: MemoryStream, data: bytes) -> None:
        source, target = to.direction
        still = self._paused.get(source)
        if still is not None:
            still.append((to, data))
            return
        events = self._events
        at = events.now + self._delay(source)
        if source > 0 and target > 0:
            at += self.later[source][target]
            if self.lossy[source][target] and self._random[source]() * 100 < self.lossy[source][target]:
                at += RETRANSMIT_US
        to.free_at = max(to.free_at, at)
        rate = self.rates.get((source, target))
        if rate is not None:
            to.free_at += len(data) * 1_000_000 // rate
        events.push(to.free_at, self._arrive, to, data)

    def _arrive(self, to: MemoryStream, data: bytes) -> None:
        if to.held or self._is_shut(to):
            to.held.append(data)
        else:
            self._events.record(to.owner.server.id, "receives from", to.direction[0], data)
            to.on_data(data)

    def _is_shut(self, end: MemoryStream) -> bool:
        way = end.direction
        return bool(self._blocked.get(way) or self._clogged.get(way) or way[1] in self._paused)

    def forget(self, end: MemoryStream) -> None:
        self._ends.pop(end, None)

    def reset(self, end: MemoryStream) -> None:
        self._events.push(self._events.now + self._delay(end.direction[0]), self._break, end, None)

    def _break(self, end: MemoryStream, _: object) -> None:
        end.break_off()

    # -- faults ------------------------------------------------------------------------------------

    def block(self, source: int, target: int) -> None:
        self._blocked[source, target] = self._blocked.get((source, target), 0) + 1
        for end in [end for end in self._ends if end.direction == (source, target)]:
            patience = 1 + int(self._chance(source)() * self._break_max)
            self._events.push(self._events.now + patience, self._give_up, end, self._blocked[source, target])

    def _give_up(self, end: MemoryStream, _: object) -> None:
        if self._blocked.get(end.direction):
            end.break_off()
            end.other.break_off()

    def unblock(self, source: int, target: int) -> None:
        self._less(self._blocked, source, target)

    def clog(self, source: int, target: int) -> None:
        self._clogged[source, target] = self._clogged.get((source, target), 0) + 1

    def unclog(self, source: int, target: int) -> None:
        self._less(self._clogged, source, target)

    def delay(self, source: int, target: int, more_us: int) -> None:
        self.later[source][target] += more_us

    def limit(self, source: int, target: int, bytes_per_s: int) -> None:
        self.rates[source, target] = bytes_per_s

    def lose(self, source: int, target: int, percent: int) -> None:
        self.lossy[source][target] += percent

    def _less(self, table: dict[tuple[int, int], int], source: int, target: int) -> None:
        way = (source, target)
        table[way] = max(0, table.get(way, 0) - 1)
        self._release()

    def _release(self) -> None:
        for end in [end for end in self._ends if end.held]:
            if not self._is_shut(end):
                held, end.held = end.held, []
                for data in held:
                    end.on_data(data)

    def pause(self, server: int) -> None:
        self._paused[server] = []

    def resume(self, server: int) -> None:
        for to, data in self._paused.pop(server, []):
            self.transmit(to, data)
        self._release()

    def cut(self, server: Any) -> None:
        for end in [end for end in self._ends if server.id in end.direction]:
            end.break_off()

    def cut_off(self, client: StreamOwner) -> None:
        """Break the connections of a client. The servers receive resets after the usual delay."""
        for end in [end for end in self._ends if end.owner is client]:
            end.break_off()
            self.reset(end.other)

    def abandon(self, client: StreamOwner, after_us: int) -> None:
        """Break a client's connections as if it had changed its network: the servers notice this after `after_us`."""
        for end in [end for end in self._ends if end.owner is client]:
            end.discards = True
            end.break_off()
            self._events.push(self._events.now + after_us, self._break, end.other, None)

    def count_open(self, owner: StreamOwner) -> int:
        """Return the number of open ends and listeners of a process."""
        listeners = [each for each in self.listeners.values() if each.owner is owner]
        return len(listeners) + sum(end.owner is owner for end in self._ends)

    def crashed(self, owner: StreamOwner) -> None:
        """Remove the ends and listeners of a crashed process. The far ends receive resets after the usual delay."""
        self._paused.pop(owner.server.id, None)
        for place, listener in list(self.listeners.items()):
            if listener.owner is owner:
                del self.listeners[place]
        for end in [end for end in self._ends if end.owner is owner]:
            end.break_off()
            self.reset(end.other)

    def heal(self) -> None:
        self._blocked.clear()
        self._clogged.clear()
        for row in (*self.later, *self.lossy):
            row[:] = [0] * len(row)
        self.rates.clear()
        self.slower = 1
        self._release()
