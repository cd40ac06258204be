"""Accepting connections within limits."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
import trio
import trio.testing

from zab.net import listener as listener_module
from zab.net.half_open import HalfOpen
from zab.net.listener import Accepted, ConnectionCounts, Limit, LimitedListener, ListenerLimits


class Lines:
    def __init__(self) -> None:
        self.events: list[str] = []

    def warn_rate_limited(self, event: str, key: object, /, **fields: object) -> None:
        self.events.append(event)


class Port:
    """A port that echoes. A connection is half-open until it has sent something."""

    def __init__(self, limits: ListenerLimits, counts: ConnectionCounts | None = None) -> None:
        self.limits = limits
        self.exceeded: list[Limit] = []
        self.log = Lines()
        self.listener = LimitedListener(
            "test", self.log, lambda: self.limits, self._serve, self._exceeded, counts=counts
        )
        self.number = 0

    def _exceeded(self, limit: Limit, host: str, peer: str) -> None:
        assert host == "127.0.0.1"
        assert peer.startswith("127.0.0.1:")
        self.exceeded.append(limit)

    async def _serve(self, accepted: Accepted) -> None:
        with accepted.half_open() as wait:
            while data := await accepted.stream.receive_some():
                wait.shown()
                await accepted.stream.send_all(data)
        await trio.aclose_forcefully(accepted.stream)

    async def dial(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.number)


@asynccontextmanager
async def listening(limits: ListenerLimits, counts: ConnectionCounts | None = None) -> AsyncIterator[Port]:
    port = Port(limits, counts)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port.number = listeners[0].socket.getsockname()[1]
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(port.listener.accept_from, listeners, nursery)
            yield port
            nursery.cancel_scope.cancel()


async def echoes(stream: trio.SocketStream) -> bool:
    try:
        await stream.send_all(b"a")
        return await stream.receive_some() == b"a"
    except trio.BrokenResourceError:
        return False


async def test_full_listener_refuses_while_all_connections_are_established() -> None:
    async with listening(ListenerLimits(connections_max=2)) as port:
        async with await port.dial() as one, await port.dial() as two:
            assert await echoes(one)
            assert await echoes(two)
            async with await port.dial() as three:
                assert not await echoes(three)
            assert port.exceeded == [Limit.CONNECTIONS]
            assert port.listener.count == 2
        while port.listener.count:
            await trio.sleep(0.001)
        async with await port.dial() as four:
            assert await echoes(four)


async def test_full_listener_drops_a_half_open_connection_for_a_newcomer() -> None:
    async with listening(ListenerLimits(connections_max=1)) as port, await port.dial() as silent:
        while not port.listener.count:
            await trio.sleep(0.001)
        async with await port.dial() as newcomer:
            assert await echoes(newcomer)
            assert await silent.receive_some() == b""
            assert port.exceeded == []


async def test_ports_that_share_counts_share_their_limits() -> None:
    counts = ConnectionCounts()
    async with (
        listening(ListenerLimits(connections_max=2), counts) as one,
        listening(ListenerLimits(connections_max=2), counts) as other,
    ):
        async with await one.dial() as first, await other.dial() as second:
            assert await echoes(first)
            assert await echoes(second)
            async with await one.dial() as third, await other.dial() as fourth:
                assert not await echoes(third)
                assert not await echoes(fourth)
            assert one.exceeded == other.exceeded == [Limit.CONNECTIONS]
            assert counts.total == 2
        while counts.total:
            await trio.sleep(0.001)
        assert not counts.by_host
        async with await one.dial() as silent, await other.dial() as fifth:
            assert await echoes(fifth)
            while counts.total < 2:
                await trio.sleep(0.001)
            async with await other.dial() as newcomer:  # in place of the half-open connection at the other port
                assert await echoes(newcomer)
                assert await silent.receive_some() == b""


async def test_limit_per_host_drops_no_half_open_connection() -> None:
    async with (
        listening(ListenerLimits(per_host_max=1)) as port,
        await port.dial() as silent,
        await port.dial() as newcomer,
    ):
        assert await newcomer.receive_some() == b""
        assert port.exceeded == [Limit.PER_HOST]
        assert await echoes(silent)


async def test_descriptors_beyond_the_limit_are_refused() -> None:
    async with listening(ListenerLimits(descriptors_max=0)) as port, await port.dial() as stream:
        assert await stream.receive_some() == b""
        assert port.exceeded == [Limit.DESCRIPTORS]
        port.limits = ListenerLimits()
        async with await port.dial() as another:
            assert await echoes(another), "limits are read for every connection"


async def test_burst_is_accepted_in_a_few_passes_of_the_loop() -> None:
    """A newcomer behind 200 silent connections must not wait for 200 passes."""
    port = Port(ListenerLimits())
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port.number = listeners[0].socket.getsockname()[1]
    silent = [await port.dial() for _ in range(200)]
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(port.listener.accept_from, listeners, nursery)
            passes = 0
            while port.listener.count < len(silent):
                passes += 1
                await trio.lowlevel.checkpoint()
            assert passes <= 20
            nursery.cancel_scope.cancel()
    for each in silent:
        await trio.aclose_forcefully(each)


async def test_burst_beyond_the_limit_of_descriptors_is_refused() -> None:
    port = Port(ListenerLimits(descriptors_max=0))
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port.number = listeners[0].socket.getsockname()[1]
    waiting = [await port.dial() for _ in range(20)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(port.listener.accept_from, listeners, nursery)
        with trio.fail_after(120):
            for stream in waiting:
                assert await stream.receive_some() == b""
                await stream.aclose()
        assert set(port.exceeded) == {Limit.DESCRIPTORS}
        assert port.listener.count == 0
        nursery.cancel_scope.cancel()


class Silent(trio.abc.Stream):
    """A stream that receives nothing. Like the system, it takes the lowest free number."""

    def __init__(self, numbers: set[int]) -> None:
        self.socket = self
        self._numbers = numbers
        self._number = next(number for number in count() if number not in numbers)
        numbers.add(self._number)

    def fileno(self) -> int:
        return self._number

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", self._number

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.sleep_forever()
        raise AssertionError

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        raise AssertionError

    async def wait_send_all_might_not_block(self) -> None:
        raise AssertionError

    async def aclose(self) -> None:
        self._numbers.discard(self._number)
        await trio.lowlevel.checkpoint()


async def test_silent_connections_never_exceed_the_limit_of_descriptors() -> None:
    """A dropped connection frees a low number. The next one gets it, but must not be admitted in addition."""
    port = Port(ListenerLimits(descriptors_max=100))
    numbers: set[int] = set()
    async with trio.open_nursery() as nursery:
        for _ in range(300):
            nursery.start_soon(port.listener._admit, Silent(numbers))
            await trio.testing.wait_all_tasks_blocked()
        assert 95 <= port.listener.count <= 100
        assert len(numbers) == port.listener.count
        nursery.cancel_scope.cancel()


async def test_one_half_open_connection_too_many_drops_the_oldest() -> None:
    async with listening(ListenerLimits(half_open_max=1)) as port, await port.dial() as oldest:
        while not port.listener.count:
            await trio.sleep(0.001)
        async with await port.dial() as newcomer:
            assert await oldest.receive_some() == b""
            assert await echoes(newcomer)
            assert port.exceeded == [Limit.HALF_OPEN]


async def test_listener_outlives_a_lack_of_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Exhausted(trio.abc.Listener[trio.SocketStream]):
        failures = 2

        async def accept(self) -> trio.SocketStream:
            await trio.lowlevel.checkpoint()
            if not self.failures:
                accepting.cancel()
                await trio.sleep_forever()
            self.failures -= 1
            raise OSError(errno.EMFILE, "too many open files")

        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()

    monkeypatch.setattr(listener_module, "EXHAUSTED_PAUSE_S", 0)
    port = Port(ListenerLimits())
    async with trio.open_nursery() as nursery:
        with trio.fail_after(120), trio.CancelScope() as accepting:
            await port.listener.accept_from([Exhausted()], nursery)
    assert port.log.events == ["cannot_accept"] * 2


async def test_handler_that_raises_leaves_nothing_open() -> None:
    async def fail(accepted: Accepted) -> None:
        raise ValueError("an error of ours")

    port = LimitedListener("test", Lines(), ListenerLimits, fail, lambda *_: None, lambda host: HalfOpen())
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    number = listeners[0].socket.getsockname()[1]
    with trio.fail_after(120), pytest.RaisesGroup(ValueError, flatten_subgroups=True):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(port.accept_from, listeners, nursery)
            stream = await trio.open_tcp_stream("127.0.0.1", number)
            async with stream:
                assert await stream.receive_some() == b""
    assert port.count == 0
