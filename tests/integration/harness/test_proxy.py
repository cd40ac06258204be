"""The proxy between two ends: blocked data waits, in one direction or in both; a cut breaks both ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from harness.worlds.processes.proxy import Fabric, Proxy

ONE, TWO = 1, 2
SOON_S = 0.05
"""The time in which an unblocked byte arrives on loopback."""


class Link:
    """Connections from one end to the other through the proxy."""

    def __init__(self, fabric: Fabric, proxy: Proxy, address: tuple[str, int]) -> None:
        self.fabric = fabric
        self.proxy = proxy
        self.address = address
        self.streams: list[trio.SocketStream] = []
        self._accepts, self.accepted = trio.open_memory_channel[trio.SocketStream](9)

    async def take(self, stream: trio.SocketStream) -> None:
        self.streams.append(stream)
        await self._accepts.send(stream)
        await trio.sleep_forever()

    async def dial(self) -> trio.SocketStream:
        self.streams.append(await trio.open_tcp_stream(*self.address))
        return self.streams[-1]

    async def both(self) -> tuple[trio.SocketStream, trio.SocketStream]:
        one = await self.dial()
        return one, await self.accepted.receive()


@asynccontextmanager
async def linked(*, lossy: bool = False) -> AsyncIterator[Link]:
    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            fabric = Fabric(Random(1))
            listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
            proxy = Proxy(fabric, ONE, TWO, listeners[0].socket.getsockname()[:2], lossy=lossy)
            link = Link(fabric, proxy, await proxy.listen("127.0.0.1"))
            nursery.start_soon(trio.serve_listeners, link.take, listeners)
            nursery.start_soon(proxy.run)
            yield link
            for stream in link.streams:
                await trio.aclose_forcefully(stream)
            nursery.cancel_scope.cancel()


async def hears(stream: trio.SocketStream) -> bytes | None:
    """Return the received data, or None if neither data nor the end arrives soon."""
    with trio.move_on_after(SOON_S):
        return bytes(await stream.receive_some())
    return None


async def is_broken(stream: trio.SocketStream) -> bool:
    try:
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:
        return True


async def test_both_directions_carry_data() -> None:
    async with linked() as link:
        one, two = await link.both()
        await one.send_all(b"question")
        assert await two.receive_some() == b"question"
        await two.send_all(b"answer")
        assert await one.receive_some() == b"answer"


async def test_blocked_direction_holds_data_back_and_the_other_one_works() -> None:
    async with linked() as link:
        one, two = await link.both()
        link.fabric.block([(ONE, TWO)])
        await one.send_all(b"late")
        assert await hears(two) is None
        await two.send_all(b"now")
        assert await one.receive_some() == b"now"
        link.fabric.unblock([(ONE, TWO)])
        assert await two.receive_some() == b"late"


async def test_direction_blocked_twice_opens_after_two_unblocks() -> None:
    async with linked() as link:
        one, two = await link.both()
        link.fabric.block([(ONE, TWO)])
        link.fabric.block([(ONE, TWO)])
        link.fabric.unblock([(ONE, TWO)])
        await one.send_all(b"late")
        assert await hears(two) is None
        link.fabric.unblock([(ONE, TWO)])
        assert await two.receive_some() == b"late"


async def test_blocked_direction_holds_back_the_close() -> None:
    async with linked() as link:
        one, two = await link.both()
        link.fabric.block([(ONE, TWO)])
        await one.aclose()
        assert await hears(two) is None
        link.fabric.heal()
        assert await is_broken(two)


@pytest.mark.parametrize("blocked", [(ONE, TWO), (TWO, ONE)])
async def test_new_connection_needs_both_directions(blocked: tuple[int, int]) -> None:
    async with linked() as link:
        link.fabric.block([blocked])
        one = await link.dial()
        await one.send_all(b"hello")
        with trio.move_on_after(SOON_S) as patience:
            await link.accepted.receive()
        assert patience.cancelled_caught
        link.fabric.heal()
        two = await link.accepted.receive()
        assert await two.receive_some() == b"hello"


async def test_closed_client_is_not_connected_to_the_other_end() -> None:
    async with linked() as link:
        link.fabric.block([(ONE, TWO)])
        gone = await link.dial()
        await gone.send_all(b"too late")
        await gone.aclose()
        await wait_all_tasks_blocked(SOON_S)  # the proxy has seen it
        link.fabric.heal()
        one, two = await link.both()
        await one.send_all(b"hello")
        assert await two.receive_some() == b"hello"


async def test_cut_breaks_both_ends_and_a_new_connection_works() -> None:
    async with linked() as link:
        one, two = await link.both()
        assert link.fabric.cut(TWO) == 1
        assert await is_broken(one)
        assert await is_broken(two)
        one, two = await link.both()
        await one.send_all(b"again")
        assert await two.receive_some() == b"again"


async def test_loss_breaks_only_lossy_connections() -> None:
    async with linked(lossy=True) as link:
        one, two = await link.both()
        link.fabric.loss = 1.0
        await one.send_all(b"lost")
        assert await is_broken(two)
    async with linked(lossy=False) as link:
        one, two = await link.both()
        link.fabric.loss = 1.0
        await one.send_all(b"kept")
        assert await two.receive_some() == b"kept"


async def test_delays_add_up_and_end_with_heal() -> None:
    fabric = Fabric(Random(1))
    fabric.slow(ONE, TWO, 0.2)
    fabric.delay_s = 0.1
    assert fabric.delay(ONE, TWO) == pytest.approx(0.3)
    assert fabric.delay(TWO, ONE) == pytest.approx(0.1)
    fabric.heal()
    assert fabric.delay(ONE, TWO) == 0


async def test_retargeted_proxy_breaks_its_connections() -> None:
    async with linked() as link:
        one, two = await link.both()
        link.proxy.set_target(TWO, None)
        assert await is_broken(one)
        assert await is_broken(two)
        assert await is_broken(await link.dial())


async def test_connection_ends_if_the_target_does_not_listen() -> None:
    async with linked() as link:
        link.proxy.set_target(TWO, ("127.0.0.1", 1))
        assert await is_broken(await link.dial())
