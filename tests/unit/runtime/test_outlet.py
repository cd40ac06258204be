"""What leaves on a connection: in one go where the system takes it, and never out of order."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from zab.runtime.coordination.outlet import Outlet


def pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    return trio.SocketStream(trio.socket.from_stdlib_socket(left)), trio.SocketStream(
        trio.socket.from_stdlib_socket(right)
    )


async def heard(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        data += await stream.receive_some()
    return data


async def test_all_that_gathered_leaves_in_one_go() -> None:
    here, there = pair()
    async with here, there:
        outlet = Outlet(here)
        assert outlet.flush()
        for frame in (b"one,", b"two,", b"three"):
            outlet.put(frame)
        assert (outlet.bytes, outlet.sent, len(outlet.frames)) == (13, 0, 3)
        assert outlet.flush()
        assert (outlet.bytes, outlet.sent, outlet.frames) == (0, 3, [])
        assert await there.receive_some() == b"one,two,three"


async def test_what_is_not_taken_at_once_follows_in_order() -> None:
    here, there = pair()
    async with here, there, trio.open_nursery() as nursery:
        outlet = Outlet(here)
        frames = [bytes([number]) * 100_000 for number in range(3)]
        outlet.put(frames[0])
        outlet.put(frames[1])
        assert not outlet.flush()
        assert 0 < outlet.bytes < 200_000
        nursery.start_soon(outlet.drain)
        await trio.testing.wait_all_tasks_blocked()
        outlet.put(frames[2])
        assert not outlet.flush(), "another one is being sent"
        assert await heard(there, 300_000) == b"".join(frames)
        await outlet.room.wait()
        while outlet.bytes:
            await trio.lowlevel.checkpoint()
        assert outlet.sent == 3


async def test_any_stream_will_do() -> None:
    here, there = trio.testing.memory_stream_pair()
    outlet = Outlet(here)
    outlet.put(b"frame")
    assert not outlet.flush()
    await outlet.drain()
    assert await there.receive_some(100) == b"frame"
    assert (outlet.bytes, outlet.sent) == (0, 1)


async def test_a_broken_connection_is_said_to_be() -> None:
    here, there = pair()
    async with here:
        await there.aclose()
        outlet = Outlet(here)
        outlet.put(b"frame")
        with pytest.raises(OSError, match="pipe"):
            outlet.flush()
